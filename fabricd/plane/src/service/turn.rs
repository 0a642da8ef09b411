//! How much the network may do before channels are looked at again.

/// Bytes copied out of and into memory per round, for every so many channels; a larger transfer goes on in the next one.
pub(crate) const BYTES_PER_ROUND: usize = 32 << 10;
const CHANNELS_PER_SHARE: usize = 8;
/// This many times as much where a round looks at a socket, too, and makes datagrams.
const TRUNK_SHARES: usize = 4;
/// Events the network handles per round.
const EVENTS_PER_ROUND: u64 = 1024;

/// What the network may still do in a round. Nobody's post waits for longer than this takes, whatever others transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// Bytes to copy out of and into memory; the copy that exceeds them is the last.
    pub(crate) bytes: usize,
    pub(crate) events: u64,
}

impl Turn {
    pub(crate) fn new(channels: usize, has_trunks: bool) -> Turn {
        let shares = if has_trunks { TRUNK_SHARES } else { 1 };
        let shares = shares * (1 + channels / CHANNELS_PER_SHARE);
        Turn { bytes: BYTES_PER_ROUND * shares, events: EVENTS_PER_ROUND * shares as u64 }
    }

    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.bytes == 0 || self.events == 0
    }
}
