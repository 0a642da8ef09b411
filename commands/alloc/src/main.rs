//! The program behind `angara alloc`.
#![forbid(unsafe_code)]

fn main() {
    angara_commands_alloc::main()
}
