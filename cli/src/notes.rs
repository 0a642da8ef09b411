//! Notes of calls: the directory where the PEs of a job write them, and how they are read again, one after the other.

use angara_abi::calls::{Call, ENV_CALLS, ENV_SITES, Head, RECORD, Record, file_name};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// Where the PEs of a job note their calls. It is removed at the end.
pub(crate) struct Notes {
    directory: PathBuf,
    /// Calls say from which line of the program they come.
    sites: bool,
}

impl Notes {
    /// A directory of the name `beside` with an ending of its own.
    pub(crate) fn new(beside: &Path, sites: bool) -> io::Result<Notes> {
        let mut directory = beside.as_os_str().to_owned();
        directory.push(format!(".calls-{}", std::process::id()));
        std::fs::create_dir(&directory)?;
        Ok(Notes { directory: directory.into(), sites })
    }

    /// What tells PEs to write, and where.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (OsString, OsString)> {
        let sites = self.sites.then(|| (ENV_SITES.into(), "1".into()));
        [(ENV_CALLS.into(), self.directory.clone().into_os_string())].into_iter().chain(sites)
    }

    /// Begins to read what `pes` PEs have written; nothing of those that have written nothing.
    pub(crate) fn read(&self, pes: u32) -> io::Result<Vec<Option<Calls>>> {
        (0..pes).map(|pe| Calls::open(&self.directory.join(file_name(pe)))).collect()
    }
}

impl Notes {
    /// Removes what was noted.
    pub(crate) fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The calls of a PE, in the order in which they ended.
pub(crate) struct Calls {
    /// Whose they are.
    pub(crate) head: Head,
    from: BufReader<File>,
    /// Names of routines and lines of the program, by the PE's numbers.
    texts: HashMap<u32, String>,
    /// Calls are missing at the end.
    pub(crate) full: bool,
}

impl Calls {
    /// Begins to read; `None` if the PE has not come so far as to write its first record.
    pub(crate) fn open(file: &Path) -> io::Result<Option<Calls>> {
        let mut from = match File::open(file) {
            Ok(file) => BufReader::new(file),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let head = record(&mut from)?.and_then(|first| Head::decode(&first));
        Ok(head.map(|head| Calls { head, from, texts: HashMap::new(), full: false }))
    }

    /// A name or line that a call refers to.
    pub(crate) fn text(&self, number: u32) -> &str {
        self.texts.get(&number).map_or("?", String::as_str)
    }

    /// The next call. Room that was never written ends the file, as its end does.
    pub(crate) fn next(&mut self) -> io::Result<Option<Call>> {
        while let Some(record) = record(&mut self.from)? {
            match Record::decode(&record) {
                Some(Record::Call(call)) => return Ok(Some(call)),
                Some(Record::Text { id, text }) => drop(self.texts.insert(id, text)),
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
