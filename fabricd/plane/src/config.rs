//! What a data plane is given.

use crate::virtual_time::coroutines::Coroutines;
use angara_fabric::Params;
use angara_net::HostId;
use angara_net::fault::Fault;
use angara_net::torus::{NodeId, Shape};
use angara_protocol::absence::Patience;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The clock on the wall. A simulation has one of its own.
pub type Clock = fn() -> Instant;

/// A data plane.
pub struct Config {
    /// Shape of the whole network.
    pub shape: Shape,
    /// Times and buffers of the network.
    pub params: Params,
    /// Seed of everything random in the network.
    pub seed: u64,
    /// Injection channels per node.
    pub channels: u16,
    /// Faults in force from the start, or from a time on.
    pub faults: Vec<Fault>,
    /// Jobs run in virtual time.
    pub virtual_time: Option<VirtualTime>,
    /// PEs that run on its thread, in virtual time; else they are processes.
    pub coroutines: Option<Box<dyn Coroutines>>,
    /// Where what PEs do in virtual time is recorded.
    pub record: Option<RecordTo>,
    /// Somebody may look at counters of links, so what closed jobs have put on them is kept.
    pub watched: bool,
    /// The other hosts of the cluster it is a part of.
    pub trunks: Option<TrunksConfig>,
    /// Cores its thread may run on; empty: any.
    pub cores: Vec<usize>,
    pub clock: Clock,
}

impl Config {
    /// A network of `shape` with everything else as usual.
    pub fn new(shape: Shape) -> Config {
        Config {
            shape,
            params: Params::default(),
            seed: 0,
            channels: CHANNELS_DEFAULT,
            faults: Vec::new(),
            virtual_time: None,
            coroutines: None,
            record: None,
            watched: false,
            trunks: None,
            cores: Vec::new(),
            clock: Instant::now,
        }
    }
}

/// Injection channels per node unless told otherwise: what the chip has.
pub const CHANNELS_DEFAULT: u16 = 16;

/// How jobs run in virtual time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VirtualTime {
    /// Picoseconds that a library call takes.
    pub call_cost: u64,
    /// Picoseconds that a PE runs ahead of the network.
    pub ahead: u64,
    /// How long a PE may keep the others waiting, by the clock on the wall.
    pub patience: Patience,
    /// What time goes for is noted, because somebody will ask.
    pub noted: bool,
}

/// A recording to write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordTo {
    /// Its file.
    pub path: PathBuf,
    /// Values of the machine that differ from the chip as published, for whoever replays it.
    pub set: String,
}

/// One of the hosts that a network is spread over.
pub struct TrunkHost {
    /// Its name, for people.
    pub name: String,
    /// Where its datagrams go.
    pub address: SocketAddr,
}

/// The hosts that a network is spread over, and the way to them.
pub struct TrunksConfig {
    pub me: HostId,
    /// All hosts, this one, too, by their number.
    pub hosts: Vec<TrunkHost>,
    /// The nodes that are emulated here, ascending.
    pub nodes: Vec<NodeId>,
    /// The host of each node.
    pub owners: Vec<HostId>,
    /// Identity of the cluster, named by every frame.
    pub cluster: [u8; 16],
    /// How often an idle trunk says that it lives.
    pub heartbeat: Duration,
    /// A peer that says nothing for this long is taken for dead.
    pub dead_after: Duration,
    /// Largest IP packet to send; `None`: found out.
    pub mtu: Option<u16>,
    /// Packet slots of a link that crosses hosts, per virtual channel; `None`: as usual.
    pub slots: Option<u16>,
    /// The socket of all trunks.
    pub socket: Box<dyn angara_trunk::socket::Socket>,
    /// Keys that seal frames.
    pub keys: angara_trunk::KeyRing,
    /// Where seeds of associations come from.
    pub random: Box<dyn FnMut() -> io::Result<[u8; 32]> + Send>,
}
