//! The network of an adapter: a seat in a domain.

use crate::copies;
use crate::settings::MemoryTier;
use crate::tables::{self, Identity, LISTENERS_MAX, Tables};
use angara::mailbox::{Mailbox, SendError};
use angara::{Amo, AmoOp, Class, Error, Job, Place, Region as Area};
use angara_abi::csr;
use angara_hca::{Copied, Errno, Network, NotSent, Peer, Piece, PublicPair, Region, RemoteAccess, access};
use std::collections::HashMap;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A word that nobody else has: whoever reads it at a process knows that it is this one.
static PROOF: AtomicU64 = AtomicU64::new(0);
/// How long to wait at first for those who copy, and at most, between two looks.
const NAP: Duration = Duration::from_micros(20);
const NAP_MOST: Duration = Duration::from_millis(5);

/// A port of a connection manager.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Listener {
    /// Port space: the lower bits of `enum rdma_port_space`.
    pub space: u16,
    /// Port.
    pub port: u16,
}

impl Listener {
    fn word(self) -> u64 {
        u64::from(self.space) << 32 | u64::from(self.port) << 16 | 1
    }
}

/// What went through a port one way.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Traffic {
    /// Packets of the network, or as many as it would have taken.
    pub packets: u64,
    /// Bytes of messages and copies.
    pub bytes: u64,
}

impl Traffic {
    fn add(&mut self, bytes: u64) {
        self.packets += bytes.div_ceil(angara_abi::PAYLOAD_MAX as u64).max(1);
        self.bytes += bytes;
    }
}

/// What this process has sent and received.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PortCounters {
    /// Sent, or written to peers.
    pub sent: Traffic,
    /// Received, or read from peers.
    pub received: Traffic,
}

/// How a peer's memory is reached.
#[derive(Clone, Copy)]
struct Reach {
    generation: u32,
    /// Its tables and number, if this process may copy there.
    direct: Option<(Tables, i32)>,
}

/// An adapter's place in its domain.
pub struct Port {
    job: Arc<Job>,
    mailbox: Mailbox,
    own: Tables,
    /// Where the tables begin in every seat's heap.
    tables_at: u64,
    memory: MemoryTier,
    /// The lane of this adapter, and who is where.
    lane: u32,
    seats: HashMap<(u32, u32), u32>,
    reach: Vec<Option<Reach>>,
    listeners: [Option<Listener>; LISTENERS_MAX],
    began: Instant,
    counters: PortCounters,
    /// A message that has come.
    message: Vec<u8>,
    /// The job has ended, or the daemon has.
    is_over: bool,
}

impl Port {
    /// Bytes of a seat's memory, whatever the number of seats: mailbox and tables. Only what is used takes memory.
    pub(crate) const SEAT: usize = 96 << 20;

