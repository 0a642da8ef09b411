//! Layout of datagrams. All numbers are little-endian.
//!
//! ```text
//! every datagram   0 kind u8 · 1 key id u8 · 2 from u16 · 4 to u16 · 6 zero u16 · 8 cluster tag u32 ·
//!                 12 session u32 · 16 number u64 · 24 body … · tag [16]
//! hello body       nonce [16] · echo [16] · window u32 · mtu u32 · zeros up to 1,200 bytes in all
//! session body     blocks, each starting with its type:
//!   padding        0
//!   ack            1 u8 · extra ranges u8 · delay us u16 · largest u64 · first u32 · next u64 · room u32 ·
//!                  extra × (gap u32 · length u32)
//!   data           2 u8 · flags u8 · length u16 · offset u64 · bytes …
//!   ping           3 u8
//!   close          4 u8
//! ```

use crate::config::MTU_MIN;
use std::ops::Range;

pub(crate) const HEADER: usize = 24;
pub(crate) const TAG: usize = 16;
/// What a hello says.
const BODY: usize = 40;
/// As long as the datagrams that every path must carry: no session begins where only short ones pass.
pub(crate) const HELLO: usize = MTU_MIN;
pub(crate) const ACK: usize = 28;
pub(crate) const ACK_RANGE: usize = 8;
/// Ranges an acknowledgement names beside the highest.
pub(crate) const ACK_RANGES_MAX: usize = 32;
pub(crate) const DATA: usize = 12;
/// On a data block: the sender waits for the acknowledgement.
pub(crate) const ACK_NOW: u8 = 1;

/// Purpose of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FrameKind {
    /// "I have no session with you."
    Init = 1,
    /// The answer: shows that the answerer is alive now.
    Challenge = 2,
    /// The answer to that: shows that the initiator is, too.
    Proof = 3,
    /// Everything else.
    Session = 4,
}

/// The first bytes of every datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) kind: FrameKind,
    pub(crate) key: u8,
    pub(crate) from: u16,
    pub(crate) to: u16,
    pub(crate) cluster: u32,
    pub(crate) session: u32,
    pub(crate) number: u64,
}

impl Header {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.kind as u8, self.key]);
        out.extend_from_slice(&self.from.to_le_bytes());
        out.extend_from_slice(&self.to.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.cluster.to_le_bytes());
        out.extend_from_slice(&self.session.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
    }

    /// The header, if this can be one of our datagrams at all.
    pub(crate) fn decode(datagram: &[u8]) -> Option<Header> {
        if datagram.len() < HEADER + TAG || datagram[6..8] != [0; 2] {
            return None;
        }
        let kind = match datagram[0] {
            1 => FrameKind::Init,
            2 => FrameKind::Challenge,
            3 => FrameKind::Proof,
            4 => FrameKind::Session,
            _ => return None,
        };
        if kind != FrameKind::Session && datagram.len() != HELLO {
            return None;
        }
        let mut rest = &datagram[2..];
        let (from, to) = (u16::from_le_bytes(take(&mut rest)?), u16::from_le_bytes(take(&mut rest)?));
        take::<2>(&mut rest)?;
        let (cluster, session) = (u32::from_le_bytes(take(&mut rest)?), u32::from_le_bytes(take(&mut rest)?));
        Some(Header {
            kind,
            key: datagram[1],
            from,
            to,
            cluster,
            session,
            number: u64::from_le_bytes(take(&mut rest)?),
        })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

/// The body of the three handshake messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hello {
    /// Drawn by the sender for this session.
    pub(crate) nonce: [u8; 16],
    /// The receiver's nonce, as the sender heard it; zero in an init.
    pub(crate) echo: [u8; 16],
    /// Stream bytes the sender takes before any of them has been consumed.
    pub(crate) window: u32,
    /// Largest datagram the sender takes.
    pub(crate) mtu: u32,
}

