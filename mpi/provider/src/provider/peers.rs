//! Other processes, and messages that have had no room on the way to them.

use super::fault::{Fault, Outcome};
use super::here::Here;
use crate::abi::constants::errno;
use crate::matching::Source;
use crate::wire::{Head, MessageKind};
use angara::mailbox::Peer;
use std::collections::{HashMap, VecDeque};

/// State of a peer.
#[derive(Default)]
pub(super) struct PeerState {
    pub(super) generation: u32,
    /// Messages that had no room yet.
    pub(super) out: VecDeque<Box<[u8]>>,
    /// Its process lets this one read its memory; not known yet if none.
    pub(super) attach: Option<bool>,
    /// Its endpoint that sent last, and that one's number.
    last: Option<(u32, Source)>,
    /// Its endpoints that have sent XOFF.
    pub(super) xoff: Vec<u32>,
    /// Endpoints of ours that it has been told about.
    told: Vec<u32>,
    /// It has left, and what was under way has been ended.
    lost: bool,
}

impl PeerState {
    /// It is the one that is meant, and has not left.
    #[inline]
    pub(super) fn is(&self, peer: Peer) -> bool {
        self.generation == peer.generation && !self.lost
    }
}

/// Numbers of senders.
#[derive(Default)]
pub(crate) struct Sources {
    numbers: HashMap<(Peer, u32), Source>,
    peers: Vec<Peer>,
}

impl Sources {
    pub(crate) fn number(&mut self, peer: Peer, ep: u32) -> Source {
        *self.numbers.entry((peer, ep)).or_insert_with(|| {
            self.peers.push(peer);
            self.peers.len() as Source - 1
        })
    }

    #[inline]
    pub(super) fn peer(&self, source: Source) -> Option<Peer> {
        self.peers.get(source as usize).copied()
    }

    pub(super) fn count(&self) -> usize {
        self.peers.len()
    }

    /// True for the numbers of a peer's endpoints.
    pub(super) fn of(&self, peer: Peer) -> Vec<bool> {
        self.peers.iter().map(|p| *p == peer).collect()
    }
}

/// Most endpoints of a peer that may have sent XOFF: it may be hostile.
const XOFF_MAX: usize = 1024;

pub(crate) struct Peers {
    /// By seat.
    pub(super) all: Vec<PeerState>,
    /// Seats of peers with messages that had no room.
    pub(super) full: Vec<u32>,
    pub(crate) sources: Sources,
}

impl Peers {
    pub(super) fn new(seats: usize) -> Peers {
        let all = (0..seats).map(|_| PeerState::default()).collect();
        Peers { all, full: Vec::new(), sources: Sources::default() }
    }

    #[inline]
    pub(super) fn at(&self, peer: Peer) -> &PeerState {
        &self.all[peer.seat as usize]
    }

    #[inline]
    pub(super) fn at_mut(&mut self, peer: Peer) -> &mut PeerState {
        &mut self.all[peer.seat as usize]
    }

    /// Whoever has this number has made acquaintance, and is not lost.
    #[inline]
    pub(super) fn knows(&self, source: Source) -> bool {
        self.sources.peer(source).is_none_or(|peer| self.at(peer).is(peer))
    }

    /// True if a peer is there as far as is known here. Refuses seats that do not exist.
    #[inline]
    pub(super) fn has(&self, peer: Peer) -> Outcome<bool> {
        Ok(self.all.get(peer.seat as usize).ok_or(errno::ECONNREFUSED)?.is(peer))
    }

    /// Whoever was met at a seat last. Nobody, if nobody was or that one has been lost.
    pub(super) fn met_at(&self, seat: u32) -> Option<Peer> {
        let known = &self.all[seat as usize];
        (known.generation != 0 && !known.lost).then_some(Peer { seat, generation: known.generation })
    }

