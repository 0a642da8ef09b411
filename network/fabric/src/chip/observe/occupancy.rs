//! Current use of a link's virtual channels, computed on request from what the chip knows anyway.

use crate::chip::state::Chip;
use crate::packet::PacketHandle;
use crate::types::{Link, Tick};
use angara_abi::packet::Vc;

/// Current use of a virtual channel of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelUse {
    /// The channel.
    pub vc: Vc,
    /// Slots of the buffer at the far end that the sender has no credit for: of packets on the link and in the buffer, and of
    /// those that have left it and whose credit is on its way back.
    pub slots: u16,
    /// All slots there are.
    pub of: u16,
    /// Packets on the link and in the buffer. None are seen of a buffer that is modelled elsewhere.
    pub packets: u16,
    /// Their flits.
    pub flits: u32,
}

impl Chip {
    /// The use of every virtual channel of a link that exists.
    pub(crate) fn channels(&self, link: Link) -> Vec<ChannelUse> {
        let (node, dir) = (link.node, link.dir.index());
        let output = node as usize * self.lay.outs + dir;
        let far = self.net.neighbour(node, dir);
        // Credits on their way are no events: with nothing under way they have come.
        let now = if self.events.is_empty() { Tick::MAX } else { self.now };
        let used = |vc: Vc| {
            let credits = self.routers.known_credits(node, dir, vc as usize)?;
            let (mut packets, mut flits) = (0, 0);
            let mut next = match self.owned[far as usize] {
                true => self.routers.inputs[far as usize * self.lay.queues + self.lay.arrival(dir, vc as usize)].front,
                false => PacketHandle::NONE,
            };
            while next != PacketHandle::NONE {
                let packet = &self.packets[next];
                (packets, flits, next) = (packets + 1, flits + u32::from(packet.flits), packet.next);
            }
            let slots = self.slots.in_use(credits, output, vc as usize, now) as u16;
            Some(ChannelUse { vc, slots, of: self.slots.all(vc as usize) as u16, packets, flits })
        };
        Vc::ALL.into_iter().filter_map(used).collect()
    }
}
