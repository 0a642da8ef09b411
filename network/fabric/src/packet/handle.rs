//! Handles of packets under way.

/// Names a packet under way: its place in the table that holds it. It is given to another packet when this one has gone,
/// so no result may depend on its value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(transparent)]
pub struct PacketHandle(u32);

impl PacketHandle {
    /// No packet. An `Option` would take twice the room in tables that every hop reads.
    pub const NONE: PacketHandle = PacketHandle(u32::MAX);

    /// In an event: the next that a node's memory brings. More than there can be places, and what an event has room for.
    pub(crate) const BY_MEMORY: PacketHandle = PacketHandle((1 << 28) - 1);

    /// Names the packet at a place.
    #[inline(always)]
    pub const fn new(place: u32) -> PacketHandle {
        PacketHandle(place)
    }
    /// The place, as events and tokens carry it.
    #[inline(always)]
    pub const fn number(self) -> u32 {
        self.0
    }
    /// The place.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
    /// True if it is [`PacketHandle::NONE`].
    #[inline(always)]
    pub const fn is_none(self) -> bool {
        self.0 == PacketHandle::NONE.0
    }
    /// True if it names a packet.
    #[inline(always)]
    pub const fn is_some(self) -> bool {
        !self.is_none()
    }
}

impl Default for PacketHandle {
    fn default() -> PacketHandle {
        PacketHandle::NONE
    }
}
