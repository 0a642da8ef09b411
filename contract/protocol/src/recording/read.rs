//! Reading: the places of all blocks are known, and of each PE one block is in memory.

use super::codec::{decode, take};
use super::{BLOCK_END, BLOCK_MAX, BLOCK_PE, BLOCK_TREE, END, HEADER_MAX, Header, MAGIC, Record, VERSION};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Most bytes of the head of a block.
const HEAD_MAX: u64 = 20;
/// Bytes before the text of the header.
const TEXT: u64 = 16;

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The system says so.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// What is in it.
    #[error("{path}: offset {offset}: {message}")]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Bytes from its begin.
        offset: u64,
        /// The mistake, and what to do.
        message: String,
    },
}

/// A tree that was loaded into the routers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    /// Its number there.
    pub number: u8,
    /// PE at whose node its root is.
    pub root: u32,
    /// Members.
    pub pes: Vec<u32>,
}

/// A recording on disk.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    file: File,
    len: u64,
    /// Machine and job.
    pub header: Header,
    /// Trees, in the order in which they were loaded.
    pub trees: Vec<Tree>,
    /// When the program of each PE ended; `None` if it did not.
    pub ends: Vec<Option<u64>>,
    /// Offset and length of the blocks of each PE.
    blocks: Vec<Vec<(u64, u32)>>,
}

/// The records of a PE, one after the other.
#[derive(Debug)]
pub struct Tape {
    pe: usize,
    block: usize,
    bytes: Vec<u8>,
    at: usize,
}

impl Recording {
    /// Opens a file and finds its blocks.
    ///
    /// # Errors
    /// It cannot be read, or is no whole recording.
    pub fn open(path: &Path) -> Result<Recording, RecordingError> {
        let unread = |source| RecordingError::File { path: path.into(), source };
        let file = File::open(path).map_err(unread)?;
        let len = file.metadata().map_err(unread)?.len();
        let (header, trees, ends) = (Header::default(), Vec::new(), Vec::new());
        let mut recording = Recording { path: path.into(), file, len, header, trees, ends, blocks: Vec::new() };
        let first = recording.read_header()?;
        recording.find_blocks(first)?;
        Ok(recording)
    }

    /// The records of a PE from the first.
    pub fn tape(&self, pe: usize) -> Tape {
        Tape { pe, block: 0, bytes: Vec::new(), at: 0 }
    }

    /// An error at an offset.
    fn wrong(&self, offset: u64, message: impl Into<String>) -> RecordingError {
        RecordingError::Wrong { path: self.path.clone(), offset, message: message.into() }
    }

    fn cut(&self, offset: u64) -> RecordingError {
        let message = "the file ends before the recording does: the run that wrote it was ended, or the disk is full; \
                       record it again";
        self.wrong(offset, message)
    }

    fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>, RecordingError> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(self.cut(self.len));
        }
        let mut bytes = vec![0; len as usize];
        let read = self.file.read_exact_at(&mut bytes, offset);
        read.map_err(|source| RecordingError::File { path: self.path.clone(), source })?;
        Ok(bytes)
    }

    /// Reads the header; where the first block is.
    fn read_header(&mut self) -> Result<u64, RecordingError> {
        let write_one = "`angara run --clock virtual --record FILE` writes one";
        if self.len < TEXT {
            return Err(self.wrong(0, format!("{} bytes are no recording; {write_one}", self.len)));
        }
        let head = self.read(0, TEXT)?;
        let number = |at: usize| head[at..at + 4].iter().rev().fold(0u32, |sum, byte| sum << 8 | u32::from(*byte));
        if head[..MAGIC.len()] != MAGIC {
            let text = String::from_utf8_lossy(&head[..MAGIC.len()]).escape_default().to_string();
            return Err(self.wrong(0, format!("`{text}` is no recording; {write_one}")));
        }
        let (version, len) = (number(8), number(12));
        if version != VERSION {
            let why = format!("format {version}, and this angara reads format {VERSION}; record the program again");
            return Err(self.wrong(8, why));
        }
        if len > HEADER_MAX {
            let why = format!("a header of {len} bytes; at most {HEADER_MAX} can be right: record the program again");
            return Err(self.wrong(12, why));
        }
        let text = self.read(TEXT, u64::from(len))?;
        let header: Result<Header, _> = serde_json::from_slice(&text);
        self.header = header.map_err(|e| self.wrong(TEXT, format!("the header: {e}; record the program again")))?;
        self.blocks = vec![Vec::new(); self.header.places.len()];
        Ok(TEXT + u64::from(len))
    }

    fn find_blocks(&mut self, first: u64) -> Result<(), RecordingError> {
        let mut at = first;
        loop {
            let head = self.read(at, HEAD_MAX.min(self.len.saturating_sub(at)))?;
            let mut rest = &head[..];
            let numbers = take(&mut rest).and_then(|kind| Ok((kind, take(&mut rest)?)));
            let (kind, len) = match numbers {
                Ok(numbers) => numbers,
                Err(_) if (head.len() as u64) < HEAD_MAX => return Err(self.cut(self.len)),
                Err(why) => return Err(self.wrong(at, format!("the head of a block: {why}; record it again"))),
            };
            let begin = at + (head.len() - rest.len()) as u64;
            if len > BLOCK_MAX {
                return Err(self.wrong(at, format!("a block of {len} bytes, more than {BLOCK_MAX}; record it again")));
            }
            if begin + len > self.len {
                return Err(self.cut(self.len));
            }
            at = begin + len;
            match kind {
                BLOCK_END => return self.read_end(begin, len),
                BLOCK_TREE => self.read_tree(begin, len)?,
                _ => {
                    let pe = (kind - BLOCK_PE) as usize;
                    let pes = self.blocks.len();
                    let why = format!("a block of PE {pe}, and there are {pes}; record it again");
                    let wrong = self.wrong(begin, why);
                    self.blocks.get_mut(pe).ok_or(wrong)?.push((begin, len as u32));
                }
            }
        }
    }

    fn read_tree(&mut self, begin: u64, len: u64) -> Result<(), RecordingError> {
        let bytes = self.read(begin, len)?;
        let pes = self.blocks.len() as u64;
        let tree = || {
            let (number, mut rest) = bytes.split_first().ok_or("an empty tree")?;
            let mut pe = || match take(&mut rest)? {
                pe if pe < pes => Ok(pe as u32),
                pe => Err(format!("a tree with PE {pe}, and there are {pes}")),
            };
            let root = pe()?;
            let count = take(&mut rest)?;
            let mut pe = || match take(&mut rest)? {
                pe if pe < pes => Ok(pe as u32),
                pe => Err(format!("a tree with PE {pe}, and there are {pes}")),
            };
            if count > pes || usize::from(*number) >= angara_abi::TREES {
                return Err(format!("tree {number} of {count} PEs"));
            }
            Ok(Tree { number: *number, root, pes: (0..count).map(|_| pe()).collect::<Result<_, String>>()? })
        };
        let tree = tree().map_err(|why: String| self.wrong(begin, format!("{why}; record it again")))?;
        self.trees.push(tree);
        Ok(())
    }

    fn read_end(&mut self, begin: u64, len: u64) -> Result<(), RecordingError> {
        let bytes = self.read(begin, len)?;
        let mut rest = &bytes[..];
        let ends: Result<Vec<_>, _> = self.blocks.iter().map(|_| take(&mut rest)).collect();
        let ends = ends.map_err(|why| self.wrong(begin, format!("{why}; record it again")))?;
        self.ends = ends.into_iter().map(|end| end.checked_sub(1)).collect();
        let behind = begin + len;
        let end = self.read(behind, END.len() as u64)?;
        if end != END {
            return Err(self.wrong(behind, "another end than that of a recording; record it again"));
        }
        match self.len - behind - END.len() as u64 {
            0 => Ok(()),
            more => Err(self.wrong(behind + END.len() as u64, format!("{more} bytes too many; record it again"))),
        }
    }
}

impl Tape {
    /// The next record, and the time before it; `None` behind the last.
    ///
    /// # Errors
    /// The file cannot be read, or is wrong there.
    pub fn next(&mut self, of: &Recording) -> Result<Option<(u64, Record)>, RecordingError> {
        while self.at == self.bytes.len() {
            let Some(&(begin, len)) = of.blocks[self.pe].get(self.block) else { return Ok(None) };
            (self.bytes, self.at, self.block) = (of.read(begin, u64::from(len))?, 0, self.block + 1);
        }
        let mut rest = &self.bytes[self.at..];
        let record = decode(&mut rest).map_err(|why| {
            let block = of.blocks[self.pe].get(self.block - 1).map_or(0, |block| block.0);
            of.wrong(block + self.at as u64, format!("a record of PE {}: {why}; record it again", self.pe))
        })?;
        self.at = self.bytes.len() - rest.len();
        Ok(Some(record))
    }
}
