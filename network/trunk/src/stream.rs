//! The bytes of a stream that may still have to be sent, by offset.
//!
//! Small records are collected in chunks; a large one is a chunk of its own, which its owner shares instead of copying.

use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::Range;

/// A chunk of small records ends when it has this many bytes.
const CHUNK: usize = 16 << 10;

#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// One behind the other, each with the offset of its first byte.
    chunks: VecDeque<(u64, Bytes)>,
    /// Behind the last of them.
    tail: Vec<u8>,
    /// Where everything ends.
    end: u64,
}

impl Stream {
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Appends a copy of `data`.
    pub(crate) fn push(&mut self, data: &[u8]) {
        if self.tail.len() + data.len() > CHUNK {
            self.close();
        }
        if self.tail.capacity() == 0 {
            self.tail.reserve(CHUNK.max(data.len()));
        }
        self.tail.extend_from_slice(data);
        self.end += data.len() as u64;
    }

    /// Appends `data` itself.
    pub(crate) fn push_shared(&mut self, data: Bytes) {
        if data.is_empty() {
            return;
        }
        self.close();
        let start = self.end;
        self.end += data.len() as u64;
        self.chunks.push_back((start, data));
    }

    fn close(&mut self) {
        if !self.tail.is_empty() {
            let start = self.end - self.tail.len() as u64;
            self.chunks.push_back((start, std::mem::take(&mut self.tail).into()));
        }
    }

    /// Appends the bytes of `range` to `out`. They have not been released.
    pub(crate) fn copy(&self, range: Range<u64>, out: &mut Vec<u8>) {
        let tail_start = self.end - self.tail.len() as u64;
        let first = self.chunks.partition_point(|(start, chunk)| start + chunk.len() as u64 <= range.start);
        let closed = self.chunks.range(first..).map(|(start, chunk)| (*start, &chunk[..]));
        for (start, chunk) in closed.chain([(tail_start, &self.tail[..])]) {
            let from = range.start.max(start) - start;
            let to = range.end.min(start + chunk.len() as u64).saturating_sub(start);
            if from < to {
                out.extend_from_slice(&chunk[from as usize..to as usize]);
            } else if start >= range.end {
                break;
            }
        }
    }

    /// Frees the chunks before `start`, which are no longer needed.
    pub(crate) fn release(&mut self, start: u64) {
        while self.chunks.front().is_some_and(|(at, chunk)| at + chunk.len() as u64 <= start) {
            self.chunks.pop_front();
        }
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.chunks.iter().map(|(_, chunk)| chunk.len()).sum::<usize>() + self.tail.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gives_back_what_was_put_in(
            steps in prop::collection::vec((0usize..40_000, any::<bool>(), 0usize..50_000, 0usize..9_000), 1..60),
        ) {
            let (mut stream, mut all, mut start) = (Stream::default(), Vec::new(), 0);
            for (i, (len, shared, skip, want)) in steps.into_iter().enumerate() {
                let data: Vec<u8> = (0..len).map(|k| (k * 7 + i) as u8).collect();
                all.extend_from_slice(&data);
                if shared { stream.push_shared(data.into()) } else { stream.push(&data) }
                prop_assert_eq!(stream.end(), all.len() as u64);
                start = (start + skip).min(all.len());
                stream.release(start as u64);
                let end = (start + want).min(all.len());
                let mut out = vec![9];
                stream.copy(start as u64..end as u64, &mut out);
                prop_assert_eq!(&out[1..], &all[start..end]);
            }
            stream.release(all.len() as u64);
            prop_assert!(stream.memory() <= 2 * CHUNK.max(40_000));
        }
    }
}
