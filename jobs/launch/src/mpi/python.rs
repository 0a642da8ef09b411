//! Python programs: the interpreter is linked with no MPI library, and loads one only when mpi4py is imported.
//!
//! What it will load is taken from where its packages lie: wheels of the package registry put `libmpi.so` into the `lib` of the
//! interpreter's prefix, where mpi4py looks first; an mpi4py that was built here names its library itself.

use super::elf;
use super::library::{Library, LibraryKind, Linked, linked_by};
use angara_control::program::find_program;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Longest first line of a script that the system reads, too.
const FIRST_LINE: u64 = 256;
/// Libraries of wheels, in the order in which mpi4py looks for them.
const WHEELS: [&str; 3] = ["libmpi.so.12", "libmpi.so.40", "libmpi_abi.so.0"];

/// The interpreter, if `program` is Python, or a script for it.
pub(super) fn interpreter(program: &Path) -> Option<PathBuf> {
    if is_python(program) && !is_script(program) {
        return Some(program.into());
    }
    let mut line = Vec::new();
    File::open(program).ok()?.take(FIRST_LINE).read_to_end(&mut line).ok()?;
    let line = line.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    let mut words = line.split(|b| b.is_ascii_whitespace()).filter(|w| !w.is_empty()).map(OsStr::from_bytes);
    let first = Path::new(words.next()?);
    let file = if first.file_name() == Some(OsStr::new("env")) {
        let name = words.find(|w| !w.as_bytes().starts_with(b"-") && !w.as_bytes().contains(&b'='))?;
        find_program(&name.to_os_string(), std::env::var_os("PATH")).ok()?
    } else {
        first.into()
    };
    is_python(&file).then_some(file)
}

fn is_python(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().as_bytes();
    name.strip_prefix(b"python").is_some_and(|rest| rest.iter().all(|b| b.is_ascii_digit() || *b == b'.'))
}

fn is_script(file: &Path) -> bool {
    let mut two = [0; 2];
    File::open(file).is_ok_and(|mut f| f.read_exact(&mut two).is_ok()) && &two == b"#!"
}

/// The MPI library that mpi4py would load there.
pub(super) fn library(python: &Path, variables: &[(OsString, OsString)]) -> Option<Library> {
    let prefix = prefix(python)?;
    let lib = prefix.join("lib");
    for name in WHEELS {
        let file = lib.join(name);
        if let Some(kind) = file.exists().then(|| LibraryKind::of(&file)).flatten() {
            return Some(Library { kind, file });
        }
    }
    let [built] = &extensions(&lib)[..] else { return None };
    let (loader, needed) = (elf::read(python)?.loader?, elf::read(built)?.needed);
    match linked_by(&loader, built, &needed, variables) {
        Ok(Linked::Mpi(library)) => Some(library),
        // Python says what it does not find, if it looks for it at all.
        _ => None,
    }
}

/// Where the packages of an interpreter lie: those of a virtual environment beside its link to the interpreter.
fn prefix(python: &Path) -> Option<PathBuf> {
    let above = |file: &Path| file.parent().and_then(Path::parent).map(Path::to_path_buf);
    let absolute = std::path::absolute(python).ok()?;
    let own = above(&absolute).filter(|prefix| prefix.join("pyvenv.cfg").is_file());
    own.or_else(|| above(&std::fs::canonicalize(python).ok()?))
}

/// Files of mpi4py that are linked with an MPI library; its wheels have one for each library that they know.
fn extensions(lib: &Path) -> Vec<PathBuf> {
    let inside = |dir: PathBuf| std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let named = |file: &Path, begin: &str| file.file_name().is_some_and(|n| n.as_bytes().starts_with(begin.as_bytes()));
    let versions = inside(lib.into()).filter(|dir| named(dir, "python3"));
    let packages = versions.flat_map(|dir| ["site-packages", "dist-packages"].map(|p| dir.join(p).join("mpi4py")));
    let files = packages.flat_map(inside);
    files.filter(|file| named(file, "MPI.") && file.extension() == Some(OsStr::new("so"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_of_a_script_is_found() {
        let dir = std::env::temp_dir().join(format!("angara-python-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("bin")).unwrap();
        let script = |line: &str| {
            let file = dir.join("script");
            std::fs::write(&file, format!("{line}\nimport sys\n")).unwrap();
            interpreter(&file)
        };
        assert_eq!(script("#!/opt/venv/bin/python3 -u"), Some("/opt/venv/bin/python3".into()));
        assert_eq!(script("#! /opt/venv/bin/python3.11"), Some("/opt/venv/bin/python3.11".into()));
        assert_eq!(script("#!/bin/sh"), None);
        assert_eq!(script("#!/usr/bin/env sh"), None);
        assert_eq!(script("import os"), None);
        let python = dir.join("bin/python3");
        std::fs::write(&python, "\u{7f}ELF").unwrap();
        assert_eq!(interpreter(&python), Some(python.clone()));
        // Of a virtual environment, whose interpreter is a link, and of any other place.
        assert_eq!(prefix(&python), Some(std::fs::canonicalize(&dir).unwrap()));
        std::fs::create_dir_all(dir.join("venv/bin")).unwrap();
        std::fs::write(dir.join("venv/pyvenv.cfg"), "").unwrap();
        std::os::unix::fs::symlink(&python, dir.join("venv/bin/python3")).unwrap();
        assert_eq!(prefix(&dir.join("venv/bin/python3")), Some(dir.join("venv")));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
