//! Arbitration of outputs.
//!
//! An idle output serves, among the packets that ask for it and fit downstream, first those that
//! saw too many others go (age), then by lane (collective and barrier packets, response, request,
//! adaptive), then round robin over request numbers. A packet of an adaptive channel asks for all
//! outputs that bring it nearer but counts only at the one it prefers at that moment.

use super::layout::{ADAPTIVE, LANE_ADAPTIVE, LANES, UP};
use super::slots::NEVER;
use super::state::Chip;
use crate::bits::{bits, round_robin};
use crate::types::Tick;

impl Chip {
    /// Grants outputs of `node` until none of those to look at can be granted. One pass is in
    /// ascending order; what a grant makes worth looking at behind it waits for the next pass.
    #[inline]
    pub(crate) fn decide(&mut self, node: u32) {
        let n = node as usize;
        // Nobody else adds outputs while the node is decided.
        let mut look = std::mem::take(&mut self.routers.look[n]);
        let mut passed = 0u16;
        // Alone and first, the output is the one that its adaptive packets prefer: had another they
        // ask for come to be idle and to have room at this instant, it would be looked at, too.
        let mut alone = look.is_power_of_two();
        while look != 0 {
            let rest = look & !passed;
            if rest == 0 {
                passed = 0;
                continue;
            }
            let o = rest.trailing_zeros() as usize;
            passed = ((2u32 << o) - 1) as u16;
            look &= !(1 << o);
            let out = &self.routers.outputs[n * self.lay.outs + o];
            if out.requests == [0; LANES] {
                continue;
            }
            if out.busy > self.now {
                let at = out.busy;
                self.wake_at(node, o, at);
                continue;
            }
            let mut short = NEVER;
            match self.choose(n, o, alone, &mut short) {
                Some((lane, number)) => look |= self.give_output(node, o, lane, number),
                None if short != NEVER => self.wake_at(node, o, short),
                None => {}
            }
            alone = false;
        }
    }

    /// Grants a request. Returns the outputs that are worth looking at again.
    #[inline(always)]
    fn give_output(&mut self, node: u32, o: usize, lane: usize, number: u32) -> u16 {
        let queue = self.lay.queue(lane, number);
        // A packet that leaves the adaptive channel is asking in the lane of its class.
        let vc = if lane == 0 || o >= self.lay.dirs { self.lay.vc(queue) } else { lane - 1 };
        self.grant(node, queue, o, vc);
        let i = node as usize * self.lay.outs + o;
        self.routers.granted[i].turns[lane] = number as u8 + 1;
        let out = &self.routers.outputs[i];
        if out.requests == [0; LANES] {
            return 0;
        }
        let (at, adaptive) = (out.busy, out.requests[LANE_ADAPTIVE]);
        self.wake_at(node, o, at);
        let mut again = 0;
        // Adaptive packets that preferred this output may now prefer another.
        if o < self.lay.dirs {
            for number in bits(adaptive) {
                again |= self.ask_everywhere(node, self.lay.queue(LANE_ADAPTIVE, number));
            }
        }
        again & !(1 << o)
    }

    /// Free slots of a channel behind output `o`.
    #[inline(always)]
    fn free(&mut self, n: usize, o: usize, vc: usize) -> usize {
        self.slots.free(self.routers.credits(n as u32, o, vc), n * self.lay.outs + o, vc, self.now)
    }

    /// Requests for output `o` in a lane that fit downstream. If some do not, `short` is not after
    /// the next time at which they may.
    #[inline(always)]
    fn eligible(&mut self, n: usize, o: usize, lane: usize, asking: u32, alone: bool, short: &mut Tick) -> u32 {
        if asking == 0 || o >= self.lay.dirs {
            return asking;
        }
        match lane {
            0 => return self.eligible_first(n, o, asking, short),
            LANE_ADAPTIVE if self.free(n, o, ADAPTIVE) >= self.unit => {
                if alone {
                    return asking;
                }
                let mut mask = 0;
                for number in bits(asking) {
                    let queue = self.lay.queue(lane, number);
                    let wants = self.routers.inputs[n * self.lay.queues + queue].wants;
                    if self.preferred(n, wants) == Some(o) {
                        mask |= 1 << number;
                    }
                }
                return mask;
            }
            LANE_ADAPTIVE => {}
            _ => {
                let free = self.free(n, o, lane - 1);
                let is_ring = self.routers.rings & 1 << o != 0;
                if free >= 2 * self.unit || (!is_ring && free >= self.unit) {
                    return asking;
                }
                let goes_on = asking & 1 << o; // in the same direction
                if free >= self.unit && goes_on != 0 {
                    return goes_on;
                }
            }
        }
        *short = (*short).min(self.routers.outputs[n * self.lay.outs + o].credits.next(lane - 1));
        0
    }

