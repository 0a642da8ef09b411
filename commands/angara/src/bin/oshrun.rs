//! `oshrun`: the launcher name the OpenSHMEM specification recommends. The same as `angara run`.
#![forbid(unsafe_code)]

fn main() {
    angara_cli::main_oshrun()
}
