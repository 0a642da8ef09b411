//! Configuration of a [`crate::Fabric`]: shape, timing and buffers, and why they are refused.

use crate::routes::BALANCED_NODES;
use crate::types::Tick;
use angara_net::torus::{NodeId, Shape};

/// Time one flit takes, as a fraction of picoseconds so that no rounding accumulates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlitTime {
    /// Picoseconds ...
    pub num: u64,
    /// ... per this many flits.
    pub den: u64,
}

impl FlitTime {
    /// Time of `flits` flits, rounded up once.
    pub fn of(self, flits: u64) -> Tick {
        (flits * self.num).div_ceil(self.den)
    }
    /// Flits at N megabytes (powers of 1000) per second.
    pub const fn of_rate(megabytes: u64) -> FlitTime {
        let (mut a, mut b) = (PS_PER_FLIT, megabytes);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        FlitTime { num: PS_PER_FLIT / a, den: megabytes / a }
    }
    /// Megabytes (powers of 1000) per second, rounded.
    pub const fn rate(self) -> u64 {
        (PS_PER_FLIT * self.den + self.num / 2) / self.num
    }
}

/// Picoseconds of a flit at one megabyte per second.
const PS_PER_FLIT: u64 = angara_abi::FLIT_BYTES as u64 * 1_000_000;

/// How quiet learns that what a port has written is in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Quiet {
    /// By a read behind the writes, which nothing overtakes.
    #[default]
    Read,
    /// An oracle tells at once. No machine knows so much: a bound for any way of doing it.
    Delivered,
}

/// Operations between PEs of one node that go through its memory, not through the adapter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodePath {
    /// From the post until the first byte is there.
    pub latency_ps: Tick,
    /// 16 bytes of it.
    pub flit: FlitTime,
}

/// Timing and buffer sizes of the modelled chip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// Host to router (paper 000, parameter table: 300 ns).
    pub inject_ps: Tick,
    /// Router to host (300 ns).
    pub eject_ps: Tick,
    /// From a header's arrival at a router until it may leave (129 ns per hop less the link).
    pub router_ps: Tick,
    /// Flight time of a link; also of an acknowledgement back (80 ns).
    pub link_ps: Tick,
    /// From a packet's last flit leaving a buffer until the router before knows its slot is free.
    pub credit_ps: Tick,
    /// How long an adaptive packet waits before it may also leave on its deterministic channel.
    pub escape_ps: Tick,
    /// Grants of an output a waiting packet may see go elsewhere before it precedes everyone.
    pub age_limit: u8,
    /// One flit on a link: 16 bytes at 7.5 GB/s.
    pub link_flit: FlitTime,
    /// One flit inside the chip: 16 bytes at 8 GB/s.
    pub core_flit: FlitTime,
    /// Added by the adapter at each barrier phase.
    pub barrier_ps: Tick,
    /// Router clock period; credits to the processor go every 4096 of them.
    pub cycle_ps: Tick,
    /// Packet slots of each data virtual channel's buffer (2..=1024).
    pub slots: u16,
    /// Packet slots of each collective virtual channel's buffer (2..=1024).
    pub collective_slots: u16,
    /// Posted operations a port may queue before [`InjectError::Busy`].
    pub ops_per_port: u16,
    /// Packets of a port on their way from memory into the network through each injection port; a train is one, and none
    /// follows behind one of 32 KiB.
    pub staged_per_port: u16,
    /// Unanswered read requests of a port, through each injection port.
    pub reads_per_port: u16,
    /// Writes on the request channel may take any shortest way.
    pub adaptive: bool,
    /// Take the one of a pair's shortest ways in direction order that evens out all-to-all traffic, not the one chosen
    /// by the pair's parity. For up to [`crate::BALANCED_NODES`] nodes.
    pub balanced: bool,
    /// Injection ports of a node, and as many ejection ports, 1..=[`crate::PORTS_MAX`]. Each serves directions of its own.
    pub ports: u8,
    /// One flit through a port; as inside the chip if that is slower, or nothing is said.
    pub port_flit: Option<FlitTime>,
    /// Least time from one packet to the next through an injection port. Unknown.
    pub gap_ps: Tick,
    /// Until a bulk operation, one of more than 256 bytes, becomes packets: start of the DMA engine and fetch of the
    /// descriptor. Unknown.
    pub dma_start_ps: Tick,
    /// Added latency of reading memory, before a packet is injected. Unknown.
    pub host_read_ps: Tick,
    /// Injections take up to so much longer, as drawn by the seed: no chip's, but who depends on the order in which packets
    /// of several nodes arrive, sees it.
    pub jitter_ps: Tick,
    /// How quiet learns of the end.
    pub quiet: Quiet,
    /// The way between PEs of one node; `None`: as to any other.
    pub node_path: Option<NodePath>,
}

