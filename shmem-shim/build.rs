//! Link options of `libsma.so`, and the files that lie beside it.
//!
//! `target/<profile>/` is usable as it is: `oshcc` finds `include/` and the libraries next to itself, pkg-config
//! finds `lib/pkgconfig/*.pc`, CMake `lib/cmake`. The whole directory can be copied elsewhere.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

#[path = "../libangara/soname.rs"]
mod soname;

/// Files, below `packaging`, that tell other build systems where headers and libraries are, and their directories.
const PACKAGES: [(&str, &str); 7] = [
    ("sma.pc", "lib/pkgconfig"),
    ("angara.pc", "lib/pkgconfig"),
    ("oshmem.pc", "lib/angara/pkgconfig"),
    ("AngaraConfig.cmake", "lib/cmake/Angara"),
    ("AngaraConfigVersion.cmake", "lib/cmake/Angara"),
    ("OpenSHMEMConfig.cmake", "lib/cmake/OpenSHMEM"),
    ("OpenSHMEMConfigVersion.cmake", "lib/cmake/OpenSHMEM"),
];

fn main() -> Result<(), String> {
    // Exit and fork handlers stay registered, so the library is never unloaded.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Symbols of the crates inside are nobody's business.
    println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../libangara/soname.rs");

    let var = |name| env::var_os(name).map(PathBuf::from).ok_or(format!("{name} is not set: run by cargo?"));
    let here = var("CARGO_MANIFEST_DIR")?;
    // OUT_DIR is target/<profile>/build/<package>/out.
    let out = var("OUT_DIR")?;
    let target = out.ancestors().nth(3).ok_or("OUT_DIR is not below target/<profile>/build")?;
    soname::name("libsma.so", target)
        .and_then(|()| stage(&here, target))
        .map_err(|e| format!("cannot put headers and links into {}: {e}", target.display()))
}

/// Copies headers, tells others where they are, and links the C++ compiler wrapper to the C one.
fn stage(here: &Path, target: &Path) -> io::Result<()> {
    let include = target.join("include");
    fs::create_dir_all(include.join("mpp"))?;
    // Every header of the specification is also found as <mpp/...>, as programs for SGI's library include it.
    let own = ["shmem.h", "shmemx.h", "pshmem.h", "mpp/shmem.h", "mpp/shmemx.h", "mpp/pshmem.h"];
    let own = own.map(|name| (here.join("include").join(name), name));
    for (header, name) in own.into_iter().chain([(here.join("../libangara/include/angara.h"), "angara.h")]) {
        println!("cargo:rerun-if-changed={}", header.display());
        if header.exists() {
            fs::copy(&header, include.join(name))?;
        }
    }
    for (name, dir) in PACKAGES {
        let template = here.join("../packaging").join(format!("{name}.in"));
        println!("cargo:rerun-if-changed={}", template.display());
        let text = fs::read_to_string(template)?.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
        let libraries = ["sma", "angara"].map(|l| (format!("@lib{l}@"), soname::soname(&format!("lib{l}.so"))));
        let text = libraries.iter().fold(text, |text, (mark, name)| text.replace(mark, name));
        let dir = target.join(dir);
        fs::create_dir_all(&dir)?;
        // Libraries lie beside the programs here, and elsewhere once installed, for which the text is kept.
        let here = [("@libdir@", ""), ("@up@", ""), ("@rpath@", " -Wl,-rpath,${libdir}")];
        let filled = here.iter().fold(text.clone(), |text, (mark, value)| text.replace(mark, value));
        fs::write(dir.join(name), filled)?;
        fs::write(dir.join(format!("{name}.in")), text)?;
    }
    // Cargo refuses `+` in the name of a binary.
    let wrapper = target.join("oshc++");
    if wrapper.symlink_metadata().is_err() {
        std::os::unix::fs::symlink("oshcc", wrapper)?;
    }
    Ok(())
}
