//! The sending half of a session: the stream, what is under way, what is lost.

use super::receive::RECORD_HEAD;
use crate::clock::Nanos;
use crate::frame::Ack;
use crate::ranges::Ranges;
use crate::rtt::{MICROS, Rtt};
use crate::stats::Stats;
use crate::stream::Stream;
use crate::window::{BATCH, Window};
use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::Range;

/// A frame is lost when one sent this many later has arrived.
const OVERTAKEN: u64 = 3;
/// Frames under way.
const SENT_MAX: usize = 8_192;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SegmentState {
    /// May still be acknowledged.
    UnderWay,
    /// Acknowledged, declared lost, or never to be acknowledged.
    Settled,
}

#[derive(Clone, Debug)]
struct Sent {
    at: Nanos,
    /// Stream bytes it carried.
    data: Range<u64>,
    /// Bytes that count against the window.
    size: u32,
    state: SegmentState,
}

#[derive(Debug)]
pub(super) struct Sender {
    stream: Stream,
    /// Everything below has arrived.
    start: u64,
    /// Nothing from here on has been sent.
    fresh: u64,
    /// The peer takes bytes up to here.
    limit: u64,
    again: Ranges,
    sent: VecDeque<Sent>,
    /// Number of the first of `sent`.
    first: u64,
    in_flight: usize,
    /// The window was full, and is not yet so empty that a batch is worth its while.
    closed: bool,
    eliciting: usize,
    last_eliciting: Nanos,
    /// Highest number acknowledged, and when the next of those below it counts as lost.
    largest: u64,
    lost_at: Option<Nanos>,
    pub(super) backoff: u32,
    /// Frames to send although the window is full.
    pub(super) probes: u8,
    /// When the peer last confirmed something.
    progress_at: Nanos,
}

impl Sender {
    pub(super) fn new(window: u32, now: Nanos) -> Self {
        Sender {
            stream: Stream::default(),
            start: 0,
            fresh: 0,
            limit: u64::from(window),
            again: Ranges::default(),
            sent: VecDeque::new(),
            first: 0,
            in_flight: 0,
            closed: false,
            eliciting: 0,
            last_eliciting: now,
            largest: 0,
            lost_at: None,
            backoff: 0,
            probes: 0,
            progress_at: now,
        }
    }

    /// Bytes queued or unacknowledged.
    pub(super) fn backlog(&self) -> usize {
        (self.stream.end() - self.start) as usize
    }

    /// Appends a record: `head`, then `rest`.
    pub(super) fn push(&mut self, channel: u16, head: &[u8], rest: Bytes) {
        let mut start = [0; RECORD_HEAD];
        start[..2].copy_from_slice(&channel.to_le_bytes());
        start[2..].copy_from_slice(&((head.len() + rest.len()) as u16).to_le_bytes());
        self.stream.push(&start);
        self.stream.push(head);
        self.stream.push_shared(rest);
    }

    /// Returns the stream bytes to send next, at most `space` of them, and whether they are sent for the second time.
    pub(super) fn next_data(&self, space: usize) -> Option<(Range<u64>, bool)> {
        let cut = |r: Range<u64>| r.start..r.end.min(r.start + space as u64);
        if let Some(r) = self.again.first() {
            return Some((cut(r), true));
        }
        let fresh = self.fresh..self.stream.end().min(self.limit);
        (fresh.start < fresh.end).then(|| (cut(fresh), false))
    }

    /// Appends stream bytes to a frame.
    pub(super) fn copy(&self, range: Range<u64>, out: &mut Vec<u8>) {
        self.stream.copy(range, out);
    }

    /// Something is left to send, but the peer has no room for it.
    pub(super) fn blocked(&self) -> bool {
        self.again.is_empty() && self.fresh < self.stream.end() && self.fresh >= self.limit
    }

    pub(super) fn window_is_open(&self) -> bool {
        (!self.closed && self.sent.len() < SENT_MAX) || self.probes > 0
    }

