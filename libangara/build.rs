//! Link options of `libangara.so`.

use std::{env, path::Path};

#[path = "soname.rs"]
mod soname;

fn main() -> Result<(), String> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=soname.rs");
    let out = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: run by cargo?")?;
    // OUT_DIR is target/<profile>/build/<package>/out.
    let profile = Path::new(&out).ancestors().nth(3).ok_or("OUT_DIR is not below target/<profile>/build")?;
    soname::name("libangara.so", profile)
        .map_err(|e| format!("cannot link libangara.so to its name in {}: {e}", profile.display()))
}
