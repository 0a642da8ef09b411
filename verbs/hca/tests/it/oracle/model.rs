//! What a program has asked for, and what it may be told: a model of queue pairs that knows requests and completions, but
//! no messages.

use crate::world::{BASE, BYTES, World};
use angara_hca::*;
use std::collections::{BTreeMap, HashMap};

/// Bytes from the first on that are never written: what requests send.
pub(crate) const SOURCE: u64 = 32 << 10;

/// The byte that an adapter has at an address of its source.
pub(crate) fn source(seat: u32, at: u64) -> u8 {
    let mixed = (at ^ u64::from(seat) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u8 | 1
}

pub(crate) type Bytes = Vec<u8>;

/// What a request asks for.
#[derive(Clone)]
pub(crate) enum What {
    Receive { room: u32 },
    Send { bytes: Bytes, imm: Option<u32> },
    Write { to: u32, at: u64, bytes: Bytes, imm: Option<u32> },
    Read { expected: Bytes },
    Add { word: (u32, u64) },
    Swap { old: u64 },
    Datagram { bytes: Bytes, imm: Option<u32>, to: (u32, Qp), grh: bool },
}

impl std::fmt::Debug for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            What::Receive { room } => write!(f, "receive of {room}"),
            What::Send { bytes, imm } => write!(f, "send of {}, {imm:?}", bytes.len()),
            What::Write { to, at, bytes, imm } => write!(f, "write of {} to {at:#x} of {to}, {imm:?}", bytes.len()),
            What::Read { expected } => write!(f, "read of {}", expected.len()),
            What::Add { word } => write!(f, "addition to {word:x?}"),
            What::Swap { old } => write!(f, "swap of {old}"),
            What::Datagram { bytes, imm, to, grh } => {
                write!(f, "datagram of {} to {to:?}, {imm:?}, {grh}", bytes.len())
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) seat: u32,
    /// Whose it is: of a shared queue nobody's yet.
    pub(crate) life: Option<usize>,
    pub(crate) what: What,
    pub(crate) pieces: Vec<(u64, u32)>,
    /// It cannot succeed.
    pub(crate) fails: Option<Status>,
    /// It names a region that may be deregistered before it is done.
    pub(crate) is_shaky: bool,
    pub(crate) signaled: bool,
    pub(crate) solicited: bool,
    pub(crate) is_done: bool,
    /// Its queue pair has been reset or destroyed: it never completes.
    pub(crate) is_dead: bool,
}

impl Record {
    /// Bytes and immediate data of what takes a receive request.
    fn message(&self) -> Option<(&[u8], Option<u32>)> {
        match &self.what {
            What::Send { bytes, imm } | What::Write { bytes, imm: imm @ Some(_), .. } => Some((bytes, *imm)),
            _ => None,
        }
    }
}

/// A queue pair between two resets.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) seat: u32,
    pub(crate) qp: Qp,
    pub(crate) transport: Transport,
    /// The other end, once both are connected.
    pub(crate) peer: Option<usize>,
    pub(crate) cqs: (Cq, Cq),
    pub(crate) srq: Option<Srq>,
    pub(crate) signal_all: bool,
    pub(crate) endless_rnr: bool,
    pub(crate) sends: Vec<usize>,
    pub(crate) receives: Vec<usize>,
    /// What is done of them: a count.
    pub(crate) sent: usize,
    pub(crate) received: usize,
    /// Messages of the other end, of its sends, that have been seen here.
    pub(crate) taken: usize,
    pub(crate) failed: (bool, bool),
    /// Something was done to one of both ends that ends the connection.
    pub(crate) trouble: bool,
    pub(crate) is_over: bool,
}

#[derive(Default)]
pub(crate) struct Model {
    pub(crate) records: Vec<Record>,
    pub(crate) lives: Vec<Life>,
    /// Nothing is asked for that fails.
    is_gentle: bool,
    /// Who has a queue pair's number now.
    pub(crate) now: HashMap<(u32, Qp), usize>,
    /// Bytes that must not change any more.
    frozen: Vec<(u32, u64, Bytes, String)>,
    /// Of every byte of an adapter: 0 it never changes, 1 it may be anything, 2 as it was or as `may` says.
    class: BTreeMap<u32, (Bytes, Bytes)>,
    /// Old words of atomic additions that have come.
    olds: HashMap<(u32, u64), Vec<u64>>,
    /// Armed completion queues: only for solicited ones.
    pub(crate) armed: HashMap<(u32, Cq), bool>,
    /// Those that have to have told by now.
    pub(crate) owed: Vec<(u32, Cq)>,
}

