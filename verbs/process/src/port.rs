//! The network of an adapter: a seat in a domain.

use crate::copies;
use crate::memory::store_last;
use crate::settings::MemoryTier;
use crate::tables::{self, Identity, LISTENERS_MAX, Tables};
use angara::mailbox::{Mailbox, SendError};
use angara::{Amo, AmoOp, Class, Error, Job, Place, Reach, Region as Memory};
use angara_abi::{copy, csr};
use angara_hca::{Atomic, Copied, Copies, Errno, Network, NotSent, Peer, Piece, PublicPair, Region, RemoteAccess};
use angara_registered::{Area, offset_in};
use smallvec::SmallVec;
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
struct Known {
    generation: u32,
    /// Nothing if it is reached by messages only.
    way: Option<Way>,
}

/// How this process copies from and to a peer's memory.
#[derive(Clone, Copy)]
struct Way {
    tables: Tables,
    /// Its number, if the kernel copies between the two processes.
    pid: Option<i32>,
    /// Its area for registered memory, in its own process: address and bytes.
    area: (u64, u64),
}

impl Way {
    /// Where in the peer's area `len` bytes at `at` of its memory are.
    fn offset(&self, at: u64, len: u64) -> Option<u64> {
        offset_in(self.area, at, len)
    }
    /// The same for pieces, each with its place in the area for an address; nothing unless all are there.
    fn offsets(&self, pieces: &[Piece]) -> Option<SmallVec<[Piece; 4]>> {
        pieces.iter().map(|piece| Some(Piece { at: self.offset(piece.at, piece.len)?, len: piece.len })).collect()
    }
}

/// The part of this seat that is for registered memory, if there is one.
fn area_of(job: &Job) -> Result<Option<Area>, String> {
    let (place, len) = job.registered();
    let Some((fd, first)) = job.heap_fd().filter(|_| len > 0) else { return Ok(None) };
    let fd = fd.try_clone_to_owned().map_err(|e| format!("no descriptor for registered memory: {e}"))?;
    // SAFETY: what of the seat is for this, and for nothing else. It is mapped as long as the job, which an adapter keeps for good.
    unsafe { Area::new(job.local(place), len, fd, first + place.offset) }.map(Some).map_err(|e| e.to_string())
}

