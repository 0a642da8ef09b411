//! The PEs of a recording, and the network between them.
//!
//! It does what the data plane does in virtual time, with records in place of programs: PEs go on in the order of the
//! network's time and their numbers, and the network goes on between them. So the times are equal on the same machine.

use super::super::script::JOB;
use crate::Error;
use crate::run::Progress;
use crate::workload::Watch;
use angara_abi::account::Class;
use angara_abi::desc::{Place, Region};
use angara_abi::packet::Vc;
use angara_abi::{PAYLOAD_MAX, TREES};
use angara_fabric::{Config, Effect, Fabric, InjectError, NetError, Op, OpState, Port, Source, Tick};
use angara_net::fault::Fault;
use angara_protocol::recording::{Cause, Post, Reached, Record, Recording, Tape};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Posts that the network takes from a PE, as in virtual time.
const OPS_PER_PORT: u16 = 8192;
/// The latest time there is, ps.
const TIME_MAX: Tick = 1 << 62;
/// Events between two calls of a watch.
const LOOK: u64 = 1 << 16;
/// The bytes of everything.
const BYTES: [u8; PAYLOAD_MAX] = [0; PAYLOAD_MAX];
/// Where they are.
const PLACE: Place = Place { region: Region::Heap, offset: 0 };

/// A post that the network has not finished.
#[derive(Clone, Copy, Default)]
struct Open {
    reached: Option<Reached>,
    /// Its bytes are fetched from memory.
    memory: bool,
    read: bool,
}

struct Pe {
    port: Port,
    tape: Tape,
    /// Its clock.
    at: Tick,
    /// A record whose time has not come.
    next: Option<Record>,
    /// Posts made, and the number of the first of `open`.
    posts: u64,
    first: u64,
    open: VecDeque<Open>,
    /// Posts that the network had no room for: when, number, post.
    outbox: VecDeque<(Tick, u64, Post)>,
    /// What it waits for.
    waits: Option<Vec<Cause>>,
    arrivals: BTreeMap<u32, u64>,
    trees: BTreeMap<(u32, bool), u64>,
    end: Option<Tick>,
}

impl Pe {
    fn has_come(&self, cause: Cause) -> bool {
        match cause {
            Cause::Own { reached, back, all } => {
                let Some(number) = self.posts.checked_sub(back) else { return true };
                // Those before the first are done; the one that is asked for may not be in the network.
                let last = (number + 1).saturating_sub(self.first) as usize;
                let begin = if all { 0 } else { last.saturating_sub(1) };
                (begin..last).all(|i| self.open.get(i).is_none_or(|open| open.has_reached(reached)))
            }
            Cause::Arrival { from, count } => self.arrivals.get(&from).is_some_and(|come| *come >= count),
            Cause::Tree { tree, bcast, count } => self.trees.get(&(tree, bcast)).is_some_and(|come| *come >= count),
        }
    }

    /// One of its posts has come so far.
    fn reached(&mut self, number: u64, reached: Reached) {
        let Some(open) = number.checked_sub(self.first).and_then(|i| self.open.get_mut(i as usize)) else { return };
        // The network reports the one or the other of each post as its last.
        let done = reached >= Reached::Injected;
        open.reached = open.reached.max(Some(if done { Reached::Complete } else { reached }));
        while self.open.front().is_some_and(|open| open.reached == Some(Reached::Complete)) {
            self.open.pop_front();
            self.first += 1;
        }
    }
}

impl Open {
    fn of(post: &Post) -> Open {
        let memory = match post {
            Post::Write { memory, .. } | Post::Reduce { memory, .. } | Post::Bcast { memory, .. } => *memory,
            _ => false,
        };
        let read = matches!(post, Post::Read { .. } | Post::Flush { .. });
        Open { reached: None, memory, read }
    }

    fn has_reached(&self, reached: Reached) -> bool {
        match reached {
            Reached::Delivered => !self.read || self.reached == Some(Reached::Complete),
            _ => self.reached >= Some(reached),
        }
    }
}

