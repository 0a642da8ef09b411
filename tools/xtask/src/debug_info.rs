//! What is taken out of programs and libraries before they are packed: lines of source, for debuggers and profilers. It is in an
//! archive of its own, where they look for it: by the number that the linker gave to each program.

use crate::install::{Content, InstallPlan};
use crate::machine::Machine;
use crate::steps::{Temporary, cannot, make_dir, require, run};
use crate::wheel::archive::{self, File, Files};
use crate::wheel::{SIMULATOR, elf};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes the archive in `out`, of the programs in `from`; its file.
pub(crate) fn make(root: &Path, from: &Path, out: &Path) -> Result<PathBuf, String> {
    let machine = Machine::of(from)?;
    let objcopy = machine.tool("objcopy");
    require(&[(&objcopy, "binutils, or binutils-aarch64-linux-gnu")])?;
    make_dir(out)?;
    let work = Temporary(out.join(format!(".debug-{}", std::process::id())));
    make_dir(&work.0)?;
    let mut files = Files::new();
    for program in programs(root, from)? {
        let bytes = fs::read(&program).map_err(|e| cannot("read", &program, &e))?;
        if !elf::is_elf(&bytes) {
            continue;
        }
        let number = elf::number(&bytes).map_err(|e| format!("{}: {e}", program.display()))?;
        let lines = work.0.join("lines");
        run(Command::new(&objcopy).arg("--only-keep-debug").arg(&program).arg(&lines))?;
        let bytes = fs::read(&lines).map_err(|e| cannot("read", &lines, &e))?;
        let (first, rest) = number.split_at(2);
        files.insert(format!(".build-id/{first}/{rest}.debug"), File { bytes, runs: false });
    }
    let name = format!("angara-{}-debuginfo-{}.zip", env!("CARGO_PKG_VERSION"), machine.name());
    let (new, to) = (work.0.join("archive"), out.join(name));
    let bytes = archive::pack(&files, None)?;
    fs::write(&new, bytes).and_then(|()| fs::rename(&new, &to)).map_err(|e| cannot("write", &to, &e))?;
    Ok(to)
}

/// Files that are installed as they were built.
fn programs(root: &Path, from: &Path) -> Result<Vec<PathBuf>, String> {
    let plan = InstallPlan {
        root: root.into(),
        from: from.into(),
        prefix: "/usr".into(),
        destdir: None,
        sysconfdir: "/etc".into(),
        systemd: false,
        multiarch: None,
    };
    let copies = plan.items()?.into_iter().filter_map(|item| match item.content {
        Content::Copy(file) => Some(file),
        _ => None,
    });
    Ok(copies.chain([from.join(SIMULATOR.0)]).collect())
}
