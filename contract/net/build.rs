//! Does nothing. Only a package that has such a program can name packages that macros are built from; see `Cargo.toml`.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
