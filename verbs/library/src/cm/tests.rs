//! Two processes and a network between them.

use super::bytes::{Fields, Record};
use super::commands::number::*;
use super::id::{BACKLOG_MAX, Fabric, GRACE, PATIENCE, State, TIME_WAIT, event, reason};
use super::manager::Manager;
use angara_hca::address::LinkLayer;
use angara_hca::{Errno, Peer, Result};
use angara_verbs_process::Listener;
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

/// A process of one adapter, whose seat is its node.
struct Process {
    node: u32,
    world: Rc<World>,
}

#[derive(Default)]
struct World {
    now: Cell<Duration>,
    ports: RefCell<Vec<(u32, Listener)>>,
    /// Messages: from, to, bytes.
    messages: RefCell<Vec<(u32, u32, Vec<u8>)>>,
    dead: Cell<Option<u32>>,
}

fn peer(node: u32) -> Peer {
    Peer { seat: node, generation: 1 }
}

impl Fabric for Process {
    fn now(&self) -> Duration {
        self.world.now.get()
    }
    fn adapters(&self) -> &[u32] {
        std::slice::from_ref(&self.node)
    }
    fn nodes(&self) -> u32 {
        8
    }
    fn link(&self, _: usize) -> LinkLayer {
        LinkLayer::InfiniBand
    }
    fn find(&self, _: usize, listener: Listener, node: Option<u32>) -> Option<Peer> {
        let ports = self.world.ports.borrow();
        let fits = |at: &&(u32, Listener)| at.1 == listener && node.is_none_or(|node| node == at.0);
        ports.iter().find(fits).map(|(node, _)| peer(*node))
    }
    fn listen(&self, _: usize, listener: Listener) -> Result<()> {
        self.world.ports.borrow_mut().push((self.node, listener));
        Ok(())
    }
    fn stop_listening(&self, _: usize, listener: Listener) {
        self.world.ports.borrow_mut().retain(|at| *at != (self.node, listener));
    }
    fn send(&self, _: usize, to: Peer, bytes: &[u8]) {
        self.world.messages.borrow_mut().push((self.node, to.seat, bytes.to_vec()));
    }
    fn is_there(&self, _: usize, peer: Peer) -> bool {
        self.world.dead.get() != Some(peer.seat)
    }
    fn node_of(&self, _: usize, peer: Peer) -> u32 {
        peer.seat
    }
    fn me(&self, _: usize) -> Peer {
        peer(self.node)
    }
    fn source_for(&self, _: IpAddr) -> Option<IpAddr> {
        None
    }
    fn random(&self) -> u16 {
        77
    }
}

/// A process with a channel.
struct End {
    process: Process,
    manager: Manager,
    channel: u64,
}

/// An event: its identifier, kind, status, parameters.
type Got = (u32, u32, i32, Vec<u8>);