impl Hello {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.nonce);
        out.extend_from_slice(&self.echo);
        out.extend_from_slice(&self.window.to_le_bytes());
        out.extend_from_slice(&self.mtu.to_le_bytes());
        out.resize(out.len() + HELLO - HEADER - BODY - TAG, 0);
    }

    pub(crate) fn decode(mut body: &[u8]) -> Option<Hello> {
        let rest = &mut body;
        Some(Hello {
            nonce: take(rest)?,
            echo: take(rest)?,
            window: u32::from_le_bytes(take(rest)?),
            mtu: u32::from_le_bytes(take(rest)?),
        })
    }
}

/// Which packets have arrived, and how far the stream has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ack {
    /// How long the packet with the highest number has been here, in microseconds.
    pub(crate) delay_us: u16,
    /// Everything below this stream offset has arrived.
    pub(crate) next: u64,
    /// The sender may go this far beyond `next`.
    pub(crate) room: u32,
    /// Packet numbers, highest first; never empty.
    pub(crate) ranges: Vec<Range<u64>>,
}

/// Appends an acknowledgement of the highest of `seen`; as many ranges as fit into `space`.
pub(crate) fn encode_ack(seen: &[Range<u64>], delay_us: u16, next: u64, room: u32, space: usize, out: &mut Vec<u8>) {
    let Some(top) = seen.last() else { return };
    if space < ACK {
        return;
    }
    let extra = (seen.len() - 1).min(ACK_RANGES_MAX).min((space - ACK) / ACK_RANGE);
    let u32_of = |x: u64| u32::try_from(x).unwrap_or(u32::MAX);
    let at = out.len();
    out.extend_from_slice(&[1, 0]);
    out.extend_from_slice(&delay_us.to_le_bytes());
    out.extend_from_slice(&(top.end - 1).to_le_bytes());
    out.extend_from_slice(&u32_of(top.end - top.start).to_le_bytes());
    out.extend_from_slice(&next.to_le_bytes());
    out.extend_from_slice(&room.to_le_bytes());
    let mut above = top.start;
    for r in seen.iter().rev().skip(1).take(extra) {
        // A gap or range beyond 32 bits cannot be said; what lies below is acknowledged no more.
        let (gap, len) = (above - r.end, r.end - r.start);
        if gap > u64::from(u32::MAX) || len > u64::from(u32::MAX) {
            break;
        }
        out.extend_from_slice(&(gap as u32).to_le_bytes());
        out.extend_from_slice(&(len as u32).to_le_bytes());
        out[at + 1] += 1;
        above = r.start;
    }
}

/// Appends the head of a data block.
pub(crate) fn encode_data(flags: u8, offset: u64, len: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&[2, flags]);
    out.extend_from_slice(&(len as u16).to_le_bytes());
    out.extend_from_slice(&offset.to_le_bytes());
}

pub(crate) const PING: u8 = 3;
pub(crate) const CLOSE: u8 = 4;

/// A part of a session datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Block<'a> {
    Ack(Ack),
    Data { flags: u8, offset: u64, bytes: &'a [u8] },
    Ping,
    Close,
}

/// Reads the blocks of a session body. Ends with `None` where the body does, or with an error.
pub(crate) struct Blocks<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Blocks<'a> {
    /// `Err` is what does not fit.
    type Item = Result<Block<'a>, &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&kind, rest) = self.0.split_first()?;
        self.0 = rest;
        let block = match kind {
            0 => {
                // Padding is always the end of a datagram.
                let zero = self.0.iter().all(|b| *b == 0);
                self.0 = &[];
                if zero {
                    return None;
                }
                None
            }
            1 => ack(&mut self.0).map(Block::Ack),
            2 => data(&mut self.0),
            PING => Some(Block::Ping),
            CLOSE => Some(Block::Close),
            _ => None,
        };
        let block = block.ok_or("a block that is not one");
        if block.is_err() {
            self.0 = &[];
        }
        Some(block)
    }
}

fn data<'a>(rest: &mut &'a [u8]) -> Option<Block<'a>> {
    let [flags] = take(rest)?;
    let len = u16::from_le_bytes(take(rest)?) as usize;
    let offset = u64::from_le_bytes(take(rest)?);
    let (bytes, tail) = rest.split_at_checked(len)?;
    *rest = tail;
    Some(Block::Data { flags, offset, bytes })
}

