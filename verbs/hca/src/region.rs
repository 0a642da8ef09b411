//! Registered memory.

/// Rights to a region or through a queue pair, as `enum ibv_access_flags` numbers them.
pub mod access {
    /// This adapter may write.
    pub const LOCAL_WRITE: u32 = 1;
    /// Peers may write.
    pub const REMOTE_WRITE: u32 = 1 << 1;
    /// Peers may read.
    pub const REMOTE_READ: u32 = 1 << 2;
    /// Peers may change words atomically.
    pub const REMOTE_ATOMIC: u32 = 1 << 3;
    /// Memory windows may be bound to it: there are none here.
    pub const MW_BIND: u32 = 1 << 4;
    /// Addresses begin at 0.
    pub const ZERO_BASED: u32 = 1 << 5;
    /// Pages come when they are used.
    pub const ON_DEMAND: u32 = 1 << 6;
    /// It is made of huge pages: a hint.
    pub const HUGETLB: u32 = 1 << 7;
    /// Flags that a device may ignore; relaxed ordering is the only one.
    pub const OPTIONAL: u32 = 0x3ff0_0000;
    /// Peers may ask that what they wrote is visible, or kept: nobody can here. Queue pairs may have these rights.
    pub const FLUSH: u32 = 3 << 8;
    /// All that are understood.
    pub const KNOWN: u32 = LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ | REMOTE_ATOMIC | HUGETLB | OPTIONAL;
    /// Rights of peers.
    pub const REMOTE: u32 = REMOTE_WRITE | REMOTE_READ | REMOTE_ATOMIC;
}

/// A registered range of the program's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Names it, here and at peers: `lkey` and `rkey`.
    pub key: u32,
    /// Its protection domain.
    pub pd: u32,
    /// What may be done with it: [`access`].
    pub access: u32,
    /// Where it is in this process.
    pub at: u64,
    /// Bytes.
    pub len: u64,
    /// The address by which requests name its first byte.
    pub iova: u64,
    /// The address at which adapters reach it: [`crate::Memory::register`].
    pub reach: u64,
}

impl Region {
    /// Where `len` bytes at `at` of the region are reached in this process, if they are inside and `need` is allowed.
    pub fn find(&self, pd: u32, at: u64, len: u64, need: u32) -> Option<u64> {
        let from = at.checked_sub(self.iova)?;
        let inside = from <= self.len && len <= self.len - from;
        (inside && self.pd == pd && self.access & need == need).then(|| self.reach + from)
    }
}

/// What [`crate::Hca::reregister`] changes.
#[derive(Clone, Copy, Default, Debug)]
pub struct RegionChange {
    /// Another range: address and bytes.
    pub range: Option<(u64, u64)>,
    /// Another protection domain.
    pub pd: Option<crate::Pd>,
    /// Other rights.
    pub access: Option<u32>,
}