impl Default for Params {
    /// The EC8430 as published; buffer sizes are ours.
    fn default() -> Params {
        Params {
            inject_ps: 300_000,
            eject_ps: 300_000,
            router_ps: 49_000,
            link_ps: 80_000,
            credit_ps: 80_000,
            escape_ps: 64_000,
            age_limit: 64,
            link_flit: FlitTime { num: 6400, den: 3 },
            core_flit: FlitTime { num: 2000, den: 1 },
            barrier_ps: 10_000,
            cycle_ps: 2_000,
            slots: 8,
            collective_slots: 8,
            ops_per_port: 64,
            staged_per_port: 16,
            reads_per_port: 4,
            adaptive: false,
            balanced: false,
            ports: 1,
            port_flit: None,
            gap_ps: 0,
            dma_start_ps: 0,
            host_read_ps: 0,
            jitter_ps: 0,
            quiet: Quiet::Read,
            node_path: None,
        }
    }
}

impl Params {
    /// No operation is seen by another port earlier than so long after it was posted.
    pub fn least_latency(&self) -> Tick {
        let by_adapter = self.inject_ps + self.eject_ps;
        self.node_path.map_or(by_adapter, |path| by_adapter.min(path.latency_ps))
    }
}

/// Configuration of a [`crate::Fabric`].
#[derive(Clone, Debug)]
pub struct Config {
    /// The whole network.
    pub shape: Shape,
    /// Nodes modelled here; `None` means all. Links to other nodes become boundary links.
    pub owned: Option<Vec<NodeId>>,
    /// Seed of everything random (only links with an error rate draw numbers).
    pub seed: u64,
    /// Timing and buffers.
    pub params: Params,
    /// Carry data. Without it packets have lengths only and [`Source::Length`] is the source to use.
    pub payload: bool,
    /// DMA data travels as *trains*: up to 32 KiB behind one header, which the packets of a request would have in
    /// common anyway, takes one decision per router and one buffer slot. Links count its packets, flits and
    /// bytes as if each
    /// had gone alone. For programs that run on the network, not for its study: others wait longer than on the chip.
    /// An operation posted, or data supplied, while the network is at rest goes through at once, and time with it.
    /// Without effect where a link has an error rate.
    pub trains: bool,
    /// Check that fences and flushes keep what they promise; see [`crate::OrderCheck`]. Not between parts of a network.
    pub check_order: bool,
}

impl Config {
    /// All nodes of `shape` with data and the chip's timing.
    pub fn new(shape: Shape) -> Config {
        let (params, check_order) = (Params::default(), false);
        Config { shape, owned: None, seed: 1, params, payload: true, trains: false, check_order }
    }
}

/// Why a configuration was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// A node outside the shape.
    #[error("node {0} is not one of the {1} nodes of the network")]
    Node(NodeId, usize),
    /// Slots outside 2..=1024.
    #[error("{0} slots: a virtual channel needs 2 to 1024 packet slots for the bubble rule")]
    Slots(u16),
    /// Ports outside 1..=8.
    #[error("{0} ports: a node has 1 to {max} injection ports", max = crate::PORTS_MAX)]
    Ports(u8),
    /// An ejection shorter than the router it contains.
    #[error("eject_ps = {0} is less than router_ps = {1}, which it contains")]
    Ejection(Tick, Tick),
    /// Balanced routes of too many nodes.
    #[error("balanced routes are found for up to {BALANCED_NODES} nodes, not for {0}")]
    Balanced(usize),
    /// A rate or limit that is zero.
    #[error("parameter {0} must not be zero")]
    Zero(&'static str),
}
