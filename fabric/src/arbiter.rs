//! Who gets an output.
//!
//! An idle output serves, among the packets that ask for it and fit downstream, first those that
//! saw too many others go (age), then by lane (collective and barrier packets, response, request,
//! adaptive), then round robin over request numbers. A packet of an adaptive channel asks for all
//! outputs that bring it nearer but counts only at the one it prefers at that moment.

use crate::Fabric;
use crate::layout::{ADAPTIVE, LANE_ADAPTIVE, LANES, UP};

impl Fabric {
    /// Grants outputs of `node` until none of those to look at can be granted. One pass is in
    /// ascending order; what a grant makes worth looking at behind it waits for the next pass.
    #[inline]
    pub(crate) fn decide(&mut self, node: u32) {
        let n = node as usize;
        let mut passed = 0u16;
        loop {
            let rest = self.routers.look[n] & !passed;
            if rest == 0 {
                if self.routers.look[n] == 0 {
                    return;
                }
                passed = 0;
                continue;
            }
            let o = rest.trailing_zeros() as usize;
            passed = ((2u32 << o) - 1) as u16;
            self.routers.look[n] &= !(1 << o);
            let out = &self.routers.outputs[n * self.lay.outs + o];
            if out.requests == [0; LANES] {
                continue;
            }
            if out.busy > self.now {
                let at = out.busy;
                self.wake_at(node, o, at);
                continue;
            }
            match self.choose(n, o) {
                Some((lane, number)) => {
                    self.give_output(node, o, lane, number);
                }
                None if o < self.lay.dirs => {
                    let link = self.link(node, o);
                    if let Some(at) = self.slots.next_return(link, self.now) {
                        self.wake_at(node, o, at);
                    }
                }
                None => {}
            }
        }
    }

    #[inline(always)]
    fn give_output(&mut self, node: u32, o: usize, lane: usize, number: u32) {
        let queue = self.lay.queue(lane, number);
        let own = self.lay.vc(queue);
        // A packet that leaves the adaptive channel is asking in the lane of its class.
        let vc = if lane == 0 || o >= self.lay.dirs { own } else { lane - 1 };
        self.routers.output(node, o).turns[lane] = number as u8 + 1;
        self.grant(node, queue, o, vc);
        let out = self.routers.output(node, o);
        if out.requests == [0; LANES] {
            return;
        }
        let (at, mut adaptive) = (out.busy, out.requests[LANE_ADAPTIVE]);
        self.wake_at(node, o, at);
        if o >= self.lay.dirs {
            return;
        }
        // Adaptive packets that preferred this output may now prefer another.
        while adaptive != 0 {
            let queue = self.lay.queue(LANE_ADAPTIVE, adaptive.trailing_zeros());
            adaptive &= adaptive - 1;
            let wants = self.input(node, queue).wants;
            self.look_at_more(node, wants & !(1 << o));
        }
    }

    /// As `look_at` for a node that is being decided.
    #[inline(always)]
    fn look_at_more(&mut self, node: u32, outputs: u16) {
        self.routers.look[node as usize] |= outputs;
    }

    /// Requests for output `o` in a lane that fit downstream.
    #[inline(always)]
    fn eligible(&self, n: usize, o: usize, lane: usize, asking: u32) -> u32 {
        if asking == 0 || o >= self.lay.dirs {
            return asking;
        }
        let link = n * self.lay.dirs + o;
        let is_ring = self.routers.outputs[n * self.lay.outs + o].is_ring;
        match lane {
            0 => self.eligible_first(link, o, is_ring, asking),
            LANE_ADAPTIVE => {
                if self.slots.free(link, ADAPTIVE, self.now) < self.unit {
                    return 0;
                }
                let (mut mask, mut rest) = (0, asking);
                while rest != 0 {
                    let number = rest.trailing_zeros();
                    rest &= rest - 1;
                    let queue = self.lay.queue(lane, number);
                    let wants = self.routers.inputs[n * self.lay.queues + queue].wants;
                    if wants == 1 << o || self.preferred(n, wants) == o {
                        mask |= 1 << number;
                    }
                }
                mask
            }
            _ => {
                let free = self.slots.free(link, lane - 1, self.now);
                if free >= 2 * self.unit || (!is_ring && free >= self.unit) {
                    asking
                } else if free >= self.unit {
                    asking & 1 << o // going on in the same direction
                } else {
                    0
                }
            }
        }
    }

    /// The collective lane: each request has its own channel.
    fn eligible_first(&self, link: usize, o: usize, is_ring: bool, asking: u32) -> u32 {
        let fits = |number: &u32| {
            let queue = self.lay.queue(0, *number);
            let vc = self.lay.vc(queue);
            let goes_on = self.lay.dir(queue) == Some(o) && vc >= UP;
            let need = if goes_on || !is_ring || vc == ADAPTIVE { 1 } else { 2 };
            self.slots.free(link, vc, self.now) >= need * self.unit
        };
        (0..32).filter(|number| asking >> number & 1 != 0).filter(fits).fold(0, |mask, number| mask | 1 << number)
    }

    /// Among idle outputs with room on the adaptive channel the one with most room, the lowest if equal.
    fn preferred(&self, n: usize, wants: u16) -> usize {
        let mut best = (0, usize::MAX);
        let mut rest = wants;
        while rest != 0 {
            let o = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            if self.routers.outputs[n * self.lay.outs + o].busy > self.now {
                continue;
            }
            let free = self.slots.free(n * self.lay.dirs + o, ADAPTIVE, self.now);
            if free >= self.unit && free > best.0 {
                best = (free, o);
            }
        }
        best.1
    }

    /// Lane and number of the next grant of `o`.
    #[inline(always)]
    fn choose(&self, n: usize, o: usize) -> Option<(usize, u32)> {
        let out = &self.routers.outputs[n * self.lay.outs + o];
        let mut first = None;
        for (lane, asking) in out.requests.into_iter().enumerate() {
            let mask = self.eligible(n, o, lane, asking);
            if mask == 0 {
                continue;
            }
            if first.is_none() {
                first = Some((lane, mask));
            }
            let ages = (1..LANE_ADAPTIVE).contains(&lane) || (lane == LANE_ADAPTIVE && o >= self.lay.dirs);
            let aged = if ages { self.aged(n, o, lane, mask) } else { 0 };
            if aged != 0 {
                first = Some((lane, aged));
                break;
            }
        }
        let (lane, mask) = first?;
        let turn = out.turns[lane] as u32;
        let above = if turn >= 32 { 0 } else { mask & (u32::MAX << turn) };
        Some((lane, if above != 0 { above.trailing_zeros() } else { mask.trailing_zeros() }))
    }

    /// Those among the requests `mask` that have seen too many grants.
    #[inline(always)]
    fn aged(&self, n: usize, o: usize, lane: usize, mask: u32) -> u32 {
        let grants = self.routers.outputs[n * self.lay.outs + o].packets as u32;
        let (mut aged, mut rest) = (0, mask);
        while rest != 0 {
            let number = rest.trailing_zeros();
            rest &= rest - 1;
            let queue = self.lay.queue(lane, number);
            let since = self.routers.inputs[n * self.lay.queues + queue].since;
            if grants.wrapping_sub(since) >= self.params.age_limit as u32 {
                aged |= 1 << number;
            }
        }
        aged
    }
}
