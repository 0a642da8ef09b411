//! How a trunk uses the line: quietly when idle, without loss into a full receiver, steadily over a bad path.
//! Time is virtual, so the figures are exact and the same on every machine.

use crate::net::Random;
use angara_trunk::{Association, Config, Event, Impairment, KeyRing, Why};
use std::collections::VecDeque;
use std::time::Duration;

const DELAY: Duration = Duration::from_micros(25);

/// Two associations, and a line that delays, drops and carries datagrams up to a size.
struct Line {
    ends: [Association; 2],
    now: Duration,
    flying: VecDeque<(Duration, usize, Vec<u8>)>,
    random: Random,
    loss: u64,
    mtu: usize,
    carried: [u64; 2],
    deaf: bool,
}

fn config(local: u16) -> Config {
    Config::new(local, 1 - local, [3; 16], KeyRing::new(7, &[9; 32]).unwrap(), [local as u8; 32])
}

impl Line {
    fn new(configure: impl Fn(&mut Config)) -> Line {
        let end = |local| {
            let mut config = config(local);
            configure(&mut config);
            Association::new(config, Duration::ZERO).unwrap()
        };
        let mut line = Line {
            ends: [end(0), end(1)],
            now: Duration::ZERO,
            flying: VecDeque::new(),
            random: Random::new(1),
            loss: 0,
            mtu: usize::MAX,
            carried: [0; 2],
            deaf: false,
        };
        line.run(Duration::from_secs(1), |_| true);
        line.ends.iter_mut().for_each(|e| assert!(matches!(e.poll_event(), Some(Event::Up { .. }))));
        line
    }

    /// Lets time pass, up to a limit; `each` is called at every step until it returns false.
    fn run(&mut self, limit: Duration, mut each: impl FnMut(&mut [Association; 2]) -> bool) -> Duration {
        let (start, end) = (self.now, self.now + limit);
        while self.now < end {
            let next = self.ends.iter().filter_map(Association::poll_timeout);
            let next = next.chain(self.flying.front().map(|f| f.0)).min().unwrap_or(end);
            self.now = next.max(self.now + Duration::from_nanos(100)).min(end);
            while self.flying.front().is_some_and(|f| f.0 <= self.now) {
                let Some((_, to, mut datagram)) = self.flying.pop_front() else { break };
                // A handshake that is over may still be answered.
                let _ = self.ends[to].handle_datagram(self.now, &mut datagram);
            }
            if !each(&mut self.ends) {
                break;
            }
            for from in 0..2 {
                self.ends[from].handle_timeout(self.now);
                let mut batch = Vec::new();
                while let Some(segment) = self.ends[from].poll_transmit(self.now, &mut batch) {
                    for datagram in batch.chunks(segment) {
                        self.carried[from] += 1;
                        let lost = self.random.below(1_000) < self.loss || datagram.len() > self.mtu;
                        if !lost && !self.deaf {
                            self.flying.push_back((self.now + DELAY, 1 - from, datagram.to_vec()));
                        }
                    }
                    batch.clear();
                }
            }
        }
        self.now - start
    }

    /// Bytes per second of `total` bytes from one end to the other.
    fn stream(&mut self, total: usize) -> f64 {
        let record = vec![1; 1_000];
        let (mut sent, mut arrived) = (0, 0);
        let time = self.run(Duration::from_secs(60), |[a, b]| {
            while sent < total && a.backlog() < 4 << 20 {
                a.send(1, &record).unwrap();
                sent += record.len();
            }
            while let Some((_, record)) = b.poll_record() {
                arrived += record.len();
            }
            arrived < total
        });
        assert!(arrived >= total, "{arrived} of {total} bytes: {:?}", self.ends[0].stats());
        total as f64 / time.as_secs_f64()
    }
}

#[test]
fn an_idle_trunk_says_little() {
    let mut line = Line::new(|_| ());
    let before = line.carried;
    line.run(Duration::from_secs(10), |_| true);
    for (now, before) in line.carried.iter().zip(before) {
        // A heartbeat every 200 ms from either side, and the other's answer.
        assert!((40..=110).contains(&(now - before)), "{} datagrams in 10 s", now - before);
    }
    assert!(line.ends.iter_mut().all(|e| e.poll_event().is_none()));
}

#[test]
fn a_full_receiver_stops_the_sender_and_loses_nothing() {
    let mut line = Line::new(|c| c.receive_window = 256 << 10);
    let mut sent = 0u32;
    line.run(Duration::from_secs(3), |[a, _]| {
        while a.backlog() < 1 << 20 {
            a.send(0, &[sent.to_le_bytes(); 300].concat()).unwrap();
            sent += 1;
        }
        true
    });
    let stats = line.ends[0].stats();
    assert_eq!(stats.lost, 0, "{stats:?}");
    assert!(line.ends[1].memory() < 4 * (256 << 10), "{} bytes", line.ends[1].memory());
    assert!(line.ends[1].stats().duplicate_bytes < 100_000, "{:?}", line.ends[1].stats());
    let mut next = 0u32;
    line.run(Duration::from_secs(10), |[_, b]| {
        while let Some((_, record)) = b.poll_record() {
            assert_eq!(record[..4], next.to_le_bytes());
            next += 1;
        }
        next < sent
    });
    assert_eq!(next, sent);
}

