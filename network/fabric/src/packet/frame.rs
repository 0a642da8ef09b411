//! Frames on a boundary link.

use crate::types::{JobSlot, Link};
use angara_abi::packet::{self, Vc};
use angara_net::torus::NodeId;
use bytes::Bytes;

/// Frame on a boundary link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame {
    /// A packet; the time beside it is when it may ask for an output of the far router.
    Packet {
        /// Virtual channel whose buffer it occupies there.
        vc: Vc,
        /// Fields that the flits have no room for.
        meta: Meta,
        /// The flits, sealed, little-endian; of a train, those of a packet without data.
        flits: Bytes,
        /// Data of a train.
        train: Bytes,
    },
    /// One slot of a virtual channel's buffer is free again at the time beside it.
    Credit {
        /// The channel.
        vc: Vc,
    },
    /// Packets have been ejected, for the source that keeps copies of them. The chip has no such message: it
    /// stands for the knowledge a single fabric has of its own packets, and is not traffic.
    Gone {
        /// Their job.
        job: JobSlot,
        /// As in [`Meta`].
        generation: u16,
        /// Their target.
        from: NodeId,
        /// Their source.
        to: NodeId,
        /// The channel of their class: 0 or 1.
        vc: u8,
        /// How many.
        count: u16,
    },
}

/// Travels beside a boundary packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meta {
    /// Job.
    pub job: JobSlot,
    /// How often that job slot had been opened before.
    pub generation: u16,
    /// Accounting class.
    pub class: u8,
    /// Source endpoint.
    pub src_endpoint: u16,
    /// Target endpoint (collective headers have no field for it).
    pub dst_endpoint: u16,
    /// Target region (collective headers have no field for it).
    pub region: u8,
    /// Internal flags.
    pub flags: u16,
    /// Payload bytes, as counted.
    pub bytes: u16,
    /// Posting port's operation, returned with the answer.
    pub op: u64,
    /// Port index at the source's fabric.
    pub port: u32,
    /// At which rate its flits follow each other: 0 the chip's, 1 the link's, 2 the chip's and all
    /// flits are there when the packet may ask.
    pub rate: u8,
}

/// Why a frame was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// Not a boundary link of this fabric in that direction.
    #[error("{0:?} is not a boundary link into this fabric for such a frame")]
    Link(Link),
    /// The flits are not a packet.
    #[error("boundary packet: {0}")]
    Packet(#[from] packet::PacketError),
    /// A field contradicts another.
    #[error("boundary packet: {0}")]
    Content(&'static str),
}
