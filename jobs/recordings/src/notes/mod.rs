//! Notes of calls: the directory where the PEs of a job write them, and how they are read again, one after the other.
//!
//! On other hosts PEs write into a directory there; when they have ended, [`away`] brings what they wrote to the one here, and
//! [`clocks`] says what our clock showed at their times.

pub mod away;
pub mod clocks;
mod leftovers;

use angara_protocol::calls::{Call, ENV_CALLS, ENV_SITES, Head, RECORD, Record, file_name};
use angara_protocol::print::plain_line;
use clocks::Clock;
use leftovers::Lock;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where the PEs of a job note their calls. It is removed at the end.
pub struct Notes {
    directory: PathBuf,
    /// That it is in use.
    _lock: Lock,
    /// Calls say from which line of the program they come.
    sites: bool,
    /// Other hosts with PEs of the job, by name.
    others: Mutex<BTreeMap<String, Other>>,
}

/// Notes of another host's PEs.
struct Other {
    pes: Vec<u32>,
    /// Their clock, once all has come.
    clock: Option<Clock>,
    /// Why not all has come, until it has.
    lacking: Option<String>,
}

/// Where the times of a PE come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Away {
    pub host: String,
    /// By how much its times may be wrong on our clock, ns.
    pub error: u64,
}

impl Notes {
    /// A directory of the name `beside` with an ending of its own. What runs that were killed have left near it goes.
    pub fn new(beside: &Path, sites: bool) -> io::Result<Notes> {
        let parent = beside.parent().filter(|parent| !parent.as_os_str().is_empty());
        leftovers::sweep(parent.unwrap_or(Path::new(".")));
        let mut directory = beside.as_os_str().to_owned();
        directory.push(format!("{}{}", leftovers::ENDING, std::process::id()));
        let directory = PathBuf::from(directory);
        DirBuilder::new().mode(0o700).create(&directory)?;
        let lock = Lock::take(&directory)?;
        Ok(Notes { directory, _lock: lock, sites, others: Mutex::default() })
    }

    fn others(&self) -> MutexGuard<'_, BTreeMap<String, Other>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what tells PEs to write, and where.
    pub fn variables(&self) -> impl Iterator<Item = (OsString, OsString)> {
        let sites = self.sites.then(|| (ENV_SITES.into(), "1".into()));
        [(ENV_CALLS.into(), self.directory.clone().into_os_string())].into_iter().chain(sites)
    }

    /// True if calls say from which line of the program they come.
    pub fn sites(&self) -> bool {
        self.sites
    }

    /// Begins to read what `pes` PEs have written; nothing of those that have written nothing.
    pub fn read(&self, pes: u32) -> io::Result<Vec<Option<Calls>>> {
        let others = self.others();
        let elsewhere: HashMap<u32, Option<Clock>> =
            others.values().flat_map(|other| other.pes.iter().map(|pe| (*pe, other.clock))).collect();
        let open = |pe| match elsewhere.get(&pe) {
            // Nobody knows when that was.
            Some(None) => Ok(None),
            clock => Calls::open(&self.directory.join(file_name(pe)), clock.copied().flatten()),
        };
        (0..pes).map(open).collect()
    }

    /// Where the times of each of `pes` PEs come from; nothing of those of this host.
    pub fn away(&self, pes: u32) -> Vec<Option<Away>> {
        let mut away = vec![None; pes as usize];
        for (host, other) in self.others().iter() {
            let Some(Clock { error, .. }) = other.clock else { continue };
            for pe in &other.pes {
                away[*pe as usize] = Some(Away { host: host.clone(), error });
            }
        }
        away
    }

    /// Hosts of which not all has come, and why.
    pub fn lacking(&self) -> Vec<String> {
        let said = |(host, other): (&String, &Other)| other.lacking.as_ref().map(|why| format!("host {host}: {why}"));
        self.others().iter().filter_map(said).collect()
    }

    /// Removes what was noted.
    pub fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The calls of a PE, in the order in which they ended.
pub struct Calls {
    /// Whose they are.
    pub head: Head,
    from: BufReader<File>,
    /// Clock of another host, whose times are not ours.
    clock: Option<Clock>,
    /// Names of routines and lines of the program, by the PE's numbers. The program wrote them, and they are shown.
    texts: HashMap<u32, String>,
    /// Calls are missing at the end.
    pub full: bool,
}

impl Calls {
    /// Begins to read; `None` if the PE has not come so far as to write its first record.
    fn open(file: &Path, clock: Option<Clock>) -> io::Result<Option<Calls>> {
        let mut from = match File::open(file) {
            Ok(file) => BufReader::new(file),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let head = record(&mut from)?.and_then(|first| Head::decode(&first));
        Ok(head.map(|head| Calls { head, from, clock, texts: HashMap::new(), full: false }))
    }

    /// A name or line that a call refers to.
    pub fn text(&self, number: u32) -> &str {
        self.texts.get(&number).map_or("?", String::as_str)
    }

    /// The next call. Room that was never written ends the file, as its end does.
    pub fn next_call(&mut self) -> io::Result<Option<Call>> {
        while let Some(record) = record(&mut self.from)? {
            match Record::decode(&record) {
                Some(Record::Call(mut call)) => {
                    if let Some(clock) = self.clock {
                        (call.start, call.end) = (clock.here(call.start), clock.here(call.end));
                    }
                    return Ok(Some(call));
                }
                Some(Record::Text { id, text }) => drop(self.texts.insert(id, plain_line(&text))),
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
