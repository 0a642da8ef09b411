//! The file of a PE, as it is written.

use super::record::{encode_full, encode_text};
use super::{Call, Head, RECORD};
use angara_abi::PAGE;
use angara_abi::shm::Mapping;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::process::{Resource, getrlimit};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::path::Path;

/// Bytes of a file that are mapped at once: whole pages and whole records.
const WINDOW: usize = 64 * 3 * PAGE;
const _: () = assert!(WINDOW.is_multiple_of(RECORD));

/// The calls of a PE, in a shared mapping of a file that grows ahead of need: what a process that is killed has noted is there,
/// and a full disk ends the notes and not the program.
pub struct CallFile {
    file: File,
    window: Mapping,
    /// Byte of the file where the window starts.
    start: u64,
    /// Next byte in the window.
    next: usize,
    /// There is no room for more.
    full: bool,
    /// Numbers of texts: names of routines by where those lie, lines of the program by their addresses in the code.
    texts: HashMap<usize, u32>,
}

impl CallFile {
    /// Begins the file at `path`. Errors: it cannot be written, there is no room, or it is there already.
    pub fn start(path: &Path, head: &Head) -> std::io::Result<CallFile> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        let window = CallFile::window(&file, 0)?;
        let mut notes = CallFile { file, window, start: 0, next: 0, full: false, texts: HashMap::new() };
        notes.add(&head.encode())?;
        Ok(notes)
    }

    /// Room for more, from byte `start` of the file on.
    fn window(file: &File, start: u64) -> std::io::Result<Mapping> {
        // Beyond the limit of files the system would send a signal that ends the program.
        let limit = getrlimit(Resource::Fsize).current;
        if limit.is_some_and(|limit| start + WINDOW as u64 > limit) {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        fallocate(file, FallocateFlags::empty(), start, WINDOW as u64)?;
        Mapping::map_window(file, start, WINDOW)
    }

    /// Adds a record. The error comes once; after it nothing is added.
    fn add(&mut self, record: &[u8; RECORD]) -> std::io::Result<()> {
        if self.full {
            return Ok(());
        }
        let mut grown = Ok(());
        if self.next + RECORD == WINDOW {
            // The last record of a window is written when there is another window, or to say that there is none.
            let start = self.start + WINDOW as u64;
            match CallFile::window(&self.file, start) {
                Ok(window) => {
                    self.put(record);
                    (self.window, self.start, self.next) = (window, start, 0);
                    return Ok(());
                }
                Err(e) => (self.full, grown) = (true, Err(e)),
            }
        }
        let record = if self.full { &encode_full() } else { record };
        self.put(record);
        grown
    }

    fn put(&mut self, record: &[u8; RECORD]) {
        self.window.write(self.next, record).expect("inside the window");
        self.next += RECORD;
    }

    /// Adds a call. Errors: it cannot be written; that is said once, and nothing is added any more.
    pub fn call(&mut self, call: &Call) -> std::io::Result<()> {
        self.add(&call.encode())
    }

    /// The number of a text that is known by an address. Errors: as of [`CallFile::call`].
    pub fn text(&mut self, address: usize, text: impl FnOnce() -> String) -> std::io::Result<u32> {
        if let Some(id) = self.texts.get(&address) {
            return Ok(*id);
        }
        let next = self.texts.len() as u32 + 1;
        self.add(&encode_text(next, &text()))?;
        self.texts.insert(address, next);
        Ok(next)
    }
}
