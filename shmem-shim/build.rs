//! Link options of `libsma.so`, and the files that lie beside it.
//!
//! `target/<profile>/` is usable as it is: `oshcc` finds `include/` and `libsma.so` next to itself,
//! and pkg-config finds `lib/pkgconfig/sma.pc`. The whole directory can be copied elsewhere.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> Result<(), String> {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsma.so");
    // Exit and fork handlers stay registered, so the library is never unloaded.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Symbols of the crates inside are nobody's business.
    println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");

    let var = |name| env::var_os(name).map(PathBuf::from).ok_or(format!("{name} is not set: run by cargo?"));
    let here = var("CARGO_MANIFEST_DIR")?;
    // OUT_DIR is target/<profile>/build/<package>/out.
    let out = var("OUT_DIR")?;
    let target = out.ancestors().nth(3).ok_or("OUT_DIR is not below target/<profile>/build")?;
    stage(&here, target).map_err(|e| format!("cannot stage headers into {}: {e}", target.display()))
}

/// Copies headers and the pkg-config file, and links the C++ compiler wrapper to the C one.
fn stage(here: &Path, target: &Path) -> io::Result<()> {
    let (include, pkgconfig) = (target.join("include"), target.join("lib/pkgconfig"));
    fs::create_dir_all(include.join("mpp"))?;
    fs::create_dir_all(&pkgconfig)?;
    // Every header of the specification is also found as <mpp/...>, as programs for SGI's library include it.
    let own = ["shmem.h", "shmemx.h", "pshmem.h", "mpp/shmem.h", "mpp/shmemx.h", "mpp/pshmem.h"];
    let own = own.map(|name| (here.join("include").join(name), name));
    for (header, name) in own.into_iter().chain([(here.join("../libangara/include/angara.h"), "angara.h")]) {
        println!("cargo:rerun-if-changed={}", header.display());
        if header.exists() {
            fs::copy(&header, include.join(name))?;
        }
    }
    let template = here.join("sma.pc.in");
    println!("cargo:rerun-if-changed={}", template.display());
    let text = fs::read_to_string(template)?.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    fs::write(pkgconfig.join("sma.pc"), text)?;
    // Cargo refuses `+` in the name of a binary.
    let wrapper = target.join("oshc++");
    if wrapper.symlink_metadata().is_err() {
        std::os::unix::fs::symlink("oshcc", wrapper)?;
    }
    Ok(())
}
