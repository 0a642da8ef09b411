//! Which injection and ejection ports of its nodes a packet uses.
//!
//! Directions that have links are numbered from 0 in routing order, and number i belongs to port i modulo the number of
//! ports. A packet goes in through the port of the direction in which its pair's usual way begins, and out through that of
//! the direction in which the way ends. So all packets of a pair use the same two, in order, whatever fails.

use super::layout::{DATA_VCS, UP};
use super::state::Chip;
use super::time::events::{Event, EventKind, NODE_BITS};
use crate::PORTS_MAX;
use crate::packet::{Packet, PacketHandle, flag};
use crate::routes::{DIMS, Net};
use crate::types::Tick;

/// Ports of the nodes of a network.
#[derive(Debug)]
pub(crate) struct Ports {
    /// Nodes have more than one, which are those of one host.
    several: bool,
    /// By direction.
    of: [u8; 2 * DIMS],
    /// Bits of an event's node that say the ejection port.
    bits: u32,
}

/// Nodes whose number has room for that of a port in an event.
const ORDERED_NODES: usize = 1 << (NODE_BITS - PORT_BITS);
const PORT_BITS: u32 = 3;
const _: () = assert!(PORTS_MAX == 1 << PORT_BITS);

impl Ports {
    pub(super) fn new(net: &Net, ports: usize) -> Ports {
        let mut of = [0; 2 * DIMS];
        let linked = (0..net.dirs).filter(|dir| net.size(net.dim(*dir)) > 1);
        linked.enumerate().for_each(|(i, dir)| of[dir] = (i % ports) as u8);
        let bits = if ports > 1 && net.nodes <= ORDERED_NODES { PORT_BITS } else { 0 };
        Ports { several: ports > 1, of, bits }
    }
}

impl Chip {
    /// Injection ports of a node, which are those of one host.
    pub(crate) fn ports(&self) -> usize {
        if self.ports.several { self.lay.channels } else { 1 }
    }

    /// The injection port of `from` and the ejection port of `to` for packets from one to the other.
    #[inline]
    pub(crate) fn ports_of(&self, from: u32, to: u32) -> (u8, u8) {
        if !self.ports.several || from == to {
            return (0, 0);
        }
        let dirs = self.usual_way(from, to).dirs;
        let port = |dir: u32| self.ports.of[dir as usize];
        (port(dirs.trailing_zeros()), port(dirs.ilog2()))
    }

    /// Gives a packet its ports. Those of trees use the first, results of reductions too.
    #[inline]
    pub(crate) fn use_ports(&self, p: &mut Packet) {
        if self.ports.several && p.vc < UP as u8 && !p.is(flag::RESULT) {
            (p.from_channel, p.to_channel) = self.ports_of(p.src, p.dst);
        }
    }

    /// A packet will have reached its host. What comes to a node at one instant comes in the order of its ejection ports,
    /// so that hosts which share a network see the same.
    #[inline]
    pub(crate) fn will_deliver(&mut self, at: Tick, node: u32, h: PacketHandle) {
        let bits = self.ports.bits;
        let port = if bits > 0 && h != PacketHandle::BY_MEMORY { self.packets[h].to_channel.into() } else { 0 };
        self.events.push(at, EventKind::Deliver, node << bits | port, h.number());
    }

    /// The node of such an event.
    #[inline]
    pub(crate) fn delivered_at(&self, event: Event) -> u32 {
        event.node >> self.ports.bits
    }

    /// The host's name of a channel: ports of one host are one.
    pub(super) fn endpoint(&self, channel: u8) -> u32 {
        if self.ports.several { 0 } else { channel.into() }
    }

    /// Endpoints of a node.
    pub(super) fn endpoints(&self) -> u32 {
        if self.ports.several { 1 } else { self.lay.channels as u32 }
    }

    /// Until when the injection ports of a node are busy.
    pub(crate) fn injecting_until(&self, node: u32) -> Tick {
        let first = node as usize * self.lay.channels;
        self.inject_busy[first..][..self.lay.channels].iter().copied().fold(0, Tick::max)
    }

    /// Until when its ejection ports are.
    pub(crate) fn ejecting_until(&self, node: u32) -> Tick {
        (self.lay.dirs..self.lay.outs).map(|out| self.routers.out_busy(node, out)).fold(0, Tick::max)
    }

    /// No data packet waits in an injection queue of a node.
    pub(crate) fn has_injected(&self, node: u32) -> bool {
        (0..self.lay.channels).all(|c| (0..DATA_VCS).all(|vc| self.front(node, self.lay.injection(c, vc)).is_none()))
    }
}