/// An adapter's place in its domain.
pub struct Port {
    job: Arc<Job>,
    mailbox: Mailbox,
    own: Tables,
    /// Where the tables begin in every seat's heap.
    tables_at: u64,
    memory: MemoryTier,
    /// This seat's area for registered memory, and where areas begin in every seat's heap.
    area: (Option<Area>, u64),
    /// The lane of this adapter, and who is where.
    lane: u32,
    seats: HashMap<(u32, u32), u32>,
    reach: Vec<Option<Known>>,
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
    /// Bytes behind it for registered memory. Only addresses: what is registered counts as the program's. Ours.
    pub(crate) const AREA: usize = 64 << 30;

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
        let area = match memory {
            MemoryTier::Auto | MemoryTier::Remap => area_of(&job)?,
            MemoryTier::Agent | MemoryTier::Direct => None,
        };
        let own = Tables::own(&job, tables_at);
        let me = mail.me();
        let mut word = [0; 8];
        rustix::rand::getrandom(&mut word, rustix::rand::GetRandomFlags::empty())
            .map_err(|e| format!("no random numbers: {e}"))?;
        // Of all adapters of a process one word: whichever is first.
        let _ = PROOF.compare_exchange(0, u64::from_ne_bytes(word) | 1, Ordering::AcqRel, Ordering::Acquire);
        let proof = ((&raw const PROOF) as u64, PROOF.load(Ordering::Acquire));
        let area_here = area.map_or((0, 0), |area| (area.base() as u64, area.len() as u64));
        own.say_who(Identity {
            // A generation of 0 would say that nobody is there.
            generation: u64::from(me.generation) + 1,
            pid: std::process::id().into(),
            proof,
            area: area_here,
        });
        Ok(Port {
            own,
            tables_at,
            memory,
            area: (area, job.registered().0.offset),
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
    /// This seat's area for registered memory.
    pub(crate) fn area(&self) -> Option<Area> {
        self.area.0
    }
    /// What processes here may copy from and to each other's memory at all: what this one may from and to its own.
    pub(crate) fn copies_anywhere(&mut self) -> Copies {
        let me = self.me();
        self.copies(me)
    }

    fn way_to(&mut self, peer: Peer) -> Option<Way> {
        if self.memory == MemoryTier::Agent {
            return None;
        }
        let seat = peer.seat as usize;
        match self.reach.get(seat)? {
            Some(reach) if reach.generation == peer.generation => return reach.way,
            _ => {}
        }
        let tables = Tables::of(&self.job, seat, self.tables_at)?;
        let who = tables.who();
        if who.generation != u64::from(peer.generation) + 1 {
            // It has not said yet, or is on another host.
            return None;
        }
        let by_kernel = || {
            let pid = i32::try_from(who.pid).ok()?;
            let mut word = [0; 8];
            copies::read(pid, who.proof.0, &mut word).ok()?;
            (who.proof.1 != 0 && u64::from_ne_bytes(word) == who.proof.1).then_some(pid)
        };
        // What has to go through the network does not go past it.
        let pid = if self.job.ctx().reach(seat) == Reach::Direct { by_kernel() } else { None };
        let way = Way { tables, pid, area: who.area };
        let way = (pid.is_some() || self.area.0.is_some() && who.area.1 > 0).then_some(way);
        self.reach[seat] = Some(Known { generation: peer.generation, way });
        way
    }

    /// Where a byte of a peer's area is for the driver.
    fn place(&self, offset: u64) -> Place {
        Place { region: Memory::Heap, offset: self.area.1 + offset }
    }
    /// The same in this process, if stores go there past the network. Nobody is told of them: whoever looks at registered
    /// memory looks by himself.
    fn mapped(&self, seat: usize, offset: u64) -> Option<*mut u8> {
        match self.job.ctx().reach(seat) {
            Reach::Direct => self.job.mapped(self.place(offset), seat),
            Reach::Ring | Reach::Unreachable => None,
        }
    }

    /// Writes pieces of this process to a peer's area, whose last byte changes last.
    fn put(&self, seat: usize, mut offset: u64, own: &[Piece]) -> angara::Result<()> {
        let ctx = self.job.ctx();
        for piece in own {
            let (from, len) = (std::ptr::with_exposed_provenance::<u8>(piece.at as usize), piece.len as usize);
            // SAFETY: this side's bytes are in the area, or the adapter's own, as the caller has found; so has he the other side's,
            // and the driver checks them where it writes.
            unsafe {
                match self.mapped(seat, offset) {
                    Some(to) => {
                        store_last(to, from, len);
                        ctx.count_copy(Class::Put, seat, len);
                    }
                    // Packets arrive in order.
                    None => ctx.put(Class::Put, seat, self.place(offset), from, len)?,
                }
            }
            offset += piece.len;
        }
        if self.mapped(seat, 0).is_some() { Ok(()) } else { ctx.quiet_pe(seat) }
    }

    /// Reads pieces of a peer's area, each with its place there for an address, into pieces of this process, which have as
    /// many bytes.
    fn get(&self, seat: usize, theirs: &[Piece], own: &[Piece]) -> angara::Result<()> {
        let (mut theirs, ctx) = (theirs.iter(), self.job.ctx());
        let mut from = Piece { at: 0, len: 0 };
        for piece in own {
            let mut done = 0;
            while done < piece.len {
                if from.len == 0 {
                    let Some(next) = theirs.next() else { return Ok(()) };
                    from = *next;
                    continue;
                }
                let len = from.len.min(piece.len - done);
                let to = std::ptr::with_exposed_provenance_mut::<u8>((piece.at + done) as usize);
                // SAFETY: as in `put`.
                unsafe {
                    match self.mapped(seat, from.at) {
                        Some(at) => {
                            copy::load(to, at, len as usize);
                            ctx.count_copy(Class::Get, seat, len as usize);
                        }
                        None => ctx.get(Class::Get, seat, to, self.place(from.at), len as usize)?,
                    }
                }
                from = Piece { at: from.at + len, len: from.len - len };
                done += len;
            }
        }
        Ok(())
    }

    /// Changes a word of a peer's area.
    fn amo(&self, seat: usize, offset: u64, atomic: Atomic) -> angara::Result<u64> {
        if let Some(word) = self.mapped(seat, offset) {
            // SAFETY: a word of the peer's area, as the caller has found; all who change it do so by atomics.
            let word = unsafe { AtomicU64::from_ptr(word.cast()) };
            self.job.ctx().count_copy(Class::Amo, seat, 8);
            return Ok(match atomic {
                Atomic::Add(add) => word.fetch_add(add, Ordering::AcqRel),
                Atomic::Swap { compare, swap } => {
                    let swapped = word.compare_exchange(compare, swap, Ordering::AcqRel, Ordering::Acquire);
                    swapped.unwrap_or_else(|old| old)
                }
            });
        }
        let (op, operand, comparand) = match atomic {
            Atomic::Add(add) => (AmoOp::Add, add, 0),
            Atomic::Swap { compare, swap } => (AmoOp::CompareSwap, swap, compare),
        };
        let amo = Amo { op, width: 8, operand, comparand, fetch: true };
        self.job.ctx().amo(Class::Amo, seat, self.place(offset), amo)
    }

    /// True if all pieces are in this seat's area.
    fn has(&self, own: &[Piece]) -> bool {
        let has = |piece: &Piece| self.area.0.is_some_and(|area| area.offset(piece.at, piece.len).is_some());
        own.iter().all(has)
    }

    /// What a copy comes to, once the target's tables are known to allow it.
    fn carry(&mut self, way: &Way, at: &RemoteAccess, place: u64, own: &[Piece]) -> Copied {
        let is_own = at.inline || self.has(own);
        let seat = at.peer.seat as usize;
        match (way.offset(place, at.len).filter(|_| is_own), way.pid) {
            (Some(offset), _) => {
                let done = match at.writes() {
                    true => self.put(seat, offset, own),
                    false => self.get(seat, &[Piece { at: offset, len: at.len }], own),
                };
                match done {
                    Ok(()) => Copied::Done,
                    Err(error) => self.not_copied(&error),
                }
            }
            (None, Some(pid)) => match copies::copy_ending(pid, place, own, at.writes()) {
                Ok(()) => {
                    let class = if at.writes() { Class::Put } else { Class::Get };
                    self.job.ctx().count_copy(class, at.peer.seat as usize, at.len as usize);
                    Copied::Done
                }
                Err(_) => Copied::Fault,
            },
            (None, None) => Copied::NotHere,
        }
    }

    /// Messages find out what becomes of a peer that the network does not reach.
    fn not_copied(&mut self, error: &Error) -> Copied {
        let _ = self.failed(error);
        Copied::NotHere
    }

    /// Says that this process uses what an access names, and looks whether that is still there, and allowed: then it stays until
    /// [`Tables::use_nothing`].
    fn begin(&self, way: &Way, at: &RemoteAccess) -> Option<u64> {
        self.own.use_of(at.peer.seat, at.key, at.pair);
        let me = (self.me(), at.from);
        let pair =
            way.tables.pair(at.pair).filter(|pair| (pair.peer, pair.with) == me && pair.access & at.need != 0)?;
        let place = way.tables.region(at.key)?.find(pair.pd, at.at, at.len, at.need)?;
        Some(place).filter(|_| self.is_there(at.peer))
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
        let _ = self.job.ctx().amo(Class::Put, self.job.my_pe(), Place { region: Memory::Heap, offset }, swap);
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
        let place = Place { region: Memory::Heap, offset: self.tables_at + Tables::LISTENERS_AT };
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

    fn copies(&mut self, peer: Peer) -> Copies {
        match self.way_to(peer) {
            None => Copies::Nothing,
            Some(Way { pid: None, .. }) => Copies::Registered,
            Some(_) => Copies::All,
        }
    }
    fn copy(&mut self, at: &RemoteAccess, own: &[Piece]) -> Copied {
        let Some(way) = self.way_to(at.peer) else { return Copied::NotHere };
        let copied = match self.begin(&way, at) {
            None => Copied::Refused,
            Some(place) => self.carry(&way, at, place, own),
        };
        self.own.use_nothing();
        if copied == Copied::Done {
            let port = &mut self.counters;
            if at.writes() { port.sent.add(at.len) } else { port.received.add(at.len) }
        }
        copied
    }
    fn update(&mut self, at: &RemoteAccess, atomic: Atomic) -> Result<u64, Copied> {
        let way = self.way_to(at.peer).ok_or(Copied::NotHere)?;
        let place = self.begin(&way, at);
        let done = place.ok_or(Copied::Refused).and_then(|place| {
            let offset = way.offset(place, 8).filter(|offset| offset.is_multiple_of(8)).ok_or(Copied::NotHere)?;
            self.amo(at.peer.seat as usize, offset, atomic).map_err(|error| self.not_copied(&error))
        });
        self.own.use_nothing();
        if done.is_ok() {
            self.counters.sent.add(at.len);
            self.counters.received.add(at.len);
        }
        done
    }
    fn fetch(&mut self, from: Peer, pieces: &[Piece], own: &[Piece]) -> Copied {
        let Some(way) = self.way_to(from) else { return Copied::NotHere };
        let len = own.iter().map(|piece| piece.len).sum();
        if let Some(theirs) = way.offsets(pieces).filter(|_| self.has(own)) {
            if let Err(error) = self.get(from.seat as usize, &theirs, own) {
                return self.not_copied(&error);
            }
        } else {
            let Some(pid) = way.pid else { return Copied::NotHere };
            if copies::copy(pid, pieces, own, false).is_err() {
                return Copied::Fault;
            }
            self.job.ctx().count_copy(Class::Get, from.seat as usize, len as usize);
        }
        self.counters.received.add(len);
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
        if self.copies_anywhere() != Copies::Nothing {
            let me = self.me().seat;
            self.wait_for_copies(|tables| tables.uses_region(me, key));
        }
    }
    fn publish_pair(&mut self, pair: &PublicPair) {
        self.own.say_pair(pair);
    }
    fn withdraw_pair(&mut self, number: u32) {
        self.own.take_pair(number);
        if self.copies_anywhere() != Copies::Nothing {
            let me = self.me().seat;
            self.wait_for_copies(|tables| tables.uses_pair(me, number));
        }
    }
}
