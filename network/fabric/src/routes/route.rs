//! A route between two nodes.

use angara_abi::packet::Detour;

/// How packets of one pair travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// Directions of the ordered part, one bit each in routing order.
    pub dirbits: u8,
    /// First hop outside direction order.
    pub first_step: Detour,
    /// Last hop outside direction order.
    pub last_step: Detour,
    /// Links crossed.
    pub hops: u16,
}

impl Route {
    /// From a node to itself.
    pub(super) const LOCAL: Route = Route { dirbits: 0, first_step: None, last_step: None, hops: 0 };
}
