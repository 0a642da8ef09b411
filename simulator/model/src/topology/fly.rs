//! k-ary n-fly: a butterfly, through which packets go from the first rank to the last.

use super::contract::{Cell, Class, End, Hop, RouteState, Topology, Written, check_nodes};
use super::layout::Layout;
use std::fmt;

/// k-ary n-fly. Router r of rank l has id l·k^(n-1)+r; its inputs are ports 0..k, its outputs ports k..2k. Endpoint e
/// sends to router e / k of the first rank, and receives from router e / k of the last one. Output j leads to the
/// router of the next rank whose number has j as the digit that this rank decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fly {
    arity: u32,
    ranks: u32,
    per_rank: u32,
}

impl Fly {
    /// `arity`^`ranks` endpoints, `ranks` ranks of `arity`^(`ranks`-1) routers.
    ///
    /// # Errors
    /// Which sizes are possible.
    pub fn new(arity: u16, ranks: u8) -> Result<Fly, String> {
        if !(2..=32).contains(&arity) || !(1..=16).contains(&ranks) {
            return Err("a butterfly needs 2 to 32 inputs per router and 1 to 16 ranks".into());
        }
        let (arity, ranks) = (u32::from(arity), u32::from(ranks));
        check_nodes(u64::from(arity).saturating_pow(ranks))?;
        Ok(Fly { arity, ranks, per_rank: arity.pow(ranks - 1) })
    }
    fn place(&self, router: u32) -> (u32, u32) {
        (router / self.per_rank, router % self.per_rank)
    }
    /// The router of rank `rank` whose digit before that rank is `digit`, as router `place` of a neighbouring rank has
    /// the others; and that router's digit.
    fn turned(&self, rank: u32, place: u32, digit: u32) -> (u32, u32) {
        let weight = self.arity.pow(self.ranks - 1 - rank);
        let old = place / weight % self.arity;
        (place - old * weight + digit * weight, old)
    }
}

impl Written for Fly {
    const FORMS: &'static [(&'static str, &'static str)] = &[("fly", "ARITY,RANKS")];
    fn read(_kind: &str, rest: &str) -> Result<Fly, String> {
        let (arity, ranks) = rest.split_once(',').ok_or_else(String::new)?;
        Fly::new(arity.parse().map_err(|_| String::new())?, ranks.parse().map_err(|_| String::new())?)
    }
}

impl fmt::Display for Fly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fly:{},{}", self.arity, self.ranks)
    }
}

impl Topology for Fly {
    fn endpoints(&self) -> usize {
        (self.per_rank * self.arity) as usize
    }
    fn routers(&self) -> usize {
        (self.per_rank * self.ranks) as usize
    }
    fn ports(&self) -> usize {
        2 * self.arity as usize
    }
    fn output(&self, router: u32, port: u8) -> End {
        let (rank, place) = self.place(router);
        match u32::from(port).checked_sub(self.arity) {
            Some(j) if j < self.arity && rank + 1 == self.ranks => End::Endpoint(place * self.arity + j),
            Some(j) if j < self.arity => {
                let (to, input) = self.turned(rank + 1, place, j);
                End::Router { router: (rank + 1) * self.per_rank + to, port: input as u8 }
            }
            _ => End::Open,
        }
    }
    fn input(&self, router: u32, port: u8) -> End {
        let ((rank, place), port) = (self.place(router), u32::from(port));
        if port >= self.arity {
            return End::Open;
        }
        if rank == 0 {
            return End::Endpoint(place * self.arity + port);
        }
        let (from, output) = self.turned(rank, place, port);
        End::Router { router: (rank - 1) * self.per_rank + from, port: (self.arity + output) as u8 }
    }
    fn attach(&self, endpoint: u32) -> (u32, u8) {
        (endpoint / self.arity, (endpoint % self.arity) as u8)
    }
    fn start(&self, _src: u32, dst: u32, _random: u64) -> RouteState {
        RouteState { lo: dst.into(), hi: 0 }
    }
    /// The destination's digits, the highest first.
    #[inline(always)]
    fn next(&self, router: u32, route: &mut RouteState) -> Hop {
        let digit = route.lo as u32 / self.arity.pow(self.ranks - 1 - self.place(router).0) % self.arity;
        Hop { port: (self.arity + digit) as u8, class: Class::Any }
    }
    fn layout(&self) -> Layout {
        Layout::tree(self.arity, self.ranks)
    }
    fn router_name(&self, router: u32) -> String {
        let (rank, place) = self.place(router);
        format!("rank {rank} router {place}")
    }
    fn port_name(&self, port: u8) -> String {
        match u32::from(port).checked_sub(self.arity) {
            None => format!("in {port}"),
            Some(out) => format!("out {out}"),
        }
    }
    /// A panel for the outputs of a rank: a column per router, a row per port.
    fn cell(&self, router: u32, port: u8) -> Cell {
        let (rank, place) = self.place(router);
        let [columns, rows, column, row] =
            [self.per_rank, self.arity, place, u32::from(port) % self.arity].map(|n| n as usize);
        Cell { panel: (rank, 0), title: format!("rank {rank}, out"), columns, rows, column, row }
    }
}
