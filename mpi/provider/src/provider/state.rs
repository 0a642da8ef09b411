//! All state of the provider, by owners, and what it lends of them to whoever deals with a message.

use super::arrivals::{Arrivals, Targets};
use super::costs::Costs;
use super::ends::{Ends, Requests};
use super::fault::{Fault, Outcome};
use super::here::Here;
use super::names::{Directory, Names};
use super::noted::Notes;
use super::objects::Objects;
use super::onesided::OneSided;
use super::payload::{Fetches, Fetching, Offering, Offers};
use super::peers::Peers;
use super::waiting::{Idle, Looks};
use super::waits::{Quiet, UnderWay};
use crate::abi::constants::errno;
use crate::address::Name;
use crate::matching::Source;
use crate::slots::Slots;
use crate::wire::{HEAD_MAX, Head, MessageKind};
use angara::Reach;
use angara::mailbox::{Message, Peer};

pub(crate) struct ProviderState {
    pub(crate) here: Here,
    pub(crate) objects: Objects,
    pub(crate) peers: Peers,
    pub(super) requests: Requests,
    pub(super) offers: Offers,
    pub(super) fetches: Fetches,
    names: Names,
    pub(crate) looks: Looks,
    pub(super) idle: Idle,
    /// Nothing comes.
    pub(super) quiet: Option<Quiet>,
    pub(super) notes: Notes,
    pub(super) costs: Costs,
    pub(crate) onesided: OneSided,
    /// Nothing goes on any more: the job has ended or the adapter has failed.
    pub(crate) broken: Option<String>,
}

/// What the state lends.
impl ProviderState {
    pub(super) fn new(here: Here, names: Names, tables: u64) -> ProviderState {
        let pes = here.job.n_pes();
        let by_ring = (0..pes).any(|pe| here.job.ctx().reach(pe) == Reach::Ring);
        ProviderState {
            objects: Objects::new(),
            peers: Peers::new(pes),
            requests: Slots::new(),
            offers: Offers::new(&here.window),
            fetches: Slots::new(),
            names,
            looks: Looks::new(),
            idle: Idle::new(pes, by_ring),
            quiet: None,
            notes: Notes::begin(&here.job),
            costs: Costs::default(),
            onesided: OneSided::new(&here, tables),
            broken: None,
            here,
        }
    }

    #[inline(always)]
    pub(super) fn ends(&mut self) -> Ends<'_> {
        let ProviderState { here, objects, requests, looks, .. } = self;
        Ends { here, objects, requests, looks }
    }

    #[inline(always)]
    pub(super) fn arrivals(&mut self) -> Arrivals<'_> {
        let ProviderState { here, objects, requests, looks, peers, notes, fetches, .. } = self;
        Arrivals { ends: Ends { here, objects, requests, looks }, peers, notes, fetches }
    }

    fn targets(&mut self) -> Targets<'_> {
        let ProviderState { here, objects, requests, looks, peers, notes, fetches, offers, .. } = self;
        Targets { ends: Ends { here, objects, requests, looks }, peers, notes, fetches, offers }
    }

    pub(super) fn fetching(&mut self) -> Fetching<'_> {
        let ProviderState { here, objects, requests, looks, peers, notes, fetches, .. } = self;
        Fetching { ends: Ends { here, objects, requests, looks }, peers, notes, fetches }
    }

    pub(super) fn offering(&mut self) -> Offering<'_> {
        let ProviderState { here, objects, requests, looks, peers, notes, offers, .. } = self;
        Offering { ends: Ends { here, objects, requests, looks }, peers, notes, offers }
    }

    pub(crate) fn under_way(&self) -> UnderWay<'_> {
        let ProviderState { here, objects, requests, peers, fetches, offers, .. } = self;
        UnderWay { here, objects, peers, requests, offers, fetches }
    }

    fn directory(&mut self) -> Directory<'_> {
        Directory { here: &self.here, names: &mut self.names }
    }

    /// The library above has something to do, or is told of something, without a message that has come just now.
    #[inline]
    pub(crate) fn goes_on(&mut self) {
        self.looks.goes_on(&self.here);
    }
}

/// Names of endpoints.
impl ProviderState {
    /// Gives an endpoint of this process a name by which others find it ([`Directory::publish`]).
    pub(crate) fn publish(&mut self, ep: u32, name: Name) -> Outcome {
        self.directory().publish(ep, name).unwrap_or_else(|e| {
            self.breaks(&e);
            Err(errno::EIO)
        })
    }

    pub(super) fn unpublish(&mut self, ep: u32) {
        if let Err(e) = self.directory().unpublish(ep) {
            self.breaks(&e);
        }
    }

    /// The endpoint that has a name now.
    pub(crate) fn resolve_name(&mut self, name: Name) -> Option<(Peer, u32)> {
        self.directory().resolve(name)
    }
}

/// Peers that come and go.
impl ProviderState {
    /// Makes the acquaintance of a peer, or finds that it is not the one who sits there.
    #[inline]
    pub(super) fn meet(&mut self, peer: Peer, has_sent: bool) -> Outcome {
        if self.peers.has(peer)? { Ok(()) } else { self.meet_anew(peer, has_sent) }
    }

    #[cold]
    #[inline(never)]
    fn meet_anew(&mut self, peer: Peer, has_sent: bool) -> Outcome {
        self.peers.may_meet(&self.here, peer, has_sent)?;
        if let Some(former) = self.peers.met_at(peer.seat) {
            self.lose(former);
        }
        self.peers.greet(peer);
        Ok(())
    }

