//! Somebody on the network sends what they like to both ends of a live trunk: nothing of it is accepted, nothing
//! is said in return, and the trunk works on.
//!
//! `TRUNK_HOSTILE=1000000 cargo test --release -p angara-trunk hostile::` sends more, `TRUNK_SEED=…` others.

use crate::net::Random;
use crate::number::number;
use angara_trunk::{Association, Config, Event, KeyRing, Refused};
use std::time::Duration;

/// A lossless line between two associations, that remembers what it carried.
struct Line {
    ends: [Association; 2],
    now: Duration,
    /// Datagrams by their receiver.
    carried: [Vec<Vec<u8>>; 2],
}

fn association(local: u16, peer: u16, key: &[u8], cluster: u8, seed: u8) -> Association {
    let config = Config::new(local, peer, [cluster; 16], KeyRing::new(1, key).unwrap(), [seed; 32]);
    Association::new(config, Duration::ZERO).unwrap()
}

impl Line {
    fn new(key: &[u8], cluster: u8, seed: u8) -> Line {
        let ends = [association(0, 1, key, cluster, seed), association(1, 0, key, cluster, seed + 1)];
        Line { ends, now: Duration::ZERO, carried: Default::default() }
    }

    /// Carries datagrams until there are none.
    fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "talks without end");
            self.now += Duration::from_micros(50);
            let mut quiet = true;
            for from in 0..2 {
                self.ends[from].handle_timeout(self.now);
                let mut batch = Vec::new();
                while let Some(segment) = self.ends[from].poll_transmit(self.now, &mut batch) {
                    quiet = false;
                    for datagram in batch.chunks(segment) {
                        self.carried[1 - from].push(datagram.to_vec());
                        // A handshake that is over may still be answered.
                        let _ = self.ends[1 - from].handle_datagram(self.now, &mut datagram.to_vec());
                    }
                    batch.clear();
                }
            }
            let waiting = self.ends.iter().any(|e| e.backlog() > 0);
            if quiet && !waiting {
                break;
            }
        }
    }

    fn exchange(&mut self, text: &[u8]) {
        for end in &mut self.ends {
            end.send(5, text).unwrap();
        }
        self.settle();
        for end in &mut self.ends {
            let (channel, record) = end.poll_record().expect("the record of the other end");
            assert_eq!((channel, &record[..]), (5, text));
            assert_eq!(end.poll_record(), None);
        }
    }

    fn begin(&mut self) {
        self.settle();
        for end in &mut self.ends {
            assert!(matches!(end.poll_event(), Some(Event::Up { .. })));
            assert_eq!(end.poll_event(), None);
        }
    }
}

const KEY: &[u8] = b"a key that only hosts 0 and 1 know";

/// A trunk that works, and datagrams by their receiver: its own, and others that look alike.
fn overheard() -> (Line, Vec<(usize, Vec<u8>)>) {
    // An eavesdropper has an older session of these hosts, and sessions with another key, of another
    // cluster, and of the same hosts after a restart with the same clock.
    let mut recorded: Vec<(usize, Vec<u8>)> = Vec::new();
    for (key, cluster, seed) in [(KEY, 1, 10), (b"quite another pre-shared key", 1, 20), (KEY, 2, 30), (KEY, 1, 40)] {
        let mut other = Line::new(key, cluster, seed);
        other.begin();
        (0..20).for_each(|i| other.exchange(&[i; 50]));
        for (to, datagrams) in other.carried.iter_mut().enumerate() {
            recorded.extend(datagrams.drain(..).map(|d| (to, d)));
        }
    }
    let mut line = Line::new(KEY, 1, 50);
    line.begin();
    (0..50).for_each(|i| line.exchange(&vec![i; 7 * i as usize]));
    for (to, datagrams) in line.carried.iter_mut().enumerate() {
        recorded.extend(datagrams.drain(..).map(|d| (to, d)));
    }
    (line, recorded)
}

/// What somebody hostile makes of a datagram, and the end that gets it.
fn spoilt(random: &mut Random, mut to: usize, genuine: &[u8]) -> (usize, Vec<u8>) {
    let mut frame = genuine.to_vec();
    let bytes = |random: &mut Random, n| (0..n).map(|_| random.draw() as u8).collect::<Vec<u8>>();
    match random.below(7) {
        0 => {
            let n = random.below(2_000);
            frame = bytes(random, n);
        }
        1 => {
            // A good header, the rest random.
            let n = random.below(200);
            frame.truncate(24);
            frame.extend(bytes(random, n));
        }
        2 => frame.truncate(random.below(frame.len() as u64) as usize),
        3 => {
            let bit = random.below(8 * frame.len() as u64) as usize;
            frame[bit / 8] ^= 1 << (bit % 8);
        }
        4 => {
            // Another packet number on a genuine frame, or any other field of the header.
            let at = random.below(24) as usize;
            frame[at] = frame[at].wrapping_add(1 + random.below(255) as u8);
        }
        5 => to = 1 - to,
        _ => {}
    }
    (to, frame)
}

