//! Both ends of a trunk in the hands of a test: what is on the wire between daemons, and a host that is none.

use crate::process::wait_readable;
use angara_trunk::{Association, Config, Event, KeyRing};
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Datagrams a proxy remembers.
const MEMORY: usize = 20_000;
/// Longest datagram.
const DATAGRAM: usize = 65_536;

/// Stands for a daemon: forwards to it whatever comes, and remembers it.
pub struct Proxy {
    socket: UdpSocket,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    forwarded: AtomicU64,
    recorded: Mutex<VecDeque<Vec<u8>>>,
}

impl Proxy {
    /// A proxy for the daemon at `to`, on a port of its own.
    pub fn start(to: SocketAddr) -> Proxy {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let ours = socket.try_clone().expect("a descriptor");
        ours.set_nonblocking(true).expect("a socket");
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let thread = std::thread::spawn(move || {
            let mut datagram = vec![0; DATAGRAM];
            while !theirs.stop.load(Ordering::Relaxed) {
                wait_readable(&ours, Duration::from_millis(100));
                while let Ok((n, _)) = ours.recv_from(&mut datagram) {
                    let mut recorded = theirs.recorded.lock().expect("no panic while holding it");
                    // The first ones stay: they are the handshakes.
                    if recorded.len() == MEMORY {
                        recorded.remove(MEMORY / 2);
                    }
                    recorded.push_back(datagram[..n].to_vec());
                    // Before it is sent: never fewer than the daemon has got.
                    theirs.forwarded.fetch_add(1, Ordering::SeqCst);
                    if ours.send_to(&datagram[..n], to).is_err() {
                        theirs.forwarded.fetch_sub(1, Ordering::SeqCst);
                    }
                }
            }
        });
        Proxy { socket, shared, thread: Some(thread) }
    }
    /// Where datagrams for the daemon are to go.
    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("it is bound")
    }
    /// The socket from which the daemon gets everything.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }
    /// Datagrams handed on so far.
    pub fn forwarded(&self) -> u64 {
        self.shared.forwarded.load(Ordering::SeqCst)
    }
    /// Returns what it remembers.
    pub fn recorded(&self) -> Vec<Vec<u8>> {
        self.shared.recorded.lock().expect("no panic while holding it").iter().cloned().collect()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("a proxy does not panic");
        }
    }
}

fn association(local: u16, peer: u16, cluster: [u8; 16], key: &[u8], seed: u8) -> Association {
    let keys = KeyRing::new(1, key).expect("a good key");
    let mut config = Config::new(local, peer, cluster, keys, [seed; 32]);
    config.dead_after = Duration::from_secs(60);
    Association::new(config, Duration::ZERO).expect("a good configuration")
}

/// Every datagram of a short session between two hosts that share a key, with its receiver.
pub fn handshake(key: &[u8], cluster: [u8; 16], hosts: (u16, u16)) -> Vec<(u16, Vec<u8>)> {
    let mut ends = [association(hosts.0, hosts.1, cluster, key, 1), association(hosts.1, hosts.0, cluster, key, 2)];
    let numbers = [hosts.0, hosts.1];
    let mut all = Vec::new();
    for round in 0..200 {
        let now = Duration::from_millis(round);
        for from in 0..2 {
            ends[from].handle_timeout(now);
            if ends[from].is_up() {
                ends[from].send(1, &[round as u8; 50]).expect("there is room");
            }
            let mut batch = Vec::new();
            while let Some(segment) = ends[from].poll_transmit(now, &mut batch) {
                for datagram in batch.chunks(segment) {
                    all.push((numbers[1 - from], datagram.to_vec()));
                    // A handshake that is over may still be answered.
                    let _ = ends[1 - from].handle_datagram(now, &mut datagram.to_vec());
                }
                batch.clear();
            }
            while ends[from].poll_record().is_some() {}
        }
    }
    assert!(ends.iter().all(Association::is_up), "hosts that share a key did not meet");
    all
}

/// A host that has the key and is played by the test.
pub struct Peer {
    socket: UdpSocket,
    /// To each of the other hosts, by number.
    trunks: Vec<(u16, SocketAddr, Association)>,
    me: u16,
    start: Instant,
    /// Number of the session with each host.
    sessions: BTreeMap<u16, u32>,
    /// What each daemon calls its life, as it has announced.
    lives: BTreeMap<u16, u64>,
    /// Announcements made, pieces of messages sent to each host.
    announced: u64,
    pieces: BTreeMap<u16, u64>,
}

/// What the peer calls its own life.
const LIFE: u64 = 0xbad;
/// First byte of a record of the daemons' own channel: announcements, a piece of a message.
const TRUNKS: u8 = 1;
const PIECE: u8 = 2;

