//! k-ary n-tree: the fat tree whose routers all have the same number of ports.

use super::contract::{Cell, Class, End, Hop, RouteState, Routing, Topology, Written, check_nodes};
use super::layout::Layout;
use angara_fabric::rng;
use std::fmt;

/// k-ary n-tree. Rank 0 is the top; router r of rank l has id l·k^(n-1)+r. Ports 0..k lead down,
/// k..2k up; endpoints hang on the lowest rank. A packet climbs by random up-ports to the nearest
/// common ancestor of source and destination and then has one way down.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FatTree {
    arity: u32,
    levels: u32,
    per_rank: u32,
}

impl FatTree {
    /// `arity`^`levels` endpoints, `levels` ranks of `arity`^(`levels`-1) routers.
    ///
    /// # Errors
    /// Which sizes are possible.
    pub fn new(arity: u16, levels: u8) -> Result<FatTree, String> {
        if !(2..=32).contains(&arity) || !(1..=16).contains(&levels) {
            return Err("a fat tree needs 2 to 32 down-links per router and 1 to 16 levels".into());
        }
        let (arity, levels) = (u32::from(arity), u32::from(levels));
        check_nodes(u64::from(arity).saturating_pow(levels))?;
        Ok(FatTree { arity, levels, per_rank: arity.pow(levels - 1) })
    }
    fn place(&self, router: u32) -> (u32, u32) {
        (router / self.per_rank, router % self.per_rank)
    }
}

impl Written for FatTree {
    const FORMS: &'static [(&'static str, &'static str)] = &[("fat-tree", "ARITY,LEVELS")];
    fn read(_kind: &str, rest: &str) -> Result<FatTree, String> {
        let (arity, levels) = rest.split_once(',').ok_or_else(String::new)?;
        FatTree::new(arity.parse().map_err(|_| String::new())?, levels.parse().map_err(|_| String::new())?)
    }
}

impl fmt::Display for FatTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fat-tree:{},{}", self.arity, self.levels)
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
        let (level, pos) = self.place(router);
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
        let (level, pos) = self.place(router);
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
    fn routing(&self) -> Routing {
        Routing::Nca
    }
    fn layout(&self) -> Layout {
        Layout::tree(self.arity, self.levels)
    }
    fn router_name(&self, router: u32) -> String {
        let (rank, place) = self.place(router);
        format!("rank {rank} router {place}")
    }
    fn port_name(&self, port: u8) -> String {
        match u32::from(port).checked_sub(self.arity) {
            None => format!("down {port}"),
            Some(up) => format!("up {up}"),
        }
    }
    /// A panel for the up- or down-links of a rank: a column per router, a row per port.
    fn cell(&self, router: u32, port: u8) -> Cell {
        let (rank, place) = self.place(router);
        let (up, row) = (u32::from(port) / self.arity, u32::from(port) % self.arity);
        let title = format!("rank {rank}, {}", if up > 0 { "up" } else { "down" });
        let [columns, rows, column, row] = [self.per_rank, self.arity, place, row].map(|n| n as usize);
        Cell { panel: (rank, up), title, columns, rows, column, row }
    }
}
