//! The binary form of a schedule, as LogGOPSim's `txt2bin` writes it. Everything is little-endian and without gaps.

use super::schedule::{ANY, BYTES_MAX, CALC_MAX, Dependency, Kind, Operation, Rank};
use crate::Error;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: u64 = 4223;
/// What LogGOPSim writes in its place when a run with --save-mem has used the schedule up.
const MAGIC_USED: u64 = 2342;
/// Bytes of the magic number; offsets in the file are counted from its end.
const MAGIC_BYTES: u64 = 8;
/// Bytes before the table of ranks: their number, highest cpu, highest nic.
const HEAD: u64 = 6;
/// Bytes of a rank in that table: where it begins and ends.
const ENTRY: u64 = 16;
/// Bytes of an operation.
const OPERATION: u64 = 39;
/// Most ranks.
pub(super) const RANKS_MAX: u32 = 1 << 24;

/// True if a file that begins with this number has the binary form.
pub(super) fn is_magic(number: u64) -> bool {
    number == MAGIC || number == MAGIC_USED
}

/// Where the operations of a rank are in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) operations: u32,
    /// Those that wait for none; their list is before the operations.
    pub(super) free: u32,
    /// Its first operation.
    begin: u64,
    /// The list of those that wait, behind the operations.
    appendix: u64,
}

impl Place {
    /// Offset of an operation in the file.
    pub(super) fn operation_at(&self, operation: u32) -> u64 {
        self.begin + u64::from(operation) * OPERATION
    }
}

/// An operation as it stands in the file.
pub(super) struct Stored {
    pub(super) operation: Operation,
    /// For how many it waits.
    pub(super) waits: u32,
    /// Those that wait for its end and for its start: first in the appendix, and how many.
    pub(super) after_end: (u32, u32),
    pub(super) after_start: (u32, u32),
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn decode(bytes: &[u8]) -> Result<Stored, String> {
    let kind = match bytes[4] {
        1 => Kind::Send,
        2 => Kind::Recv,
        3 => Kind::Calc,
        other => return Err(format!("type {other}, where there are 1 (send), 2 (recv) and 3 (calc)")),
    };
    let operation = Operation {
        kind,
        peer: u32_at(bytes, 5),
        size: u64_at(bytes, 9),
        tag: u32_at(bytes, 17),
        cpu: bytes[21],
        nic: bytes[22],
    };
    let list = |at: usize| (u32_at(bytes, at + 4), u32_at(bytes, at));
    Ok(Stored { operation, waits: u32_at(bytes, 0), after_end: list(23), after_start: list(31) })
}

/// Pages of the file that were read last.
pub(super) struct Pages<'a> {
    file: &'a File,
    pages: Vec<Option<(u64, Box<[u8]>)>>,
}

const PAGE: u64 = 4096;
const PAGES: u64 = 4096;

impl<'a> Pages<'a> {
    pub(super) fn new(file: &'a File) -> Pages<'a> {
        Pages { file, pages: vec![None; PAGES as usize] }
    }

    fn read(&mut self, mut at: u64, mut into: &mut [u8]) -> io::Result<()> {
        while !into.is_empty() {
            let number = at / PAGE;
            let slot = &mut self.pages[(number % PAGES) as usize];
            if slot.as_ref().is_none_or(|page| page.0 != number) {
                let mut bytes = vec![0; PAGE as usize];
                let mut len = 0;
                while len < bytes.len() {
                    match self.file.read_at(&mut bytes[len..], number * PAGE + len as u64)? {
                        0 => break,
                        more => len += more,
                    }
                }
                bytes.truncate(len);
                *slot = Some((number, bytes.into()));
            }
            let page = slot.as_ref().map_or(&[][..], |page| &page.1);
            let rest = page.get((at % PAGE) as usize..).unwrap_or_default();
            if rest.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let len = rest.len().min(into.len());
            let (now, later) = into.split_at_mut(len);
            now.copy_from_slice(&rest[..len]);
            (at, into) = (at + len as u64, later);
        }
        Ok(())
    }

    /// An operation; the file has been checked.
    pub(super) fn operation(&mut self, of: &Place, operation: u32) -> io::Result<Stored> {
        let mut bytes = [0; OPERATION as usize];
        self.read(of.operation_at(operation), &mut bytes)?;
        decode(&bytes).map_err(io::Error::other)
    }

    /// An operation that waits for another one.
    pub(super) fn waiting(&mut self, of: &Place, index: u32) -> io::Result<u32> {
        self.number(of.appendix + u64::from(index) * 4)
    }

    /// An operation that waits for none.
    pub(super) fn free(&mut self, of: &Place, index: u32) -> io::Result<u32> {
        self.number(of.begin - u64::from(of.free - index) * 4)
    }

    fn number(&mut self, at: u64) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.read(at, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }
}

/// A file while it is checked.
struct Reader<'a> {
    path: &'a Path,
    file: &'a File,
    len: u64,
    ranks: u32,
    hasher: DefaultHasher,
}

