//! One session: from a handshake until the peer restarts, says goodbye or falls silent.

use super::receive::{Receiver, Urgency};
use super::send::Sender;
use crate::clock::{Nanos, nanos};
use crate::config::Config;
use crate::frame::{self, ACK_NOW, Block, Blocks, DATA, FrameKind, HEADER, Header, TAG};
use crate::keys::{FrameKeys, Keys, Nonces};
use crate::mtu::Mtu;
use crate::rtt::Rtt;
use crate::stats::{Refused, Stats};
use crate::window::{BATCH, Window};
use bytes::Bytes;

/// Datagrams one GSO send may carry.
const SEGMENTS_MAX: usize = 64;
/// Timeouts in a row after which the datagram size is suspected.
const BLACK_HOLE: u32 = 3;
/// A goodbye is not acknowledged, so it is said more than once.
const GOODBYES: u8 = 3;

/// Keys and numbers that all frames of an association have in common.
pub(super) struct Address {
    pub(super) keys: Keys,
    pub(super) local: u16,
    pub(super) peer: u16,
    pub(super) cluster: u32,
}

/// Why a session ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// Nothing genuine was heard for `dead_after`.
    Silent,
    /// The peer is heard, but has confirmed nothing for twice `dead_after`.
    NoProgress,
    /// The peer closed it.
    Closed,
    /// The peer broke the protocol.
    Violation(&'static str),
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Why::Silent => f.write_str("nothing was heard from it"),
            Why::NoProgress => f.write_str("it is heard but confirms nothing"),
            Why::Closed => f.write_str("it said goodbye"),
            Why::Violation(what) => write!(f, "it broke the protocol: {what}"),
        }
    }
}

pub(super) struct Session {
    frame_keys: FrameKeys,
    heartbeat: Nanos,
    dead_after: Nanos,
    send: Sender,
    receive: Receiver,
    rtt: Rtt,
    window: Window,
    mtu: Mtu,
    /// Earliest departure of the next data frame.
    release: Nanos,
    ping: bool,
    goodbyes: u8,
    last_sent: Nanos,
    /// When the peer was last heard.
    pub(super) heard: Nanos,
    /// The peer has shown that it has this session, too.
    pub(super) confirmed: bool,
    /// The peer knows that we have it.
    pub(super) acknowledged: bool,
}

/// Content of the next frame.
struct NextFrame {
    data: Option<(std::ops::Range<u64>, bool)>,
    probe: Option<usize>,
}

impl Session {
    pub(super) fn new(config: &Config, nonces: Nonces, peer_window: u32, peer_mtu: u32, now: Nanos) -> Self {
        Session {
            frame_keys: FrameKeys::new(nonces),
            heartbeat: nanos(config.heartbeat),
            dead_after: nanos(config.dead_after),
            send: Sender::new(peer_window, now),
            receive: Receiver::new(config.receive_window),
            rtt: Rtt::new(),
            window: Window::new(now),
            mtu: Mtu::new(config.mtu_start, config.mtu_max.min(peer_mtu as usize), now),
            release: now,
            ping: false,
            goodbyes: 0,
            last_sent: now,
            heard: now,
            confirmed: false,
            acknowledged: false,
        }
    }

    pub(super) fn nonces(&self) -> &Nonces {
        &self.frame_keys.nonces
    }

    pub(super) fn keys_changed(&mut self) {
        self.frame_keys.forget();
    }

    pub(super) fn backlog(&self) -> usize {
        self.send.backlog()
    }

    pub(super) fn push(&mut self, channel: u16, head: &[u8], rest: Bytes) {
        self.send.push(channel, head, rest);
    }

    pub(super) fn record(&mut self) -> Option<(u16, Bytes)> {
        self.receive.record()
    }

    pub(super) fn flush_acks(&mut self, now: Nanos) {
        self.receive.flush(now);
    }

    /// The next frame says that we are there.
    pub(super) fn ping(&mut self) {
        self.ping = true;
    }

