//! What a process publishes in its seat's memory for those who copy by themselves, and for connection managers.
//!
//! ```text
//! identity    generation, pid, address of a word, that word, address and bytes of the area for registered memory;
//!             what this process copies at: region, queue pair
//! listeners   256 u64: port space << 32 | port << 16 | 1
//! pairs       4 u64 each, by the bits of the number above those of the adapter
//! regions     6 u64 each, by the lower bits of the key
//! ```
//!
//! [`Published`] says who writes and who waits. A process that dies in the middle uses nothing any more once its seat is empty.

use angara::{Job, Place, Region as Area};
use angara_hca::address::LANE_BITS;
use angara_hca::{Peer, PublicPair, Region, limits};
use angara_registered::Published;
use std::sync::atomic::Ordering;

const PAGE: u64 = angara_abi::PAGE as u64;
const IDENTITY: u64 = 0;
const LISTENERS: u64 = IDENTITY + PAGE;
const PAIRS: u64 = LISTENERS + PAGE;
const PAIR: u64 = 32;
const PAIR_SLOTS: u64 = limits::PAIRS as u64;
const REGIONS: u64 = PAIRS + PAIR * PAIR_SLOTS;
const REGION: u64 = 48;
/// Twice as many as there can be: a free place for a random key is found soon.
const REGION_SLOTS: u64 = 2 * limits::REGIONS as u64;

/// Listeners of one adapter.
pub(crate) const LISTENERS_MAX: usize = (PAGE / 8) as usize;

/// Words of the identity.
const GENERATION: u64 = 0;
const PID: u64 = 8;
const PROOF_AT: u64 = 16;
const PROOF: u64 = 24;
const AREA: u64 = 32;
const AREA_BYTES: u64 = 40;
/// On a cache line of their own: the region and the queue pair at which this process copies, `seat << 32 | key`.
const USES_REGION: u64 = 128;
const USES_PAIR: u64 = 136;

/// Bytes of all tables.
pub(crate) const BYTES: u64 = REGIONS + REGION * REGION_SLOTS;

/// Who a process says it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    pub(crate) generation: u64,
    pub(crate) pid: u64,
    /// A word of that process and what it holds: proof that the number means the same process here as there.
    pub(crate) proof: (u64, u64),
    /// Where its area for registered memory is in its process, and how long.
    pub(crate) area: (u64, u64),
}

/// The tables of one seat, mapped.
#[derive(Clone, Copy)]
pub(crate) struct Tables(Published);

impl Tables {
    /// Those of `seat`, which begin at `start` of its heap; nothing if it has no such place. Those of a
    /// seat on another host are empty.
    pub(crate) fn of(job: &Job, seat: usize, start: u64) -> Option<Tables> {
        let place = |offset| Place { region: Area::Heap, offset };
        job.mapped(place(start + BYTES - 8), seat)?;
        // SAFETY: all of the tables are mapped, as long as the job, which an adapter keeps for good.
        job.mapped(place(start), seat).map(|base| Tables(unsafe { Published::new(base, BYTES) }))
    }

    /// This process's own.
    pub(crate) fn own(job: &Job, start: u64) -> Tables {
        // SAFETY: as above; the caller has checked that there is room.
        Tables(unsafe { Published::new(job.local(Place { region: Area::Heap, offset: start }), BYTES) })
    }

    pub(crate) fn say_who(&self, who: Identity) {
        let (at, word) = who.proof;
        let (area, bytes) = who.area;
        self.0.publish(IDENTITY + GENERATION, &[who.generation, who.pid, at, word, area, bytes]);
    }
    pub(crate) fn who(&self) -> Identity {
        let [generation, pid, at, word, area, bytes] = [GENERATION, PID, PROOF_AT, PROOF, AREA, AREA_BYTES]
            .map(|at| self.0.word(IDENTITY + at).load(Ordering::Acquire));
        Identity { generation, pid, proof: (at, word), area: (area, bytes) }
    }

    /// Where the listeners begin, of every seat.
    pub(crate) const LISTENERS_AT: u64 = LISTENERS;

