//! What a process publishes of its registered memory, for peers that write and read there by themselves.
//!
//! ```text
//! identity   generation, process number, address of a word, that word, address and bytes of the area for registered memory;
//!            at byte 128: the region that this process is using, seat << 32 | slot + 1
//! endpoints  2 u64 each, by the lower bits of their numbers: the number of an enabled endpoint plus 1, and its domain
//! regions    8 u64 each: a number, domain, key, address that names it, bytes, rights, where it is reached, plain or counted
//! ```

use angara::{Job, Place, Region};
use angara_registered::Published;

const USES: u64 = 128;
const EPS_AT: u64 = 4096;
const EPS: u64 = 512;
const EP: u64 = 16;
const REGIONS_AT: u64 = EPS_AT + EP * EPS;
const SLOTS: u64 = 4096;
const SLOT: u64 = 64;
/// Words of a slot.
const DOMAIN: u64 = 1;
const KEY: u64 = 2;
/// Places that a key may have.
const PROBES: u64 = 16;

/// Bytes of the table.
pub(crate) const BYTES: u64 = REGIONS_AT + SLOTS * SLOT;

/// Who a process is, for those who would write to its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    pub(super) generation: u64,
    pub(super) pid: u64,
    /// A word of that process and what it holds.
    pub(super) proof: (u64, u64),
    /// Its area for registered memory, in its own process.
    pub(super) area: (u64, u64),
}

/// A published region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) domain: u32,
    pub(super) key: u64,
    /// By which remote addresses name its first byte.
    pub(super) base: u64,
    pub(super) len: u64,
    pub(super) access: u64,
    /// Where its first byte is reached in the target's process.
    pub(super) reach: u64,
    /// Somebody there wants to know of accesses.
    pub(super) is_counted: bool,
}

impl Entry {
    /// Where `len` bytes at `at` of the region are reached, if they may be used so.
    pub(super) fn find(&self, at: u64, len: u64, access: u64) -> Option<u64> {
        let from = at.checked_sub(self.base)?;
        let inside = from <= self.len && len <= self.len - from;
        (inside && self.access & access == access).then(|| self.reach + from)
    }
}

/// The table of one process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table(Published);

