//! Shared memory that ranks of MPICH have left whose launcher was killed before it could remove it.
//!
//! MPICH names a file after the job, so no later job comes across it. A launcher removes what its own job has left when it
//! ends, and that of earlier ones when it begins.

use rustix::process::geteuid;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Where the C library keeps shared memory.
const SHARED: &str = "/dev/shm";
/// Younger files are left alone: ranks of a container, whose processes are not seen from here, may be about to open them.
const YOUNG: Duration = Duration::from_secs(60);

/// Removes what nobody uses.
pub(super) fn sweep() {
    sweep_in(Path::new(SHARED), YOUNG);
}

fn sweep_in(dir: &Path, young: Duration) {
    let left = left_in(dir, young);
    if left.is_empty() {
        return;
    }
    for file in left.iter().filter(|file| !is_used(file)) {
        // Another launcher may have been faster.
        let _ = fs::remove_file(file);
    }
}

/// Files of this user that are called like MPICH's, and old enough.
fn left_in(dir: &Path, young: Duration) -> Vec<PathBuf> {
    let Ok(all) = fs::read_dir(dir) else { return Vec::new() };
    let me = geteuid().as_raw();
    let old = |changed: SystemTime| changed.elapsed().is_ok_and(|age| age >= young);
    let ours = |path: &PathBuf| {
        // A link is not followed.
        fs::symlink_metadata(path)
            .is_ok_and(|file| file.is_file() && file.uid() == me && file.modified().is_ok_and(old))
    };
    let named = all.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_name));
    named.map(|entry| entry.path()).filter(ours).collect()
}

/// `mpich_shm_`, a hash and the number of a node.
fn is_name(name: &str) -> bool {
    let parts = name.strip_prefix("mpich_shm_").and_then(|rest| rest.split_once('_'));
    parts.is_some_and(|(hash, node)| {
        let all = |text: &str, of: fn(&u8) -> bool| !text.is_empty() && text.bytes().all(|b| of(&b));
        all(hash, u8::is_ascii_hexdigit) && all(node, u8::is_ascii_digit)
    })
}

/// True if a process has the file open or mapped. A rank opens it, maps it and closes it, so descriptors are looked at
/// first. Processes of other users cannot be looked into, nor have they opened what is this user's alone.
fn is_used(file: &Path) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    processes.flatten().map(|process| process.path()).any(|process| {
        let open = fs::read_dir(process.join("fd")).is_ok_and(|all| {
            all.flatten().any(|descriptor| fs::read_link(descriptor.path()).is_ok_and(|to| to == file))
        });
        open || fs::read_to_string(process.join("maps"))
            .is_ok_and(|maps| maps.lines().any(|line| line.ends_with(&*file.to_string_lossy())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn what_nobody_uses_goes_and_all_else_stays() {
        let dir = std::env::temp_dir().canonicalize().unwrap().join(format!("angara-leftovers-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let make = |name: &str| fs::File::create(dir.join(name)).unwrap();
        drop(make("mpich_shm_9f3a01_0"));
        let open = make("mpich_shm_9f3a01_1");
        for other in ["mpich_shm_9f3a01", "mpich_shm_x_0", "mpich_shm_9f_", "other_shm_9f_0"] {
            drop(make(other));
        }
        std::os::unix::fs::symlink(dir.join("other_shm_9f_0"), dir.join("mpich_shm_aa_0")).unwrap();
        // A program's own file is mapped, and not open.
        // Another process copies it: what other tests start would inherit a file that is open here to be written, and such a file
        // cannot be run.
        let copied = Command::new("cp").arg("/bin/sleep").arg(dir.join("mpich_shm_9f3a01_2")).status().unwrap();
        assert!(copied.success());
        let mut sleeper = Command::new(dir.join("mpich_shm_9f3a01_2")).arg("600").spawn().unwrap();
        let there = || {
            let mut names: Vec<_> = fs::read_dir(&dir).unwrap().flatten().map(|e| e.file_name()).collect();
            names.sort();
            names
        };
        let before = there();
        sweep_in(&dir, YOUNG);
        assert_eq!(there(), before, "young files are gone");
        sweep_in(&dir, Duration::ZERO);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        let stays = before.into_iter().filter(|name| name != "mpich_shm_9f3a01_0").collect::<Vec<_>>();
        assert_eq!(there(), stays);
        drop(open);
        sweep_in(&dir, Duration::ZERO);
        assert!(!dir.join("mpich_shm_9f3a01_1").exists() && !dir.join("mpich_shm_9f3a01_2").exists());
        fs::remove_dir_all(&dir).unwrap();
    }
}
