//! The provider's state, one per process: what is under way, and what arrives.

mod early;
mod idle;
mod names;
mod noted;
pub(crate) mod objects;
mod post;
mod receive;
mod rma;
mod send;
#[cfg(test)]
mod tests;
mod transfer;
mod turns;
mod waits;

pub(crate) use names::Names;
pub(crate) use post::{Receive, Tagged};
pub(crate) use rma::{Access, AtomicCall};
pub(crate) use send::SendCall;
pub(crate) use turns::stand_if_it_is_to;

use crate::abi::constants::errno;
use crate::matching::Source;
use crate::memory::UserMemory;
use crate::slots::Slots;
use crate::wire::{HEAD_MAX, Head, MessageKind, Reader};
use angara::mailbox::{Mailbox, Message, Peer, SendError};
use angara::{Job, Reach};
use angara_protocol::mpi::MpiCosts;
use objects::{Addresses, Counter, Domain, Done, Endpoint, Failed, Fault, Multi, Queue, Side};
use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};
pub(crate) use transfer::Window;
use transfer::{Inbound, Outbound};

/// Result of an operation: an error is a number of libfabric.
pub(crate) type Outcome<T = ()> = std::result::Result<T, i32>;

/// Messages taken at once.
const BATCH: usize = 32;
/// How often it is looked whether peers are still there.
const LOOK: Duration = Duration::from_millis(20);
/// Looks in vain after which one who waits stands still where time is virtual. A library may need some to go on by itself.
const VAIN: u32 = 8;
/// The same of Open MPI, which does at every eighth look what it thinks can wait.
const VAIN_OPEN_MPI: u32 = 32;
/// Set in every process that its launcher starts.
const OPEN_MPI: &str = "OMPI_COMM_WORLD_RANK";
/// The same after it has been told that nothing can happen any more, before it believes that.
const VAIN_AT_LAST: u32 = 200_000;

/// Request of this endpoint to a peer.
pub(crate) struct Request {
    pub(crate) peer: Peer,
    pub(crate) done: Done,
    /// Where the answer goes.
    pub(crate) result: UserMemory,
}

/// State of a peer.
#[derive(Default)]
struct PeerState {
    generation: u32,
    /// Messages that had no room yet.
    out: VecDeque<Box<[u8]>>,
    /// Its process lets this one read its memory; not known yet if none.
    attach: Option<bool>,
    /// Its endpoint that sent last, and that one's number.
    last: Option<(u32, Source)>,
    /// Its endpoints that have sent XOFF.
    xoff: Vec<u32>,
    /// Endpoints of ours that it has been told about.
    told: Vec<u32>,
    /// It has left, and what was under way has been ended.
    lost: bool,
}

/// Numbers of senders.
#[derive(Default)]
pub(crate) struct Sources {
    numbers: HashMap<(Peer, u32), Source>,
    peers: Vec<Peer>,
}

impl Sources {
    pub(crate) fn number(&mut self, peer: Peer, ep: u32) -> Source {
        *self.numbers.entry((peer, ep)).or_insert_with(|| {
            self.peers.push(peer);
            self.peers.len() as Source - 1
        })
    }
    #[inline]
    fn peer(&self, source: Source) -> Option<Peer> {
        self.peers.get(source as usize).copied()
    }
}

pub(crate) struct Provider {
    pub(crate) mailbox: Mailbox,
    pub(crate) state: ProviderState,
}

