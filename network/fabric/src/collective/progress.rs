//! How far trees have got.

use super::tree::TreeRows;
use crate::types::JobSlot;

/// A job and how often its slot had been opened before.
pub(crate) type JobName = (JobSlot, u16);

/// Least and greatest of something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range(pub(crate) u64, pub(crate) u64);

impl Default for Range {
    fn default() -> Range {
        Range(u64::MAX, 0)
    }
}

impl Range {
    pub(crate) fn add(&mut self, value: u64) {
        *self = Range(self.0.min(value), self.1.max(value));
    }
    fn join(&mut self, other: Range) {
        *self = Range(self.0.min(other.0), self.1.max(other.1));
    }
    pub(crate) fn is(self, value: u64) -> bool {
        self == Range(value, value)
    }
}

/// How far a tree has got.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct TreeState {
    pub(crate) job: JobName,
    pub(crate) rows: TreeRows,
    /// Parts have different rows: some have moved the tree already.
    pub(crate) moved: bool,
    /// Different jobs claim its number.
    pub(crate) clash: bool,
    /// Contributions made by the participants.
    pub(crate) made: Range,
    /// Reductions sent on by the nodes.
    pub(crate) emitted: Range,
    /// Reductions the participants know to be finished.
    pub(crate) done: Range,
    /// Broadcasts delivered.
    pub(crate) bcasts: Range,
    /// Broadcasts posted.
    pub(crate) casts: u64,
}

impl TreeState {
    /// Reductions and broadcasts so far, if nothing of the tree is under way anywhere.
    pub(crate) fn at_rest(&self) -> Option<(u64, u64)> {
        let made = self.made.0;
        let same = self.made.is(made) && self.emitted.is(made) && self.done.is(made) && self.bcasts.is(self.casts);
        (same && !self.clash).then_some((made, self.casts))
    }

    pub(crate) fn join(&mut self, other: &TreeState) {
        self.clash |= other.clash || self.job != other.job;
        self.moved |= other.moved || self.rows != other.rows;
        self.made.join(other.made);
        self.emitted.join(other.emitted);
        self.done.join(other.done);
        self.bcasts.join(other.bcasts);
        self.casts = self.casts.saturating_add(other.casts);
    }
}