    /// To be called when the bytes under way or the window have changed. A full window opens again for a batch, not
    /// for a frame: else every acknowledgement would let one frame go that asks for the next one.
    fn open_or_close(&mut self, window: &Window) {
        let room = window.size().saturating_sub(self.in_flight);
        self.closed = room == 0 || (self.closed && room < BATCH.min(window.size() / 4));
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The peer takes nothing beyond this offset.
    pub(super) fn fills_limit(&self, end: u64) -> bool {
        end >= self.limit
    }

    /// Since when the peer has confirmed nothing of what it should.
    pub(super) fn waiting_since(&self) -> Option<Nanos> {
        (self.eliciting > 0).then_some(self.progress_at)
    }

    /// Packet number of the next frame.
    pub(super) fn number(&self) -> u64 {
        self.first + self.sent.len() as u64
    }

    /// A frame left. `eliciting`: it will be acknowledged.
    pub(super) fn left(&mut self, now: Nanos, data: Range<u64>, size: usize, eliciting: bool, window: &Window) {
        if eliciting {
            if self.eliciting == 0 {
                self.progress_at = self.progress_at.max(now);
            }
            self.last_eliciting = now;
            self.eliciting += 1;
            self.probes = self.probes.saturating_sub(1);
        }
        self.fresh = self.fresh.max(data.end);
        self.again.remove(data.clone());
        let size = if data.is_empty() { 0 } else { size };
        self.in_flight += size;
        self.open_or_close(window);
        let state = if eliciting { SegmentState::UnderWay } else { SegmentState::Settled };
        self.sent.push_back(Sent { at: now, data, size: size as u32, state });
        self.forget_settled();
    }

    fn forget_settled(&mut self) {
        while self.sent.front().is_some_and(|s| s.state == SegmentState::Settled) {
            self.sent.pop_front();
            self.first += 1;
        }
    }

    /// Takes an acknowledgement.
    pub(super) fn acknowledge(
        &mut self,
        ack: &Ack,
        now: Nanos,
        rtt: &mut Rtt,
        window: &mut Window,
        mtu: usize,
        stats: &mut Stats,
    ) -> Result<(), &'static str> {
        let largest = ack.ranges[0].end - 1;
        if largest >= self.number() {
            return Err("an acknowledgement of a frame that was never sent");
        }
        if ack.next > self.fresh {
            return Err("an acknowledgement of bytes that were never sent");
        }
        let mut progress = false;
        let limited = self.in_flight * 2 >= window.size();
        for range in &ack.ranges {
            if range.end <= self.first {
                break;
            }
            let range = range.start.max(self.first)..range.end;
            for number in range {
                let sent = &mut self.sent[(number - self.first) as usize];
                if sent.state != SegmentState::UnderWay {
                    continue;
                }
                sent.state = SegmentState::Settled;
                self.in_flight -= sent.size as usize;
                self.eliciting -= 1;
                progress = true;
                if number == largest {
                    rtt.sample(now.saturating_sub(sent.at), Nanos::from(ack.delay_us) * MICROS);
                }
                window.acknowledged(sent.size as usize, sent.at, mtu, limited);
                self.again.remove(sent.data.clone());
            }
        }
        if ack.next > self.start {
            self.start = ack.next;
            self.stream.release(self.start);
            self.again.remove(0..self.start);
            progress = true;
        }
        self.limit = self.limit.max(ack.next + u64::from(ack.room));
        if progress {
            self.progress_at = now;
            self.backoff = 0;
        }
        self.largest = self.largest.max(largest);
        self.find_lost(now, rtt, window, mtu, stats);
        Ok(())
    }

    /// Declares lost what newer frames have overtaken, or what is late after them.
    fn find_lost(&mut self, now: Nanos, rtt: &Rtt, window: &mut Window, mtu: usize, stats: &mut Stats) {
        self.lost_at = None;
        let late = rtt.loss_delay();
        for (i, sent) in self.sent.iter_mut().enumerate() {
            let number = self.first + i as u64;
            if number >= self.largest {
                break;
            }
            if sent.state != SegmentState::UnderWay {
                continue;
            }
            if number + OVERTAKEN > self.largest && sent.at + late > now {
                let at = sent.at + late;
                self.lost_at = Some(self.lost_at.map_or(at, |already| already.min(at)));
                continue;
            }
            sent.state = SegmentState::Settled;
            self.in_flight -= sent.size as usize;
            self.eliciting -= 1;
            if !sent.data.is_empty() {
                let data = sent.data.start.max(self.start)..sent.data.end;
                self.again.insert(data);
                stats.lost += 1;
                window.lost(now, sent.size as usize, sent.at, mtu);
            }
        }
        self.open_or_close(window);
        self.forget_settled();
    }

    /// When [`Sender::on_timeout`] wants to be called.
    pub(super) fn deadline(&self, rtt: &Rtt) -> Option<Nanos> {
        if self.lost_at.is_some() {
            return self.lost_at;
        }
        (self.eliciting > 0 || self.blocked()).then(|| self.last_eliciting + rtt.timeout(self.backoff))
    }

    /// A deadline has passed. Returns whether a frame must be sent to make the peer answer.
    pub(super) fn on_timeout(
        &mut self,
        now: Nanos,
        rtt: &Rtt,
        window: &mut Window,
        mtu: usize,
        stats: &mut Stats,
    ) -> bool {
        if let Some(at) = self.lost_at {
            if at <= now {
                self.find_lost(now, rtt, window, mtu, stats);
            }
            return false;
        }
        if self.deadline(rtt).is_none_or(|at| at > now) {
            return false;
        }
        stats.timeouts += 1;
        self.backoff += 1;
        self.last_eliciting = now;
        self.probes = 2;
        // The oldest bytes are what the peer waits for.
        let oldest = self.sent.iter().filter(|s| s.state == SegmentState::UnderWay && s.data.end > self.start).take(2);
        for data in oldest.map(|s| s.data.start.max(self.start)..s.data.end).collect::<Vec<_>>() {
            self.again.insert(data);
        }
        self.again.is_empty()
    }

    /// Bytes of memory held.
    pub(super) fn memory(&self) -> usize {
        self.stream.memory() + self.sent.len() * size_of::<Sent>()
    }
}
