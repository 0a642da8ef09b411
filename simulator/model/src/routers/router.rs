//! One router of either switching, laid out so that little memory is touched per packet and hop, and its two allocators.
//!
//! Everything about one router lies together ([`Router`]): places for `P` ports and `N` channels, both powers of
//! two. Channels are numbered port · N/P + channel, and sets of them are masks of `W` words
//! ([`Mask`]); most routers have few enough channels for one word.
//!
//! Output channels are handed out first, then the switch; both are separable, input side first, with
//! round-robin arbiters whose pointers move only with a grant. `docs/explain/model.md`, section 3.

use super::mask::Mask;
use super::place::Port;
use super::view::Output;
use angara_fabric::bits::{bits, round_robin};

/// An input virtual channel, as the allocators see it.
pub(crate) trait Input {
    /// The channels on the other side.
    type Output: Output;
    /// The output channel the first packet has, or channel 0 of the output port it wants.
    fn out(&self) -> u32;
    /// Channels the first packet may use at the output port.
    fn allowed(&self) -> u32;
    /// Round robin over output channels.
    fn turn(&self) -> u32;
    /// The first packet has output channel `o` now, which is `out`. Returns whether it has the credits for the switch, too.
    fn take(&mut self, o: u16, out: &mut Self::Output) -> bool;
}

/// Working space of the allocators, valid within one router and cycle.
pub(crate) struct Scratch<const N: usize, const P: usize, const W: usize> {
    /// Input channels that ask for an output channel, per output channel. Of a wide router they are too large for a stack.
    pub(crate) asking: Box<[Mask<W>; N]>,
    /// Input ports that ask for an output port, per output port.
    pub(crate) requests: [u64; P],
    /// The channel an input port has picked, per input port.
    pub(crate) chosen: [u8; P],
}

impl<const N: usize, const P: usize, const W: usize> Default for Scratch<N, P, W> {
    fn default() -> Self {
        let asking = vec![Mask::NONE; N].try_into().expect("as many as that");
        Scratch { asking, requests: [0; P], chosen: [0; P] }
    }
}

/// A router: places for `N` channels of `P` ports.
#[repr(C)]
pub(crate) struct Router<I: Input, O, const N: usize, const P: usize, const W: usize> {
    /// Input channels that want an output channel.
    pub(crate) allocating: Mask<W>,
    /// Input channels that want the switch and have what it takes; which that is depends on the switching.
    pub(crate) ready: Mask<W>,
    /// Output channels without owner.
    pub(crate) free: Mask<W>,
    /// Ports a packet has for itself.
    pub(crate) in_busy: u64,
    pub(crate) out_busy: u64,
    /// What one of the switchings needs beyond that.
    pub(crate) own: O,
    pub(crate) ports: [Port; P],
    pub(crate) outputs: [I::Output; N],
    pub(crate) inputs: [I; N],
}

impl<I: Input, O, const N: usize, const P: usize, const W: usize> Router<I, O, N, P, W> {
    /// Places for channels per port, and the log2 of it.
    pub(crate) const WIDTH: u32 = (N / P) as u32;
    pub(crate) const SHIFT: u32 = Self::WIDTH.trailing_zeros();

    #[inline(always)]
    pub(crate) fn port(&mut self, p: u32) -> &mut Port {
        &mut self.ports[p as usize % P]
    }
    #[inline(always)]
    pub(crate) fn input(&mut self, i: u32) -> &mut I {
        &mut self.inputs[i as usize % N]
    }
    #[inline(always)]
    pub(crate) fn output(&mut self, o: u32) -> &mut I::Output {
        &mut self.outputs[o as usize % N]
    }

