//! State that this part of a split network keeps of the others: what has come from them, and what all parts exchange
//! when routes change ([`Ledger`]). The links between parts, and copies of what has left over them, are in
//! `chip/edge.rs`; how all parts change routes together is in `fabric/recovery.rs`.

mod arrivals;
mod ledger;

pub(crate) use arrivals::Arrivals;
pub use ledger::{Ledger, LedgerError};

use crate::types::JobSlot;

/// State of this part of a split network.
#[derive(Debug, Default)]
pub(crate) struct Split {
    /// Packets from other parts, by job.
    jobs: Vec<Option<Arrivals>>,
    /// Nothing moves until all parts recover.
    pub(crate) on_hold: bool,
}

impl Split {
    pub(crate) fn open_job(&mut self, job: JobSlot) {
        if self.jobs.len() <= job.index() {
            self.jobs.resize_with(job.index() + 1, || None);
        }
        self.jobs[job.index()] = Some(Arrivals::default());
    }
    pub(crate) fn close_job(&mut self, job: JobSlot) {
        self.jobs[job.index()] = None;
    }
    /// Returns what has come to an open job.
    #[inline]
    pub(crate) fn arrivals(&mut self, job: JobSlot) -> Option<&mut Arrivals> {
        self.jobs.get_mut(job.index()).and_then(Option::as_mut)
    }
    /// The same of every open job.
    pub(crate) fn all(&self) -> impl Iterator<Item = (JobSlot, &Arrivals)> {
        JobSlot::first(self.jobs.len()).zip(&self.jobs).filter_map(|(job, arrivals)| Some((job, arrivals.as_ref()?)))
    }
}
