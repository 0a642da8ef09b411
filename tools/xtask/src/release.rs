//! `cargo xtask release`: all that a version is given away as, in one directory, with its sums.

use crate::deb::{self, Packages};
use crate::debug_info;
use crate::steps::{Temporary, cannot};
use crate::wheel::Wheel;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// Makes it in `out`, which is empty or not there yet, of the programs in each of `from`; the result is what to tell the user.
pub(crate) fn make(root: &Path, from: &[PathBuf], out: &Path) -> Result<String, String> {
    let version = env!("CARGO_PKG_VERSION");
    described(root, version)?;
    if fs::read_dir(out).is_ok_and(|mut files| files.next().is_some()) {
        return Err(format!(
            "{} is not empty, and sums of other files would be wrong; remove it, or name another by --out",
            out.display()
        ));
    }
    let mut made = String::new();
    for from in from {
        made += &wheel(root, from, out)?;
        made += &format!("{}\n", debug_info::make(root, from, out)?.display());
        let (root, from, out) = (root.into(), from.into(), out.into());
        made += &deb::build(&Packages { root, from, out, version: deb::default_version() })?;
    }
    let mut sums = String::new();
    for file in made.lines().map(Path::new) {
        let sum = Sha256::digest(fs::read(file).map_err(|e| cannot("read", file, &e))?);
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        sums += &format!("{}  {name}\n", sum.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    }
    let list = out.join("SHA256SUMS");
    fs::write(&list, sums).map_err(|e| cannot("write", &list, &e))?;
    Ok(format!("{made}{}\n", list.display()))
}

/// Makes the wheel twice, since the same programs have to give the same wheel; a line with its file.
fn wheel(root: &Path, from: &Path, out: &Path) -> Result<String, String> {
    let make = |out: PathBuf| Wheel { root: root.into(), from: from.into(), out }.build();
    let first = make(out.into())?;
    let again = Temporary(out.join(".again"));
    let second = make(again.0.clone())?;
    let read = |shown: &str| fs::read(shown.trim()).map_err(|e| cannot("read", Path::new(shown.trim()), &e));
    match read(&first)? == read(&second)? {
        true => Ok(first),
        false => Err(format!("the wheel was made twice, and the files differ: {} {}", first.trim(), second.trim())),
    }
}

/// The changes tell what is in this version.
fn described(root: &Path, version: &str) -> Result<(), String> {
    let file = root.join("CHANGELOG.md");
    let text = fs::read_to_string(&file).map_err(|e| cannot("read", &file, &e))?;
    let heading = |line: &str| {
        line.strip_prefix("## ").and_then(|line| line.split([',', ' ']).next()).is_some_and(|first| first == version)
    };
    match text.lines().any(heading) {
        true => Ok(()),
        false => Err(format!("{} has no heading `## {version}`; say there what is new", file.display())),
    }
}
