//! What a data plane is asked to do, and how whoever asks hears of the outcome.

use crate::jobs::job::Folded;
use crate::jobs::memory::{JobMemory, PeMemory};
use crate::jobs::seats::JobKey;
use crate::notice::Gauges;
use crate::observe::capture::{Capture, CaptureId, Refused};
use crate::observe::figures::{LinkDetail, LinkFigures, PlaneFigures, SetFigures};
use crate::registers::RegisterPage;
use crate::trunks::TrunkFigures;
use crate::virtual_time::patience::Turn;
use angara_fabric::{BarrierCheck, JobSlot, Outage};
use angara_net::fault::{Book, Clear, Fault, TrunkChange};
use angara_net::torus::NodeId;
use angara_net::{HostId, Link};
use angara_protocol::msg::{LinkReport, Routine, Times, TimesPiece, VirtualStatus};
use angara_trunk::KeyRing;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Takes the outcome of a command to whoever has asked.
pub struct Reply<T>(Box<dyn FnOnce(T) + Send>);

/// An outcome on its way to whoever has asked. (A simulation takes its time over it.)
pub type Answer = Box<dyn FnOnce() + Send>;

impl<T: Send + 'static> Reply<T> {
    /// Hands the outcome to `take`, on the thread of the data plane.
    pub fn new(take: impl FnOnce(T) + Send + 'static) -> Reply<T> {
        Reply(Box::new(take))
    }
    /// Nobody wants to know.
    pub fn ignored() -> Reply<T> {
        Reply::new(drop)
    }
    pub(crate) fn send(self, outcome: T) {
        (self.0)(outcome);
    }
    pub(crate) fn answer(self, outcome: T) -> Option<Answer> {
        Some(Box::new(move || self.send(outcome)))
    }
}

/// A figure, and how long the data plane was busy with it.
#[derive(Clone, Debug, Default)]
pub struct Timed<T> {
    /// The figure.
    pub value: T,
    /// The time.
    pub took: Duration,
}

/// Commands to a data plane, done between two of its rounds.
pub enum Command {
    /// Nothing: whether it answers.
    Ping(Reply<()>),
    /// End.
    Stop,

    /// Enter a job into the network.
    OpenJob(Arc<JobMemory>, Reply<Result<(), String>>),
    /// Remove a job and all it has in the network.
    CloseJob(JobSlot, Reply<()>),
    /// Serve the channel of a PE, of a process, from now on; its node's register page.
    Attach(JobSlot, Arc<PeMemory>, i32, Reply<io::Result<RegisterPage>>),
    /// Serve the channel of a PE no more. `lost`: its process did not say goodbye.
    Detach {
        job: JobKey,
        pe: usize,
        /// How it left.
        lost: bool,
        /// When it is done.
        reply: Reply<()>,
    },
    /// Have PEs that stand, and cannot do it by themselves, leave notes of what they wait for.
    NoteWaits(Reply<()>),
    /// Answer when nothing that a PE has posted is on its way, or its job is over.
    WhenQuiet(JobKey, usize, Reply<()>),
    /// A process on another host has become a PE of an open job (`true`), or a PE there has gone.
    SetElsewhere(JobSlot, usize, bool, Reply<()>),

    /// Find a tree for a job, at or after the one of this number, build and load it; its number.
    OpenTree {
        job: JobKey,
        /// Least number.
        first: u8,
        /// PE at its root.
        root: u32,
        /// PEs that take part.
        pes: Vec<u32>,
        /// Its number, or why there is none.
        reply: Reply<Result<u8, String>>,
    },
    /// Load the tree of this number, which another host has chosen.
    LoadTree {
        slot: JobSlot,
        /// Number.
        tree: u8,
        /// PE at its root.
        root: u32,
        /// PEs that take part.
        pes: Vec<u32>,
        /// Why it cannot be.
        reply: Reply<Result<(), String>>,
    },
    /// Take a tree back from a job.
    CloseTree(JobKey, u8, Reply<Result<(), String>>),

    /// Put a fault in force, now or when its time comes.
    SetFault(Fault, Reply<Result<(), String>>),
    /// Take faults out of force, and forget those of the kind that are still to come.
    ClearFault(Clear, Reply<Result<(), String>>),
    /// Forget faults whose time has not come; whether there were any.
    ForgetFaults(Clear, Reply<bool>),

    /// What is out of service.
    Dead(Reply<Vec<Outage>>),
    /// Let nothing move any more; what other hosts must know to have the network recover.
    Hold(Reply<Vec<u8>>),
    /// Go on after a hold, as all hosts have agreed.
    Recover(Box<Recovery>, Reply<Result<(), String>>),
    /// Make trunks bad, or good again: each the trunk to a host (`None`: all) but the one to another.
    ImpairTrunks(Vec<(Option<HostId>, Option<HostId>, TrunkChange)>, Reply<()>),
    /// Other keys for trunks from now on.
    SetKeys(KeyRing, Reply<()>),
    /// Send a message to the daemon of another host.
    Tell(HostId, Vec<u8>),
    /// Figures of trunks, datagrams of strangers and the socket engine in use.
    TrunkFigures(Reply<(Vec<TrunkFigures>, u64, String)>),

