//! What all queue pairs of an adapter share: network, memory, regions, completion queues, shared receive queues.

use crate::completion::{Completion, Status};
use crate::event::Event;
use crate::handles::{Cq, Pd, Qp, Srq};
use crate::network::{Memory, Network, NotSent, Peer, Piece};
use crate::numbers::ByNumber;
use crate::objects::{Armed, CompletionQueue, Entry, SharedReceiveQueue};
use crate::region::{Region, access};
use crate::request::{Element, Payload, ReceiveRequest};
use crate::wire::{HEAD, Head, Packet};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Messages to nobody's queue pair that wait at most. More are dropped: their receivers ask again.
const STRAYS: usize = 4096;

/// Messages to this adapter itself that wait at most.
const LOCAL: usize = 64;
/// Events that wait at most before messages of connection managers are dropped: their senders ask again.
const EVENTS: usize = 1024;

pub(crate) type Pieces = SmallVec<[Piece; 2]>;

pub(crate) struct Core<N, M> {
    pub(crate) network: N,
    pub(crate) memory: M,
    pub(crate) regions: ByNumber<u32, Region>,
    /// Counts the regions that are not there any more, or not as they were: what was found before is to be found again.
    pub(crate) lost_regions: u64,
    pub(crate) cqs: ByNumber<Cq, CompletionQueue>,
    pub(crate) srqs: ByNumber<Srq, SharedReceiveQueue>,
    pub(crate) events: Vec<Event>,
    /// Messages from this adapter to itself.
    pub(crate) local: VecDeque<Vec<u8>>,
    /// Messages of no queue pair that are still to be sent.
    pub(crate) strays: VecDeque<(Peer, Vec<u8>)>,
    /// When adapters were heard last, by seat.
    pub(crate) heard: ByNumber<u32, u64>,
    /// Completion queues that are armed.
    pub(crate) armed: u32,
    /// Queue pairs that have something to do.
    pub(crate) ready: VecDeque<Qp>,
    /// Queue pairs that wait for something, and when to look at them.
    pub(crate) watched: Vec<Qp>,
    pub(crate) next_look: u64,
    /// Bytes on their way through here.
    scratch: Vec<u8>,
}

impl<N: Network, M: Memory> Core<N, M> {
    pub(crate) fn new(network: N, memory: M) -> Self {
        Core {
            network,
            memory,
            regions: ByNumber::default(),
            lost_regions: 0,
            cqs: ByNumber::default(),
            srqs: ByNumber::default(),
            events: Vec::new(),
            local: VecDeque::new(),
            strays: VecDeque::new(),
            heard: ByNumber::default(),
            armed: 0,
            ready: VecDeque::new(),
            watched: Vec::new(),
            next_look: u64::MAX,
            scratch: Vec::new(),
        }
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, to: Peer, head: Head, packet: &Packet<'_>, payload: &[u8]) -> Result<(), NotSent> {
        self.send_parts(to, &[&packet.front(head), payload])
    }

    fn send_parts(&mut self, to: Peer, parts: &[&[u8]]) -> Result<(), NotSent> {
        if to != self.network.me() {
            return self.network.send(to, parts);
        }
        if self.local.len() >= LOCAL {
            return Err(NotSent::Full);
        }
        self.local.push_back(parts.concat());
        Ok(())
    }

    /// Sends part of a payload in the program's memory: `len` bytes from `offset` on. A failed read is the inner error.
    pub(crate) fn send_from(
        &mut self,
        to: Peer,
        head: Head,
        packet: &Packet<'_>,
        (pieces, offset, len): (&[Piece], u64, usize),
    ) -> Result<Result<(), NotSent>, ()> {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.resize(len, 0);
        let read = self.read_pieces(pieces, offset, &mut bytes);
        let result = read.map(|()| self.send(to, head, packet, &bytes));
        self.scratch = bytes;
        result
    }

    /// Bytes of a payload in parts that fit a message: nothing but the head is in front of them.
    pub(crate) fn room(&self) -> usize {
        self.network.message_max() - HEAD
    }

    /// Sends now or later; if too much waits already, never.
    pub(crate) fn send_stray(&mut self, to: Peer, head: Head, packet: &Packet<'_>, payload: &[u8]) {
        if self.strays.is_empty() && self.send(to, head, packet, payload) != Err(NotSent::Full) {
            return;
        }
        if self.strays.len() < STRAYS {
            self.strays.push_back((to, [&packet.front(head), payload].concat()));
        }
    }

    /// Sends what has waited, to every peer in order. True if anything was.
    pub(crate) fn send_strays(&mut self) -> bool {
        let before = self.strays.len();
        let mut full: SmallVec<[Peer; 4]> = SmallVec::new();
        for _ in 0..before {
            let Some((to, bytes)) = self.strays.pop_front() else { break };
            let waits = full.contains(&to) || self.send_parts(to, &[&bytes]) == Err(NotSent::Full);
            if waits {
                // One whose peer is slow does not keep those of others waiting.
                if !full.contains(&to) {
                    full.push(to);
                }
                self.strays.push_back((to, bytes));
            }
        }
        self.strays.len() < before
    }

    /// A message of a connection manager has come.
    pub(crate) fn manager_says(&mut self, from: Peer, bytes: &[u8]) {
        if self.events.len() < EVENTS {
            self.events.push(Event::Cm { from, bytes: bytes.to_vec() });
        }
    }