    pub(crate) fn open(job: Arc<Job>, memory: MemoryTier) -> Result<Port, String> {
        let mailbox = Mailbox::bytes(job.n_pes()).next_multiple_of(angara_abi::PAGE);
        let bytes = mailbox + tables::BYTES as usize;
        let at = job.locate(job.heap(), bytes).ok_or_else(|| {
            let here = job.heap_len() >> 20;
            format!(
                "seats here have {here} MiB, an adapter needs {0}: start with --heap {0}M or more, or use a domain of its \
                 own (ANGARA_DOMAIN)",
                bytes.div_ceil(1 << 20)
            )
        })?;
        let mail = Mailbox::open(job.clone(), at).map_err(|e| e.to_string())?;
        let tables_at = at.offset + mailbox as u64;
        let mut seats = HashMap::new();
        let mut lanes: HashMap<u32, u32> = HashMap::new();
        let mut lane = 0;
        for seat in 0..job.n_pes() {
            let node = job.pe_entry(seat).node;
            let next = lanes.entry(node).or_default();
            if seat == job.my_pe() {
                lane = *next;
            }
            seats.insert((node, *next), seat as u32);
            *next += 1;
        }
        if lane >= 1 << angara_hca::address::LANE_BITS {
            return Err(format!(
                "this is adapter {lane} of its node: {} have addresses",
                1 << angara_hca::address::LANE_BITS
            ));
        }
        let own = Tables::own(&job, tables_at);
        let me = mail.me();
        let mut word = [0; 8];
        rustix::rand::getrandom(&mut word, rustix::rand::GetRandomFlags::empty())
            .map_err(|e| format!("no random numbers: {e}"))?;
        // Of all adapters of a process one word: whichever is first.
        let _ = PROOF.compare_exchange(0, u64::from_ne_bytes(word) | 1, Ordering::AcqRel, Ordering::Acquire);
        let proof = ((&raw const PROOF) as u64, PROOF.load(Ordering::Acquire));
        own.say_who(Identity { generation: me.generation.into(), pid: std::process::id().into(), proof });
        Ok(Port {
            own,
            tables_at,
            memory,
            lane,
            seats,
            reach: vec![None; job.n_pes()],
            listeners: [None; LISTENERS_MAX],
            began: Instant::now(),
            counters: PortCounters::default(),
            message: Vec::new(),
            is_over: false,
            mailbox: mail,
            job,
        })
    }

    /// What this process has sent and received.
    pub fn counters(&self) -> PortCounters {
        self.counters
    }
    /// The domain.
    pub fn job(&self) -> &Arc<Job> {
        &self.job
    }
    pub(crate) fn end(&mut self) {
        self.is_over = true;
    }
    /// True if processes here may copy from and to each other's memory at all: if this one may from and to its own.
    pub(crate) fn copies_anywhere(&mut self) -> bool {
        let me = self.me();
        self.copies(me)
    }

    fn tables_of(&mut self, peer: Peer) -> Option<(Tables, i32)> {
        if self.memory == MemoryTier::Agent {
            return None;
        }
        let seat = peer.seat as usize;
        match self.reach.get(seat)? {
            Some(reach) if reach.generation == peer.generation => return reach.direct,
            _ => {}
        }
        let tables = Tables::of(&self.job, seat, self.tables_at);
        let who = tables.map(|tables| tables.who());
        if who.is_some_and(|who| who.generation != u64::from(peer.generation)) {
            // It has not said yet.
            return None;
        }
        let direct = tables.zip(who).and_then(|(tables, who)| {
            let pid = i32::try_from(who.pid).ok()?;
            let mut word = [0; 8];
            copies::read(pid, who.proof.0, &mut word).ok()?;
            (who.proof.1 != 0 && u64::from_ne_bytes(word) == who.proof.1).then_some((tables, pid))
        });
        self.reach[seat] = Some(Reach { generation: peer.generation, direct });
        direct
    }

    /// Waits until no process copies at what `uses` says.
    fn wait_for_copies(&mut self, uses: impl Fn(&Tables) -> bool) {
        for seat in 0..self.job.n_pes() {
            let mut nap = NAP;
            let is_used = |port: &Port| {
                port.job.pe_entry(seat).seat.taken()
                    && Tables::of(&port.job, seat, port.tables_at).is_some_and(|tables| uses(&tables))
            };
            while seat != self.job.my_pe() && is_used(self) {
                std::thread::sleep(nap);
                nap = (2 * nap).min(NAP_MOST);
            }
        }
    }

