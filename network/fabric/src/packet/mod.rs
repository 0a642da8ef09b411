//! Packets: in the slab in which they lie, as flits, and as what crosses from one fabric to another.

mod flits;
mod frame;
mod handle;
mod payloads;
mod slab;

pub(crate) use flits::{Decoder, encode, header};
pub use frame::{Frame, FrameError, Meta};
pub use handle::PacketHandle;
pub(crate) use payloads::Payloads;
pub(crate) use slab::{Detail, NO_OP, NO_QUEUE, Packet, Packets, RETAINED, flag, flits_for, packets_for, rate};