    pub(super) fn say_goodbye(&mut self) {
        self.goodbyes = GOODBYES;
    }

    pub(super) fn memory(&self) -> usize {
        self.send.memory() + self.receive.memory()
    }

    /// Takes a datagram of this session.
    pub(super) fn handle(
        &mut self,
        address: &Address,
        header: &Header,
        datagram: &mut [u8],
        now: Nanos,
        stats: &mut Stats,
    ) -> Result<Option<Why>, Refused> {
        if !self.receive.is_new(header.number) {
            return Err(Refused::Replay);
        }
        if !self.frame_keys.open(&address.keys, header.key, header.number, datagram) {
            return Err(Refused::Tag);
        }
        self.heard = now;
        self.confirmed = true;
        let in_order = self.receive.note(header.number, now);
        let mut urgency = Urgency::Never;
        let body = &datagram[HEADER..datagram.len() - TAG];
        for block in Blocks(body) {
            match block.map_err(Refused::Violation)? {
                Block::Ack(ack) => {
                    let mtu = self.mtu.current();
                    let acked = self.send.acknowledge(&ack, now, &mut self.rtt, &mut self.window, mtu, stats);
                    acked.map_err(Refused::Violation)?;
                    self.acknowledged = true;
                    self.mtu.acknowledged(&ack.ranges);
                }
                Block::Data { flags, offset, bytes } => {
                    stats.duplicate_bytes += self.receive.take(offset, bytes).map_err(Refused::Violation)?;
                    let hurry = flags & ACK_NOW != 0 || !in_order;
                    urgency = if hurry { Urgency::Now } else { Urgency::Soon };
                }
                Block::Ping => urgency = Urgency::Now,
                Block::Close => return Ok(Some(Why::Closed)),
            }
        }
        self.receive.owe(now, datagram.len(), urgency);
        Ok(None)
    }

    /// Appends frames of equal size, the last perhaps smaller. Returns that size.
    pub(super) fn fill(
        &mut self,
        address: &Address,
        now: Nanos,
        stats: &mut Stats,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let start = out.len();
        let mtu = self.mtu.current();
        let mut segment = 0;
        for _ in 0..SEGMENTS_MAX {
            // Only whole datagrams follow a whole one; whatever is shorter is the last.
            if segment > 0 && (segment < mtu || out.len() - start + segment > BATCH) {
                break;
            }
            let Some(plan) = self.plan(now, segment, mtu) else { break };
            let alone = plan.probe.is_some();
            let before = out.len();
            self.emit(address, plan, mtu, now, stats, out);
            let size = out.len() - before;
            if segment == 0 {
                segment = size;
            }
            if size < segment || alone {
                break;
            }
        }
        (segment > 0).then_some(segment)
    }

    /// Decides about the next frame of a batch whose frames have `segment` bytes (0: none yet).
    fn plan(&mut self, now: Nanos, segment: usize, limit: usize) -> Option<NextFrame> {
        if segment == 0 {
            if self.goodbyes > 0 || self.ping {
                return Some(NextFrame { data: None, probe: None });
            }
            if let Some(probe) = self.mtu.due(now) {
                return Some(NextFrame { data: None, probe: Some(probe) });
            }
        }
        let head = HEADER + TAG + DATA;
        let space = limit.saturating_sub(head + self.ack_space());
        let open = self.send.window_is_open();
        let data = if open && space > 0 { self.send.next_data(space) } else { None };
        if data.is_some() {
            self.release = self.window.release(now, &self.rtt);
            if self.release <= now || self.send.probes > 0 {
                return Some(NextFrame { data, probe: None });
            }
        }
        let ack_due = segment == 0 && self.receive.ack_at().is_some_and(|at| at <= now);
        ack_due.then_some(NextFrame { data: None, probe: None })
    }

    /// Bytes an acknowledgement would take in the next frame.
    fn ack_space(&self) -> usize {
        if self.receive.owes() { frame::ACK + self.receive.extra_ranges() * frame::ACK_RANGE } else { 0 }
    }