    /// Opens a port of a connection manager. `EADDRINUSE`: this adapter has it already. `ENOMEM`: too many are open.
    pub fn listen(&mut self, listener: Listener) -> Result<(), Errno> {
        if self.listeners.contains(&Some(listener)) {
            return Err(Errno::ADDRINUSE);
        }
        let free = self.listeners.iter().position(Option::is_none).ok_or(Errno::NOMEM)?;
        self.listeners[free] = Some(listener);
        self.write_listener(free, listener.word());
        Ok(())
    }
    /// Closes it.
    pub fn stop_listening(&mut self, listener: Listener) {
        if let Some(at) = self.listeners.iter().position(|one| *one == Some(listener)) {
            self.listeners[at] = None;
            self.write_listener(at, 0);
        }
    }
    fn write_listener(&self, at: usize, word: u64) {
        let swap = Amo { op: AmoOp::Swap, width: 8, operand: word, comparand: 0, fetch: false };
        let offset = self.tables_at + Tables::LISTENERS_AT + 8 * at as u64;
        // An adapter whose job has ended has no listeners.
        let _ = self.job.ctx().amo(Class::Put, self.job.my_pe(), Place { region: Area::Heap, offset }, swap);
        let _ = self.job.ctx().quiet();
    }
    /// The adapter that has this port open, of those at `node`, or of all; this one first, then by seat.
    pub fn find_listener(&self, listener: Listener, node: Option<u32>) -> Option<Peer> {
        let me = self.job.my_pe();
        let others = (0..self.job.n_pes()).filter(|seat| *seat != me);
        let mut seats = std::iter::once(me).chain(others);
        let seat = seats.find(|seat| {
            let entry = self.job.pe_entry(*seat);
            entry.seat.taken() && node.is_none_or(|node| node == entry.node) && self.listens(*seat, listener)
        })?;
        Some(self.peer(seat))
    }
    fn listens(&self, seat: usize, listener: Listener) -> bool {
        let mut words = [0u64; LISTENERS_MAX];
        let place = Place { region: Area::Heap, offset: self.tables_at + Tables::LISTENERS_AT };
        // SAFETY: the array has as many bytes.
        let got =
            unsafe { self.job.ctx().get(Class::Get, seat, words.as_mut_ptr().cast(), place, size_of_val(&words)) };
        got.is_ok() && words.contains(&listener.word())
    }

    fn peer(&self, seat: usize) -> Peer {
        let peer = self.mailbox.peer(seat);
        Peer { seat: peer.seat, generation: peer.generation }
    }
    /// The node that a peer is at.
    pub fn node_of(&self, peer: Peer) -> u32 {
        self.job.pe_entry((peer.seat as usize).min(self.job.n_pes() - 1)).node
    }

    fn failed(&mut self, error: &Error) -> NotSent {
        if !matches!(error, Error::Unreachable { .. }) {
            self.is_over = true;
        }
        NotSent::Gone
    }
}

