//! The links between the part of a network that is modelled here and the others.

use super::Fabric;
use crate::chip::Ends;
use crate::chip::layout::UP;
use crate::packet::{Decoder, Frame, FrameError, PacketHandle, flag};
use crate::routes::{NONE, link_index};
use crate::types::{JobSlot, Link, Tick};
use angara_abi::packet;
use angara_net::torus::Direction;

impl Fabric {
    /// Links with exactly one end here, as their senders name them. [`Fabric::poll_transmit`]
    /// gives packets on those that leave and credits on those that arrive.
    pub fn boundary_links(&self) -> Vec<Link> {
        let mut links = Vec::new();
        for node in 0..self.adapters.chip.net.nodes as u32 {
            for dir in Direction::ALL {
                let far = self.adapters.chip.net.neighbour(node, dir.index());
                if far != NONE && self.adapters.chip.owned[node as usize] != self.adapters.chip.owned[far as usize] {
                    links.push(Link { node, dir });
                }
            }
        }
        links
    }

    /// The next frame for the other end of a boundary link: when it arrives there, and what.
    pub fn poll_transmit(&mut self, link: Link) -> Option<(Tick, Frame)> {
        if self.split.on_hold {
            return None;
        }
        let index = link_index(link.node, link.dir.index());
        let (time, _) = self.adapters.chip.edge.frames.get(&index)?.front()?;
        if self.adapters.chip.waits(link, *time) {
            return None;
        }
        self.adapters.chip.edge.frames.get_mut(&index)?.pop_front()
    }

    /// Takes a frame from the other end of a boundary link. A time that is not in the future counts as
    /// the next moment, but packets of one link keep their order in time: what flushes a link must be later than
    /// what it flushes.
    pub fn handle_frame(&mut self, link: Link, time: Tick, frame: Frame) -> Result<(), FrameError> {
        let far = self.adapters.chip.net.neighbour(link.node, link.dir.index());
        if link.node as usize >= self.adapters.chip.net.nodes || far == NONE {
            return Err(FrameError::Link(link));
        }
        if self.split.on_hold {
            return Ok(());
        }
        // Everything due now has been done already.
        let at = time.max(self.adapters.chip.now + 1);
        let index = link_index(link.node, link.dir.index());
        match frame {
            Frame::Gone { job, generation, from, to, vc, count } => {
                if self.adapters.chip.owned[link.node as usize] || !self.adapters.chip.owned[far as usize] {
                    return Err(FrameError::Link(link));
                }
                if from.max(to) as usize >= self.adapters.chip.net.nodes || vc > 1 {
                    return Err(FrameError::Content("a node outside the network or no channel of packets"));
                }
                self.heard_gone(link, job, generation, (from, to, vc), count);
            }
            Frame::Credit { vc } => {
                if !self.adapters.chip.owned[link.node as usize] || self.adapters.chip.owned[far as usize] {
                    return Err(FrameError::Link(link));
                }
                let credits = self.adapters.chip.routers.credits(link.node, link.dir.index(), vc as usize);
                if !self.adapters.chip.slots.owes(credits, vc as usize, 1) {
                    return Err(FrameError::Content("a credit for a slot that is not in use"));
                }
                self.adapters.chip.give_slots(link.node, link.dir.index(), vc as usize, 1, at);
            }
            Frame::Packet { vc, meta, flits, train } => {
                if self.adapters.chip.owned[link.node as usize] || !self.adapters.chip.owned[far as usize] {
                    return Err(FrameError::Link(link));
                }
                let mut p = Decoder {
                    net: &self.adapters.chip.net,
                    payloads: &mut self.adapters.chip.payloads,
                    carry: self.adapters.chip.carry,
                    generations: &self.trees.generations,
                }
                .packet(far, &meta, &flits, train)
                .inspect_err(|e| {
                    if matches!(e, FrameError::Packet(packet::PacketError::Crc)) {
                        self.adapters.chip.observers.counters.count_damaged(index);
                    }
                })?;
                let latest = self.adapters.chip.edge.arrived.entry(index).or_default();
                p.ready = if time > self.adapters.chip.now { time } else { at.max(*latest + 1) };
                *latest = p.ready;
                if self.adapters.chip.edge.generation(p.job) != meta.generation {
                    p.flags |= flag::DEAD;
                }
                self.adapters.chip.routers.count(link.node, link.dir.index(), p.flits);
                self.adapters.chip.use_ports(&mut p);
                let h = self.adapters.chip.packets.alloc(p);
                self.adapters.chip.append(far, self.adapters.chip.lay.arrival(link.dir.index(), vc as usize), h);
            }
        }
        Ok(())
    }

    /// A packet that has come over boundary links is ejected: its source may forget it.
    #[inline]
    pub(crate) fn count_ejected(&mut self, h: PacketHandle) {
        let p = &self.adapters.chip.packets[h];
        let (job, ends) = (p.job, (p.dst, p.src, p.vc));
        if p.is(flag::DEAD) || p.vc as usize >= UP {
            return;
        }
        let Some(arrivals) = self.split.arrivals(job) else { return };
        let chip = &self.adapters.chip;
        arrivals.count(ends, chip.net.nodes);
        if chip.owned[ends.1 as usize] {
            return self.forget_retained(job, (ends.1, ends.0, ends.2), 1); // it has been elsewhere on its way
        }
        let link = arrivals.way_back(ends, chip.net.nodes, || chip.way_back(ends.0, ends.1, None));
        self.adapters.chip.send_gone(link, job, self.adapters.chip.edge.generation(job), ends, 1);
    }

    /// Word of ejected packets has come over `link`.
    pub(crate) fn heard_gone(&mut self, link: Link, job: JobSlot, generation: u16, ends: Ends, count: u16) {
        let (from, to, vc) = ends;
        if !self.adapters.chip.owned[to as usize] {
            let next = self.adapters.chip.way_back(from, to, Some(link)).unwrap_or(NONE);
            return self.adapters.chip.send_gone(next, job, generation, ends, count);
        }
        if self.adapters.chip.edge.generation(job) == generation {
            self.forget_retained(job, (to, from, vc), count as u64);
        }
    }

    /// The first `count` packets retained of a stream have been ejected.
    pub(crate) fn forget_retained(&mut self, job: JobSlot, stream: Ends, count: u64) {
        for _ in 0..count {
            let nodes = self.adapters.chip.net.nodes;
            let Some(h) = self.adapters.chip.edge.forget(&mut self.adapters.chip.packets, job, stream, nodes) else {
                return;
            };
            let p = &self.adapters.chip.packets[h];
            if p.port != NONE && p.kind != packet::PacketType::ReadRsp {
                let port = p.port as usize;
                self.adapters.ports[port].outstanding = self.adapters.ports[port].outstanding.saturating_sub(1);
                self.adapters.schedule_pump(port, self.adapters.chip.now);
            }
            self.adapters.chip.free_packet(h);
        }
    }
}
