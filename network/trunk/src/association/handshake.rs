//! How a session begins: three messages, each showing that its sender knows the key and is alive now.
//!
//! ```text
//! A (no session)                    B (any state)
//!   init(Na)            ──────────►   answers whatever is genuine, changes nothing
//!                       ◄──────────   challenge(Nb, echo Na)
//!   session (Na, Nb)
//!   proof(Na, echo Nb)  ──────────►   session (Na, Nb): Up, or Restarted if there was another
//! ```
//! A recorded init makes B answer A, who ignores a challenge it did not ask for; a recorded challenge or proof
//! echoes a nonce that is no longer valid. Answers are as long as what they answer.

use super::session::Session;
use super::{Association, Event};
use crate::clock::{Nanos, nanos};
use crate::frame::{FrameKind, HEADER, HELLO, Header, Hello};
use crate::keys::{Nonces, Random};
use crate::rtt::MILLIS;
use crate::stats::Refused;

const INTERVAL_MIN: Nanos = 10 * MILLIS;
const INTERVAL_MAX: Nanos = 500 * MILLIS;
/// Longest time between two calls that counts while there is no session.
pub(super) const STEP_MAX: Nanos = 2 * INTERVAL_MAX;

pub(super) struct Handshake {
    random: Random,
    /// Nonce of the next session.
    nonce: [u8; 16],
    next_session: u32,
    /// When to send the next init, or proof while the peer has not confirmed the session.
    next: Nanos,
    interval: Nanos,
    /// Kind of the answer to send, and its echo.
    answer: Option<(FrameKind, [u8; 16])>,
}

impl Handshake {
    pub(super) fn new(mut random: Random) -> Self {
        Handshake { nonce: random.draw(), random, next_session: 1, next: 0, interval: INTERVAL_MIN, answer: None }
    }

    /// Looks for the peer, beginning now.
    pub(super) fn restart(&mut self, now: Nanos) {
        (self.next, self.interval) = (now, INTERVAL_MIN);
    }

    fn wait(&mut self, now: Nanos) {
        self.next = now + self.interval;
        self.interval = (2 * self.interval).min(INTERVAL_MAX);
    }

    pub(super) fn deadline(&self, session: Option<&Session>) -> Option<Nanos> {
        if self.answer.is_some() {
            return Some(0);
        }
        session.is_none_or(|s| !s.confirmed).then_some(self.next)
    }
}

impl Association {
    pub(super) fn handle_hello(&mut self, now: Nanos, header: &Header, datagram: &[u8]) -> Result<(), Refused> {
        if !self.address.keys.hello_is_genuine(header.key, datagram) {
            return Err(Refused::Tag);
        }
        let hello = Hello::decode(&datagram[HEADER..]).ok_or(Refused::Foreign)?;
        let current = self.session.as_ref().map(|s| *s.nonces());
        let of_this_session = current.is_some_and(|n| (n.local, n.peer) == (hello.echo, hello.nonce));
        let from_this_session = current.is_some_and(|n| n.peer == hello.nonce);
        let confirmed = self.session.as_ref().is_some_and(|s| s.confirmed);
        match header.kind {
            // We are up by what the peer sent, but it has not heard so. Later it is an old one played again.
            FrameKind::Init if from_this_session && confirmed => return Err(Refused::Replay),
            FrameKind::Init if from_this_session => self.handshake.answer = Some((FrameKind::Proof, hello.nonce)),
            FrameKind::Init => self.handshake.answer = Some((FrameKind::Challenge, hello.nonce)),
            FrameKind::Challenge if of_this_session && !confirmed => {
                self.handshake.answer = Some((FrameKind::Proof, hello.nonce));
            }
            FrameKind::Proof if of_this_session => match &mut self.session {
                Some(session) if !session.acknowledged => session.ping(),
                _ => return Err(Refused::Replay),
            },
            FrameKind::Challenge if self.session.is_none() && hello.echo == self.handshake.nonce => {
                self.begin(now, header, &hello);
                self.handshake.answer = Some((FrameKind::Proof, hello.nonce));
            }
            FrameKind::Proof if hello.echo == self.handshake.nonce => self.begin(now, header, &hello),
            _ => return Err(Refused::Replay),
        }
        Ok(())
    }

    fn begin(&mut self, now: Nanos, header: &Header, hello: &Hello) {
        let number = self.handshake.next_session.max(header.session);
        let nonces = Nonces { session: number, local: self.handshake.nonce, peer: hello.nonce };
        let session = Box::new(Session::new(&self.config, nonces, hello.window, hello.mtu, now));
        let event =
            if self.session.is_some() { Event::Restarted { session: number } } else { Event::Up { session: number } };
        self.session = Some(session);
        self.events.push_back(event);
        self.stats.sessions += 1;
        // The nonce is spent: an old proof begins nothing.
        self.handshake.nonce = self.handshake.random.draw();
        self.handshake.next_session = number.saturating_add(1);
        self.handshake.restart(now);
        // Whoever attends to a session calls at every heartbeat.
        self.clock.set_step_max(2 * nanos(self.config.heartbeat));
        if let Some(session) = &mut self.session {
            session.ping();
        }
    }

    /// Appends a handshake message, if one is due.
    pub(super) fn emit_hello(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<usize> {
        let unconfirmed = self.session.as_ref().filter(|s| !s.confirmed).map(|s| *s.nonces());
        let (kind, echo) = if let Some(answer) = self.handshake.answer.take() {
            answer
        } else if self.closed || self.handshake.next > now {
            return None;
        } else if let Some(nonces) = unconfirmed {
            (FrameKind::Proof, nonces.peer)
        } else if self.session.is_none() {
            (FrameKind::Init, [0; 16])
        } else {
            return None;
        };
        // A proof belongs to the session that has begun, the others to the next one.
        let current = self.session.as_ref().map(|s| *s.nonces()).filter(|_| kind == FrameKind::Proof);
        let (nonce, session) =
            current.map_or((self.handshake.nonce, self.handshake.next_session), |n| (n.local, n.session));
        if kind != FrameKind::Challenge {
            self.handshake.wait(now);
        }
        let start = out.len();
        let (local, peer, cluster) = (self.address.local, self.address.peer, self.address.cluster);
        let key = self.address.keys.active();
        Header { kind, key, from: local, to: peer, cluster, session, number: 0 }.encode(out);
        let window = self.config.receive_window as u32;
        Hello { nonce, echo, window, mtu: self.config.mtu_max as u32 }.encode(out);
        self.address.keys.tag_hello(start, out);
        debug_assert_eq!(out.len() - start, HELLO);
        self.stats.frames_sent += 1;
        self.stats.bytes_sent += HELLO as u64;
        Some(HELLO)
    }
}