pub(crate) struct ProviderState {
    pub(crate) job: Arc<Job>,
    pub(crate) me: Peer,
    /// Names the job in addresses.
    pub(crate) job_name: u64,
    pub(crate) eager_max: usize,
    pub(crate) domains: Slots<Domain>,
    pub(crate) eps: Slots<Endpoint>,
    pub(crate) queues: Slots<Queue>,
    pub(crate) counters: Slots<Counter>,
    pub(crate) avs: Slots<Addresses>,
    pub(crate) sources: Sources,
    peers: Vec<PeerState>,
    /// Seats of peers with messages that had no room.
    full: Vec<u32>,
    requests: Slots<Request, u64>,
    outbound: Slots<Outbound, u64>,
    /// Bytes of outbound payloads that are copies of the program's memory ([`transfer::Outbound::copied`]).
    copied: usize,
    inbound: Slots<Inbound, u64>,
    multis: Slots<Multi, u64>,
    names: Names,
    window: Window,
    /// Nothing goes on any more: the job has ended or the adapter has failed.
    pub(crate) broken: Option<String>,
    looked: Instant,
    idle: u32,
    /// Looks in vain within a call that waits, where time is virtual, since something was sent or came, or the library was
    /// told of something but that there is no message.
    pub(crate) vain: u32,
    /// The number of that call.
    vain_in: u32,
    /// It is to stand once it has no lock that other threads need ...
    is_to_stand: bool,
    /// ... which is where it yields, if it does. The number of the last call in which somebody has.
    yields_in: Option<u32>,
    /// [`VAIN`] here.
    vain_most: u32,
    /// Where time is virtual: the next message to be sent has cost what it costs ...
    has_paid: bool,
    /// ... and begins no earlier than this.
    gap_ends: u64,
    /// Nothing can happen any more, it was told, unless this process goes on by itself.
    in_doubt: bool,
    /// A question is being asked, and what it is about may have come already.
    asks: bool,
    /// Nothing comes.
    quiet: Option<waits::Quiet>,
    /// Messages, where they are noted.
    messages: Option<Box<noted::Messages>>,
    /// Looks in vain that sleep, as another program wants this core.
    naps: u32,
    /// [`idle::SPIN`] here.
    spin: u32,
    /// Some peers are reached by the network alone.
    by_ring: bool,
}

impl Provider {
    pub(crate) fn new(job: Arc<Job>, mailbox: Mailbox, job_name: u64, names: Names, window: Window) -> Provider {
        let me = mailbox.me();
        // A machine's parameter where time is virtual, which has not begun yet.
        let limit = MpiCosts::from_env().map_or(usize::MAX, |costs| costs.eager as usize + HEAD_MAX);
        let eager_max = mailbox.message_max().min(limit);
        let peers = (0..job.n_pes()).map(|_| PeerState::default()).collect();
        let by_ring = (0..job.n_pes()).any(|pe| job.ctx().reach(pe) == Reach::Ring);
        // The daemon is one more where it carries messages.
        let busy = job.n_pes() + usize::from(by_ring);
        let crowded = std::thread::available_parallelism().is_ok_and(|cores| busy > cores.get());
        let messages = noted::Messages::begin(&job);
        job.adapter().on_yield(turns::yields);
        let state = ProviderState {
            job,
            me,
            job_name,
            eager_max,
            domains: Slots::new(),
            eps: Slots::new(),
            queues: Slots::new(),
            counters: Slots::new(),
            avs: Slots::new(),
            sources: Sources::default(),
            peers,
            full: Vec::new(),
            requests: Slots::new(),
            outbound: Slots::new(),
            copied: 0,
            inbound: Slots::new(),
            multis: Slots::new(),
            names,
            window,
            broken: None,
            looked: Instant::now(),
            idle: 0,
            vain: 0,
            vain_in: 0,
            is_to_stand: false,
            yields_in: None,
            vain_most: if std::env::var_os(OPEN_MPI).is_some() { VAIN_OPEN_MPI } else { VAIN },
            has_paid: false,
            gap_ends: 0,
            in_doubt: false,
            asks: false,
            quiet: None,
            messages,
            naps: 0,
            spin: idle::SPIN[usize::from(crowded)],
            by_ring,
        };
        Provider { mailbox, state }
    }

