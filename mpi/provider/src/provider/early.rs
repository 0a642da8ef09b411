//! Messages for an endpoint before it is enabled: it has its address from the beginning, so others may know it already.

use super::ProviderState;
use super::objects::*;
use crate::abi::constants::errno;
use crate::wire::{Head, MessageKind, rest};
use angara::mailbox::{Message, Peer};

impl ProviderState {
    /// The endpoint that a message is for is open, but not enabled yet.
    pub(super) fn is_too_early(&self, head: &Head) -> bool {
        self.eps.get(head.dst).is_some_and(|ep| !ep.enabled)
    }

    /// Keeps a message until its endpoint is enabled. False if there are too many: the operation its sender waits for
    /// may then fail. The payload of the program's messages stays with their senders then.
    pub(super) fn hold(&mut self, peer: Peer, head: &Head, message: &Message<'_>) -> bool {
        let Some(ep) = self.eps.get_mut(head.dst) else { return false };
        let is_message = matches!(head.kind, MessageKind::Send | MessageKind::SendRts);
        if ep.held > HELD_MAX && !is_message {
            return false;
        }
        ep.held += HELD_EACH + message.len();
        ep.early.push((peer, rest(message, 0, message.len()).into_boxed_slice()));
        if ep.held > HELD_MAX && is_message {
            self.stop(peer, head.src, head.dst);
        }
        true
    }

    /// A message of the program that finds no endpoint to go to.
    #[cold]
    pub(super) fn undelivered(&mut self, peer: Peer, head: &Head, message: &Message<'_>) {
        if self.is_too_early(head) && self.hold(peer, head, message) {
            return;
        }
        if head.wants_done {
            self.answer(peer, head, errno::ECONNREFUSED);
        }
    }

    /// Delivers a message that was held.
    #[cold]
    pub(super) fn deal_late(&mut self, peer: Peer, bytes: &[u8]) {
        self.deal(peer, &Message::from(bytes));
    }

    /// Enables the endpoint, and delivers the messages held for it.
    pub(crate) fn enable(&mut self, id: u32) {
        let Some(ep) = self.eps.get_mut(id) else { return };
        ep.enabled = true;
        for (peer, bytes) in std::mem::take(&mut ep.early) {
            self.kept_no_more(id, HELD_EACH + bytes.len());
            self.deal_late(peer, &bytes);
        }
    }
}