    /// Where elements lie in this process, if all of them may be used so.
    pub(crate) fn resolve(&self, pd: Pd, elements: &[Element], need: u32) -> Result<Pieces, Status> {
        let one = |element: &Element| {
            if element.len == 0 {
                return Ok(None);
            }
            let region = self.regions.get(&element.key).ok_or(Status::LocalProtection)?;
            let at = region.find(pd.0, element.at, element.len.into(), need).ok_or(Status::LocalProtection)?;
            Ok(Some(Piece { at, len: element.len.into() }))
        };
        elements.iter().filter_map(|element| one(element).transpose()).collect()
    }

    /// The same for elements that were found before: once more, if a region has gone since.
    pub(crate) fn resolve_again(
        &self,
        pd: Pd,
        elements: &[Element],
        need: u32,
        (pieces, found): (&mut Pieces, &mut u64),
    ) -> Result<(), Status> {
        if *found != self.lost_regions {
            *pieces = self.resolve(pd, elements, need)?;
            *found = self.lost_regions;
        }
        Ok(())
    }

    /// Where `len` bytes of a region lie, if a peer may use them so. No bytes need no region.
    pub(crate) fn find(&self, pd: Pd, key: u32, at: u64, len: u64, need: u32) -> Option<u64> {
        if len == 0 {
            return Some(0);
        }
        self.regions.get(&key)?.find(pd.0, at, len, need)
    }

    fn read_pieces(&self, pieces: &[Piece], offset: u64, into: &mut [u8]) -> Result<(), ()> {
        let mut done = 0;
        for (at, len) in parts_of(pieces, offset, into.len()) {
            self.memory.read(at, &mut into[done..done + len]).map_err(|_| ())?;
            done += len;
        }
        if done == into.len() { Ok(()) } else { Err(()) }
    }

    /// Writes bytes to pieces, from `offset` on.
    pub(crate) fn write_pieces(&self, pieces: &[Piece], offset: u64, from: &[u8]) -> Result<(), ()> {
        let mut done = 0;
        for (at, len) in parts_of(pieces, offset, from.len()) {
            self.memory.write(at, &from[done..done + len]).map_err(|_| ())?;
            done += len;
        }
        if done == from.len() { Ok(()) } else { Err(()) }
    }

    /// Puts a completion into a queue.
    pub(crate) fn complete(&mut self, cq: Cq, completion: Completion, frees: u32, solicited: bool) {
        let Some(queue) = self.cqs.get_mut(&cq) else { return };
        if queue.entries.len() >= queue.capacity as usize {
            if !std::mem::replace(&mut queue.overrun, true) {
                self.events.push(Event::CqError(cq));
            }
            return;
        }
        let failed = completion.status != Status::Success;
        queue.entries.push_back(Entry { completion, frees });
        let tells = match queue.armed {
            Armed::No => false,
            Armed::Any => true,
            Armed::Solicited => solicited || failed,
        };
        if tells {
            queue.armed = Armed::No;
            self.armed -= 1;
            if let Some(channel) = queue.channel {
                self.events.push(Event::Completion { channel, cq });
            }
        }
    }

    /// Takes a receive request of a shared queue.
    pub(crate) fn take_shared(&mut self, srq: Srq) -> Option<ReceiveRequest> {
        let queue = self.srqs.get_mut(&srq)?;
        let request = queue.requests.pop_front()?;
        let limit = &mut queue.attributes.limit;
        if *limit > 0 && queue.requests.len() < *limit as usize {
            *limit = 0;
            self.events.push(Event::SrqLimit(srq));
        }
        Some(request)
    }
}

/// Address and length of what `len` bytes from `offset` on are in pieces.
fn parts_of(pieces: &[Piece], offset: u64, len: usize) -> impl Iterator<Item = (u64, usize)> + '_ {
    let (mut skip, mut left) = (offset, len as u64);
    pieces.iter().filter_map(move |piece| {
        let from = skip.min(piece.len);
        skip -= from;
        let here = (piece.len - from).min(left);
        left -= here;
        (here > 0).then_some((piece.at + from, here as usize))
    })
}

/// What part of pieces is the first `len` bytes.
pub(crate) fn first_of(pieces: &[Piece], len: u64) -> Pieces {
    let mut left = len;
    let mut first = Pieces::new();
    for piece in pieces {
        let here = piece.len.min(left);
        if here > 0 {
            first.push(Piece { at: piece.at, len: here });
        }
        left -= here;
    }
    first
}

/// Rights that the elements of a request need.
pub(crate) const fn need_of(receives: bool) -> u32 {
    if receives { access::LOCAL_WRITE } else { 0 }
}

/// Bytes of a payload.
pub(crate) fn bytes_of(payload: &Payload) -> u64 {
    match payload {
        Payload::Inline(bytes) => bytes.len() as u64,
        Payload::Elements(elements) => elements.iter().map(|element| u64::from(element.len)).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_pieces_are_where_they_should_be() {
        let pieces = [Piece { at: 100, len: 3 }, Piece { at: 200, len: 0 }, Piece { at: 300, len: 5 }];
        let parts = |offset, len| parts_of(&pieces, offset, len).collect::<Vec<_>>();
        assert_eq!(parts(0, 8), [(100, 3), (300, 5)]);
        assert_eq!(parts(2, 2), [(102, 1), (300, 1)]);
        assert_eq!(parts(3, 5), [(300, 5)]);
        assert_eq!(parts(7, 9), [(304, 1)]);
        assert_eq!(parts(9, 1), []);
        assert_eq!(first_of(&pieces, 4).to_vec(), [Piece { at: 100, len: 3 }, Piece { at: 300, len: 1 }]);
    }
}
