//! Notes of runs that were killed: whoever makes notes removes them, in the same directory. Notes in use are locked.

use angara_protocol::calls::is_file_name;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, openat, unlinkat};
use rustix::process::geteuid;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// Between the name of what is made of them and the number of the process.
pub(super) const ENDING: &str = ".calls-";

/// Notes that nobody has locked yet may have been made just now.
const SETTLED: Duration = Duration::from_secs(10);

/// Keeps notes from being taken for somebody's who has been killed, as long as it lives.
#[derive(Debug)]
pub(super) struct Lock {
    _directory: OwnedFd,
}

impl Lock {
    /// Of a directory that was just made.
    pub(super) fn take(directory: &Path) -> io::Result<Lock> {
        let directory = open(rustix::fs::CWD, directory)?;
        flock(&directory, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Lock { _directory: directory })
    }
}

fn open(parent: impl AsFd, name: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

/// Removes what is left of notes in a directory.
pub(super) fn sweep(parent: &Path) {
    sweep_older(parent, SETTLED);
}

fn sweep_older(parent: &Path, settled: Duration) {
    let Ok(there) = open(rustix::fs::CWD, parent) else { return };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.rsplit_once(ENDING)).map(|(_, number)| number);
        if number.is_some_and(|number| number.parse::<u32>().is_ok()) {
            // Where something of it stays, the next run finds it again.
            let _ = remove(&there, Path::new(&name), settled);
        }
    }
}

/// Removes what PEs write, and nothing else: a directory with more in it stays.
fn remove(parent: &OwnedFd, name: &Path, settled: Duration) -> io::Result<()> {
    let directory = open(parent, name)?;
    let about = File::from(directory.try_clone()?).metadata()?;
    let is_old = about.modified()?.elapsed().is_ok_and(|age| age >= settled);
    if about.uid() != geteuid().as_raw() || !is_old {
        return Ok(());
    }
    flock(&directory, FlockOperation::NonBlockingLockExclusive)?;
    for file in rustix::fs::Dir::read_from(&directory)? {
        let file = file?;
        if file.file_name().to_str().is_ok_and(is_file_name) {
            unlinkat(&directory, file.file_name(), AtFlags::empty())?;
        }
    }
    Ok(unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_protocol::calls::file_name;

    #[test]
    fn notes_of_the_killed_go_and_all_else_stays() {
        let parent = std::env::temp_dir().join(format!("angara-notes-{}", std::process::id()));
        let make = |name: &str, files: &[&str]| {
            fs::create_dir_all(parent.join(name)).unwrap();
            files.iter().for_each(|file| fs::write(parent.join(name).join(file), "1").unwrap());
        };
        let (first, second) = (file_name(0), file_name(1));
        make("t.json.calls-7", &[&first, &second]);
        make("angara-races.calls-8", &[&first]);
        let held = Lock::take(&parent.join("angara-races.calls-8")).unwrap();
        make("mine.calls-9", &[&first, "notes.txt"]);
        make("t.calls-x", &[&first]);
        make("calls-3", &[&first]);
        std::os::unix::fs::symlink(parent.join("calls-3"), parent.join("link.calls-4")).unwrap();
        let there = || {
            let mut names: Vec<_> =
                fs::read_dir(&parent).unwrap().flatten().map(|e| e.file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        let all = there();
        sweep(&parent);
        assert_eq!(there(), all, "they are new");
        sweep_older(&parent, Duration::ZERO);
        assert_eq!(there(), all.iter().filter(|name| *name != "t.json.calls-7").cloned().collect::<Vec<_>>());
        assert!(parent.join("mine.calls-9/notes.txt").exists() && parent.join("calls-3").join(&first).exists());
        drop(held);
        sweep_older(&parent, Duration::ZERO);
        assert!(!parent.join("angara-races.calls-8").exists());
        fs::remove_dir_all(&parent).unwrap();
    }
}
