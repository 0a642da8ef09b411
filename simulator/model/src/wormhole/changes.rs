//! Packets that are lost where a port is closed under way, flit by flit. `docs/explain/model.md`, "Faults under way".

use super::state::{ChannelState, Due, InVc, Wormhole};
use crate::routers::mask::Field;
use crate::routers::network::Routers;
use crate::routers::view::NO_OWNER;
use crate::topology::Route;
use angara_fabric::raw::Stage;

impl<T: Route, F: Field, const N: usize, const P: usize, const W: usize> Routers<T, Wormhole<F>, N, P, W> {
    /// Drops the packets of router `r` that want a closed port, and whose head has not left.
    pub(super) fn empty(&mut self, r: u32) {
        for i in 0..N as u32 {
            let InVc { present, left, out, state, front, waiting, .. } = *self.routers[r as usize].input(i);
            let wants = matches!(state, ChannelState::Allocating | ChannelState::Head);
            let first_goes = wants && self.is_closed(r, front);
            // What is here of each packet: all of it, but perhaps of the last one.
            let mut behind = present;
            let mut here = |flits: u16| {
                let here = flits.min(behind);
                behind -= here;
                (here, flits - here)
            };
            let first = here(if state == ChannelState::Idle { 0 } else { left });
            let parts: Vec<_> =
                self.handles(waiting).into_iter().map(|h| (h, here(self.pool.hot[h.index()].flits))).collect();
            let (gone, kept) = self.sort_out(r, waiting);
            let router = &mut self.routers[r as usize];
            router.input(i).waiting = kept;
            if first_goes {
                if state == ChannelState::Head {
                    router.output(out.into()).owner = NO_OWNER;
                    router.free.set(out.into());
                    router.ready.clear(i);
                }
                router.allocating.clear(i);
                router.input(i).state = ChannelState::Idle;
                if kept.head.is_some() {
                    let h = router.input(i).waiting.pop(&self.pool);
                    router.compete(i, h, &self.pool);
                }
                self.drop_flits(r, i, first);
                self.lose(front);
            }
            for (h, part) in parts.into_iter().filter(|(h, _)| gone.contains(h)) {
                self.drop_flits(r, i, part);
                self.lose(h);
            }
        }
        let router = &mut self.routers[r as usize];
        router.own.look |= router.allocating.any();
        self.all.awake.set(r);
    }

    /// Of a packet in input channel `i` so many flits vanish, whose room is free as if they left, and so many that come.
    fn drop_flits(&mut self, r: u32, i: u32, (here, to_come): (u16, u16)) {
        let near = *self.routers[r as usize].port(i >> Self::PORT);
        (0..here).for_each(|_| self.give_back(&near, i & ((1 << Self::PORT) - 1)));
        let input = self.routers[r as usize].input(i);
        input.present -= here;
        input.vanishing += to_come;
        self.changes.vanishing += usize::from(to_come);
    }

    /// Flits reach input channels while ports are closed.
    #[cold]
    pub(super) fn arrive_with_care(&mut self, due: &mut Due) {
        for (channel, packet) in due.arrivals.drain(..) {
            let (r, i) = (channel >> Self::ROUTER, channel % N as u32);
            let near = *self.routers[r as usize].port(i >> Self::PORT);
            let input = self.routers[r as usize].input(i);
            if packet.is_none() && input.vanishing > 0 {
                input.vanishing -= 1;
                self.changes.vanishing -= 1;
                self.give_back(&near, i & ((1 << Self::PORT) - 1));
                continue;
            }
            if packet.is_some() {
                self.decide(r, i >> Self::PORT, packet);
                if self.is_closed(r, packet) {
                    self.trace(packet, channel, Stage::Arrived);
                    let input = self.routers[r as usize].input(i);
                    input.present += 1;
                    self.drop_flits(r, i, (1, self.pool.hot[packet.index()].flits - 1));
                    self.lose(packet);
                    continue;
                }
            }
            self.line_up(channel, packet);
        }
    }
}