fn index(at: u64) -> usize {
    (at - BASE) as usize
}

impl Model {
    pub(crate) fn new(seats: u32, is_gentle: bool) -> Model {
        let class = (0..seats).map(|seat| (seat, (vec![0; BYTES], vec![0; BYTES]))).collect();
        Model { class, is_gentle, ..Model::default() }
    }

    /// An adapter may write anything there.
    pub(crate) fn anything_at(&mut self, seat: u32, at: u64, len: usize) {
        self.class.get_mut(&seat).expect("a seat").0[index(at)..][..len].fill(1);
    }
    /// These bytes may be written there.
    pub(crate) fn may_be(&mut self, seat: u32, at: u64, bytes: &[u8]) {
        let (class, may) = self.class.get_mut(&seat).expect("a seat");
        class[index(at)..][..bytes.len()].fill(2);
        may[index(at)..][..bytes.len()].copy_from_slice(bytes);
    }
    /// From now on nothing is written there.
    pub(crate) fn freeze(&mut self, world: &World, seat: u32, at: u64, len: usize, why: &str) {
        self.frozen.push((seat, at, world.read(seat, at, len), why.to_owned()));
    }

    /// A queue pair is reset or destroyed: nothing of it is told or written any more.
    pub(crate) fn ends(&mut self, world: &World, life: usize) {
        let one = &mut self.lives[life];
        (one.is_over, one.trouble) = (true, true);
        let peer = one.peer;
        for record in one.sends.iter().chain(&one.receives) {
            self.records[*record].is_dead = true;
        }
        self.now.remove(&(self.lives[life].seat, self.lives[life].qp));
        let own: Vec<_> = self.lives[life].sends.iter().chain(&self.lives[life].receives).copied().collect();
        for record in own {
            let Record { seat, ref what, ref pieces, .. } = self.records[record];
            if matches!(what, What::Receive { .. } | What::Read { .. } | What::Add { .. } | What::Swap { .. }) {
                for (at, len) in pieces.clone() {
                    self.freeze(world, seat, at, len as usize, &format!("own of {record}, whose queue pair is over"));
                }
            }
        }
        self.disturbed(peer);
        self.no_writes_to(world, life);
    }

    /// Its peer cannot write by this queue pair any more.
    pub(crate) fn no_writes_to(&mut self, world: &World, life: usize) {
        let Some(peer) = self.lives[life].peer else { return };
        for record in self.lives[peer].sends.clone() {
            if let What::Write { to, at, ref bytes, .. } = self.records[record].what
                && self.records[record].fails.is_none()
            {
                let len = bytes.len();
                self.freeze(world, to, at, len, &format!("target of {record}, whose target is over"));
            }
        }
    }

    pub(crate) fn disturbed(&mut self, life: Option<usize>) {
        if let Some(life) = life {
            self.lives[life].trouble = true;
        }
    }
    fn failed(&mut self, life: usize) {
        self.lives[life].trouble = true;
        let peer = self.lives[life].peer;
        self.disturbed(peer);
    }

    /// A completion has been polled.
    pub(crate) fn completed(&mut self, world: &World, seat: u32, cq: Cq, c: &Completion) {
        let record = c.wr_id as usize;
        let one = self.records.get(record).unwrap_or_else(|| panic!("completion of nothing: {c:?}")).clone();
        assert!(!one.is_done && !one.is_dead && one.seat == seat, "again, or never: {c:?} of {one:?}");
        let life = *self.now.get(&(seat, c.qp_number())).unwrap_or_else(|| panic!("of no queue pair: {c:?}"));
        assert!(one.life.is_none_or(|its| its == life), "of another queue pair: {c:?} of {one:?}");
        let receives = matches!(one.what, What::Receive { .. });
        let (send_cq, receive_cq) = self.lives[life].cqs;
        assert_eq!(cq, if receives { receive_cq } else { send_cq }, "{c:?}");
        let solicited = match receives {
            true => self.receive_completed(world, life, record, c),
            false => {
                self.send_completed(world, life, record, c);
                false
            }
        };
        let one = &mut self.records[record];
        (one.is_done, one.life) = (true, Some(life));
        if !matches!(one.what, What::Send { .. } | What::Write { .. } | What::Datagram { .. }) {
            for (at, len) in one.pieces.clone() {
                self.freeze(world, seat, at, len as usize, &format!("completed {record}"));
            }
        }
        let tells = self
            .armed
            .get(&(seat, cq))
            .is_some_and(|only_solicited| !*only_solicited || solicited || c.status != Status::Success);
        if tells {
            self.owed.push((seat, cq));
        }
    }

