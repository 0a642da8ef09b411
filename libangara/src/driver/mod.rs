//! The adapter itself: what a driver of the chip would do with three mapped BARs.
//!
//! An [`Adapter`] is one PE's window into its node: the CSR page (read by loads, written through
//! the channel's mailbox), the injection ring (packets of 16-byte flits), the descriptor queue,
//! and memory that the network reads and writes. Everything above (contexts, barriers, trees)
//! uses only what is here, and so can another middleware.
//!
//! ```no_run
//! use angara::driver::{Adapter, packet};
//! use angara_abi::{csr, desc::{Place, Region}};
//! let adapter = Adapter::from_env()?;
//! println!("node {} of a torus", adapter.csr_read(csr::NODE)?);
//! let to = Place { region: Region::Heap, offset: angara_abi::job::INTERNAL_BYTES as u64 };
//! let write = adapter.inject(1, &packet::write(adapter.pe_entry(1), to, b"hello")?)?;
//! adapter.flush(1)?.wait(&adapter)?; // a read behind the write on the same path
//! assert!(write.state(&adapter) == angara::driver::OpState::Complete);
//! # Ok::<(), angara::Error>(())
//! ```

mod call_site;
mod compute;
mod hand_over;
mod handle;
mod late;
mod marks;
mod mpi_driver;
pub mod packet;
mod posts;
pub(crate) mod routines;
mod timeslice;
pub(crate) mod virtual_time;
pub(crate) mod wait;

pub use handle::{Handle, OpState};
pub(crate) use posts::{Slot, reached};

use self::compute::Computing;
use crate::attach::connection::Connection;
use crate::attach::fork::Guard;
use crate::error::{Error, Result};
use crate::memory::{Device, Memory, StaticSegment};
use angara_abi::Architecture;
use angara_abi::channel::{Channel, DMA_BYTES, Fault, PAGE_BYTES, RING_BYTES, page, status};
use angara_abi::clock::WaitsFor;
use angara_abi::inside::{Host, Parts};
use angara_abi::job::{Geometry, JobState, PeEntry, Reach};
use angara_abi::queue::QueueMemory;
use angara_protocol::launch::{ENV_TIMEOUT, Launch, LaunchError};
use angara_protocol::mpi::MpiCosts;
use angara_protocol::msg::{AdapterReply, AdapterRequest, FdRole};
use marks::Marks;
use posts::Posts;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use virtual_time::VirtualClock;

/// A mapped window of the adapter.
#[derive(Clone, Copy, Debug)]
pub struct Bar {
    /// Its name, as in `docs/reference/registers.md`.
    pub name: &'static str,
    /// Address of the first byte.
    pub base: *const u8,
    /// Size in bytes.
    pub len: usize,
    /// The client may write it.
    pub writable: bool,
}

/// One PE's adapter: its mapped memory, its injection channel and its connection to the daemon.
pub struct Adapter {
    pub(crate) memory: Memory,
    /// The channel and its doorbell; none in a job of one PE without a daemon.
    device: Option<Device>,
    pub(crate) guard: Box<Guard>,
    pub(crate) timeout: Option<Duration>,
    /// The queues' end of the client, and what was posted lately.
    posts: Mutex<Posts>,
    /// Free completion words, one bit each.
    free: AtomicU64,
    /// Per PE: every post up to this sequence is complete there.
    flushed: Marks,
    /// This PE has left its job.
    left: AtomicBool,
    /// Which of the seat's lives this is ([`angara_abi::job::Seat`]).
    life: AtomicU32,
    /// Where time is virtual. In a box, because sleeping programs find it there.
    clock: Option<Box<VirtualClock>>,
}

/// Refuses a machine on whose pages memory cannot be shared.
fn require_pages() -> Result<()> {
    angara_abi::require_pages().map_err(|e| Error::system("memory cannot be shared", e))
}

impl Adapter {
    /// Opens the adapter the launch environment names (see `angara run`).
    pub fn from_env() -> Result<Adapter> {
        Adapter::open(&Launch::from_env()?, &[])
    }

    /// Attaches to the job `launch` names and maps everything. `statics` are the page ranges of
    /// this process that shall be symmetric; they are announced, not touched.
    pub fn open(launch: &Launch, statics: &[StaticSegment]) -> Result<Adapter> {
        let connection = Connection::open(&launch.runtime_dir, launch.pes as usize)?;
        Adapter::over(connection, launch, statics)
    }

