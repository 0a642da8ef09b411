//! Where the parts of this installation lie.
//!
//! Two layouts are understood: everything in one directory, as cargo leaves it in `target/release`,
//! and `bin`, `lib` and `include` beside each other. Both are found from the executable's own
//! place, so a tree can be copied or moved.

use crate::error::Failed;
use std::path::{Path, PathBuf};

/// The OpenSHMEM library.
pub(crate) const LIBRARY: &str = "libsma.so";
/// The header that tells whether a directory is the right one.
pub(crate) const HEADER: &str = "shmem.h";

/// Directory of the running executable, symbolic links resolved.
pub(crate) fn bin_dir() -> Result<PathBuf, Failed> {
    let exe = std::env::current_exe().and_then(std::fs::canonicalize);
    let exe = exe.map_err(|e| {
        Failed::runtime(format!("cannot find this program's own file: {e}"), "check that /proc is mounted")
    })?;
    Ok(exe.parent().unwrap_or(Path::new("/")).to_path_buf())
}

/// First of `<bin>/<own>` and `<bin>/../<other>` that holds `file`.
fn beside(bin: &Path, own: &str, other: &str, file: &str) -> Option<PathBuf> {
    let parent = bin.parent().unwrap_or(bin);
    [bin.join(own), parent.join(other)].into_iter().find(|d| d.join(file).exists()).map(|d| d.components().collect())
}

/// Directory of `shmem.h`.
pub(crate) fn include_dir(bin: &Path) -> Option<PathBuf> {
    beside(bin, "include", "include", HEADER)
}

/// Directory of `libsma.so`.
pub(crate) fn lib_dir(bin: &Path) -> Option<PathBuf> {
    beside(bin, "", "lib", LIBRARY)
}

/// The daemon's program: beside this one, else in PATH.
pub(crate) fn fabricd() -> Result<PathBuf, Failed> {
    let bin = bin_dir()?;
    let own = bin.join("fabricd");
    if own.is_file() {
        return Ok(own);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|d| d.join("fabricd")).find(|f| f.is_file()).ok_or_else(|| {
        Failed::runtime(format!("no daemon program: {} does not exist", own.display()), build_hint(&bin))
    })
}

/// What to type to get the missing parts.
pub(crate) fn build_hint(bin: &Path) -> String {
    match checkout(bin) {
        Some((root, true)) => format!("cargo build --release (in {})", root.display()),
        Some((root, false)) => format!("cargo build (in {})", root.display()),
        None => "install the whole tree: angara, fabricd, oshcc and libsma.so belong together".into(),
    }
}

/// If `bin` is `target/release` or `target/debug` of a source checkout: its root, and whether it
/// is the release build.
pub(crate) fn checkout(bin: &Path) -> Option<(PathBuf, bool)> {
    let release = match bin.file_name()?.to_str()? {
        "release" => true,
        "debug" => false,
        _ => return None,
    };
    let root =
        bin.parent()?.ancestors().skip(1).find(|d| d.join("Cargo.toml").is_file() && d.join("shmem-shim").is_dir())?;
    Some((root.to_path_buf(), release))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_are_found() {
        let root = std::env::temp_dir().join(format!("angara-install-{}", std::process::id()));
        let make = |p: &str| {
            let p = root.join(p);
            std::fs::create_dir_all(p.parent().unwrap()).unwrap();
            std::fs::write(p, "").unwrap();
        };
        make("flat/include/shmem.h");
        make("flat/libsma.so");
        make("tree/include/shmem.h");
        make("tree/lib/libsma.so");
        make("tree/bin/angara");
        assert_eq!(include_dir(&root.join("flat")), Some(root.join("flat/include")));
        assert_eq!(lib_dir(&root.join("flat")), Some(root.join("flat")));
        assert_eq!(include_dir(&root.join("tree/bin")), Some(root.join("tree/include")));
        assert_eq!(lib_dir(&root.join("tree/bin")), Some(root.join("tree/lib")));
        assert_eq!(lib_dir(&root.join("none/bin")), None);
        std::fs::remove_dir_all(root).unwrap();
    }
}
