//! Adapters at a network that is a list of messages, in one thread: every order of events is a choice of a seed.

use angara_hca::address::lane_of;
use angara_hca::*;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// Bytes of a message: few, so that payloads have several parts.
const MESSAGE_MAX: usize = 256;
/// Messages that wait between two adapters at most.
const RING: usize = 8;
/// Bytes that a process has, from address [`BASE`] on.
pub(crate) const BYTES: usize = 256 << 10;
pub(crate) const BASE: u64 = 1 << 20;
/// Registered bytes are reached so far from where they are.
const TWIN: u64 = 1 << 40;

#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) now: u64,
    rings: HashMap<(u32, u32), VecDeque<Vec<u8>>>,
    gone: Vec<u32>,
    memories: HashMap<u32, Vec<u8>>,
    regions: HashMap<(u32, u32), Region>,
    pairs: HashMap<(u32, u32), PublicPair>,
    /// What processes copy by themselves.
    pub(crate) copies: Option<Copies>,
    /// Messages that an adapter finds at a time, at most, and of whom first; all and 0 unless a test says so.
    pub(crate) burst: Option<usize>,
    pub(crate) first: u32,
}

/// An adapter's end of it. Node and seat are the same number.
pub(crate) struct End {
    pub(crate) seat: u32,
    shared: Rc<RefCell<Shared>>,
}

pub(crate) struct Bytes {
    seat: u32,
    shared: Rc<RefCell<Shared>>,
}

fn peer(seat: u32) -> Peer {
    Peer { seat, generation: 1 }
}

fn range(at: u64, len: usize) -> Result<std::ops::Range<usize>> {
    let at = if at >= TWIN { at - TWIN } else { at };
    let from = at.checked_sub(BASE).ok_or(Errno::FAULT)? as usize;
    let end = from.checked_add(len).filter(|end| *end <= BYTES).ok_or(Errno::FAULT)?;
    Ok(from..end)
}

impl Memory for Bytes {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        into.copy_from_slice(&self.shared.borrow().memories[&self.seat][range(at, into.len())?]);
        Ok(())
    }
    fn write(&self, at: u64, from: &[u8]) -> Result<()> {
        let range = range(at, from.len())?;
        let mut shared = self.shared.borrow_mut();
        shared.memories.get_mut(&self.seat).expect("a memory")[range].copy_from_slice(from);
        Ok(())
    }
    fn update(&self, at: u64, change: &dyn Fn(u64) -> u64) -> Result<u64> {
        let mut word = [0; 8];
        self.read(at, &mut word)?;
        let old = u64::from_ne_bytes(word);
        self.write(at, &change(old).to_ne_bytes())?;
        Ok(old)
    }
    fn is_mapped(&self, at: u64, len: u64, _to_write: bool) -> bool {
        range(at, len as usize).is_ok()
    }
    fn register(&mut self, at: u64, _len: u64) -> u64 {
        at + TWIN
    }
}

impl Shared {
    /// A message that no adapter has made.
    pub(crate) fn forge(&mut self, from: u32, to: u32, message: Vec<u8>) {
        self.rings.entry((from, to)).or_default().push_back(message);
    }
    /// Takes what has been sent and nobody has received yet.
    pub(crate) fn intercept(&mut self, from: u32, to: u32) -> Vec<Vec<u8>> {
        self.rings.remove(&(from, to)).unwrap_or_default().into()
    }
}

impl End {
    fn lives(&self) -> bool {
        !self.shared.borrow().gone.contains(&self.seat)
    }

    /// Where an access goes, if what the target has published allows it.
    fn find(&self, at: &RemoteAccess) -> Option<u64> {
        let shared = self.shared.borrow();
        let pair = shared.pairs.get(&(at.peer.seat, at.pair))?;
        let is_allowed = (pair.peer, pair.with) == (self.me(), at.from) && pair.access & at.need != 0;
        let region = shared.regions.get(&(at.peer.seat, at.key)).filter(|_| is_allowed);
        region?.find(pair.pd, at.at, at.len, at.need).filter(|_| !shared.gone.contains(&at.peer.seat))
    }