impl End {
    fn command(&mut self, number: u32, body: &Record) -> Result<u32> {
        let answer = self.manager.command(&self.process, self.channel, number, Fields(&body.0), (&[], None))?;
        Ok(answer.map_or(0, |answer| Fields(&answer.bytes.0).u32(0)))
    }
    fn create(&mut self, space: u16) -> u32 {
        let mut body = Record::new(24);
        body.u64(0, 0x1000);
        body.u16(16, space);
        self.command(CREATE_ID, &body).expect("an identifier")
    }
    fn bind(&mut self, id: u32, to: &str) -> Result<u32> {
        let mut body = Record::new(40);
        body.address(8, Some(to.parse().expect("an address")));
        body.u32(36, id);
        self.command(BIND_IP, &body)
    }
    fn with_id(&mut self, command: u32, id: u32, value: u32) -> Result<u32> {
        let mut body = Record::new(16);
        body.u32(0, id);
        body.u32(4, value);
        self.command(command, &body)
    }
    fn destroy(&mut self, id: u32) -> Result<u32> {
        let mut body = Record::new(16);
        body.u32(8, id);
        self.command(DESTROY_ID, &body)
    }
    fn listener(&mut self, space: u16, at: &str, backlog: u32) -> u32 {
        let id = self.create(space);
        self.bind(id, at).expect("a free port");
        self.with_id(LISTEN, id, backlog).expect("it listens");
        id
    }
    /// An identifier with a route, whose events have been read.
    fn routed(&mut self, space: u16, to: &str) -> u32 {
        let id = self.create(space);
        let mut body = Record::new(64);
        body.address(28, Some(to.parse().expect("an address")));
        body.u32(56, id);
        self.command(RESOLVE_IP, &body).expect("resolves");
        assert_eq!(self.event().map(|got| got.1), Some(event::ADDR_RESOLVED));
        self.with_id(RESOLVE_ROUTE, id, 0).expect("a route");
        assert_eq!(self.event().map(|got| got.1), Some(event::ROUTE_RESOLVED));
        id
    }
    fn connect(&mut self, id: u32, data: &[u8]) -> Result<u32> {
        let mut body = Record::new(288);
        ends(&mut body, 0, 0x42, data);
        body.u32(272, id);
        self.command(CONNECT, &body)
    }
    fn accept(&mut self, id: u32, data: &[u8]) -> Result<u32> {
        let mut body = Record::new(296);
        body.u64(0, 0x2000);
        ends(&mut body, 8, 0x43, data);
        body.u32(280, id);
        self.command(ACCEPT, &body)
    }
    fn reject(&mut self, id: u32, data: &[u8]) -> Result<u32> {
        let mut body = Record::new(264);
        body.u32(0, id);
        body.u8(4, data.len() as u8);
        body.bytes(8, data);
        self.command(REJECT, &body)
    }
    fn event(&mut self) -> Option<Got> {
        let bytes = self.manager.take_event(self.channel)?.0;
        let fields = Fields(&bytes);
        Some((fields.u32(8), fields.u32(12), fields.u32(16) as i32, bytes[20..].to_vec()))
    }
    fn kinds(&mut self) -> Vec<(u32, i32)> {
        std::iter::from_fn(|| self.event()).map(|got| (got.1, got.2)).collect()
    }
}

/// `struct rdma_ucm_conn_param`.
fn ends(body: &mut Record, at: usize, pair: u32, data: &[u8]) {
    body.u32(at, pair);
    body.bytes(at + 8, data);
    body.u8(at + 264, data.len() as u8);
    body.bytes(at + 266, &[1, 2, 0, 5, 6]);
}

fn pair() -> (Rc<World>, End, End) {
    let world = Rc::new(World::default());
    let end = |node| {
        let mut manager = Manager::default();
        let channel = manager.open();
        End { process: Process { node, world: world.clone() }, manager, channel }
    };
    let (a, b) = (end(0), end(3));
    (world, a, b)
}

/// Delivers all messages, and what these cause.
fn deliver(world: &World, a: &mut End, b: &mut End) {
    loop {
        let messages = std::mem::take(&mut *world.messages.borrow_mut());
        if messages.is_empty() {
            break;
        }
        for (from, to, bytes) in messages {
            let end = if to == a.process.node { &mut *a } else { &mut *b };
            end.manager.arrive(&end.process, 0, peer(from), &bytes);
        }
    }
}

fn pass(world: &World, time: Duration, ends: [&mut End; 2]) {
    world.now.set(world.now.get() + time);
    ends.into_iter().for_each(|end| end.manager.tick(&end.process));
}

const TCP: u16 = super::id::space::TCP;
const UDP: u16 = super::id::space::UDP;

