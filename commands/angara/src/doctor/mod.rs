//! `angara doctor`: which copy of each part is used, what this machine offers, and what happens without it.

mod copies;
mod verbs;

use crate::shared::WhereArgs;
use angara_control::cores::Cores;
use angara_control::daemon;
use angara_control::error::{Failed, say};
use angara_control::program::in_path;
use angara_control::report::table::bytes;
use angara_launch::mpi::survey;
use angara_protocol::print::ranges;
use angara_protocol::trust::{Distrust, TrustedDir};
use clap::Args;
use copies::copies;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};
use serde::Serialize;
use std::ffi::OsStr;
use std::fs::read_to_string;
use std::path::Path;
use std::process::{Command, Stdio};

/// Arguments of `angara doctor`.
#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// Machine-readable
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    at: WhereArgs,
}

#[derive(Serialize)]
struct Finding {
    what: &'static str,
    state: Verdict,
    detail: String,
    /// What is used instead, or how to get it.
    otherwise: &'static str,
}

#[derive(Serialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    Ok,
    /// Not there; something else is used.
    Fallback,
    /// Not there, and nothing works without it.
    Missing,
}

/// Looks and tells. Exit code 1 if something indispensable is missing.
pub(crate) fn main(args: DoctorArgs) -> Result<u8, Failed> {
    let dir = daemon::runtime_dir(&args.at.runtime_dir);
    let findings: Vec<Finding> = [copies(), kernel(), networking(), machine(&dir), tools(), mpi(), verbs::verbs()]
        .into_iter()
        .flatten()
        .collect();
    if args.json {
        say!("{}", serde_json::to_string_pretty(&findings).expect("findings are plain data"))?;
    } else {
        for f in &findings {
            let mark = match f.state {
                Verdict::Ok => "ok      ",
                Verdict::Fallback => "fallback",
                Verdict::Missing => "MISSING ",
            };
            say!("{mark}  {:<22} {}", f.what, f.detail)?;
            if f.state != Verdict::Ok {
                say!("{:32} -> {}", "", f.otherwise)?;
            }
        }
    }
    let missing = findings.iter().filter(|f| f.state == Verdict::Missing).count();
    if !args.json {
        match missing {
            0 => say!("\nEverything needed is there.")?,
            n => say!("\n{n} indispensable thing(s) missing: see the arrows above.")?,
        }
    }
    Ok(u8::from(missing > 0))
}

/// A finding from a probe: there, or the fallback.
fn optional<E: std::fmt::Display>(what: &'static str, probe: Result<String, E>, otherwise: &'static str) -> Finding {
    match probe {
        Ok(detail) => Finding { what, state: Verdict::Ok, detail, otherwise },
        Err(e) => Finding { what, state: Verdict::Fallback, detail: e.to_string(), otherwise },
    }
}

/// A finding without which nothing runs.
fn needed<E: std::fmt::Display>(what: &'static str, probe: Result<String, E>, otherwise: &'static str) -> Finding {
    let finding = optional(what, probe, otherwise);
    Finding { state: if finding.state == Verdict::Ok { Verdict::Ok } else { Verdict::Missing }, ..finding }
}

fn kernel() -> Vec<Finding> {
    vec![
        needed(
            "memfd seals",
            seals(SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL),
            "memory shared with programs must be sealed: use Linux 3.17 or later, and a sandbox that allows memfd_create",
        ),
        optional(
            "future-write seal",
            seals(SealFlags::FUTURE_WRITE),
            "`angara run` goes on without, and no daemon for others starts: use Linux 5.1 or later",
        ),
        needed(
            "SEQPACKET sockets",
            seqpacket(),
            "programs attach to the daemon through one: use a sandbox that allows unix sockets",
        ),
        optional("membarrier", global_expedited(), "sleeping waiters wake by their 1 ms timeout instead of at once"),
        optional(
            "pidfd of a socket's peer",
            since((6, 5), "the daemon watches its clients through it"),
            "the death of a process is noticed by its closed socket only",
        ),
        optional("io_uring", io_uring(), "trunks between hosts use plain system calls (sendmsg, recvmsg)"),
        optional("scheduler slice", slice(), "PEs that share a core keep the default time slice (about 3 ms)"),
        optional(
            "transparent huge pages",
            huge_pages(),
            "large heaps use 4 KiB pages: more page faults at first touch",
        ),
    ]
}