    /// Let no PE go on any more: the job has ended.
    EndVirtualTime,
    /// See whether a PE keeps the others waiting for too long.
    CheckPatience,
    /// Have the others go on without a PE; whether it has not come back meanwhile.
    GoOnWithout(Turn, Reply<bool>),
    /// Costs of routines of a PE, as it reports them.
    NoteRoutines(usize, Vec<Routine>, Reply<()>),
    /// Use of virtual time so far.
    Times(Reply<Option<Times>>),
    /// A piece of what is too much for [`Command::Times`].
    TimesPiece(u32, Reply<TimesPiece>),

    /// Faults, how far virtual time is, and node sets.
    Status(Reply<(Vec<String>, Option<VirtualStatus>, SetFigures)>),
    /// Loads of a job on links when routes changed last.
    Folded(JobSlot, Reply<Folded>),
    /// The same with what one PE has counted since.
    FoldPe(JobSlot, usize, Folded, Reply<Timed<Folded>>),
    /// Links, barriers and remarks of a job with N PEs, all of which have been folded.
    JobLinks(JobSlot, usize, Folded, Reply<(Vec<LinkReport>, BarrierCheck, Vec<String>)>),
    /// Counters of those of some PEs that have ever attached.
    PeMemory(JobSlot, Range<usize>, Reply<Vec<Arc<PeMemory>>>),
    /// Links of the whole network that carried anything, failed or are down.
    Counters(Reply<Vec<LinkReport>>),

    /// Figures of the links of some nodes, eight a node.
    WatchLinks(Range<NodeId>, Reply<Timed<Vec<LinkFigures>>>),
    /// Figures of everything but links, for some nodes.
    WatchPlane(Vec<NodeId>, Reply<Timed<PlaneFigures>>),
    /// Jobs that are open, and how many PEs they have.
    WatchJobs(Reply<Timed<Vec<(JobSlot, usize)>>>),
    /// Details of a link.
    WatchLink(Link, Reply<LinkDetail>),
    BeginCapture(Capture, Reply<Result<CaptureId, Refused>>),
    /// End a capture, unless it has ended by itself.
    EndCapture(CaptureId),
}

/// How a network goes on after a hold.
pub struct Recovery {
    /// Number of the agreement.
    pub number: u64,
    /// Outages, apart from faults.
    pub dead: Vec<Outage>,
    /// Faults in force, and no other ones.
    pub faults: Book,
    /// That of all hosts.
    pub ledger: Vec<u8>,
    /// Trunks that carry links, by host, with the number of the session.
    pub live: BTreeMap<HostId, u32>,
}

/// The way to a data plane.
#[derive(Clone)]
pub struct Handle {
    commands: mpsc::Sender<Command>,
    wake: Arc<OwnedFd>,
    gauges: Arc<Gauges>,
}

/// The data plane has ended.
#[derive(Debug, thiserror::Error)]
#[error("the data plane has stopped; see the daemon's log")]
pub struct Dead;

/// The other end of a [`Handle`].
pub(crate) struct Ear {
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) wake: Arc<OwnedFd>,
    pub(crate) gauges: Arc<Gauges>,
}

impl Handle {
    /// Both ends.
    pub(crate) fn new() -> io::Result<(Handle, Ear)> {
        let (sender, commands) = mpsc::channel();
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        let wake = Arc::new(rustix::event::eventfd(0, flags)?);
        let gauges = Arc::new(Gauges::default());
        let handle = Handle { commands: sender, wake: wake.clone(), gauges: gauges.clone() };
        Ok((handle, Ear { commands, wake, gauges }))
    }

    /// Has a command done between two rounds, in the order in which they are sent.
    pub fn send(&self, command: Command) -> Result<(), Dead> {
        self.commands.send(command).map_err(|_| Dead)?;
        self.gauges.count_command();
        // Fails only when the counter is full, and then the thread is awake.
        let _ = rustix::io::write(self.wake.as_ref(), &1u64.to_ne_bytes());
        Ok(())
    }

    /// CPU seconds of the thread so far.
    pub fn cpu_seconds(&self) -> f64 {
        self.gauges.cpu_ns.load(Ordering::Relaxed) as f64 / 1e9
    }
    /// Violations by clients so far.
    pub fn violations(&self) -> u64 {
        self.gauges.violations.load(Ordering::Relaxed)
    }
}
