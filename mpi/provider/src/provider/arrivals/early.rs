//! Messages for an endpoint before it is enabled: it has its address from the beginning, so others may know it already.

use super::receive::Arrivals;
use crate::abi::constants::errno;
use crate::provider::objects::*;
use crate::wire::{Head, MessageKind, rest};
use angara::mailbox::{Message, Peer};

impl Arrivals<'_> {
    /// True if a message is kept, as its endpoint is open but not enabled yet.
    pub(in crate::provider) fn waits_for_endpoint(&mut self, peer: Peer, head: &Head, message: &Message<'_>) -> bool {
        self.is_too_early(head) && self.hold(peer, head, message)
    }

    fn is_too_early(&self, head: &Head) -> bool {
        self.ends.objects.eps.get(head.dst).is_some_and(|ep| !ep.enabled)
    }

    /// Keeps a message until its endpoint is enabled. False if there are too many: the operation its sender waits for
    /// may then fail. The payload of the program's messages stays with their senders then.
    fn hold(&mut self, peer: Peer, head: &Head, message: &Message<'_>) -> bool {
        let Some(ep) = self.ends.objects.eps.get_mut(head.dst) else { return false };
        let is_message = matches!(head.kind, MessageKind::Send | MessageKind::SendRts);
        if ep.held > HELD_MAX && !is_message {
            return false;
        }
        ep.held += HELD_EACH + message.len();
        ep.early.push((peer, rest(message, 0, message.len()).into_boxed_slice()));
        if ep.held > HELD_MAX && is_message {
            ep.xoff = true;
            self.peers.stop(peer, head.src, head.dst);
        }
        true
    }

    /// A message of the program that finds no endpoint to go to.
    #[cold]
    pub(super) fn undelivered(&mut self, peer: Peer, head: &Head, message: &Message<'_>) {
        if self.waits_for_endpoint(peer, head, message) {
            return;
        }
        if head.wants_done {
            self.peers.answer(peer, head, errno::ECONNREFUSED);
        }
    }
}
