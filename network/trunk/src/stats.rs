//! Counters, and the reasons to refuse a datagram.

use std::time::Duration;

/// Why a datagram was not taken. Nothing is ever sent in answer to one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// Not one of our datagrams, of another cluster, or between other hosts.
    #[error("not a datagram of this trunk")]
    Foreign,
    /// Made with a key that is not loaded.
    #[error("key {0} is not loaded")]
    Key(u8),
    /// It belongs to a session that is over or has not begun.
    #[error("of session {0}, which is not the current one")]
    Session(u32),
    /// Forged or damaged.
    #[error("the tag is wrong: forged, damaged or made with another key")]
    Tag,
    /// Seen before, too old to tell, or of a handshake that is over.
    #[error("seen before, or of a handshake that is over")]
    Replay,
    /// Genuine, but the peer broke the protocol; the session was ended.
    #[error("protocol violation by the peer: {0}")]
    Violation(&'static str),
}

/// How many datagrams were refused, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RefusedCounts {
    /// Datagrams that were [`Refused::Foreign`].
    pub foreign: u64,
    /// Datagrams that were [`Refused::Key`].
    pub key: u64,
    /// Datagrams that were [`Refused::Session`].
    pub session: u64,
    /// Datagrams that were [`Refused::Tag`].
    pub tag: u64,
    /// Datagrams that were [`Refused::Replay`].
    pub replay: u64,
    /// Datagrams that were [`Refused::Violation`].
    pub violation: u64,
}

impl RefusedCounts {
    pub(crate) fn count(&mut self, why: Refused) {
        *match why {
            Refused::Foreign => &mut self.foreign,
            Refused::Key(_) => &mut self.key,
            Refused::Session(_) => &mut self.session,
            Refused::Tag => &mut self.tag,
            Refused::Replay => &mut self.replay,
            Refused::Violation(_) => &mut self.violation,
        } += 1;
    }

    pub fn total(&self) -> u64 {
        self.foreign + self.key + self.session + self.tag + self.replay + self.violation
    }
}

/// Counters of an association since its birth, and the present state of its path.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Stats {
    /// Datagrams sent, all kinds.
    pub frames_sent: u64,
    /// Bytes of these datagrams.
    pub bytes_sent: u64,
    /// Datagrams accepted.
    pub frames_received: u64,
    /// Bytes of these datagrams.
    pub bytes_received: u64,
    /// Records taken from the caller.
    pub records_sent: u64,
    /// Records handed to the caller.
    pub records_received: u64,
    /// Data frames sent again.
    pub retransmissions: u64,
    /// Stream bytes that arrived more than once.
    pub duplicate_bytes: u64,
    /// Frames declared lost.
    pub lost: u64,
    /// Times the retransmission timer ran out.
    pub timeouts: u64,
    /// Sessions begun.
    pub sessions: u64,
    /// Datagrams refused.
    pub refused: RefusedCounts,
    /// Smoothed round trip; zero before the first sample.
    pub rtt: Duration,
    /// Its mean deviation.
    pub rtt_variation: Duration,
    /// Shortest round trip of the session.
    pub rtt_min: Duration,
    /// Share of the bytes sent of late (the last MiB or two windows, roughly) that was lost.
    pub loss: f64,
    /// Bytes of a datagram in use.
    pub mtu: usize,
    /// Congestion window in bytes.
    pub window: usize,
}