    /// Place of a region's entry.
    fn region_at(key: u32) -> u64 {
        REGIONS + u64::from(key) % REGION_SLOTS * REGION
    }
    pub(crate) fn has_place(&self, key: u32) -> bool {
        self.0.load(Tables::region_at(key)) == 0
    }
    pub(crate) fn say_region(&self, region: &Region) {
        let Region { key, pd, access, at, len, iova, reach } = *region;
        let fields = [key.into(), u64::from(pd) | u64::from(access) << 32, at, len, iova, reach];
        self.0.publish(Tables::region_at(key), &fields);
    }
    pub(crate) fn region(&self, key: u32) -> Option<Region> {
        let [_, rights, at, len, iova, reach] = self.0.read::<6>(Tables::region_at(key), key.into())?;
        Some(Region { key, pd: rights as u32, access: (rights >> 32) as u32, at, len, iova, reach })
    }
    pub(crate) fn take_region(&self, key: u32) {
        let at = Tables::region_at(key);
        if self.0.load(at) == u64::from(key) {
            self.0.withdraw(at);
        }
    }

    fn pair_at(number: u32) -> u64 {
        PAIRS + u64::from(number >> LANE_BITS) % PAIR_SLOTS * PAIR
    }
    pub(crate) fn say_pair(&self, pair: &PublicPair) {
        let both = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let PublicPair { number, peer, with, pd, access } = *pair;
        let fields = [number.into(), both(with, peer.seat), both(pd, access), peer.generation.into()];
        self.0.publish(Tables::pair_at(pair.number), &fields);
    }
    pub(crate) fn pair(&self, number: u32) -> Option<PublicPair> {
        let [_, end, rights, generation] = self.0.read::<4>(Tables::pair_at(number), number.into())?;
        let peer = Peer { seat: (end >> 32) as u32, generation: generation as u32 };
        Some(PublicPair { number, peer, with: end as u32, pd: rights as u32, access: (rights >> 32) as u32 })
    }
    pub(crate) fn take_pair(&self, number: u32) {
        let at = Tables::pair_at(number);
        // Another one may have the place now.
        if self.0.load(at) == u64::from(number) {
            self.0.withdraw(at);
        }
    }

    /// Says at what of `seat` this process copies from now on.
    pub(crate) fn use_of(&self, seat: u32, key: u32, pair: u32) {
        let used = |what: u32| u64::from(seat) << 32 | u64::from(what);
        self.0.uses(USES_REGION, used(key));
        self.0.uses(USES_PAIR, used(pair));
    }
    pub(crate) fn use_nothing(&self) {
        self.0.uses_nothing(USES_REGION);
        self.0.uses_nothing(USES_PAIR);
    }
    /// True while that process copies at this region of `seat`.
    pub(crate) fn uses_region(&self, seat: u32, key: u32) -> bool {
        self.0.is_using(USES_REGION, u64::from(seat) << 32 | u64::from(key))
    }
    /// True while that process copies by this queue pair of `seat`.
    pub(crate) fn uses_pair(&self, seat: u32, number: u32) -> bool {
        self.0.is_using(USES_PAIR, u64::from(seat) << 32 | u64::from(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published_is_read_until_it_is_taken_away() {
        let mut room = vec![0u64; (BYTES / 8) as usize];
        // SAFETY: the room lives to the end of the test.
        let tables = Tables(unsafe { Published::new(room.as_mut_ptr().cast(), BYTES) });
        let region = Region { key: 0xdead_beef, pd: 3, access: 7, at: 4096, len: 10, iova: 5, reach: 8192 };
        assert!(tables.has_place(region.key) && tables.region(region.key).is_none());
        tables.say_region(&region);
        assert_eq!(tables.region(region.key), Some(region));
        assert!(!tables.has_place(region.key));
        assert_eq!(tables.region(region.key ^ 0x8000_0000), None);
        tables.take_region(region.key);
        assert_eq!(tables.region(region.key), None);
        let peer = Peer { seat: 5, generation: 6 };
        let pair = PublicPair { number: 0x1_0045, peer, with: 9, pd: 3, access: 7 };
        tables.say_pair(&pair);
        assert_eq!(tables.pair(pair.number), Some(pair));
        tables.take_pair(pair.number + (1 << LANE_BITS));
        assert_eq!(tables.pair(pair.number), Some(pair));
        tables.use_of(4, region.key, pair.number);
        assert!(
            tables.uses_region(4, region.key) && tables.uses_pair(4, pair.number) && !tables.uses_region(5, region.key)
        );
        tables.use_nothing();
        assert!(!tables.uses_region(4, region.key));
        let who = Identity { generation: 2, pid: 77, proof: (8, 9), area: (4096, 8192) };
        tables.say_who(who);
        assert_eq!(tables.who(), who);
    }
}
