//! Receives as the program posts them, looks at what waits, and their cancelling.

use crate::abi::constants::*;
use crate::matching::Want;
use crate::memory::UserMemory;
use crate::provider::arrivals::{Landing, Look};
use crate::provider::fault::Outcome;
use crate::provider::objects::*;
use crate::provider::progress::Provider;

/// Which messages a tagged receive wants.
#[derive(Clone, Copy)]
pub(crate) struct Tagged {
    pub(crate) tag: u64,
    pub(crate) ignore: u64,
}

/// A call that receives.
pub(crate) struct Receive {
    pub(crate) memory: UserMemory,
    /// From whom, or `FI_ADDR_UNSPEC`.
    pub(crate) from: u64,
    pub(crate) tagged: Option<Tagged>,
    pub(crate) context: usize,
    pub(crate) flags: u64,
}

const KNOWN: u64 = COMPLETION
    | MULTI_RECV
    | PEEK
    | CLAIM
    | DISCARD
    | MORE
    | INJECT_COMPLETE
    | TRANSMIT_COMPLETE
    | DELIVERY_COMPLETE
    | RECV
    | AFFINITY;

impl Provider {
    /// Posts a receive, or gives it a message that waits. Its sender is told at once: who finds a message for every receive
    /// need not call anything that makes progress.
    pub(crate) fn receive(&mut self, id: u32, call: Receive) -> Outcome {
        let outcome = self.begin_receive(id, call);
        if self.has_unsent() {
            self.flush();
        }
        outcome
    }

    fn begin_receive(&mut self, id: u32, call: Receive) -> Outcome {
        if call.flags & !KNOWN != 0 {
            return Err(errno::EBADFLAGS);
        }
        if call.flags & PEEK != 0 {
            // A program that looks again and again calls nothing else.
            self.state.looks.asks = true;
            self.progress();
            self.state.looks.asks = false;
        }
        let state = &mut self.state;
        let ep = state.objects.eps.get(id).ok_or(errno::EINVAL)?;
        if !ep.enabled {
            return Err(errno::EOPBADSTATE);
        }
        if state.broken.is_some() {
            return Err(errno::EIO);
        }
        let source = match call.from {
            ADDR_UNSPEC => None,
            _ if !ep.directed => None,
            address => {
                let av = ep.av.and_then(|av| state.objects.avs.get(av)).ok_or(errno::ENOAV)?;
                Some(av.target(address).ok_or(errno::EINVAL)?.source)
            }
        };
        let Tagged { tag, ignore } = call.tagged.unwrap_or(Tagged { tag: 0, ignore: 0 });
        let want = Want { source, tag, ignore };
        let report = Endpoint::reports(ep.rx, call.flags);
        if call.flags & (PEEK | CLAIM | DISCARD) != 0 {
            let Receive { memory, context, flags, tagged, .. } = call;
            let look = Look { memory, context, flags, is_tagged: tagged.is_some() };
            return state.arrivals().peek(id, want, look, report);
        }
        let is_tagged = call.tagged.is_some();
        if call.flags & MULTI_RECV != 0 {
            if is_tagged {
                return Err(errno::EBADFLAGS);
            }
            if state.objects.multis.is_full() {
                return Err(errno::EAGAIN);
            }
            let multi = state.objects.multis.insert(Multi { ep: id, used: 0, pending: 0, closed: false });
            let Receive { memory, context, .. } = call;
            state.arrivals().post_multi(id, want, Posted { memory, context, report, multi });
            return Ok(());
        }
        let Receive { memory, context, .. } = call;
        let is_new = source.is_some_and(|source| !state.peers.knows(source));
        let matching = state.objects.eps.get_mut(id).ok_or(errno::EINVAL)?.matching(is_tagged);
        match matching.find(&want) {
            None => {
                let posted = Posted { memory, context, report, multi: 0 };
                if !is_new {
                    matching.post(want, posted);
                    return Ok(());
                }
                if let Some(error) = source.and_then(|source| state.never_sends(source)) {
                    let done = Done::without_message(id, is_tagged, &posted, 0);
                    state.ends().end(done, error, 0);
                    return Ok(());
                }
                state.objects.eps.get_mut(id).ok_or(errno::EINVAL)?.matching(is_tagged).post(want, posted);
            }
            Some(at) => {
                let (source, tag, incoming) = matching.take_message(at);
                let landing = Landing { memory, context, report, multi: 0 };
                let mut arrivals = state.arrivals();
                arrivals.kept_no_more(id, incoming.held());
                arrivals.land_kept(id, landing, source, is_tagged.then_some(tag), incoming);
            }
        }
        Ok(())
    }
}