/// A connection: identifiers of `a`, who listens, and `b`, and of the listener.
fn connected(world: &World, a: &mut End, b: &mut End) -> (u32, u32, u32) {
    let listener = a.listener(TCP, "0.0.0.0:7000", 0);
    let asks = b.routed(TCP, "10.162.0.0:7000");
    b.connect(asks, b"hello").expect("asks");
    deliver(world, a, b);
    let (request, kind, status, param) = a.event().expect("a request");
    assert_eq!((kind, status), (event::CONNECT_REQUEST, 0));
    assert_eq!((Fields(&param).u32(0), &param[8..13], param[264]), (0x42, &b"hello"[..], 56));
    // Each end answers what the other begins; both numbers of retries are the asker's.
    assert_eq!(param[266..271], [2, 1, 0, 5, 6]);
    a.accept(request, b"welcome").expect("accepts");
    deliver(world, a, b);
    let (id, kind, _, param) = b.event().expect("an answer");
    assert_eq!((id, kind, &param[8..15], param[264]), (asks, event::CONNECT_RESPONSE, &b"welcome"[..], 196));
    assert_eq!(a.event(), None);
    b.accept(asks, b"").expect("is ready");
    deliver(world, a, b);
    assert_eq!(a.event().map(|got| (got.0, got.1)), Some((request, event::ESTABLISHED)));
    (request, asks, listener)
}

#[test]
fn a_connection_is_made_and_ended_by_both() {
    let (world, mut a, mut b) = pair();
    let (request, asks, listener) = connected(&world, &mut a, &mut b);
    b.with_id(DISCONNECT, asks, 0).expect("ends it");
    deliver(&world, &mut a, &mut b);
    assert_eq!(a.kinds(), [(event::DISCONNECTED, 0)]);
    assert_eq!(b.kinds(), [(event::DISCONNECTED, 0)]);
    a.with_id(DISCONNECT, request, 0).expect("knows");
    pass(&world, TIME_WAIT, [&mut a, &mut b]);
    assert_eq!((a.kinds(), b.kinds()), (vec![(event::TIMEWAIT_EXIT, 0)], vec![(event::TIMEWAIT_EXIT, 0)]));
    // Two of resolving, an answer, an end, and one after.
    assert_eq!((b.destroy(asks), a.destroy(request), a.destroy(listener)), (Ok(5), Ok(3), Ok(1)));
    assert!(world.ports.borrow().is_empty() && !a.manager.waits() && !b.manager.waits());
    assert_eq!(a.destroy(listener), Err(Errno::NOENT));
}

#[test]
fn both_ends_may_leave_at_once_and_each_is_told_once() {
    let (world, mut a, mut b) = pair();
    let (request, asks, _) = connected(&world, &mut a, &mut b);
    a.with_id(DISCONNECT, request, 0).expect("ends it");
    b.with_id(DISCONNECT, asks, 0).expect("ends it");
    deliver(&world, &mut a, &mut b);
    assert_eq!((a.kinds(), b.kinds()), (vec![(event::DISCONNECTED, 0)], vec![(event::DISCONNECTED, 0)]));
}

#[test]
fn whoever_destroys_or_dies_has_disconnected() {
    let (world, mut a, mut b) = pair();
    let (request, _, _) = connected(&world, &mut a, &mut b);
    a.destroy(request).expect("destroys");
    deliver(&world, &mut a, &mut b);
    assert_eq!(b.kinds(), [(event::DISCONNECTED, 0)]);

    let (world, mut a, mut b) = pair();
    connected(&world, &mut a, &mut b);
    world.dead.set(Some(0));
    pass(&world, GRACE / 2, [&mut a, &mut b]);
    assert_eq!(b.kinds(), []);
    pass(&world, GRACE, [&mut a, &mut b]);
    assert_eq!(b.kinds(), [(event::DISCONNECTED, 0)]);
}

#[test]
fn nobody_a_full_backlog_and_a_program_that_rejects() {
    let (world, mut a, mut b) = pair();
    let nobody = b.routed(TCP, "10.162.0.5:1");
    b.connect(nobody, b"").expect("asks");
    assert_eq!(b.kinds(), [(event::REJECTED, reason::NO_SUCH_SERVICE.into())]);
    let datagrams = b.routed(UDP, "127.0.0.1:1");
    b.connect(datagrams, b"").expect("asks");
    assert_eq!(b.kinds(), [(event::UNREACHABLE, reason::DATAGRAMS_UNSUPPORTED.into())]);

    a.listener(TCP, "0.0.0.0:7000", 1);
    for _ in 0..2 {
        let asks = b.routed(TCP, "192.0.2.1:7000");
        b.connect(asks, &[7; 57]).expect_err("too much");
        b.connect(asks, &[7; 56]).expect("asks");
        deliver(&world, &mut a, &mut b);
    }
    assert_eq!(b.kinds(), [(event::REJECTED, reason::CONSUMER.into())]);
    let (request, ..) = a.event().expect("the first");
    assert_eq!(a.event(), None);
    a.reject(request, b"no").expect("rejects");
    deliver(&world, &mut a, &mut b);
    let (_, kind, status, param) = b.event().expect("an answer");
    assert_eq!((kind, status, &param[8..10]), (event::REJECTED, reason::CONSUMER.into(), &b"no"[..]));
    assert_eq!(a.accept(request, b""), Err(Errno::INVAL));
}

