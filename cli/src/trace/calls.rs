//! Files of calls, as PEs write them: read one record after the other.

use angara_abi::calls::{Call, Head, RECORD, Record};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// The calls of a PE, in the order in which they ended.
pub(super) struct Calls {
    /// Whose they are.
    pub(super) head: Head,
    from: BufReader<File>,
    /// Names of routines, by the PE's numbers.
    names: HashMap<u32, String>,
    /// Calls are missing at the end.
    pub(super) full: bool,
}

impl Calls {
    /// Begins to read; `None` if the PE has not come so far as to write its first record.
    pub(super) fn open(file: &Path) -> io::Result<Option<Calls>> {
        let mut from = match File::open(file) {
            Ok(file) => BufReader::new(file),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let head = record(&mut from)?.and_then(|first| Head::decode(&first));
        Ok(head.map(|head| Calls { head, from, names: HashMap::new(), full: false }))
    }

    /// The name of a routine that a call refers to.
    pub(super) fn name(&self, routine: u32) -> &str {
        self.names.get(&routine).map_or("?", String::as_str)
    }

    /// The next call. Room that was never written ends the file, as its end does.
    pub(super) fn next(&mut self) -> io::Result<Option<Call>> {
        while let Some(record) = record(&mut self.from)? {
            match Record::decode(&record) {
                Some(Record::Call(call)) => return Ok(Some(call)),
                Some(Record::Text { id, text }) => drop(self.names.insert(id, text)),
                Some(Record::Full) => self.full = true,
                None => return Ok(None),
            }
        }
        Ok(None)
    }
}

/// The next record, if there is a whole one.
fn record(from: &mut impl Read) -> io::Result<Option<[u8; RECORD]>> {
    let mut record = [0; RECORD];
    match from.read_exact(&mut record) {
        Ok(()) => Ok(Some(record)),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(e) => Err(e),
    }
}
