//! Cores that processes of a job may run on.

use rustix::thread::{CpuSet, sched_getaffinity};
use serde::{Deserialize, Serialize};

angara_net::words! {
    /// Which cores PEs may run on.
    #[derive(Debug, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Bind {
        /// By the number of PEs and cores.
        Auto = "auto",
        /// One core each.
        Core = "core",
        /// Leave it to the scheduler.
        None = "none",
    }
}

/// Cores this process may use, and whether someone narrowed them on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    pub allowed: Vec<usize>,
    /// The affinity differs from what the system gives everyone.
    pub by_user: bool,
}

impl Cores {
    /// Looks at this process.
    pub fn here() -> Cores {
        let allowed: Vec<usize> = match sched_getaffinity(None) {
            Ok(set) => (0..CpuSet::MAX_CPU).filter(|&c| set.is_set(c)).collect(),
            Err(_) => Vec::new(),
        };
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
        let given = [online, cpuset()].into_iter().flatten().map(|t| parse_list(&t)).any(|list| list == allowed);
        Cores { by_user: !given, allowed }
    }
}

/// Cores of this process's cpuset, if the cgroup files can be read: a container's share of the
/// machine is not the user's choice of cores.
fn cpuset() -> Option<String> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let files = match controllers {
            "" => {
                [format!("/sys/fs/cgroup{path}/cpuset.cpus.effective"), "/sys/fs/cgroup/cpuset.cpus.effective".into()]
            }
            "cpuset" => [
                format!("/sys/fs/cgroup/cpuset{path}/cpuset.effective_cpus"),
                "/sys/fs/cgroup/cpuset/cpuset.effective_cpus".into(),
            ],
            _ => return None,
        };
        files.iter().find_map(|f| std::fs::read_to_string(f).ok())
    })
}

/// Reads the kernel's list notation: `0-3,8`.
fn parse_list(text: &str) -> Vec<usize> {
    let mut out = Vec::new();
    for part in text.trim().split(',').filter(|p| !p.is_empty()) {
        let (a, b) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(a), Ok(b)) = (a.parse::<usize>(), b.parse()) {
            out.extend(a..=b);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_lists() {
        assert_eq!(parse_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(parse_list(""), [0usize; 0]);
    }
}
