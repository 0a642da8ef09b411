//! The program behind `angara whatif`.
#![forbid(unsafe_code)]

fn main() {
    angara_commands_whatif::main()
}
