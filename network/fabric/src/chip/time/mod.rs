//! Time on a chip: events to come and their order, how it passes, and how long flits take.

pub(super) mod events;
pub(super) mod tick;
pub(super) mod timing;