fn first_slot(domain: u32, key: u64) -> u64 {
    (key ^ u64::from(domain) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

impl Table {
    /// That of `pe`, whose tables begin at `start` of every heap region.
    pub(super) fn of(job: &Job, pe: usize, start: u64) -> Option<Table> {
        let place = |offset| Place { region: Region::Heap, offset };
        job.mapped(place(start + BYTES - 8), pe)?;
        // SAFETY: all of it is mapped as long as the job, which a provider keeps for good.
        job.mapped(place(start), pe).map(|base| Table(unsafe { Published::new(base, BYTES) }))
    }

    pub(super) fn say_who(&self, who: Identity) {
        self.0.publish(0, &[who.generation, who.pid, who.proof.0, who.proof.1, who.area.0, who.area.1]);
    }
    pub(super) fn who(&self, generation: u64) -> Option<Identity> {
        let [generation, pid, at, word, area, bytes] = self.0.read::<6>(0, generation)?;
        Some(Identity { generation, pid, proof: (at, word), area: (area, bytes) })
    }

    /// An endpoint is enabled, or closed. Of two that have the same place, the later one has it.
    pub(super) fn say_endpoint(&self, ep: u32, domain: Option<u32>) {
        let at = Table::ep_at(ep);
        match domain {
            Some(domain) => self.0.publish(at, &[u64::from(ep) + 1, domain.into()]),
            None if self.0.load(at) == u64::from(ep) + 1 => self.0.withdraw(at),
            None => {}
        }
    }
    fn domain_of(&self, ep: u32) -> Option<u32> {
        let [_, domain] = self.0.read::<2>(Table::ep_at(ep), u64::from(ep) + 1)?;
        Some(domain as u32)
    }
    fn ep_at(ep: u32) -> u64 {
        EPS_AT + EP * (u64::from(ep) % EPS)
    }

    fn slots(domain: u32, key: u64) -> impl Iterator<Item = u64> {
        let first = first_slot(domain, key);
        (0..PROBES).map(move |i| (first + i) % SLOTS)
    }
    fn at(slot: u64) -> u64 {
        REGIONS_AT + slot * SLOT
    }

    /// Publishes a region under a number that it alone has. Returns its slot, if there is room.
    pub(super) fn say_region(&self, number: u64, entry: &Entry) -> Option<u64> {
        let slot = Table::slots(entry.domain, entry.key).find(|slot| self.0.load(Table::at(*slot)) == 0)?;
        let Entry { domain, key, base, len, access, reach, is_counted } = *entry;
        let fields = [number, domain.into(), key, base, len, access, reach, is_counted.into()];
        self.0.publish(Table::at(slot), &fields);
        Some(slot)
    }
    pub(super) fn take_region(&self, slot: u64) {
        self.0.withdraw(Table::at(slot));
    }

    /// Where the region of a key of an endpoint's domain may be: [`Table::region`] says whether it is.
    pub(super) fn slot(&self, ep: u32, key: u64) -> Option<(u32, u64)> {
        let domain = self.domain_of(ep)?;
        let word = |slot, number| self.0.load(Table::at(slot) + 8 * number);
        let is_there =
            |slot: &u64| word(*slot, 0) != 0 && (word(*slot, DOMAIN), word(*slot, KEY)) == (domain.into(), key);
        Table::slots(domain, key).find(is_there).map(|slot| (domain, slot))
    }

    /// The region of a key in a slot.
    pub(super) fn region(&self, domain: u32, key: u64, slot: u64) -> Option<Entry> {
        let number = self.0.load(Table::at(slot));
        let [_, of, found, base, len, access, reach, counted] =
            self.0.read::<8>(Table::at(slot), number).filter(|_| number != 0)?;
        let entry = Entry { domain, key, base, len, access, reach, is_counted: counted != 0 };
        ((of, found) == (domain.into(), key)).then_some(entry)
    }

    /// Says that this process uses a region of a peer: what it finds there afterwards stays.
    pub(super) fn uses(&self, seat: u32, slot: u64) {
        self.0.uses(USES, u64::from(seat) << 32 | (slot + 1));
    }
    pub(super) fn uses_nothing(&self) {
        self.0.uses_nothing(USES);
    }
    pub(super) fn is_using(&self, seat: u32, slot: u64) -> bool {
        self.0.is_using(USES, u64::from(seat) << 32 | (slot + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published_is_found_until_it_is_taken_away() {
        let mut room = vec![0u64; (BYTES / 8) as usize];
        // SAFETY: the room lives to the end of the test.
        let table = Table(unsafe { Published::new(room.as_mut_ptr().cast(), BYTES) });
        let find = |ep, key| {
            let (domain, slot) = table.slot(ep, key)?;
            Some((slot, table.region(domain, key, slot)?))
        };
        let entry = |key| Entry { domain: 3, key, base: 100, len: 50, access: 7, reach: 4096, is_counted: key == 9 };
        assert_eq!(find(5, 8), None);
        table.say_endpoint(5, Some(3));
        let slots: Vec<_> = (0..200).map(|key| table.say_region(key + 1, &entry(key)).expect("room")).collect();
        for key in 0..200 {
            assert_eq!(find(5, key), Some((slots[key as usize], entry(key))));
            assert_eq!(find(4, key), None, "another endpoint");
            assert_eq!(find(5 + EPS as u32, key), None, "another one at its place");
        }
        table.take_region(slots[8]);
        assert_eq!(find(5, 8), None);
        assert_eq!(find(5, 9), Some((slots[9], entry(9))));
        table.say_endpoint(5 + EPS as u32, None);
        assert!(find(5, 9).is_some(), "that one was not there");
        table.say_endpoint(5, None);
        assert_eq!(find(5, 9), None);
        assert_eq!(entry(1).find(120, 30, 4), Some(4116));
        for (at, len, access) in [(120, 31, 4), (99, 1, 4), (120, 30, 8), (u64::MAX, 2, 4)] {
            assert_eq!(entry(1).find(at, len, access), None);
        }
        let who = Identity { generation: 4, pid: 5, proof: (6, 7), area: (8, 9) };
        table.say_who(who);
        assert_eq!((table.who(4), table.who(3)), (Some(who), None));
        table.uses(2, slots[9]);
        assert!(table.is_using(2, slots[9]) && !table.is_using(1, slots[9]));
        table.uses_nothing();
        assert!(!table.is_using(2, slots[9]));
    }
}
