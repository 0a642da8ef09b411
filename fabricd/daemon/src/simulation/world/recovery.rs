//! The end of a run: from when everything works again until nothing is left of what was.

use super::World;
use crate::simulation::program::Pe;

/// From when everything is repaired all hosts must be of one mind, all commands be answered and all jobs be over within this
/// time, in milliseconds.
const BOUND: u64 = 90_000;
/// What has to be over by then keeps nothing after so long.
const AFTERMATH: u64 = 5_000;

/// The command that ends all faults of links and nodes.
pub(super) const CLEAR_ALL: &str = "all clear";

/// How far repairing everything has got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Trouble,
    /// Trunks are told to be good again.
    Trunks,
    /// All hosts shall be of one mind, then faults are cleared.
    Faults,
    /// Jobs come to their ends.
    Jobs,
    /// Nothing may be left.
    Aftermath(u64),
}

impl World {
    /// From now on nothing bad happens any more.
    pub(super) fn repair_everything(&mut self) {
        tracing::info!(at = self.now, "REPAIRED");
        for node in self.hosts.iter().filter_map(|h| h.node.as_ref()) {
            self.totals.left_bad += node.plane.bad_trunks() as u64;
            self.totals.left_faulty += node.daemon.cluster.ballots.agreed.borrow().faults.faults().len() as u64;
        }
        self.totals.left_jobs = self.jobs.iter().filter(|j| !j.closed).count() as u64;
        self.network.heal();
        self.stage = Stage::Trunks;
        for index in 0..self.hosts.len() {
            let host = &mut self.hosts[index];
            (host.frozen_until, host.slow_until) = (0, 0);
            host.node.iter_mut().for_each(|node| node.control_at = 0);
            if host.node.is_none() {
                self.start_daemon(index);
            }
        }
        self.clear_trunks();
    }

    pub(super) fn clear_trunks(&mut self) {
        (0..self.hosts.len()).for_each(|host| self.command(host, "trunk all clear".into()));
    }

    fn clear_faults(&mut self, host: usize) {
        self.clear_lost = false;
        self.command(host, CLEAR_ALL.into());
    }

    fn has_bad_trunks(&self) -> bool {
        self.hosts.iter().any(|h| h.node.as_ref().is_some_and(|n| n.plane.bad_trunks() > 0))
    }

    /// Returns what follows when nothing happens any more by itself; true at the end of all.
    pub(super) fn go_on_repaired(&mut self) -> Result<bool, String> {
        if self.stage == Stage::Trouble {
            return Ok(false);
        }
        if self.now > self.repaired_at + BOUND {
            return Err(format!("not over {BOUND} ms after everything was repaired\n{}", self.describe()));
        }
        let quiet = self.asked.is_empty() && self.hosts.iter().all(|h| h.node.is_some());
        match self.stage {
            Stage::Trouble => {}
            Stage::Trunks | Stage::Faults | Stage::Jobs if quiet && self.late_cuts && self.has_bad_trunks() => {
                self.late_cuts = false;
                self.clear_trunks();
            }
            Stage::Trunks if quiet && self.of_one_mind() => {
                self.stage = Stage::Faults;
                self.clear_faults(self.random.clone().below(self.schedule.hosts as u64) as usize);
            }
            Stage::Faults | Stage::Jobs if quiet && self.clear_lost => self.clear_faults(0),
            Stage::Faults if quiet && self.of_one_mind() => self.stage = Stage::Jobs,
            // One whose time had come just before all were cleared, or with it.
            Stage::Faults | Stage::Jobs if quiet && self.late_faults && self.has_faults() => {
                self.late_faults = false;
                self.clear_faults(0);
            }
            Stage::Jobs if quiet && self.jobs.iter().all(|j| j.closed) && self.of_one_mind() => {
                self.stage = Stage::Aftermath(self.now);
            }
            Stage::Aftermath(since) => {
                let left: Vec<(usize, Vec<String>)> = self.leftovers();
                if left.is_empty() && self.jobs.iter().all(|j| j.pes.iter().all(Pe::is_over)) {
                    return self.judge_jobs().map(|()| true);
                }
                if self.now > since + AFTERMATH {
                    return Err(format!("left over: {left:?}\n{}", self.describe()));
                }
            }
            _ => {}
        }
        Ok(false)
    }
}