    /// Takes what has arrived and sends what had no room. True if something came.
    #[inline]
    pub(crate) fn progress(&mut self) -> bool {
        let Provider { mailbox, state } = self;
        let came = match mailbox.receive(BATCH, &mut |peer, message| {
            (state.vain, state.in_doubt) = (0, false);
            state.arrived(peer, message)
        }) {
            Ok(count) => count > 0,
            Err(e) => {
                state.breaks(&e);
                false
            }
        };
        if !state.full.is_empty() {
            self.flush();
        }
        if came {
            self.state.idle = 0;
            self.state.job.adapter().changes_something();
            if self.state.quiet.is_some() {
                self.state.quiet_is_over();
            }
        } else {
            self.nothing_came();
        }
        came
    }

    /// Where time is virtual: a look in a call that returns only when something comes has found nothing.
    fn waits_in_a_call(&mut self, call: u32) {
        if self.state.vain_in != call {
            // What another call has done, or looked for, counts in that one alone.
            self.state.ends_looks();
            (self.state.vain_in, self.state.vain, self.state.in_doubt) = (call, 0, false);
            self.state.is_to_stand = false;
        }
        self.state.vain += 1;
        let enough = if self.state.in_doubt { VAIN_AT_LAST } else { self.state.vain_most };
        if self.state.vain < enough
            || self.state.asks
            || self.state.queues.iter().any(|(_, queue)| queue.has_something())
        {
            return;
        }
        if self.state.job.adapter().takes_turns() {
            self.state.is_to_stand = true;
            return;
        }
        self.state.vain = 0;
        let Provider { mailbox, state } = self;
        let stood = mailbox.stand(!state.in_doubt, &|| state.what_it_waits_for());
        state.has_stood(stood);
    }

    fn look_after_peers(&mut self) {
        let now = Instant::now();
        if now - self.state.looked < LOOK {
            return;
        }
        self.state.looked = now;
        self.stays_quiet(now);
        let met = self.state.peers.iter().enumerate().filter(|(_, p)| p.generation != 0 && !p.lost);
        let met = met.map(|(seat, p)| Peer { seat: seat as u32, generation: p.generation });
        let gone: Vec<Peer> =
            met.filter(|peer| !self.mailbox.is_there(*peer) && !self.mailbox.is_to_come(*peer)).collect();
        if gone.is_empty() {
            return;
        }
        // Messages sent before a peer left are still received.
        let Provider { mailbox, state } = self;
        while let Ok(1..) = mailbox.receive(BATCH, &mut |peer, message| state.arrived(peer, message)) {}
        gone.into_iter().for_each(|peer| self.state.lose(peer));
    }

    /// Ends what an endpoint has under way: nothing is reported of it, and none of the program's memory is used any more. Peers
    /// learn that what they have under way with it has failed, but still get what was injected: these payloads are returned.
    pub(crate) fn close_endpoint(&mut self, id: u32) -> Vec<u64> {
        let state = &mut self.state;
        let Some(mut ep) = state.eps.remove(id) else { return Vec::new() };
        let closed = Fault::from(errno::ECONNREFUSED);
        state.unpublish(id);
        for request in state.requests.ids(|request| request.done.ep == id) {
            state.requests.remove(request);
        }
        for inbound in state.inbound.ids(|inbound| inbound.ep == id) {
            state.inbound_ends(inbound, closed);
        }
        state.revoke(state.outbound.ids(|rts| rts.ep == id && !rts.is_copy()));
        for multi in state.multis.ids(|multi| multi.ep == id) {
            state.multis.remove(multi);
        }
        let early = std::mem::take(&mut ep.early);
        for incoming in ep.into_waiting() {
            state.give_back(id, &incoming, closed);
        }
        // Nobody is there to take it: its senders are told.
        early.iter().for_each(|(peer, bytes)| state.deal_late(*peer, bytes));
        state.outbound.ids(|rts| rts.ep == id && rts.is_copy())
    }

    /// True if peers may still fetch one of these payloads and are there to do it; those that have been fetched are left out.
    pub(crate) fn keeps(&self, payloads: &mut Vec<u64>) -> bool {
        while payloads.last().is_some_and(|id| self.state.outbound.get(*id).is_none()) {
            payloads.pop();
        }
        !payloads.is_empty()
    }