    fn send_completed(&mut self, world: &World, life: usize, record: usize, c: &Completion) {
        let all = &self.lives[life];
        let at = all.sends.iter().position(|one| *one == record).expect("posted here");
        assert!(at >= all.sent, "not in order: {c:?}");
        let skipped: Vec<usize> = all.sends[all.sent..at].to_vec();
        for one in skipped {
            let silent = !self.records[one].signaled
                && !self.lives[life].signal_all
                && (!self.lives[life].failed.0 || self.lives[life].transport != Transport::Rc);
            assert!(silent, "{one} is left out before {c:?}: {:?}", self.records[one]);
            self.succeeded(world, life, one);
        }
        self.lives[life].sent = at + 1;
        let one = self.records[record].clone();
        if c.status == Status::Success {
            // Send queues of others recover.
            let recovers = self.lives[life].transport != Transport::Rc;
            assert!(!std::mem::take(&mut self.lives[life].failed.0) || recovers, "after a failure: {c:?}");
            let opcode = match one.what {
                What::Send { .. } | What::Datagram { .. } => Opcode::Send,
                What::Write { .. } => Opcode::RdmaWrite,
                What::Read { .. } => Opcode::RdmaRead,
                What::Add { .. } => Opcode::FetchAdd,
                _ => Opcode::CompareSwap,
            };
            assert_eq!(c.opcode, opcode, "{c:?}");
            return self.succeeded(world, life, record);
        }
        if std::mem::replace(&mut self.lives[life].failed.0, true) {
            let again = self.lives[life].transport != Transport::Rc && one.fails == Some(c.status);
            return assert!(c.status == Status::Flushed || again, "after a failure: {c:?}");
        }
        assert!(self.may_fail(world, life, &one, c.status), "no reason for {c:?} of {one:?}: {:?}", self.lives[life]);
        self.failed(life);
    }

    /// Whether something was asked for that ends the connection.
    fn may_break(&self, life: usize) -> bool {
        let asks = |record: &usize| {
            let one = &self.records[*record];
            one.fails.is_some() || one.is_shaky || matches!(one.what, What::Receive { room } if room < 8000)
        };
        let one = |life: &Life| {
            life.sends.iter().chain(&life.receives).any(asks)
                || life.srq.is_some() && !self.is_gentle
                || !life.endless_rnr
        };
        let own = &self.lives[life];
        one(own) || own.peer.is_some_and(|peer| one(&self.lives[peer]))
    }

    /// Whether this may be the first failure of a send queue.
    fn may_fail(&self, world: &World, life: usize, one: &Record, status: Status) -> bool {
        let own = &self.lives[life];
        match status {
            Status::Flushed => own.trouble || self.may_break(life),
            Status::RetryExceeded => {
                let peer = own.peer.map(|peer| &self.lives[peer]);
                let now = |peer: &Life| world.adapters[peer.seat as usize].query_qp(peer.qp).map(|(now, _)| now.state);
                own.trouble || peer.is_some_and(|peer| now(peer) == Ok(State::Error as u32))
            }
            Status::RnrRetryExceeded => !own.endless_rnr && one.message().is_some(),
            // Of the receives there may be one that is too short, or has no rights.
            Status::RemoteInvalidRequest | Status::RemoteOperation if one.message().is_some() => {
                let peer = &self.lives[own.peer.expect("connected")];
                peer.srq.is_some()
                    || peer.receives.iter().any(|record| {
                        let one = &self.records[*record];
                        one.fails.is_some() || one.is_shaky || matches!(one.what, What::Receive { room } if room < 8000)
                    })
            }
            _ if one.fails == Some(status) => true,
            Status::LocalProtection | Status::RemoteAccess => one.is_shaky,
            _ => false,
        }
    }