impl Network for Port {
    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }
    fn me(&self) -> Peer {
        let me = self.mailbox.me();
        Peer { seat: me.seat, generation: me.generation }
    }
    fn node(&self) -> u32 {
        self.job.pe_entry(self.job.my_pe()).node
    }
    fn lane(&self) -> u32 {
        self.lane
    }
    fn nodes(&self) -> u32 {
        self.job.geometry().shape.nodes() as u32
    }
    fn find(&self, node: u32, lane: u32) -> Option<Peer> {
        let seat = *self.seats.get(&(node, lane))? as usize;
        self.job.pe_entry(seat).seat.taken().then(|| self.peer(seat))
    }
    fn is_there(&self, peer: Peer) -> bool {
        !self.is_over && self.mailbox.is_there(angara::mailbox::Peer { seat: peer.seat, generation: peer.generation })
    }
    fn is_up(&self) -> bool {
        !self.is_over && self.job.adapter().csr_read(csr::STATUS).is_ok_and(|status| status == 1)
    }
    fn message_max(&self) -> usize {
        self.mailbox.message_max()
    }
    fn send(&mut self, to: Peer, parts: &[&[u8]]) -> Result<(), NotSent> {
        if self.is_over {
            return Err(NotSent::Gone);
        }
        let to = angara::mailbox::Peer { seat: to.seat, generation: to.generation };
        let sent = match *parts {
            [one] | [one, []] => self.mailbox.try_send(to, &[IoSlice::new(one)]),
            [one, two] => self.mailbox.try_send(to, &[IoSlice::new(one), IoSlice::new(two)]),
            _ => self.mailbox.try_send(to, &[IoSlice::new(&parts.concat())]),
        };
        match sent {
            Ok(()) => {
                self.counters.sent.add(parts.iter().map(|part| part.len() as u64).sum());
                Ok(())
            }
            Err(SendError::Full) => Err(NotSent::Full),
            Err(SendError::Job(error)) => Err(self.failed(&error)),
            Err(SendError::Gone | SendError::TooLong { .. }) => Err(NotSent::Gone),
        }
    }
    fn receive(&mut self, most: usize, take: &mut dyn FnMut(Peer, &[u8])) -> usize {
        if self.is_over {
            return 0;
        }
        let (bytes, received) = (&mut self.message, &mut self.counters.received);
        let took = self.mailbox.receive(most, &mut |from, message| {
            bytes.resize(message.len(), 0);
            message.copy(0, bytes);
            received.add(bytes.len() as u64);
            take(Peer { seat: from.seat, generation: from.generation }, bytes);
        });
        match took {
            Ok(took) => took,
            Err(error) => {
                self.failed(&error);
                0
            }
        }
    }

    fn copies(&mut self, peer: Peer) -> bool {
        self.tables_of(peer).is_some()
    }
    fn copy(&mut self, at: &RemoteAccess, own: &[Piece]) -> Copied {
        let Some((tables, pid)) = self.tables_of(at.peer) else { return Copied::NotHere };
        self.own.use_of(at.peer.seat, at.key, at.pair);
        let need = if at.writes { access::REMOTE_WRITE } else { access::REMOTE_READ };
        let me = (self.me(), at.from);
        let pair = tables.pair(at.pair).filter(|pair| (pair.peer, pair.with) == me && pair.access & need != 0);
        let place = pair.and_then(|pair| tables.region(at.key)?.find(pair.pd, at.at, at.len, need));
        let copied = match place.filter(|_| self.is_there(at.peer)) {
            None => Copied::Refused,
            Some(place) => match copies::copy_ending(pid, place, own, at.writes) {
                Ok(()) => Copied::Done,
                Err(_) => Copied::Fault,
            },
        };
        self.own.use_nothing();
        if copied == Copied::Done {
            let (port, class) = match at.writes {
                true => (&mut self.counters.sent, Class::Put),
                false => (&mut self.counters.received, Class::Get),
            };
            port.add(at.len);
            self.job.ctx().count_copy(class, at.peer.seat as usize, at.len as usize);
        }
        copied
    }
    fn fetch(&mut self, from: Peer, pieces: &[Piece], own: &[Piece]) -> Copied {
        let Some((_, pid)) = self.tables_of(from) else { return Copied::NotHere };
        let copied = copies::copy(pid, pieces, own, false);
        if copied.is_err() {
            return Copied::Fault;
        }
        let len = own.iter().map(|piece| piece.len).sum();
        self.counters.received.add(len);
        self.job.ctx().count_copy(Class::Get, from.seat as usize, len as usize);
        Copied::Done
    }
    fn has_place(&self, key: u32) -> bool {
        self.own.has_place(key)
    }
    fn publish_region(&mut self, region: &Region) {
        self.own.say_region(region);
    }
    fn withdraw_region(&mut self, key: u32) {
        self.own.take_region(key);
        if self.copies_anywhere() {
            let me = self.me().seat;
            self.wait_for_copies(|tables| tables.uses_region(me, key));
        }
    }
    fn publish_pair(&mut self, pair: &PublicPair) {
        self.own.say_pair(pair);
    }
    fn withdraw_pair(&mut self, number: u32) {
        self.own.take_pair(number);
        if self.copies_anywhere() {
            let me = self.me().seat;
            self.wait_for_copies(|tables| tables.uses_pair(me, number));
        }
    }
}