    pub(crate) fn over(connection: Connection, launch: &Launch, statics: &[StaticSegment]) -> Result<Adapter> {
        require_pages()?;
        announce();
        let request = AdapterRequest::Attach {
            abi: angara_abi::ABI_VERSION,
            job: launch.job,
            key: launch.key.clone(),
            pe: launch.pe,
            architecture: Architecture::HERE,
            statics: statics.iter().map(|s| s.len as u64).collect(),
        };
        let (reply, fds) = connection.ask(&request)?;
        let AdapterReply::Attached { fds: roles } = reply else {
            return Err(Error::Daemon(format!("unexpected answer to attach: {reply:?}")));
        };
        Adapter::seated(connection, (launch.pe as usize, launch.pes as usize), (&roles, fds), statics)
    }

    /// Takes a seat of an open job; also the job's key.
    pub(crate) fn join(connection: Connection, request: &AdapterRequest) -> Result<(Adapter, String)> {
        announce();
        match connection.ask(request)? {
            (AdapterReply::Joined { pe, pes, fds: roles, key, .. }, fds) => {
                Ok((Adapter::seated(connection, (pe as usize, pes as usize), (&roles, fds), &[])?, key))
            }
            (other, _) => Err(Error::Daemon(format!("unexpected answer to join: {other:?}"))),
        }
    }

    /// Maps what the daemon has sent to PE `pe` of `pes`.
    fn seated(
        connection: Connection,
        (pe, pes): (usize, usize),
        (roles, fds): (&[FdRole], Vec<OwnedFd>),
        statics: &[StaticSegment],
    ) -> Result<Adapter> {
        let (mut memory, device, clock) = Memory::map(pe, pes, roles, fds, statics)?;
        if clock.is_some() {
            // The short way takes no time, not even to this PE's own variables.
            memory.peers.without_shortcut();
        }
        let mut adapter = Adapter::build(memory, Some(device), Some(connection));
        if let Some(page) = clock {
            let computing = Computing::from_env(pe)?;
            adapter.clock = Some(Box::new(VirtualClock::new(page, computing, adapter.memory.sync.deadlines(), None)));
        }
        if let Some(clock) = &mut adapter.clock {
            clock.join(&adapter.memory, &mpi_driver::DRIVER)?;
            call_site::answer();
            // In a heterogeneous job it may be there for one architecture alone.
            if !clock.is_seen() && (pe == 0 || adapter.memory.geometry.heterogeneous) {
                angara_protocol::complain!(
                    "angara: the program's own clocks tell real time: libangara_clock.so is not loaded into it; a program that is linked statically, has more rights than its user, or runs without LD_PRELOAD loads none"
                );
            }
        }
        Ok(adapter)
    }

    /// The adapter of a PE in the process of all PEs.
    ///
    /// # Safety
    /// The regions of `parts` are what [`Parts`] says, and stay as long as the process.
    pub(crate) unsafe fn inside(host: &'static Host, parts: &Parts) -> Result<Adapter> {
        // SAFETY: the caller's promise.
        let (mut memory, device, page) = unsafe { Memory::inside(parts)? };
        memory.peers.without_shortcut();
        let mut adapter = Adapter::build(memory, Some(device), Some(Connection::Inside(host)));
        let computing = Computing::from_env(parts.pe as usize)?;
        let deadlines = adapter.memory.sync.deadlines();
        let mut clock = Box::new(VirtualClock::new(page, computing, deadlines, Some(host)));
        clock.join(&adapter.memory, &mpi_driver::DRIVER)?;
        adapter.clock = Some(clock);
        Ok(adapter)
    }

    /// A job of one PE without daemon, ring or network.
    pub(crate) fn solo(heap: usize, statics: &[StaticSegment]) -> Result<Adapter> {
        require_pages()?;
        angara_abi::wait::register();
        Ok(Adapter::build(Memory::solo(heap, statics)?, None, None))
    }

    fn build(memory: Memory, device: Option<Device>, connection: Option<Connection>) -> Adapter {
        let guard = Guard::new(memory.table, connection);
        let seconds = std::env::var(ENV_TIMEOUT).ok().and_then(|v| v.parse::<f64>().ok()).filter(|s| *s > 0.0);
        let flushed = Marks::new(memory.geometry.pes);
        Adapter {
            memory,
            device,
            guard,
            timeout: seconds.and_then(|s| Duration::try_from_secs_f64(s).ok()),
            posts: Mutex::new(Posts::default()),
            free: AtomicU64::new(u64::MAX),
            flushed,
            left: AtomicBool::new(false),
            life: AtomicU32::new(1),
            clock: None,
        }
    }

