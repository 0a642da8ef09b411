//! Configuration of an association.

use crate::frame::HELLO;
use crate::keys::KeyRing;
use std::time::Duration;

/// Longest record.
pub const RECORD_MAX: usize = u16::MAX as usize;

/// Smallest datagram size that may be configured.
pub const MTU_MIN: usize = angara_net::DATAGRAM_MIN;

/// Largest datagram an IPv4 socket sends.
pub const MTU_MAX: usize = 65_507;

/// Everything an association needs to know. [`Config::new`] fills in what suits a LAN.
#[derive(Clone, Debug)]
pub struct Config {
    /// Id of this host.
    pub local: u16,
    /// Id of the other host.
    pub peer: u16,
    /// Id of the cluster: random, and the same on all its hosts.
    pub cluster: [u8; 16],
    /// Pre-shared keys, by id.
    pub keys: KeyRing,
    /// Bytes of a datagram (UDP payload) to start with and to fall back to.
    pub mtu_start: usize,
    /// Bytes of a datagram up to which the path is probed.
    pub mtu_max: usize,
    /// An association that has nothing to say says so this often.
    pub heartbeat: Duration,
    /// Silence after which the peer counts as dead.
    pub dead_after: Duration,
    /// Bytes the sender keeps, queued or unacknowledged; [`crate::SendError::Full`] beyond.
    pub send_buffer: usize,
    /// Bytes the peer may send ahead of what [`crate::Association::poll_record`] has handed out. Not
    /// more than the socket's receive buffer holds, or bursts are lost there.
    pub receive_window: usize,
    /// From the operating system's random source, new for each association: session keys depend on it.
    /// (A simulation uses a constant to be repeatable.)
    pub seed: [u8; 32],
}

/// Why a configuration makes no sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// A host does not trunk to itself.
    #[error("host {0} is both ends of the trunk; the ends need different host ids")]
    Hosts(u16),
    /// Datagram sizes.
    #[error("datagram sizes {start} to {max}: they must rise and lie within {MTU_MIN} to {MTU_MAX}")]
    Mtu {
        /// Configured bytes to start with.
        start: usize,
        /// Configured bytes to probe up to.
        max: usize,
    },
    /// Buffers.
    #[error("{what} of {bytes} bytes; between 256 KiB and 1 GiB are needed")]
    Buffer {
        /// Which buffer.
        what: &'static str,
        /// Configured size in bytes.
        bytes: usize,
    },
    /// Timers.
    #[error(
        "heartbeat {heartbeat:?}, dead after {dead_after:?}: the former is at least 1 ms, the latter three times it"
    )]
    Timers {
        /// Configured interval.
        heartbeat: Duration,
        /// Configured limit.
        dead_after: Duration,
    },
}

impl Config {
    /// A configuration with the usual sizes and times.
    pub fn new(local: u16, peer: u16, cluster: [u8; 16], keys: KeyRing, seed: [u8; 32]) -> Config {
        Config {
            local,
            peer,
            cluster,
            keys,
            mtu_start: MTU_MIN,
            mtu_max: MTU_MAX,
            heartbeat: Duration::from_millis(200),
            dead_after: Duration::from_secs(2),
            send_buffer: 8 << 20,
            receive_window: 2 << 20,
            seed,
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.local == self.peer {
            return Err(ConfigError::Hosts(self.local));
        }
        let sizes = MTU_MIN..=MTU_MAX;
        if !sizes.contains(&self.mtu_start) || !sizes.contains(&self.mtu_max) || self.mtu_start > self.mtu_max {
            return Err(ConfigError::Mtu { start: self.mtu_start, max: self.mtu_max });
        }
        for (what, bytes) in [("send_buffer", self.send_buffer), ("receive_window", self.receive_window)] {
            if !(256 << 10..=1 << 30).contains(&bytes) {
                return Err(ConfigError::Buffer { what, bytes });
            }
        }
        let (heartbeat, dead_after) = (self.heartbeat, self.dead_after);
        if heartbeat < Duration::from_millis(1) || dead_after < 3 * heartbeat {
            return Err(ConfigError::Timers { heartbeat, dead_after });
        }
        Ok(())
    }
}

const _: () = assert!(HELLO == MTU_MIN);
