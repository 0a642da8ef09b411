//! What the data plane says unasked, and figures that it shares with whoever holds its [`Handle`](crate::Handle).

use crate::jobs::memory::PeMemory;
use crate::trunks::TrunkEvent;
use crate::virtual_time::patience::Turn;
use angara_abi::JobId;
use angara_abi::wait::{Kernel, Linux};
use angara_net::Link;
use angara_net::fault::Fault;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Notices of the data plane, sent unasked.
pub enum Notice {
    /// A channel was put into its sticky error state.
    ChannelError { job: JobId, pe: u32, reason: String },
    /// In virtual time: a PE keeps the others waiting, and they shall go on without it.
    Patience {
        job: JobId,
        /// Memory of the PE.
        memory: Arc<PeMemory>,
        /// As the data plane has it.
        turn: Turn,
        /// For how long.
        waited: Duration,
    },
    /// In virtual time: all PEs of the job that are left wait, and nothing is on its way, after others have left.
    InVain { job: JobId },
    /// In a cluster: the network would take a link out of service, after this route change.
    GaveUp(Link, u64),
    /// In a cluster: the time of a fault has come.
    Due(Fault),
    /// Something came over a trunk, or became of one.
    Trunk(TrunkEvent),
}

/// Figures both halves look at.
#[derive(Default)]
pub(crate) struct Gauges {
    /// CPU time of the data-plane thread, nanoseconds.
    pub(crate) cpu_ns: AtomicU64,
    /// Violations by clients.
    pub(crate) violations: AtomicU64,
    /// Commands sent so far.
    pub(crate) commands: AtomicU32,
    /// To be set when there is a command, where PEs are coroutines.
    pub(crate) wanted: OnceLock<Arc<AtomicBool>>,
    /// In virtual time: the PE on whose bell the thread sleeps, or has slept last.
    runs: Mutex<Option<Arc<PeMemory>>>,
}

impl Gauges {
    /// The thread is about to sleep on the bell of a PE.
    pub(crate) fn sleeps_for(&self, memory: &Arc<PeMemory>) {
        *self.runs.lock().unwrap_or_else(PoisonError::into_inner) = Some(memory.clone());
    }

    /// There is one command more.
    pub(crate) fn count_command(&self) {
        self.commands.fetch_add(1, Ordering::SeqCst);
        if let Some(wanted) = self.wanted.get() {
            wanted.store(true, Ordering::Release);
        }
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(clock) = runs.as_ref().and_then(|memory| memory.clock.as_ref()) {
            clock.bell().fetch_add(1, Ordering::SeqCst);
            Linux.futex_wake(clock.bell());
        }
    }
}

/// The way to whoever hears what a data plane says, and sees what it counts.
pub(crate) struct Reports {
    pub(crate) gauges: Arc<Gauges>,
    hear: Box<dyn FnMut(Notice) + Send>,
}

impl Reports {
    pub(crate) fn new(gauges: Arc<Gauges>, hear: impl FnMut(Notice) + Send + 'static) -> Reports {
        Reports { gauges, hear: Box::new(hear) }
    }

    pub(crate) fn say(&mut self, notice: Notice) {
        (self.hear)(notice);
    }
}
