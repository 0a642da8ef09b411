//! Programs ask for the functions of libibverbs with versions (`ibv_open_device@IBVERBS_1.1`), which a linker gives by a version
//! script. rustc hands the linker a script of its own for each `cdylib`, without versions, and no linker takes two of these that
//! name the same symbols. For a binary it has none: so what programs load is a binary by Cargo's books, which the linker is told
//! to make a shared library.

use std::{env, fs, path::Path};

fn main() -> Result<(), String> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=exports.map");
    let out = env::var("OUT_DIR").map_err(|_| "OUT_DIR is not set: run by cargo?")?;
    let script = fs::read_to_string("exports.map").map_err(|e| format!("cannot read exports.map: {e}"))?;
    let script_at = Path::new(&out).join("exports.map");
    fs::write(&script_at, script).map_err(|e| format!("cannot write {}: {e}", script_at.display()))?;
    println!("cargo:rustc-link-arg-bins=-shared");
    println!("cargo:rustc-link-arg-bins=-Wl,-soname,libibverbs.so.1");
    println!("cargo:rustc-link-arg-bins=-Wl,--version-script={}", script_at.display());
    Ok(())
}
