//! Programs ask for the functions of libibverbs with versions (`ibv_open_device@IBVERBS_1.1`), which a linker gives by a version
//! script. rustc hands the linker a script of its own for each `cdylib`, without versions, and no linker takes two of these that
//! name the same symbols. For a binary it has none: so what programs load is a binary by Cargo's books, which the linker is told
//! to make a shared library.

use std::{collections::BTreeMap, env, fs, path::Path};

/// Functions of libc that this library answers for some paths, by the versions that programs know them by. The loader compares
/// names of versions, not of files: a library that has versions must define the one that a program asks for.
const LIBC: [(&str, &str, &str); 8] = [
    ("x86_64", "GLIBC_2.2.5", "open open64 fopen fopen64 access opendir closedir readlink"),
    ("x86_64", "GLIBC_2.2.5", "__xstat __xstat64 __lxstat __lxstat64"),
    ("x86_64", "GLIBC_2.2.5", "write close madvise __fxstat __fxstat64"),
    ("x86_64", "GLIBC_2.3", "realpath"),
    ("x86_64", "GLIBC_2.4", "openat openat64 faccessat"),
    (
        "aarch64",
        "GLIBC_2.17",
        "open open64 fopen fopen64 access opendir closedir readlink realpath openat openat64 faccessat",
    ),
    ("aarch64", "GLIBC_2.17", "__xstat __xstat64 __lxstat __lxstat64"),
    ("aarch64", "GLIBC_2.17", "write close madvise __fxstat __fxstat64"),
];

/// The same for all processors.
const LIBC_LATER: [(&str, &str); 2] =
    [("GLIBC_2.28", "statx"), ("GLIBC_2.33", "stat stat64 lstat lstat64 fstat fstat64 fstatat fstatat64")];

/// The part of the version script for functions of libc.
fn libc(processor: &str) -> String {
    let mut versions = BTreeMap::<&str, String>::new();
    let own = LIBC.iter().filter(|(of, ..)| *of == processor).map(|(_, version, names)| (*version, *names));
    for (version, names) in own.chain(LIBC_LATER) {
        let all = versions.entry(version).or_default();
        names.split(' ').for_each(|name| *all += &format!(" {name};"));
    }
    versions.iter().map(|(version, names)| format!("{version} {{\n    global:{names}\n}};\n")).collect()
}

fn main() -> Result<(), String> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=exports.map");
    let out = env::var("OUT_DIR").map_err(|_| "OUT_DIR is not set: run by cargo?")?;
    let script = fs::read_to_string("exports.map").map_err(|e| format!("cannot read exports.map: {e}"))?;
    let processor = env::var("CARGO_CFG_TARGET_ARCH").map_err(|_| "CARGO_CFG_TARGET_ARCH is not set: run by cargo?")?;
    let script = script + &libc(&processor);
    let script_at = Path::new(&out).join("exports.map");
    fs::write(&script_at, script).map_err(|e| format!("cannot write {}: {e}", script_at.display()))?;
    println!("cargo:rustc-link-arg-bins=-shared");
    println!("cargo:rustc-link-arg-bins=-Wl,-soname,libibverbs.so.1");
    println!("cargo:rustc-link-arg-bins=-Wl,--version-script={}", script_at.display());
    Ok(())
}
