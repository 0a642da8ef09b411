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
//! | `thread`, `serve` | the thread, and a round of it |
//! | `plane` | all it owns; jobs and PEs that come and go |
//! | `memory` | memory of jobs and PEs |
//! | `lane`, `post`, `ports` | a channel, the checks that a post must pass, posts on their way |
//! | `effects` | what the network does to memory |
//! | `fault_book` | faults in force, and those to come |
//! | `trees`, `registers`, `traffic` | trees of the collective subnet, register pages, what jobs put on links |
//! | `observe` | packets for captures, figures for samples |
//! | `trunks` | links to other hosts |
//! | `virtual_time` | PEs that wait and are due in virtual time |
//!
//! Everything a client writes is hostile until `post` has checked it.
#![forbid(unsafe_code)]

mod command;
mod config;
mod effects;
mod fault_book;
mod inspect;
mod job;
mod lane;
mod log_limit;
mod memory;
mod notice;
pub mod observe;
mod plane;
mod ports;
mod post;
mod registers;
mod serve;
#[cfg(test)]
mod tests;
mod thread;
mod traffic;
mod trees;
pub mod trunks;
mod virtual_time;

pub use command::{Answer, Command, Dead, Handle, JobKey, Recovery, Reply, Timed};
pub use config::{CHANNELS_DEFAULT, Clock, Config, RecordTo, TrunkHost, TrunksConfig, VirtualTime};
pub use job::Folded;
pub use log_limit::LogLimit;
pub use memory::{Identity, JobFds, JobMemory, PeFds, PeMemory, PeParts, StaticsError};
pub use notice::Notice;
pub use plane::DataPlane;
pub use registers::RegisterPage;
pub use thread::{Running, start};
pub use virtual_time::Turn;
pub use virtual_time::coroutines::{Coroutines, Resumed};
