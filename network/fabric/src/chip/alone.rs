//! A packet that has the network to itself.
//!
//! Nothing can stop it: it asks at every router when its head is there and is granted at that instant. So its times follow
//! from its way, and no event is needed for them. They are those of [`super::router`], as are the counts.

use super::state::Chip;
use crate::packet::PacketHandle;
use crate::types::Tick;

impl Chip {
    /// Nothing happens by itself, nothing is in the network but what waits for memory (N packets), and nothing but
    /// the default ways and the chip's own rules decides where a packet goes and when.
    #[inline]
    pub(crate) fn is_at_rest(&self, waiting: usize) -> bool {
        let plain = self.degraded.unimpaired
            && !self.degraded.by_table
            && !self.special
            && self.degraded.held.is_empty()
            && !self.observers.tracer.on();
        plain && self.packets.in_flight() == waiting && self.notices.is_empty() && self.events.is_empty()
    }

    /// Takes a data packet, whose `ready` is set, from its injection queue to its target; returns when the host has it.
    pub(crate) fn go_alone(&mut self, h: PacketHandle) -> Tick {
        let p = &self.packets[h];
        let (job, class, flits, bytes) = (p.job, p.class, p.flits, p.bytes);
        let (mut node, mut at, mut rate, mut routers) = (p.src, p.ready, p.rate, 1);
        let mut way = self.usual_way(node, p.dst);
        while let Some(out) = way.next() {
            rate = self.timing.after(rate, true);
            self.routers.count(node, out, flits);
            self.observers.counters.count_sent(job, self.link(node, out), class, flits, bytes);
            way.taken(out, self.net.dim(out));
            node = self.net.neighbour(node, out);
            at += self.hop_ps;
            routers += 1;
        }
        rate = self.timing.after(rate, false);
        self.routers.count(node, self.lay.dirs + self.packets[h].to_channel as usize, flits);
        let p = &mut self.packets[h];
        (p.rate, p.routers, p.way) = (rate, routers, way);
        at + self.params.eject_ps + self.timing.span(rate, flits - 1) - self.params.router_ps
    }
}
