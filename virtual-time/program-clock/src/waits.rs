//! Waiting for descriptors and the like with a time limit. They are looked at again and again until the limit has passed in
//! virtual time. Without a limit the program's timers pass, which may interrupt the wait; then it is the kernel that waits.

use crate::passing::from_now;
use crate::program::program;
use crate::real::{fail, real};
use crate::sleeps::picoseconds;
use crate::threads::{Ended, cancellable, nanoseconds, order, wait};
use crate::units::{LATEST, NS, US};
use libc::{c_int, c_void, epoll_event, fd_set, mmsghdr, nfds_t, pollfd, sembuf, sigset_t, size_t, timespec, timeval};

/// Asks `look` with limits on the wall, in nanoseconds, until it finds something; nothing when `limit` picoseconds have passed.
/// Real waits are `real`'s.
fn within(
    limit: Option<u64>,
    mut look: impl FnMut(Option<u64>) -> Option<c_int>,
    real: impl FnOnce() -> c_int,
) -> Option<c_int> {
    match limit {
        _ if program().is_real() => Some(real()),
        Some(0) => look(Some(0)),
        _ => match wait(limit.map(from_now), look) {
            Ended::Answered(found) => Some(found),
            Ended::Due => None,
            Ended::Interrupted => Some(fail(libc::EINTR)),
        },
    }
}

/// The same for what tells how many it has found.
fn found_within(limit: Option<u64>, mut look: impl FnMut(Option<u64>) -> c_int, real: impl FnOnce() -> c_int) -> c_int {
    within(limit, |slice| Some(look(slice)).filter(|found| *found != 0), real).unwrap_or(0)
}

/// The same for what fails where there is nothing.
fn done_within(limit: Option<u64>, ask: impl Fn(*const timespec) -> c_int, real: impl FnOnce() -> c_int) -> c_int {
    let done = |result: &c_int| *result >= 0 || errno() != libc::EAGAIN;
    let look = |slice| Some(with_time(slice, &ask)).filter(done);
    within(limit, look, real).unwrap_or_else(|| fail(libc::EAGAIN))
}

fn errno() -> c_int {
    // SAFETY: the thread's own `errno`.
    unsafe { *libc::__errno_location() }
}

/// Calls with a limit in nanoseconds, or without one.
fn with_time<R>(ns: Option<u64>, call: impl FnOnce(*const timespec) -> R) -> R {
    let limit = ns.map(nanoseconds);
    call(limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref))
}

fn milliseconds(ms: c_int) -> Option<u64> {
    u64::try_from(ms).ok().map(|ms| ms * 1_000_000_000)
}

/// A time limit of the caller's, in picoseconds: no limit, a limit, or the error that it is none.
///
/// # Safety
/// Null, or a time.
unsafe fn limit_of(t: *const timespec) -> Result<Option<u64>, c_int> {
    // SAFETY: the caller's contract.
    match unsafe { t.as_ref() } {
        None => Ok(None),
        Some(t) => picoseconds(t).map(Some).ok_or(libc::EINVAL),
    }
}

/// Bytes of the kernel's signal set.
const SIGNALS: usize = 8;

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn poll(fds: *mut pollfd, n: nfds_t, ms: c_int) -> c_int {
    // SAFETY: the caller's descriptors, and no mask.
    let look = |slice| unsafe { kernel_ppoll(fds, n, slice, std::ptr::null()) };
    // Not every architecture has a system call `poll`.
    let real = || look(u64::try_from(ms).ok().map(|ms| ms * 1_000_000));
    cancellable(|| found_within(milliseconds(ms), look, real))
}

/// # Safety
/// As the system call, which writes what is left into a copy of the limit.
unsafe fn kernel_ppoll(fds: *mut pollfd, n: nfds_t, ns: Option<u64>, mask: *const sigset_t) -> c_int {
    // SAFETY: the caller's.
    with_time(ns, |limit| unsafe { libc::syscall(libc::SYS_ppoll, fds, n, limit, mask, SIGNALS) as c_int })
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    n: nfds_t,
    limit: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: passed on as the caller gave it, but for what is left.
    let look = |ns| unsafe { kernel_ppoll(fds, n, ns, mask) };
    // SAFETY: the caller's.
    match unsafe { limit_of(limit) } {
        Ok(ps) => cancellable(|| found_within(ps, look, || look(ps.map(|ps| ps / NS)))),
        Err(errno) => fail(errno),
    }
}