/// A recording that is played.
pub(super) struct Player<'a> {
    recording: &'a Recording,
    fabric: Fabric,
    pes: Vec<Pe>,
    /// PEs by node and endpoint.
    seats: BTreeMap<(u32, u16), u32>,
    /// What the recording calls the trees in the routers.
    loaded: [Option<u32>; TREES],
    due: BTreeSet<(Tick, u32)>,
    packets: u64,
    finished: usize,
}

fn broken(e: impl std::fmt::Display) -> Error {
    Error::Network(e.to_string())
}

impl<'a> Player<'a> {
    /// PEs on these ports of a network.
    pub(super) fn new(
        recording: &'a Recording,
        (mut config, faults): (Config, Vec<Fault>),
        ports: Vec<Port>,
    ) -> Result<Player<'a>, Error> {
        // With payload, so that packets wait for their bytes as those of a program do.
        config.payload = true;
        config.params.ops_per_port = OPS_PER_PORT;
        let mut fabric = Fabric::new(config).map_err(broken)?;
        faults.into_iter().try_for_each(|fault| fabric.set_fault(fault)).map_err(broken)?;
        fabric.open_job(JOB, &ports).map_err(broken)?;
        let barrier = recording.header.barrier.parse().map_err(|e: String| broken(format!("the recording: {e}")))?;
        fabric.set_barrier_family(JOB, barrier).map_err(broken)?;
        let pe = |(pe, port)| Pe {
            port,
            tape: recording.tape(pe),
            at: 0,
            next: None,
            posts: 0,
            first: 0,
            open: VecDeque::new(),
            outbox: VecDeque::new(),
            waits: None,
            arrivals: BTreeMap::new(),
            trees: BTreeMap::new(),
            end: None,
        };
        let seats = (0..).zip(&ports).map(|(pe, port)| ((port.node, port.endpoint), pe)).collect();
        let due = (0..ports.len() as u32).map(|pe| (0, pe)).collect();
        let pes = ports.into_iter().enumerate().map(pe).collect();
        Ok(Player { recording, fabric, pes, seats, loaded: [None; TREES], due, packets: 0, finished: 0 })
    }

    /// The network.
    pub(super) fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// When each PE has ended, and packets that came to a host.
    pub(super) fn ended(&self) -> Result<(Vec<Tick>, u64), Error> {
        if let Some(pe) = self.pes.iter().position(|pe| pe.waits.is_some()) {
            let what = &self.pes[pe].waits;
            return Err(broken(format!("PE {pe} waits for ever, since {} ps, for {what:?}", self.pes[pe].at)));
        }
        Ok((self.pes.iter().map(|pe| pe.end.unwrap_or(pe.at)).collect(), self.packets))
    }

    /// Lets time pass until nothing more happens.
    pub(super) fn play(&mut self, watch: &mut Watch<'_>) -> Result<(), Error> {
        let mut events = 0u64;
        loop {
            let due = self.due.first().map(|due| due.0);
            if let Some(next) = self.fabric.poll_timeout().filter(|next| due.is_none_or(|due| *next <= due)) {
                self.fabric.advance(next);
                self.collect()?;
            } else if let Some((at, pe)) = self.due.pop_first() {
                self.go(pe, at)?;
            } else {
                return Ok(());
            }
            events += 1;
            let (done, of) = (self.finished as u64, self.pes.len() as u64);
            if events.is_multiple_of(LOOK) && watch(Progress { doing: "replaying", done, of }).is_break() {
                return Err(Error::Interrupted("the programs had not ended"));
            }
        }
    }

    fn pe_at(&self, at: Port) -> Result<u32, Error> {
        let pe = self.seats.get(&(at.node, at.endpoint));
        pe.copied().ok_or_else(|| broken(format!("nobody at endpoint {} of node {}", at.endpoint, at.node)))
    }

    /// Takes what the network has done.
    fn collect(&mut self) -> Result<(), Error> {
        while let Some(effect) = self.fabric.poll_effect() {
            let (at, tree) = match effect {
                Effect::Fetch { token, len, .. } => {
                    self.fabric.supply(token, &BYTES[..(len as usize).min(PAYLOAD_MAX)]);
                    continue;
                }
                Effect::Write { at, cause, .. } | Effect::Amo { at, cause, .. } => {
                    if let Effect::Amo { token: Some(token), .. } = effect {
                        self.fabric.supply(token, &[0; 8]);
                    }
                    let pe = self.pe_at(at)?;
                    let from = cause.map_or(Ok(pe), |cause| self.pe_at(cause.from))?;
                    *self.pes[pe as usize].arrivals.entry(from).or_default() += 1;
                    (at, None)
                }
                Effect::TreeResult { at, tree, bcast, count, .. } => (at, Some((tree, bcast, count))),
                Effect::TreeCredit { at, tree, count, .. } => (at, Some((tree, false, count))),
                // A barrier's mistake, which the recorded program did not notice either.
                Effect::Error {
                    what: NetError::EarlyExit { .. } | NetError::LatePacket { .. } | NetError::Unfinished { .. },
                    ..
                }
                | Effect::LinkDown { .. } => continue,
                Effect::Error { what, .. } => return Err(broken(what)),
            };
            self.packets += 1;
            let pe = self.pe_at(at)?;
            if let Some((tree, bcast, count)) = tree
                && let Some(tree) = self.loaded[usize::from(tree) % TREES]
            {
                self.pes[pe as usize].trees.insert((tree, bcast), count);
            }
            self.look(pe);
        }
        while let Some(completion) = self.fabric.poll_completion() {
            let pe = self.pe_at(completion.from)?;
            let reached = match completion.state {
                OpState::Copied => Reached::Copied,
                OpState::Injected => Reached::Injected,
                OpState::Complete => Reached::Complete,
                OpState::Failed(why) => return Err(broken(format!("PE {pe}: {why}"))),
            };
            self.pes[pe as usize].reached(completion.tag, reached);
            self.flush(pe)?;
            self.look(pe);
        }
        Ok(())
    }

    /// What a PE waits for may have come.
    fn look(&mut self, number: u32) {
        let pe = &mut self.pes[number as usize];
        let Some(mut waits) = pe.waits.take() else { return };
        waits.retain(|cause| !pe.has_come(*cause));
        if waits.is_empty() {
            self.due.insert((pe.at.max(self.fabric.now()), number));
        } else {
            pe.waits = Some(waits);
        }
    }

    /// A PE goes on at a time, until it waits or has run ahead.
    fn go(&mut self, number: u32, at: Tick) -> Result<(), Error> {
        let ahead = at.saturating_add(self.recording.header.ahead_ps);
        self.pes[number as usize].at = at;
        loop {
            let pe = &mut self.pes[number as usize];
            let record = match pe.next.take() {
                Some(record) => record,
                None => {
                    let Some((gap, record)) = pe.tape.next(self.recording)? else {
                        self.finished += 1;
                        return Ok(());
                    };
                    pe.at = pe.at.saturating_add(gap);
                    if pe.at > TIME_MAX {
                        return Err(broken(format!("PE {number} of the recording goes on at {} ps", pe.at)));
                    }
                    record
                }
            };
            match record {
                Record::Post(_) if pe.at > ahead => {
                    pe.next = Some(record);
                    self.due.insert((pe.at, number));
                    return Ok(());
                }
                Record::Post(post) => self.post(number, post)?,
                Record::Wait(causes) => {
                    pe.waits = Some(causes);
                    self.look(number);
                    return Ok(());
                }
                Record::End => pe.end = Some(pe.at),
            }
        }
    }

    fn post(&mut self, number: u32, post: Post) -> Result<(), Error> {
        let pe = &mut self.pes[number as usize];
        pe.open.push_back(Open::of(&post));
        pe.outbox.push_back((pe.at, pe.posts, post));
        pe.posts += 1;
        self.flush(number)
    }

    /// Posts what the network has room for.
    fn flush(&mut self, number: u32) -> Result<(), Error> {
        while let Some((issue, tag, post)) = self.pes[number as usize].outbox.front().copied() {
            if let Some((op, class)) = self.op(&post)? {
                match self.fabric.inject(self.pes[number as usize].port, JOB, class, op, issue, tag) {
                    Ok(()) => {}
                    Err(InjectError::Busy) => return Ok(()),
                    Err(e) => return Err(broken(format!("PE {number}: {e}"))),
                }
            }
            let pe = &mut self.pes[number as usize];
            pe.outbox.pop_front();
            if post == Post::Nothing {
                pe.reached(tag, Reached::Complete);
            } else if !Open::of(&post).memory {
                pe.reached(tag, Reached::Copied);
            }
        }
        Ok(())
    }

    /// A post as the network takes it; `None` if it is not for it.
    fn op(&mut self, post: &Post) -> Result<Option<(Op<Source<'static>>, Class)>, Error> {
        let pes = &self.pes;
        let port = |pe: u32| match pes.get(pe as usize) {
            Some(pe) => Ok(pe.port),
            None => Err(broken(format!("the recording has a post to PE {pe}, and there are {}", pes.len()))),
        };
        let source = |len: u32, memory: bool| match (memory, BYTES.get(..len as usize)) {
            (true, _) => Ok(Source::Memory { place: PLACE, len }),
            (false, Some(bytes)) => Ok(Source::Inline(bytes)),
            (false, None) => Err(broken(format!("the recording has {len} bytes in one packet"))),
        };
        Ok(Some(match *post {
            Post::Nothing => return Ok(None),
            Post::Write { class, to, len, memory, response, adaptive } => {
                let (source, vc) = (source(len, memory)?, if response { Vc::Response } else { Vc::Request });
                (Op::Write { to: port(to)?, place: PLACE, source, vc, adaptive }, class)
            }
            Post::Read { class, to, len } => (Op::Read { to: port(to)?, remote: PLACE, local: PLACE, len }, class),
            Post::Flush { class, to } => (Op::Flush { to: port(to)?, remote: PLACE, local: PLACE }, class),
            Post::Amo { class, to, op, width, fetch } => {
                let (to, result) = (port(to)?, fetch.then_some(PLACE));
                (Op::Amo { to, place: PLACE, op, width, operand: 0, comparand: 0, result }, class)
            }
            Post::Fence { class } => (Op::Fence, class),
            Post::Barrier { half } => (Op::Barrier { half }, Class::Sync),
            Post::Reduce { class, tree, id, op, elem, to, len, memory } => {
                let (to, source) = (to.map(port).transpose()?, source(len, memory)?);
                let tree = self.load(tree)?;
                (Op::Reduce { tree, reduce: id, op, elem, to, place: PLACE, source }, class)
            }
            Post::Bcast { class, tree, len, memory } => {
                let source = source(len, memory)?;
                (Op::Bcast { tree: self.load(tree)?, place: PLACE, source }, class)
            }
        }))
    }

    /// Loads a tree of the recording if it is not loaded; its number in the routers.
    fn load(&mut self, name: u32) -> Result<u8, Error> {
        let tree = self.recording.trees.get(name as usize);
        let tree = tree.ok_or_else(|| broken(format!("the recording has no tree {name}")))?;
        let seat = &mut self.loaded[usize::from(tree.number)];
        if seat.replace(name) == Some(name) {
            return Ok(tree.number);
        }
        self.fabric.unload_tree(tree.number);
        let ports: Vec<Port> = tree.pes.iter().map(|pe| self.pes[*pe as usize].port).collect();
        let rows = self.fabric.build_tree(self.pes[tree.root as usize].port.node, &ports).map_err(broken)?;
        self.fabric.load_tree(tree.number, JOB, &rows).map_err(broken)?;
        Ok(tree.number)
    }
}
