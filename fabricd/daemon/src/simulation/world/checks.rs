//! What must hold at every moment and in the end, and what is shown if it does not.

use super::recovery::Stage;
use super::{Host, World};
use crate::hosts::ballot::Agreed;
use crate::simulation::node::Node;
use angara_net::HostId;

impl World {
    /// Returns what must hold at every moment.
    pub(super) fn check(&mut self) -> Result<(), String> {
        let state = |n: &Node| (n.daemon.cluster.ballots.number(), n.plane.route_change(), n.plane.is_held());
        let mut changed = false;
        for host in &mut self.hosts {
            let now = host.node.as_ref().map_or((0, 0, false), state);
            if now != host.checked {
                if now.0 > host.checked.0 {
                    self.totals.changes += 1;
                }
                self.trace.add(now.0 << 32 | now.1 << 1 | u64::from(now.2));
                (host.checked, changed) = (now, true);
            }
        }
        if !changed {
            return Ok(());
        }
        let nodes =
            || self.hosts.iter().enumerate().filter_map(|(i, h)| Some((HostId::new(i as u16), h.node.as_ref()?)));
        for (a, x) in nodes() {
            for (b, y) in nodes().filter(|(b, _)| a < *b) {
                self.check_pair((a, x), (b, y)).map_err(|why| format!("h{a} and h{b}: {why}\n{}", self.describe()))?;
            }
        }
        Ok(())
    }

    /// Two hosts that know each other as members of one change have agreed on the same, and have the same routes.
    pub(super) fn check_pair(&self, (a, x): (HostId, &Node), (b, y): (HostId, &Node)) -> Result<(), String> {
        let (one, two) = (x.daemon.cluster.ballots.agreed.borrow(), y.daemon.cluster.ballots.agreed.borrow());
        let knows = |agreed: &Agreed, host: HostId, node: &Node| {
            let life = node.daemon.cluster.messages.as_ref().map(|s| s.group()[&host]);
            agreed.members.get(&host).copied() == life
        };
        let both = one.number == two.number && one.number > 0 && knows(&one, b, y) && knows(&two, a, x);
        let same = |one: &Agreed, two: &Agreed| {
            (&one.members, &one.edges, &one.faults) == (&two.members, &two.edges, &two.faults)
        };
        if both && !same(&one, &two) {
            return Err(format!("change {} is not the same: {:?} and {:?}", one.number, *one, *two));
        }
        let live = x.plane.live_session(b).is_some() && x.plane.live_session(b) == y.plane.live_session(a);
        let moving = !x.plane.is_held() && !y.plane.is_held();
        let changes = (x.plane.route_change(), y.plane.route_change());
        if live && moving && changes.0 == changes.1 && x.plane.all_routes() != y.plane.all_routes() {
            return Err(format!("different routes after change {}", changes.0));
        }
        Ok(())
    }

    pub(super) fn leftovers(&self) -> Vec<(usize, Vec<String>)> {
        let of = |h: &Host| h.node.as_ref().map_or_else(Vec::new, Node::leftovers);
        self.hosts.iter().map(of).enumerate().filter(|(_, left)| !left.is_empty()).collect()
    }

    pub(super) fn has_faults(&self) -> bool {
        let of = |h: &Host| {
            h.node.as_ref().is_some_and(|n| !n.daemon.cluster.ballots.agreed.borrow().faults.faults().is_empty())
        };
        self.hosts.iter().any(of)
    }

    /// All hosts are members, over all trunks, without faults once those have been cleared.
    pub(super) fn of_one_mind(&self) -> bool {
        let all = self.hosts.len();
        let pairs = all * (all - 1) / 2;
        self.hosts.iter().all(|h| {
            h.node.as_ref().is_some_and(|node| {
                let agreed = node.daemon.cluster.ballots.agreed.borrow();
                let clear = !matches!(self.stage, Stage::Faults | Stage::Jobs) || agreed.faults.faults().is_empty();
                node.daemon.is_settled() && agreed.members.len() == all && agreed.edges.len() == pairs && clear
            })
        })
    }

    /// For people, when something is wrong.
    pub(super) fn describe(&self) -> String {
        let mut text = format!("at {} ms, {:?}, of one mind: {}\n", self.now, self.stage, self.of_one_mind());
        for (index, host) in self.hosts.iter().enumerate() {
            let Some(node) = &host.node else {
                text += &format!("h{index}: dead until {}\n", host.starts_at);
                continue;
            };
            let agreed = node.daemon.cluster.ballots.agreed.borrow();
            let held = node.daemon.cluster.ballots.held.get().map(|since| since.elapsed());
            text += &format!(
                "h{index} life {}: change {} members {:?} edges {:?} expelled {:?} faults {:?} held {held:?} settled {}\n   {}\n   left {:?}\n",
                host.lives,
                agreed.number,
                agreed.members,
                agreed.edges,
                agreed.expelled,
                agreed.faults,
                node.daemon.is_settled(),
                node.plane.describe(),
                node.leftovers(),
            );
        }
        for job in self.jobs.iter().filter(|j| !j.closed) {
            text += &format!("job {:?} of h{} since {}: {:?}\n", job.made, job.coordinator, job.began, job.reason);
            job.pes.iter().for_each(|pe| text += &format!("   {}\n", pe.describe()));
        }
        for asked in &self.asked {
            text += &format!("`{}` on h{} since {}\n", asked.text, asked.host, asked.since);
        }
        text
    }
}