    /// Why no acquaintance can be made with a peer that is not known. One that has sent something has come, whether this host
    /// knows of it yet or not.
    pub(super) fn may_meet(&self, here: &Here, peer: Peer, has_sent: bool) -> Outcome {
        let known = self.at(peer);
        if known.generation >= peer.generation {
            return Err(if known.generation == peer.generation { errno::ENOTCONN } else { errno::ECONNREFUSED });
        }
        let life = here.job.pe_entry(peer.seat as usize).seat.life();
        match in_the_way(life, peer.generation, here.job.geometry().open, has_sent) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    pub(super) fn greet(&mut self, peer: Peer) {
        *self.at_mut(peer) = PeerState { generation: peer.generation, ..PeerState::default() };
    }

    /// Nothing goes to a peer any more.
    pub(super) fn forget(&mut self, peer: Peer) {
        let known = self.at_mut(peer);
        known.lost = true;
        known.out.clear();
    }

    /// The number of the sender of a message.
    #[inline]
    pub(super) fn source(&mut self, peer: Peer, from: u32) -> Source {
        let known = &mut self.all[peer.seat as usize];
        match known.last {
            Some((ep, source)) if ep == from => source,
            _ => {
                let source = self.sources.number(peer, from);
                known.last = Some((from, source));
                source
            }
        }
    }

    /// A message to a peer goes out with the next progress.
    pub(super) fn post(&mut self, peer: Peer, head: &Head, body: &[u8]) {
        let (bytes, len) = head.encode();
        let Some(known) = self.all.get_mut(peer.seat as usize).filter(|known| known.generation == peer.generation)
        else {
            return;
        };
        if known.out.is_empty() {
            self.full.push(peer.seat);
        }
        known.out.push_back([&bytes[..len], body].concat().into_boxed_slice());
    }

    pub(super) fn post_fault(&mut self, peer: Peer, head: &Head, fault: Fault) {
        let (bytes, len) = fault.encode();
        self.post(peer, head, &bytes[..len]);
    }

    /// Tells a peer that its request is done.
    pub(super) fn answer(&mut self, peer: Peer, head: &Head, fault: impl Into<Fault>) {
        self.post_fault(peer, &Head::new(MessageKind::Done, head.src, head.dst, head.aux), fault.into());
    }

    /// Tells a peer that nobody will fetch the payload of its RTS.
    pub(super) fn refuse(&mut self, peer: Peer, from: u32, rts: u64, error: i32) {
        self.post_fault(peer, &Head::new(MessageKind::Fin, from, 0, rts), error.into());
    }

    /// Tells a peer, once, to keep the payload of its next messages to an endpoint.
    pub(super) fn stop(&mut self, peer: Peer, from: u32, ep: u32) {
        let known = self.at_mut(peer);
        if !known.told.contains(&ep) {
            known.told.push(ep);
            self.post(peer, &Head::new(MessageKind::Xoff, from, ep, 0), &[]);
        }
    }

    /// Tells those who were stopped that an endpoint takes payload again.
    pub(super) fn resume(&mut self, ep: u32) {
        for seat in 0..self.all.len() {
            let known = &mut self.all[seat];
            if known.told.contains(&ep) {
                known.told.retain(|told| *told != ep);
                let peer = Peer { seat: seat as u32, generation: known.generation };
                self.post(peer, &Head::new(MessageKind::Xon, 0, ep, 0), &[]);
            }
        }
    }

    pub(super) fn on_xoff(&mut self, peer: Peer, head: &Head) {
        let xoff = &mut self.at_mut(peer).xoff;
        if !xoff.contains(&head.src) && xoff.len() < XOFF_MAX {
            xoff.push(head.src);
        }
    }

    pub(super) fn on_xon(&mut self, peer: Peer, head: &Head) {
        self.at_mut(peer).xoff.retain(|ep| *ep != head.src);
    }
}

/// Why nothing can be sent to, or taken from, the generation of a seat whose life is `life` as far as this host knows.
pub(super) fn in_the_way(life: u32, generation: u32, open: bool, has_sent: bool) -> Option<i32> {
    let to_come = open && life < generation;
    match life == generation || to_come && has_sent {
        true => None,
        // It is waited for.
        false if to_come => Some(errno::EAGAIN),
        false => Some(errno::ECONNREFUSED),
    }
}
