//! What this library keeps of a PE beside the state of its job ([`crate::rt::Runtime`]). A process is one PE, or has all PEs of
//! a job, which take turns ([`super::inside`]).

use super::requests::Requests;
use crate::rt::lock;
use crate::rt::notes::recorder::Recorder;
use crate::rt::runtime::Runtime;
use angara::Job;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// How far joining the job has come before init.
#[allow(clippy::large_enum_variant)] // there is one
pub(crate) enum Boot {
    /// Not tried: the library was loaded late.
    Later,
    Joined(Job),
    /// Failed, and why; the job if that was joined.
    Failed(String, Option<Job>),
    /// The job is in [`crate::rt::runtime::STATE`] or beside it.
    Taken,
    /// Finalized: the last life's state.
    Resting(Box<Runtime>),
}

pub(crate) struct Pe {
    /// How far joining the job has come.
    pub(crate) boot: Mutex<Boot>,
    /// Started by `start_pes`, whose programs never call finalize.
    pub(crate) old_style: AtomicBool,
    /// Thread that runs the handlers of `exit` for `shmem_global_exit`; 0 is none.
    pub(crate) exiter: AtomicI32,
    /// Requests not waited for yet.
    pub(crate) requests: Requests,
    /// Failed tests since the last success.
    pub(crate) failed_tests: AtomicU32,
    /// Where the next search for any ready variable starts.
    pub(crate) next_search: AtomicUsize,
    /// Where its calls are noted, if they are.
    pub(crate) recorder: OnceLock<Recorder>,
}

impl Pe {
    pub(crate) const fn new(boot: Boot) -> Pe {
        Pe {
            boot: Mutex::new(boot),
            old_style: AtomicBool::new(false),
            exiter: AtomicI32::new(0),
            requests: Requests::new(),
            failed_tests: AtomicU32::new(0),
            next_search: AtomicUsize::new(0),
            recorder: OnceLock::new(),
        }
    }

    /// Returns why a routine finds no job.
    pub(crate) fn why_no_job(&self) -> String {
        match &*lock(&self.boot) {
            Boot::Resting(_) => "called after shmem_finalize".into(),
            Boot::Failed(why, _) => format!("the job could not be joined: {why}"),
            _ => "called before shmem_init".into(),
        }
    }
}

/// The process, where it is one PE.
static ALONE: Pe = Pe::new(Boot::Later);
/// The PE whose turn it is.
static TURN: AtomicPtr<Pe> = AtomicPtr::new((&raw const ALONE).cast_mut());

/// Returns the PE whose turn it is.
pub(crate) fn this() -> &'static Pe {
    // SAFETY: one of this process's, which all stay.
    unsafe { &*TURN.load(Ordering::Relaxed) }
}

/// Says that it is the turn of this PE from now on; of none of several, if there is none.
pub(crate) fn turn_to(pe: Option<&'static Pe>) {
    TURN.store(std::ptr::from_ref(pe.unwrap_or(&ALONE)).cast_mut(), Ordering::Relaxed);
}
