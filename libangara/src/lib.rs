//! User-space driver of the Angara adapter, and an interface for programs above it.
//!
//! Levels, each usable alone:
//!
//! * [`pgas`]: for programs. Symmetric arrays, puts, gets, atomics, signals, teams and channels, without `unsafe`.
//! * [`driver`]: the adapter itself. Map its memory, read and write registers, put packets into
//!   the injection ring, post descriptors, poll. Write your own middleware here.
//! * [`Job`] and [`Ctx`]: a SHMEM-like programming interface. Put, get, atomics, fence, quiet,
//!   barrier between the PEs of a job. Where the target's memory is on this host and the job
//!   allows it, an operation is a plain copy by the calling thread ("direct"); else it is posted
//!   to the adapter and travels the emulated torus ("ring").
//! * [`mailbox`]: messages between the PEs of a job.
//! * [`tree`]: reductions and broadcasts by the collective subnet in the routers.
//!
//! ```
//! use angara::{Class, Job};
//! let job = Job::from_env(1 << 20)?; // under `angara run` the whole job, else one PE
//! let next = (job.my_pe() + 1) % job.n_pes();
//! let place = job.locate(job.heap(), 8).expect("the heap is symmetric");
//! let value = job.my_pe() as u64;
//! // SAFETY: `value` is 8 readable bytes.
//! unsafe { job.ctx().put(Class::Put, next, place, (&raw const value).cast(), 8)? };
//! job.ctx().quiet()?;
//! job.barrier(false)?;
//! # Ok::<(), angara::Error>(())
//! ```
//!
//! The C form of the same is `include/angara.h`.
#![warn(missing_docs)] // others read them
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod attach;
pub mod capi;
mod collective;
mod ctx;
pub mod driver;
mod engine;
mod error;
pub mod inside;
mod job;
pub mod mailbox;
mod memory;
pub mod per_peer;
pub mod pgas;

pub use angara_abi;
pub use angara_abi::account::Class;
pub use angara_abi::clock::Comparison;
pub use angara_abi::desc::{AmoOp, Place, Region};
pub use angara_abi::job::{Geometry, PeEntry, Reach};
pub use angara_protocol::launch::Launch;
pub use attach::{launcher, open};
pub use collective::area::INTERNAL_FREE;
pub use collective::tree;
pub use ctx::Ctx;
pub use engine::{Amo, Profile, Strided};
pub use error::{Error, Result};
pub use job::Job;
pub use memory::{HEAP_ALIGN, StaticSegment};

/// What crates.io shows is compiled and run with the examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
