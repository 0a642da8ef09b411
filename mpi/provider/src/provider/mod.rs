//! The provider's state, one per process: what is under way, and what arrives.
//!
//! Each part of the state has an owner, whose methods stand beside its fields: objects that the program has opened
//! ([`objects`]), peers ([`peers`]), payloads on their way ([`payload`]), names ([`names`]), memory that
//! peers reach by themselves ([`onesided`]), waits ([`waiting`]). What needs
//! parts of several owners borrows them through a struct of references, such as [`arrivals::Arrivals`]; [`state`] has all
//! owners, and lends. [`progress`] adds the mailbox, and [`calls`] what libfabric asks for.

mod arrivals;
mod bell;
mod calls;
mod costs;
mod ends;
mod fault;
mod here;
mod names;
mod noted;
pub(crate) mod objects;
pub(crate) mod onesided;
mod payload;
mod peers;
mod progress;
mod sleepers;
mod state;
#[cfg(test)]
mod tests;
mod waiting;
mod waits;

pub(crate) use bell::Bell;
pub(crate) use calls::{Access, AtomicCall, Receive, SendCall, Tagged};
pub(crate) use fault::Outcome;
pub(crate) use here::Window;
pub(crate) use names::Names;
pub(crate) use objects::Exposure;
pub(crate) use onesided::BYTES as TABLES;
pub(crate) use progress::Provider;
pub(crate) use waiting::{is_wanted, wanting};
