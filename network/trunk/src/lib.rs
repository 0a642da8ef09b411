//! A reliable, authenticated UDP trunk between two hosts: one [`Association`] carries every torus link
//! that crosses between them.
//!
//! [`Association`] knows no sockets, threads or clocks. Its owner moves datagrams and tells it the time, which is
//! a [`Duration`](std::time::Duration) since any moment the owner likes:
//!
//! ```no_run
//! # use std::time::{Duration, Instant};
//! # use angara_trunk::{Association, Config, Event, KeyRing, socket};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (key, seed, cluster, peer) = ([0u8; 32], [0u8; 32], [0u8; 16], "192.0.2.2:9000".parse()?);
//! let start = Instant::now();
//! let mut socket = socket::open("0.0.0.0:9000".parse()?, socket::SocketKind::Auto)?;
//! let config = Config::new(0, 1, cluster, KeyRing::new(1, &key)?, seed);
//! let mut trunk = Association::new(config, Duration::ZERO)?;
//! let mut batch = Vec::new();
//! loop {
//!     // 1. What has arrived. With several peers, `angara_trunk::hosts(datagram)` tells whose it claims to be.
//!     while socket.recv(&mut |datagram| {
//!         let _ = trunk.handle_datagram(start.elapsed(), datagram); // refused ones are counted in `stats`
//!     })? > 0 {}
//!     // 2. Timers, and what happened.
//!     trunk.handle_timeout(start.elapsed());
//!     while let Some(event) = trunk.poll_event() {
//!         match event {
//!             Event::Up { .. } => {}        // channels are empty, records may be sent
//!             Event::Restarted { .. } => {} // the same, after everything under way was lost
//!             Event::Down { .. } => {}      // everything under way is lost
//!         }
//!     }
//!     // 3. Records in and out. Handing records out makes room for the peer, so nothing is left unread.
//!     while let Some((channel, record)) = trunk.poll_record() {
//!         if trunk.backlog() < 1 << 20 {
//!             trunk.send(channel, &record)?;
//!         }
//!     }
//!     // 4. What is to be sent. If the loop has nothing else to do and is about to sleep, `flush_acks` first.
//!     loop {
//!         batch.clear();
//!         let Some(segment) = trunk.poll_transmit(start.elapsed(), &mut batch) else { break };
//!         let _ = socket.send(peer, &batch, segment); // a batch the kernel has no room for counts as lost
//!     }
//!     // 5. If `socket.is_empty()`, wait for `socket.readiness()`, at most until `trunk.poll_timeout()` (and never
//!     //    much longer than the heartbeat: time that passes unattended is not counted as silence of the peer).
//!     # break Ok(());
//! }
//! # }
//! ```
//!
//! * Records (up to [`RECORD_MAX`] bytes) of one channel arrive in order and exactly once as long as the session
//!   lasts. A session ends when the peer falls silent ([`Event::Down`]) or begins anew ([`Event::Restarted`]); both
//!   ends then start with empty channels and a session of a higher number, and nothing of an old one is delivered.
//!   Events are to be read before records: records of the old session are gone when the event is there.
//! * All channels share one stream, so a lost frame holds up the records behind it for one round trip, on all channels.
//! * Nothing is dropped for want of room: a sender never sends more than the receiver has said it takes.
//!   [`Association::send`] refuses beyond `send_buffer`; a caller that looks at [`Association::backlog`] never sees it.
//! * Every datagram carries a tag made with the pre-shared key. Whatever is not genuine, or not new, is counted
//!   in [`Stats::refused`] and otherwise ignored.
//!
//! `docs/explain/trunk.md` has the frame layout, the reasons and the measurements.

#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![deny(unsafe_code)]

mod association;
mod clock;
mod config;
mod frame;
mod impair;
mod keys;
mod mtu;
mod ranges;
mod ring;
mod rtt;
pub mod socket;
mod stats;
mod stream;
mod window;

pub use angara_net::fault::Impairment;
pub use association::{Association, Event, SendError, Why};
pub use config::{Config, ConfigError, MTU_MAX, MTU_MIN, RECORD_MAX};
pub use frame::hosts;
pub use keys::{KeyError, KeyRing};
pub use stats::{Refused, RefusedCounts, Stats};