/// Checks a file; where its ranks are, and a digest of their operations.
pub(super) fn read(path: &Path, file: &File) -> Result<(Vec<Place>, u64), Error> {
    let len = file.metadata().map_err(|source| Error::File { path: path.into(), source })?.len();
    let mut reader = Reader { path, file, len, ranks: 0, hasher: DefaultHasher::new() };
    let head = reader.bytes(0, MAGIC_BYTES + HEAD)?;
    if u64_at(&head, 0) == MAGIC_USED {
        return Err(reader.wrong(0, "a run of LogGOPSim with --save-mem has used this schedule up; make it again"));
    }
    reader.ranks = u32_at(&head, 8);
    if !(1..=RANKS_MAX).contains(&reader.ranks) {
        return Err(reader.wrong(8, &format!("{} ranks; 1 to {RANKS_MAX} can be right", reader.ranks)));
    }
    let table = reader.bytes(MAGIC_BYTES + HEAD, u64::from(reader.ranks) * ENTRY)?;
    let mut places = Vec::new();
    for (rank, entry) in table.chunks(ENTRY as usize).enumerate() {
        let at = MAGIC_BYTES + HEAD + rank as u64 * ENTRY;
        places.push(reader.rank(rank as u32, at, (u64_at(entry, 0), u64_at(entry, 8)))?);
    }
    Ok((places, reader.hasher.finish()))
}

impl Reader<'_> {
    fn wrong(&self, offset: u64, message: &str) -> Error {
        Error::Offset { path: self.path.into(), offset, message: message.into() }
    }

    fn bytes(&self, at: u64, len: u64) -> Result<Vec<u8>, Error> {
        if at.checked_add(len).is_none_or(|end| end > self.len) {
            let why = format!("the file ends here, and what it begins with takes {len} bytes from offset {at} on");
            return Err(self.wrong(self.len, &format!("{why}; make it again")));
        }
        let mut bytes = vec![0; len as usize];
        let read = self.file.read_exact_at(&mut bytes, at);
        read.map_err(|source| Error::File { path: self.path.into(), source })?;
        Ok(bytes)
    }

    fn rank(&mut self, rank: u32, entry: u64, (begin, end): (u64, u64)) -> Result<Place, Error> {
        let missing = || format!("rank {rank} is missing: it goes from {begin} to {end}; make the file again");
        let table = HEAD + u64::from(self.ranks) * ENTRY;
        if begin < table || end < begin.saturating_add(8) || end > u64::MAX - MAGIC_BYTES {
            return Err(self.wrong(entry, &missing()));
        }
        let at = MAGIC_BYTES + begin;
        let bytes = self.bytes(at, end - begin)?;
        self.hasher.write(&bytes);
        let (operations, roots) = (u32_at(&bytes, 0), u32_at(&bytes, 4));
        let first = 8 + 4 * u64::from(roots);
        let appendix = first + OPERATION * u64::from(operations);
        if appendix > bytes.len() as u64 || !(bytes.len() as u64 - appendix).is_multiple_of(4) {
            let why = format!("rank {rank} of {operations} operations, {roots} of them free, in {} bytes", bytes.len());
            return Err(self.wrong(at, &format!("{why}; make the file again")));
        }
        let place = Place { operations, free: roots, begin: at + first, appendix: at + appendix };
        let (first, appendix) = (first as usize, appendix as usize);
        let mut whole = Rank::default();
        let mut declared = Vec::new();
        for (i, stored) in (0..).zip(bytes[first..appendix].chunks(OPERATION as usize)) {
            let stored = decode(stored).and_then(|stored| {
                self.check(&stored.operation)?;
                take_dependencies(&mut whole, i, operations, &stored, &bytes[appendix..])?;
                Ok(stored)
            });
            let wrong = |why| self.wrong(place.operation_at(i), &format!("operation {i} of rank {rank}: {why}"));
            let stored = stored.map_err(wrong)?;
            whole.operations.push(stored.operation);
            declared.push(stored.waits);
        }
        let waits = whole.waits();
        if let Some(i) = (0..waits.len()).find(|&i| waits[i] != declared[i]) {
            let why = format!("it waits for {} operations, but {} name it; make the file again", declared[i], waits[i]);
            return Err(self.wrong(place.operation_at(i as u32), &format!("operation {i} of rank {rank}: {why}")));
        }
        let free = (0u32..).zip(&waits).filter(|(_, left)| **left == 0).map(|(i, _)| i);
        if !free.eq(bytes[8..first].chunks(4).map(|root| u32_at(root, 0))) {
            let why = "the list of its operations that wait for none is another than its operations say";
            return Err(self.wrong(at + 4, &format!("rank {rank}: {why}; make the file again")));
        }
        match whole.circle() {
            Some(circle) => {
                let why = format!("it waits for itself, in the circle {circle:?}; take one of these dependencies away");
                let i = circle[0];
                Err(self.wrong(place.operation_at(i), &format!("operation {i} of rank {rank}: {why}")))
            }
            None => Ok(place),
        }
    }

    fn check(&self, operation: &Operation) -> Result<(), String> {
        check(operation)?;
        let Operation { kind, peer, .. } = *operation;
        if kind == Kind::Calc || peer < self.ranks || (kind == Kind::Recv && peer == ANY) {
            return Ok(());
        }
        Err(format!("rank {peer}, where there are 0 to {}; give one of these", self.ranks - 1))
    }
}

