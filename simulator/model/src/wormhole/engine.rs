//! Wormhole routers, taken through one cycle after the other.

use super::state::{ChannelState, Held, InVc, Message, Wormhole};
use crate::routers::engine::Cycles;
use crate::routers::mask::Field;
use crate::routers::network::Routers;
use crate::routers::router::Router;
use crate::topology::Route;
use angara_fabric::raw::PacketHandle;
use std::cmp::Reverse;

impl<T: Route, F: Field, const N: usize, const P: usize, const W: usize> Cycles<Wormhole<F>, N, P, W>
    for Routers<T, Wormhole<F>, N, P, W>
{
    fn next_cycle(&self) -> Option<u64> {
        let now = self.calendar.now;
        // Who waits is counted in every cycle.
        if self.waiting.anyone {
            return Some(now);
        }
        if self.all.awake.any() || self.all.sending.any() {
            return Some(now);
        }
        let far = self.all.far.peek().map(|&Reverse((t, _))| t.max(now));
        far.into_iter().chain(self.calendar.next()).chain(self.next_change()).min()
    }
    /// One cycle.
    fn run(&mut self, first: u64, _end: u64) {
        self.calendar.now = first;
        if self.alone {
            self.change();
        }
        self.all.slow.until(first);
        self.step();
        if self.changes.drains() {
            self.reopen_if_empty();
        }
        self.calendar.now = first + 1;
    }
    fn wake(&mut self, e: u32) {
        self.all.sending.set(e);
    }
    fn clear(&mut self, r: u32) {
        self.empty(r);
    }
    fn take_in(&mut self, cycle: u64, message: Message) {
        let due = self.calendar.at(cycle);
        match message {
            Message::Head { channel, hot, cold, traced } => {
                let h = self.pool.put(hot, cold);
                due.arrivals.push((channel, h));
                if traced {
                    self.tracer.begin(h, cold.tag);
                }
            }
            Message::Body(channel) => due.arrivals.push((channel, PacketHandle::NONE)),
            Message::Credit(channel) => due.credits.push(channel),
            Message::Queue(change) => self.news.accept(&change),
        }
    }
    fn holds(router: &Router<InVc<F>, Held<W>, N, P, W>) -> Option<String> {
        let busy = router.inputs.iter().position(|i| i.state != ChannelState::Idle || i.present != 0);
        if let Some(i) = busy {
            let InVc { state, present, .. } = router.inputs[i];
            return Some(format!(", input channel {i} is {state:?} with {present} flits"));
        }
        // A slow link may be busy for some time after the last flit.
        (router.in_busy | (router.out_busy & !router.own.slow) != 0).then(|| ": ports are held".into())
    }
    fn own_bytes(&self) -> usize {
        (self.all.awake.0.len() + self.all.sending.0.len()) * 8
            + self.all.far.capacity() * 16
            + self.all.slow.memory_bytes()
    }
}
