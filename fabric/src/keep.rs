//! Copies of packets that have gone to another part of the network.
//!
//! When a part of a split network is lost, so is every packet inside it. The source of a packet therefore keeps it
//! from the moment it leaves over a boundary link until it is known to have been ejected. The copy is the packet itself:
//! its slot in the slab is not freed, but linked to the *stream* of its job, source, target and channel. All packets
//! of a stream go one way, so they are ejected in the order in which they were kept, and a number says which: the target
//! counts what it ejects of each stream, tells the source (*gone* frames, one for several packets if possible),
//! and the source frees as many copies. [`crate::mend`] sends the others again.
//!
//! A packet within one fabric pays nothing for this; one that leaves is appended to a list, one that comes is counted.

use crate::Fabric;
use crate::layout::UP;
use crate::slab::{KEPT, NO_QUEUE, flag};
use crate::topology::{NONE, link_index};
use crate::types::{JobId, Link};
use crate::wire::Frame;
use abi::packet::PacketType;
use abi::torus::NodeId;

/// Of a stream: one end, which is here, the other one, the channel of its class.
pub(crate) type Ends = (NodeId, NodeId, u8);

/// Something per stream of a job, found by its ends. A row per node here, made when it is first used.
#[derive(Debug, Default)]
pub(crate) struct Streams<T> {
    rows: Vec<Box<[u32]>>,
    pub(crate) list: Vec<(Ends, T)>,
}

impl<T: Default> Streams<T> {
    #[inline]
    pub(crate) fn at(&mut self, (here, there, vc): Ends, nodes: usize) -> &mut T {
        let place = there as usize * 2 + vc as usize;
        let found = self.rows.get(here as usize).and_then(|row| row.get(place)).copied().unwrap_or(NONE);
        if found != NONE {
            return &mut self.list[found as usize].1;
        }
        self.add((here, there, vc), place, nodes)
    }

    #[cold]
    fn add(&mut self, ends: Ends, place: usize, nodes: usize) -> &mut T {
        if self.rows.is_empty() {
            self.rows.resize_with(nodes, Box::default);
        }
        let row = &mut self.rows[ends.0 as usize];
        if row.is_empty() {
            *row = vec![NONE; 2 * nodes].into();
        }
        row[place] = self.list.len() as u32;
        self.list.push((ends, T::default()));
        &mut self.list.last_mut().expect("pushed above").1
    }
}

/// What a source keeps of a stream: the first and the last packet of a list, and how many the target had ejected, as
/// it counts, before the first of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) first: u32,
    last: u32,
    pub(crate) before: u64,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept { first: NONE, last: NONE, before: 0 }
    }
}

/// What a target knows of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ejected {
    pub(crate) count: u64,
    /// The boundary link on which the source hears of it, once known for the present routes.
    pub(crate) link: u32,
}

impl Default for Ejected {
    fn default() -> Ejected {
        Ejected { count: 0, link: NONE }
    }
}

impl Fabric {
    /// A packet has left over a boundary link: its source keeps it, others forget it.
    #[inline]
    pub(crate) fn keep(&mut self, h: u32) {
        let p = &mut self.packets[h];
        let transit = p.flags & (flag::FOREIGN | flag::DEAD) != 0 || p.vc as usize >= UP;
        let job = self.jobs.get_mut(p.job as usize).and_then(Option::as_mut);
        let Some(job) = job.filter(|_| !transit && p.kind != PacketType::Barrier) else { return self.free_packet(h) };
        (p.queue, p.next) = (KEPT, NONE);
        let stream = job.kept.at((p.src, p.dst, p.vc), self.net.nodes);
        match stream.first {
            NONE => stream.first = h,
            _ => self.packets[stream.last].next = h,
        }
        stream.last = h;
    }

    /// A packet that has come over boundary links is ejected: its source may forget it.
    #[inline]
    pub(crate) fn count_ejected(&mut self, h: u32) {
        let p = &self.packets[h];
        let (job, ends) = (p.job, (p.dst, p.src, p.vc));
        if p.is(flag::DEAD) || p.vc as usize >= UP {
            return;
        }
        let Some(j) = self.jobs.get_mut(job as usize).and_then(Option::as_mut) else { return };
        let ejected = j.ejected.at(ends, self.net.nodes);
        ejected.count += 1;
        if self.owned[ends.1 as usize] {
            return self.forget_kept(job, (ends.1, ends.0, ends.2), 1); // it has been elsewhere on its way
        }
        let mut link = ejected.link;
        if link == NONE {
            link = self.way_back(ends.0, ends.1, None).unwrap_or(NONE);
            if let Some(j) = self.jobs[job as usize].as_mut() {
                j.ejected.at(ends, self.net.nodes).link = link;
            }
        }
        self.send_gone(link, job, self.generations[job as usize], ends, 1);
    }

    /// The first boundary link out of this part on the way on which `to` hears of what `from` ejected, behind `link` if
    /// it is on its way already. That is the route of a barrier's messages from `from` to `to`, so that they do
    /// not overtake it, or if there is none the packets' own one backwards.
    fn way_back(&self, from: NodeId, to: NodeId, link: Option<Link>) -> Option<u32> {
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
    fn send_gone(&mut self, link: u32, job: JobId, generation: u16, (from, to, vc): Ends, count: u16) {
        if link == NONE {
            return; // cut off: the next ledger says it
        }
        let frames = self.boundary.entry(link as usize).or_default();
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

    /// Word of ejected packets has come over `link`.
    pub(crate) fn heard_gone(&mut self, link: Link, job: JobId, generation: u16, ends: Ends, count: u16) {
        let (from, to, vc) = ends;
        if !self.owned[to as usize] {
            let next = self.way_back(from, to, Some(link)).unwrap_or(NONE);
            return self.send_gone(next, job, generation, ends, count);
        }
        if self.generation(job) == generation {
            self.forget_kept(job, (to, from, vc), count as u64);
        }
    }

    /// The first `count` packets kept of a stream have been ejected.
    pub(crate) fn forget_kept(&mut self, job: JobId, stream: Ends, count: u64) {
        for _ in 0..count {
            let Some(j) = self.jobs.get_mut(job as usize).and_then(Option::as_mut) else { return };
            let kept = j.kept.at(stream, self.net.nodes);
            let h = kept.first;
            if h == NONE {
                return;
            }
            kept.before += 1;
            let p = &mut self.packets[h];
            kept.first = p.next;
            (p.next, p.queue) = (NONE, NO_QUEUE);
            if p.port != NONE && p.kind != PacketType::ReadRsp {
                let port = p.port as usize;
                self.ports[port].outstanding = self.ports[port].outstanding.saturating_sub(1);
                self.schedule_pump(port, self.now);
            }
            self.free_packet(h);
        }
    }

    /// Takes the packets kept of all streams of a job out of their lists.
    pub(crate) fn take_kept(&mut self, job: JobId) -> Vec<u32> {
        let mut all = Vec::new();
        let Some(j) = self.jobs.get_mut(job as usize).and_then(Option::as_mut) else { return all };
        for (_, kept) in &mut j.kept.list {
            let mut at = std::mem::replace(&mut kept.first, NONE);
            while at != NONE {
                all.push(at);
                let p = &mut self.packets[at];
                (at, p.queue, p.next) = (p.next, NO_QUEUE, NONE);
            }
        }
        all
    }
}
