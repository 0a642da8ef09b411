//! Layout of a PE's mailbox, and the meaning of its words. `docs/explain/mailbox.md` has the reasons.
//!
//! ```text
//! bell      u64             counts first contacts
//! bitmap    1 bit a seat    who has made contact since the bitmap was read
//! lanes     64 bytes a seat what only that seat writes: its contact word, and the credit it gives me
//! rings     slots a seat    messages from that seat
//! ```

/// Bytes of a slot: one packet of the network.
pub(super) const SLOT: usize = angara_abi::clock::SLOT as usize;
/// The last bytes of a slot: a word that names both generations, and the word that makes the slot valid.
pub(super) const TRAILER: usize = angara_abi::clock::TRAILER as usize;
/// Bytes of a message that are in the slot of its trailer, at most.
pub(super) const SHORT_MAX: usize = SLOT - TRAILER;
/// All rings of a mailbox together shall not be larger, if that leaves enough slots to each.
const RINGS_MAX: usize = 64 << 20;
const SLOTS_MIN: usize = 32;
const SLOTS_MAX: usize = 256;
const LINE: usize = 64;
/// Longest message of a ring that has as many slots as any.
pub(super) const MESSAGE_MOST: usize = SLOTS_MAX * SLOT / 4;

pub(super) const BELL: usize = 0;
const BITMAP: usize = LINE;
/// In a lane: {generation of the sender, of the receiver}.
pub(super) const CONTACT: usize = 0;
/// In a lane: how many slots the seat has freed in its ring of my messages, and for which generations.
pub(super) const CREDIT: usize = 8;

/// Byte offsets in the mailbox of any PE of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) pes: usize,
    /// Slots of a ring, a power of two.
    pub(super) slots: u32,
    lanes: usize,
    rings: usize,
}

impl Layout {
    pub(super) fn new(pes: usize) -> Layout {
        let fit = RINGS_MAX / SLOT / pes.max(1);
        let slots = if fit < SLOTS_MIN { SLOTS_MIN } else { (1 << fit.ilog2()).min(SLOTS_MAX) };
        let lanes = (BITMAP + pes.div_ceil(64) * 8).next_multiple_of(LINE);
        let rings = (lanes + pes * LINE).next_multiple_of(angara_abi::PAGE);
        Layout { pes, slots: slots as u32, lanes, rings }
    }

    pub(super) fn bytes(&self) -> usize {
        self.rings + self.pes * self.ring_bytes()
    }
    pub(super) fn ring_bytes(&self) -> usize {
        self.slots as usize * SLOT
    }
    /// Longest message: a quarter of a ring.
    pub(super) fn message_max(&self) -> usize {
        self.ring_bytes() / 4
    }
    /// Slots that are freed before they are given back.
    pub(super) fn batch(&self) -> u32 {
        self.slots / 4
    }

    /// The word of the bitmap with the bits of seats 64 × `word` and above.
    pub(super) fn bitmap(&self, word: usize) -> usize {
        BITMAP + word * 8
    }
    pub(super) fn lane(&self, seat: usize) -> usize {
        self.lanes + seat * LINE
    }
    /// The ring of messages from `seat`.
    pub(super) fn ring(&self, seat: usize) -> usize {
        self.rings + seat * self.ring_bytes()
    }
    /// Where slot number `position` lies in its ring.
    pub(super) fn slot(&self, position: u32) -> usize {
        (position & (self.slots - 1)) as usize * SLOT
    }
}

/// Slots of raw bytes that a message has before its last part, which is in the slot of the trailer.
#[inline]
pub(super) fn raw_slots(len: usize) -> u32 {
    len.saturating_sub(SHORT_MAX).div_ceil(SLOT) as u32
}

/// Bytes in these slots.
#[inline]
pub(super) fn raw_bytes(len: usize) -> usize {
    len.min(raw_slots(len) as usize * SLOT)
}

/// Generations of a sender and a receiver: what a ring, its position and its credit belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pair {
    pub(super) sender: u32,
    pub(super) receiver: u32,
}

/// Bits of the word that makes a slot valid which say whether it is the slot awaited; the others are the length.
const AWAITED: u64 = (1 << 48) - 1;

