//! The state of a started job.

use super::collectives::area::P2p;
use super::collectives::table;
use super::heap::Heap;
use super::teams::busy::Busy;
use super::teams::group::{Group, stream};
use super::teams::handles;
use angara::Job;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// A started job.
pub(crate) struct Runtime {
    pub(crate) job: Job,
    pub(crate) me: usize,
    pub(crate) n: usize,
    /// Look closer at what the program passes ([`super::check`]).
    pub(crate) checking: bool,
    /// Time is virtual.
    pub(crate) timed: bool,
    pub(crate) heap: Mutex<Heap>,
    pub(crate) p2p: OnceLock<P2p>,
    pub(crate) teams: handles::Table,
    /// Teams that threads of this PE are in collectives of.
    pub(crate) busy: Busy,
    /// The routers' tree of all PEs, if there is one, from the end of init on.
    pub(crate) tree: OnceLock<Option<u8>>,
    /// Which algorithms collectives use.
    pub(crate) table: table::Table,
    pub(crate) thread_level: AtomicI32,
    /// Calls of init that no finalize has matched yet.
    pub(crate) inits: AtomicUsize,
}

/// The job between init and the last finalize. After that its state is kept until the next init: a thread may still use it.
pub(super) static STATE: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());

/// [`STATE`] of a job that is told of every call: because its time is virtual (reports say what routines cost, and what a
/// program computes between calls may take time), or because calls are noted. Whoever finds no other looks here, so that
/// others pay nothing for it.
pub(super) static TOLD: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());

/// Returns the job, if init has been called and finalize has not, and no call need be told.
#[inline]
pub(crate) fn untold_state() -> Option<&'static Runtime> {
    // SAFETY: null, or a box stored by init, which lives until the init after the next finalize.
    unsafe { STATE.load(Ordering::Acquire).as_ref() }
}

/// Returns the job, if init has been called and finalize has not.
pub(crate) fn try_state() -> Option<&'static Runtime> {
    // SAFETY: null, or a box stored by init, which lives until the init after the next finalize.
    untold_state().or_else(|| unsafe { TOLD.load(Ordering::Acquire).as_ref() })
}

/// Returns "node 1,0,0" of `pe`.
pub(crate) fn node(s: &Runtime, pe: usize) -> String {
    let coords = s.job.pe_entry(pe).coords;
    let dims = s.job.geometry().shape.dims().len();
    let text: Vec<String> = coords.0[..dims].iter().map(u8::to_string).collect();
    format!("node {}", text.join(","))
}

impl Runtime {
    /// Returns how PEs talk in collectives. It is there from the first barrier of init on.
    #[inline]
    pub(crate) fn p2p(&self) -> &P2p {
        self.p2p.get().expect("set by init before any collective")
    }

    /// Returns the group of all PEs.
    pub(crate) fn world(&self) -> Group {
        Group::all(self.n)
    }

    /// Returns whether the group may use what exists once: the job's barrier and the routers' tree. Another thread may be
    /// in a collective of another team of all PEs.
    pub(crate) fn is_world(&self, group: &Group) -> bool {
        group.size == self.n && group.stream == stream::WORLD
    }

    /// Returns whether PEs may be programs of several architectures.
    pub(crate) fn heterogeneous(&self) -> bool {
        self.job.geometry().heterogeneous
    }
}
