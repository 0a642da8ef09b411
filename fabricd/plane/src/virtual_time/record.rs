//! The recording of a run: each PE's posts, and what ended its waits.
//!
//! A wait that only lets time pass is none: the time is a part of the gap before the next record.

use super::touch::overlap;
use crate::channels::post::Posted;
use crate::config::RecordTo;
use crate::jobs::seats::Seats;
use angara_abi::clock::{AHEAD_MAX, WaitsFor};
use angara_abi::desc::Place;
use angara_fabric::{BarrierFamily, Cause as From, Op, OpState, Port, Source, Tick};
use angara_net::torus::Shape;
use angara_protocol::recording::{Cause, Header, Post, Reached, Recorder};
use std::collections::{BTreeMap, VecDeque};
use std::io;

/// Arrivals of a PE that a later wait may be for. With more, the oldest are forgotten: a wait that they were a part of then
/// names only the later ones.
const RECENT: usize = 1024;

/// What happens to a PE, as a wait of it would name that.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A post of its own, by its number from 0, has come so far.
    Own(u64, Reached),
    /// N packets of a PE have come.
    Arrival(u32, u64),
    /// A tree, whether broadcasts, and how many.
    Tree(u32, bool, u64),
}

struct Arrival {
    place: Place,
    len: u64,
    from: u32,
    count: u64,
}

/// What a PE has posted and received.
#[derive(Default)]
struct Heard {
    posts: u64,
    /// Sequence number of the latest post.
    latest: u32,
    /// Packets that have come, by the PE of the operation.
    arrivals: BTreeMap<u32, u64>,
    /// Those that no wait has been for.
    recent: VecDeque<Arrival>,
}

/// A recording that is being written.
pub(crate) struct Record {
    recorder: Recorder,
    to: RecordTo,
    seed: u64,
    pes: Vec<Heard>,
    /// What the recording calls the trees in the routers.
    trees: [Option<u32>; angara_abi::TREES],
    /// What happens now.
    pub(super) event: Option<Event>,
}

