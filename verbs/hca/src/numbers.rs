//! Tables by numbers that this adapter has given: nobody can choose them so that they collide.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table by a number.
pub(crate) type ByNumber<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// Spreads numbers over all bits, by the golden ratio.
#[derive(Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32((*byte).into()));
    }
    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}
