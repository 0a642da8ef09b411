//! Samples that are kept for those who look next.

use super::far::Far;
use super::past::Past;
use super::sample::Sample;
use angara_abi::JobId;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;

/// Samples, and when the next one may be taken.
pub(crate) struct Watcher {
    pub(super) last: RefCell<Option<(Arc<Sample>, Instant)>>,
    pub(super) next: Cell<Instant>,
    pub(super) taking: Mutex<()>,
    /// Of other hosts.
    pub(super) far: Far,
    /// Least time between two samples.
    pub(super) pause: Cell<Duration>,
    /// What samples have shown, for pages that are opened later.
    pub(crate) past: RefCell<Past>,
    /// Jobs whose reports are to have a history, and the second at which it begins.
    pub(super) remembered: RefCell<BTreeMap<JobId, f64>>,
    /// Somebody looks while jobs run, so that there is a past.
    pub(super) records: Cell<bool>,
    /// Of which job somebody has looked what its PEs wait for, when, and what was found.
    pub(crate) waits: Mutex<Option<(u64, Instant, serde_json::Value)>>,
    /// A job has begun.
    pub(super) stir: Notify,
}

impl Watcher {
    pub(crate) fn new() -> Watcher {
        Watcher {
            last: RefCell::default(),
            next: Cell::new(Instant::now()),
            taking: Mutex::new(()),
            far: Far::default(),
            pause: Cell::new(super::PAUSE),
            past: RefCell::default(),
            remembered: RefCell::default(),
            records: Cell::new(false),
            waits: Mutex::new(None),
            stir: Notify::new(),
        }
    }
}
