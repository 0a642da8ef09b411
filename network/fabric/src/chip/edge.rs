//! Frames for other parts of a network, and copies of the packets in them.
//!
//! When a part of a split network is lost, so is every packet inside it. The source of a packet therefore retains it
//! from the moment it leaves over a boundary link until it is known to have been ejected. The copy is the packet itself:
//! its slot in the slab is not freed, but linked to the *stream* of its job, source, target and channel. All packets
//! of a stream go one way, so they are ejected in the order in which they were retained, and a number says which: the target
//! counts what it ejects of each stream, tells the source (*gone* frames, one for several packets if possible),
//! and the source frees as many copies. Recovery sends the others again.
//!
//! A packet within one fabric pays nothing for this; one that leaves is appended to a list, one that comes is counted.

use crate::packet::{Frame, NO_QUEUE, PacketHandle, Packets, RETAINED};
use crate::routes::NONE;
use crate::types::{JobSlot, Tick};
use angara_net::torus::NodeId;
use std::collections::{BTreeMap, VecDeque};

/// Ends of a stream: the one that is here, the other one, and the channel of its class.
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

/// Packets of a stream that its source retains: the first and the last one of a list, and how many packets
/// the target had ejected, by its own count, before the first of them.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Retained {
    pub(crate) first: PacketHandle,
    last: PacketHandle,
    pub(crate) before: u64,
}

/// The edge of the part of a network that is modelled here.
#[derive(Default, Debug)]
pub(crate) struct Edge {
    /// Frames for each boundary link, with the time at which each arrives at the other end.
    pub(crate) frames: BTreeMap<usize, VecDeque<(Tick, Frame)>>,
    /// When the latest packet came over each boundary link.
    pub(crate) arrived: BTreeMap<usize, Tick>,
    /// How often each job slot has been opened.
    generations: Vec<u16>,
    /// By job: packets that have gone to other parts of the network, at their sources here.
    retained: Vec<Option<Streams<Retained>>>,
}

impl Edge {
    /// Forgets what is between this part and others.
    pub(super) fn empty(&mut self) {
        self.frames.clear();
        self.arrived.clear();
    }
    /// How often the slot had been opened before the present job.
    pub(crate) fn generation(&self, job: JobSlot) -> u16 {
        self.generations.get(job.index()).copied().unwrap_or(0)
    }
    pub(crate) fn is_open(&self, job: JobSlot) -> bool {
        self.retained.get(job.index()).is_some_and(Option::is_some)
    }
    pub(crate) fn open_job(&mut self, job: JobSlot, generation: u16) {
        let job = job.index();
        if self.generations.len() <= job {
            self.generations.resize(job + 1, 0);
            self.retained.resize_with(job + 1, || None);
        }
        (self.generations[job], self.retained[job]) = (generation, Some(Streams::default()));
    }
    /// The packets it retained must have been taken.
    pub(crate) fn close_job(&mut self, job: JobSlot) {
        if let Some(streams) = self.retained.get_mut(job.index()) {
            *streams = None;
        }
    }
    /// The streams of an open job.
    #[inline]
    pub(crate) fn streams(&mut self, job: JobSlot) -> Option<&mut Streams<Retained>> {
        self.retained.get_mut(job.index()).and_then(Option::as_mut)
    }
    /// Returns what is to be given to a boundary link.
    pub(crate) fn frames(&mut self, link: usize) -> &mut VecDeque<(Tick, Frame)> {
        self.frames.entry(link).or_default()
    }
    /// Retains a packet that has left; false if its job is not open.
    #[inline]
    pub(crate) fn retain(&mut self, packets: &mut Packets, h: PacketHandle, nodes: usize) -> bool {
        let p = &mut packets[h];
        let Some(streams) = self.retained.get_mut(p.job.index()).and_then(Option::as_mut) else { return false };
        (p.queue, p.next) = (RETAINED, PacketHandle::NONE);
        let stream = streams.at((p.src, p.dst, p.vc), nodes);
        if stream.first.is_none() {
            stream.first = h;
        } else {
            packets[stream.last].next = h;
        }
        stream.last = h;
        true
    }
    /// Takes the first packet retained of a stream: its target has ejected it.
    pub(crate) fn forget(
        &mut self,
        packets: &mut Packets,
        job: JobSlot,
        stream: Ends,
        nodes: usize,
    ) -> Option<PacketHandle> {
        let retained = self.streams(job)?.at(stream, nodes);
        let h = retained.first;
        if h.is_none() {
            return None;
        }
        retained.before += 1;
        let p = &mut packets[h];
        retained.first = p.next;
        (p.next, p.queue) = (PacketHandle::NONE, NO_QUEUE);
        Some(h)
    }
    /// Takes the packets retained of all streams of a job out of their lists.
    pub(crate) fn take(&mut self, packets: &mut Packets, job: JobSlot) -> Vec<PacketHandle> {
        let mut all = Vec::new();
        let Some(streams) = self.streams(job) else { return all };
        for (_, retained) in &mut streams.list {
            let mut at = std::mem::take(&mut retained.first);
            while at.is_some() {
                all.push(at);
                let p = &mut packets[at];
                (at, p.queue, p.next) = (p.next, NO_QUEUE, PacketHandle::NONE);
            }
        }
        all
    }
}
