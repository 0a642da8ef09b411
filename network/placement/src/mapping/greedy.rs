//! A first placement: the process with most traffic to those placed goes where that traffic has least way.

use super::local_search::{NONE, State};
use super::{Sites, Traffic};
use std::collections::BinaryHeap;

/// Terms that the choice of one node may take; a process with few peers looks at more nodes.
const TERMS: usize = 1 << 16;
/// Nodes that every process looks at.
const NODES_MIN: usize = 64;

/// Places all processes; the first one goes to the node with number `start`.
pub(super) fn place(traffic: &Traffic, sites: &Sites, start: u32) -> State {
    let processes = traffic.processes();
    let mut state = State::empty(processes, sites);
    let mut free: Vec<u32> = (0..sites.nodes().len() as u32).collect();
    let mut room = vec![sites.ppn(); sites.nodes().len()];
    let weight = |p: u32| traffic.peers(p).iter().map(|peer| peer.both()).sum::<u64>();
    let mut heaviest: Vec<u32> = (0..processes).collect();
    heaviest.sort_by_key(|&p| std::cmp::Reverse(weight(p)));
    let mut heaviest = heaviest.into_iter();
    let mut attached = vec![0u64; processes as usize];
    // Entries that are out of date are passed over: a process is entered again when it gains traffic.
    let mut queue: BinaryHeap<(u64, std::cmp::Reverse<u32>)> = BinaryHeap::new();
    loop {
        let next = std::iter::from_fn(|| queue.pop()).map(|(_, p)| p.0).find(|&p| !state.is_placed(p));
        let Some(p) = next.or_else(|| heaviest.by_ref().find(|&p| !state.is_placed(p))) else { return state };
        let node = match choose(traffic, sites, &state, &free, p) {
            Some(node) => node,
            None => free.iter().copied().find(|&node| node >= start).unwrap_or(free[0]),
        };
        let place = node * sites.ppn() + (sites.ppn() - room[node as usize]);
        state.put(p, place);
        room[node as usize] -= 1;
        if room[node as usize] == 0 {
            free.retain(|&other| other != node);
        }
        for peer in traffic.peers(p).iter().filter(|peer| !state.is_placed(peer.process)) {
            attached[peer.process as usize] += peer.both();
            queue.push((attached[peer.process as usize], std::cmp::Reverse(peer.process)));
        }
    }
}

/// The free node with the shortest way to the peers of `p` that are placed; `None` if none is.
fn choose(traffic: &Traffic, sites: &Sites, state: &State, free: &[u32], p: u32) -> Option<u32> {
    let placed = traffic.peers(p).iter().filter(|peer| state.is_placed(peer.process));
    let placed: Vec<(u32, u64)> = placed.map(|peer| (state.node(peer.process, sites), peer.both())).collect();
    let (strongest, _) = *placed.first()?;
    let count = (TERMS / placed.len()).max(NODES_MIN);
    let far = |node: u32| placed.iter().map(|&(at, bytes)| bytes * sites.round_trip(node, at)).sum::<u64>();
    if count >= free.len() {
        return free.iter().copied().min_by_key(|&node| (far(node), node));
    }
    let mut nearest = free.to_vec();
    nearest.select_nth_unstable_by_key(count, |&node| (sites.round_trip(node, strongest), node));
    nearest.truncate(count);
    nearest.into_iter().min_by_key(|&node| (far(node), node))
}

impl State {
    /// No process is placed.
    fn empty(processes: u32, sites: &Sites) -> State {
        State { place: vec![NONE; processes as usize], at: vec![NONE; sites.places()] }
    }

    fn is_placed(&self, process: u32) -> bool {
        self.place[process as usize] != NONE
    }

    fn put(&mut self, process: u32, place: u32) {
        self.place[process as usize] = place;
        self.at[place as usize] = process;
    }
}
