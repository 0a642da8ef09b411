//! Partitioned global address space: arrays that lie on all PEs, without `unsafe`.
//!
//! ```
//! use angara::pgas::World;
//! let world = World::init()?; // under `angara run` the whole job, else one PE
//! let halo = world.array::<f64>(4)?; // four numbers on every PE
//! let right = (world.my_pe() + 1) % world.n_pes();
//! world.put(halo.at(right, 0), &[1.5, 2.5])?; // into the neighbour's part
//! world.barrier()?; // everything is there now
//! assert_eq!(halo.to_vec(), [1.5, 2.5, 0.0, 0.0]);
//! # Ok::<(), angara::Error>(())
//! ```
//!
//! | | |
//! |---|---|
//! | [`World`] | this process as a PE; joins the job, makes arrays and channels |
//! | [`Exposed`], [`Local`] | a symmetric array that others reach, and one that is a slice of this PE's alone |
//! | [`Context`] | puts, gets, atomics, waits; a world is one, and other threads have their own |
//! | [`Scope`] | puts and gets that do not wait; all are complete where the scope ends |
//! | [`Team`] | barriers, reductions, broadcasts, collections, exchanges, scans; parts of the job |
//! | [`Channel`] | values sent to any PE |
//!
//! PEs, elements and members are counted from 0. Errors are values, and name what was wrong; an element of the caller's *own*
//! part that does not exist is a panic, as with slices. A program that returns an error from `main`, panics, or exits with a
//! status other than 0 ends its job.
//!
//! # Why this is sound
//!
//! Memory that other processes write must not be what the compiler believes it knows.
//!
//! * *No reference leads to exposed memory.* All that reads or writes it (own elements, puts, gets, atomics) are copies by
//!   [`angara_abi::copy`] and atomics, which the compiler cannot look into and which move elements of up to 8 bytes whole. So
//!   there are no data races in the sense of the language; what is read of larger elements may be part old, part new, and every
//!   bit pattern is a value ([`bytemuck::Pod`]).
//! * *A slice needs that nobody else can write.* [`World::local`] takes the [`Exposed`] by value on every PE, and comes back only
//!   when every PE has said by a message that it has given up the same array and that all it had issued, by any thread, has
//!   taken effect. An array that some PE has leaked, or a PE that calls something else, makes it fail or wait, not succeed.
//! * *Memory is used again when every PE has dropped its array*; see [`Exposed`]. [`std::mem::forget`] of anything here keeps
//!   memory and does no other harm.
//! * *Buffers of non-blocking operations are borrowed until they are complete.* A [`Scope`] is only lent to a closure, so it
//!   cannot be forgotten; its end completes everything, also on unwinding. Where that fails, what has not arrived is given up:
//!   the library copies it nowhere, and adapters were never told of the program's own memory.
//! * *Nothing outlives the world*: arrays, contexts, teams and channels borrow it.
//! * A PE trusts the other processes of its job to keep to the same rules: a C program of the same job may write anywhere in
//!   their symmetric heaps, as OpenSHMEM demands.
//!
//! `contract/abi/src/models/exposed.rs` models the change between exposed and local, and the reuse of memory.

mod array;
mod channel;
mod context;
mod element;
mod post;
mod scope;
mod symmetric;
mod team;
mod world;

pub use array::{At, Exposed, Local};
pub use bytemuck::{Pod, Zeroable};
pub use channel::Channel;
pub use context::{Context, Signal};
pub use element::{And, Integer, Is, Max, Min, Operation, Or, Product, Sum, Word, Xor};
pub use scope::Scope;
pub use team::Team;
pub use world::World;