    /// Virtual-channel allocation: each input channel asks for one free output channel, each output
    /// channel takes one of those that ask, of which `got` is told. Returns those that have the credits, too, and
    /// whether someone lost.
    #[inline(always)]
    pub(crate) fn allocate_channels(
        &mut self,
        scratch: &mut Scratch<N, P, W>,
        mut got: impl FnMut(&Self, u32),
    ) -> (Mask<W>, bool) {
        let mut wanted = Mask::<W>::NONE;
        let mut lost = false;
        let mut all = self.allocating;
        while let Some(i) = all.pop() {
            let input = self.input(i);
            let (first, allowed, turn) = (input.out(), input.allowed(), input.turn());
            let open = self.free.field(first, Self::WIDTH) & allowed;
            if open == 0 {
                continue;
            }
            let turn = turn.wrapping_sub(first);
            let o = first + round_robin(open, if turn < Self::WIDTH { turn } else { 0 });
            let asking = &mut scratch.asking[o as usize % N];
            if wanted.has(o) {
                lost = true;
            } else {
                wanted.set(o);
                *asking = Mask::NONE;
            }
            asking.set(i);
        }
        let mut ready = Mask::NONE;
        while let Some(o) = wanted.pop() {
            let out = self.output(o);
            let i = scratch.asking[o as usize % N].round_robin(u32::from(out.turn()));
            out.give(i as u16);
            if self.inputs[i as usize % N].take(o as u16, &mut self.outputs[o as usize % N]) {
                ready.set(i);
            }
            self.free.clear(o);
            self.allocating.clear(i);
            got(self, i);
        }
        (ready, lost)
    }

    /// Chooses one of the `channels` of the port that begins at `first`, several of which are ready: returns the one
    /// that competes for the switch, and the output port it wants.
    fn pick(&mut self, first: u32, mut channels: u32) -> Option<(u32, u32)> {
        let mut asked = 0u64;
        for v in bits(channels) {
            let o = self.input(first + v).out() >> Self::SHIFT;
            if self.out_busy >> o & 1 != 0 {
                channels &= !(1 << v);
            } else {
                asked |= 1 << o;
            }
        }
        if asked == 0 {
            return None;
        }
        // The output port in its turn, then among the channels that ask for it the one in its turn.
        let port = *self.port(first >> Self::SHIFT);
        let o = round_robin(asked, port.out_turn as u32);
        for v in bits(channels) {
            if self.input(first + v).out() >> Self::SHIFT != o {
                channels &= !(1 << v);
            }
        }
        Some((round_robin(channels, port.vc_turn as u32), o))
    }

    /// The input side of switch allocation: each input port nominates one channel. Returns the output ports
    /// that are asked for, and whether something in reach of the next cycle remains.
    #[inline(always)]
    pub(crate) fn nominate(&mut self, scratch: &mut Scratch<N, P, W>) -> (u64, bool) {
        let mut outs = 0u64;
        let mut lost = false;
        let mut ready = self.ready;
        while let Some((first, channels)) = ready.pop_field(Self::WIDTH) {
            let p = first >> Self::SHIFT;
            if self.in_busy >> p & 1 != 0 {
                continue;
            }
            let mut v = channels.trailing_zeros();
            let mut o = self.input(first + v).out() >> Self::SHIFT;
            if channels & (channels - 1) != 0 {
                lost = true;
                match self.pick(first, channels) {
                    Some(picked) => (v, o) = picked,
                    None => continue,
                }
            } else if self.out_busy >> o & 1 != 0 {
                continue;
            }
            scratch.chosen[p as usize % P] = v as u8;
            let requests = &mut scratch.requests[o as usize % P];
            if outs >> o & 1 == 0 {
                *requests = 0;
                outs |= 1 << o;
            } else {
                lost = true;
            }
            *requests |= 1 << p;
        }
        (outs, lost)
    }
    /// Output port `o` takes one of the input ports that ask for it: returns the input channel in its turn.
    #[inline(always)]
    pub(crate) fn grant(&mut self, scratch: &Scratch<N, P, W>, o: u32) -> u32 {
        let far = self.port(o);
        let p = round_robin(scratch.requests[o as usize % P], far.in_turn as u32);
        far.in_turn = (p + 1) as u8;
        let v = scratch.chosen[p as usize % P];
        let near = self.port(p);
        near.vc_turn = v + 1;
        near.out_turn = (o + 1) as u8;
        p << Self::SHIFT | v as u32
    }
}
