//! A host channel adapter (HCA) as RDMA programs know it: protection domains, memory regions, completion queues, queue
//! pairs, and the protocol that two of them speak. Written as a state machine, without threads, clocks or `unsafe`: what
//! carries messages is a [`Network`], what holds the program's bytes is a [`Memory`].
//!
//! Numbers of states, statuses, opcodes and flags are those of `infiniband/verbs.h`, so that the library above gives them
//! on as they are. Errors are errnos: what the functions of libibverbs return or set.
//!
//! The source of all rules is volume 1 of the InfiniBand Architecture Specification, as far as rdma-core's manual pages and
//! tests tell it.
#![forbid(unsafe_code)]

pub mod address;
mod completion;
mod core;
mod ends;
mod event;
mod handles;
mod hca;
mod network;
mod numbers;
mod objects;
mod pair;
mod region;
mod request;
mod wire;

pub use completion::{Completion, Opcode, Status, flags};
pub use event::{Event, PairEvent};
pub use handles::{Cq, Pd, Qp, Srq};
pub use hca::Hca;
pub use network::{Copied, Copies, Memory, Network, NotSent, Peer, Piece, PublicPair, RemoteAccess};
pub use objects::{SrqAttributes, limits};
pub use pair::{Attributes, Caps, Init, PathAttributes, State, Transport, mask};
pub use region::{Region, RegionChange, access};
pub use request::{Atomic, Element, Operation, Payload, ReceiveRequest, SendRequest};
pub use rustix::io::Errno;

/// What the functions of an adapter return.
pub type Result<T> = std::result::Result<T, Errno>;
