//! Memory that several processes reach, and nothing that knows what lies in it: mapping and sealing
//! ([`shm`]), copies and single words ([`copy`]), what others see in which order ([`order`]), sleeping and waking ([`wait`]).

pub mod copy;
mod instructions;
pub mod order;
pub mod shm;
pub(crate) mod sync;
pub mod wait;
