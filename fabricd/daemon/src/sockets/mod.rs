//! The two sockets of a daemon: [`control`] for commands, with [`capture`], [`adapter`] for processes that become PEs. What comes in is
//! read by [`strict_json`]; descriptors go out through [`seqpacket`].

pub(crate) mod adapter;
mod capture;
pub(crate) mod control;
pub(crate) mod seqpacket;
mod strict_json;

/// How long to wait when the system accepts no connections.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(100);
