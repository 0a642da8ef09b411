//! Random MPI programs that cannot deadlock. All steps of all ranks are drawn in one order, in which each step can
//! end when those before it have been carried out, even if every send waits for its receive. Each rank does its own
//! ones.

mod calls;
mod collectives;
mod generate;
mod matching;
mod messages;
mod text;
mod types;
mod windows;

pub(super) use types::{Access, COUNTERS, Ends, FETCHED, Mix, Op, Program, add, comm_rank, data};
