//! The chip as a driver sees it: what is posted to it ([`desc`]) and through which queues ([`channel`], [`queue`]), what its packets look like ([`packet`]) and count
//! as ([`account`]), its registers ([`csr`]), and a PE's clock in virtual time ([`clock`]).

pub mod account;
pub mod capture;
#[cfg(not(loom))]
pub mod channel;
#[cfg(not(loom))]
pub mod clock;
pub mod csr;
pub mod desc;
mod operations;
pub mod packet;
pub mod queue;
