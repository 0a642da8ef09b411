//! An adapter: one lock, and what its program and its agent do with it.

use crate::memory::Own;
use crate::port::Port;
use angara_hca::address::LinkLayer;
use angara_hca::{Errno, Event, Hca, Network, Pd, Region};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

/// What gives events to the program.
pub type Deliver = fn(&'static Adapter, Vec<Event>);

static DELIVER: OnceLock<Deliver> = OnceLock::new();

/// Events of all adapters go there.
pub fn deliver_with(deliver: Deliver) {
    let _ = DELIVER.set(deliver);
}

/// What is to be done now and then.
pub type Tick = fn();

static TICK: OnceLock<Tick> = OnceLock::new();

/// Agents of all adapters call this often: at least every 20 ms, and much more often while there is traffic.
pub fn tick_with(tick: Tick) {
    let _ = TICK.set(tick);
}

/// Calls it.
pub(crate) fn tick() {
    if let Some(tick) = TICK.get() {
        tick();
    }
}

/// An adapter.
pub struct Adapter {
    hca: Mutex<Hca<Port, Own>>,
    memory: Own,
    name: String,
    node: u32,
    link: LinkLayer,
    /// Counts polls of the program: while it polls, its agent stays away.
    polls: AtomicU32,
    agent: OnceLock<Thread>,
    /// The agent leaves all to the program, until it finds this false.
    is_away: AtomicBool,
    /// Some completion queue is armed: the program may sleep.
    is_armed: AtomicBool,
    job: Arc<angara::Job>,
    /// Everything goes through the network.
    by_network: bool,
}

impl Adapter {
    pub(crate) fn new(
        hca: Hca<Port, Own>,
        name: String,
        link: LinkLayer,
        job: Arc<angara::Job>,
        by_network: bool,
    ) -> Adapter {
        Adapter {
            node: hca.network().node(),
            memory: hca.memory().clone(),
            hca: Mutex::new(hca),
            name,
            link,
            polls: AtomicU32::new(0),
            agent: OnceLock::new(),
            is_away: AtomicBool::new(false),
            is_armed: AtomicBool::new(false),
            job,
            by_network,
        }
    }

    /// Name of the device.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Node of the torus.
    pub fn node(&self) -> u32 {
        self.node
    }
    /// The link layer that its port shows.
    pub fn link(&self) -> LinkLayer {
        self.link
    }

    /// Lets `f` use the adapter, then gives what has happened to the program.
    pub fn with<T>(&'static self, f: impl FnOnce(&mut Hca<Port, Own>) -> T) -> T {
        let mut hca = self.lock();
        let result = f(&mut hca);
        self.is_armed.store(hca.is_armed(), Ordering::Relaxed);
        let events = if hca.has_events() { hca.take_events() } else { Vec::new() };
        drop(hca);
        if let (false, Some(deliver)) = (events.is_empty(), DELIVER.get()) {
            deliver(self, events);
        }
        result
    }

    /// Registers memory, as [`Hca::register`], but exchanges its pages while others may use the adapter: for gigabytes that takes
    /// seconds, after which peers would have given up an adapter that does not answer.
    pub fn register(&'static self, pd: Pd, at: u64, len: u64, iova: u64, access: u32) -> Result<Region, Errno> {
        self.with(|hca| hca.check_region(pd, at, len, access))?;
        let reach = self.memory.exchange(at, len);
        self.with(|hca| hca.add_region(pd, at, len, iova, access, reach))
            .inspect_err(|_| self.memory.give_back(at, len, reach))
    }

    /// Undoes it, in the same way. The program gets its pages back when nothing is written there any more.
    pub fn deregister(&'static self, key: u32) -> Result<(), Errno> {
        let region = self.with(|hca| hca.remove_region(key))?;
        self.memory.give_back(region.at, region.len, region.reach);
        Ok(())
    }

    /// [`Adapter::with`] for a poll of the program.
    pub fn poll<T>(&'static self, f: impl FnOnce(&mut Hca<Port, Own>) -> T) -> T {
        self.polls.fetch_add(1, Ordering::Relaxed);
        self.with(f)
    }

    /// The program will not poll for a while: the agent is to see to what comes.
    pub fn wake_agent(&self) {
        if self.is_away.load(Ordering::Relaxed)
            && self.is_away.swap(false, Ordering::AcqRel)
            && let Some(agent) = self.agent.get()
        {
            agent.unpark();
        }
    }

    /// The same after a poll has told of a one-sided operation: who makes such often looks at its memory next. Where
    /// initiators copy, nobody needs an agent for that.
    pub fn has_seen_one_sided(&self) {
        if self.by_network {
            self.wake_agent();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Hca<Port, Own>> {
        // A panic of another thread was caught at the edge to C; every step leaves the adapter whole.
        self.hca.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A step of the agent. True if anything was done.
    pub(crate) fn progress(&'static self) -> bool {
        self.with(Hca::progress)
    }
    /// The agent goes away.
    pub(crate) fn goes_away(&self) {
        self.is_away.store(true, Ordering::Release);
    }
    /// It is to come back.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.is_away.load(Ordering::Acquire)
    }
    /// The program polls instead of its agent, when these have changed and nothing is armed.
    pub(crate) fn polls(&self) -> u32 {
        self.polls.load(Ordering::Relaxed)
    }
    pub(crate) fn is_armed(&self) -> bool {
        self.is_armed.load(Ordering::Relaxed)
    }
    pub(crate) fn job(&self) -> &angara::Job {
        &self.job
    }
    pub(crate) fn has_agent(&self, agent: Thread) {
        let _ = self.agent.set(agent);
    }
}

/// How long a process that ends tries to get rid of what others wait for, and between two attempts.
const FAREWELL: std::time::Duration = std::time::Duration::from_millis(200);
const BREATH: std::time::Duration = std::time::Duration::from_micros(100);

impl Adapter {
    pub(crate) fn leave(&'static self) {
        let end = std::time::Instant::now() + FAREWELL;
        while let Ok(mut hca) = self.hca.try_lock() {
            hca.progress();
            let waits = hca.has_unsent();
            drop(hca);
            if !waits || std::time::Instant::now() > end {
                break;
            }
            std::thread::sleep(BREATH);
        }
        self.job.detach();
    }
}