/// Refuses sizes and tags that cannot be.
pub(super) fn check(operation: &Operation) -> Result<(), String> {
    let Operation { kind, size, tag, .. } = *operation;
    match kind {
        Kind::Calc if size > CALC_MAX => Err(format!("calc {size}; give at most {CALC_MAX} ns")),
        Kind::Send | Kind::Recv if size > BYTES_MAX => Err(format!("{size} bytes; give at most {BYTES_MAX}")),
        Kind::Send if tag == ANY => Err("a send with any tag; give it one, from 0".into()),
        _ => Ok(()),
    }
}

/// Adds those that wait for operation `on`.
fn take_dependencies(to: &mut Rank, on: u32, count: u32, stored: &Stored, appendix: &[u8]) -> Result<(), String> {
    for ((first, len), start) in [(stored.after_end, false), (stored.after_start, true)] {
        if len == 0 {
            continue;
        }
        let (first, len) = (first as usize, len as usize);
        let list = appendix.get(first * 4..(first + len) * 4);
        let list = list.ok_or_else(|| {
            format!("{len} dependants from number {first} on, of {}; make the file again", appendix.len() / 4)
        })?;
        for of in list.chunks(4).map(|bytes| u32_at(bytes, 0)) {
            if of >= count {
                return Err(format!("dependant {of}, and the rank has {count} operations; make the file again"));
            }
            to.dependencies.push(Dependency { of, on, start });
        }
        if to.dependencies.len() > appendix.len() / 4 {
            return Err("dependants that overlap those of other operations; make the file again".into());
        }
    }
    Ok(())
}

/// Writes a file, rank by rank.
pub(super) struct Writer {
    file: io::BufWriter<File>,
    table: Vec<Option<(u64, u64)>>,
    at: u64,
    cpu: u8,
    nic: u8,
}

impl Writer {
    /// A file of N ranks.
    pub(super) fn new(file: File, ranks: u32) -> io::Result<Writer> {
        let table = u64::from(ranks) * ENTRY;
        let mut file = io::BufWriter::new(file);
        io::copy(&mut io::Read::take(io::repeat(0), MAGIC_BYTES + HEAD + table), &mut file)?;
        Ok(Writer { file, table: vec![None; ranks as usize], at: HEAD + table, cpu: 0, nic: 0 })
    }

    /// True if the rank has been written.
    pub(super) fn has(&self, rank: u32) -> bool {
        self.table[rank as usize].is_some()
    }

    pub(super) fn rank(&mut self, number: u32, rank: &Rank) -> io::Result<()> {
        let waits = rank.waits();
        let mut sorted = rank.dependencies.clone();
        sorted.sort_by_key(|d| (d.on, d.start));
        let free: Vec<u32> = (0..).zip(&waits).filter(|(_, left)| **left == 0).map(|(i, _)| i).collect();
        let mut bytes = Vec::new();
        let put = |bytes: &mut Vec<u8>, number: u32| bytes.extend(number.to_le_bytes());
        put(&mut bytes, rank.operations.len() as u32);
        put(&mut bytes, free.len() as u32);
        free.iter().for_each(|&i| put(&mut bytes, i));
        let mut next = 0;
        for (i, (operation, waits)) in (0..).zip(rank.operations.iter().zip(&waits)) {
            put(&mut bytes, *waits);
            bytes.push(operation.kind as u8 + 1);
            put(&mut bytes, operation.peer);
            bytes.extend(operation.size.to_le_bytes());
            put(&mut bytes, operation.tag);
            bytes.extend([operation.cpu, operation.nic]);
            for start in [false, true] {
                let count = sorted[next..].iter().take_while(|d| d.on == i && d.start == start).count();
                put(&mut bytes, count as u32);
                put(&mut bytes, next as u32);
                next += count;
            }
            (self.cpu, self.nic) = (self.cpu.max(operation.cpu), self.nic.max(operation.nic));
        }
        sorted.iter().for_each(|d| put(&mut bytes, d.of));
        self.file.write_all(&bytes)?;
        let end = self.at + bytes.len() as u64;
        self.table[number as usize] = Some((self.at, end));
        self.at = end;
        Ok(())
    }

    /// Writes the head; the file, whole.
    pub(super) fn finish(self) -> io::Result<File> {
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        let mut head = MAGIC.to_le_bytes().to_vec();
        head.extend((self.table.len() as u32).to_le_bytes());
        head.extend([self.cpu, self.nic]);
        for (begin, end) in self.table.into_iter().flatten() {
            head.extend(begin.to_le_bytes());
            head.extend(end.to_le_bytes());
        }
        file.write_all_at(&head, 0)?;
        Ok(file)
    }
}
