//! Criteria by which algorithms are chosen.

use super::{Direct, Engine, Engines, Ring};
use angara_abi::job::Reach;

/// How a PE reaches the PEs of its job, for whoever chooses algorithms by it. All PEs of a job have the same costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    /// Name in tables of measured costs, one of [`Profile::COSTS`].
    pub costs: &'static str,
    /// Some PEs are reached directly; this one may be the only one.
    pub near: bool,
    /// Some PEs are reached through the network.
    pub far: bool,
    /// All PEs but this one are, and there is one.
    pub others_far: bool,
}

impl Profile {
    /// All costs there are.
    pub const COSTS: [&str; 3] = [Direct::ALONE, Direct::CROWDED, Ring::COSTS];
}

impl Engines {
    /// How the PEs of this job are reached now.
    pub(crate) fn profile(&self) -> Profile {
        let memory = &self.adapter.memory;
        if self.adapter.is_inside() {
            // All the same, and not asked of each: many PEs ask.
            return Profile { costs: self.far().costs(), near: false, far: true, others_far: memory.geometry.pes > 1 };
        }
        let is_far = |pe| memory.peers.reach(pe) == Reach::Ring;
        let pes = || 0..memory.geometry.pes;
        let far = pes().any(is_far);
        Profile {
            costs: if far { self.far().costs() } else { self.direct.costs() },
            near: pes().any(|pe| memory.peers.reach(pe) == Reach::Direct),
            far,
            others_far: memory.geometry.pes > 1 && pes().all(|pe| pe == memory.me || is_far(pe)),
        }
    }
}