impl Pair {
    /// The contact word, and the first word of a trailer.
    pub(super) fn word(self) -> u64 {
        u64::from(self.sender) | u64::from(self.receiver) << 32
    }
    pub(super) fn from_word(word: u64) -> Pair {
        Pair { sender: word as u32, receiver: (word >> 32) as u32 }
    }

    /// Returns what tells apart the generations that can meet in one memory.
    fn tag(self) -> u32 {
        self.sender.rotate_left(16) ^ self.receiver
    }

    /// The last word of a trailer: the number of the slot from 1, both generations, and the message's length. A ring has
    /// so few slots that 16 bits of the number tell one round from the next.
    pub(super) fn seal(self, position: u32, len: usize) -> u64 {
        u64::from(position.wrapping_add(1) as u16) | u64::from(self.tag()) << 16 | (len as u64) << 48
    }
    /// The length in `seal`, if that is the one awaited.
    pub(super) fn open(self, position: u32, seal: u64) -> Option<usize> {
        (seal & AWAITED == self.seal(position, 0)).then_some((seal >> 48) as usize)
    }

    /// Returns the credit word of a receiver that has freed `freed` slots since the beginning, modulo 2^32.
    pub(super) fn credit(self, freed: u32) -> u64 {
        u64::from(freed) | u64::from(self.tag()) << 32
    }
    /// Returns what `credit` says, if it is of these generations.
    pub(super) fn freed(self, credit: u64) -> Option<u32> {
        (credit >> 32 == u64::from(self.tag())).then_some(credit as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_follow_each_other_and_stay_within_bounds() {
        for pes in [1, 2, 63, 64, 65, 256, 257, 1000, 1024, 4096] {
            let l = Layout::new(pes);
            assert!(l.slots.is_power_of_two() && (32..=256).contains(&l.slots));
            assert!(l.bitmap(pes.div_ceil(64)) <= l.lane(0) && l.lane(pes) <= l.ring(0));
            assert!(l.lane(0).is_multiple_of(LINE) && l.ring(0).is_multiple_of(angara_abi::PAGE));
            assert!(l.ring(pes) == l.bytes() && l.bytes() <= RINGS_MAX + (1 << 20), "{pes} PEs: {}", l.bytes());
            assert!(l.message_max() >= 4096 && (pes > 256 || l.message_max() >= 16384));
            assert!(l.message_max() <= usize::from(u16::MAX), "a length has 16 bits");
            // Whatever is not given back yet, the longest message fits.
            assert!(l.slots - (l.batch() - 1) > raw_slots(l.message_max()));
        }
    }

    #[test]
    fn every_length_is_split_so_that_its_end_fits_the_slot_of_the_trailer() {
        for len in 0..=20_000 {
            let (slots, raw) = (raw_slots(len) as usize, raw_bytes(len));
            assert!(raw <= slots * SLOT && raw + SLOT > slots * SLOT && len - raw <= SHORT_MAX, "{len}");
            assert_eq!(slots == 0, len <= SHORT_MAX);
        }
    }

    #[test]
    fn words_of_other_generations_or_positions_are_refused() {
        let pair = Pair { sender: 70_001, receiver: 3 };
        assert_eq!(Pair::from_word(pair.word()), pair);
        assert_eq!(pair.open(u32::MAX, pair.seal(u32::MAX, 16_384)), Some(16_384));
        assert_eq!(pair.open(5, pair.seal(4, 9)), None);
        let later = Pair { sender: 70_002, ..pair };
        assert_eq!(later.open(4, pair.seal(4, 9)), None);
        assert_eq!(Pair { receiver: 4, ..pair }.open(4, pair.seal(4, 9)), None);
        assert!((1..=256).all(|lap| pair.open(4 + lap, pair.seal(4, 9)).is_none()));
        assert_eq!(pair.freed(pair.credit(77)), Some(77));
        assert_eq!(later.freed(pair.credit(77)), None);
        assert_eq!(Pair { receiver: 4, ..pair }.freed(pair.credit(77)), None);
        assert_eq!((pair.open(u32::MAX, 0), pair.freed(0)), (None, None), "nothing is valid in zeros");
    }
}