#[test]
fn nothing_hostile_is_accepted() {
    let seed = number("TRUNK_SEED", 1);
    let count = number("TRUNK_HOSTILE", 100_000);
    println!("again: TRUNK_SEED={seed} TRUNK_HOSTILE={count} cargo test --release -p angara-trunk hostile::");
    let mut random = Random::new(seed);

    let (mut line, recorded) = overheard();
    let before: Vec<_> = line.ends.iter().map(|e| e.stats().refused.total()).collect();
    let (mut refused, mut answered) = ([0u64; 2], 0u64);
    for i in 0..count {
        let (meant_for, genuine) = &recorded[random.below(recorded.len() as u64) as usize];
        let (to, mut frame) = spoilt(&mut random, *meant_for, genuine);
        let end = &mut line.ends[to];
        match end.handle_datagram(line.now, &mut frame) {
            Err(Refused::Violation(what)) => panic!("frame {i} was believed: {what}"),
            Err(_) => refused[to] += 1,
            // The one thing that can be replayed is the request of an earlier session: it has an answer of the
            // same length, and no effect.
            Ok(()) => {
                assert_eq!(frame[0], 1, "frame {i} of kind {} was accepted", frame[0]);
                answered += 1;
                let mut answer = Vec::new();
                assert_eq!(end.poll_transmit(line.now, &mut answer), Some(frame.len()), "frame {i}");
                assert_eq!(answer.len(), frame.len());
                let mut back = answer.clone();
                assert!(line.ends[1 - to].handle_datagram(line.now, &mut back).is_err(), "the peer did not ask");
                refused[1 - to] += 1;
            }
        }
        for end in &mut line.ends {
            assert_eq!(end.poll_event(), None, "frame {i} changed the session");
            assert_eq!(end.poll_record(), None, "frame {i} delivered something");
            assert_eq!(end.poll_transmit(line.now, &mut Vec::new()), None, "frame {i} was answered");
        }
        if i % 1_000 == 0 {
            line.exchange(&i.to_le_bytes());
            line.carried.iter_mut().for_each(Vec::clear);
        }
    }
    println!("{count} hostile frames: {refused:?} refused, {answered} old requests answered");
    for (i, end) in line.ends.iter().enumerate() {
        let stats = end.stats();
        assert_eq!(stats.refused.total() - before[i], refused[i], "all are counted");
        assert_eq!((stats.sessions, stats.retransmissions), (1, 0), "{stats:?}");
        let counts = stats.refused;
        assert!(
            [counts.foreign, counts.key, counts.session, counts.tag, counts.replay].iter().all(|n| *n > 0),
            "{counts:?}"
        );
    }
    line.exchange(b"still here");
}

#[test]
fn old_handshakes_do_not_begin_a_session() {
    let mut line = Line::new(KEY, 1, 60);
    line.begin();
    let recorded = line.carried.clone();
    // Host 1 is new, and somebody plays what host 0 said to its predecessor.
    let mut reborn = association(1, 0, KEY, 1, 70);
    for _ in 0..3 {
        for datagram in &recorded[1] {
            let _ = reborn.handle_datagram(line.now, &mut datagram.clone());
            reborn.poll_transmit(line.now, &mut Vec::new());
        }
    }
    assert_eq!((reborn.poll_event(), reborn.is_up()), (None, false));
}

#[test]
fn keys_change_while_records_flow() {
    let mut line = Line::new(KEY, 1, 80);
    line.begin();
    line.exchange(b"with key 1");
    let mut ring = KeyRing::new(1, KEY).unwrap();
    ring.add(2, b"the key of the new year").unwrap();
    line.ends.iter_mut().for_each(|e| e.set_keys(&ring));
    line.exchange(b"both known");
    ring.activate(2).unwrap();
    line.ends[0].set_keys(&ring);
    line.exchange(b"one sends with 2");
    line.ends[1].set_keys(&ring);
    ring.remove(1).unwrap();
    line.ends.iter_mut().for_each(|e| e.set_keys(&ring));
    line.carried.iter_mut().for_each(Vec::clear);
    line.exchange(b"1 is gone");
    assert!(line.carried.iter().flatten().all(|d| d[1] == 2), "all frames name key 2");
    assert!(line.ends.iter_mut().all(|e| e.poll_event().is_none() && e.stats().refused.key == 0));
}

#[test]
fn different_keys_never_meet() {
    for (other, cluster, why) in [(&b"a key that the others do not know"[..], 1, "tag"), (KEY, 9, "foreign")] {
        let mut ends = [association(0, 1, KEY, 1, 1), association(1, 0, other, cluster, 2)];
        let mut now = Duration::ZERO;
        for _ in 0..1_000 {
            now += Duration::from_millis(10);
            for from in 0..2 {
                let mut batch = Vec::new();
                ends[from].handle_timeout(now);
                while let Some(segment) = ends[from].poll_transmit(now, &mut batch) {
                    batch.chunks_mut(segment).for_each(|d| assert!(ends[1 - from].handle_datagram(now, d).is_err()));
                    batch.clear();
                }
            }
        }
        for end in &mut ends {
            let refused = end.stats().refused;
            let counted = if why == "tag" { refused.tag } else { refused.foreign };
            assert!(!end.is_up() && counted > 10 && counted == refused.total(), "{refused:?}");
            assert!(end.stats().frames_sent < 60, "looking for a peer is cheap: {:?}", end.stats());
        }
    }
}

#[test]
fn records_cannot_be_read_on_the_way() {
    let mut line = Line::new(KEY, 1, 60);
    line.begin();
    let text = b"what nobody between the hosts shall read";
    line.exchange(text);
    let datagrams = || line.carried.iter().flatten();
    assert!(datagrams().any(|d| d.len() > text.len()), "the record was on the way");
    assert!(!datagrams().any(|d| d.windows(8).any(|w| text.windows(8).any(|t| t == w))));
}