    fn emit(
        &mut self,
        address: &Address,
        plan: NextFrame,
        limit: usize,
        now: Nanos,
        stats: &mut Stats,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        let number = self.send.number();
        Header {
            kind: FrameKind::Session,
            key: address.keys.active(),
            from: address.local,
            to: address.peer,
            cluster: address.cluster,
            session: self.nonces().session,
            number,
        }
        .encode(out);
        if self.receive.owes() || plan.data.is_none() {
            let space = limit - HEADER - TAG - 1;
            self.receive.encode_ack(now, space, out);
        }
        let mut eliciting = false;
        if plan.probe.is_some() || std::mem::take(&mut self.ping) {
            out.push(frame::PING);
            eliciting = true;
        }
        if self.goodbyes > 0 {
            self.goodbyes -= 1;
            out.push(frame::CLOSE);
        }
        let mut carried = 0..0;
        if let Some((range, again)) = plan.data {
            // Whoever cannot go on before this is acknowledged says so.
            let len = (range.end - range.start) as usize;
            let stuck = self.send.in_flight() + limit >= self.window.size() || self.send.fills_limit(range.end);
            frame::encode_data(if stuck { ACK_NOW } else { 0 }, range.start, len, out);
            self.send.copy(range.clone(), out);
            stats.retransmissions += u64::from(again);
            (carried, eliciting) = (range, true);
        }
        if let Some(size) = plan.probe {
            out.resize(start + size - TAG, 0);
            self.mtu.sent(number, size, now, now + 2 * self.rtt.timeout(self.send.backoff));
        }
        self.frame_keys.seal(&address.keys, number, start, out);
        let size = out.len() - start;
        // A probe has its own timer: its loss says nothing about the path.
        self.send.left(now, carried, size, eliciting && plan.probe.is_none(), &self.window);
        self.window.left(size);
        self.last_sent = now;
        stats.frames_sent += 1;
        stats.bytes_sent += size as u64;
    }

    /// When something is to be done, and whether that is sending right now.
    pub(super) fn deadline(&self, now: Nanos) -> Nanos {
        let mut at = (self.last_sent + self.heartbeat).min(self.heard + self.dead_after);
        if self.ping || self.goodbyes > 0 {
            at = now;
        }
        let sendable = self.send.next_data(1).is_some() && self.send.window_is_open();
        let release = sendable.then_some(if self.send.probes > 0 { now } else { self.release.max(now) });
        for next in [release, self.receive.ack_at(), self.send.deadline(&self.rtt), self.mtu.deadline()] {
            at = at.min(next.unwrap_or(at));
        }
        at
    }

    /// Does what time demands. Returns why the session is over, if it is.
    pub(super) fn on_time(&mut self, now: Nanos, stats: &mut Stats) -> Option<Why> {
        if self.heard + self.dead_after <= now {
            return Some(Why::Silent);
        }
        if self.send.waiting_since().is_some_and(|since| since + 2 * self.dead_after <= now) {
            return Some(Why::NoProgress);
        }
        self.ping |= self.mtu.expire(now, self.heard);
        let mtu = self.mtu.current();
        if self.send.on_timeout(now, &self.rtt, &mut self.window, mtu, stats) {
            self.ping = true;
        }
        if self.send.backoff >= BLACK_HOLE {
            self.mtu.black_hole(now);
        }
        if self.last_sent + self.heartbeat <= now {
            self.ping = true;
        }
        None
    }

    pub(super) fn report(&self, stats: &mut Stats) {
        let duration = std::time::Duration::from_nanos;
        if self.rtt.sampled() {
            stats.rtt = duration(self.rtt.smoothed);
            stats.rtt_variation = duration(self.rtt.variation);
            stats.rtt_min = duration(self.rtt.minimum);
        }
        stats.mtu = self.mtu.current();
        stats.loss = self.window.loss();
        stats.window = self.window.size();
    }
}