    /// Ends what peers have under way with memory that is registered no more. True if there was something.
    pub(crate) fn close_region(&mut self, domain: u32, key: u64) -> bool {
        let state = &mut self.state;
        if let Some(domain) = state.domains.get_mut(domain) {
            domain.keys.remove(&key);
        }
        let is_here = |ep: u32| state.eps.get(ep).is_some_and(|ep| ep.domain == domain);
        let inbound = state.inbound.ids(|inbound| is_here(inbound.ep) && inbound.writes_to(key));
        let ids = state.outbound.ids(|rts| is_here(rts.ep) && rts.reads_from(key));
        let has_ended = !inbound.is_empty() || !ids.is_empty();
        inbound.into_iter().for_each(|inbound| state.inbound_ends(inbound, errno::ENOKEY.into()));
        state.revoke(ids);
        has_ended
    }

    /// Messages wait for room.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        !self.state.full.is_empty()
    }

    /// How many do.
    pub(crate) fn unsent(&self) -> usize {
        self.state.full.iter().map(|seat| self.state.peers[*seat as usize].out.len()).sum()
    }

    /// Sleeps, by the library's rule, until something may have come or `limit` has passed.
    pub(crate) fn sleep(&mut self, limit: Duration) {
        if let Err(e) = self.mailbox.wait(limit) {
            self.state.breaks(&e);
        }
        self.look_after_peers();
    }

    fn flush(&mut self) {
        let Provider { mailbox, state } = self;
        for seat in std::mem::take(&mut state.full) {
            let known = &mut state.peers[seat as usize];
            let peer = Peer { seat, generation: known.generation };
            while let Some(message) = known.out.front() {
                match mailbox.try_send(peer, &[IoSlice::new(message)]) {
                    Ok(()) => {}
                    Err(SendError::Full) => break,
                    Err(SendError::Gone | SendError::TooLong { .. }) => {}
                    Err(SendError::Job(e)) => return state.breaks(&e),
                }
                known.out.pop_front();
            }
            if !state.peers[seat as usize].out.is_empty() {
                state.full.push(seat);
            }
        }
    }

    /// Sends now or not at all: `-FI_EAGAIN` if there is no room, or older messages wait for it.
    #[inline]
    fn try_send(&mut self, peer: Peer, head: &Head, body: &[u8], payload: &UserMemory) -> Outcome {
        self.state.meet(peer, false)?;
        if !self.state.peers[peer.seat as usize].out.is_empty() {
            self.progress();
            if !self.state.peers[peer.seat as usize].out.is_empty() {
                return Err(errno::EAGAIN);
            }
        }
        let (head, len) = head.encode();
        let head = IoSlice::new(&head[..len]);
        match payload.one_piece() {
            Some(payload) if body.is_empty() => self.try_parts(peer, &[head, payload]),
            _ => self.try_pieces(peer, head, body, payload),
        }
    }

    #[cold]
    #[inline(never)]
    fn try_pieces(&mut self, peer: Peer, head: IoSlice<'_>, body: &[u8], payload: &UserMemory) -> Outcome {
        let mut parts = [IoSlice::new(&[]); 2 + crate::memory::PIECES];
        let all = [head, IoSlice::new(body)].into_iter().chain(payload.io_slices());
        let count = parts.iter_mut().zip(all).map(|(part, one)| *part = one).count();
        self.try_parts(peer, &parts[..count])
    }

    #[inline]
    fn try_parts(&mut self, peer: Peer, parts: &[IoSlice<'_>]) -> Outcome {
        let mut sent = self.mailbox.try_send(peer, parts);
        if matches!(sent, Err(SendError::Full)) {
            self.progress();
            sent = self.mailbox.try_send(peer, parts);
        }
        match sent {
            Ok(()) => {
                self.state.goes_on();
                Ok(())
            }
            Err(error) => self.not_sent(peer, error),
        }
    }

    #[cold]
    #[inline(never)]
    fn not_sent(&mut self, peer: Peer, error: SendError) -> Outcome {
        match error {
            SendError::Full => Err(errno::EAGAIN),
            SendError::Gone => Err(self.state.why_gone(peer)),
            SendError::TooLong { .. } => Err(errno::EMSGSIZE),
            SendError::Job(e) => {
                self.state.breaks(&e);
                Err(errno::EIO)
            }
        }
    }
}

