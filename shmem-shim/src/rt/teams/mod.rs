//! Teams, contexts and active sets: which PEs an operation is about. [`group`] has the arithmetic, [`handles`] what a
//! program holds of them, [`members`] what a collective asks of either, [`team`] the routines.

pub(crate) mod busy;
pub(crate) mod group;
pub(crate) mod handles;
pub(crate) mod members;
pub(crate) mod team;