    /// A send request has succeeded: what it asked for is there.
    fn succeeded(&mut self, world: &World, life: usize, record: usize) {
        let one = &mut self.records[record];
        one.is_done = true;
        let one = one.clone();
        // Nobody is told what becomes of an unreliable message.
        let reliable = self.lives[life].transport == Transport::Rc;
        assert!(one.fails.is_none() || !reliable && one.fails != Some(Status::LocalProtection), "{record}: {one:?}");
        if !reliable {
            return;
        }
        let here =
            || one.pieces.iter().flat_map(|(at, len)| world.read(one.seat, *at, *len as usize)).collect::<Bytes>();
        let word = || u64::from_ne_bytes(here().try_into().expect("8 bytes"));
        match &one.what {
            What::Write { to, at, bytes, .. } => {
                assert_eq!(&world.read(*to, *at, bytes.len()), bytes, "what {record} has written");
            }
            What::Read { expected } => assert_eq!(&here(), expected, "what {record} has read"),
            What::Swap { old } => assert_eq!(word(), *old, "the old word of {record}"),
            What::Add { word: place } => {
                let olds = self.olds.entry(*place).or_default();
                assert!(!olds.contains(&word()), "{record}: {} is added to twice", word());
                olds.push(word());
            }
            _ => {}
        }
    }

    /// True if its sender asked for an event.
    fn receive_completed(&mut self, world: &World, life: usize, record: usize, c: &Completion) -> bool {
        let one = self.records[record].clone();
        let What::Receive { room } = one.what else { unreachable!() };
        if self.lives[life].srq.is_none() {
            let all = &mut self.lives[life];
            assert_eq!(all.receives.get(all.received), Some(&record), "receives are not in order: {c:?}");
            all.received += 1;
        }
        if c.status != Status::Success {
            let first = !std::mem::replace(&mut self.lives[life].failed.1, true);
            let why = match c.status {
                Status::Flushed => true,
                Status::LocalProtection => first && (one.fails.is_some() || one.is_shaky),
                Status::LocalLength => first && self.too_long(life, room),
                _ => false,
            };
            assert!(why, "no reason for {c:?} of {one:?}");
            if c.status == Status::Flushed && first {
                assert!(self.lives[life].trouble || self.may_break(life), "flushed without a reason: {c:?}");
            }
            self.failed(life);
            return false;
        }
        assert!(!self.lives[life].failed.1, "after a failure: {c:?}");
        // What is written elsewhere does not use its bytes.
        assert!(one.fails.is_none() || c.opcode != Opcode::Receive, "{c:?} of {one:?}");
        let sender = self.sender(world, life, &one, c);
        self.records[sender].solicited
    }

    fn too_long(&self, life: usize, room: u32) -> bool {
        let peer = self.lives[life].peer.map(|peer| &self.lives[peer].sends[..]);
        let mut all = peer.unwrap_or_default().iter().skip(self.lives[life].taken);
        all.any(|record| self.records[*record].message().is_some_and(|(bytes, _)| bytes.len() as u32 > room))
            || self.lives[life].transport == Transport::Ud
    }

    /// The request that a receive tells of.
    fn sender(&mut self, world: &World, life: usize, one: &Record, c: &Completion) -> usize {
        let room = one.pieces.iter().map(|(_, len)| *len as usize).sum::<usize>();
        let mut bytes: Bytes =
            one.pieces.iter().flat_map(|(at, len)| world.read(one.seat, *at, *len as usize)).collect();
        let imm = (c.flags & flags::WITH_IMM != 0).then_some(c.imm);
        if self.lives[life].transport == Transport::Ud {
            let mine = (self.lives[life].seat, self.lives[life].qp);
            let found = self.records.iter().position(|from| {
                let What::Datagram { bytes: sent, imm: data, to, grh } = &from.what else { return false };
                let its = from.life.map(|life| self.lives[life].qp.0);
                *to == mine
                    && its == Some(c.src_qp)
                    && u32::from(c.slid) == from.seat + 1
                    && *grh == (c.flags & flags::GRH != 0)
                    && *data == imm
                    && sent.len() + 40 == c.byte_len as usize
                    && (bytes.is_empty() || bytes[40..c.byte_len as usize] == sent[..])
            });
            return found.unwrap_or_else(|| panic!("nobody has sent {c:?}"));
        }
        let peer = self.lives[life].peer.expect("connected");
        assert_eq!(c.src_qp, self.lives[peer].qp.0, "{c:?}");
        let reliable = self.lives[life].transport == Transport::Rc;
        let written = c.opcode == Opcode::ReceiveRdmaWithImm;
        while let Some(record) = self.lives[peer].sends.get(self.lives[life].taken).copied() {
            self.lives[life].taken += 1;
            let from = &self.records[record];
            let Some((sent, data)) = from.message() else { continue };
            let fits = sent.len() == c.byte_len as usize
                && data == imm
                && written == matches!(from.what, What::Write { .. })
                && from.fails.is_none();
            // One of the end of a run: nobody looks at its bytes.
            let unseen = one.pieces.is_empty();
            let is_it = fits && (written || unseen || sent.len() <= room && bytes[..sent.len()] == *sent);
            if is_it {
                if unseen && !written {
                    return record;
                }
                if written {
                    let What::Write { to, at, bytes: target, .. } = &from.what else { unreachable!() };
                    assert_eq!(&world.read(*to, *at, target.len()), target, "what {record} has written, as {c:?} says");
                } else {
                    let rest = bytes.split_off(sent.len());
                    assert!(rest.iter().all(|byte| *byte == 0), "{record} writes more than it sends");
                }
                return record;
            }
            assert!(!reliable, "{c:?} is not of {record}: {from:?}, room {room}");
        }
        panic!("nobody has sent {c:?}: {:?}", self.lives[life])
    }

