//! The program behind `angara top`.
#![forbid(unsafe_code)]

fn main() {
    angara_commands_top::main()
}