    /// This PE.
    pub fn my_pe(&self) -> usize {
        self.memory.me
    }
    /// Number of PEs of the job.
    pub fn n_pes(&self) -> usize {
        self.memory.geometry.pes
    }
    /// Shape of the network and how the job is to use it.
    pub fn geometry(&self) -> &Geometry {
        &self.memory.geometry
    }
    /// Where `pe` lives.
    ///
    /// # Panics
    /// If there is no such PE.
    pub fn pe_entry(&self, pe: usize) -> PeEntry {
        assert!(pe < self.n_pes(), "PE {pe} of {}", self.n_pes());
        self.memory.job.pe(pe)
    }

    fn device(&self) -> Result<&Device> {
        self.device.as_ref().ok_or(Error::NotLaunched(LaunchError::NoLauncher))
    }
    pub(crate) fn channel(&self) -> Result<&Channel> {
        self.device().map(|d| &d.channel)
    }

    /// This PE's clock, where time is virtual.
    #[inline]
    pub(crate) fn clock(&self) -> Option<&VirtualClock> {
        self.clock.as_deref().filter(|clock| clock.is_on())
    }

    /// Picoseconds since the program began, where time is virtual.
    pub fn virtual_now(&self) -> Option<u64> {
        self.clock().map(VirtualClock::now)
    }

    /// Time is virtual in this job, and not for this PE now: the adapter does nothing more for it.
    pub fn is_outside_time(&self) -> bool {
        self.clock.as_deref().is_some_and(|clock| !clock.is_on())
    }

    /// Where time is virtual: the number of the call of a message-passing library that the calling thread is in, if that returns
    /// only when something has come. A look takes no time there, and one in vain is the beginning of a wait.
    #[inline]
    pub fn blocking_call(&self) -> Option<u32> {
        self.clock().and_then(VirtualClock::blocking_call)
    }

    /// True if threads of this process make calls of a message-passing library one at a time, in order: one that waits must stand
    /// where it has no lock that others need.
    #[inline]
    pub fn takes_turns(&self) -> bool {
        self.clock().is_some_and(VirtualClock::takes_turns)
    }
    /// Calls this when a thread yields in such a call, where threads take turns.
    pub fn on_yield(&self, hook: extern "C" fn()) {
        if let Some(clock) = &self.clock {
            clock.on_yield(hook);
        }
    }
    /// The calling thread has done something that another one of the process may wait for.
    #[inline]
    pub fn changes_something(&self) {
        if let Some(clock) = self.clock() {
            clock.changes_something();
        }
    }

    /// Where time is virtual: a call of a message-passing library went on by itself after `looks` looks in vain. Unless it
    /// `is_known` to need as many, times are doubtful from now on.
    pub fn went_on_after(&self, looks: u32, is_known: bool) {
        if let Some(clock) = self.clock() {
            clock.went_on_after(looks, is_known);
        }
    }

    /// Where time is virtual: a message-passing library looks for messages. Times are doubtful if it does so outside of all calls
    /// that are known.
    pub fn looks_somewhere(&self) {
        if let Some(clock) = self.clock() {
            clock.looks_somewhere();
        }
    }

    /// Returns what a message-passing library above costs, where time is virtual.
    #[inline]
    pub fn mpi_costs(&self) -> Option<MpiCosts> {
        self.clock().and_then(VirtualClock::mpi).copied()
    }

    /// N picoseconds pass in the library above, in the middle of something: where time is virtual.
    pub fn takes(&self, ps: u64) {
        if let Some(clock) = self.clock() {
            clock.costs(ps);
        }
    }

