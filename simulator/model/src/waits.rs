//! Cycles for which packets wait at the outputs of routers, and how full the buffers behind them are.

use crate::routers::mask::Mask;

/// Cycles for which packets wanted an output and did not get it, each packet counted in each cycle, by the reason.
/// Packets behind another one in the same buffer want nothing yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waits {
    /// Every virtual channel of the output that the packet may use belonged to another packet, or another one got the
    /// channel it asked for.
    pub channel: u64,
    /// The buffer behind the output had no room for it.
    pub credit: u64,
    /// The input port or the output port was busy, or another packet got the switch.
    pub switch: u64,
}

impl Waits {
    /// Those of two parts of a network, or of two outputs, together.
    pub fn and(self, other: Waits) -> Waits {
        Waits {
            channel: self.channel + other.channel,
            credit: self.credit + other.credit,
            switch: self.switch + other.switch,
        }
    }
    /// Those counted after `earlier`.
    pub fn since(self, earlier: Waits) -> Waits {
        Waits {
            channel: self.channel - earlier.channel,
            credit: self.credit - earlier.credit,
            switch: self.switch - earlier.switch,
        }
    }
}

/// Counts the waits of a range of routers. Empty unless somebody asked, and then it costs a few instructions per cycle.
pub(crate) struct Waiting<const W: usize> {
    /// By router and port.
    pub(crate) waits: Vec<Waits>,
    /// Input channels that wanted an output channel, and the switch, before this cycle's decisions, by router.
    before: Vec<[Mask<W>; 2]>,
    /// Somebody may wait in the next cycle (wormhole).
    pub(crate) anyone: bool,
}

impl<const W: usize> Default for Waiting<W> {
    fn default() -> Self {
        Waiting { waits: Vec::new(), before: Vec::new(), anyone: false }
    }
}

impl<const W: usize> Waiting<W> {
    pub(crate) fn begin(&mut self, routers: usize, ports: usize) {
        self.waits = vec![Waits::default(); routers * ports];
        self.before = vec![[Mask::NONE; 2]; routers];
    }
    #[inline(always)]
    pub(crate) fn on(&self) -> bool {
        !self.before.is_empty()
    }
    /// Router `r` is about to decide who of these gets what.
    pub(crate) fn ask(&mut self, r: usize, allocating: Mask<W>, ready: Mask<W>) {
        self.before[r] = [allocating, ready];
    }
    /// Of those who asked at router `r`, the ones that still do have waited: input channels for an output channel, and for
    /// the switch.
    pub(crate) fn left(&self, r: usize, allocating: Mask<W>, ready: Mask<W>) -> [Mask<W>; 2] {
        let [before_allocating, before_ready] = self.before[r];
        [before_allocating.common(allocating), before_ready.common(ready)]
    }
    pub(crate) fn memory_bytes(&self) -> usize {
        self.waits.capacity() * size_of::<Waits>() + self.before.capacity() * size_of::<[Mask<W>; 2]>()
    }
}
