//! What this machine and its limits allow: memory, cores, descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Every limit on the memory of one job: its name and its bytes.
pub(crate) fn memory_limits(configured: Option<u64>) -> Vec<(String, u64)> {
    let mut limits = Vec::new();
    if let Some(limit) = configured {
        limits.push(("the daemon's --memory-limit".to_string(), limit));
    }
    if let Some(available) = read_to_string("/proc/meminfo").ok().as_deref().and_then(mem_available) {
        limits.push(("MemAvailable".to_string(), available));
    }
    // Memory that is shared with programs is a file to the kernel.
    limits.extend(
        getrlimit(Resource::Fsize).current.map(|limit| ("the daemon's file size limit (ulimit -f)".into(), limit)),
    );
    limits.extend(cgroup_room().map(|room| ("the memory left in this cgroup".to_string(), room)));
    limits
}

fn mem_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Bytes left in the tightest memory cgroup around this process; `None` without a limit.
fn cgroup_room() -> Option<u64> {
    let membership = read_to_string("/proc/self/cgroup").ok()?;
    let number = |p: PathBuf| read_to_string(p).ok()?.trim().parse::<u64>().ok();
    let mut room: Option<u64> = None;
    let mut tighten = |max: Option<u64>, used: Option<u64>| {
        if let Some(left) = max.map(|m| m.saturating_sub(used.unwrap_or(0))) {
            room = Some(room.map_or(left, |r| r.min(left)));
        }
    };
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let (root, max, used) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
            c if c.split(',').any(|c| c == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => continue,
        };
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let dir = Path::new(root).join(group);
            tighten(number(dir.join(max)), number(dir.join(used)));
        }
    }
    room
}

/// Cores this process may run on.
pub(crate) fn cores() -> usize {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize).max(1)
}

/// Raises the descriptor limit as far as allowed: each PE costs four.
pub(crate) fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(e) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(error = %e, "cannot raise the descriptor limit; large jobs may be refused");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mem_available_is_read_in_bytes() {
        assert_eq!(mem_available("MemTotal: 9 kB\nMemAvailable:   2048 kB\n"), Some(2 << 20));
        assert_eq!(mem_available("MemTotal: 9 kB\n"), None);
    }
}