#[test]
fn whoever_gets_no_answer_gives_up() {
    let (world, mut a, mut b) = pair();
    a.listener(TCP, "0.0.0.0:7000", 0);
    let asks = b.routed(TCP, "10.162.0.0:7000");
    b.connect(asks, b"").expect("asks");
    deliver(&world, &mut a, &mut b);
    pass(&world, PATIENCE, [&mut a, &mut b]);
    assert_eq!(b.kinds(), [(event::UNREACHABLE, -libc::ETIMEDOUT)]);
    // The listener's program comes too late.
    let (request, ..) = a.event().expect("a request");
    a.accept(request, b"").expect("accepts");
    deliver(&world, &mut a, &mut b);
    assert_eq!(a.kinds(), [(event::REJECTED, reason::STALE.into())]);

    let asks = b.routed(TCP, "10.162.0.0:7000");
    b.connect(asks, b"").expect("asks");
    world.dead.set(Some(0));
    pass(&world, Duration::ZERO, [&mut a, &mut b]);
    pass(&world, GRACE, [&mut a, &mut b]);
    assert_eq!(b.kinds(), [(event::UNREACHABLE, -libc::ETIMEDOUT)]);
}

#[test]
fn a_listener_that_goes_refuses_whom_its_program_has_not_seen() {
    let (world, mut a, mut b) = pair();
    let listener = a.listener(TCP, "0.0.0.0:7000", 0);
    let asks = b.routed(TCP, "10.162.0.0:7000");
    b.connect(asks, b"").expect("asks");
    deliver(&world, &mut a, &mut b);
    assert_eq!(a.destroy(listener), Ok(0));
    deliver(&world, &mut a, &mut b);
    assert_eq!((a.kinds(), b.kinds()), (vec![], vec![(event::REJECTED, reason::CONSUMER.into())]));
    assert!(a.manager.ids.is_empty());
}

#[test]
fn queue_pairs_of_datagrams_are_found() {
    let (world, mut a, mut b) = pair();
    a.listener(UDP, "127.0.0.1:7000", 0);
    let asks = b.routed(UDP, "127.0.0.1:7000");
    b.connect(asks, b"who").expect("asks");
    deliver(&world, &mut a, &mut b);
    let (request, kind, _, param) = a.event().expect("a request");
    assert_eq!((kind, &param[40..43], param[296]), (event::CONNECT_REQUEST, &b"who"[..], 180));
    a.accept(request, b"me").expect("accepts");
    deliver(&world, &mut a, &mut b);
    let (_, kind, _, param) = b.event().expect("an answer");
    let (pair, qkey, lid) = (Fields(&param).u32(0), Fields(&param).u32(4), Fields(&param).u16(32));
    assert_eq!((kind, pair, qkey, lid, param[296]), (event::ESTABLISHED, 0x43, 0x0123_4567, 1, 136));
    assert_eq!(a.kinds(), []);
    // Peers of theirs need not be there.
    world.dead.set(Some(0));
    pass(&world, Duration::ZERO, [&mut a, &mut b]);
    pass(&world, GRACE, [&mut a, &mut b]);
    assert_eq!(b.kinds(), []);
}

