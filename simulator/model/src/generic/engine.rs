//! Blocks of `generic` routers, taken through a window of cycles one after the other.

use super::state::{Block, ChannelState, CutThrough, InVc, Message, OutVc};
use crate::routers::engine::Cycles;
use crate::routers::mask::Field;
use crate::routers::network::Routers;
use crate::routers::router::Router;
use crate::routers::timing::WINDOW;
use crate::topology::Route;
use angara_fabric::raw::Delivery;
use std::cmp::Reverse;

impl<T: Route, F: Field, const N: usize, const P: usize, const W: usize, const A: bool>
    Routers<T, CutThrough<F, A>, N, P, W>
{
    /// Takes block `b` through the cycles from `first` to `last`.
    fn run_block(&mut self, b: usize, first: u64, last: u64) {
        std::mem::swap(&mut self.all.here, &mut self.all.blocks[b]);
        if self.all.blocks.len() > 1 {
            self.fetch();
        }
        for cycle in first..=last {
            self.calendar.now = cycle;
            self.step(b, (cycle - first) as usize);
        }
        std::mem::swap(&mut self.all.here, &mut self.all.blocks[b]);
    }
    /// Touches all of the block's routers in the order of memory, which the processor can do at the full rate of a
    /// distant cache; the order in which a cycle needs them it cannot foresee.
    fn fetch(&self) {
        let first = self.all.here.first_router as usize;
        let last = self.routers.len().min(first + self.all.here.awake.0.len() * 64);
        let mut sum = 0u64;
        for router in &self.routers[first..last] {
            sum ^= router.in_busy;
            // One of every cache line.
            sum ^= router.ports.iter().step_by(5).fold(0, |s, p| s ^ p.peer as u64);
            sum ^= router.outputs.iter().step_by(64 / size_of::<OutVc>()).fold(0, |s, o| s ^ o.credits as u64);
            sum ^= router.inputs.iter().step_by(64 / size_of::<InVc<F>>()).fold(0, |s, i| s ^ i.out as u64);
        }
        std::hint::black_box(sum);
    }
}

impl<T: Route, F: Field, const N: usize, const P: usize, const W: usize, const A: bool>
    Cycles<CutThrough<F, A>, N, P, W> for Routers<T, CutThrough<F, A>, N, P, W>
{
    fn next_cycle(&self) -> Option<u64> {
        let now = self.calendar.now;
        // Who waits is counted in every cycle.
        if self.waiting.on() && self.pool.live() > 0 {
            return Some(now);
        }
        if self.all.blocks.iter().any(|b| b.awake.any() || b.sources.any()) {
            return Some(now);
        }
        let far = self.all.blocks.iter().filter_map(|b| b.far.peek()).map(|&Reverse((t, _))| t.max(now));
        far.chain(self.calendar.next()).chain(self.next_change()).min()
    }

    /// A window, or what of it is before the end.
    fn run(&mut self, first: u64, end: u64) {
        let mut last = end.min(first + WINDOW - 1);
        if let Some(change) = self.all.slow.until(first) {
            last = last.min(change - 1);
        }
        if self.changes.drains() || self.changes.next_cycle().is_some_and(|cycle| cycle <= last) {
            // Cycle by cycle.
            (self.calendar.now, last) = (first, first);
            if self.alone {
                self.change();
            }
        }
        for b in 0..self.all.blocks.len() {
            self.run_block(b, first, last);
        }
        if self.changes.drains() {
            self.reopen_if_empty();
        }
        self.calendar.now = last + 1;
        for list in &mut self.all.arrived {
            self.delivered.extend(list.drain(..));
        }
    }
    fn wake(&mut self, e: u32) {
        let block = self.calendar.block(self.sources[e as usize].channel);
        self.all.blocks[block].wake_source(e);
    }
    fn clear(&mut self, r: u32) {
        self.empty(r);
    }
    fn take_in(&mut self, cycle: u64, message: Message) {
        match message {
            Message::Arrival { channel, hot, cold, traced } => {
                let h = self.pool.put(hot, cold);
                self.calendar.soon_at(cycle, channel).arrivals.push((channel, h));
                if traced {
                    self.tracer.begin(h, cold.tag);
                }
            }
            Message::Credit { channel, flits } => {
                self.calendar.soon_at(cycle, channel).credits.push((channel, flits as u32));
            }
            Message::Queue(change) => self.news.accept(&change),
        }
    }
    fn holds(router: &Router<InVc<F>, (), N, P, W>) -> Option<String> {
        if let Some(o) = router.outputs.iter().position(|out| out.wanted != 0) {
            return Some(format!(", output channel {o} is waited for"));
        }
        let busy = router.inputs.iter().position(|i| i.state != ChannelState::Idle || i.queue.head.is_some());
        busy.map(|i| format!(", input channel {i} is {:?}", router.inputs[i].state))
    }
    fn own_bytes(&self) -> usize {
        self.all.blocks.iter().map(Block::memory_bytes).sum::<usize>()
            + self.all.slow.memory_bytes()
            + self.all.arrived.iter().map(Vec::capacity).sum::<usize>() * size_of::<Delivery>()
    }
}