#[test]
fn losses_slow_it_down_but_never_stop_it() {
    let clean = Line::new(|c| c.mtu_max = 1_472).stream(64 << 20);
    // 25 us each way and a window of 2 MiB allow 40 GB/s; the start of the window takes a little.
    assert!(clean > 1e9, "{clean:.2e} B/s on a clean line");
    for (loss, share) in [(10, 0.1), (100, 0.01)] {
        let mut line = Line::new(|c| c.mtu_max = 1_472);
        line.loss = loss;
        let speed = line.stream(64 << 20);
        let stats = line.ends[0].stats();
        println!("{loss} of 1000 lost: {speed:.2e} of {clean:.2e} B/s, {stats:?}");
        assert!(speed > share * clean, "{loss} of 1000 lost: {speed:.2e} of {clean:.2e} B/s, {stats:?}");
        let estimated = stats.loss * 1_000.0;
        assert!((0.5 * loss as f64..2.0 * loss as f64).contains(&estimated), "{estimated} of 1000 estimated");
        let needed = 64.0 * 1024.0 * 1024.0 / 1_400.0 / (1.0 - loss as f64 / 1_000.0);
        assert!((stats.frames_sent as f64) < 1.2 * needed, "{} frames where {needed:.0} do", stats.frames_sent);
    }
}

#[test]
fn the_datagram_size_follows_the_path() {
    for (path, found) in [(1_472, 1_472), (9_000, 8_972), (65_507, 65_507)] {
        let mut line = Line::new(|_| ());
        line.mtu = path;
        // Whatever was found on the line without a limit must be given up.
        line.stream(8 << 20);
        line.run(Duration::from_secs(2), |_| true);
        assert_eq!(line.ends[0].stats().mtu, found, "path of {path}");
        line.stream(8 << 20);
        line.ends.iter_mut().for_each(|e| assert_eq!(e.poll_event(), None));
    }
}

#[test]
fn a_dead_peer_is_noticed_in_time_and_found_again() {
    let mut line = Line::new(|_| ());
    line.deaf = true;
    let cut = line.now;
    let mut noticed = Vec::new();
    line.run(Duration::from_secs(5), |ends| {
        for end in ends {
            if let Some(Event::Down { why, since }) = end.poll_event() {
                noticed.push((why, since));
            }
        }
        noticed.len() < 2
    });
    let took = line.now - cut;
    assert!(took <= Duration::from_millis(2_300), "{took:?}");
    for (why, since) in noticed {
        assert_eq!(why, Why::Silent);
        assert!(since <= cut + DELAY && since + Duration::from_millis(300) > cut, "{since:?} for {cut:?}");
    }
    line.run(Duration::from_secs(20), |_| true);
    line.deaf = false;
    let took = line.run(Duration::from_secs(20), |ends| !ends.iter().all(Association::is_up));
    assert!(took <= Duration::from_millis(600), "found again after {took:?}");
    line.stream(1 << 20);
}

#[test]
fn a_goodbye_is_heard_at_once() {
    let mut line = Line::new(|_| ());
    line.ends[0].close();
    line.run(Duration::from_millis(1), |_| true);
    assert!(matches!(line.ends[1].poll_event(), Some(Event::Down { why: Why::Closed, .. })));
}

#[test]
fn impairments_are_survived_and_taken_back() {
    let mut line = Line::new(|_| ());
    let what =
        Impairment { drop: 100_000, corrupt: 50_000, duplicate: 100_000, reorder: 100_000, ..Impairment::default() };
    let what = Impairment { seed: Some(3), ..what };
    line.ends[0].impair(what);
    line.stream(8 << 20);
    let refused = line.ends[1].stats().refused;
    assert!(refused.tag > 0 && refused.replay > 0, "{refused:?}");
    line.ends[0].impair(Impairment { rate: 100_000_000, ..Impairment::default() });
    line.run(Duration::from_millis(10), |_| true);
    let speed = line.stream(32 << 20);
    assert!((30e6..110e6).contains(&speed), "{speed:.2e} B/s through 1e8");
    line.ends[0].impair(Impairment::default());
    line.run(Duration::from_millis(10), |_| true);
    let (before, stats) = (line.ends[0].stats().lost, line.ends[1].stats().refused);
    line.stream(8 << 20);
    assert_eq!((line.ends[0].stats().lost, line.ends[1].stats().refused), (before, stats));
}
