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
        far.into_iter().chain(self.calendar.next()).min()
    }
    /// One cycle.
    fn run(&mut self, first: u64, _end: u64) {
        self.calendar.now = first;
        self.step();
        self.calendar.now = first + 1;
    }
    fn wake(&mut self, e: u32) {
        self.all.sending.set(e);
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
        (router.in_busy | router.out_busy != 0).then(|| ": ports are held".into())
    }
    fn own_bytes(&self) -> usize {
        (self.all.awake.0.len() + self.all.sending.0.len()) * 8 + self.all.far.capacity() * 16
    }
}
