//! The table of jobs: those that run, those being made, and what new ones get.

use super::job::Job;
use super::plan::{Endpoints, Reservation};
use angara_abi::JobId;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use tokio::sync::Notify;

/// Jobs of this host. Everything runs on one thread; no borrow is held across an `await`.
pub(crate) struct Jobs {
    /// Those that are open.
    pub(crate) table: RefCell<BTreeMap<JobId, Job>>,
    /// Those being made.
    pub(crate) reservations: RefCell<BTreeMap<JobId, Reservation>>,
    /// A job has come or gone, or will not come, or a seat of a domain has become free.
    pub(crate) seats_changed: Notify,
    /// Endpoints in use, by node.
    pub(crate) endpoints: RefCell<Endpoints>,
    /// Number of the next job made here.
    pub(crate) next_job: Cell<u32>,
    /// Tells a job from earlier ones in its slot.
    pub(crate) next_generation: Cell<u16>,
    /// Core that the next PE is advised to take.
    pub(crate) next_core: Cell<usize>,
    /// Somebody asked for a job, granted or not.
    pub(crate) had_jobs: Cell<bool>,
}

impl Jobs {
    /// No jobs. `life` differs from start to start.
    pub(crate) fn new(life: u64) -> Jobs {
        Jobs {
            table: RefCell::default(),
            reservations: RefCell::default(),
            seats_changed: Notify::new(),
            endpoints: RefCell::default(),
            next_job: Cell::new(1),
            next_generation: Cell::new(life as u16),
            next_core: Cell::new(0),
            had_jobs: Cell::new(false),
        }
    }
}
