//! Writing: records go to the file block by block, so that memory does not grow with the program.

use super::codec::{CAUSES_MAX, encode, put};
use super::{BLOCK_END, BLOCK_PE, BLOCK_TREE, Cause, END, Header, MAGIC, Post, Record, VERSION};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Bytes of records of a PE that are kept before they are written.
const BLOCK: usize = 4 << 10;

/// The records of a PE that are not in the file.
#[derive(Default)]
struct Tail {
    bytes: Vec<u8>,
    /// The time behind the latest record.
    at: u64,
    /// When its program ended.
    ended: Option<u64>,
}

/// Writes a recording. What cannot be written is said at the end.
pub struct Recorder {
    out: BufWriter<File>,
    pes: Vec<Tail>,
    trees: u32,
    failed: Option<io::Error>,
}

impl Recorder {
    /// Creates the file.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn create(path: &Path) -> io::Result<Recorder> {
        let out = BufWriter::new(File::create(path)?);
        Ok(Recorder { out, pes: Vec::new(), trees: 0, failed: None })
    }

    /// The job has begun.
    ///
    /// # Errors
    /// The header cannot be written.
    pub fn begin(&mut self, header: &Header) -> io::Result<()> {
        let text = serde_json::to_vec(header)?;
        self.pes.resize_with(header.places.len(), Tail::default);
        self.out.write_all(&MAGIC)?;
        self.out.write_all(&VERSION.to_le_bytes())?;
        self.out.write_all(&(text.len() as u32).to_le_bytes())?;
        self.out.write_all(&text)
    }

    /// A tree has been loaded into the routers as `number`; by what records call it.
    pub fn tree(&mut self, number: u8, root: u32, pes: &[u32]) -> u32 {
        let mut bytes = vec![number];
        put(&mut bytes, u64::from(root));
        put(&mut bytes, pes.len() as u64);
        pes.iter().for_each(|pe| put(&mut bytes, u64::from(*pe)));
        self.block(BLOCK_TREE, &bytes);
        self.trees += 1;
        self.trees - 1
    }

    /// A PE posts at a time.
    pub fn post(&mut self, pe: usize, at: u64, post: Post) {
        self.record((pe, at), at, &Record::Post(post));
    }

    /// A PE waited from a time until a time, for these.
    pub fn wait(&mut self, pe: usize, (since, until): (u64, u64), causes: &[Cause]) {
        // The latest are the ones that ended it.
        let causes = causes[causes.len().saturating_sub(CAUSES_MAX)..].to_vec();
        self.record((pe, since), until, &Record::Wait(causes));
    }

    /// The program of a PE has ended.
    pub fn end(&mut self, pe: usize, at: u64) {
        let Some(tail) = self.pes.get_mut(pe).filter(|tail| tail.ended.is_none()) else { return };
        tail.ended = Some(at.max(tail.at));
        self.record((pe, at), at, &Record::End);
    }

    fn record(&mut self, (pe, at): (usize, u64), then: u64, record: &Record) {
        let Some(tail) = self.pes.get_mut(pe) else { return };
        // A post for which a queue had no room may come behind the wait that it was made before.
        encode(&mut tail.bytes, at.saturating_sub(tail.at), record);
        tail.at = then.max(tail.at);
        if tail.bytes.len() >= BLOCK {
            self.flush(pe);
        }
    }

    fn flush(&mut self, pe: usize) {
        let mut bytes = std::mem::take(&mut self.pes[pe].bytes);
        if !bytes.is_empty() {
            self.block(BLOCK_PE + pe as u64, &bytes);
        }
        bytes.clear();
        self.pes[pe].bytes = bytes;
    }

    fn block(&mut self, kind: u64, bytes: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        let mut head = Vec::new();
        put(&mut head, kind);
        put(&mut head, bytes.len() as u64);
        self.failed = self.out.write_all(&head).and_then(|()| self.out.write_all(bytes)).err();
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// Something of the recording could not be written.
    pub fn finish(mut self) -> io::Result<()> {
        (0..self.pes.len()).for_each(|pe| self.flush(pe));
        let mut bytes = Vec::new();
        for tail in &self.pes {
            put(&mut bytes, tail.ended.map_or(0, |at| at + 1));
        }
        self.block(BLOCK_END, &bytes);
        match self.failed {
            Some(e) => Err(e),
            None => self.out.write_all(&END).and_then(|()| self.out.flush()),
        }
    }
}