#[test]
fn ports_are_taken_once_unless_they_are_shared() {
    let (_, mut a, _) = pair();
    a.listener(TCP, "0.0.0.0:7000", 0);
    let other = a.create(TCP);
    assert_eq!(a.bind(other, "10.162.0.0:7000"), Err(Errno::ADDRINUSE));
    assert_eq!(a.bind(other, "10.162.0.9:7000"), Err(Errno::ADDRNOTAVAIL));
    assert_eq!(a.bind(other, "10.162.0.0:0"), Ok(0));
    assert_eq!(a.bind(other, "10.162.0.0:1"), Err(Errno::INVAL));
    let port = |end: &End, id| end.manager.ids[&id].src.map(|src: SocketAddr| src.port());
    assert_eq!(port(&a, other), Some(32768 + 77));
    let datagrams = a.create(UDP);
    a.bind(datagrams, "0.0.0.0:7000").expect("a space of its own");
    let shares: Vec<u32> = (0..2)
        .map(|_| {
            let id = a.create(TCP);
            a.manager.set_option(a.channel, id, (0, 1), &1i32.to_ne_bytes()).expect("shares");
            a.bind(id, "0.0.0.0:7001").expect("shared");
            id
        })
        .collect();
    assert_eq!(a.with_id(LISTEN, shares[0], 0), Ok(0));
    assert_eq!(a.with_id(LISTEN, shares[1], 0), Err(Errno::ADDRINUSE));
    assert_eq!(a.manager.ids[&shares[0]].backlog, BACKLOG_MAX);
    assert_eq!(a.with_id(LISTEN, shares[0], 0), Err(Errno::INVAL));
}

#[test]
fn an_identifier_takes_its_events_to_another_channel() {
    let (world, mut a, mut b) = pair();
    let (request, _, listener) = connected(&world, &mut a, &mut b);
    let asks = b.routed(TCP, "10.162.0.0:7000");
    b.connect(asks, b"").expect("asks");
    deliver(&world, &mut a, &mut b);
    let other = a.manager.open();
    assert_eq!(a.manager.migrate(a.channel, other, listener), Ok(1));
    assert_eq!(a.event(), None);
    let old = std::mem::replace(&mut a.channel, other);
    let (second, kind, ..) = a.event().expect("the request");
    assert_eq!((kind, a.accept(second, b"")), (event::CONNECT_REQUEST, Ok(0)));
    assert_eq!(a.destroy(request), Err(Errno::NOENT));
    a.manager.close(&a.process, old);
    deliver(&world, &mut a, &mut b);
    let told: Vec<_> = b.kinds();
    assert_eq!(told, [(event::CONNECT_RESPONSE, 0), (event::DISCONNECTED, 0)]);
}

#[test]
fn what_commands_and_peers_should_not_say_changes_nothing() {
    let (world, mut a, mut b) = pair();
    let (request, asks, _) = connected(&world, &mut a, &mut b);
    let before = |end: &End, id: u32| end.manager.ids[&id].state;
    for command in 0..24 {
        for len in 0..24 {
            let refused = a.manager.command(&a.process, a.channel, command, Fields(&[0xff; 24][..len]), (&[], None));
            assert!(refused.is_err(), "{command} {len}");
        }
    }
    let mut body = Record::new(24);
    body.u16(16, 0x013f);
    assert_eq!(a.command(CREATE_ID, &body), Err(Errno::OPNOTSUPP));
    assert_eq!(a.command(JOIN_IP_MCAST, &body), Err(Errno::OPNOTSUPP));
    assert_eq!(a.command(GET_OPTION, &body), Err(Errno::NOSYS));
    // A third adapter that knows all numbers.
    for kind in 2..=7 {
        for to in 0..4u32 {
            let mut bytes = vec![kind];
            bytes.extend(to.to_le_bytes());
            bytes.extend(1u32.to_le_bytes());
            bytes.extend([0; 64]);
            for len in 0..bytes.len() {
                a.manager.arrive(&a.process, 0, peer(6), &bytes[..len]);
            }
        }
    }
    world.messages.borrow_mut().clear();
    assert_eq!((before(&a, request), before(&b, asks)), (State::Connected, State::Connected));
    assert_eq!(a.kinds(), []);
}