    fn copy_pieces(&self, to: (u32, &[Piece]), from: (u32, &[Piece])) -> Copied {
        let memory = |seat| Bytes { seat, shared: self.shared.clone() };
        let (to, from) = ((memory(to.0), to.1), (memory(from.0), from.1));
        let mut bytes = Vec::new();
        for piece in from.1 {
            let start = bytes.len();
            bytes.resize(start + piece.len as usize, 0);
            if from.0.read(piece.at, &mut bytes[start..]).is_err() {
                return Copied::Fault;
            }
        }
        let mut rest = &bytes[..];
        for piece in to.1 {
            let (here, more) = rest.split_at(piece.len as usize);
            rest = more;
            if to.0.write(piece.at, here).is_err() {
                return Copied::Fault;
            }
        }
        Copied::Done
    }
}

impl Network for End {
    fn now(&self) -> u64 {
        self.shared.borrow().now
    }
    fn me(&self) -> Peer {
        peer(self.seat)
    }
    fn node(&self) -> u32 {
        self.seat
    }
    fn lane(&self) -> u32 {
        0
    }
    fn nodes(&self) -> u32 {
        8
    }
    fn find(&self, node: u32, lane: u32) -> Option<Peer> {
        (lane == 0 && self.shared.borrow().memories.contains_key(&node)).then(|| peer(node))
    }
    fn is_there(&self, peer: Peer) -> bool {
        !self.shared.borrow().gone.contains(&peer.seat)
    }
    fn is_up(&self) -> bool {
        true
    }
    fn message_max(&self) -> usize {
        MESSAGE_MAX
    }
    fn send(&mut self, to: Peer, parts: &[&[u8]]) -> std::result::Result<(), NotSent> {
        assert_ne!(to.seat, self.seat, "what an adapter sends to itself needs no network");
        let mut shared = self.shared.borrow_mut();
        if shared.gone.contains(&to.seat) {
            return Err(NotSent::Gone);
        }
        let ring = shared.rings.entry((self.seat, to.seat)).or_default();
        if ring.len() >= RING {
            return Err(NotSent::Full);
        }
        let message = parts.concat();
        assert!(message.len() <= MESSAGE_MAX, "{} bytes", message.len());
        ring.push_back(message);
        Ok(())
    }
    fn receive(&mut self, most: usize, take: &mut dyn FnMut(Peer, &[u8])) -> usize {
        let mut done = 0;
        let (most, first) = {
            let shared = self.shared.borrow();
            (most.min(shared.burst.unwrap_or(most)), shared.first)
        };
        for from in (0..8).map(|from| (from + first) % 8) {
            while done < most {
                let ring = (from, self.seat);
                let Some(message) = self.shared.borrow_mut().rings.get_mut(&ring).and_then(VecDeque::pop_front) else {
                    break;
                };
                take(peer(from), &message);
                done += 1;
            }
        }
        done
    }
    fn copies(&mut self, _peer: Peer) -> Copies {
        self.shared.borrow().copies.unwrap_or(Copies::Nothing)
    }
    fn copy(&mut self, at: &RemoteAccess, own: &[Piece]) -> Copied {
        let Some(place) = self.find(at) else { return Copied::Refused };
        let place = [Piece { at: place, len: at.len }];
        match at.writes() {
            true => self.copy_pieces((at.peer.seat, &place), (self.seat, own)),
            false => self.copy_pieces((self.seat, own), (at.peer.seat, &place)),
        }
    }
    fn update(&mut self, at: &RemoteAccess, atomic: Atomic) -> std::result::Result<u64, Copied> {
        let place = self.find(at).filter(|place| place.is_multiple_of(8)).ok_or(Copied::Refused)?;
        let memory = Bytes { seat: at.peer.seat, shared: self.shared.clone() };
        memory.update(place, &|old| atomic.apply(old)).map_err(|_| Copied::Fault)
    }
    fn fetch(&mut self, from: Peer, pieces: &[Piece], own: &[Piece]) -> Copied {
        self.copy_pieces((self.seat, own), (from.seat, pieces))
    }
    fn has_place(&self, _key: u32) -> bool {
        true
    }
    fn publish_region(&mut self, region: &Region) {
        self.shared.borrow_mut().regions.insert((self.seat, region.key), *region);
    }
    fn withdraw_region(&mut self, key: u32) {
        self.shared.borrow_mut().regions.remove(&(self.seat, key));
    }
    fn publish_pair(&mut self, pair: &PublicPair) {
        self.shared.borrow_mut().pairs.insert((self.seat, pair.number), *pair);
    }
    fn withdraw_pair(&mut self, number: u32) {
        self.shared.borrow_mut().pairs.remove(&(self.seat, number));
    }
}

