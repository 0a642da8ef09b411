//! A shorter time slice for processes that wait for each other.
//!
//! Where PEs share cores, a hand-over takes as long as the one who computes may keep the core.
//! Linux lets a thread ask for a slice of its own (EEVDF, `sched_runtime` of `sched_setattr`);
//! older kernels ignore it.

/// Nanoseconds asked for: the shortest the kernel grants.
const TIMESLICE_NS: u64 = 100_000;

/// `struct sched_attr` of sched_setattr(2), first version.
#[repr(C)]
#[derive(Default)]
struct Attr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Asks for a short slice for this thread and those it starts. Without effect if the user chose
/// another scheduling policy or a slice, or where the kernel forbids it.
pub(crate) fn shorten() {
    let mut attr = Attr::default();
    let size = size_of::<Attr>() as u32;
    // SAFETY: the kernel writes at most `size` bytes into `attr`.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) };
    if got != 0 || attr.policy != libc::SCHED_OTHER as u32 || (1..=TIMESLICE_NS).contains(&attr.runtime) {
        return;
    }
    (attr.size, attr.runtime) = (size, TIMESLICE_NS);
    // SAFETY: `attr` is a valid structure of the size it names; a refusal changes nothing.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
}
