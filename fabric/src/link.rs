//! Links: credits of the far buffer, and numbering, checksums and replay where errors occur.
//!
//! A credit stands for one free packet slot of a virtual channel's buffer at the far end. A slot
//! given back becomes usable some time later; those returns are kept as times beside the counter,
//! so a credit costs no event unless somebody waits for it.
//!
//! A clean link is cut through and computes no checksum. A link with an error rate works by
//! receive-then-forward: every transmission is encoded into flits with a sequence number and a
//! CRC-32C, the error flips a bit of them, and the receiver decides by checking. A wrong packet
//! and all that follow it are discarded; the sender hears of it one link delay later and sends
//! everything unacknowledged again (go-back-N). After [`REPLAYS_MAX`] failures in a row the link
//! is taken out of service.

use crate::types::Tick;
use std::collections::{BTreeMap, VecDeque};

/// Failures in a row after which a link goes down.
pub(crate) const REPLAYS_MAX: u32 = 16;
/// Unacknowledged packets a lossy link holds.
pub(crate) const REPLAY_BUFFER: usize = 8;
/// Most slots of a virtual channel.
pub(crate) const SLOTS_MAX: usize = 8;
const VCS: usize = 5;

#[derive(Clone, Copy, Debug)]
struct Credit {
    free: u8,
    first: u8,
    count: u8,
    /// When the slots given back become usable: a ring of `count` times from `first`.
    returns: [Tick; SLOTS_MAX],
}

/// Sender and receiver of one link with an error rate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lossy {
    /// Errors per million packets.
    pub(crate) per_million: u32,
    /// Sent and not yet accepted, with the virtual channel they use; oldest first.
    pub(crate) unacked: VecDeque<(u32, u8)>,
    /// On the wire: packet and the sender's epoch; arrivals come in this order.
    pub(crate) wire: VecDeque<(u32, u32)>,
    /// Bumped by the receiver at each error, by the sender when it hears of it.
    pub(crate) rx_epoch: u32,
    pub(crate) tx_epoch: u32,
    /// Errors in a row.
    pub(crate) failures: u32,
    /// Sequence number of the oldest unacknowledged packet.
    pub(crate) sequence: u16,
    /// Transmissions so far: counter of the random numbers.
    pub(crate) drawn: u64,
}

/// All links, indexed by [`crate::topology::link_index`].
#[derive(Debug)]
pub(crate) struct Links {
    credits: Vec<Credit>,
    slots: [u8; VCS],
    lossy: BTreeMap<usize, Lossy>,
    has_lossy: Vec<bool>,
}

impl Links {
    pub(crate) fn new(links: usize, data_slots: u8, collective_slots: u8) -> Links {
        let slots = [data_slots, data_slots, data_slots, collective_slots, collective_slots];
        let credits = (0..links * VCS)
            .map(|i| Credit { free: slots[i % VCS], first: 0, count: 0, returns: [0; SLOTS_MAX] })
            .collect();
        Links { credits, slots, lossy: BTreeMap::new(), has_lossy: vec![false; links] }
    }

    /// Free slots at the far end of `link` on `vc` at `now`.
    #[inline]
    pub(crate) fn free(&mut self, link: usize, vc: usize, now: Tick) -> u8 {
        let i = link * VCS + vc;
        let c = &mut self.credits[i];
        while c.count > 0 && c.returns[c.first as usize] <= now {
            c.first = (c.first + 1) % SLOTS_MAX as u8;
            c.count -= 1;
            c.free += 1;
        }
        c.free
    }
    #[inline]
    pub(crate) fn take(&mut self, link: usize, vc: usize) {
        let c = &mut self.credits[link * VCS + vc];
        debug_assert!(c.free > 0, "no credit to take");
        c.free -= 1;
    }
    /// A slot will be free again from `at` on; never before one given back earlier.
    #[inline]
    pub(crate) fn give(&mut self, link: usize, vc: usize, at: Tick) {
        let i = link * VCS + vc;
        let c = &mut self.credits[i];
        debug_assert!(c.free + c.count < self.slots[vc], "more credits than slots");
        let nth = |n: u8| (c.first as usize + n as usize) % SLOTS_MAX;
        let after = if c.count > 0 { c.returns[nth(c.count - 1)] } else { 0 };
        c.returns[nth(c.count)] = at.max(after);
        c.count += 1;
    }
    /// Whether some slot of the channel is in use, so that a credit may come back for it.
    pub(crate) fn owes(&self, link: usize, vc: usize) -> bool {
        let c = &self.credits[link * VCS + vc];
        c.free + c.count < self.slots[vc]
    }
    /// The earliest return later than `now` on any channel of `link`.
    pub(crate) fn next_return(&self, link: usize, now: Tick) -> Option<Tick> {
        (self.credits[link * VCS..link * VCS + VCS].iter())
            .filter(|c| c.count > 0)
            .map(|c| c.returns[c.first as usize])
            .filter(|t| *t > now)
            .min()
    }

    pub(crate) fn set_error_rate(&mut self, link: usize, per_million: u32) {
        match self.lossy.get_mut(&link) {
            Some(l) => l.per_million = per_million,
            None if per_million > 0 => {
                self.lossy.insert(link, Lossy { per_million, ..Lossy::default() });
                self.has_lossy[link] = true;
            }
            None => {}
        }
    }
    #[inline]
    pub(crate) fn is_lossy(&self, link: usize) -> bool {
        self.has_lossy[link]
    }
    pub(crate) fn lossy(&mut self, link: usize) -> &mut Lossy {
        self.lossy.get_mut(&link).expect("caller asked is_lossy")
    }
    /// Room in the replay buffer.
    #[inline]
    pub(crate) fn may_send(&self, link: usize) -> bool {
        !self.has_lossy[link] || self.lossy[&link].unacked.len() < REPLAY_BUFFER
    }
}

/// Counter-based random number: a function of its arguments only (SplitMix64 finaliser, applied
/// to each argument in turn).
pub(crate) fn random(seed: u64, link: u64, purpose: u64, counter: u64) -> u64 {
    [seed, link, purpose, counter].into_iter().fold(0x9e37_79b9_7f4a_7c15, |state: u64, word| {
        let mut z = state.wrapping_add(word).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    })
}
