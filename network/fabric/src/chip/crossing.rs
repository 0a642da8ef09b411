//! Packets and credits that cross from this part of a network to another.

use super::edge::Ends;
use super::layout::UP;
use super::state::Chip;
use crate::packet::{Detail, Frame, Meta, PacketHandle, encode, flag};
use crate::routes::{NONE, link_index};
use crate::types::{JobSlot, Link, Tick};
use angara_abi::FLIT_BYTES;
use angara_abi::packet::{PacketType, Vc};
use angara_net::torus::NodeId;
use bytes::Bytes;

impl Chip {
    /// A packet leaves this fabric over a boundary link.
    pub(crate) fn send_boundary(&mut self, node: u32, out: usize, vc: usize, h: PacketHandle) {
        if self.packets[h].is(flag::RAW) {
            return self.send_raw(node, out, vc, h);
        }
        let (flits, n) = encode(&self.net, &self.payloads, &self.packets[h], 0);
        let p = self.packets[h];
        let op = match p.detail {
            Detail::Tree { tree, reduce, .. } if p.kind == PacketType::Write => (tree as u64) << 4 | reduce as u64,
            _ => p.op,
        };
        let meta = Meta {
            job: p.job,
            generation: self.edge.generation(p.job),
            class: p.class,
            src_endpoint: p.src_ep,
            dst_endpoint: p.dst_ep,
            region: p.region as u8,
            flags: p.flags & !flag::AWAIT,
            bytes: p.bytes,
            op,
            port: p.port,
            rate: p.rate,
        };
        let train = if p.is_train() { self.payloads.train(p.payload).clone() } else { Bytes::new() };
        let mut bytes = Vec::with_capacity(n * FLIT_BYTES);
        flits[..n].iter().for_each(|f| bytes.extend_from_slice(&f.to_le_bytes()));
        let frame = Frame::Packet { vc: Vc::ALL[vc], meta, flits: bytes.into(), train };
        self.edge.frames(link_index(node, out)).push_back((p.ready, frame));
        // Its source retains it, others forget it.
        let transit =
            p.flags & (flag::FOREIGN | flag::DEAD) != 0 || p.vc as usize >= UP || p.kind == PacketType::Barrier;
        if transit || !self.edge.retain(&mut self.packets, h, self.net.nodes) {
            self.free_packet(h);
        }
    }

    /// A slot of a boundary link into this fabric has become free.
    pub(crate) fn return_boundary_credit(&mut self, sender: u32, dir: usize, vc: usize, units: usize, at: Tick) {
        if !self.adapter {
            return self.return_raw_credit(sender, dir, vc, units, at);
        }
        let frames = self.edge.frames(link_index(sender, dir));
        frames.push_back((at, Frame::Credit { vc: Vc::ALL[vc] }));
    }

    /// The first boundary link out of this part on the way on which `to` hears of what `from` ejected, behind `link` if
    /// it is on its way already. That is the route of a barrier's messages from `from` to `to`, so that they do
    /// not overtake it, or if there is none the packets' own one backwards.
    pub(crate) fn way_back(&self, from: NodeId, to: NodeId, link: Option<Link>) -> Option<u32> {
        let backwards = || {
            let there = self.routes.path(to, from)?;
            there.into_iter().rev().map(|l| self.net.reverse(l)).collect()
        };
        let path: Vec<Link> = self.routes.path(from, to).or_else(backwards)?;
        let start = match link {
            Some(link) => path.iter().position(|l| *l == link)? + 1,
            None => 0,
        };
        let leaves = |l: &&Link| {
            let far = self.net.neighbour(l.node, l.dir.index());
            self.owned[l.node as usize] && !self.owned[far as usize]
        };
        path[start..].iter().find(leaves).map(|l| link_index(l.node, l.dir.index()) as u32)
    }

    /// Tells the source of a stream of packets ejected; together with the last such word if nothing has gone
    /// over the link since.
    pub(crate) fn send_gone(&mut self, link: u32, job: JobSlot, generation: u16, (from, to, vc): Ends, count: u16) {
        if link == NONE {
            return; // cut off: the next ledger says it
        }
        let frames = self.edge.frames(link as usize);
        if let Some((_, Frame::Gone { job: j, generation: g, from: f, to: t, vc: v, count: n })) = frames.back_mut()
            && (*j, *g, *f, *t, *v) == (job, generation, from, to, vc)
            && let Some(sum) = n.checked_add(count)
        {
            *n = sum;
            return;
        }
        let time = self.now + self.hop_ps;
        frames.push_back((time, Frame::Gone { job, generation, from, to, vc, count }));
    }
}
