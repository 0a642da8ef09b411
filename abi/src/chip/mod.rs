//! The chip as a driver sees it: where its nodes are ([`torus`]), what is posted to it ([`desc`]) and
//! through which queues ([`channel`], [`queue`]), what its packets look like ([`packet`]) and count
//! as ([`account`]), and its registers ([`csr`]).

pub mod account;
#[cfg(not(loom))]
pub mod channel;
pub mod csr;
pub mod desc;
pub mod packet;
pub mod queue;
pub mod torus;