    /// The call of a message-passing library in which the calling thread is, where time is virtual.
    pub fn name_of_call(&self) -> Option<&'static str> {
        self.clock().and_then(VirtualClock::call_name)
    }

    /// The program calls a routine of the library above, and what it has computed passes.
    pub(crate) fn called(&self, routine: &'static str) -> Result<()> {
        let Some(clock) = self.clock() else { return Ok(()) };
        if clock.counts_computing() {
            clock.called()?;
            if clock.is_ahead() {
                self.stand()?;
            }
            clock.is_inside();
        }
        clock.begins(routine);
        Ok(())
    }

    /// Lets `ps` picoseconds of virtual time pass, and everybody come as far. Returns whether time is virtual.
    pub(crate) fn pass(&self, ps: u64) -> Result<bool> {
        let Some(clock) = self.clock() else { return Ok(false) };
        clock.pass_computing(ps);
        if clock.is_ahead() {
            self.stand()?;
        }
        Ok(true)
    }

    /// Several threads communicate from now on: where time is virtual, none of them knows what the others will do.
    pub(crate) fn with_threads(&self) {
        let Some(clock) = self.clock() else { return };
        clock.with_threads();
        if self.my_pe() == 0 {
            angara_protocol::complain!(
                "angara: threads communicate at once: when each has its turn is the system's choice, so two runs may differ"
            );
        }
    }

    /// The register at byte offset `csr` (see [`angara_abi::csr`]) of this PE's node.
    pub fn csr_read(&self, csr: u32) -> Result<u64> {
        if !angara_abi::csr::exists(csr) {
            return Err(no_register(csr));
        }
        let word: &AtomicU64 = self.device()?.csr.at(csr as usize).map_err(|_| no_register(csr))?;
        self.look()?;
        Ok(word.load(Ordering::Acquire))
    }

    /// Writes register `csr`: a command in the channel's mailbox, executed and acknowledged by
    /// the adapter. Most registers are refused; [`angara_abi::csr::client_writable`] names the others.
    pub fn csr_write(&self, csr: u32, value: u64) -> Result<()> {
        let device = self.device()?;
        // One mailbox per channel: the next command may be written when this one is answered.
        let _mailbox = self.posts.lock().unwrap_or_else(|e| e.into_inner());
        let seq = device.channel.csr_command(csr, value);
        self.ring_doorbell(device);
        let mut reply = None;
        let done = || {
            reply = device.channel.csr_reply(seq);
            reply.is_some()
        };
        self.wait(WaitsFor::Adapter, done, &|| format!("the adapter to write register {csr:#06x}"))?;
        match reply {
            Some(Err(Fault::BadCsr)) => Err(no_register(csr)),
            Some(Err(fault)) => Err(Error::Channel { fault, post: format!("write of register {csr:#06x}") }),
            _ => Ok(()),
        }
    }

    /// The mapped windows of this PE, for inspection. What is posted goes through
    /// [`Adapter::inject`] and [`Adapter::post_descriptor`], which own the tails.
    pub fn bars(&self) -> Result<[Bar; 5]> {
        let device = self.device()?;
        let c = &device.channel;
        let status = c.status_u32(0).as_ptr() as *const u8;
        let page = (c.tx_tail().as_ptr() as *const u8).wrapping_sub(page::TX_TAIL);
        let bar = |name, base, len, writable| Bar { name, base, len, writable };
        Ok([
            bar("CSR page", device.csr.as_ptr().cast_const(), device.csr.len(), false),
            bar("channel page", page, PAGE_BYTES, true),
            bar("channel status page", status, PAGE_BYTES, false),
            bar("injection ring", c.flit(0, 0).as_ptr() as *const u8, RING_BYTES, true),
            bar("descriptor queue", c.slot(0, 0).as_ptr() as *const u8, DMA_BYTES, true),
        ])
    }

    /// Ring flits and descriptors the adapter has taken so far (both run freely over u32).
    pub fn heads(&self) -> Result<(u32, u32)> {
        let channel = self.channel()?;
        self.look()?;
        let load = |at| channel.status_u32(at).load(Ordering::Acquire);
        Ok((load(status::TX_HEAD), load(status::DMA_HEAD)))
    }

    /// The sticky error of the channel, naming the post that caused it.
    pub fn channel_error(&self) -> Option<Error> {
        let (fault, seq) = self.device.as_ref()?.channel.error()?;
        let posts = self.posts.try_lock();
        let note = posts.ok().and_then(|p| p.note(seq));
        if let (Fault::Unreachable, Some(note)) = (fault, note) {
            // A write is lost after its post has long been taken; the table knows the target then.
            let dead = |pe: &usize| self.memory.peers.reach(*pe) == Reach::Unreachable;
            let named = (0..self.n_pes()).find(|pe| *pe == note.pe as usize && dead(pe));
            if let Some(pe) = named.or_else(|| (0..self.n_pes()).find(dead)) {
                return Some(self.unreachable(pe));
            }
        }
        let post = note.map_or_else(|| format!("post {seq}"), |n| format!("post {seq}: {n}"));
        Some(Error::Channel { fault, post })
    }

    /// The error that says `pe` cannot be reached.
    #[cold]
    pub(crate) fn unreachable(&self, pe: usize) -> Error {
        if self.memory.job.state() == JobState::Ended {
            // That is why, and whoever has ended it has said so.
            return Error::JobEnded;
        }
        let entry = self.memory.job.pe(pe.min(self.n_pes() - 1));
        Error::Unreachable { pe, node: entry.node, coords: self.memory.geometry.shape.show(entry.coords) }
    }

    /// After a post: wakes the adapter if it sleeps. The adapter raises `daemon_sleeps`, runs a
    /// heavy fence and looks at every channel again, so no fence is needed on this side.
    fn ring_doorbell(&self, device: &Device) {
        angara_abi::order::before_a_look_for_sleepers();
        if self.memory.job.daemon_sleeps().load(Ordering::Relaxed) != 0 {
            // EAGAIN means the counter is already non-zero: the bell has been rung.
            let _ = device.doorbell.as_ref().map(|bell| rustix::io::write(bell, &1u64.to_ne_bytes()));
        }
    }

    /// All PEs are in this process.
    pub fn is_inside(&self) -> bool {
        matches!(self.guard.connection(), Some(Connection::Inside(_)))
    }

    /// A request over the socket.
    pub(crate) fn ask(&self, request: &AdapterRequest) -> Result<(AdapterReply, Vec<OwnedFd>)> {
        let connection = self.guard.connection().ok_or(Error::NotLaunched(LaunchError::NoLauncher))?;
        connection.ask(request)
    }

    /// Asks the daemon to end the whole job with `status`. Without a daemon nothing happens; in
    /// both cases the caller still has to exit.
    /// With `orderly` nothing has failed, and the other PEs end as programs do.
    pub fn abort(&self, status: i32, reason: &str, orderly: bool) {
        let Some(connection) = self.guard.connection() else { return };
        // Where time is virtual, others first do what they do before this time; what keeps this PE from standing still
        // does not keep it from ending the job.
        let _ = self.stand();
        let _ = connection.ask(&AdapterRequest::Abort { status, reason: reason.into(), orderly });
        if let Some(clock) = self.clock() {
            // Nobody lets this PE go any more; sleeps of handlers that still run must not wait for that.
            clock.leave();
        }
    }

    /// This thread reads real clocks from now on, whatever time the program has: it is about to end the process.
    pub fn read_real_clocks(&self) {
        if let Some(clock) = self.clock() {
            clock.read_real();
        }
    }

    /// Says what virtual time went for, as far as only this side knows.
    fn tell_times(&self) {
        let Some(clock) = self.clock.as_deref() else { return };
        clock.write_intervals();
        let routines = clock.take_routines();
        if !routines.is_empty() {
            // Where the job has ended nobody asks for it.
            let _ = self.ask(&AdapterRequest::Routines { routines });
        }
    }

    /// Which of the seat's lives this is, from 1.
    pub fn life(&self) -> u32 {
        self.life.load(Ordering::Relaxed)
    }

    /// Ends this life: closing the connection from now on is not a failure, and the end of the job does not concern this process.
    pub(crate) fn rest(&self) -> Result<()> {
        crate::launcher::takes_part(false);
        self.tell_times();
        if self.guard.connection().is_some() {
            self.ask(&AdapterRequest::Rest)?;
        }
        Ok(())
    }

    /// Begins the next life.
    pub(crate) fn start(&self) -> Result<()> {
        if self.guard.connection().is_some() {
            self.ask(&AdapterRequest::Start)?;
        }
        crate::launcher::takes_part(true);
        self.life.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Says goodbye: the connection closing from now on is not a failure. Idempotent.
    pub fn detach(&self) {
        let Some(connection) = self.guard.connection() else { return };
        if !self.guard.forked() && !self.left.swap(true, Ordering::AcqRel) {
            crate::launcher::takes_part(false);
            self.tell_times();
            let _ = connection.ask(&AdapterRequest::Detach);
            if let Some(clock) = self.clock.as_deref().filter(|clock| !clock.is_on()) {
                // It does not come back.
                clock.leave();
            }
        }
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        if let Some(clock) = &self.clock {
            clock.leave();
        }
        // A panic is a failure of this PE, and the daemon shall see it as one.
        if !std::thread::panicking() {
            self.detach();
        }
    }
}

/// To be done before the daemon lets others wait for our stores.
fn announce() {
    angara_abi::wait::register();
    timeslice::shorten();
}

fn no_register(csr: u32) -> Error {
    Error::invalid(format!("register {csr:#06x} does not exist or may not be written; see docs/reference/registers.md"))
}
