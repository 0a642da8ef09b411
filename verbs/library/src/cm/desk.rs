//! The connection manager of this process: its descriptors, its lock, and its way to the adapters.
//!
//! Whoever holds the lock uses adapters, and these deliver messages for managers, to whom the lock is busy. So
//! messages go to an inbox, which the holder of the lock empties before and after he gives it back.

use super::bytes::Fields;
pub(crate) use super::commands::Answer;
use super::commands::{HEAD, number};
use super::id::Fabric;
use super::manager::Manager;
use angara_hca::address::LinkLayer;
use angara_hca::{Errno, Event, Network, Peer, Result};
use angara_verbs_process::{Adapter, Listener};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::{IoSliceMut, ReadWriteFlags, preadv2, write};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, getsockname, socket_with};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Descriptors above are refused.
const FDS: usize = 1 << 16;
/// How often time limits and peers are looked at.
const PERIOD: Duration = Duration::from_millis(20);

/// A bit for each descriptor that is ours.
static OURS: [AtomicU64; FDS / 64] = [const { AtomicU64::new(0) }; FDS / 64];
static DESK: Mutex<Option<Desk>> = Mutex::new(None);
static INBOX: Mutex<Vec<(usize, Peer, Vec<u8>)>> = Mutex::new(Vec::new());
/// Time may change something.
static WAITS: AtomicBool = AtomicBool::new(false);

/// True if a descriptor may be one of an event channel.
#[inline(always)]
pub(crate) fn is_ours(fd: i32) -> bool {
    let bits = usize::try_from(fd).ok().and_then(|fd| OURS.get(fd / 64));
    bits.is_some_and(|bits| bits.load(Ordering::Relaxed) >> (fd as u32 % 64) & 1 == 1)
}

fn mark(fd: i32, is_ours: bool) {
    let bit = 1 << (fd as u32 % 64);
    if let Some(bits) = OURS.get(fd as usize / 64) {
        match is_ours {
            true => bits.fetch_or(bit, Ordering::Relaxed),
            false => bits.fetch_and(!bit, Ordering::Relaxed),
        };
    }
}

/// What the program knows of a channel.
struct Door {
    channel: u64,
    /// The same as the program's descriptor, which the program may close in ways that nobody here sees.
    bell: OwnedFd,
    /// The kernel's number of it, by which one that has been closed and opened as another is told apart.
    serial: Option<u64>,
}

struct Desk {
    manager: Manager,
    fabric: Adapters,
    doors: BTreeMap<i32, Door>,
    /// The process that it is of: a child that was forked has none of it.
    pid: u32,
}

/// The adapters of this process, as a connection manager sees them.
struct Adapters {
    all: &'static [&'static Adapter],
    nodes: Vec<u32>,
    began: Instant,
}

impl Fabric for Adapters {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }
    fn adapters(&self) -> &[u32] {
        &self.nodes
    }
    fn nodes(&self) -> u32 {
        self.all[0].with(|hca| hca.network().nodes())
    }
    fn link(&self, adapter: usize) -> LinkLayer {
        self.all[adapter].link()
    }
    fn find(&self, adapter: usize, listener: Listener, node: Option<u32>) -> Option<Peer> {
        self.all[adapter].with(|hca| hca.network().find_listener(listener, node))
    }
    fn listen(&self, adapter: usize, listener: Listener) -> Result<()> {
        self.all[adapter].with(|hca| hca.network_mut().listen(listener))
    }
    fn stop_listening(&self, adapter: usize, listener: Listener) {
        self.all[adapter].with(|hca| hca.network_mut().stop_listening(listener));
    }
    fn send(&self, adapter: usize, to: Peer, bytes: &[u8]) {
        self.all[adapter].with(|hca| {
            hca.send_cm(to, bytes);
            if to == hca.network().me() {
                // Nothing from outside has the adapter look.
                hca.progress();
            }
        });
    }
    fn is_there(&self, adapter: usize, peer: Peer) -> bool {
        self.all[adapter].with(|hca| hca.network().is_there(peer))
    }
    fn node_of(&self, adapter: usize, peer: Peer) -> u32 {
        self.all[adapter].with(|hca| hca.network().node_of(peer))
    }
    fn me(&self, adapter: usize) -> Peer {
        self.all[adapter].with(|hca| hca.network().me())
    }
    fn source_for(&self, to: IpAddr) -> Option<IpAddr> {
        // Nothing is sent: the kernel says only which address it would send from.
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
        connect(&socket, &SocketAddr::new(to, 9)).ok()?;
        Some(SocketAddr::try_from(getsockname(&socket).ok()?).ok()?.ip())
    }
    fn random(&self) -> u16 {
        let mut bytes = [0; 2];
        let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        u16::from_ne_bytes(bytes)
    }
}