impl Peer {
    /// Host `me` of the cluster whose hosts listen at `addresses`.
    pub fn new(me: u16, addresses: &[SocketAddr], cluster: [u8; 16], key: &[u8]) -> Peer {
        let socket = UdpSocket::bind(addresses[me as usize]).expect("a free port");
        socket.set_nonblocking(true).expect("a socket");
        let others = addresses.iter().enumerate().map(|(h, a)| (h as u16, *a)).filter(|(h, _)| *h != me);
        let trunks = others.map(|(h, a)| (h, a, association(me, h, cluster, key, 40 + h as u8))).collect();
        let (sessions, lives, pieces) = Default::default();
        Peer { socket, trunks, me, start: Instant::now(), sessions, lives, announced: 0, pieces }
    }

    /// Sends a record as it is; waits for room.
    pub fn send(&mut self, to: u16, channel: u16, record: &[u8]) {
        let full = |peer: &Peer| peer.trunks.iter().any(|(h, _, a)| *h == to && a.is_up() && a.backlog() > 1 << 20);
        let end = Instant::now() + crate::process::PATIENCE;
        while full(self) {
            assert!(Instant::now() < end, "host {to} takes nothing any more");
            self.turn(Duration::from_millis(1));
        }
        if let Some((_, _, trunk)) = self.trunks.iter_mut().find(|(h, _, a)| *h == to && a.is_up()) {
            trunk.send(channel, record).expect("there is room");
        }
    }
    /// Says which of its trunks are up, so that others listen.
    pub fn announce(&mut self) {
        self.announced += 1;
        let trunks: BTreeMap<String, u32> = self.sessions.iter().map(|(h, e)| (h.to_string(), *e)).collect();
        let said = json!([{"host": self.me, "number": self.announced, "life": LIFE, "trunks": trunks, "contacts": {}}]);
        for host in self.trunks.iter().map(|(h, _, _)| *h).collect::<Vec<_>>() {
            self.send(host, 0, &[&[TRUNKS], said.to_string().as_bytes()].concat());
        }
    }
    /// Sends a message to the daemon of a host, as a piece that is the next or, if `again`, was sent before.
    pub fn say(&mut self, to: u16, message: &serde_json::Value, again: bool) {
        let number = self.pieces.entry(to).or_default();
        *number += u64::from(!again);
        let mut record = vec![PIECE];
        [self.me, to].iter().for_each(|host| record.extend(host.to_le_bytes()));
        record.push(0);
        let life = self.lives.get(&to).copied().unwrap_or(0);
        [LIFE, life, 0, number.saturating_sub(1)].iter().for_each(|word| record.extend(word.to_le_bytes()));
        // The last piece of its message, which is JSON.
        record.extend([0, 0]);
        record.extend(message.to_string().bytes());
        self.send(to, 0, &record);
    }
    /// Hosts that have said that they live.
    pub fn known(&self) -> usize {
        self.lives.len()
    }

    /// Waits for datagrams, at most so long, and does what is due. The records that came: from, channel, contents.
    pub fn turn(&mut self, limit: Duration) -> Vec<(u16, u16, Vec<u8>)> {
        if !limit.is_zero() {
            wait_readable(&self.socket, limit);
        }
        let mut datagram = vec![0; DATAGRAM];
        let mut records = Vec::new();
        while let Ok((n, _)) = self.socket.recv_from(&mut datagram) {
            let now = self.start.elapsed();
            let claimed = angara_trunk::hosts(&datagram[..n]).filter(|(_, to)| *to == self.me).map(|(from, _)| from);
            if let Some((_, _, trunk)) = self.trunks.iter_mut().find(|(h, _, _)| Some(*h) == claimed) {
                // What it refuses is none of our business.
                let _ = trunk.handle_datagram(now, &mut datagram[..n]);
            }
        }
        let now = self.start.elapsed();
        for (host, address, trunk) in &mut self.trunks {
            trunk.handle_timeout(now);
            while let Some(event) = trunk.poll_event() {
                match event {
                    Event::Up { session } | Event::Restarted { session } => self.sessions.insert(*host, session),
                    Event::Down { .. } => self.sessions.remove(host),
                };
            }
            while let Some((channel, record)) = trunk.poll_record() {
                if let (0, Some((&TRUNKS, json))) = (channel, record.split_first()) {
                    let said: serde_json::Value = serde_json::from_slice(json).unwrap_or_default();
                    for one in said.as_array().into_iter().flatten() {
                        if let (Some(host), Some(life)) = (one["host"].as_u64(), one["life"].as_u64()) {
                            self.lives.insert(host as u16, life);
                        }
                    }
                }
                records.push((*host, channel, record.to_vec()));
            }
            trunk.flush_acks();
            let mut batch = Vec::new();
            while let Some(segment) = trunk.poll_transmit(now, &mut batch) {
                // What does not fit into the socket is lost and sent again.
                batch.chunks(segment).for_each(|d| drop(self.socket.send_to(d, *address)));
                batch.clear();
            }
        }
        records
    }
}
