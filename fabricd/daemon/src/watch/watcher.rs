//! Samples that are kept for those who look next.

use super::far::Far;
use super::sample::Sample;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Samples, and when the next one may be taken.
pub(crate) struct Watcher {
    pub(super) last: RefCell<Option<(Arc<Sample>, Instant)>>,
    pub(super) next: Cell<Instant>,
    pub(super) taking: Mutex<()>,
    /// Of other hosts.
    pub(super) far: Far,
}

impl Watcher {
    pub(crate) fn new() -> Watcher {
        Watcher {
            last: RefCell::default(),
            next: Cell::new(Instant::now()),
            taking: Mutex::new(()),
            far: Far::default(),
        }
    }
}
