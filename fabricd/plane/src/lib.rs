//! The data plane: it serves the injection channels of PEs, moves what they post through the network and applies what
//! comes out to their memory.
//!
//! [`DataPlane`] owns a [`angara_fabric::Fabric`], the jobs in it, the trunks to other hosts and virtual time. It knows no
//! daemon, no users and no policy: whoever embeds it makes the memory of jobs ([`JobMemory`], [`PeMemory`]), sends
//! [`Command`]s and hears [`Notice`]s. It runs on a thread of its own ([`start`]) or, a few rounds at a time, on the thread of
//! whoever calls [`DataPlane::run_for`]; its clock is the one that [`Config`] names.
//!
//! | folder or file | what is in it |
//! |---|---|
//! | `config`, `command`, `notice` | what it is given, asked and says |
//! | `thread`, `plane` | the thread, a round of it, and all that it owns |
//! | `jobs` | jobs and PEs, their memory, and what they put on links |
//! | `channels`, `bells` | channels, the checks that a post must pass, posts on their way; what wakes the thread |
//! | `service` | posts given to the network, and what it does to memory and channels |
//! | `faults` | faults in force, and those to come |
//! | `trees`, `registers` | trees of the collective subnet, register pages |
//! | `observe` | packets for captures, figures for samples |
//! | `trunks` | links to other hosts |
//! | `virtual_time` | PEs that wait and are due in virtual time |
//!
//! Everything a client writes is hostile until `channels::post` has checked it.
#![forbid(unsafe_code)]

mod bells;
mod channels;
mod command;
mod config;
mod faults;
mod jobs;
mod log_limit;
mod notice;
pub mod observe;
mod plane;
mod registers;
mod service;
#[cfg(test)]
mod tests;
mod thread;
mod trees;
pub mod trunks;
mod virtual_time;

pub use command::{Answer, Command, Dead, Handle, Recovery, Reply, Timed};
pub use config::{CHANNELS_DEFAULT, Clock, Config, RecordTo, TrunkHost, TrunksConfig, VirtualTime};
pub use jobs::job::Folded;
pub use jobs::memory::{Identity, JobFds, JobMemory, PeFds, PeMemory, PeParts, StaticsError};
pub use jobs::seats::JobKey;
pub use log_limit::LogLimit;
pub use notice::Notice;
pub use plane::DataPlane;
pub use registers::RegisterPage;
pub use thread::{Running, start};
pub use virtual_time::coroutines::{Coroutines, Resumed};
pub use virtual_time::patience::Turn;
