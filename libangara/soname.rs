//! Names of shared libraries with their version, for the build scripts that make them.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::{fs, io};

/// Version of the libraries' interfaces for compiled programs: raised when one that was linked with an earlier
/// version would not run, or not rightly.
const VERSION: u32 = 1;

/// `libsma.so.1` of `libsma.so`.
pub(crate) fn soname(library: &str) -> String {
    format!("{library}.{VERSION}")
}

/// Has the linker write the name with the version into the library, so that programs look for that one, and
/// lets it be found beside the library in `profile`, cargo's directory, and in the one for tests.
pub(crate) fn name(library: &str, profile: &Path) -> io::Result<()> {
    let name = soname(library);
    // Cargo hands what is meant for cdylibs alone on to those of packages that depend on this one.
    println!("cargo:rustc-link-arg=-Wl,-soname,{name}");
    for dir in [profile.to_path_buf(), profile.join("deps")].into_iter().filter(|d| d.is_dir()) {
        // Links of an earlier version lead to a library that is none.
        for entry in fs::read_dir(&dir)?.flatten() {
            let found = entry.file_name().to_string_lossy().into_owned();
            let version = found.strip_prefix(library).and_then(|v| v.strip_prefix('.'));
            if version.is_some_and(|v| v.parse::<u32>().is_ok()) {
                fs::remove_file(entry.path())?;
            }
        }
        symlink(library, dir.join(&name))?;
    }
    Ok(())
}
