//! The association of two hosts: handshakes and the sessions they begin.

mod handshake;
mod receive;
mod send;
mod session;

use crate::clock::{Clock, Nanos};
use crate::config::{Config, ConfigError, RECORD_MAX};
use crate::frame::{FrameKind, Header};
use crate::impair::Impaired;
use crate::keys::{KeyRing, Keys, Random};
use crate::stats::{Refused, Stats};
use angara_net::fault::Impairment;
use bytes::Bytes;
use handshake::Handshake;
pub use session::Why;
use session::{Address, Session};
use std::collections::VecDeque;
use std::time::Duration;

/// Event that the caller should know of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A session has begun; all channels are empty. Both ends give it the same number.
    Up {
        /// Its number, higher than that of any session before, as long as either host remembers one.
        session: u32,
    },
    /// The session is over, and whatever was not handed out is gone. The association keeps trying.
    Down {
        /// The reason.
        why: Why,
        /// When the peer was last heard, by the caller's clock.
        since: Duration,
    },
    /// [`Event::Down`] and [`Event::Up`] in one: the peer has begun anew.
    Restarted {
        /// As in [`Event::Up`].
        session: u32,
    },
}

/// Why a record was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    /// No session; wait for [`Event::Up`].
    #[error("the trunk is down")]
    Down,
    /// `send_buffer` is used up; watch [`Association::backlog`].
    #[error("the trunk's send buffer is full")]
    Full,
    /// Longer than [`RECORD_MAX`].
    #[error("a record of {0} bytes; a trunk carries up to {RECORD_MAX}")]
    Long(usize),
}

/// One end of a trunk. See the crate's documentation.
pub struct Association {
    /// Configuration, fixed from the start.
    config: Config,
    /// Host ids and cluster id, as frames carry them.
    address: Address,
    /// Its own time, in nanoseconds: never goes back.
    clock: Clock,
    /// The way to the next session.
    handshake: Handshake,
    /// The session that runs.
    session: Option<Box<Session>>,
    /// True if the owner has closed it.
    closed: bool,
    /// Events that the owner has not fetched yet.
    events: VecDeque<Event>,
    /// Counters since the association was made.
    stats: Stats,
    /// Datagrams held up while the line is impaired.
    impaired: Option<Impaired>,
    /// A datagram that is being built or opened.
    scratch: Vec<u8>,
}

impl Association {
    /// An association that begins to look for its peer at the next [`Association::poll_transmit`].
    pub fn new(config: Config, now: Duration) -> Result<Association, ConfigError> {
        config.check()?;
        let mut cluster = [0; 4];
        cluster.copy_from_slice(&config.cluster[..4]);
        Ok(Association {
            address: Address {
                keys: Keys::new(&config.keys, &config.cluster, config.local, config.peer),
                local: config.local,
                peer: config.peer,
                cluster: u32::from_le_bytes(cluster),
            },
            clock: Clock::new(now, handshake::STEP_MAX),
            handshake: Handshake::new(Random::new(&config.seed)),
            session: None,
            closed: false,
            events: VecDeque::new(),
            stats: Stats::default(),
            impaired: None,
            scratch: Vec::new(),
            config,
        })
    }

    /// Queues a record. Records of a channel arrive in order and exactly once, or the session ends.
    pub fn send(&mut self, channel: u16, record: &[u8]) -> Result<(), SendError> {
        self.send_with(channel, record, Bytes::new())
    }

    /// [`Association::send`] of a record that ends with `rest`, which is not copied until it is put into frames.
    pub fn send_with(&mut self, channel: u16, record: &[u8], rest: Bytes) -> Result<(), SendError> {
        let len = record.len() + rest.len();
        if len > RECORD_MAX {
            return Err(SendError::Long(len));
        }
        let session = self.session.as_mut().filter(|_| !self.closed).ok_or(SendError::Down)?;
        if session.backlog() + len + receive::RECORD_HEAD > self.config.send_buffer {
            return Err(SendError::Full);
        }
        session.push(channel, record, rest);
        self.stats.records_sent += 1;
        Ok(())
    }

    /// Bytes queued or unacknowledged.
    pub fn backlog(&self) -> usize {
        self.session.as_ref().map_or(0, |s| s.backlog())
    }

    /// True if there is a session.
    pub fn is_up(&self) -> bool {
        self.session.is_some()
    }

    /// The next record that has arrived. Handing it out is what gives the peer room for more. It shares memory with
    /// the others that came in the same datagram: to keep a small one for long, copy it.
    pub fn poll_record(&mut self) -> Option<(u16, Bytes)> {
        let record = self.session.as_mut()?.record()?;
        self.stats.records_received += 1;
        Some(record)
    }

