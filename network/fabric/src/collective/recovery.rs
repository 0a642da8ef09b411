//! Trees of a split network when its routes change.
//!
//! No part sees all of a tree, so each puts into its ledger how far its own nodes have got. If everything that was posted
//! anywhere has been finished everywhere, nothing of the tree is under way: it goes on, over other links if
//! one of its own has failed, and every part builds the same rows. Otherwise no part can know what was lost, and all
//! of them unload it.

use super::progress::TreeState;
use super::reducer::Slot;
use super::state::{CREDIT_EVERY, Member, Tree, Trees, ports_at};
use super::tree::{TreeRows, build, validate};
use crate::adapter::Adapters;
use crate::types::{Effect, JobSlot, Link, NetError, Outage};
use angara_abi::{REDUCES, TREES};
use std::collections::BTreeMap;

impl Trees {
    /// How far the trees have got at the nodes modelled here.
    pub(crate) fn tree_states(&self, host: &Adapters) -> BTreeMap<u8, TreeState> {
        let mut states = BTreeMap::new();
        for (id, tree) in self.loaded.iter().enumerate().filter_map(|(id, t)| Some((id as u8, t.as_ref()?))) {
            let job = (tree.job, host.chip.edge.generation(tree.job));
            let mut state = TreeState { job, rows: tree.rows.clone(), ..TreeState::default() };
            for (_, m) in tree.members.iter().filter(|(node, _)| host.chip.owned[**node as usize]) {
                state.emitted.add(m.emitted);
                m.ports.iter().for_each(|(_, made)| state.made.add(*made));
                if !m.ports.is_empty() {
                    state.done.add(m.done);
                    state.bcasts.add(m.bcasts);
                }
                state.casts += m.casts;
            }
            states.insert(id, state);
        }
        states
    }

    /// Moves or unloads the trees, after the routes have changed and before the network is emptied.
    pub(crate) fn settle_trees(&mut self, host: &mut Adapters, states: &BTreeMap<u8, TreeState>) {
        // Counters on their way to a processor need no network.
        for (node, waiting) in std::mem::take(&mut self.credits) {
            waiting.into_iter().for_each(|counters| self.tell_processor(host, node, counters));
        }
        for tree in 0..TREES as u8 {
            let state = states.get(&tree).filter(|s| {
                let here = self.loaded[tree as usize].as_ref();
                host.chip.edge.is_open(s.job.0)
                    && host.chip.edge.generation(s.job.0) == s.job.1
                    && here.is_none_or(|t| t.job == s.job.0)
            });
            let rest = state.and_then(|s| Some((s, s.at_rest()?)));
            match rest.map(|(s, rest)| (s.job.0, self.rows_now(host, s), rest)) {
                Some((job, Ok(rows), rest)) => self.restore_tree(host, tree, job, rows, rest),
                Some((_, Err(outage), _)) => self.lose_tree(host, tree, outage),
                None => self.lose_tree(host, tree, None),
            }
        }
    }

    /// The rows of a tree at rest over the links that work now, or what is in their way.
    fn rows_now(&self, host: &Adapters, state: &TreeState) -> Result<TreeRows, Option<Outage>> {
        let rows = &state.rows;
        let ours = |p: &crate::Port| host.port_index(*p).is_some_and(|i| host.ports[i].job == state.job.0);
        if validate(&host.chip.net.shape, rows).is_err() || !rows.ports.iter().all(ours) {
            return Err(None);
        }
        let broken = rows.rows.iter().find_map(|(node, row)| {
            let up = row.to_root.map(|dir| Link { node: *node, dir }).filter(|l| !host.chip.routes.link_up(*l));
            if host.chip.routes.node_up(*node) { up.map(Outage::Link) } else { Some(Outage::Node(*node)) }
        });
        if broken.is_none() && !state.moved {
            return Ok(rows.clone());
        }
        let root = rows.root().ok_or(broken)?;
        build(&host.chip.routes, root, &rows.ports).map_err(|_| broken)
    }

    /// Loads a tree on which nothing is under way, after N reductions and broadcasts.
    fn restore_tree(
        &mut self,
        host: &mut Adapters,
        tree: u8,
        job: JobSlot,
        rows: TreeRows,
        (made, bcasts): (u64, u64),
    ) {
        let old = self.loaded[tree as usize].take();
        if old.is_none() {
            self.generations[tree as usize] += 1;
        }
        let mut members = BTreeMap::new();
        for (node, row) in &rows.rows {
            let before = old.as_ref().and_then(|t| t.members.get(node));
            let ports = ports_at(&rows.ports, *node);
            let member = Member {
                row: *row,
                ports: ports.into_iter().filter_map(|p| Some((host.port_index(p)? as u32, made))).collect(),
                slots: vec![Slot::EMPTY; REDUCES],
                emitted: made,
                window: if row.is_root { u64::MAX } else { REDUCES as u64 + made / CREDIT_EVERY * CREDIT_EVERY },
                pending: Default::default(),
                done: made,
                repeated: 0,
                told: before.map_or(made, |m| m.told),
                bcasts,
                casts: before.map_or(0, |m| m.casts),
            };
            members.insert(*node, member);
        }
        self.loaded[tree as usize] = Some(Box::new(Tree { job, rows, members }));
    }

    /// Unloads a tree and tells its participants here.
    fn lose_tree(&mut self, host: &mut Adapters, tree: u8, outage: Option<Outage>) {
        let Some(t) = &self.loaded[tree as usize] else { return };
        let (job, ports) = (t.job, t.rows.ports.clone());
        self.unload_tree(host, tree);
        for at in ports {
            if !host.chip.owned[at.node as usize] {
                continue;
            }
            let what = match outage {
                Some(outage) => NetError::TreeDown { tree, outage },
                None => NetError::TreeLost { tree },
            };
            host.effect(Effect::Error { at, job, what, time: host.chip.now });
        }
    }
}