fn seals(seals: SealFlags) -> rustix::io::Result<String> {
    let fd = memfd_create("angara-doctor", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&fd, 4096)?;
    fcntl_add_seals(&fd, seals)?;
    Ok("segments, rings and status pages are sealed".into())
}

fn seqpacket() -> rustix::io::Result<String> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let (a, _b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let peer = rustix::net::sockopt::socket_peercred(&a)?;
    Ok(format!("with peer credentials (uid {})", peer.uid.as_raw()))
}

fn global_expedited() -> Result<String, String> {
    if !membarrier_query().contains(MembarrierQuery::GLOBAL_EXPEDITED) {
        return Err("not offered by this kernel or sandbox".into());
    }
    membarrier(MembarrierCommand::RegisterGlobalExpedited)
        .and_then(|()| membarrier(MembarrierCommand::GlobalExpedited))
        .map(|()| "global expedited: writers pay no fence for sleeping waiters".into())
        .map_err(|e| e.to_string())
}

fn io_uring() -> std::io::Result<String> {
    let ring = io_uring::IoUring::new(8)?;
    let mut probe = io_uring::Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let ops = [
        (io_uring::opcode::SendMsg::CODE, "sendmsg"),
        (io_uring::opcode::RecvMsgMulti::CODE, "recvmsg"),
        (io_uring::opcode::PollAdd::CODE, "poll"),
        (io_uring::opcode::Timeout::CODE, "timeout"),
    ];
    let lacking: Vec<&str> = ops.iter().filter(|(code, _)| !probe.is_supported(*code)).map(|o| o.1).collect();
    if lacking.is_empty() {
        Ok("for trunks between hosts, where it is faster (fabricd --udp-engine)".into())
    } else {
        Err(std::io::Error::other(format!("without {}", lacking.join(", "))))
    }
}

