//! A hash table over all PEs: open addressing, one compare-and-swap to claim a slot, one fetch-and-add to count.
//!
//! ```text
//! cargo build --release -p angara-examples-rust
//! angara run -n 4 target/release/hash_table [WORDS]
//! ```
//!
//! Each PE counts the words of its part of a text that all could make. Any PE finds any word by one or two atomics.
#![forbid(unsafe_code)]

use angara::pgas::{Exposed, Sum, World};

/// Slots of a PE; a power of two.
const SLOTS: usize = 1 << 12;
/// Different words.
const VOCABULARY: u64 = 3000;

struct Table<'w> {
    world: &'w World,
    /// 0 where the slot is free.
    keys: Exposed<'w, u64>,
    counts: Exposed<'w, u64>,
}

/// A number that looks like chance (SplitMix64's last steps).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl<'w> Table<'w> {
    fn new(world: &'w World) -> angara::Result<Table<'w>> {
        Ok(Table { world, keys: world.array(SLOTS)?, counts: world.array(SLOTS)? })
    }

    /// The slot of `key`, which is not 0: PE and index. A free one is claimed where `claim`.
    fn find(&self, key: u64, claim: bool) -> angara::Result<Option<(usize, usize)>> {
        let hash = mix(key);
        let pe = (hash >> 32) as usize % self.world.n_pes();
        for probe in 0..SLOTS {
            let slot = (hash as usize + probe) % SLOTS;
            let at = self.keys.at(pe, slot);
            let there = if claim { self.world.compare_swap(at, 0, key)? } else { self.world.fetch(at)? };
            match there {
                0 if !claim => return Ok(None),
                0 => return Ok(Some((pe, slot))),
                there if there == key => return Ok(Some((pe, slot))),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Counts `key` once more, and returns how often it had been counted before.
    fn count(&self, key: u64) -> angara::Result<u64> {
        let (pe, slot) = self.find(key, true)?.expect("the table has room for the whole vocabulary");
        self.world.fetch_add(self.counts.at(pe, slot), 1)
    }

    fn get(&self, key: u64) -> angara::Result<u64> {
        match self.find(key, false)? {
            Some((pe, slot)) => self.world.fetch(self.counts.at(pe, slot)),
            None => Ok(0),
        }
    }
}

fn main() -> angara::Result<()> {
    let words: u64 = std::env::args().nth(1).map_or(20_000, |arg| arg.parse().expect("usage: hash_table [WORDS]"));
    let world = World::init()?;
    let (me, n) = (world.my_pe() as u64, world.n_pes() as u64);
    let table = Table::new(&world)?;
    let word = |i: u64| mix(i) % VOCABULARY + 1;
    let mut new = 0u64;
    for i in (me..words).step_by(n as usize) {
        new += u64::from(table.count(word(i))? == 0);
    }
    world.barrier()?;

    // Every PE checks some keys, whoever has them.
    let mut expected = vec![0u64; VOCABULARY as usize + 1];
    (0..words).for_each(|i| expected[word(i) as usize] += 1);
    for key in (1 + me..=VOCABULARY).step_by(n as usize) {
        assert_eq!(table.get(key)?, expected[key as usize], "word {key}");
    }
    let different = world.all().reduce_one(Sum, new)?;
    if me == 0 {
        println!("{n} PEs counted {words} words, {different} of them different: ok");
    }
    Ok(())
}
