//! Compressed files, whose few bytes may stand for more than memory holds.

use crate::units::show_bytes;
use std::io::{self, Read};

/// How many times its size a file may unpack to: reports and traces of programs come to 5 to 30 times theirs.
const RATIO: u64 = 64;
/// And what may come in any case.
const FREE: u64 = 64 << 20;

/// What comes out of a file of `packed` bytes: an error in place of more than such a file should hold.
pub struct Unpacked<R> {
    from: R,
    left: u64,
    most: u64,
}

impl<R: Read> Unpacked<R> {
    /// Of a decoder that reads a file of `packed` bytes.
    pub fn new(from: R, packed: u64) -> Unpacked<R> {
        let most = FREE.saturating_add(packed.saturating_mul(RATIO));
        Unpacked { from, left: most, most }
    }

    /// With no more than `most` bytes in any case: for what is kept in memory as a whole.
    pub fn at_most(self, most: u64) -> Unpacked<R> {
        let most = self.most.min(most);
        Unpacked { left: most, most, ..self }
    }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(into)?;
        match self.left.checked_sub(n as u64) {
            Some(left) => self.left = left,
            None => {
                let most = show_bytes(self.most);
                let why = format!(
                    "it unpacks to more than {most}, which it may do to fill memory; unpack it yourself if it is right"
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_should_hold_comes_and_more_is_an_error() {
        let read = |bytes: u64, packed: u64, most: u64| {
            let mut from = Unpacked::new(io::repeat(7).take(bytes), packed).at_most(most);
            io::copy(&mut from, &mut io::sink()).map_err(|e| e.to_string())
        };
        assert_eq!(read(FREE, 0, u64::MAX), Ok(FREE));
        assert_eq!(read(FREE + 64_000, 1_000, u64::MAX), Ok(FREE + 64_000));
        let e = read(FREE + 64_001, 1_000, u64::MAX).expect_err("a byte more");
        assert!(e.contains("more than 64.1M"), "{e}");
        assert_eq!(read(1_000, 1_000, 1_000), Ok(1_000));
        assert!(read(1_001, 1_000, 1_000).is_err());
        assert_eq!(Unpacked::new(io::empty(), u64::MAX).most, u64::MAX);
    }
}