fn ack(rest: &mut &[u8]) -> Option<Ack> {
    let [extra] = take(rest)?;
    let delay_us = u16::from_le_bytes(take(rest)?);
    let largest = u64::from_le_bytes(take(rest)?);
    let first = u64::from(u32::from_le_bytes(take(rest)?));
    let next = u64::from_le_bytes(take(rest)?);
    let room = u32::from_le_bytes(take(rest)?);
    let end = largest.checked_add(1)?;
    let mut start = end.checked_sub(first)?;
    if first == 0 || extra as usize > ACK_RANGES_MAX {
        return None;
    }
    let mut ranges = Vec::with_capacity(1 + extra as usize);
    ranges.push(start..end);
    for _ in 0..extra {
        let (gap, len) = (u32::from_le_bytes(take(rest)?), u32::from_le_bytes(take(rest)?));
        if gap == 0 || len == 0 {
            return None;
        }
        let end = start.checked_sub(u64::from(gap))?;
        start = end.checked_sub(u64::from(len))?;
        ranges.push(start..end);
    }
    Some(Ack { delay_us, next, room, ranges })
}

/// Hosts a datagram claims to come from and go to, before anything is proved; `None` if it is none of ours.
/// For the owner of several associations to find the one to ask.
pub fn hosts(datagram: &[u8]) -> Option<(u16, u16)> {
    Header::decode(datagram).map(|h| (h.from, h.to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranges::Ranges;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn headers_come_back(kind in 1u8..=4, key: u8, from: u16, to: u16, cluster: u32, session: u32, number: u64) {
            let kind = [FrameKind::Init, FrameKind::Challenge, FrameKind::Proof, FrameKind::Session][kind as usize - 1];
            let header = Header { kind, key, from, to, cluster, session, number };
            let mut bytes = Vec::new();
            header.encode(&mut bytes);
            prop_assert_eq!(bytes.len(), HEADER);
            bytes.resize(HELLO, 0);
            prop_assert_eq!(Header::decode(&bytes), Some(header));
        }

        #[test]
        fn hellos_come_back(nonce: [u8; 16], echo: [u8; 16], window: u32, mtu: u32) {
            let hello = Hello { nonce, echo, window, mtu };
            let mut bytes = Vec::new();
            hello.encode(&mut bytes);
            prop_assert_eq!(bytes.len(), HELLO - HEADER - TAG);
            prop_assert_eq!(Hello::decode(&bytes), Some(hello));
        }

        #[test]
        fn blocks_come_back(
            seen in prop::collection::vec((1u64..1000, 1u64..1000), 1..60),
            delay: u16, next: u64, room: u32, offset: u64, payload in prop::collection::vec(any::<u8>(), 0..300),
            padding in 0usize..50, space in ACK..400,
        ) {
            let mut ranges = Ranges::default();
            let mut at = 0;
            for (gap, len) in seen {
                ranges.insert(at + gap..at + gap + len);
                at += gap + len;
            }
            let mut body = Vec::new();
            encode_ack(ranges.as_slice(), delay, next, room, space, &mut body);
            prop_assert!(body.len() <= space);
            encode_data(ACK_NOW, offset, payload.len(), &mut body);
            body.extend_from_slice(&payload);
            body.push(PING);
            body.resize(body.len() + padding, 0);
            let blocks: Vec<Block<'_>> = Blocks(&body).collect::<Result<_, _>>().unwrap();
            let told = ranges.len().min(1 + ACK_RANGES_MAX).min(1 + (space - ACK) / ACK_RANGE);
            let expected: Vec<_> = ranges.as_slice().iter().rev().take(told).cloned().collect();
            prop_assert_eq!(blocks, vec![
                Block::Ack(Ack { delay_us: delay, next, room, ranges: expected }),
                Block::Data { flags: ACK_NOW, offset, bytes: &payload },
                Block::Ping,
            ]);
        }

        #[test]
        fn any_bytes_are_read_to_an_end(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let read = Blocks(&body).count();
            prop_assert!(read <= body.len());
            let _ = Header::decode(&body);
        }
    }
}