impl Desk {
    fn new(all: &'static [&'static Adapter]) -> Desk {
        let nodes = all.iter().map(|adapter| adapter.node()).collect();
        let fabric = Adapters { all, nodes, began: Instant::now() };
        Desk { manager: Manager::default(), fabric, doors: BTreeMap::new(), pid: std::process::id() }
    }

    /// Takes messages that have come, and has descriptors say how many events wait.
    fn settle(&mut self) {
        loop {
            let messages = std::mem::take(&mut *inbox());
            if messages.is_empty() {
                break;
            }
            for (adapter, from, bytes) in messages {
                self.manager.arrive(&self.fabric, adapter, from, &bytes);
            }
        }
        for door in self.doors.values() {
            let Some(channel) = self.manager.channels.get_mut(&door.channel) else { continue };
            let count = channel.waiting.len();
            if count > channel.counted {
                let _ = write(&door.bell, &((count - channel.counted) as u64).to_ne_bytes());
            }
            for _ in count..channel.counted {
                take_count(door.bell.as_fd());
            }
            channel.counted = count;
        }
        WAITS.store(self.manager.waits(), Ordering::Relaxed);
    }

    /// The channel of a descriptor, if that is still the one that was opened.
    fn channel(&mut self, fd: i32) -> Option<u64> {
        let door = self.doors.get(&fd)?;
        let (channel, serial) = (door.channel, door.serial);
        if serial.is_some() && serial != serial_of(fd) {
            self.forget(fd);
            return None;
        }
        Some(channel)
    }

    fn forget(&mut self, fd: i32) {
        mark(fd, false);
        if let Some(door) = self.doors.remove(&fd) {
            self.manager.close(&self.fabric, door.channel);
        }
    }
}

/// Counts an event of a descriptor down, if it has one; never waits.
fn take_count(bell: BorrowedFd<'_>) {
    let _ = preadv2(bell, &mut [IoSliceMut::new(&mut [0; 8])], u64::MAX, ReadWriteFlags::NOWAIT);
}

/// The kernel's number of an eventfd, which no later one has.
fn serial_of(fd: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("eventfd-id:")?.trim().parse().ok())
}

fn inbox() -> MutexGuard<'static, Vec<(usize, Peer, Vec<u8>)>> {
    INBOX.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does something at the desk, and what that has caused.
fn at_desk<T>(mut desk: MutexGuard<'static, Option<Desk>>, f: impl FnOnce(&mut Desk) -> T) -> Option<T> {
    let open = desk.as_mut().filter(|desk| desk.pid == std::process::id())?;
    let done = f(open);
    open.settle();
    drop(desk);
    look_at_inbox();
    Some(done)
}

fn with_desk<T>(f: impl FnOnce(&mut Desk) -> T) -> Option<T> {
    at_desk(DESK.lock().unwrap_or_else(PoisonError::into_inner), f)
}

/// Does something at the desk, unless somebody is there.
fn try_desk(f: impl FnOnce(&mut Desk)) -> bool {
    match DESK.try_lock() {
        Ok(desk) => at_desk(desk, f).is_some(),
        Err(TryLockError::Poisoned(desk)) => at_desk(desk.into_inner(), f).is_some(),
        Err(TryLockError::WouldBlock) => false,
    }
}

/// Messages that came while the desk was in use, after its user had looked last.
fn look_at_inbox() {
    while !inbox().is_empty() {
        if !try_desk(|_| ()) {
            break;
        }
    }
}

/// Takes what is for the connection manager from events of an adapter.
pub(crate) fn deliver(adapter: &'static Adapter, events: &mut Vec<Event>) {
    if !events.iter().any(|event| matches!(event, Event::Cm { .. })) {
        return;
    }
    let all = angara_verbs_process::known();
    let Some(index) = all.iter().position(|one| std::ptr::eq(*one, adapter)) else { return };
    let mut rest = Vec::with_capacity(events.len());
    for event in events.drain(..) {
        match event {
            Event::Cm { from, bytes } => inbox().push((index, from, bytes)),
            other => rest.push(other),
        }
    }
    *events = rest;
    open_desk(all);
    look_at_inbox();
}

/// Looks at time limits, now and then. Agents call this whenever they look for messages.
pub(crate) fn tick() {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    if !WAITS.load(Ordering::Relaxed) {
        return;
    }
    let clock = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    let now = clock.tv_sec as u64 * 1000 + clock.tv_nsec as u64 / 1_000_000;
    let next = NEXT.load(Ordering::Relaxed);
    let later = now + PERIOD.as_millis() as u64;
    if now >= next && NEXT.compare_exchange(next, later, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        try_desk(|desk| desk.manager.tick(&desk.fabric));
    }
}

