//! Messages between two providers, as bytes. Whoever writes them may be hostile: every reader checks.

use angara::mailbox::Message;
use std::num::NonZeroU32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum MessageKind {
    /// A message of the program with its payload.
    Send = 1,
    /// Request to send a message: its payload stays with the sender until it is fetched.
    SendRts,
    /// Request `aux` is done, with the error that follows.
    Done,
    /// Clear to send: the payload of RTS `aux` shall come through the sender's window. The receiver's number for it and
    /// its length follow.
    Cts,
    /// A fragment of inbound payload `aux` is in the sender's window: chunk and length follow.
    Fragment,
    /// The fragment in `chunk` has been got: RTS `aux` may use the chunk again.
    FragmentDone,
    /// The payload of RTS `aux` has been fetched, or will not be: the fault follows.
    Fin,
    /// Write to memory, with its payload.
    Write,
    /// Request to send the payload of a write to memory.
    WriteRts,
    /// Read from memory.
    Read,
    /// Answer to request `aux`.
    Reply,
    /// Request to send the answer to request `aux`.
    ReplyRts,
    /// An atomic on memory, with operands.
    Atomic,
    /// Endpoint `src` has no room for payloads: messages to it wait with the sender, announced by an RTS.
    Xoff,
    /// Endpoint `src` takes payloads again.
    Xon,
    /// Inbound payload `aux` does not come any more: the fault follows.
    Revoked,
}

impl MessageKind {
    /// What an endpoint has to be there for, apart from messages with their payload.
    pub(crate) fn is_for_endpoint(self) -> bool {
        matches!(
            self,
            MessageKind::SendRts | MessageKind::Write | MessageKind::WriteRts | MessageKind::Read | MessageKind::Atomic
        )
    }

    const ALL: [MessageKind; 16] = [
        MessageKind::Send,
        MessageKind::SendRts,
        MessageKind::Done,
        MessageKind::Cts,
        MessageKind::Fragment,
        MessageKind::FragmentDone,
        MessageKind::Fin,
        MessageKind::Write,
        MessageKind::WriteRts,
        MessageKind::Read,
        MessageKind::Reply,
        MessageKind::ReplyRts,
        MessageKind::Atomic,
        MessageKind::Xoff,
        MessageKind::Xon,
        MessageKind::Revoked,
    ];
}

/// A tag follows; behind [`MessageKind::FragmentDone`] a chunk.
const HAS_TAG: u8 = 1;
/// Data for the completion follows.
const HAS_DATA: u8 = 2;
/// The sender waits for [`MessageKind::Done`].
const WANTS_DONE: u8 = 4;
/// It waits until a receive has taken the message.
const WANTS_MATCH: u8 = 8;
/// Where the flags end and [`Head::count`] begins.
const COUNT_AT: u32 = 4;

/// Most bytes of a [`Head`].
pub(crate) const HEAD_MAX: usize = 32;

/// What every message begins with: kind, flags, a count, endpoints, a number of 48 bits; tag or chunk, and data, if there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) kind: MessageKind,
    pub(crate) wants_done: bool,
    pub(crate) wants_match: bool,
    /// Pieces of memory that the message names: below 16.
    pub(crate) count: u8,
    pub(crate) dst: u32,
    pub(crate) src: u32,
    /// Number of a request, of an RTS or of an inbound payload.
    pub(crate) aux: u64,
    pub(crate) tag: Option<u64>,
    /// Part of a window that is free again: of [`MessageKind::FragmentDone`] alone, which has no tag.
    pub(crate) chunk: Option<u32>,
    pub(crate) data: Option<u64>,
}

impl Head {
    pub(crate) fn new(kind: MessageKind, dst: u32, src: u32, aux: u64) -> Head {
        Head {
            kind,
            wants_done: false,
            wants_match: false,
            count: 0,
            dst,
            src,
            aux,
            tag: None,
            chunk: None,
            data: None,
        }
    }

    #[inline]
    pub(crate) fn encode(&self) -> ([u8; HEAD_MAX], usize) {
        let mut out = [0; HEAD_MAX];
        let tag = match self.kind {
            MessageKind::FragmentDone => self.chunk.map(u64::from),
            _ => self.tag,
        };
        let flags = if tag.is_some() { HAS_TAG } else { 0 }
            | if self.data.is_some() { HAS_DATA } else { 0 }
            | if self.wants_done { WANTS_DONE } else { 0 }
            | if self.wants_match { WANTS_MATCH } else { 0 }
            | self.count << COUNT_AT;
        let mut put = |at: usize, word: u64| out[at..at + 8].copy_from_slice(&word.to_le_bytes());
        let front = self.kind as u64 | u64::from(flags) << 8 | (self.aux >> 32) << 16;
        put(0, front | u64::from(self.dst) << 32);
        put(8, u64::from(self.src) | self.aux << 32);
        let mut len = 16;
        if let Some(tag) = tag {
            put(len, tag);
            len += 8;
        }
        if let Some(data) = self.data {
            put(len, data);
            len += 8;
        }
        (out, len)
    }

