//! A network in virtual time, the hosts on it, and what befalls them.

use crate::net::Random;
use angara_trunk::{Association, Config, Event, Impairment, KeyRing, Refused};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

/// Faults happen up to this time.
const FAULTS_UNTIL: u64 = 1_000_000_000;
/// From then on all records must have arrived within this time (nanoseconds): detection of a dead session, a
/// handshake, and the traffic.
const BOUND: u64 = 20_000_000_000;
/// Records each end sends on the healed network.
const QUOTA: u64 = 150;
const WINDOW: usize = 256 << 10;
const CHANNELS: u16 = 3;

impl Random {
    fn chance(&mut self, p: f64) -> bool {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64 <= p && p > 0.0
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// Events of the run.
#[derive(Default, Debug)]
pub(crate) struct Seen {
    pub(crate) records: u64,
    pub(crate) sessions: u64,
    pub(crate) retransmissions: u64,
    pub(crate) damaged: u64,
    pub(crate) replays: u64,
    pub(crate) restarts: u64,
    pub(crate) downs: u64,
}

impl Seen {
    pub(crate) fn add(&mut self, other: &Seen) {
        self.records += other.records;
        self.sessions += other.sessions;
        self.retransmissions += other.retransmissions;
        self.damaged += other.damaged;
        self.replays += other.replays;
        self.restarts += other.restarts;
        self.downs += other.downs;
    }
}

/// When it arrives, a number that makes the order definite, where, and what.
type Flying = (u64, u64, usize, Vec<u8>);

/// How the network treats datagrams of one direction.
#[derive(Clone, Copy)]
struct Path {
    mtu: usize,
    delay: u64,
    jitter: u64,
    loss: f64,
    dup: f64,
    corrupt: f64,
    /// Between these times nothing passes.
    outage: (u64, u64),
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The process ends and starts again.
    Restart(usize),
    /// It starts again with another key, and later with the right one.
    Mismatch(usize),
    /// The host's clock is set.
    Jump(usize, i64),
    /// The other key becomes the active one.
    Rotate(usize),
    /// For a while the process does not run.
    Freeze(usize, u64),
    /// The datagrams that the host sends are impaired inside the process, or no longer.
    Impair(usize, Impairment),
}

struct Host {
    association: Association,
    /// Reading of its clock minus true time, ns.
    offset: i64,
    frozen_until: u64,
    session: Option<u32>,
    /// Next number to send and to expect, per channel, in this session.
    next_out: [u64; CHANNELS as usize],
    next_in: [u64; CHANNELS as usize],
    sent: u64,
    received: u64,
    /// Prefers to leave records unread for a while.
    lazy: f64,
    /// When it has something to say again.
    speaks_at: u64,
}

pub(crate) struct World {
    random: Random,
    now: u64,
    hosts: [Host; 2],
    paths: [Path; 2],
    flying: BinaryHeap<Reverse<Flying>>,
    order: u64,
    faults: BTreeMap<u64, Fault>,
    keys: [KeyRing; 2],
    seen: Seen,
    old: Vec<(usize, Vec<u8>)>,
}

fn rings() -> [KeyRing; 2] {
    let mut one = KeyRing::new(1, b"the first of two keys").unwrap();
    one.add(2, b"the second of two keys").unwrap();
    let mut two = one.clone();
    two.activate(2).unwrap();
    [one, two]
}

impl World {
    pub(crate) fn new(mut random: Random) -> World {
        let mtu = random.of(&[1_200, 1_472, 9_000, 65_507]);
        let path = |random: &mut Random| Path {
            mtu,
            delay: random.of(&[5_000, 50_000, 2_000_000]),
            jitter: random.of(&[0, 0, 20_000, 1_000_000]),
            loss: random.of(&[0.0, 0.01, 0.1, 0.3]),
            dup: random.of(&[0.0, 0.0, 0.05]),
            corrupt: random.of(&[0.0, 0.0, 0.02]),
            outage: if random.chance(0.3) {
                let start = random.below(FAULTS_UNTIL);
                (start, (start + random.of(&[5, 50, 150, 600]) * 1_000_000).min(FAULTS_UNTIL))
            } else {
                (0, 0)
            },
        };
        let mut paths = [path(&mut random), path(&mut random)];
        if random.chance(0.5) {
            // A partition cuts both ways.
            paths[1].outage = paths[0].outage;
        }
        let mut faults = BTreeMap::new();
        for _ in 0..random.below(4) {
            let host = random.below(2) as usize;
            let fault = match random.below(6) {
                0 => Fault::Restart(host),
                4 => Fault::Mismatch(host),
                1 => Fault::Jump(host, random.below(20_000_000_000) as i64 - 10_000_000_000),
                2 => Fault::Rotate(host),
                3 => Fault::Impair(host, impairment(&mut random)),
                _ => Fault::Freeze(host, random.of(&[1, 30, 300]) * 1_000_000),
            };
            faults.insert(random.below(FAULTS_UNTIL), fault);
        }
        faults.insert(FAULTS_UNTIL - 2, Fault::Impair(0, Impairment::default()));
        faults.insert(FAULTS_UNTIL - 1, Fault::Impair(1, Impairment::default()));
        let keys = rings();
        let host = |local: u16, random: &mut Random| Host {
            association: association(local, &keys[0], 60_000_000_000, random),
            offset: 60_000_000_000,
            frozen_until: 0,
            session: None,
            next_out: [0; CHANNELS as usize],
            next_in: [0; CHANNELS as usize],
            sent: 0,
            received: 0,
            lazy: random.of(&[0.0, 0.0, 0.5, 0.95]),
            speaks_at: 0,
        };
        let hosts = [host(0, &mut random), host(1, &mut random)];
        let (seen, old) = (Seen::default(), Vec::new());
        World { random, now: 0, hosts, paths, flying: BinaryHeap::new(), order: 0, faults, keys, seen, old }
    }

    /// Runs until both ends have all of the other's records on the healed network.
    pub(crate) fn run(&mut self) {
        let mut steps = 0;
        loop {
            steps += 1;
            assert!(steps < 3_000_000, "busy without end at {} ns", self.now);
            assert!(self.now < FAULTS_UNTIL + BOUND, "not done in time: {}", self.describe());
            while let Some(entry) = self.faults.first_entry().filter(|e| *e.key() <= self.now) {
                let fault = entry.remove();
                self.befall(fault);
            }
            while self.flying.peek().is_some_and(|Reverse((at, ..))| *at <= self.now) {
                let Some(Reverse((_, _, to, datagram))) = self.flying.pop() else { break };
                self.arrive(to, datagram);
            }
            for host in 0..2 {
                self.turn(host);
            }
            if self.now >= FAULTS_UNTIL && self.done() {
                break;
            }
            self.now = self.next_time();
        }
        for host in &self.hosts {
            self.seen.sessions += host.association.stats().sessions;
        }
    }

    pub(crate) fn seen(self) -> Seen {
        self.seen
    }

    fn describe(&self) -> String {
        let host = |h: &Host| {
            let stats = h.association.stats();
            format!("session {:?}, {} sent, {} received, {stats:?}", h.session, h.sent, h.received)
        };
        format!("A: {}; B: {}", host(&self.hosts[0]), host(&self.hosts[1]))
    }

    fn done(&self) -> bool {
        let [a, b] = &self.hosts;
        let all = |from: &Host, to: &Host| from.sent >= QUOTA && from.sent == to.received;
        a.session.is_some() && a.session == b.session && all(a, b) && all(b, a)
    }

    fn next_time(&mut self) -> u64 {
        let mut next = self.now + 50_000_000;
        if let Some(Reverse((at, ..))) = self.flying.peek() {
            next = next.min(*at);
        }
        if let Some(at) = self.faults.keys().next() {
            next = next.min(*at);
        }
        for host in &self.hosts {
            if self.now < FAULTS_UNTIL {
                next = next.min(host.speaks_at.max(host.frozen_until));
            }
            let Some(at) = host.association.poll_timeout() else { continue };
            let at = (at.as_nanos() as i64).saturating_sub(host.offset).max(host.frozen_until as i64);
            next = next.min(at.max(0) as u64);
        }
        next.max(self.now + 1_000)
    }

    fn befall(&mut self, fault: Fault) {
        match fault {
            Fault::Restart(i) => self.restart(i, &self.keys[0].clone()),
            Fault::Mismatch(i) => {
                self.restart(i, &KeyRing::new(1, b"not the key of this cluster").unwrap());
                let mut at = self.now + self.random.below(FAULTS_UNTIL.saturating_sub(self.now).max(1));
                while at >= FAULTS_UNTIL - 2 || self.faults.contains_key(&at) {
                    at -= 1;
                }
                self.faults.insert(at, Fault::Restart(i));
            }
            Fault::Jump(i, by) => self.hosts[i].offset = (self.hosts[i].offset + by).max(0),
            Fault::Rotate(i) => self.hosts[i].association.set_keys(&self.keys[1]),
            Fault::Impair(i, what) => self.hosts[i].association.impair(what),
            Fault::Freeze(i, nanos) => self.hosts[i].frozen_until = self.now + nanos,
        }
    }

    fn restart(&mut self, i: usize, keys: &KeyRing) {
        let clock = (self.now as i64 + self.hosts[i].offset) as u64;
        let association = association(i as u16, keys, clock, &mut self.random);
        let host = &mut self.hosts[i];
        self.seen.sessions += host.association.stats().sessions;
        host.association = association;
        host.begin(None);
    }

    fn arrive(&mut self, to: usize, mut datagram: Vec<u8>) {
        if self.hosts[to].frozen_until > self.now {
            // A stopped process' socket keeps what fits.
            if self.random.chance(0.5) {
                self.order += 1;
                self.flying.push(Reverse((self.hosts[to].frozen_until, self.order, to, datagram)));
            }
            return;
        }
        let corrupt = self.paths[1 - to].corrupt;
        let damaged = self.now < FAULTS_UNTIL && self.random.chance(corrupt);
        if damaged {
            match self.random.below(3) {
                0 => {
                    let keep = self.random.below(datagram.len() as u64) as usize;
                    datagram.truncate(keep);
                }
                _ => {
                    let at = self.random.below(datagram.len() as u64) as usize;
                    datagram[at] ^= 1 << self.random.below(8);
                }
            }
        }
        let now = self.hosts[to].clock(self.now);
        let result = self.hosts[to].association.handle_datagram(now, &mut datagram);
        if damaged {
            assert!(result.is_err(), "a damaged datagram was accepted");
            self.seen.damaged += 1;
        }
        match result {
            Err(Refused::Violation(what)) => panic!("an honest peer was blamed: {what}"),
            Err(Refused::Replay) => self.seen.replays += 1,
            _ => {}
        }
        let host = &self.hosts[to];
        assert!(host.association.memory() < 6 * WINDOW + (8_192 + 70_000) * 64, "{} bytes", host.association.memory());
    }

    fn turn(&mut self, i: usize) {
        let host = &mut self.hosts[i];
        if host.frozen_until > self.now {
            return;
        }
        let now = host.clock(self.now);
        host.association.handle_timeout(now);
        while let Some(event) = host.association.poll_event() {
            match event {
                Event::Up { session } => {
                    assert_eq!(host.session, None, "up twice");
                    host.begin(Some(session));
                }
                Event::Restarted { session } => {
                    assert!(host.session.is_some_and(|old| old < session), "their numbers rise");
                    self.seen.restarts += 1;
                    host.begin(Some(session));
                }
                Event::Down { since, .. } => {
                    assert!(since <= now, "heard in the future");
                    self.seen.downs += 1;
                    host.begin(None);
                }
            }
        }
        let read = self.now >= FAULTS_UNTIL || !self.random.chance(host.lazy);
        while read && let Some((channel, bytes)) = host.association.poll_record() {
            let expected = host.session.map(|session| record(session, i == 0, channel, host.next_in[channel as usize]));
            assert!(expected.is_some_and(|e| e[..] == bytes[..]), "host {i}, channel {channel}: not the next record");
            host.next_in[channel as usize] += 1;
            host.received += 1;
            self.seen.records += 1;
        }
        // In the end everybody sends the quota; before, whatever comes.
        let many = if self.now >= FAULTS_UNTIL {
            QUOTA.saturating_sub(host.sent)
        } else if self.now >= host.speaks_at {
            host.speaks_at = self.now + self.random.below(20_000_000);
            self.random.below(8)
        } else {
            0
        };
        for _ in 0..many {
            let Some(session) = host.session else { break };
            let channel = self.random.below(u64::from(CHANNELS)) as u16;
            let record = record(session, i != 0, channel, host.next_out[channel as usize]);
            if host.association.backlog() + record.len() + 4 > WINDOW {
                break;
            }
            host.association.send(channel, &record).unwrap();
            host.next_out[channel as usize] += 1;
            host.sent += 1;
        }
        let before = host.association.stats().retransmissions;
        let mut out = Vec::new();
        let mut batches = 0;
        while let Some(segment) = self.hosts[i].association.poll_transmit(now, &mut out) {
            batches += 1;
            assert!(batches < 10_000, "sends without end");
            assert!(!out.is_empty() && out.len() <= 65_507);
            for datagram in out.chunks(segment) {
                self.launch(i, datagram);
            }
            out.clear();
        }
        self.seen.retransmissions += self.hosts[i].association.stats().retransmissions - before;
    }

    fn launch(&mut self, from: usize, datagram: &[u8]) {
        let path = self.paths[from];
        if self.random.chance(0.002) {
            // Somebody records datagrams and plays them again, much later.
            self.old.push((1 - from, datagram.to_vec()));
        }
        if !self.old.is_empty() && self.random.chance(0.01) {
            let which = self.random.below(self.old.len() as u64) as usize;
            let (to, old) = self.old[which].clone();
            self.order += 1;
            self.flying.push(Reverse((self.now, self.order, to, old)));
        }
        let faulty = self.now < FAULTS_UNTIL;
        let cut = (path.outage.0..path.outage.1).contains(&self.now);
        if datagram.len() > path.mtu || cut || (faulty && self.random.chance(path.loss)) {
            return;
        }
        let copies = if faulty && self.random.chance(path.dup) { 2 } else { 1 };
        for _ in 0..copies {
            let jitter = if faulty && path.jitter > 0 { self.random.below(path.jitter) } else { 0 };
            self.order += 1;
            self.flying.push(Reverse((self.now + path.delay + jitter, self.order, 1 - from, datagram.to_vec())));
        }
    }
}

impl Host {
    fn clock(&self, now: u64) -> Duration {
        Duration::from_nanos((now as i64 + self.offset) as u64)
    }

    fn begin(&mut self, session: Option<u32>) {
        self.session = session;
        (self.next_out, self.next_in) = Default::default();
        (self.sent, self.received) = (0, 0);
    }
}

fn association(local: u16, keys: &KeyRing, clock: u64, random: &mut Random) -> Association {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&random.draw().to_le_bytes());
    let mut config = Config::new(local, 1 - local, [9; 16], keys.clone(), seed);
    config.heartbeat = Duration::from_millis(20);
    config.dead_after = Duration::from_millis(200);
    config.send_buffer = WINDOW;
    config.receive_window = WINDOW;
    Association::new(config, Duration::from_nanos(clock)).unwrap()
}

fn impairment(random: &mut Random) -> Impairment {
    Impairment {
        drop: random.of(&[0, 100_000, 1_000_000]),
        corrupt: random.of(&[0, 100_000]),
        duplicate: random.of(&[0, 100_000]),
        reorder: random.of(&[0, 200_000]),
        delay_ps: random.of(&[0, 300_000_000]),
        rate: random.of(&[0, 0, 5_000_000]),
        seed: Some(random.draw()),
    }
}

/// Returns what a record must look like: everything about it follows from where it belongs.
fn record(session: u32, from_b: bool, channel: u16, number: u64) -> Vec<u8> {
    let mut random =
        Random::new(u64::from(session) << 40 ^ u64::from(from_b) << 39 ^ u64::from(channel) << 32 ^ number);
    let len = match random.below(20) {
        0 => 0,
        1 => random.below(65_536),
        2..6 => random.below(3_000),
        _ => random.below(100),
    };
    let mut bytes = vec![random.draw() as u8; len as usize];
    for (byte, value) in bytes.iter_mut().zip(random.draw().to_le_bytes()) {
        *byte = value;
    }
    bytes
}