    /// The collective lane: each request has its own channel.
    fn eligible_first(&mut self, n: usize, o: usize, asking: u32, short: &mut Tick) -> u32 {
        let mut mask = 0;
        let is_ring = self.routers.rings & 1 << o != 0;
        for number in bits(asking) {
            let queue = self.lay.queue(0, number);
            let vc = self.lay.vc(queue);
            let goes_on = self.lay.dir(queue) == Some(o) && vc >= UP;
            let need = if goes_on || !is_ring || vc == ADAPTIVE { 1 } else { 2 };
            if self.free(n, o, vc) >= need * self.unit {
                mask |= 1 << number;
            } else {
                *short = (*short).min(self.routers.credits(n as u32, o, vc).next(vc));
            }
        }
        mask
    }

    /// Among idle outputs with room on the adaptive channel the one with most room, the lowest if equal.
    #[inline(always)]
    pub(crate) fn preferred(&mut self, n: usize, wants: u16) -> Option<usize> {
        let (now, first) = (self.now, n * self.lay.outs);
        let outputs = &mut self.routers.outputs[first..][..self.lay.outs];
        let (mut most, mut best) = (self.unit - 1, None);
        for o in bits(wants).map(|o| o as usize) {
            let out = &mut outputs[o];
            if out.busy > now {
                continue;
            }
            let free = self.slots.free(&mut out.credits, first + o, ADAPTIVE, now);
            if free > most {
                (most, best) = (free, Some(o));
            }
        }
        best
    }

    /// Lane and number of the next grant of `o`; if none, when slots that are missing may be there.
    #[inline(always)]
    fn choose(&mut self, n: usize, o: usize, alone: bool, short: &mut Tick) -> Option<(usize, u32)> {
        let asking = self.routers.outputs[n * self.lay.outs + o].requests;
        let lane = match asking {
            [0, _, 0, 0] => 1,
            [0, 0, _, 0] => 2,
            [0, 0, 0, _] => 3,
            _ => return self.choose_among(n, o, alone, short),
        };
        let mask = self.eligible(n, o, lane, asking[lane], alone, short);
        match mask {
            0 => None,
            _ if mask.is_power_of_two() => Some((lane, mask.trailing_zeros())),
            _ => self.choose_among(n, o, alone, short),
        }
    }

    /// As `choose`, with several requests.
    #[inline(never)]
    fn choose_among(&mut self, n: usize, o: usize, alone: bool, short: &mut Tick) -> Option<(usize, u32)> {
        let asking = self.routers.outputs[n * self.lay.outs + o].requests;
        let mut first = None;
        for (lane, asking) in asking.into_iter().enumerate() {
            let mask = self.eligible(n, o, lane, asking, alone, short);
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
        let turn = self.routers.granted[n * self.lay.outs + o].turns[lane] as u32;
        Some((lane, round_robin(mask, turn)))
    }

    /// Those among the requests `mask` that have seen too many grants.
    #[inline(always)]
    fn aged(&self, n: usize, o: usize, lane: usize, mask: u32) -> u32 {
        let grants = self.routers.granted[n * self.lay.outs + o].packets as u32;
        let mut aged = 0;
        for number in bits(mask) {
            let queue = self.lay.queue(lane, number);
            let since = self.routers.inputs[n * self.lay.queues + queue].since;
            if grants.wrapping_sub(since) >= self.params.age_limit as u32 {
                aged |= 1 << number;
            }
        }
        aged
    }
}
