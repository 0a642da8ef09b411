//! k-ary n-tree: the fat tree whose routers all have the same number of ports.

use super::contract::{Class, End, Hop, RouteState, Topology};
use angara_fabric::rng;

/// k-ary n-tree. Rank 0 is the top; router r of rank l has id l·k^(n-1)+r. Ports 0..k lead down,
/// k..2k up; endpoints hang on the lowest rank. A packet climbs by random up-ports to the nearest
/// common ancestor of source and destination and then has one way down.
#[derive(Clone, Debug)]
pub struct FatTree {
    arity: u32,
    levels: u32,
    per_rank: u32,
}

impl FatTree {
    /// A tree of validated sizes.
    pub fn new(arity: u16, levels: u8) -> FatTree {
        FatTree { arity: arity as u32, levels: levels as u32, per_rank: (arity as u32).pow(levels as u32 - 1) }
    }
}

impl Topology for FatTree {
    fn endpoints(&self) -> usize {
        (self.per_rank * self.arity) as usize
    }
    fn routers(&self) -> usize {
        (self.per_rank * self.levels) as usize
    }
    fn ports(&self) -> usize {
        if self.levels == 1 { self.arity as usize } else { 2 * self.arity as usize }
    }
    fn output(&self, router: u32, port: u8) -> End {
        let (k, port) = (self.arity, port as u32);
        let (level, pos) = (router / self.per_rank, router % self.per_rank);
        // Routers of rank l form groups of k^(n-1-l) that serve the same k^(n-l) endpoints. A link
        // joins member (b, m) of branch b in the lower rank with member (m, b) above: `child` is
        // its place among the branches, `index` the up-port.
        if port < k {
            if level == self.levels - 1 {
                return End::Endpoint(pos * k + port);
            }
            let group = k.pow(self.levels - 1 - level);
            let branch = group / k;
            let (base, within) = (pos / group * group, pos % group);
            let lower = base + port * branch + within % branch;
            return End::Router { router: (level + 1) * self.per_rank + lower, port: (k + within / branch) as u8 };
        }
        if level == 0 || port >= 2 * k {
            return End::Open;
        }
        let group = k.pow(self.levels - level);
        let branch = group / k;
        let (base, within) = (pos / group * group, pos % group);
        let upper = base + (port - k) * branch + within % branch;
        End::Router { router: (level - 1) * self.per_rank + upper, port: (within / branch) as u8 }
    }
    fn attach(&self, endpoint: u32) -> (u32, u8) {
        ((self.levels - 1) * self.per_rank + endpoint / self.arity, (endpoint % self.arity) as u8)
    }
    fn start(&self, _src: u32, dst: u32, random: u64) -> RouteState {
        RouteState { lo: dst as u64, hi: random }
    }
    #[inline(always)]
    fn next(&self, router: u32, route: &mut RouteState) -> Hop {
        let (level, pos) = (router / self.per_rank, router % self.per_rank);
        let group = self.arity.pow(self.levels - 1 - level);
        let span = group * self.arity;
        let first = pos / group * span;
        let dst = route.lo as u32;
        let port = if (first..first + span).contains(&dst) {
            (dst - first) / group
        } else {
            self.arity + rng::below(route.advance(), self.arity as u64) as u32
        };
        Hop { port: port as u8, class: Class::Any }
    }
}