    /// The head and its length.
    #[inline]
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Head, usize)> {
        let mut reader = Reader(bytes);
        let (front, ids) = (reader.u64()?, reader.u64()?);
        let (kind, flags) = (front as u8, (front >> 8) as u8);
        let kind = *MessageKind::ALL.get(usize::from(kind).wrapping_sub(1))?;
        let count = flags >> COUNT_AT;
        let (dst, src, aux) = ((front >> 32) as u32, ids as u32, ids >> 32 | (front & 0xffff_0000) << 16);
        let word = if flags & HAS_TAG != 0 { Some(reader.u64()?) } else { None };
        let (tag, chunk) = match kind {
            MessageKind::FragmentDone => (None, word.and_then(|chunk| u32::try_from(chunk).ok())),
            _ => (word, None),
        };
        let data = if flags & HAS_DATA != 0 { Some(reader.u64()?) } else { None };
        let (wants_done, wants_match) = (flags & WANTS_DONE != 0, flags & WANTS_MATCH != 0);
        let head = Head { kind, wants_done, wants_match, count, dst, src, aux, tag, chunk, data };
        Some((head, bytes.len() - reader.0.len()))
    }
}

/// The rest of a message behind its head.
pub(crate) fn rest(message: &Message<'_>, at: usize, most: usize) -> Vec<u8> {
    let mut bytes = vec![0; message.len().saturating_sub(at).min(most)];
    message.copy(at, &mut bytes);
    bytes
}

/// Takes numbers off the front of bytes.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|b| b[0])
    }
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

/// Request to send: a payload that stays where it is until it is fetched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rts {
    /// Its number at the sender.
    pub(crate) id: u64,
    pub(crate) len: u64,
    pub(crate) way: Way,
}

/// How a payload may be fetched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Out of the sender's memory, if the kernel lets it be read; otherwise through its window.
    Memory(InMemory),
    /// Through the sender's window.
    Window {
        /// The chunk that has the first bytes already, and how many they are.
        ahead: Option<(u32, usize)>,
    },
}

/// A payload in the memory of another process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct InMemory {
    pub(crate) pid: NonZeroU32,
    /// The sender's count of revocations at that time: the word behind the proof.
    pub(crate) revoked: u32,
    /// Address of a word of the sender, and what it holds: proof that the process is the one that is meant.
    pub(crate) proof: (u64, u64),
    pub(crate) pieces: Pieces,
}

/// Address and length of the pieces of a payload. A million RTS may wait, and most have one piece.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Pieces {
    /// All of its bytes are at this address.
    One(u64),
    Several(Box<[(u64, u64)]>),
}

impl Pieces {
    /// Address and length of each piece of a payload of `len` bytes.
    pub(crate) fn of(&self, len: u64) -> impl Iterator<Item = (u64, u64)> + Clone {
        let (one, several) = match self {
            Pieces::One(at) => (Some((*at, len)), &[][..]),
            Pieces::Several(all) => (None, &all[..]),
        };
        one.into_iter().chain(several.iter().copied())
    }
}

impl Rts {
    /// Most bytes of one.
    pub(crate) const BYTES: usize = 48 + 16 * crate::memory::PIECES;

