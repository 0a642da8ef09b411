//! Placements made better by swaps: first for fewer hop-bytes, then for less on the busiest link.

use super::sites::shuffled;
use super::{Effort, Sites, Traffic, greedy};
use angara_fabric::rng::splitmix;
use angara_net::Link;
use angara_net::torus::NodeId;

/// No process, or no place.
pub(super) const NONE: u32 = u32::MAX;
/// Up to this many places, each swap of two is tried; of more, those next to processes that talk.
const ALL_PLACES: usize = 128;
/// Peers next to which a process is tried.
const PEERS_TRIED: usize = 16;
/// Rounds of shaking a placement and searching again.
const ROUNDS: u64 = 48;
/// Pairs whose traffic is led away from a busiest link at a time.
const LED_AWAY: usize = 8;

/// Where processes are. A place is one of `ppn` on a node; places are numbered node after node.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// Place of each process.
    pub(super) place: Vec<u32>,
    /// Process on each place.
    pub(super) at: Vec<u32>,
}

impl State {
    /// Number of the node of a process.
    pub(super) fn node(&self, process: u32, sites: &Sites) -> u32 {
        self.place[process as usize] / sites.ppn()
    }

    /// What is on two places changes sides.
    fn swap(&mut self, a: u32, b: u32) {
        self.at.swap(a as usize, b as usize);
        for place in [a, b] {
            let process = self.at[place as usize];
            if process != NONE {
                self.place[process as usize] = place;
            }
        }
    }
}

/// A search and what is left of its effort.
pub(super) struct Search<'a> {
    traffic: &'a Traffic,
    sites: &'a Sites,
    /// Of each node, those near it.
    near: Vec<Vec<u32>>,
    seed: u64,
    left: u64,
}