pub(crate) type Adapter = Hca<End, Bytes>;

pub(crate) struct World {
    pub(crate) shared: Rc<RefCell<Shared>>,
    pub(crate) adapters: Vec<Adapter>,
}

impl World {
    pub(crate) fn new(adapters: u32, direct: bool) -> World {
        let shared = Rc::new(RefCell::new(Shared { copies: direct.then_some(Copies::All), ..Shared::default() }));
        let one = |seat: u32| {
            shared.borrow_mut().memories.insert(seat, vec![0; BYTES]);
            let mut key = seat * 1_000_000;
            let random = Box::new(move || {
                key += 7919;
                key
            });
            let end = End { seat, shared: shared.clone() };
            Hca::new(end, Bytes { seat, shared: shared.clone() }, random)
        };
        let adapters = (0..adapters).map(one).collect();
        World { shared, adapters }
    }

    /// Everybody does what there is to do, until there is nothing. Time passes only where all wait for it.
    pub(crate) fn settle(&mut self) {
        for _ in 0..100_000 {
            let mut done = false;
            for adapter in self.adapters.iter_mut().filter(|adapter| adapter.network().lives()) {
                done |= adapter.progress();
            }
            if done {
                continue;
            }
            let next = self.alive().filter_map(Hca::deadline).min();
            let now = self.shared.borrow().now;
            match next {
                Some(next) if next < now + 100_000_000_000 && self.waits() => {
                    self.shared.borrow_mut().now = next.max(now + 1)
                }
                _ => return,
            }
        }
        panic!("it does not come to rest");
    }

    /// Those of processes that have not been lost.
    fn alive(&self) -> impl Iterator<Item = &Adapter> {
        self.adapters.iter().filter(|adapter| adapter.network().lives())
    }

    fn waits(&self) -> bool {
        self.alive().any(|adapter| adapter.deadline().is_some())
    }

    pub(crate) fn lose(&mut self, seat: u32) {
        self.shared.borrow_mut().gone.push(seat);
    }

    pub(crate) fn write(&mut self, seat: u32, at: u64, bytes: &[u8]) {
        self.adapters[seat as usize].memory().write(at, bytes).expect("it is there");
    }
    pub(crate) fn read(&self, seat: u32, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.adapters[seat as usize].memory().read(at, &mut bytes).expect("it is there");
        bytes
    }
    pub(crate) fn poll(&mut self, seat: u32, cq: Cq) -> Vec<Completion> {
        let mut all = Vec::new();
        self.adapters[seat as usize].poll(cq, 1000, &mut |completion| all.push(*completion)).expect("a queue");
        all
    }
}

/// What one side of a connection has.
#[derive(Clone, Copy)]
pub(crate) struct Side {
    pub(crate) pd: Pd,
    pub(crate) send: Cq,
    pub(crate) receive: Cq,
    pub(crate) qp: Qp,
    pub(crate) srq: Option<Srq>,
    pub(crate) region: Region,
}

pub(crate) const RIGHTS: u32 = access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ | access::REMOTE_ATOMIC;
pub(crate) const CAPS: Caps = Caps { send_wr: 64, recv_wr: 64, send_sge: 4, recv_sge: 4, inline_data: 64 };

impl World {
    pub(crate) fn side(&mut self, seat: u32, transport: Transport, shared: bool) -> Side {
        let hca = &mut self.adapters[seat as usize];
        let pd = hca.alloc_pd().expect("pd");
        let (send, receive) = (hca.create_cq(1000, Some(1)).expect("cq"), hca.create_cq(1000, Some(2)).expect("cq"));
        let srq = shared.then(|| hca.create_srq(pd, SrqAttributes { wr: 64, sge: 4, limit: 0 }).expect("srq"));
        let init = Init { pd, transport, send_cq: send, recv_cq: receive, srq, signal_all: false, caps: CAPS };
        let qp = hca.create_qp(init).expect("qp");
        let region = hca.register(pd, BASE, BYTES as u64, BASE, RIGHTS).expect("region");
        let to = Attributes { state: 1, port: 1, access: RIGHTS, qkey: 7, ..Attributes::default() };
        let rights = if transport == Transport::Ud { mask::QKEY } else { mask::ACCESS };
        hca.modify_qp(qp, mask::STATE | mask::PKEY_INDEX | mask::PORT | rights, &to).expect("init");
        Side { pd, send, receive, qp, srq, region }
    }

