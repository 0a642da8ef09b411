//! The program behind `angara verbs`.
#![forbid(unsafe_code)]

fn main() {
    angara_commands_verbs::main()
}
