//! Which part of the area stands for which addresses of the program.
//!
//! Addresses go in windows of one size, aligned to it. A window that is needed is given some part of the area, and keeps it
//! while any page of it is held. Windows that a region needs together are given parts side by side.

use crate::ranges::{Counts, Span};
use std::collections::BTreeMap;

/// An area has so many windows, if it is large enough. Ours: programs map memory in few places.
const WINDOWS: usize = 16;
/// Windows are no smaller than this.
const LEAST: usize = 64 << 20;

pub(crate) struct Windows {
    /// Bytes of a window.
    size: usize,
    /// For each part of the area the first address of the program that it stands for.
    parts: Vec<Option<usize>>,
    /// The part for each of these addresses.
    by_start: BTreeMap<usize, usize>,
}

impl Windows {
    /// Windows of an area of so many bytes.
    pub(crate) fn new(area: usize) -> Windows {
        let size = (area / WINDOWS).checked_ilog2().map_or(LEAST, |log| 1 << log).max(LEAST);
        Windows { size, parts: vec![None; area / size], by_start: BTreeMap::new() }
    }

    /// Where in the area a range of the program's addresses is, if there is room. `held` are those that the area has now.
    pub(crate) fn place(&mut self, range: &Span, held: &Counts) -> Option<usize> {
        let first = range.start / self.size * self.size;
        let size = self.size;
        let starts = || (first..range.end).step_by(size);
        let known: Vec<Option<usize>> = starts().map(|start| self.by_start.get(&start).copied()).collect();
        let part = match known.first()? {
            Some(part) if known.iter().enumerate().all(|(i, other)| *other == Some(part + i)) => *part,
            _ if known.iter().any(Option::is_some) => return None,
            _ => {
                let part = self.free(known.len()).or_else(|| {
                    self.forget(held);
                    self.free(known.len())
                })?;
                for (i, start) in starts().enumerate() {
                    self.parts[part + i] = Some(start);
                    self.by_start.insert(start, part + i);
                }
                part
            }
        };
        Some(part * self.size + (range.start - first))
    }

    /// Where an address is.
    pub(crate) fn find(&self, at: usize) -> Option<usize> {
        let start = at / self.size * self.size;
        Some(self.by_start.get(&start)? * self.size + (at - start))
    }

    /// The first of so many parts side by side that stand for nothing.
    fn free(&self, count: usize) -> Option<usize> {
        self.parts.windows(count).position(|parts| parts.iter().all(Option::is_none))
    }

    /// Windows without pages stand for nothing any more.
    fn forget(&mut self, held: &Counts) {
        for part in &mut self.parts {
            if let Some(start) = *part
                && !held.touches(&(start..start + self.size))
            {
                self.by_start.remove(&start);
                *part = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn neighbours_are_neighbours_and_windows_are_used_again() {
        let mut held = Counts::default();
        let mut windows = Windows::new(256 * MIB);
        assert_eq!(windows.parts.len(), 4);
        let at = 0x7000_0000_0000;
        let one = windows.place(&(at + 4096..at + 8192), &held).expect("room");
        let two = windows.place(&(at + 8192..at + 64 * MIB), &held).expect("the same window");
        assert_eq!((two - one, windows.find(at + 8192)), (4096, Some(two)));
        assert_eq!(windows.place(&(at + 63 * MIB..at + 65 * MIB), &held), None, "its neighbour is not beside it");
        held.add(&(at + 4096..at + 8192));
        let wide = at + 1024 * MIB;
        let three = windows.place(&(wide + 10 * MIB..wide + 130 * MIB), &held).expect("three windows");
        assert_eq!(windows.find(wide + 129 * MIB), Some(three + 119 * MIB));
        let other = at + 4096 * MIB;
        assert!(windows.place(&(other..other + 65 * MIB), &held).is_some(), "the three have no pages");
        held.add(&(other..other + 65 * MIB));
        assert_eq!(windows.place(&(wide..wide + 65 * MIB), &held), None);
        assert_eq!(windows.find(wide), None);
        assert_eq!(windows.place(&(at..at + 300 * MIB), &held), None, "more than there is");
    }
}
