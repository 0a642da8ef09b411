//! libfabric finds providers by the ending `-fi.so`, which Cargo cannot give a library: a link beside it has that name.

use std::{env, fs, io, os::unix::fs::symlink, path::Path};

fn main() -> Result<(), String> {
    println!("cargo:rerun-if-changed=build.rs");
    let out = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: run by cargo?")?;
    // OUT_DIR is target/<profile>/build/<package>/out.
    let profile = Path::new(&out).ancestors().nth(3).ok_or("OUT_DIR is not below target/<profile>/build")?;
    let dir = profile.join("lib/libfabric");
    let link = dir.join("libangara-fi.so");
    fs::create_dir_all(&dir).map_err(|e| format!("cannot make {}: {e}", dir.display()))?;
    match symlink("../../libangara_fi.so", &link) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(format!("cannot link {}: {e}", link.display())),
        _ => Ok(()),
    }
}
