//! Captured packets as a pcapng file, which is whole up to its last packet whatever happens to the disk.

use super::pcapng;
use angara_control::error::Failed;
use std::fs::File;
use std::io::{self, ErrorKind, Seek, Write};
use std::os::fd::AsFd;
use std::path::Path;

/// Stands for standard output.
pub const STDOUT: &str = "-";
/// The link type: free for whoever wants it, and so not to be confused with any other.
const LINKTYPE_USER0: u16 = 147;
/// Bytes that are written together while more packets wait.
const CHUNK: usize = 64 << 10;

/// Header of a file.
#[derive(Debug)]
pub struct Title {
    /// The network, or one of the hosts that have parts of it.
    pub name: String,
    /// Whose clock the time stamps are from, and whose packets these are.
    pub comment: String,
    /// Bytes of each packet and its pseudo-header.
    pub snaplen: u32,
}

/// Where captured packets go.
pub struct PacketFile {
    name: String,
    file: File,
    /// True for a regular file, from which written bytes can be removed.
    regular: bool,
    /// What is not written yet, and where its packets end, counted from the file's begin.
    blocks: Vec<u8>,
    ends: Vec<u64>,
    /// Bytes that are written.
    written: u64,
    /// Packets so far.
    pub(super) packets: u64,
    /// Packets of each interface.
    each: Vec<u64>,
    latest: u64,
}

/// Failure of a file or pipe.
pub enum Trouble {
    /// Nobody reads the pipe any more.
    Closed,
    /// It takes no more.
    Full(io::Error),
}

impl PacketFile {
    /// Makes the file, empty.
    pub fn create(path: &Path) -> Result<PacketFile, Failed> {
        let failed = |e: io::Error| {
            let what = format!("cannot write {}: {e}", path.display());
            Failed::usage(what, "give the name of a file in a directory that you may write to")
        };
        let file = match path.as_os_str() == STDOUT {
            true => std::io::stdout().as_fd().try_clone_to_owned().map(File::from),
            false => File::create(path),
        };
        let mut file = file.map_err(failed)?;
        let regular = file.metadata().is_ok_and(|m| m.is_file());
        let written = if regular { file.stream_position().map_err(failed)? } else { 0 };
        let mut blocks = Vec::new();
        pcapng::section(&mut blocks, concat!("angara ", env!("CARGO_PKG_VERSION")));
        let (name, ends, each) = (path.display().to_string(), Vec::new(), Vec::new());
        Ok(PacketFile { name, file, regular, blocks, ends, written, packets: 0, each, latest: 0 })
    }

    pub fn name(&self) -> &str {
        if self.name == STDOUT { "standard output" } else { &self.name }
    }

    /// Writes what stands before the first packet of an interface; they are numbered from 0 on.
    pub fn begin(&mut self, title: &Title) {
        pcapng::interface(&mut self.blocks, LINKTYPE_USER0, title.snaplen, &title.name, &title.comment);
        self.each.push(0);
    }

    /// Adds a packet of `length` bytes, of which `data` are kept.
    pub fn packet(&mut self, interface: usize, stamp: u64, length: u32, data: &[u8]) -> Result<(), Trouble> {
        pcapng::packet(&mut self.blocks, interface as u32, stamp, length, data);
        (self.packets, self.latest) = (self.packets + 1, stamp);
        self.each[interface] += 1;
        self.ends.push(self.written + self.blocks.len() as u64);
        if self.blocks.len() < CHUNK { Ok(()) } else { self.flush() }
    }

    /// Adds what came by and what of it is not here.
    pub fn tally(&mut self, interface: usize, passed: u64, dropped: u64) -> Result<(), Trouble> {
        pcapng::statistics(&mut self.blocks, interface as u32, self.latest, passed, dropped, self.each[interface]);
        self.flush()
    }

    /// Writes everything. If that fails, what is there ends with a whole packet.
    pub(super) fn flush(&mut self) -> Result<(), Trouble> {
        let bytes = std::mem::take(&mut self.blocks);
        let mut left = &bytes[..];
        while !left.is_empty() {
            match self.file.write(left) {
                Ok(n @ 1..) => left = &left[n..],
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::BrokenPipe => return Err(Trouble::Closed),
                Ok(_) => return Err(self.cut(bytes.len() - left.len(), ErrorKind::WriteZero.into())),
                Err(e) => return Err(self.cut(bytes.len() - left.len(), e)),
            }
        }
        self.written += bytes.len() as u64;
        self.ends.clear();
        let mut bytes = bytes;
        bytes.clear();
        self.blocks = bytes; // keep the allocation
        Ok(())
    }

    /// The file took `taken` bytes and then no more.
    fn cut(&mut self, taken: usize, why: io::Error) -> Trouble {
        let end = self.written + taken as u64;
        let whole = self.ends.partition_point(|at| *at <= end);
        self.packets -= (self.ends.len() - whole) as u64;
        if self.regular {
            let end = whole.checked_sub(1).map_or(self.written, |last| self.ends[last]);
            // If the system refuses, readers of such files stop at what is not whole.
            let _ = self.file.set_len(end);
        }
        Trouble::Full(why)
    }
}
