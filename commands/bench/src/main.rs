//! The program behind `angara bench`.
#![forbid(unsafe_code)]

fn main() {
    angara_commands_bench::main()
}
