//! Bytes of a stream, found by their offset in it, in a ring that grows by doubling.

use std::ops::Range;

const SMALLEST: usize = 16 << 10;

#[derive(Debug, Default)]
pub(crate) struct Ring {
    /// Length zero or a power of two.
    bytes: Vec<u8>,
}

impl Ring {
    /// Makes room for `wanted`; of what is stored, `live` is kept.
    pub(crate) fn reserve(&mut self, live: Range<u64>, wanted: Range<u64>) {
        let need = (wanted.end - live.start.min(wanted.start)) as usize;
        if need <= self.bytes.len() {
            return;
        }
        let mut larger = Ring { bytes: vec![0; need.next_power_of_two().max(SMALLEST)] };
        if !live.is_empty() {
            let (a, b) = self.get(live.clone());
            larger.put(live.start, a);
            larger.put(live.start + a.len() as u64, b);
        }
        *self = larger;
    }

    /// Stores bytes at an offset; room was reserved.
    pub(crate) fn put(&mut self, at: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let start = at as usize & (self.bytes.len() - 1);
        let first = data.len().min(self.bytes.len() - start);
        self.bytes[start..start + first].copy_from_slice(&data[..first]);
        self.bytes[..data.len() - first].copy_from_slice(&data[first..]);
    }

    /// Stored bytes, in one or two pieces.
    pub(crate) fn get(&self, range: Range<u64>) -> (&[u8], &[u8]) {
        let len = (range.end - range.start) as usize;
        if len == 0 {
            return (&[], &[]);
        }
        let start = range.start as usize & (self.bytes.len() - 1);
        let first = len.min(self.bytes.len() - start);
        (&self.bytes[start..start + first], &self.bytes[..len - first])
    }

    /// Bytes of memory held.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn keeps_what_a_queue_keeps(steps in prop::collection::vec((0usize..9000, 0usize..9000), 1..80)) {
            let (mut ring, mut queue) = (Ring::default(), VecDeque::new());
            let (mut base, mut end) = (0u64, 0u64);
            for (add, take) in steps {
                ring.reserve(base..end, end..end + add as u64);
                let data: Vec<u8> = (0..add).map(|i| (end as usize + i) as u8 ^ (add as u8)).collect();
                ring.put(end, &data);
                queue.extend(data);
                end += add as u64;
                let take = take.min(queue.len());
                let (a, b) = ring.get(base..base + take as u64);
                let expected: Vec<u8> = queue.drain(..take).collect();
                prop_assert_eq!([a, b].concat(), expected);
                base += take as u64;
            }
            prop_assert!(ring.capacity() <= 2 * 80 * 9000);
        }
    }
}
