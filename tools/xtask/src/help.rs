//! Manual pages and completions of shells, which a program of theirs writes from the options themselves.

use crate::machine::Machine;
use std::path::{Path, PathBuf};
use std::{env, fs, io, process};

/// Path below `share` and text of every file.
pub(crate) fn files(bin: &Path) -> Result<Vec<(PathBuf, String)>, String> {
    let program = bin.join("angara-help-files");
    let dir = env::temp_dir().join(format!("angara-help-{}", process::id()));
    fs::create_dir(&dir).map_err(|e| format!("cannot make {}: {e}", dir.display()))?;
    let written = match Machine::of(bin)?.command(&program).arg(&dir).status() {
        Ok(status) if status.success() => collect(&dir).map_err(|e| format!("cannot read {}: {e}", dir.display())),
        Ok(status) => Err(format!("{} could not write its manual pages ({status})", program.display())),
        Err(e) => Err(format!("cannot run {}: {e}; build it first", program.display())),
    };
    // Nothing depends on its going.
    let _ = fs::remove_dir_all(&dir);
    let mut found: Vec<(PathBuf, String)> = written?;
    found.iter_mut().for_each(|(path, _)| *path = path.strip_prefix(&dir).unwrap_or(path).to_path_buf());
    found.sort();
    Ok(found)
}

fn collect(dir: &Path) -> io::Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        match path.is_dir() {
            true => found.extend(collect(&path)?),
            false => found.push((path.clone(), fs::read_to_string(&path)?)),
        }
    }
    Ok(found)
}