impl<'a> Search<'a> {
    pub(super) fn new(traffic: &'a Traffic, sites: &'a Sites, effort: Effort) -> Search<'a> {
        Search { traffic, sites, near: sites.near(), seed: effort.seed, left: effort.terms }
    }

    /// Node of each process in the best placement found.
    pub(super) fn run(mut self) -> Vec<NodeId> {
        let nodes = self.sites.nodes().len() as u64;
        let mut best = greedy::place(self.traffic, self.sites, 0);
        self.descend(&mut best, 0);
        let mut least = self.hop_bytes(&best);
        for round in 1..=ROUNDS {
            if self.left == 0 {
                break;
            }
            let mut other = match round % 4 {
                // Another first node, now and then; else the best one with some processes moved.
                0 => greedy::place(self.traffic, self.sites, (splitmix(self.seed, round) % nodes) as u32),
                _ => self.shaken(&best, round),
            };
            self.descend(&mut other, round);
            let hop_bytes = self.hop_bytes(&other);
            if hop_bytes <= least {
                (best, least) = (other, hop_bytes);
            }
        }
        self.relieve(&mut best);
        self.nodes(&best)
    }

    /// Node of each process.
    fn nodes(&self, state: &State) -> Vec<NodeId> {
        (0..self.traffic.processes()).map(|p| self.sites.nodes()[state.node(p, self.sites) as usize]).collect()
    }

    /// The greedy placement, and what relieving makes of it.
    #[cfg(test)]
    pub(super) fn before_and_after(&mut self) -> (Vec<NodeId>, Vec<NodeId>) {
        let mut state = greedy::place(self.traffic, self.sites, 0);
        self.descend(&mut state, 0);
        let before = self.nodes(&state);
        self.relieve(&mut state);
        (before, self.nodes(&state))
    }

    /// Hop-bytes there and back, twice those of a cost.
    fn hop_bytes(&self, state: &State) -> u64 {
        let hops = |from, to| self.sites.round_trip(state.node(from, self.sites), state.node(to, self.sites));
        self.traffic.pairs().iter().map(|&(from, to, bytes)| bytes * hops(from, to)).sum()
    }

    /// A few random swaps away.
    fn shaken(&self, state: &State, round: u64) -> State {
        let mut state = state.clone();
        let places = state.at.len() as u64;
        for i in 0..(self.traffic.processes() as u64 / 16).max(2) {
            let draw = |side| splitmix(self.seed ^ round.rotate_left(32), 2 * i + side);
            let process = draw(0) % u64::from(self.traffic.processes());
            let from = state.place[process as usize];
            state.swap(from, (draw(1) % places) as u32);
        }
        state
    }

    /// Swaps as long as hop-bytes get fewer and effort is left.
    fn descend(&mut self, state: &mut State, round: u64) {
        // Only whose surroundings have changed is looked at again.
        let mut open = shuffled(self.traffic.processes() as usize, self.seed, round);
        let mut waits = vec![true; open.len()];
        let mut next = Vec::new();
        while !open.is_empty() && self.left > 0 {
            for p in open.drain(..) {
                waits[p as usize] = false;
                let Some(place) = self.best_place(state, p) else { continue };
                let from = state.place[p as usize];
                state.swap(from, place);
                let other = state.at[from as usize];
                let moved = [p, other].into_iter().filter(|q| *q != NONE);
                let around = moved.flat_map(|q| self.traffic.peers(q).iter().map(|r| r.process).chain([q]));
                next.extend(around.filter(|q| !std::mem::replace(&mut waits[*q as usize], true)));
            }
            std::mem::swap(&mut open, &mut next);
        }
    }

    /// The place with which a swap saves most hop-bytes, if one does.
    fn best_place(&mut self, state: &State, p: u32) -> Option<u32> {
        let mut best = (0, NONE);
        for place in self.candidates(state, p) {
            if self.left == 0 {
                break;
            }
            best = best.min((self.gain(state, p, place), place));
        }
        (best.0 < 0).then_some(best.1)
    }

    /// Places on which a process may be better off.
    fn candidates(&self, state: &State, p: u32) -> Vec<u32> {
        let peers = self.traffic.peers(p);
        if peers.is_empty() {
            return Vec::new();
        }
        if state.at.len() <= ALL_PLACES {
            return (0..state.at.len() as u32).collect();
        }
        let ppn = self.sites.ppn();
        let nodes = peers.iter().take(PEERS_TRIED).map(|peer| state.node(peer.process, self.sites));
        let mut all: Vec<u32> = nodes.flat_map(|node| self.near[node as usize].iter().copied().chain([node])).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter().flat_map(|node| node * ppn..(node + 1) * ppn).collect()
    }

    /// What is added to the hop-bytes there and back if `p` and what is on `place` change sides.
    fn gain(&mut self, state: &State, p: u32, place: u32) -> i64 {
        let (here, there) = (state.node(p, self.sites), place / self.sites.ppn());
        if here == there {
            return 0;
        }
        let other = state.at[place as usize];
        let moved = self.moved(state, p, (here, there), other);
        if other == NONE { moved } else { moved + self.moved(state, other, (there, here), p) }
    }

    /// What is added if `p` moves; its way to `other` stays as long as it is.
    fn moved(&mut self, state: &State, p: u32, (from, to): (u32, u32), other: u32) -> i64 {
        let sites = self.sites;
        let peers = self.traffic.peers(p);
        self.left = self.left.saturating_sub(peers.len() as u64 + 1);
        let term = |peer: &super::Peer| {
            let at = state.node(peer.process, sites);
            peer.both() as i64 * (sites.round_trip(to, at) as i64 - sites.round_trip(from, at) as i64)
        };
        peers.iter().filter(|peer| peer.process != other).map(term).sum()
    }

    /// Swaps that cost no hop-bytes, as long as the busiest link carries less, or fewer links carry as much.
    fn relieve(&mut self, state: &mut State) {
        let mut load = vec![0; self.sites.shape().nodes() * Link::PER_NODE];
        for &pair in self.traffic.pairs() {
            self.carry(state, pair, &mut |link, bytes| load[link] += bytes);
        }
        while self.left > 0 {
            let most = peak(&load);
            let Some(busiest) = load.iter().position(|bytes| *bytes == most.0).filter(|_| most.0 > 0) else { return };
            let better = self.users(state, busiest).into_iter().any(|p| {
                self.candidates(state, p).into_iter().any(|place| self.relieves(state, &mut load, most, (p, place)))
            });
            if !better {
                return;
            }
        }
    }

    /// Processes whose traffic crosses a link: those of the heaviest pairs.
    fn users(&mut self, state: &State, busiest: usize) -> Vec<u32> {
        let mut pairs = Vec::new();
        for &pair in self.traffic.pairs() {
            let mut crosses = false;
            self.carry(state, pair, &mut |link, _| crosses |= link == busiest);
            if crosses {
                pairs.push(pair);
            }
        }
        pairs.sort_by_key(|&(.., bytes)| std::cmp::Reverse(bytes));
        let mut users: Vec<u32> = pairs.iter().take(LED_AWAY).flat_map(|&(from, to, _)| [from, to]).collect();
        users.sort_unstable();
        users.dedup();
        users
    }

    /// Makes a swap if it lowers the peak `most` and costs no hop-bytes.
    fn relieves(&mut self, state: &mut State, load: &mut [u64], most: (u64, usize), swap: (u32, u32)) -> bool {
        let (p, place) = swap;
        let from = state.place[p as usize];
        if self.left == 0 || from / self.sites.ppn() == place / self.sites.ppn() || self.gain(state, p, place) > 0 {
            return false;
        }
        let other = state.at[place as usize];
        let pairs = self.pairs_of(p, other);
        self.left = self.left.saturating_sub(load.len() as u64 / 4);
        pairs.iter().for_each(|&pair| self.carry(state, pair, &mut |link, bytes| load[link] -= bytes));
        state.swap(from, place);
        pairs.iter().for_each(|&pair| self.carry(state, pair, &mut |link, bytes| load[link] += bytes));
        if peak(load) < most {
            return true;
        }
        pairs.iter().for_each(|&pair| self.carry(state, pair, &mut |link, bytes| load[link] -= bytes));
        state.swap(from, place);
        pairs.iter().for_each(|&pair| self.carry(state, pair, &mut |link, bytes| load[link] += bytes));
        false
    }

    /// What two processes send and receive, each pair once.
    fn pairs_of(&self, p: u32, other: u32) -> Vec<(u32, u32, u64)> {
        let of = |q: u32, without: u32| {
            let peers = self.traffic.peers(q).iter().filter(move |peer| peer.process != without);
            peers.flat_map(move |peer| [(q, peer.process, peer.out), (peer.process, q, peer.back)])
        };
        let mut pairs: Vec<(u32, u32, u64)> = of(p, NONE).collect();
        if other != NONE {
            pairs.extend(of(other, p));
        }
        pairs
    }

    /// Tells `on` of the links that a pair's traffic crosses.
    fn carry(&mut self, state: &State, (from, to, bytes): (u32, u32, u64), on: &mut dyn FnMut(usize, u64)) {
        let node = |process| self.sites.nodes()[state.node(process, self.sites) as usize];
        let (from, to) = (node(from), node(to));
        if from == to || bytes == 0 {
            return;
        }
        // Whoever has no route is found when the cost of the result is taken.
        let path = self.sites.routes().path(from, to).unwrap_or_default();
        self.left = self.left.saturating_sub(8 * path.len() as u64 + 16);
        path.iter().for_each(|link| on(link.index(), bytes));
    }
}

/// The greatest load, and how many links carry that much.
fn peak(load: &[u64]) -> (u64, usize) {
    let most = load.iter().copied().max().unwrap_or(0);
    (most, load.iter().filter(|bytes| **bytes == most).count())
}
