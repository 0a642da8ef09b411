//! `oshcc` and, when called by that name, `oshc++`: the C and C++ compilers with the flags an
//! OpenSHMEM program needs.
#![forbid(unsafe_code)]

fn main() {
    angara_cli::main_oshcc()
}
