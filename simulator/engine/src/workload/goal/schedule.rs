//! A schedule on disk, in its binary form: operations are read when the run comes to them.

use super::{binary, text};
use crate::Error;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Longest calculation, ns: eleven days.
pub(super) const CALC_MAX: u64 = 1_000_000_000_000_000;
/// Longest message, bytes.
pub(super) const BYTES_MAX: u64 = 1 << 40;
/// Source or tag of a recv that takes any.
pub(super) const ANY: u32 = u32::MAX;

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Send,
    Recv,
    Calc,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Operation {
    pub(super) kind: Kind,
    /// Bytes of a message, or nanoseconds of a calculation.
    pub(super) size: u64,
    pub(super) peer: u32,
    pub(super) tag: u32,
    pub(super) cpu: u8,
    pub(super) nic: u8,
}

/// What one operation waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Dependency {
    pub(super) of: u32,
    pub(super) on: u32,
    /// It waits for the other's start only.
    pub(super) start: bool,
}

/// The operations of one rank.
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct Rank {
    pub(super) operations: Vec<Operation>,
    pub(super) dependencies: Vec<Dependency>,
}

impl Rank {
    /// For how many others each operation waits.
    pub(super) fn waits(&self) -> Vec<u32> {
        let mut waits = vec![0; self.operations.len()];
        self.dependencies.iter().for_each(|d| waits[d.of as usize] += 1);
        waits
    }

    /// Operations that wait for each other in a circle.
    pub(super) fn circle(&self) -> Option<Vec<u32>> {
        if self.dependencies.iter().all(|d| d.on < d.of) {
            return None;
        }
        let mut waits = self.waits();
        let mut after: Vec<(u32, u32)> = self.dependencies.iter().map(|d| (d.on, d.of)).collect();
        after.sort_unstable();
        let mut free: Vec<u32> = (0..waits.len() as u32).filter(|&i| waits[i as usize] == 0).collect();
        while let Some(on) = free.pop() {
            let first = after.partition_point(|pair| pair.0 < on);
            for &(_, of) in after[first..].iter().take_while(|pair| pair.0 == on) {
                waits[of as usize] -= 1;
                if waits[of as usize] == 0 {
                    free.push(of);
                }
            }
        }
        // What is left waits for something that is left: as many steps back as there are operations end in a circle.
        let left = |i: u32| waits[i as usize] > 0;
        let mut before = vec![0; waits.len()];
        after.iter().filter(|(on, _)| left(*on)).for_each(|&(on, of)| before[of as usize] = on);
        let mut at = (0..waits.len() as u32).find(|&i| left(i))?;
        waits.iter().for_each(|_| at = before[at as usize]);
        let mut circle = vec![at];
        while before[at as usize] != circle[0] {
            at = before[at as usize];
            circle.push(at);
        }
        Some(circle)
    }
}

pub(super) struct Schedule {
    path: PathBuf,
    /// The binary form.
    pub(super) file: File,
    is_text: bool,
    pub(super) ranks: Vec<binary::Place>,
    /// Tells this schedule from others in the identity of a sweep.
    digest: u64,
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:016x}", self.path.display(), self.digest)
    }
}

impl Schedule {
    /// Opens a file of either form and checks all of it.
    pub(super) fn open(path: &Path) -> Result<Schedule, Error> {
        if path.as_os_str().is_empty() {
            return Err(Error::invalid("workload", "", "give the path of a file"));
        }
        let unread = |source| Error::File { path: path.into(), source };
        let mut file = File::open(path).map_err(unread)?;
        let mut first = [0; 8];
        let is_text = !(file.read_exact(&mut first).is_ok() && binary::is_magic(u64::from_le_bytes(first)));
        if is_text {
            file = text::to_binary(path)?;
        }
        Ok(Schedule { is_text, ..Schedule::binary(path, file)? })
    }

    /// A schedule in its binary form; messages name `path`.
    pub(super) fn binary(path: &Path, file: File) -> Result<Schedule, Error> {
        let (ranks, digest) = binary::read(path, &file)?;
        Ok(Schedule { path: path.into(), file, is_text: false, ranks, digest })
    }

    /// Number of all operations.
    pub(super) fn operations(&self) -> u64 {
        self.ranks.iter().map(|rank| u64::from(rank.operations)).sum()
    }

    /// All operations of a rank. Dependencies are in the order of the file.
    pub(super) fn rank(&self, number: u32) -> Result<Rank, Error> {
        let unread = |source| Error::File { path: self.path.clone(), source };
        let (place, mut pages) = (&self.ranks[number as usize], binary::Pages::new(&self.file));
        let mut rank = Rank::default();
        for on in 0..place.operations {
            let stored = pages.operation(place, on).map_err(unread)?;
            rank.operations.push(stored.operation);
            for ((first, count), start) in [(stored.after_end, false), (stored.after_start, true)] {
                for index in first..first + count {
                    let of = pages.waiting(place, index).map_err(unread)?;
                    rank.dependencies.push(Dependency { of, on, start });
                }
            }
        }
        Ok(rank)
    }

    /// A complaint about an operation, with its place in the file.
    pub(super) fn wrong(&self, rank: u32, operation: u32, message: &str) -> Error {
        if self.is_text {
            let line = text::line_of(&self.path, rank, operation).unwrap_or(0);
            return Error::Setting { path: self.path.clone(), line, message: message.into() };
        }
        let offset = self.ranks[rank as usize].operation_at(operation);
        Error::Offset { path: self.path.clone(), offset, message: message.into() }
    }
}
