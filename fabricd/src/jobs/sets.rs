//! Node sets of jobs: nodes that a job has for itself, and whose packets stay among them.
//!
//! Packets of a job without a set may cross any node. So jobs with sets and jobs without do not run at the same time.

use super::job::Job;
use super::plan::Reservation;
use crate::ask::ask;
use crate::daemon::Daemon;
use crate::failure::failure;
use angara_abi::JobId;
use angara_alloc::{BestFitBox, Closed, FirstFitBox, Fragmentation, Machine, Search, Utilisation};
use angara_fabric::Outage;
use angara_net::NodeSet;
use angara_net::torus::NodeId;
use angara_plane::Command;
use angara_protocol::msg::{Alloc, Failure, JobSpec, Map};

/// The search that a job asks for.
fn search(alloc: Alloc) -> &'static dyn Search {
    match alloc {
        Alloc::Auto | Alloc::Utilisation => &Utilisation,
        Alloc::Fragmentation => &Fragmentation,
        Alloc::Closed => &Closed,
        Alloc::FirstFitBox => &FirstFitBox,
        Alloc::BestFitBox => &BestFitBox,
    }
}

impl Daemon {
    /// Calls `visit` for every job that runs or is being made, with its name and its set.
    fn each_set<T>(&self, mut visit: impl FnMut(JobId, &str, Option<&NodeSet>) -> Option<T>) -> Option<T> {
        let (jobs, reservations) = (self.jobs.table.borrow(), self.jobs.reservations.borrow());
        let running = jobs.iter().map(|(id, job): (&JobId, &Job)| (*id, &job.descriptor.new));
        let coming = reservations.iter().map(|(id, r): (&JobId, &Reservation)| (*id, &r.new));
        running.chain(coming).find_map(|(id, new)| visit(id, &new.spec.name, new.set.as_ref()))
    }

    /// Refuses a job that cannot run beside those that are there.
    pub(super) fn check_set(&self, set: Option<&NodeSet>) -> Result<(), Failure> {
        let refused = self.each_set(|id, name, other| match (set, other) {
            (None, None) => None,
            (None, Some(_)) => Some(failure(
                format!("job {id} ({name}) has a node set, and packets of a job without one could cross it"),
                "give this job a set, too (--alloc auto), or wait for that job to end",
            )),
            (Some(_), None) => Some(failure(
                format!("job {id} ({name}) has no node set, so its packets may cross any node"),
                "wait for that job to end, or start it with --alloc auto, too",
            )),
            (Some(_), Some(_)) => None,
        });
        refused.map_or(Ok(()), Err)
    }

    /// True if somebody else has been given a node of this set meanwhile: another one is to be looked for.
    pub(crate) fn overlaps(&self, set: Option<&NodeSet>) -> bool {
        let Some(set) = set else { return false };
        let shared = |other: &NodeSet| set.held().any(|node| other.held().any(|held| held == node));
        self.each_set(|_, _, other| other.filter(|other| shared(other)).map(|_| ())).is_some()
    }

    /// The node set of a new job among these nodes, if it asks for one.
    pub(super) async fn node_set(&self, spec: &JobSpec, available: &[NodeId]) -> Result<Option<NodeSet>, Failure> {
        let Some(alloc) = spec.alloc else {
            self.check_set(None)?;
            return Ok(None);
        };
        self.check_set(Some(&NodeSet::default()))?;
        if matches!(spec.map, Map::List(_)) {
            return Err(failure(
                "a placement by a list, and a node set to be found",
                "give --map or --alloc, not both",
            ));
        }
        let shape = self.options.shape;
        let mut dead =
            ask(&self.data, Command::Dead).await.map_err(|e| failure(e.to_string(), "restart the daemon"))?;
        let absent = (0..shape.nodes() as NodeId).filter(|node| available.binary_search(node).is_err());
        dead.extend(absent.map(Outage::Node));
        let mut machine = Machine::new(shape, &dead);
        self.each_set::<()>(|_, _, set| {
            let working: Vec<NodeId> =
                set.into_iter().flat_map(NodeSet::held).filter(|n| machine.is_free(*n)).collect();
            machine.take(&NodeSet::of(working));
            None
        });
        let wanted = spec.pes.div_ceil(spec.ppn.max(1)) as usize;
        search(alloc).find(&machine, wanted).map(Some).ok_or_else(|| {
            let (free, working) = (machine.free(), machine.working());
            let message = format!(
                "no {wanted} nodes with routes among them are free: {free} of {working} nodes that work are in no set"
            );
            let remedy = match wanted > working {
                true => "start fewer PEs, or more on each node (--ppn)",
                false => "wait for another job to end, start fewer PEs, or more on each node (--ppn)",
            };
            failure(message, remedy)
        })
    }
}
