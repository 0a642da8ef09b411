//! The adapters of this process: taken at first use, and kept until it ends.

use crate::agent;
use crate::memory::Own;
use crate::port::Port;
use crate::settings::{MemoryTier, Settings};
use angara::open::{ENV_DOMAIN, Join};
use angara_hca::address::LinkLayer;
use angara_hca::{Event, Hca, Network};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::Thread;

/// The domain of RDMA programs that name none. Those of MPI are in another one, whose seats have other sizes.
const DOMAIN: &str = "verbs";

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
    name: String,
    node: u32,
    link: LinkLayer,
    /// Counts polls of the program: while it polls, its agent stays away.
    polls: AtomicU32,
    agent: OnceLock<Thread>,
    /// The agent leaves all to the program, until it finds this false.
    is_away: AtomicBool,
    job: Arc<angara::Job>,
    /// Everything goes through the network.
    by_network: bool,
}

impl Adapter {
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
        self.then(self.lock(), f)
    }

    /// The same for a poll of the program.
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

    fn then<T>(&'static self, mut hca: MutexGuard<'_, Hca<Port, Own>>, f: impl FnOnce(&mut Hca<Port, Own>) -> T) -> T {
        let result = f(&mut hca);
        let events = if hca.has_events() { hca.take_events() } else { Vec::new() };
        drop(hca);
        if let (false, Some(deliver)) = (events.is_empty(), DELIVER.get()) {
            deliver(self, events);
        }
        result
    }

    /// A step of the agent, unless the program uses the adapter at this moment: then it makes progress by itself. True if
    /// anything was done.
    pub(crate) fn try_progress(&'static self) -> bool {
        match self.hca.try_lock() {
            Ok(hca) => self.then(hca, Hca::progress),
            Err(TryLockError::Poisoned(poisoned)) => self.then(poisoned.into_inner(), Hca::progress),
            Err(TryLockError::WouldBlock) => false,
        }
    }
    /// The agent goes away.
    pub(crate) fn goes_away(&self) {
        self.is_away.store(true, Ordering::Release);
    }
    /// It is to come back.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.is_away.load(Ordering::Acquire)
    }
    pub(crate) fn polls(&self) -> u32 {
        self.polls.load(Ordering::Relaxed)
    }
    pub(crate) fn job(&self) -> &angara::Job {
        &self.job
    }
    pub(crate) fn has_agent(&self, agent: Thread) {
        let _ = self.agent.set(agent);
    }
}

/// Adapters of the process with this number; a child that was forked needs its own.
static TAKEN: Mutex<Option<(u32, Result<&'static [&'static Adapter], String>)>> = Mutex::new(None);

/// All adapters of this process. The first call takes them; what it fails with, later ones fail with, too.
pub fn adapters() -> Result<&'static [&'static Adapter], String> {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let me = std::process::id();
    match &*taken {
        Some((pid, result)) if *pid == me => result.clone(),
        _ => {
            let result = take_all();
            *taken = Some((me, result.clone()));
            result
        }
    }
}

/// Adapters that this process has taken already.
pub fn known() -> &'static [&'static Adapter] {
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    match &*taken {
        Some((pid, Ok(adapters))) if *pid == std::process::id() => adapters,
        _ => &[],
    }
}

fn take_all() -> Result<&'static [&'static Adapter], String> {
    let settings = Settings::from_env()?;
    let wished = match &settings.nodes[..] {
        [] => vec![None],
        nodes => nodes.iter().map(|node| Some(*node)).collect(),
    };
    let one = |(index, node)| take(&settings, index, node);
    let adapters = wished.into_iter().enumerate().map(one).collect::<Result<Vec<_>, _>>()?;
    Ok(Vec::leak(adapters))
}

fn take(settings: &Settings, index: usize, node: Option<u32>) -> Result<&'static Adapter, String> {
    let mut join = Join::from_env(Port::SEAT).map_err(|e| e.to_string())?;
    if std::env::var_os(ENV_DOMAIN).is_none_or(|name| name.is_empty()) {
        join.domain = DOMAIN.into();
    }
    // Ranks of a launcher spread processes; a node that was asked for is more than that.
    join.hint = node.or(join.hint);
    let by_network = join.path == angara_protocol::msg::Path::Ring;
    let job = Arc::new(join.join().map_err(|e| e.to_string())?.job);
    let here = job.pe_entry(job.my_pe()).node;
    if let Some(node) = node.filter(|node| *node != here) {
        job.detach();
        let nodes = job.geometry().shape.nodes() as u32;
        return Err(match node < nodes {
            true => format!("no adapter at node {node}: it is another host's, or all of its seats are taken"),
            false => format!("there is no node {node}: the torus has {nodes}, from 0"),
        });
    }
    if settings.memory != MemoryTier::Agent {
        // SAFETY: a number and four words. With Yama, others of this user may copy from and to this process from now on.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
    }
    let mut port = Port::open(job.clone(), settings.memory)?;
    let copies = port.copies_anywhere();
    if settings.memory == MemoryTier::Direct && !copies {
        job.detach();
        return Err("ANGARA_VERBS_MEMORY=direct: processes cannot copy from and to each other's memory here \
                    (a path through the network, or process_vm_readv is forbidden); use auto or agent"
            .into());
    }
    let name = settings.device(index);
    if settings.is_verbose {
        let way = if copies { "initiators copy where they can, agents elsewhere" } else { "agents store what comes" };
        angara_protocol::complain!("angara: {name} is at node {here}, LID {}: {way}", angara_hca::address::lid(here));
    }
    let hca = Hca::new(port, Own::new(), Box::new(random));
    let adapter: &'static Adapter = Box::leak(Box::new(Adapter {
        node: hca.network().node(),
        hca: Mutex::new(hca),
        name,
        link: settings.link,
        polls: AtomicU32::new(0),
        agent: OnceLock::new(),
        is_away: AtomicBool::new(false),
        job,
        by_network: by_network || !copies,
    }));
    agent::start(adapter).map_err(|e| format!("no thread for {}: {e}", adapter.name))?;
    // SAFETY: a function without arguments, of a library that stays loaded.
    unsafe { libc::atexit(at_exit) };
    Ok(adapter)
}

/// The program ends in order: peers are told now, and not when the connection closes.
extern "C" fn at_exit() {
    let leave = || {
        if let Ok(taken) = TAKEN.try_lock()
            && let Some((pid, Ok(adapters))) = &*taken
            && *pid == std::process::id()
        {
            adapters.iter().for_each(|adapter| adapter.leave());
        }
    };
    let _ = std::panic::catch_unwind(leave);
}

/// How long a process that ends tries to get rid of what others wait for.
const FAREWELL: std::time::Duration = std::time::Duration::from_millis(200);

impl Adapter {
    fn leave(&'static self) {
        let end = std::time::Instant::now() + FAREWELL;
        while let Ok(mut hca) = self.hca.try_lock() {
            hca.progress();
            let waits = hca.has_unsent();
            drop(hca);
            if !waits || std::time::Instant::now() > end {
                break;
            }
            std::thread::yield_now();
        }
        self.job.detach();
    }
}

fn random() -> u32 {
    let mut bytes = [0; 4];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(4) => u32::from_ne_bytes(bytes),
        // Taken at first: there were random numbers then. 0 is no key; the caller asks again.
        _ => 0,
    }
}