impl ProviderState {
    /// A stand for a message has ended: something may have come, or not.
    fn has_stood(&mut self, stood: angara::Result<bool>) {
        match stood {
            Err(e @ angara::Error::Deadlock { .. }) => self.waits_in_vain(&e),
            Err(e) => self.breaks(&e),
            Ok(may_come) => self.in_doubt = !may_come,
        }
    }

    /// The library above has something to do, or is told of something, without a message that has come just now.
    #[inline]
    pub(crate) fn goes_on(&mut self) {
        self.job.adapter().changes_something();
        self.ends_looks();
    }

    /// Looks in vain that come after this are counted from 0.
    #[inline]
    fn ends_looks(&mut self) {
        if self.vain > 0 || self.in_doubt {
            self.went_on();
        }
    }

    /// Where time is virtual: a call has gone on by itself after so many looks in vain, or after it stood although it could.
    #[cold]
    #[inline(never)]
    fn went_on(&mut self) {
        let stood = if self.in_doubt { self.vain_most } else { 0 };
        let looks = std::mem::take(&mut self.vain) + stood;
        self.job.adapter().went_on_after(looks, looks <= self.vain_most / 2);
    }

    /// Makes the acquaintance of a peer, or finds that it is not the one who sits there. One that has sent something has
    /// come, whether this host knows of it yet or not.
    #[inline]
    fn meet(&mut self, peer: Peer, has_sent: bool) -> Outcome {
        let known = self.peers.get(peer.seat as usize).ok_or(errno::ECONNREFUSED)?;
        if known.generation == peer.generation && !known.lost {
            return Ok(());
        }
        self.meet_anew(peer, has_sent)
    }

    #[cold]
    #[inline(never)]
    fn meet_anew(&mut self, peer: Peer, has_sent: bool) -> Outcome {
        let known = &self.peers[peer.seat as usize];
        if known.generation >= peer.generation {
            return Err(if known.generation == peer.generation { errno::ENOTCONN } else { errno::ECONNREFUSED });
        }
        let life = self.job.pe_entry(peer.seat as usize).seat.life();
        if let Some(error) = in_the_way(life, peer.generation, self.job.geometry().open, has_sent) {
            return Err(error);
        }
        let known = &self.peers[peer.seat as usize];
        if known.generation != 0 && !known.lost {
            self.lose(Peer { generation: self.peers[peer.seat as usize].generation, ..peer });
        }
        self.peers[peer.seat as usize] = PeerState { generation: peer.generation, ..PeerState::default() };
        Ok(())
    }

    /// Returns what a message to a peer that is not there fails with.
    fn why_gone(&self, peer: Peer) -> i32 {
        let seat = self.job.pe_entry(peer.seat as usize).seat;
        if seat.life() == peer.generation { errno::ENOTCONN } else { errno::ECONNREFUSED }
    }

    /// A message to a peer goes out with the next progress.
    fn post(&mut self, peer: Peer, head: &Head, body: &[u8]) {
        let (bytes, len) = head.encode();
        let Some(known) = self.peers.get_mut(peer.seat as usize).filter(|known| known.generation == peer.generation)
        else {
            return;
        };
        if known.out.is_empty() {
            self.full.push(peer.seat);
        }
        known.out.push_back([&bytes[..len], body].concat().into_boxed_slice());
    }

