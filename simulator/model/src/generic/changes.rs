//! Packets that are lost where a port is closed under way. `docs/explain/model.md`, "Faults under way".

use super::state::{ChannelState, CutThrough, InVc};
use crate::routers::mask::Field;
use crate::routers::network::Routers;
use crate::routers::view::NO_OWNER;
use crate::topology::Route;
use angara_fabric::raw::PacketHandle;

impl<T: Route, F: Field, const N: usize, const P: usize, const W: usize, const A: bool>
    Routers<T, CutThrough<F, A>, N, P, W>
{
    /// Drops the packets of router `r` that want a closed port.
    pub(super) fn empty(&mut self, r: u32) {
        for i in 0..N as u32 {
            let InVc { queue, out, state, .. } = *self.routers[r as usize].input(i);
            let (gone, kept) = self.sort_out(r, queue);
            let Some(&first_gone) = gone.first() else { continue };
            let router = &mut self.routers[r as usize];
            router.input(i).queue = kept;
            if first_gone == queue.head && state != ChannelState::Streaming {
                if state == ChannelState::Active {
                    let output = router.output(out.into());
                    (output.owner, output.wanted) = (NO_OWNER, 0);
                    router.free.set(out.into());
                    router.ready.clear(i);
                }
                router.allocating.clear(i);
                router.input(i).state = ChannelState::Idle;
                if kept.head.is_some() {
                    router.compete(i, &self.pool);
                }
            }
            gone.into_iter().for_each(|h| self.drop_at(r << Self::ROUTER | i, h));
        }
        let block = self.calendar.block(r << Self::ROUTER);
        self.all.blocks[block].wake(r);
    }

    /// Drops a packet of input channel `i`, whose room is free as if it left.
    #[cold]
    pub(super) fn drop_at(&mut self, i: u32, h: PacketHandle) {
        let (r, p, v) = (i >> Self::ROUTER, i >> Self::PORT & (P as u32 - 1), i & ((1 << Self::PORT) - 1));
        let near = *self.routers[r as usize].port(p);
        let flits = self.pool.hot[h.index()].flits;
        self.give_back(&near, v, flits, r << Self::ROUTER);
        self.lose(h);
    }
}
