//! Memory that several processes reach, and nothing that knows what lies in it: mapping and sealing
//! ([`shm`]), copies and single words ([`copy`]), sleeping and waking ([`wait`]).

pub mod copy;
pub mod shm;
pub(crate) mod sync;
pub mod wait;
