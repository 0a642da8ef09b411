//! What a router of either switching shows a topology of its outputs.

use super::news::News;
use crate::topology::Outputs;

/// Nobody owns an output channel.
pub(crate) const NO_OWNER: u16 = u16::MAX;

/// An output virtual channel.
pub(crate) trait Output {
    /// Flits for which the buffer behind it has room.
    fn credits(&self) -> u16;
    /// Input channel that owns it, or [`NO_OWNER`].
    fn owner(&self) -> u16;
    /// Input channel `i` owns it, which is the last one that has had its turn.
    fn give(&mut self, i: u16);
    /// The input channel whose turn it is.
    fn turn(&self) -> u16;
}

/// Flits that may still be in the buffers behind these output channels, each of `buffer` flits.
#[inline(always)]
pub(crate) fn used(channels: &[impl Output], buffer: u16) -> u32 {
    channels.iter().map(|out| u32::from(buffer - out.credits())).sum()
}

/// Outputs of a router as its topology sees them.
pub(crate) struct View<'a, O> {
    outputs: &'a [O],
    /// log2 of the places for channels of a port.
    port: u32,
    vcs: u32,
    buffer: u16,
    news: &'a News,
    now: u64,
    here: u32,
}

impl<'a, O: Output> View<'a, O> {
    /// All outputs of a router, which has N virtual channels of N flits at every port, and what
    /// it, number `here`, has been told by this cycle.
    #[inline(always)]
    pub(crate) fn new(
        outputs: &'a [O],
        port: u32,
        (vcs, buffer): (u32, u16),
        (news, now, here): (&'a News, u64, u32),
    ) -> View<'a, O> {
        View { outputs, port, vcs, buffer, news, now, here }
    }
    fn channels(&self, port: u8) -> &[O] {
        &self.outputs[usize::from(port) << self.port..][..self.vcs as usize]
    }
}

impl<O: Output> Outputs for View<'_, O> {
    fn used(&self, port: u8) -> u32 {
        used(self.channels(port), self.buffer)
    }
    fn owned(&self, port: u8) -> u32 {
        self.channels(port).iter().filter(|out| out.owner() != NO_OWNER).count() as u32
    }
    fn bound(&self, router: u32, port: u8) -> u32 {
        self.news.bound((router, port), self.here, self.now)
    }
}