impl Record {
    pub(crate) fn create(to: RecordTo, seed: u64) -> io::Result<Record> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("cannot record to {}: {e}", to.path.display()));
        let recorder = Recorder::create(&to.path).map_err(named)?;
        Ok(Record { recorder, to, seed, pes: Vec::new(), trees: [None; angara_abi::TREES], event: None })
    }

    /// The job of this run begins, on these ports.
    pub(crate) fn begin(&mut self, shape: &Shape, ports: &[Port], barrier: BarrierFamily) -> Result<(), String> {
        self.pes.resize_with(ports.len(), Heard::default);
        let topology = shape.to_string();
        let header = Header {
            program: env!("CARGO_PKG_VERSION").into(),
            topology: if shape.is_torus() { format!("torus:{topology}") } else { topology },
            set: self.to.set.clone(),
            seed: self.seed,
            barrier: barrier.to_string(),
            ahead_ps: AHEAD_MAX,
            places: ports.iter().map(|port| (port.node, port.endpoint)).collect(),
        };
        self.recorder.begin(&header).map_err(|e| format!("cannot record to {}: {e}", self.to.path.display()))
    }

    /// The job of this run has ended.
    pub(crate) fn finish(self) {
        let path = self.to.path;
        if let Err(e) = self.recorder.finish() {
            tracing::error!(file = %path.display(), error = %e, "the recording is not complete");
        }
    }

    /// A PE has posted something, which the network has accepted.
    pub(crate) fn post(&mut self, pe: usize, at: Tick, posted: &Posted, seats: &Seats) {
        let pe_at = |port: Port| seats.owner(port).map_or(u32::MAX, |owner| owner.pe);
        let tree_at = |tree: u8| self.trees.get(usize::from(tree)).copied().flatten().unwrap_or(u32::MAX);
        let class = posted.class;
        let bytes = |source: Source<'_>| (source.len(), matches!(source, Source::Memory { .. }));
        let post = match posted.op(&[0; angara_abi::PAYLOAD_MAX]) {
            None => Post::Nothing,
            Some(Op::Write { to, source, vc, adaptive, .. }) => {
                let ((len, memory), response) = (bytes(source), vc == angara_abi::packet::Vc::Response);
                Post::Write { class, to: pe_at(to), len, memory, response, adaptive }
            }
            Some(Op::Read { to, len, .. }) => Post::Read { class, to: pe_at(to), len },
            Some(Op::Flush { to, .. }) => Post::Flush { class, to: pe_at(to) },
            Some(Op::Amo { to, op, width, result, .. }) => {
                Post::Amo { class, to: pe_at(to), op, width, fetch: result.is_some() }
            }
            Some(Op::Fence) => Post::Fence { class },
            Some(Op::Barrier { half }) => Post::Barrier { half },
            Some(Op::Reduce { tree, reduce: id, op, elem, to, source, .. }) => {
                let (len, memory) = bytes(source);
                Post::Reduce { class, tree: tree_at(tree), id, op, elem, to: to.map(pe_at), len, memory }
            }
            Some(Op::Bcast { tree, source, .. }) => {
                let (len, memory) = bytes(source);
                Post::Bcast { class, tree: tree_at(tree), len, memory }
            }
        };
        self.recorder.post(pe, at, post);
        if let Some(heard) = self.pes.get_mut(pe) {
            (heard.posts, heard.latest) = (heard.posts + 1, posted.seq);
        }
    }

    /// A post of a PE has come so far.
    pub(crate) fn state(&mut self, number: u64, state: OpState) {
        let reached = match state {
            OpState::Copied => Reached::Copied,
            OpState::Injected => Reached::Injected,
            OpState::Complete | OpState::Failed(_) => Reached::Complete,
        };
        self.event = Some(Event::Own(number, reached));
    }

    /// Bytes arrive at a port.
    pub(crate) fn arrival(&mut self, at: Port, written: (Place, u64), cause: Option<From>, seats: &Seats) {
        let Some(pe) = seats.owner(at).map(|owner| owner.pe) else { return };
        let from = cause.and_then(|cause| seats.owner(cause.from)).map_or(pe, |owner| owner.pe);
        self.arrives(pe, from, written);
    }

    /// Something of a tree arrives, so many of its kind by now.
    pub(crate) fn tree_brings(&mut self, tree: u8, bcast: bool, count: u64) {
        let tree = self.trees.get(usize::from(tree)).copied().flatten();
        self.event = tree.map(|tree| Event::Tree(tree, bcast, count));
    }

    pub(crate) fn tree_loaded(&mut self, tree: u8, root: u32, pes: &[u32]) {
        let name = self.recorder.tree(tree, root, pes);
        self.trees[usize::from(tree) % angara_abi::TREES] = Some(name);
    }

    /// What the program of a PE does from now on does not count.
    pub(super) fn has_ended(&mut self, pe: usize, end: Tick) {
        self.recorder.end(pe, end);
    }

    /// Bytes of an operation arrive at a PE.
    fn arrives(&mut self, pe: u32, from: u32, (place, len): (Place, u64)) {
        let Some(heard) = self.pes.get_mut(pe as usize) else { return };
        let count = heard.arrivals.entry(from).or_default();
        *count += 1;
        if heard.recent.len() == RECENT {
            heard.recent.pop_front();
        }
        heard.recent.push_back(Arrival { place, len, from, count: *count });
        self.event = Some(Event::Arrival(from, *count));
    }

    /// A wait of a PE has ended.
    pub(super) fn waited(&mut self, pe: usize, times: (Tick, Tick), waits_for: WaitsFor, event: Option<Event>) {
        let Some(heard) = self.pes.get_mut(pe) else { return };
        let up_to = |reached, seq: u32| {
            let back = u64::from(heard.latest.wrapping_sub(seq)) + 1;
            vec![Cause::Own { reached, back, all: true }]
        };
        let causes = match (waits_for, event) {
            (WaitsFor::Time | WaitsFor::Return, _) => return,
            (WaitsFor::Copied(seq), Some(_)) => up_to(Reached::Copied, seq),
            (WaitsFor::Injected(seq), Some(_)) => up_to(Reached::Injected, seq),
            (WaitsFor::Delivered(seq), Some(_)) => up_to(Reached::Delivered, seq),
            (_, None) => return,
            (WaitsFor::Word(place, with), Some(Event::Arrival(..))) => heard.all_to((place, with.width.into())),
            (WaitsFor::Bytes(place, len), Some(Event::Arrival(..))) => heard.all_to((place, len)),
            (_, Some(Event::Arrival(from, count))) => vec![Cause::Arrival { from, count }],
            (_, Some(Event::Own(number, reached))) => {
                vec![Cause::Own { reached, back: heard.posts.saturating_sub(number).max(1), all: false }]
            }
            (_, Some(Event::Tree(tree, bcast, count))) => vec![Cause::Tree { tree, bcast, count }],
        };
        if !causes.is_empty() {
            self.recorder.wait(pe, times, &causes);
        }
    }
}

impl Heard {
    /// The last arrival of each PE at these bytes that no wait has been for.
    fn all_to(&mut self, watched: (Place, u64)) -> Vec<Cause> {
        let mut last = BTreeMap::new();
        self.recent.retain(|arrival| {
            let concerns = overlap(watched, (arrival.place, arrival.len));
            if concerns {
                last.insert(arrival.from, arrival.count);
            }
            !concerns
        });
        last.into_iter().map(|(from, count)| Cause::Arrival { from, count }).collect()
    }
}
