//! The program behind `angara sim` and `angara plan`.
#![forbid(unsafe_code)]

fn main() {
    angara_commands_sim::main()
}