    /// Why nothing more will come from an endpoint of which nothing waits: its process has gone. Whoever is waited for is looked
    /// after from now on, also if it has never said anything.
    #[cold]
    #[inline(never)]
    pub(super) fn never_sends(&mut self, source: Source) -> Option<i32> {
        let peer = self.peers.sources.peer(source)?;
        self.meet(peer, false).err().filter(|error| *error != errno::EAGAIN)
    }

    /// Ends receives from processes that had still to come when they were posted, and have gone since.
    pub(super) fn look_after_awaited(&mut self) {
        let awaited = self.under_way().awaited();
        let mut gone = vec![false; self.peers.sources.count()];
        for source in awaited {
            gone[source as usize] = self.never_sends(source).is_some();
        }
        if gone.contains(&true) {
            self.end_receives_from(&gone);
        }
    }

    fn end_receives_from(&mut self, senders: &[bool]) {
        let mut ends = self.ends();
        for ep in ends.objects.eps.ids(|_| true) {
            ends.end_receives_from(ep, senders);
        }
    }

    /// Ends everything that waits for `peer`, with errors.
    pub(super) fn lose(&mut self, peer: Peer) {
        crate::log::info(&format!("seat {} generation {} is gone", peer.seat, peer.generation));
        self.peers.forget(peer);
        let left = Fault::io(errno::ENOTCONN);
        let mut ends = self.ends();
        for id in ends.requests.ids(|request| request.peer == peer) {
            ends.request_ends(id, left);
        }
        for id in self.offers.all.ids(|rts| rts.peer == peer) {
            self.offering().withdraw(id, left);
        }
        for id in self.fetches.ids(|inbound| inbound.peer == peer) {
            self.fetching().inbound_ends(id, left);
        }
        let theirs = self.peers.sources.of(peer);
        self.end_receives_from(&theirs);
    }

    /// The job has ended, or the adapter has failed.
    pub(super) fn breaks(&mut self, error: &angara::Error) {
        if self.broken.is_some() {
            return;
        }
        let text = error.to_string();
        crate::log::warn(&text);
        self.broken = Some(text);
        for seat in 0..self.peers.all.len() as u32 {
            let generation = self.peers.all[seat as usize].generation;
            if generation != 0 {
                self.lose(Peer { seat, generation });
            }
        }
        self.objects.wake_all();
    }
}

/// Messages from the network.
impl ProviderState {
    /// What makes no sense is dropped; its sender gets no answer.
    #[inline]
    pub(super) fn arrived(&mut self, peer: Peer, message: &Message<'_>) {
        if self.meet(peer, true).is_ok() {
            self.deal(peer, message);
        }
    }

    /// A message of a peer that is known, or was when it came.
    #[inline(always)]
    fn deal(&mut self, peer: Peer, message: &Message<'_>) {
        let mut front = [0; HEAD_MAX];
        let front = &mut front[..message.len().min(HEAD_MAX)];
        message.copy(0, front);
        let Some((head, len)) = Head::decode(front) else {
            return crate::log::warn(&format!("seat {} sends nonsense", peer.seat));
        };
        let understood = match head.kind {
            MessageKind::Send => {
                self.message(peer, &head, message, len);
                Some(())
            }
            _ => self.other(peer, &head, message, len),
        };
        if understood.is_none() {
            crate::log::warn(&format!("seat {} sends {:?} that makes no sense", peer.seat, head.kind));
        }
    }

    #[inline]
    fn message(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) {
        self.arrivals().message(peer, head, message, at);
    }

    /// Delivers a message that was held until its endpoint was enabled, or closed.
    #[cold]
    pub(super) fn deal_late(&mut self, peer: Peer, bytes: &[u8]) {
        self.deal(peer, &Message::from(bytes));
    }

    /// Everything but messages with their payload.
    #[cold]
    fn other(&mut self, peer: Peer, head: &Head, message: &Message<'_>, at: usize) -> Option<()> {
        if head.kind.is_for_endpoint() && self.arrivals().waits_for_endpoint(peer, head, message) {
            return Some(());
        }
        match head.kind {
            MessageKind::Send => return None,
            MessageKind::SendRts => self.arrivals().on_send_rts(peer, head, message, at)?,
            MessageKind::Done => self.targets().request_done(peer, head, message, at)?,
            MessageKind::Cts => self.offering().on_cts(peer, head, message, at)?,
            MessageKind::Fragment => self.fetching().on_fragment(peer, head, message, at)?,
            MessageKind::FragmentDone => self.offering().on_fragment_done(peer, head)?,
            MessageKind::Fin => self.offering().on_fin(peer, head, message, at)?,
            MessageKind::Write => self.targets().write_came(peer, head, message, at)?,
            MessageKind::WriteRts => self.targets().on_write_rts(peer, head, message, at)?,
            MessageKind::Read => self.targets().read_came(peer, head, message, at)?,
            MessageKind::Reply => self.targets().reply_came(peer, head, message, at)?,
            MessageKind::ReplyRts => self.targets().on_reply_rts(peer, head, message, at)?,
            MessageKind::Atomic => self.targets().atomic_came(peer, head, message, at)?,
            MessageKind::Revoked => self.fetching().revoked(peer, head, message, at)?,
            MessageKind::Xoff => self.peers.on_xoff(peer, head),
            MessageKind::Xon => self.peers.on_xon(peer, head),
        }
        Some(())
    }
}
