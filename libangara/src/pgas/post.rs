//! Messages between PEs, on which collectives and channels stand: of any length, by stream.
//!
//! A stream is a team, or a channel. One mailbox carries all of them. Whoever waits takes out everything that has come, and
//! keeps what is for others, so that streams do not wait for each other.

use crate::error::{Error, Result};
use crate::job::Job;
use crate::mailbox::{Mailbox, Message, SendError};
use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;

/// Name of a stream.
pub(super) type StreamId = u64;

/// What a message says about itself, to whoever takes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tag {
    /// Number of the routine among those of collectives; not looked at in channels.
    pub(super) routine: u16,
    /// How many collectives of the team came before.
    pub(super) count: u32,
}

/// Bytes of the head of each part: stream, tag, bytes of the whole message.
const HEAD: usize = 24;

/// A whole message, or as much of it as has come.
#[derive(Default)]
struct Letter {
    stream: StreamId,
    tag: Tag,
    total: usize,
    bytes: Vec<u8>,
}

/// A whole message of a team.
type Tagged = (Tag, Vec<u8>);

#[derive(Default)]
struct Inbox {
    /// By sender: a message of which parts are still to come.
    begun: HashMap<usize, Letter>,
    /// Of teams, by stream and sender.
    ordered: HashMap<(StreamId, usize), VecDeque<Tagged>>,
    /// Of channels, by stream, in the order in which they came.
    mixed: HashMap<StreamId, VecDeque<(usize, Vec<u8>)>>,
}

impl Inbox {
    /// A part of a message has come from PE `from`.
    fn take(&mut self, from: usize, part: &Message<'_>) {
        if part.len() < HEAD {
            return;
        }
        let mut head = [0; HEAD];
        part.copy(0, &mut head);
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
        let (stream, tag, total) = (word(0), word(8), word(16) as usize);
        let tag = Tag { routine: tag as u16, count: (tag >> 32) as u32 };
        let letter = self.begun.entry(from).or_insert_with(|| Letter { stream, tag, total, bytes: Vec::new() });
        let begun = letter.bytes.len();
        letter.bytes.resize(begun + part.len() - HEAD, 0);
        part.copy(HEAD, &mut letter.bytes[begun..]);
        if letter.bytes.len() < letter.total {
            return;
        }
        let Some(Letter { stream, tag, bytes, .. }) = self.begun.remove(&from) else { return };
        match is_channel(stream) {
            true => self.mixed.entry(stream).or_default().push_back((from, bytes)),
            false => self.ordered.entry((stream, from)).or_default().push_back((tag, bytes)),
        }
    }
}

/// The lowest bit of a name says what it is the name of.
fn is_channel(stream: StreamId) -> bool {
    stream & 1 == 1
}

/// The messages of this PE.
pub(super) struct Post {
    mailbox: Mailbox,
    inbox: Inbox,
    /// Bytes of a message in one part.
    part: usize,
}

impl Post {
    /// Bytes that it takes at the beginning of the heap, whole pages.
    pub(super) fn bytes(pes: usize) -> usize {
        Mailbox::bytes(pes).next_multiple_of(angara_abi::PAGE)
    }

    pub(super) fn open(job: &Arc<Job>) -> Result<Post> {
        let bytes = Post::bytes(job.n_pes());
        let at = job.locate(job.heap(), bytes).ok_or_else(|| {
            Error::invalid(format!(
                "a symmetric heap of {} bytes has no room for the messages of {} PEs, which take {bytes}; ask for more by angara run --heap",
                job.heap_len(),
                job.n_pes()
            ))
        })?;
        let mailbox = Mailbox::open(job.clone(), at)?;
        let part = mailbox.message_max().saturating_sub(HEAD).max(1);
        Ok(Post { mailbox, inbox: Inbox::default(), part })
    }

    /// Sends a message; waits as long as its receiver has no room.
    pub(super) fn send(&mut self, stream: StreamId, to: usize, tag: Tag, bytes: &[u8]) -> Result<()> {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&stream.to_le_bytes());
        head[8..16].copy_from_slice(&(u64::from(tag.routine) | u64::from(tag.count) << 32).to_le_bytes());
        head[16..].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        let mut from = 0;
        loop {
            let until = bytes.len().min(from + self.part);
            self.send_part(to, &head, &bytes[from..until])?;
            from = until;
            if from == bytes.len() {
                return Ok(());
            }
        }
    }

    fn send_part(&mut self, to: usize, head: &[u8], part: &[u8]) -> Result<()> {
        if to >= self.mailbox.job().n_pes() {
            return Err(Error::invalid(format!(
                "PE {to} does not exist: the job has {} PEs",
                self.mailbox.job().n_pes()
            )));
        }
        let peer = self.mailbox.peer(to);
        loop {
            match self.mailbox.try_send(peer, &[IoSlice::new(head), IoSlice::new(part)]) {
                Ok(()) => return Ok(()),
                Err(SendError::Full) => {
                    // It may itself wait for room here.
                    if self.collect()? == 0 {
                        self.mailbox.wait_for(&[to], &|| format!("PE {to} to take messages"))?;
                    }
                }
                Err(SendError::Gone) => return Err(gone(to)),
                Err(SendError::Job(e)) => return Err(e),
                Err(e @ SendError::TooLong { .. }) => return Err(Error::invalid(e.to_string())),
            }
        }
    }

    /// Takes out all that has come; returns how many parts that were.
    fn collect(&mut self) -> Result<usize> {
        let Post { mailbox, inbox, .. } = self;
        mailbox.receive(usize::MAX, &mut |from, part| inbox.take(from.seat as usize, part))
    }

    /// The next message of PE `from` in a team. `what` names it where it does not come.
    pub(super) fn receive(&mut self, stream: StreamId, from: usize, what: &dyn Fn() -> String) -> Result<Tagged> {
        loop {
            let queue = self.inbox.ordered.get_mut(&(stream, from));
            if let Some(message) = queue.and_then(VecDeque::pop_front) {
                return Ok(message);
            }
            if self.collect()? > 0 {
                continue;
            }
            if !self.mailbox.is_there(self.mailbox.peer(from)) {
                return Err(gone(from));
            }
            self.mailbox.wait_for(&[from], what)?;
        }
    }

    /// The next message of a channel, if there is one.
    pub(super) fn try_take(&mut self, stream: StreamId) -> Result<Option<(usize, Vec<u8>)>> {
        self.collect()?;
        Ok(self.inbox.mixed.get_mut(&stream).and_then(VecDeque::pop_front))
    }

    /// The next message of a channel, for which it waits.
    pub(super) fn take(&mut self, stream: StreamId) -> Result<(usize, Vec<u8>)> {
        loop {
            if let Some(message) = self.try_take(stream)? {
                return Ok(message);
            }
            self.mailbox.wait_for(&[], &|| "a message of a channel".into())?;
        }
    }
}

fn gone(pe: usize) -> Error {
    Error::invalid(format!("PE {pe} has left: its world was dropped while others communicate with it"))
}
