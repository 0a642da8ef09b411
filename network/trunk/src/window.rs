//! How much may be under way, and how fast it may leave.
//!
//! A LAN loses frames because a buffer overflowed, because a cable is bad, or because somebody asked for it
//! with `angara fault`. The window answers the first like TCP does (slow start, additive increase, once
//! per round trip a decrease by 0.7), takes losses of up to 2 % for the second and third, and never falls below
//! a floor that keeps the line busy under any of them. Silence does not shrink it: then only a frame or two leave
//! per timeout anyway, and on a busy machine the peer is mostly just not running.

use crate::clock::Nanos;
use crate::rtt::Rtt;

/// Bytes of one GSO batch: with all headers less than 64 KiB, or the kernel cuts it before it is delivered, which
/// costs loopback nine tenths of its speed.
pub(crate) const BATCH: usize = 65_400;
const START: usize = 4 * BATCH;
const LARGEST: usize = 64 << 20;
const SMALLEST: usize = BATCH;
/// Losses are counted over this many bytes, or two windows if that is more.
const SAMPLE: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Window {
    size: usize,
    /// Below it the window doubles per round trip.
    threshold: usize,
    /// Losses of what was sent before do not count again.
    recovery: Nanos,
    /// Bytes of late whose fate is known, and how many of them were lost; both halved now and then.
    settled: usize,
    lost: usize,
    /// Bytes that may leave at once, and when that was so.
    allowance: f64,
    counted: Nanos,
}

impl Window {
    pub(crate) fn new(now: Nanos) -> Self {
        Window {
            size: START,
            threshold: LARGEST,
            recovery: 0,
            settled: 0,
            lost: 0,
            allowance: 2.0 * BATCH as f64,
            counted: now,
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Share of bytes lost of late.
    pub(crate) fn loss(&self) -> f64 {
        self.lost as f64 / self.settled.max(1) as f64
    }

    fn floor(mtu: usize) -> usize {
        SMALLEST.max(2 * mtu)
    }

    /// `bytes` have arrived; `limited`: the window was what kept more from being sent.
    pub(crate) fn acknowledged(&mut self, bytes: usize, sent: Nanos, mtu: usize, limited: bool) {
        self.settle(bytes);
        if !limited || sent < self.recovery {
            return;
        }
        let more = if self.size < self.threshold { bytes } else { (bytes * mtu / self.size).max(1) };
        self.size = (self.size + more).min(LARGEST);
    }

    fn settle(&mut self, bytes: usize) {
        self.settled += bytes;
        if self.settled > SAMPLE.max(2 * self.size) {
            self.settled /= 2;
            self.lost /= 2;
        }
    }

    /// A frame sent at `sent` is lost.
    pub(crate) fn lost(&mut self, now: Nanos, bytes: usize, sent: Nanos, mtu: usize) {
        self.lost += bytes;
        self.settle(bytes);
        let enough = self.settled >= SAMPLE / 2;
        if sent < self.recovery || (enough && self.lost * 50 < self.settled) {
            return;
        }
        self.recovery = now;
        self.size = (self.size * 7 / 10).max(Self::floor(mtu));
        self.threshold = self.size;
    }

    /// Bytes per nanosecond, and how many may leave at once.
    fn pace(&self, rtt: &Rtt) -> (f64, f64) {
        // The shortest round trip, as the others contain waits for a processor at either end.
        let rate = 2.0 * self.size as f64 / rtt.minimum.min(rtt.smoothed).max(1) as f64;
        (rate, 2.0 * BATCH as f64 + rate * 100_000.0)
    }

    /// When the next batch may leave.
    pub(crate) fn release(&mut self, now: Nanos, rtt: &Rtt) -> Nanos {
        let (rate, burst) = self.pace(rtt);
        self.allowance = (self.allowance + (now - self.counted) as f64 * rate).min(burst);
        self.counted = now;
        if self.allowance >= 0.0 { now } else { now + (-self.allowance / rate) as Nanos + 1 }
    }

    /// Something left.
    pub(crate) fn left(&mut self, bytes: usize) {
        self.allowance -= bytes as f64;
    }
}
