//! A bad network, made in the sending process: the kernel would need netem and privileges for it.
//!
//! The fate of the n-th datagram follows from the seed and n alone. An [`Impairment`] that drops all is a cut line;
//! datagrams to be overtaken leave 500 us late; on a line with a limited rate, datagrams that do not fit into a queue
//! of 256 KiB are dropped.

use crate::clock::Nanos;
use crate::rtt::MICROS;
use crate::window::BATCH;
use angara_abi::random::{STEP, mix};
use angara_net::fault::Impairment;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How much longer than the others a datagram takes that is to be overtaken.
const OVERTAKEN_BY: Nanos = 500 * MICROS;
/// Bytes a rate-limited line queues before it drops.
const QUEUE: u64 = 256 << 10;

pub(crate) struct Impaired {
    what: Impairment,
    /// Datagrams seen.
    count: u64,
    /// When the rate-limited line is free again.
    line_free: Nanos,
    /// By time of departure, then by arrival here.
    waiting: BinaryHeap<Reverse<(Nanos, u64, Vec<u8>)>>,
    order: u64,
}

impl Impaired {
    pub(crate) fn new(what: Impairment) -> Self {
        Impaired { what, count: 0, line_free: 0, waiting: BinaryHeap::new(), order: 0 }
    }

    /// Another impairment; what is on its way stays so.
    pub(crate) fn change(&mut self, what: Impairment) {
        (self.what, self.count) = (what, 0);
    }

    /// No longer needed.
    pub(crate) fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.what.is_none()
    }

    /// Depends on seed, datagram and purpose.
    fn draw(&self, purpose: u64) -> u64 {
        mix(self.what.seed.unwrap_or(0).wrapping_add((self.count * 8 + purpose).wrapping_mul(STEP)))
    }

    /// `share` in parts per million.
    fn happens(&self, purpose: u64, share: u32) -> bool {
        ((self.draw(purpose) >> 11) as f64) < f64::from(share) / 1e6 * (1u64 << 53) as f64
    }

    /// A datagram is to leave.
    pub(crate) fn admit(&mut self, now: Nanos, datagram: &[u8]) {
        self.count += 1;
        let Impairment { corrupt, drop, duplicate, reorder, delay_ps, rate, seed: _ } = self.what;
        if self.happens(0, drop) {
            return;
        }
        let mut bytes = datagram.to_vec();
        if self.happens(1, corrupt) {
            let bit = self.draw(2) as usize % (8 * bytes.len());
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let copies = 1 + usize::from(self.happens(3, duplicate));
        let late = if self.happens(4, reorder) { OVERTAKEN_BY } else { 0 };
        for _ in 0..copies {
            let mut at = now;
            if rate > 0 {
                let time = |bytes: u64| (u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as Nanos;
                if self.line_free > now + time(QUEUE) {
                    continue;
                }
                self.line_free = self.line_free.max(now) + time(bytes.len() as u64);
                at = self.line_free;
            }
            self.order += 1;
            self.waiting.push(Reverse((at + delay_ps / 1000 + late, self.order, bytes.clone())));
        }
    }

    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.waiting.peek().map(|Reverse((at, ..))| *at)
    }

    /// Appends datagrams of equal size (the last perhaps shorter) whose time has come; returns that size.
    pub(crate) fn release(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<usize> {
        let (start, mut segment) = (out.len(), 0);
        while let Some(Reverse((at, _, bytes))) = self.waiting.peek() {
            let used = out.len() - start;
            if *at > now || (segment > 0 && (bytes.len() > segment || used + bytes.len() > BATCH)) {
                break;
            }
            segment = if segment == 0 { bytes.len() } else { segment };
            let last = bytes.len() < segment;
            out.extend_from_slice(bytes);
            self.waiting.pop();
            if last || out.len() - start >= 64 * segment {
                break;
            }
        }
        (segment > 0).then_some(segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what leaves when 10,000 numbered datagrams are sent 1 us apart: time and number.
    fn send(what: Impairment) -> Vec<(Nanos, u32)> {
        let mut line = Impaired::new(what);
        let (mut now, mut left, mut out) = (0, Vec::new(), Vec::new());
        for i in 0..10_000u32 {
            now += MICROS;
            let mut datagram = vec![0; 100];
            datagram[..4].copy_from_slice(&i.to_le_bytes());
            line.admit(now, &datagram);
        }
        while let Some(at) = line.deadline() {
            let segment = line.release(at, &mut out).expect("its time has come");
            left.extend(out.chunks(segment).map(|d| (at, u32::from_le_bytes(d[..4].try_into().unwrap()))));
            out.clear();
        }
        left
    }

    fn order(left: &[(Nanos, u32)]) -> Vec<u32> {
        left.iter().map(|(_, i)| *i).collect()
    }

    #[test]
    fn does_what_was_asked_for() {
        let all: Vec<u32> = (0..10_000).collect();
        let none = Impairment { seed: Some(5), ..Impairment::default() };
        assert_eq!(order(&send(none)), all);
        let dropped = order(&send(Impairment { drop: 100_000, ..none }));
        assert!((8_800..9_200).contains(&dropped.len()), "{}", dropped.len());
        assert_eq!(dropped, order(&send(Impairment { drop: 100_000, ..none })), "the seed decides");
        assert_ne!(dropped, order(&send(Impairment { drop: 100_000, seed: Some(6), ..none })));
        assert_eq!(send(Impairment { drop: 1_000_000, ..none }), []);
        let doubled = order(&send(Impairment { duplicate: 100_000, ..none }));
        assert!((10_800..11_200).contains(&doubled.len()), "{}", doubled.len());
        let mut mixed = order(&send(Impairment { reorder: 100_000, ..none }));
        assert_ne!(mixed, all);
        mixed.sort_unstable();
        assert_eq!(mixed, all);
        let damaged = order(&send(Impairment { corrupt: 1_000_000, ..none }));
        assert!(damaged.iter().zip(&all).filter(|(a, b)| a != b).count() > 100, "4 of 100 bytes are looked at");
    }

    #[test]
    fn keeps_time() {
        let late = send(Impairment { delay_ps: 3_000_000_000, ..Impairment::default() });
        assert_eq!(late[0], (3_000 * MICROS + MICROS, 0));
        // 100 bytes take 2 us, and come every 1 us: the queue fills, then half of them are dropped.
        let limited = send(Impairment { rate: 50_000_000, ..Impairment::default() });
        assert!((7_000..8_000).contains(&limited.len()), "{}", limited.len());
        assert!(limited.windows(2).all(|w| w[1].0 - w[0].0 == 2 * MICROS));
    }
}