/// # Safety
/// As the functions of libc, which are called where the program is compiled to check its buffers.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn __poll_chk(fds: *mut pollfd, n: nfds_t, ms: c_int, bytes: size_t) -> c_int {
    if bytes / size_of::<pollfd>() < n as usize {
        // It ends the process.
        return real!(__poll_chk: fn(*mut pollfd, nfds_t, c_int, size_t) -> c_int)(fds, n, ms, bytes);
    }
    // SAFETY: as the caller promises.
    unsafe { poll(fds, n, ms) }
}

/// # Safety
/// As [`__poll_chk`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn __ppoll_chk(
    fds: *mut pollfd,
    n: nfds_t,
    limit: *const timespec,
    mask: *const sigset_t,
    bytes: size_t,
) -> c_int {
    if bytes / size_of::<pollfd>() < n as usize {
        type Limit = *const timespec;
        return real!(__ppoll_chk: fn(*mut pollfd, nfds_t, Limit, *const sigset_t, size_t) -> c_int)(
            fds, n, limit, mask, bytes,
        );
    }
    // SAFETY: as the caller promises.
    unsafe { ppoll(fds, n, limit, mask) }
}

/// Words of a set of descriptors, as the kernel has them.
type Word = usize;
/// Words of the sets that are as large as libc's own; larger ones are the program's own making.
const FEW: usize = libc::FD_SETSIZE / Word::BITS as usize;

/// The caller's three sets, of which the kernel reads and writes as many words as `n` descriptors need, and what was in them.
struct Sets {
    sets: [*mut Word; 3],
    words: usize,
    few: [[Word; FEW]; 3],
    more: Vec<Word>,
}

impl Sets {
    /// # Safety
    /// Null, or sets of `n` descriptors.
    unsafe fn new(n: c_int, sets: [*mut fd_set; 3]) -> Sets {
        // The kernel leaves alone what is beyond the descriptors that the process can have.
        let n = usize::try_from(n).unwrap_or(0).min(most_descriptors());
        let words = n.div_ceil(Word::BITS as usize);
        let more = if words > FEW { vec![0; 3 * words] } else { Vec::new() };
        let mut sets = Sets { sets: sets.map(|set| set.cast::<Word>()), words, few: [[0; FEW]; 3], more };
        for i in 0..3 {
            let (from, to) = (sets.sets[i], sets.copy(i));
            if !from.is_null() {
                // SAFETY: the caller's set has as many words, and the copy is of that size.
                unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
            }
        }
        sets
    }
    fn copy(&mut self, i: usize) -> &mut [Word] {
        match self.words {
            words if words > FEW => &mut self.more[i * words..(i + 1) * words],
            words => &mut self.few[i][..words],
        }
    }
    /// The sets are as they were.
    fn restore(&mut self) {
        for i in 0..3 {
            let (to, from) = (self.sets[i], self.copy(i));
            if !to.is_null() {
                // SAFETY: as in `new`.
                unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
            }
        }
    }
}

fn most_descriptors() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place of our own.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    usize::try_from(limit.rlim_max).unwrap_or(usize::MAX)
}

/// `pselect` with a limit in picoseconds; `real` is what the caller has called.
///
/// # Safety
/// As the function of libc.
unsafe fn selects(
    n: c_int,
    sets: [*mut fd_set; 3],
    limit: Option<u64>,
    mask: *const sigset_t,
    real: impl FnOnce() -> c_int,
) -> c_int {
    if program().is_real() {
        return real();
    }
    // The mask in the form that the kernel takes.
    let with_mask = [mask as usize, SIGNALS];
    let [read, write, except] = sets;
    // SAFETY: the caller's.
    let mut kept = unsafe { Sets::new(n, sets) };
    let look = |slice| {
        kept.restore();
        // SAFETY: the caller's sets, a time and a mask of our own.
        with_time(slice, |slice| unsafe {
            libc::syscall(libc::SYS_pselect6, n, read, write, except, slice, with_mask.as_ptr()) as c_int
        })
    };
    found_within(limit, look, || 0)
}