    pub(crate) fn ready(&mut self, seat: u32, side: Side, to: (u32, Qp), transport: Transport, retries: (u8, u8)) {
        self.connect(seat, side, to, transport, retries, (0, 0));
    }

    /// A reliable pair begins anew: reset and connected, with other first numbers of what it sends and takes.
    pub(crate) fn again(&mut self, seat: u32, side: Side, to: (u32, Qp), psn: (u32, u32)) {
        let hca = &mut self.adapters[seat as usize];
        hca.modify_qp(side.qp, mask::STATE, &Attributes::default()).expect("reset");
        let init = Attributes { state: 1, port: 1, access: RIGHTS, ..Attributes::default() };
        hca.modify_qp(side.qp, mask::STATE | mask::PKEY_INDEX | mask::PORT | mask::ACCESS, &init).expect("init");
        self.connect(seat, side, to, Transport::Rc, (7, 7), psn);
    }

    fn connect(
        &mut self,
        seat: u32,
        side: Side,
        to: (u32, Qp),
        transport: Transport,
        retries: (u8, u8),
        (sq_psn, rq_psn): (u32, u32),
    ) {
        assert_eq!(lane_of(to.1.0), 0);
        let hca = &mut self.adapters[seat as usize];
        let path = PathAttributes { dlid: address::lid(to.0), port: 1, ..PathAttributes::default() };
        let all = Attributes {
            path,
            path_mtu: 5,
            sq_psn,
            rq_psn,
            dest_qp: to.1.0,
            max_dest_rd_atomic: 4,
            max_rd_atomic: 4,
            min_rnr_timer: 12,
            timeout: 14,
            retry_cnt: retries.0,
            rnr_retry: retries.1,
            ..Attributes::default()
        };
        use mask::*;
        let connected = PATH | PATH_MTU | DEST_QP | RQ_PSN;
        let (rtr, rts) = match transport {
            Transport::Rc => (
                connected | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER,
                SQ_PSN | TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_RD_ATOMIC,
            ),
            Transport::Uc => (connected, SQ_PSN),
            Transport::Ud => (0, SQ_PSN),
        };
        hca.modify_qp(side.qp, STATE | rtr, &Attributes { state: 2, ..all }).expect("rtr");
        hca.modify_qp(side.qp, STATE | rts, &Attributes { state: 3, ..all }).expect("rts");
    }

    pub(crate) fn connected(&mut self, transport: Transport, shared: bool) -> (Side, Side) {
        let (a, b) = (self.side(0, transport, false), self.side(1, transport, shared));
        self.ready(0, a, (1, b.qp), transport, (7, 7));
        self.ready(1, b, (0, a.qp), transport, (7, 7));
        (a, b)
    }

    pub(crate) fn post(&mut self, seat: u32, side: Side, wr_id: u64, operation: Operation, at: u64, len: u32) {
        let request = send(side, wr_id, operation, at, len);
        self.adapters[seat as usize].post_send(side.qp, request).expect("posted");
    }

    pub(crate) fn receive(&mut self, seat: u32, side: Side, wr_id: u64, at: u64, len: u32) {
        let elements = [Element { at, len, key: side.region.key }].into_iter().collect();
        let (hca, request) = (&mut self.adapters[seat as usize], ReceiveRequest { wr_id, elements });
        match side.srq {
            Some(srq) => hca.post_srq_receive(srq, request),
            None => hca.post_receive(side.qp, request),
        }
        .expect("posted");
    }
}

pub(crate) fn send(side: Side, wr_id: u64, operation: Operation, at: u64, len: u32) -> SendRequest {
    let elements = [Element { at, len, key: side.region.key }].into_iter().collect();
    let payload = Payload::Elements(elements);
    SendRequest { wr_id, operation, payload, signaled: true, fence: false, solicited: false }
}
