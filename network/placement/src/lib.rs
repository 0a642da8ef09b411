//! Which nodes of a torus a job gets, when some nodes and links are dead and others are busy.
//!
//! Paper 002, section 2.1, names the demands on such a *node set*: its nodes reach each other, their
//! packets stay inside, its links carry similar loads, few nodes only pass packets on, and what is
//! left of the machine stays in large pieces. [`Machine`] knows what is dead and what is taken; a
//! [`Search`] finds a [`NodeSet`].
#![forbid(unsafe_code)]

mod bound;
mod connectivity;
mod machine;
pub mod mapping;
mod search;
mod tables;

pub use angara_net::NodeSet;
pub use connectivity::{CutOff, connected};
pub use machine::Machine;
pub use search::{
    BestFitBox, Closed, FirstFitBox, Fragmentation, Search, Unconstrained, Utilisation, largest_free_box,
};
pub use tables::SetTables;