/// `select` as the kernel does it. Not every architecture has a system call of that name.
///
/// # Safety
/// As the function of libc.
unsafe fn real_select(n: c_int, [read, write, except]: [*mut fd_set; 3], limit: *mut timeval) -> c_int {
    // SAFETY: null, or the caller's time.
    let Some(limit) = (unsafe { limit.as_mut() }) else {
        let (forever, no_mask) = (std::ptr::null_mut::<timespec>(), std::ptr::null::<usize>());
        // SAFETY: the caller's sets.
        return unsafe { libc::syscall(libc::SYS_pselect6, n, read, write, except, forever, no_mask) as c_int };
    };
    if limit.tv_sec < 0 || limit.tv_usec < 0 {
        return fail(libc::EINVAL);
    }
    // Linux takes microseconds of more than a second.
    let (more, us) = (limit.tv_usec / 1_000_000, limit.tv_usec % 1_000_000);
    let mut left = timespec { tv_sec: limit.tv_sec.saturating_add(more), tv_nsec: us * 1000 };
    let no_mask = std::ptr::null::<usize>();
    // SAFETY: the caller's sets, and a time of our own, into which the kernel writes what is left.
    let found = unsafe { libc::syscall(libc::SYS_pselect6, n, read, write, except, &raw mut left, no_mask) as c_int };
    *limit = timeval { tv_sec: left.tv_sec, tv_usec: left.tv_nsec / 1000 };
    found
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn select(
    n: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    limit: *mut timeval,
) -> c_int {
    // SAFETY: the caller promises what the callee asks for.
    let real = || unsafe { real_select(n, [read, write, except], limit) };
    // SAFETY: null, or the caller's time.
    let limit = unsafe { limit.as_mut() };
    let ps = limit.as_ref().map(|t| {
        let (s, us) = (u64::try_from(t.tv_sec).ok()?, u64::try_from(t.tv_usec).ok()?);
        Some(s.saturating_mul(1_000_000 * US).saturating_add(us.saturating_mul(US)).min(LATEST))
    });
    if ps == Some(None) {
        return fail(libc::EINVAL);
    }
    order::take();
    let (ps, before) = (ps.flatten(), program().now());
    let is_real = program().is_real();
    // SAFETY: the caller's.
    let found = cancellable(|| unsafe { selects(n, [read, write, except], ps, std::ptr::null(), real) });
    if let (Some(limit), Some(ps), false) = (limit, ps, is_real) {
        // As Linux does it, what is left.
        let left = (before + ps).saturating_sub(program().now()) / US;
        *limit = timeval { tv_sec: (left / 1_000_000) as _, tv_usec: (left % 1_000_000) as _ };
    }
    found
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pselect(
    n: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    limit: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let real = || {
        real!(pselect: fn(c_int, *mut fd_set, *mut fd_set, *mut fd_set, *const timespec, *const sigset_t) -> c_int)(
            n, read, write, except, limit, mask,
        )
    };
    // SAFETY: the caller's.
    match unsafe { limit_of(limit) } {
        // SAFETY: the caller's.
        Ok(ps) => cancellable(|| unsafe { selects(n, [read, write, except], ps, mask, real) }),
        Err(errno) => fail(errno),
    }
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn epoll_wait(fd: c_int, events: *mut epoll_event, n: c_int, ms: c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { epoll_pwait(fd, events, n, ms, std::ptr::null()) }
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn epoll_pwait(
    fd: c_int,
    events: *mut epoll_event,
    n: c_int,
    ms: c_int,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller promises what the callee asks for.
    let ask = |ms: c_int| unsafe { libc::syscall(libc::SYS_epoll_pwait, fd, events, n, ms, mask, SIGNALS) as c_int };
    cancellable(|| found_within(milliseconds(ms), |slice| ask(in_milliseconds(slice)), || ask(ms)))
}

/// A limit on the wall as `epoll_wait` takes it, at least as long.
fn in_milliseconds(ns: Option<u64>) -> c_int {
    ns.map_or(-1, |ns| c_int::try_from(ns.div_ceil(1_000_000)).unwrap_or(c_int::MAX))
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn epoll_pwait2(
    fd: c_int,
    events: *mut epoll_event,
    n: c_int,
    limit: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let look = |slice: Option<u64>| {
        let ms = in_milliseconds(slice);
        // SAFETY: passed on as the caller gave it. Not every kernel has the call of this name.
        unsafe { libc::syscall(libc::SYS_epoll_pwait, fd, events, n, ms, mask, SIGNALS) as c_int }
    };
    // SAFETY: the caller's.
    match unsafe { limit_of(limit) } {
        Ok(ps) => cancellable(|| found_within(ps, look, || look(ps.map(|ps| ps / NS)))),
        Err(errno) => fail(errno),
    }
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn semtimedop(
    id: c_int,
    operations: *mut sembuf,
    n: size_t,
    limit: *const timespec,
) -> c_int {
    // SAFETY: the caller promises what the callee asks for.
    let ask =
        |limit: *const timespec| unsafe { libc::syscall(libc::SYS_semtimedop, id, operations, n, limit) as c_int };
    // SAFETY: the caller's operations.
    let waits = !operations.is_null()
        && (0..n.min(SEMOPM)).all(|i| unsafe { c_int::from((*operations.add(i)).sem_flg) } & libc::IPC_NOWAIT == 0);
    // SAFETY: the caller's.
    match unsafe { limit_of(limit) } {
        Ok(ps) if waits && n <= SEMOPM => cancellable(|| done_within(ps, ask, || ask(limit))),
        // Those that do not wait, and those that are wrong.
        _ => ask(limit),
    }
}

/// Most operations at once, as the kernel has it unless it is told otherwise.
const SEMOPM: usize = 500;

macro_rules! suspends {
    ($($name:ident)*) => {$(
        /// # Safety
        /// As the function of libc.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $name(
            list: *const *const c_void,
            n: c_int,
            limit: *const timespec,
        ) -> c_int {
            let ask = |limit: *const timespec| {
                real!($name: fn(*const *const c_void, c_int, *const timespec) -> c_int)(list, n, limit)
            };
            // SAFETY: the caller's.
            match unsafe { limit_of(limit) } {
                Ok(ps) => cancellable(|| done_within(ps, ask, || ask(limit))),
                Err(_) => ask(limit),
            }
        }
    )*};
}
suspends! { aio_suspend aio_suspend64 }

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn recvmmsg(
    socket: c_int,
    messages: *mut mmsghdr,
    n: libc::c_uint,
    flags: c_int,
    limit: *mut timespec,
) -> c_int {
    // SAFETY: null, or the caller's.
    let limit_of = unsafe { limit_of(limit) };
    let receive = |from: c_int, flags: c_int, limit: *mut timespec| {
        // SAFETY: the caller's messages from one of them on.
        unsafe {
            let rest = messages.add(from as usize);
            libc::syscall(libc::SYS_recvmmsg, socket, rest, n - from as libc::c_uint, flags, limit) as c_int
        }
    };
    // SAFETY: takes a descriptor.
    let waits =
        flags & libc::MSG_DONTWAIT == 0 && unsafe { libc::fcntl(socket, libc::F_GETFL) } & libc::O_NONBLOCK == 0;
    let (Ok(Some(ps)), true) = (limit_of, waits && !program().is_real()) else {
        return cancellable(|| receive(0, flags, limit));
    };
    let until = from_now(ps);
    let (mut got, mut failed) = (0, 0);
    let look = |slice: Option<u64>| {
        let mut readable = pollfd { fd: socket, events: libc::POLLIN, revents: 0 };
        // SAFETY: a descriptor of our own.
        unsafe { kernel_ppoll(&raw mut readable, 1, slice, std::ptr::null()) };
        let more = receive(got, flags | libc::MSG_DONTWAIT, std::ptr::null_mut());
        got += more.max(0);
        failed = if more < 0 && errno() != libc::EAGAIN { errno() } else { 0 };
        let is_enough = got as libc::c_uint == n || got > 0 && flags & libc::MSG_WAITFORONE != 0;
        (is_enough || failed != 0).then_some(())
    };
    let ended = cancellable(|| wait(Some(until), look).is_interrupted());
    // SAFETY: the caller's time, as above.
    unsafe { *limit = nanoseconds(until.saturating_sub(program().now()) / NS) };
    match (got, failed, ended) {
        (1.., ..) => got,
        (_, 0, true) => fail(libc::EINTR),
        (_, 0, false) => fail(libc::EAGAIN),
        _ => fail(failed),
    }
}