    /// Both ways have the same six words, and pieces behind them. A chunk stands one higher, so that 0 is none.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let nothing = Pieces::Several(Box::default());
        let (process, proof, pieces) = match &self.way {
            Way::Memory(at) => (u64::from(at.pid.get()) | u64::from(at.revoked) << 32, at.proof, &at.pieces),
            Way::Window { ahead } => {
                (0, ahead.map_or((0, 0), |(chunk, bytes)| (u64::from(chunk) + 1, bytes as u64)), &nothing)
            }
        };
        let count = pieces.of(self.len).count() as u64;
        for word in [self.id, process, self.len, proof.0, proof.1, count] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for (at, len) in pieces.of(self.len) {
            out.extend_from_slice(&at.to_le_bytes());
            out.extend_from_slice(&len.to_le_bytes());
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Rts> {
        let (id, pid, revoked) = (reader.u64()?, reader.u32()?, reader.u32()?);
        let (len, words) = (reader.u64()?, (reader.u64()?, reader.u64()?));
        let count = reader.u64()?;
        if count > crate::memory::PIECES as u64 || len > crate::MESSAGE_MAX as u64 {
            return None;
        }
        let piece = |reader: &mut Reader<'_>| Some((reader.u64()?, reader.u64()?));
        let (pieces, sum) = if count == 1 {
            let (at, len) = piece(reader)?;
            (Pieces::One(at), len)
        } else {
            let all: Box<[(u64, u64)]> = (0..count).map(|_| piece(reader)).collect::<Option<_>>()?;
            let sum = all.iter().try_fold(0u64, |sum, piece| sum.checked_add(piece.1))?;
            (Pieces::Several(all), sum)
        };
        let way = match NonZeroU32::new(pid) {
            Some(pid) => Way::Memory(InMemory { pid, revoked, proof: words, pieces }),
            None => Way::Window { ahead: Rts::ahead(words, len) },
        };
        let is_whole = sum == len || pid == 0 && count == 0;
        is_whole.then_some(Rts { id, len, way })
    }

    fn ahead((chunk, bytes): (u64, u64), len: u64) -> Option<(u32, usize)> {
        let chunk = u32::try_from(chunk.checked_sub(1)?).ok()?;
        (bytes <= len).then_some((chunk, bytes as usize))
    }
}

/// Memory of a target: address, length, key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Remote {
    pub(crate) addr: u64,
    pub(crate) len: u64,
    pub(crate) key: u64,
}

impl Remote {
    /// Bytes of one.
    pub(crate) const BYTES: usize = 24;

    pub(crate) fn encode_all(all: &[Remote], out: &mut Vec<u8>) {
        for remote in all {
            [remote.addr, remote.len, remote.key].iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        }
    }

    pub(crate) fn decode_all(count: u8, reader: &mut Reader<'_>) -> Option<Vec<Remote>> {
        if usize::from(count) > crate::memory::PIECES {
            return None;
        }
        (0..count).map(|_| Some(Remote { addr: reader.u64()?, len: reader.u64()?, key: reader.u64()? })).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn come_back(rts: Rts) -> Result<(), TestCaseError> {
        let mut bytes = Vec::new();
        rts.encode(&mut bytes);
        prop_assert!(bytes.len() <= Rts::BYTES);
        prop_assert_eq!(Rts::decode(&mut Reader(&bytes)), Some(rts));
        prop_assert_eq!(Rts::decode(&mut Reader(&bytes[..bytes.len() - 1])), None);
        Ok(())
    }

    /// A million of them may wait.
    #[test]
    fn an_offer_is_seven_words() {
        assert_eq!(size_of::<Rts>(), 56);
    }

    proptest! {
        #[test]
        fn heads_come_back(kind in 0usize..16, count in 0u8..16, ids: [u32; 2], aux in 0u64..1 << 48, tag: Option<u64>, chunk: Option<u32>, data: Option<u64>, wants: [bool; 2]) {
            let ([dst, src], [wants_done, wants_match], kind) = (ids, wants, MessageKind::ALL[kind]);
            let (tag, chunk) = if kind == MessageKind::FragmentDone { (None, chunk) } else { (tag, None) };
            let head = Head { kind, wants_done, wants_match, count, dst, src, aux, tag, chunk, data };
            let (bytes, len) = head.encode();
            prop_assert_eq!(Head::decode(&bytes[..len]), Some((head, len)));
            prop_assert_eq!(Head::decode(&bytes[..len - 1]), None);
        }

        #[test]
        fn offers_come_back(id: u64, pid in 1u32.., revoked: u32, proof: (u64, u64), pieces in prop::collection::vec((any::<u64>(), 0u64..1 << 30), 0..=4)) {
            let len = pieces.iter().map(|p| p.1).sum();
            let pieces = if pieces.len() == 1 { Pieces::One(pieces[0].0) } else { Pieces::Several(pieces.into()) };
            let pid = NonZeroU32::new(pid).expect("it begins at 1");
            come_back(Rts { id, len, way: Way::Memory(InMemory { pid, revoked, proof, pieces }) })?;
        }

        #[test]
        fn offers_through_the_window_come_back(id: u64, len in 0u64..1 << 40, ahead: Option<(u32, u64)>) {
            let ahead = ahead.map(|(chunk, bytes)| (chunk, bytes.checked_rem(len).unwrap_or(0) as usize));
            come_back(Rts { id, len, way: Way::Window { ahead } })?;
        }

        #[test]
        fn nonsense_is_refused_or_read_but_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Head::decode(&bytes);
            let _ = Rts::decode(&mut Reader(&bytes));
            let _ = Remote::decode_all(bytes.first().copied().unwrap_or(0), &mut Reader(&bytes));
        }
    }
}
