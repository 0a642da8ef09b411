//! The `angara` command. Everything is in the library; see `angara --help`.
#![forbid(unsafe_code)]

fn main() {
    angara_cli::main_angara()
}
