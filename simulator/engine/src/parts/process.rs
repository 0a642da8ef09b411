//! The processes that work on one sweep: who they are, and whether one still lives.

use super::{io_error, is_gone};
use crate::Error;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
use serde::{Deserialize, Serialize};
use std::fs::{File, read_link, read_to_string};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Ending of the name of a file that a process keeps young while it lives.
const ENDING: &str = ".process";

/// A process, told from all others of all hosts and times.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub(super) struct Process {
    host: String,
    /// Changes whenever the host is started.
    boot: String,
    /// Whose process numbers these are: a container may have its own.
    numbers: String,
    pid: u32,
    /// When it began, in the system's ticks since the host was started.
    start: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) launcher: Option<Launcher>,
}

/// What a launcher says of the processes it started.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub(super) struct Launcher {
    /// Its command.
    pub(super) name: String,
    rank: u32,
    pub(super) size: u32,
    /// Tasks of an array may run one after the other.
    pub(super) together: bool,
}

/// Variables of launchers: command, number of processes, number of this one, and whether they run at the same time.
const LAUNCHERS: [(&str, &str, &str, bool); 4] = [
    ("srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", true),
    ("mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", true),
    ("mpiexec", "PMI_SIZE", "PMI_RANK", true),
    ("sbatch", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_ID", false),
];

impl Launcher {
    /// Returns the launcher of several processes that `variable` tells of.
    fn of(variable: impl Fn(&str) -> Option<String>) -> Option<Launcher> {
        LAUNCHERS.iter().find_map(|(name, size, rank, together)| {
            let number = |name| variable(name)?.trim().parse().ok();
            let (size, rank) = (number(size)?, number(rank)?);
            (size > 1).then(|| Launcher { name: (*name).into(), rank, size, together: *together })
        })
    }
}

impl Process {
    /// Returns this process.
    pub(super) fn this() -> Process {
        let line = |path: &str| read_to_string(path).unwrap_or_default().trim().to_string();
        let pid = std::process::id();
        Process {
            host: line("/proc/sys/kernel/hostname"),
            boot: line("/proc/sys/kernel/random/boot_id"),
            numbers: read_link("/proc/self/ns/pid").unwrap_or_default().display().to_string(),
            pid,
            start: state(pid).map_or(0, |(_, start)| start),
            launcher: Launcher::of(|name| std::env::var(name).ok()),
        }
    }

    /// Returns a name that no other process has, made of letters that all file systems take.
    pub(super) fn name(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' };
        let host: String = self.host.chars().take(64).map(plain).collect();
        format!("{host}-{}-{}", self.pid, self.start)
    }

    /// Returns the file in `dir` that it keeps young.
    pub(super) fn file(&self, dir: &Path) -> PathBuf {
        dir.join(self.name() + ENDING)
    }

    /// Returns what `name` begins with, if it is that of such a file.
    pub(super) fn named(name: &str) -> Option<&str> {
        name.strip_suffix(ENDING)
    }

    pub(super) fn is(&self, other: &Process) -> bool {
        (self.pid, self.start) == (other.pid, other.start) && self.sees(other)
    }

    /// True if process numbers mean the same to both.
    fn sees(&self, other: &Process) -> bool {
        (&self.host, &self.boot, &self.numbers) == (&other.host, &other.boot, &other.numbers)
    }

    /// True if `owner` has ended, or has not been heard of for `timeout` by the clock of the file system.
    pub(super) fn misses(&self, owner: &Process, dir: &Path, timeout: Duration) -> Result<bool, Error> {
        if self.sees(owner) && !state(owner.pid).is_some_and(|(alive, start)| alive && start == owner.start) {
            return Ok(true);
        }
        Ok(age(&owner.file(dir), self.beat(dir)?)?.is_none_or(|age| age > timeout))
    }

    /// Makes this process's file young. Also the time, by the clock of the file system.
    pub(super) fn beat(&self, dir: &Path) -> Result<SystemTime, Error> {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let file = self.file(dir);
        utimensat(CWD, &file, &Timestamps { last_access: now, last_modification: now }, AtFlags::empty())
            .map_err(|e| io_error(&file, e.into()))?;
        modified(&file).map_err(|e| io_error(&file, e))
    }
}

/// True if process `pid` runs; false if it has ended and its parent has not asked. Also when it began.
fn state(pid: u32) -> Option<(bool, u64)> {
    let stat = read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Fields 3 and 22; the name before them may hold anything.
    let mut fields = stat.rsplit(')').next()?.split_whitespace();
    let alive = !matches!(fields.next()?, "Z" | "X");
    Some((alive, fields.nth(18)?.parse().ok()?))
}

/// Time of the last change. The file is opened, because a network file system may otherwise show what was true before.
fn modified(path: &Path) -> std::io::Result<SystemTime> {
    File::open(path)?.metadata()?.modified()
}

/// Returns how long ago `path` was changed, `now` being the time; `None` if it is not there.
pub(super) fn age(path: &Path, now: SystemTime) -> Result<Option<Duration>, Error> {
    match modified(path) {
        Ok(time) => Ok(Some(now.duration_since(time).unwrap_or_default())),
        Err(e) if is_gone(&e) => Ok(None),
        Err(e) => Err(io_error(path, e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_known_by_their_variables() {
        let of = |set: &[(&str, &str)]| {
            let found = Launcher::of(|name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string()));
            found.map(|l| (l.name, l.rank, l.size, l.together))
        };
        assert_eq!(of(&[]), None);
        // A batch script is one process, however many tasks it may start.
        assert_eq!(of(&[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")]), None);
        let step = [("SLURM_NTASKS", "8"), ("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_PROCID", "3")];
        assert_eq!(of(&step), Some(("srun".into(), 3, 4, true)));
        assert_eq!(of(&[("PMI_SIZE", "1"), ("PMI_RANK", "0")]), None);
        assert_eq!(of(&[("PMI_SIZE", "2"), ("PMI_RANK", "1")]), Some(("mpiexec".into(), 1, 2, true)));
        let array = [("SLURM_ARRAY_TASK_COUNT", "9"), ("SLURM_ARRAY_TASK_ID", "5")];
        assert_eq!(of(&array), Some(("sbatch".into(), 5, 9, false)));
    }

    #[test]
    fn the_dead_are_told_from_the_living() {
        let dir = std::env::temp_dir().join(format!("angara-process-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let me = Process::this();
        let file = |p: &Process| std::fs::write(p.file(&dir), "").unwrap();
        file(&me);
        let missed = |p: &Process, timeout| me.misses(p, &dir, Duration::from_secs(timeout)).unwrap();
        assert!(!missed(&me, 60));

        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let start = state(child.id()).unwrap().1;
        let other = Process { pid: child.id(), start, ..me.clone() };
        assert!(missed(&other, 60), "it has no file");
        file(&other);
        assert!(!missed(&other, 60));
        let before = Process { start: start - 1, ..other.clone() };
        file(&before);
        assert!(missed(&before, 60), "its number is somebody else's now");

        // Of another host only the file is known.
        let far = Process { host: "far".into(), ..before };
        file(&far);
        assert!(!missed(&far, 60));
        let ago = |p: &Process, seconds| {
            let time = SystemTime::now() - Duration::from_secs(seconds);
            File::options().write(true).open(p.file(&dir)).unwrap().set_modified(time).unwrap();
        };
        ago(&far, 100);
        assert!(missed(&far, 60) && !missed(&far, 200));
        // One that stands still is missed, too.
        ago(&other, 100);
        assert!(missed(&other, 60) && !missed(&other, 200));

        child.kill().unwrap();
        while state(child.id()).is_some_and(|(alive, _)| alive) {
            std::thread::yield_now();
        }
        assert!(missed(&other, 200), "it has ended, although nobody has asked");
        child.wait().unwrap();
        std::fs::remove_dir_all(dir).unwrap();
    }
}