    /// Everything has come to rest, and all completions have been polled.
    pub(crate) fn at_the_end(&self, world: &World, lost: &[u32]) {
        for (number, life) in self.lives.iter().enumerate() {
            if life.is_over || lost.contains(&life.seat) {
                continue;
            }
            let (state, _) = world.adapters[life.seat as usize].query_qp(life.qp).expect("it is there");
            let open = &life.sends[life.sent..];
            let silent = |record: &usize| !self.records[*record].signaled && !life.signal_all;
            assert!(
                open.is_empty() || !(life.failed.0 && life.transport == Transport::Rc) && open.iter().all(silent),
                "{open:?} of {number} never end: state {}, {life:?}, {:?}",
                state.state,
                self.records[open[0]]
            );
            let broken = state.state == State::Error as u32;
            if life.transport == Transport::Rc {
                assert!(!broken || life.trouble || life.sends.is_empty(), "it failed silently: {life:?}");
                assert!(!broken || life.received == life.receives.len(), "receives were not flushed: {life:?}");
            }
            if let Some(peer) = life.peer.map(|peer| &self.lives[peer])
                && life.transport == Transport::Rc
                && !peer.is_over
                && !lost.contains(&peer.seat)
            {
                let told =
                    |record: &&usize| self.records[**record].is_done && self.records[**record].message().is_some();
                // What failed is done, too.
                let done = life.sends.iter().filter(told).count();
                let seen =
                    life.sends[..peer.taken].iter().filter(|one| self.records[**one].message().is_some()).count();
                assert!(life.failed.0 || seen >= done, "{done} messages of {number} are done, {seen} have come");
                let all = life.sends.iter().filter(|one| self.records[**one].message().is_some()).count();
                let well = !life.trouble && !peer.trouble;
                assert!(!well || seen == all, "{all} messages of {number} were sent, {seen} have come");
            }
        }
        assert!(self.owed.is_empty(), "no event came for {:?}", self.owed);
        self.memory(world);
    }

    fn memory(&self, world: &World) {
        for (seat, at, bytes, why) in &self.frozen {
            assert_eq!(&world.read(*seat, *at, bytes.len()), bytes, "written later at {seat}: {why}");
        }
        for (seat, (class, may)) in &self.class {
            let now = world.read(*seat, BASE, BYTES);
            const NEVER: [u8; 64] = [0; 64];
            let same = |from: usize| now[from..][..64] == NEVER && class[from..][..64] == NEVER;
            let blocks = (SOURCE as usize..BYTES).step_by(64).filter(|from| !same(*from));
            let bytes = (0..SOURCE as usize).chain(blocks.flat_map(|from| from..from + 64));
            for (i, byte) in bytes.map(|i| (i, &now[i])) {
                let at = BASE + i as u64;
                let was = if (i as u64) < SOURCE { source(*seat, at) } else { 0 };
                let fits = class[i] == 1 || *byte == was || class[i] == 2 && *byte == may[i];
                assert!(fits, "{byte} at {i:#x} of {seat}, {was} was there");
            }
        }
        for ((seat, at), olds) in &self.olds {
            let word = u64::from_ne_bytes(world.read(*seat, *at, 8).try_into().expect("8 bytes"));
            assert!(olds.iter().all(|old| *old < word) && olds.len() as u64 <= word, "{word}: {olds:?}");
        }
    }
}

trait Number {
    fn qp_number(&self) -> Qp;
}

impl Number for Completion {
    fn qp_number(&self) -> Qp {
        Qp(self.qp)
    }
}