/// Major and minor version of the kernel.
fn version() -> (u32, u32) {
    let text = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn since(needed: (u32, u32), detail: &str) -> Result<String, String> {
    let (major, minor) = version();
    if (major, minor) >= needed {
        Ok(format!("{detail} (kernel {major}.{minor})"))
    } else {
        Err(format!("needs kernel {}.{}, this is {major}.{minor}", needed.0, needed.1))
    }
}

fn slice() -> Result<String, String> {
    since((6, 12), "a process may ask for a shorter one with sched_setattr")
}

fn huge_pages() -> Result<String, String> {
    let text = read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled").map_err(|e| e.to_string())?;
    let chosen = text.split(['[', ']']).nth(1).unwrap_or("unknown").to_string();
    if matches!(chosen.as_str(), "never" | "deny") {
        Err(format!("shared memory: {chosen}"))
    } else {
        Ok(format!("shared memory: {chosen}"))
    }
}

fn networking() -> Vec<Finding> {
    vec![
        optional(
            "UDP GSO",
            since((4, 18), "send offload, by kernel version"),
            "links between hosts send one datagram per system call entry (sendmmsg)",
        ),
        optional(
            "UDP GRO",
            since((5, 0), "receive offload, by kernel version"),
            "links between hosts receive one datagram at a time (recvmmsg)",
        ),
        optional("user+net namespaces", namespaces(), "tests with several hosts on one machine are skipped"),
    ]
}

fn namespaces() -> Result<String, String> {
    let unshare = in_path(OsStr::new("unshare")).ok_or("no `unshare` command to try with")?;
    let tried =
        Command::new(unshare).args(["--user", "--map-root-user", "--net", "true"]).stdin(Stdio::null()).output();
    match tried {
        Ok(out) if out.status.success() => Ok("several hosts can be played on this machine".into()),
        Ok(out) => Err(String::from_utf8_lossy(&out.stderr).trim().to_string()),
        Err(e) => Err(e.to_string()),
    }
}

fn machine(dir: &Path) -> Vec<Finding> {
    let cores = Cores::here();
    let list: Vec<u32> = cores.allowed.iter().map(|&c| c as u32).collect();
    let by = if cores.by_user { "an affinity set by you, which is kept" } else { "PEs are bound to them" };
    let mut found = vec![
        optional::<String>("cores", Ok(format!("{} ({}): {by}", list.len(), ranges(&list))), ""),
        optional("memory", available(), "the daemon cannot check heaps against it"),
        optional("cgroup memory limit", cgroup_limit(), ""),
        needed(
            "runtime directory",
            runtime_dir(dir),
            "set XDG_RUNTIME_DIR or ANGARA_RUNTIME_DIR to a directory you can write to",
        ),
        optional("/dev/shm", shm(), "nothing: memory comes from memfd, whose size only the memory limits bound"),
    ];
    // No limit is no lack.
    found.iter_mut().filter(|f| f.what == "cgroup memory limit").for_each(|f| f.state = Verdict::Ok);
    found
}

fn available() -> Result<String, String> {
    let text = read_to_string("/proc/meminfo").map_err(|e| e.to_string())?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:")).ok_or("no MemAvailable in /proc/meminfo")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().map_err(|_| "cannot read MemAvailable")?;
    Ok(format!("{} available for heaps", bytes(kib * 1024)))
}

fn cgroup_limit() -> Result<String, String> {
    let groups = read_to_string("/proc/self/cgroup").map_err(|e| e.to_string())?;
    let mut limit = None::<u64>;
    for line in groups.lines() {
        let fields: Vec<&str> = line.splitn(3, ':').collect();
        let [_, controllers, path] = fields[..] else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            c if c.split(',').any(|c| c == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let own = read_to_string(Path::new(root).join(group).join(file)).ok().and_then(|t| t.trim().parse().ok());
            limit = [limit, own].into_iter().flatten().min();
        }
    }
    // Without a limit, version 1 reports the largest page-aligned number.
    match limit.filter(|&l| l < 1 << 60) {
        Some(l) => Ok(format!("{}: heaps must fit", bytes(l))),
        None => Err("none".into()),
    }
}

fn runtime_dir(dir: &Path) -> Result<String, String> {
    match TrustedDir::open(dir) {
        Ok(_) => return Ok(dir.display().to_string()),
        Err(Distrust::Missing { .. }) => {}
        Err(distrust) => return Err(distrust.to_string()),
    }
    let parent = dir.parent().unwrap_or(Path::new("/"));
    match rustix::fs::access(parent, rustix::fs::Access::WRITE_OK) {
        Ok(()) => Ok(dir.display().to_string()),
        Err(e) => Err(format!("{}: {e}", parent.display())),
    }
}

fn shm() -> Result<String, String> {
    let stat = rustix::fs::statvfs("/dev/shm").map_err(|e| e.to_string())?;
    Ok(format!("{} free; not used, memory comes from memfd", bytes(stat.f_bavail * stat.f_frsize)))
}

fn tools() -> Vec<Finding> {
    let tool =
        |name: &str| in_path(OsStr::new(name)).map(|p| p.display().to_string()).ok_or(format!("no {name} in PATH"));
    vec![
        optional("C compiler", tool("cc"), "oshcc needs one: apt-get install gcc, or set CC"),
        optional("C++ compiler", tool("c++"), "oshc++ needs one: apt-get install g++, or set CXX"),
        optional("python3", tool("python3"), "tests of Python programs are skipped"),
        optional("gdb", tool("gdb"), "tests of debugging are skipped"),
    ]
}

fn mpi() -> Vec<Finding> {
    let none = || "none in the usual places, LD_LIBRARY_PATH or beside python3".to_string();
    let each = |what: &'static str, found: Vec<Result<String, String>>, otherwise: &'static str| match found.is_empty()
    {
        true => vec![optional(what, Err(none()), otherwise)],
        false => found.into_iter().map(|found| optional(what, found, otherwise)).collect(),
    };
    let mut all = vec![
        optional(
            "MPI provider",
            survey::provider(),
            "no MPI program is run over the emulated network: cargo build --release makes it",
        ),
        optional(
            "cross-memory attach",
            survey::cross_memory(),
            "large messages of MPI are copied twice on a host (allowed by: sysctl kernel.yama.ptrace_scope=0)",
        ),
    ];
    all.extend(each(
        "MPI library",
        survey::libraries(),
        "use one that does (pip install mpich, or MPICH built --with-device=ch4:ofi); programs may bring theirs",
    ));
    all.extend(each(
        "libfabric",
        survey::fabrics().into_iter().map(Ok).collect(),
        "MPI libraries of Python's registry bring their own",
    ));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_is_recognised() {
        assert!(version() >= (3, 17), "{:?}", version());
        assert!(since((999, 0), "x").is_err());
        assert!(seals(SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).is_ok());
    }

    #[test]
    fn a_missing_indispensable_thing_is_no_fallback() {
        let f = needed("x", Err::<String, _>("gone"), "y");
        assert!(f.state == Verdict::Missing && f.detail == "gone");
    }
}