    /// Where time is virtual: nothing can happen any more. The libraries above would say something else.
    #[cold]
    fn waits_in_vain(&self, error: &angara::Error) -> ! {
        let (me, adapter) = (self.me.seat, self.job.adapter());
        let call = adapter.name_of_call().unwrap_or("MPI");
        let node = self.job.pe_entry(me as usize).node;
        adapter.read_real_clocks();
        // SAFETY: flushes the program's own streams.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        angara_protocol::complain!("angara: PE {me} (node {node}): {call}: {error}");
        adapter.abort(1, &format!("{call} failed"), false);
        // SAFETY: ends the process. What the library does at exit would wait for others.
        unsafe { libc::_exit(1) }
    }

    /// The job has ended, or the adapter has failed.
    fn breaks(&mut self, error: &angara::Error) {
        if self.broken.is_some() {
            return;
        }
        let text = error.to_string();
        crate::log::warn(&text);
        self.broken = Some(text);
        for seat in 0..self.peers.len() as u32 {
            let generation = self.peers[seat as usize].generation;
            if generation != 0 {
                self.lose(Peer { seat, generation });
            }
        }
    }

    /// Ends everything that waits for `peer`, with errors.
    fn lose(&mut self, peer: Peer) {
        crate::log::info(&format!("seat {} generation {} is gone", peer.seat, peer.generation));
        let known = &mut self.peers[peer.seat as usize];
        known.lost = true;
        known.out.clear();
        let left = Fault::io(errno::ENOTCONN);
        for id in self.requests.ids(|request| request.peer == peer) {
            if let Some(request) = self.requests.remove(id) {
                self.end_request(request.done, left);
            }
        }
        for id in self.outbound.ids(|rts| rts.peer == peer) {
            self.withdraw(id, left);
        }
        for id in self.inbound.ids(|inbound| inbound.peer == peer) {
            self.inbound_ends(id, left);
        }
        let theirs: Vec<bool> = self.sources.peers.iter().map(|p| *p == peer).collect();
        for ep in self.eps.ids(|_| true) {
            self.end_receives_from(ep, &theirs);
        }
    }

    fn end_receives_from(&mut self, ep: u32, theirs: &[bool]) {
        for tagged in [false, true] {
            let Some(endpoint) = self.eps.get_mut(ep) else { return };
            let is = |source: Source| theirs.get(source as usize).copied().unwrap_or(false);
            let wait = endpoint.matching(tagged).posted_where(|want, _| want.source.is_some_and(is));
            for at in wait {
                let Some(endpoint) = self.eps.get_mut(ep) else { return };
                let posted = endpoint.matching(tagged).take_posted(at);
                let done = receive::done_of(ep, tagged, &posted, 0);
                self.end(done, errno::ENOTCONN, 0);
            }
        }
    }

    /// Reports the end of an operation.
    #[inline]
    pub(crate) fn end(&mut self, done: Done, fault: impl Into<Fault>, excess: usize) {
        let fault = fault.into();
        match fault.error {
            0 => {
                self.goes_on();
                self.end_well(done);
            }
            _ => self.end_badly(Failed { done, fault, excess }),
        }
    }

    #[inline(always)]
    fn end_well(&mut self, done: Done) {
        let Some((counter, queue)) = self.reports(&done) else { return };
        if let Some(counter) = counter {
            counter.value += 1;
        }
        if let Some(queue) = queue.filter(|_| done.report) {
            queue.ready.push_back(done);
        }
    }

    #[cold]
    #[inline(never)]
    fn end_badly(&mut self, failed: Failed) {
        let Some((counter, queue)) = self.reports(&failed.done) else { return };
        if let Some(counter) = counter {
            counter.errors += 1;
        }
        if let Some(queue) = queue {
            queue.failed.push_back(failed);
        }
    }

    /// Returns what learns of the end of an operation.
    #[inline(always)]
    fn reports(&mut self, done: &Done) -> Option<(Option<&mut Counter>, Option<&mut Queue>)> {
        let ep = self.eps.get(done.ep)?;
        let binding = match done.side {
            Side::Send | Side::Read | Side::Write => ep.tx,
            Side::Recv | Side::RemoteRead | Side::RemoteWrite => ep.rx,
        };
        let counter = ep.counters[done.side as usize].and_then(|id| self.counters.get_mut(id));
        Some((counter, binding.and_then(|binding| self.queues.get_mut(binding.queue))))
    }

