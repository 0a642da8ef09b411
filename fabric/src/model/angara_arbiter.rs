//! Who gets an output of the `angara` router.
//!
//! An idle output serves, among the packets that ask for it and fit downstream, first those that saw
//! too many others go (age), then by virtual channel (response, request, adaptive), then round robin
//! over input channels. A packet of the adaptive channel asks for all its profitable outputs but is
//! counted only at the one it prefers at that moment.

use super::angara::{ADAPTIVE, ESCAPE_BIT, INJECT_BIT, Nodes, State, VCS};

impl Nodes {
    /// Grants outputs of `node` until none of those to look at can be granted.
    pub(super) fn arbitrate(&mut self, node: u32) {
        let n = node as usize;
        let mut below = 0u32;
        loop {
            // One pass is in ascending order; what a grant makes worth looking at again behind the
            // current output waits for the next pass.
            let rest = self.look[n] & !below;
            if rest == 0 {
                if self.look[n] == 0 {
                    return;
                }
                below = 0;
                continue;
            }
            let o = rest.trailing_zeros() as usize;
            below = if o == 31 { u32::MAX } else { (2 << o) - 1 };
            self.look[n] &= !(1 << o);
            if self.busy[n] >> o & 1 != 0 {
                continue;
            }
            if let Some((local, vc, turn)) = self.choose(n, o) {
                self.turns[(n * self.outs + o) * VCS + vc] = turn;
                self.withdraw(n, local);
                self.grant(node, local, o, vc);
                // Adaptive packets that preferred this output may now prefer another.
                for other in 0..self.links {
                    if self.requests[(n * self.outs + other) * VCS + ADAPTIVE] != 0 {
                        self.look[n] |= 1 << other;
                    }
                }
            }
        }
    }

    /// Requests for output `o` on channel `vc` that fit downstream.
    #[inline(always)]
    fn eligible(&self, n: usize, o: usize, vc: usize) -> u64 {
        let asking = self.requests[(n * self.outs + o) * VCS + vc];
        if asking == 0 || o >= self.links {
            return asking;
        }
        let free = self.free[(n * self.links + o) * VCS + vc];
        if free < self.need_continue {
            return 0;
        }
        if vc == ADAPTIVE {
            let mut mask = 0;
            let mut rest = asking;
            while rest != 0 {
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                if self.preferred(n, self.inputs[n * self.channels + self.local(bit, ADAPTIVE)].wants) == o {
                    mask |= 1 << bit;
                }
            }
            return mask;
        }
        if free >= self.need_enter || !self.grid.is_ring(o / 2) { asking } else { asking & 1 << (o ^ 1) }
    }

    /// Among idle outputs with room on the adaptive channel the one with most room, the lowest if equal.
    fn preferred(&self, n: usize, wants: u32) -> usize {
        let mut best = (0, usize::MAX);
        let mut rest = wants & !self.busy[n];
        while rest != 0 {
            let o = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            if o >= self.links {
                return o;
            }
            let free = self.free[(n * self.links + o) * VCS + ADAPTIVE];
            if free >= self.need_continue && free > best.0 {
                best = (free, o);
            }
        }
        best.1
    }

    /// The input channel behind a request bit for channel `vc`.
    #[inline(always)]
    fn local(&self, bit: u32, vc: usize) -> usize {
        if bit >= INJECT_BIT {
            self.injectors() + (bit - INJECT_BIT) as usize
        } else if bit >= ESCAPE_BIT {
            (ADAPTIVE << self.port_shift) + (bit - ESCAPE_BIT) as usize
        } else {
            (vc << self.port_shift) + bit as usize
        }
    }

    /// The input channel, virtual channel and new round-robin pointer of the next grant of `o`.
    fn choose(&self, n: usize, o: usize) -> Option<(usize, usize, u8)> {
        let mut first = None;
        for vc in 0..VCS {
            let mask = self.eligible(n, o, vc);
            if mask == 0 {
                continue;
            }
            if first.is_none() {
                first = Some((vc, mask));
            }
            let mut aged = 0;
            let mut rest = mask;
            while rest != 0 && (vc != ADAPTIVE || o >= self.links) {
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                let input = &self.inputs[n * self.channels + self.local(bit, vc)];
                if self.grants[n * self.outs + o].wrapping_sub(input.since) >= self.age_limit() {
                    aged |= 1 << bit;
                }
            }
            if aged != 0 {
                first = Some((vc, aged));
                break;
            }
        }
        let (vc, mask) = first?;
        let turn = self.turns[(n * self.outs + o) * VCS + vc] as u32;
        let above = if turn >= 64 { 0 } else { mask & (u64::MAX << turn) };
        let bit = if above != 0 { above.trailing_zeros() } else { mask.trailing_zeros() };
        Some((self.local(bit, vc), vc, bit as u8 + 1))
    }

    /// Takes back every request of input channel `local`.
    fn withdraw(&mut self, n: usize, local: usize) {
        let input = self.inputs[n * self.channels + local];
        let from_adaptive = local < self.injectors() && local >> self.port_shift == ADAPTIVE;
        let straight = input.straight as usize;
        let mut rest = input.wants;
        while rest != 0 {
            let o = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            for vc in [input.vc as usize, ADAPTIVE] {
                if vc == ADAPTIVE || !from_adaptive {
                    let bit = self.bit(local, vc);
                    self.requests[(n * self.outs + o) * VCS + vc] &= !(1 << bit);
                }
            }
        }
        if input.state == State::Escaping {
            let bit = self.bit(local, input.vc as usize);
            self.requests[(n * self.outs + straight) * VCS + input.vc as usize] &= !(1 << bit);
        }
    }
}
