//! Endpoints that are enabled or closed, memory that is registered no more, receives that are cancelled.

use crate::abi::constants::errno;
use crate::provider::fault::{Fault, Outcome};
use crate::provider::objects::{Done, HELD_EACH};
use crate::provider::progress::Provider;
use crate::provider::state::ProviderState;

impl Provider {
    /// Enables an endpoint, and delivers the messages held for it.
    pub(crate) fn enable(&mut self, id: u32) {
        let state = &mut self.state;
        let Some(ep) = state.objects.eps.get_mut(id) else { return };
        ep.enabled = true;
        state.onesided.says_endpoint(id, Some(ep.domain));
        for (peer, bytes) in std::mem::take(&mut ep.early) {
            state.arrivals().kept_no_more(id, HELD_EACH + bytes.len());
            state.deal_late(peer, &bytes);
        }
    }

    /// Ends what an endpoint has under way: nothing is reported of it, and none of the program's memory is used any more. Peers
    /// learn that what they have under way with it has failed, but still get what was injected: these payloads are returned.
    pub(crate) fn close_endpoint(&mut self, id: u32) -> Vec<u64> {
        let state = &mut self.state;
        let Some(mut ep) = state.objects.eps.remove(id) else { return Vec::new() };
        state.onesided.says_endpoint(id, None);
        let closed = Fault::from(errno::ECONNREFUSED);
        state.unpublish(id);
        for request in state.requests.ids(|request| request.done.ep == id) {
            state.requests.remove(request);
        }
        for inbound in state.fetches.ids(|inbound| inbound.ep == id) {
            state.fetching().inbound_ends(inbound, closed);
        }
        let revoked = state.offers.all.ids(|rts| rts.ep == id && !rts.is_copy());
        state.offering().revoke(revoked);
        for multi in state.objects.multis.ids(|multi| multi.ep == id) {
            state.objects.multis.remove(multi);
        }
        let early = std::mem::take(&mut ep.early);
        for incoming in ep.into_waiting() {
            state.arrivals().give_back(id, &incoming, closed);
        }
        // Nobody is there to take it: its senders are told.
        early.iter().for_each(|(peer, bytes)| state.deal_late(*peer, bytes));
        state.offers.all.ids(|rts| rts.ep == id && rts.is_copy())
    }

    /// True if peers may still fetch one of these payloads and are there to do it; those that have been fetched are left out.
    pub(crate) fn keeps(&self, payloads: &mut Vec<u64>) -> bool {
        while payloads.last().is_some_and(|id| self.state.offers.all.get(*id).is_none()) {
            payloads.pop();
        }
        !payloads.is_empty()
    }

    /// A counter is to learn of accesses to a region: peers do not make them by themselves any more.
    pub(crate) fn count(&mut self, domain: u32, key: u64, counter: (u32, u64)) -> Outcome {
        let ProviderState { objects, onesided, .. } = &mut self.state;
        let region =
            objects.domains.get_mut(domain).and_then(|domain| domain.keys.get_mut(&key)).ok_or(errno::EINVAL)?;
        region.counters.push(counter);
        let mut exposure = region.exposure;
        onesided.publish(domain, key, region, &mut exposure);
        region.exposure = exposure;
        Ok(())
    }

    /// Ends what peers have under way with memory that is registered no more. True if there was something.
    pub(crate) fn close_region(&mut self, domain: u32, key: u64) -> bool {
        let state = &mut self.state;
        let region = state.objects.domains.get_mut(domain).and_then(|domain| domain.keys.remove(&key));
        if let Some(region) = region {
            state.onesided.deregister(&state.here, &region, region.exposure);
        }
        let is_here = |ep: u32| state.objects.eps.get(ep).is_some_and(|ep| ep.domain == domain);
        let inbound = state.fetches.ids(|inbound| is_here(inbound.ep) && inbound.writes_to(key));
        let ids = state.offers.all.ids(|rts| is_here(rts.ep) && rts.reads_from(key));
        let has_ended = !inbound.is_empty() || !ids.is_empty();
        inbound.into_iter().for_each(|inbound| state.fetching().inbound_ends(inbound, errno::ENOKEY.into()));
        state.offering().revoke(ids);
        has_ended
    }

    /// Takes back a receive that has not found a message.
    pub(crate) fn cancel(&mut self, id: u32, context: usize) -> Outcome {
        for tagged in [false, true] {
            let matching = self.state.objects.eps.get_mut(id).ok_or(errno::EINVAL)?.matching(tagged);
            let Some(at) = matching.posted_where(|_, posted| posted.context == context).into_iter().next() else {
                continue;
            };
            let posted = matching.take_posted(at);
            self.state.objects.multis.remove(posted.multi);
            let done = Done::without_message(id, tagged, &posted, 0);
            self.state.ends().end(done, errno::ECANCELED, 0);
            return Ok(());
        }
        Err(errno::ENOENT)
    }
}