    /// A request has ended.
    fn end_request(&mut self, done: Done, fault: impl Into<Fault>) {
        if done.side != Side::Send
            && let Some(ep) = self.eps.get_mut(done.ep)
        {
            ep.accesses -= 1;
        }
        self.end(done, fault, 0);
    }

    pub(crate) fn is_direct(&self, peer: Peer) -> bool {
        self.job.ctx().reach(peer.seat as usize) == Reach::Direct
    }

    /// A message from the network. What makes no sense is dropped; its sender gets no answer.
    #[inline]
    fn arrived(&mut self, peer: Peer, message: &Message<'_>) {
        if self.meet(peer, true).is_ok() {
            self.deal(peer, message);
        }
    }

    /// A message of a peer that is known, or was when it came.
    #[inline(always)]
    fn deal(&mut self, peer: Peer, message: &Message<'_>) {
        let mut front = [0; HEAD_MAX];
        let front = &mut front[..message.len().min(HEAD_MAX)];
        message.copy(0, front);
        let Some((head, len)) = Head::decode(front) else {
            return crate::log::warn(&format!("seat {} sends nonsense", peer.seat));
        };
        let understood = match head.kind {
            MessageKind::Send => {
                self.message(peer, &head, message, len);
                Some(())
            }
            _ => self.other(peer, &head, message, len),
        };
        if understood.is_none() {
            crate::log::warn(&format!("seat {} sends {:?} that makes no sense", peer.seat, head.kind));
        }
    }

    /// Everything but messages with their payload.
    #[cold]
    fn other(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) -> Option<()> {
        if head.kind.is_for_endpoint() && self.is_too_early(head) && self.hold(peer, head, message) {
            return Some(());
        }
        match head.kind {
            MessageKind::Send => None,
            MessageKind::SendRts => self.on_send_rts(peer, head, message, at),
            MessageKind::Done => self.request_done(peer, head, message, at),
            MessageKind::Cts => self.on_cts(peer, head, message, at),
            MessageKind::Fragment => self.on_fragment(peer, head, message, at),
            MessageKind::FragmentDone => self.on_fragment_done(peer, head),
            MessageKind::Fin => self.on_fin(peer, head, message, at),
            MessageKind::Write => self.write_came(peer, head, message, at),
            MessageKind::WriteRts => self.on_write_rts(peer, head, message, at),
            MessageKind::Read => self.read_came(peer, head, message, at),
            MessageKind::Reply => self.reply_came(peer, head, message, at),
            MessageKind::ReplyRts => self.on_reply_rts(peer, head, message, at),
            MessageKind::Atomic => self.atomic_came(peer, head, message, at),
            MessageKind::Revoked => self.revoked(peer, head, message, at),
            MessageKind::Xoff => {
                let xoff = &mut self.peers[peer.seat as usize].xoff;
                if !xoff.contains(&head.src) && xoff.len() < 1024 {
                    xoff.push(head.src);
                }
                Some(())
            }
            MessageKind::Xon => {
                self.peers[peer.seat as usize].xoff.retain(|ep| *ep != head.src);
                Some(())
            }
        }
    }
}

/// Why nothing can be sent to, or taken from, the generation of a seat whose life is `life` as far as this host knows.
fn in_the_way(life: u32, generation: u32, open: bool, has_sent: bool) -> Option<i32> {
    let to_come = open && life < generation;
    match life == generation || to_come && has_sent {
        true => None,
        // It is waited for.
        false if to_come => Some(errno::EAGAIN),
        false => Some(errno::ECONNREFUSED),
    }
}

/// How something has ended, as a message says behind its head.
fn fault_of(message: &Message<'_>, at: usize) -> Option<Fault> {
    let mut bytes = [0; 8];
    let bytes = &mut bytes[..message.len().saturating_sub(at).min(8)];
    message.copy(at, bytes);
    Fault::decode(&mut Reader(bytes))
}
