//! How operations end: what a counter counts and a completion queue gives.

use super::fault::Fault;
use super::here::Here;
use super::objects::*;
use super::waiting::Looks;
use crate::abi::constants::*;
use crate::matching::Source;
use crate::memory::UserMemory;
use crate::slots::Slots;
use crate::wire::{Head, Remote};
use angara::mailbox::Peer;

/// Request of an endpoint to a peer.
pub(super) struct Request {
    pub(super) peer: Peer,
    pub(super) done: Done,
    /// Where the answer goes.
    pub(super) result: UserMemory,
}

/// Requests that peers have not answered.
pub(super) type Requests = Slots<Request, u64>;

/// What the end of an operation touches.
pub(super) struct Ends<'a> {
    pub(super) here: &'a Here,
    pub(super) objects: &'a mut Objects,
    pub(super) requests: &'a mut Requests,
    pub(super) looks: &'a mut Looks,
}

impl Ends<'_> {
    #[inline(always)]
    pub(super) fn lend(&mut self) -> Ends<'_> {
        let Ends { here, objects, requests, looks } = self;
        Ends { here, objects, requests, looks }
    }

    /// Reports the end of an operation.
    #[inline]
    pub(super) fn end(&mut self, done: Done, fault: impl Into<Fault>, excess: usize) {
        let fault = fault.into();
        match fault.error {
            0 => {
                self.looks.goes_on(self.here);
                self.objects.end_well(done);
            }
            _ => self.objects.end_badly(Failed { done, fault, excess }),
        }
    }

    /// A request has ended that is no longer in the table.
    pub(super) fn end_request(&mut self, done: Done, fault: Fault) {
        if done.side != Side::Send
            && let Some(ep) = self.objects.eps.get_mut(done.ep)
        {
            ep.accesses -= 1;
        }
        self.end(done, fault, 0);
    }

    pub(super) fn request_ends(&mut self, id: u64, fault: Fault) {
        if let Some(request) = self.requests.remove(id) {
            self.end_request(request.done, fault);
        }
    }

    /// A message is where it goes, or will never be.
    #[inline(never)]
    pub(super) fn received(&mut self, mut done: Done, excess: usize, multi: u64, mut fault: Fault) {
        let multis = &mut self.objects.multis;
        if multi != 0
            && let Some(buffer) = multis.get_mut(multi)
        {
            buffer.pending -= 1;
            if buffer.closed && buffer.pending == 0 {
                multis.remove(multi);
                done.flags |= MULTI_RECV;
            }
        }
        if fault == Fault::NONE && excess > 0 {
            fault = errno::ETRUNC.into();
        }
        self.end(done, fault, excess);
    }

    /// Counts a peer's access, and reports it if it carries data.
    pub(super) fn accessed(&mut self, head: &Head, remotes: &[Remote], side: Side, len: usize) {
        let kind = if side == Side::RemoteRead { REMOTE_READ } else { REMOTE_WRITE };
        if self.objects.eps.get(head.dst).is_none() {
            return;
        }
        self.objects.count_access(head.dst, remotes, kind);
        let done = Done {
            ep: head.dst,
            side,
            context: 0,
            flags: RMA | kind | REMOTE_CQ_DATA,
            len,
            buf: 0,
            data: head.data.unwrap_or(0),
            tag: 0,
            source: ADDR_NOTAVAIL,
            report: head.data.is_some(),
        };
        self.end(done, 0, 0);
    }

    /// Ends receives that wait for messages of those senders.
    pub(super) fn end_receives_from(&mut self, ep: u32, theirs: &[bool]) {
        for tagged in [false, true] {
            let Some(endpoint) = self.objects.eps.get_mut(ep) else { return };
            let is = |source: Source| theirs.get(source as usize).copied().unwrap_or(false);
            let wait = endpoint.matching(tagged).posted_where(|want, _| want.source.is_some_and(is));
            for at in wait {
                let Some(endpoint) = self.objects.eps.get_mut(ep) else { return };
                let posted = endpoint.matching(tagged).take_posted(at);
                self.end(Done::without_message(ep, tagged, &posted, 0), errno::ENOTCONN, 0);
            }
        }
    }
}