/// Has a desk at all: also a process without channels answers those who ask it.
fn open_desk(all: &'static [&'static Adapter]) {
    let desk = match DESK.try_lock() {
        Ok(desk) => desk,
        Err(TryLockError::Poisoned(desk)) => desk.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    renew(desk, all);
}

fn renew(mut desk: MutexGuard<'static, Option<Desk>>, all: &'static [&'static Adapter]) {
    if desk.as_ref().is_none_or(|desk| desk.pid != std::process::id()) {
        // The parent's own stays the parent's: nothing of it is told to anybody.
        std::mem::forget(desk.replace(Desk::new(all)));
    }
}

/// Opens an event channel, with flags of `open`.
pub(crate) fn open(all: &'static [&'static Adapter], flags: i32) -> Result<OwnedFd> {
    renew(DESK.lock().unwrap_or_else(PoisonError::into_inner), all);
    let mut how = EventfdFlags::SEMAPHORE;
    how.set(EventfdFlags::CLOEXEC, flags & libc::O_CLOEXEC != 0);
    how.set(EventfdFlags::NONBLOCK, flags & libc::O_NONBLOCK != 0);
    let fd = eventfd(0, how)?;
    if fd.as_raw_fd() as usize >= FDS {
        return Err(Errno::MFILE);
    }
    let bell = rustix::io::fcntl_dupfd_cloexec(&fd, 3)?;
    with_desk(|desk| {
        let number = fd.as_raw_fd();
        // One that was closed where nobody saw it.
        desk.forget(number);
        let channel = desk.manager.open();
        desk.doors.insert(number, Door { channel, bell, serial: serial_of(number) });
        mark(number, true);
    })
    .ok_or(Errno::NODEV)?;
    Ok(fd)
}

/// The program closes a descriptor.
pub(crate) fn close(fd: i32) {
    with_desk(|desk| desk.forget(fd));
}

/// A command, its head, and what an option is set to.
pub(crate) struct Command<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl Command<'_> {
    /// Where the value of an option is, and how many bytes it has.
    pub(crate) fn value(bytes: &[u8]) -> Option<(u64, usize)> {
        let (head, body) = (Fields(bytes), Fields(bytes.get(HEAD..).unwrap_or_default()));
        (bytes.len() >= HEAD && head.u32(0) == number::SET_OPTION).then(|| (body.u64(0), body.u32(20) as usize))
    }
    /// True if it asks for an event.
    pub(crate) fn takes_event(bytes: &[u8]) -> bool {
        bytes.len() >= HEAD + 8 && Fields(bytes).u32(0) == number::GET_EVENT
    }
}

/// What a command has come to. `None`: the descriptor is not ours.
pub(crate) fn command(fd: i32, command: &Command<'_>) -> Option<Result<Option<Answer>>> {
    let head = Fields(command.bytes);
    let run = |desk: &mut Desk| {
        let channel = desk.channel(fd)?;
        let (len, room) = (usize::from(head.u16(4)), usize::from(head.u16(6)));
        let Some(body) = command.bytes.get(HEAD..).and_then(|rest| rest.get(..len)) else {
            return Some(Err(Errno::INVAL));
        };
        let body = Fields(body);
        let which = head.u32(0);
        let other = (which == number::MIGRATE_ID).then(|| desk.channel(body.u32(12) as i32)).flatten();
        let done = desk.manager.command(&desk.fabric, channel, which, body, (command.value, other));
        Some(done.and_then(|answer| answer.map(|answer| fitting(answer, room)).transpose()))
    };
    with_desk(run)?
}

/// An answer as far as the program has room for it; one of one word must fit.
fn fitting(mut answer: Answer, room: usize) -> Result<Answer> {
    let bytes = &mut answer.bytes.0;
    if room < bytes.len().min(4) {
        return Err(Errno::NOSPC);
    }
    bytes.truncate(room);
    Ok(answer)
}

/// The next event of a channel, for a caller who has counted one down: `Some(None)` if another thread has got it.
/// `None`: the descriptor is not ours.
pub(crate) fn event(fd: i32, command: &[u8]) -> Option<Option<Result<Answer>>> {
    let (room, at) = (Fields(command).u16(6), Fields(command).u64(HEAD));
    let run = |desk: &mut Desk| {
        let number = desk.channel(fd)?;
        let event = desk.manager.take_event(number);
        if let (Some(_), Some(channel)) = (&event, desk.manager.channels.get_mut(&number)) {
            channel.counted = channel.counted.saturating_sub(1);
        }
        Some(event.map(|bytes| fitting(Answer { at, bytes }, room.into())))
    };
    with_desk(run)?
}