    /// Takes a datagram that claims to be from the peer.
    pub fn handle_datagram(&mut self, now: Duration, datagram: &mut [u8]) -> Result<(), Refused> {
        let now = self.clock.observe(now);
        let len = datagram.len() as u64;
        let result = self.handle(now, datagram);
        match result {
            Ok(()) => {
                self.stats.frames_received += 1;
                self.stats.bytes_received += len;
            }
            Err(why) => {
                self.stats.refused.count(why);
                if let Refused::Violation(what) = why {
                    self.end(Why::Violation(what));
                }
            }
        }
        result
    }

    fn handle(&mut self, now: Nanos, datagram: &mut [u8]) -> Result<(), Refused> {
        let header = Header::decode(datagram).ok_or(Refused::Foreign)?;
        let ours = (header.from, header.to, header.cluster);
        if self.closed || ours != (self.address.peer, self.address.local, self.address.cluster) {
            return Err(Refused::Foreign);
        }
        if !self.address.keys.knows(header.key) {
            return Err(Refused::Key(header.key));
        }
        if header.kind != FrameKind::Session {
            return self.handle_hello(now, &header, datagram);
        }
        let Some(session) = self.session.as_mut().filter(|s| s.nonces().session == header.session) else {
            return Err(Refused::Session(header.session));
        };
        if let Some(why) = session.handle(&self.address, &header, datagram, now, &mut self.stats)? {
            self.end(why);
        }
        Ok(())
    }

    /// Appends datagrams for the peer: one or more of equal size (the last perhaps shorter), which is
    /// returned. To be called until it returns `None`, after anything that may have made something to send.
    pub fn poll_transmit(&mut self, now: Duration, out: &mut Vec<u8>) -> Option<usize> {
        let now = self.clock.observe(now);
        if self.impaired.is_none() {
            return self.emit(now, out);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        while let Some(segment) = self.emit(now, &mut scratch) {
            if let Some(line) = &mut self.impaired {
                scratch.chunks(segment).for_each(|datagram| line.admit(now, datagram));
            }
            scratch.clear();
        }
        self.scratch = scratch;
        let line = self.impaired.as_mut()?;
        let released = line.release(now, out);
        if line.is_over() {
            self.impaired = None;
        }
        released
    }

    fn emit(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<usize> {
        if let Some(size) = self.emit_hello(now, out) {
            return Some(size);
        }
        self.session.as_mut()?.fill(&self.address, now, &mut self.stats, out)
    }

    /// When [`Association::handle_timeout`] and [`Association::poll_transmit`] want to be called at the latest.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let line = self.impaired.as_ref().and_then(Impaired::deadline);
        if self.closed && self.session.is_none() {
            return line.map(|at| self.clock.outside(at));
        }
        let now = self.clock.now();
        let hello = self.handshake.deadline(self.session.as_deref());
        let session = self.session.as_ref().map(|s| s.deadline(now));
        hello.into_iter().chain(session).chain(line).min().map(|at| self.clock.outside(at))
    }

    /// Does what time demands.
    pub fn handle_timeout(&mut self, now: Duration) {
        let now = self.clock.observe(now);
        let over = self.session.as_mut().and_then(|s| s.on_time(now, &mut self.stats));
        if let Some(why) = over {
            self.end(why);
        }
    }

    /// Returns what happened since the last call.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Makes acknowledgements that wait for data due: for a caller that is about to sleep.
    pub fn flush_acks(&mut self) {
        let now = self.clock.now();
        if let Some(session) = &mut self.session {
            session.flush_acks(now);
        }
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats;
        if let Some(session) = &self.session {
            session.report(&mut stats);
        }
        stats
    }

    /// Other keys from now on; the session goes on.
    pub fn set_keys(&mut self, ring: &KeyRing) {
        self.address.keys = Keys::new(ring, &self.config.cluster, self.config.local, self.config.peer);
        if let Some(session) = &mut self.session {
            session.keys_changed();
        }
    }

    /// Says goodbye with the next [`Association::poll_transmit`], takes nothing more and looks for the peer no more.
    pub fn close(&mut self) {
        self.closed = true;
        if let Some(session) = &mut self.session {
            session.say_goodbye();
        }
    }

    /// Makes the way to the peer bad, or good again with [`Impairment::default`].
    pub fn impair(&mut self, what: Impairment) {
        match &mut self.impaired {
            Some(line) => line.change(what),
            None => self.impaired = Some(Impaired::new(what)),
        }
    }

    /// Bytes of memory held for records under way in either direction.
    pub fn memory(&self) -> usize {
        self.session.as_ref().map_or(0, |s| s.memory())
    }

    fn end(&mut self, why: Why) {
        if let Some(session) = self.session.take() {
            let ago = self.clock.now() - session.heard;
            let since = self.clock.outside(self.clock.now()).saturating_sub(Duration::from_nanos(ago));
            self.events.push_back(Event::Down { why, since });
            self.handshake.restart(self.clock.now());
            self.clock.set_step_max(handshake::STEP_MAX);
        }
    }
}
