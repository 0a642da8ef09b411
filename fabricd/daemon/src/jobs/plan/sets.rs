//! Node sets of jobs: nodes that a job has for itself, and whose packets stay among them.
//!
//! Packets of a job without a set may cross any node. So jobs with sets and jobs without do not run at the same time: while there
//! are sets, a job that asks for none gets one all the same.

use super::Reservation;
use crate::aside::aside;
use crate::ask::ask;
use crate::daemon::Daemon;
use crate::failure::failure;
use crate::jobs::descriptor::NewJob;
use crate::jobs::job::{Job, Owner};
use crate::users::quota::Limit;
use crate::users::usage::is_operator;
use angara_abi::JobId;
use angara_fabric::Outage;
use angara_net::NodeSet;
use angara_net::torus::NodeId;
use angara_placement::{BestFitBox, Closed, FirstFitBox, Fragmentation, Machine, Search, Utilisation};
use angara_plane::Command;
use angara_protocol::msg::{Alloc, Failure, JobSpec, Map};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a search may take.
const SEARCH: Duration = Duration::from_secs(30);

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
    pub(in crate::jobs) fn check_set(&self, set: Option<&NodeSet>) -> Result<(), Failure> {
        let refused = self.each_set(|id, name, other| match (set, other) {
            (None, None) => None,
            (None, Some(_)) => Some(failure(
                format!("job {id} ({name}) has a node set, and packets of a job without one could cross it"),
                "leave --map out, and this job gets a set, too; or wait for that job to end",
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

    /// True if a job was planned without a set, and others have been given sets meanwhile: then it needs one, too.
    pub(in crate::jobs) fn needs_a_set(&self, new: &NewJob) -> bool {
        new.set.is_none() && takes_a_set(&new.spec) && self.check_set(None).is_err()
    }

    /// The node set of a new job of `uid` among these nodes, if it asks for one, or cannot run beside others without. The search
    /// is done beside everything else, and ends when `owner` has gone.
    pub(in crate::jobs) async fn node_set(
        &self,
        (uid, owner): (u32, &Owner),
        spec: &JobSpec,
        available: &[NodeId],
    ) -> Result<Option<NodeSet>, Failure> {
        let alloc = match (spec.alloc, self.check_set(None)) {
            (Some(alloc), _) => alloc,
            (None, Ok(())) => return Ok(None),
            (None, Err(_)) if takes_a_set(spec) => Alloc::Auto,
            (None, Err(refused)) => return Err(refused),
        };
        self.check_set(Some(&NodeSet::default()))?;
        if matches!(spec.map, Map::List(_)) {
            return Err(failure(
                "a placement by a list, and a node set to be found",
                "give --map or --alloc, not both",
            ));
        }
        let wanted = spec.pes.div_ceil(spec.ppn.max(1)) as usize;
        // One at a time of each user. Closed by nobody.
        let user = self.users.user(uid);
        let _turn = user.search.acquire().await;
        self.check_nodes(uid, wanted)?;
        let shape = self.options.shape;
        let mut dead =
            ask(&self.data, Command::Dead).await.map_err(|e| failure(e.to_string(), "restart the daemon"))?;
        let absent = (0..shape.nodes() as NodeId).filter(|node| available.binary_search(node).is_err());
        dead.extend(absent.map(Outage::Node));
        let mut taken = Vec::new();
        self.each_set::<()>(|_, _, set| {
            taken.extend(set.into_iter().flat_map(NodeSet::held));
            None
        });
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let find = move || {
            let mut machine = Machine::new(shape, &dead).stops_with(stopped);
            taken.retain(|node| machine.is_free(*node));
            machine.take(&NodeSet::of(taken));
            (search(alloc).find(&machine, wanted), machine.free(), machine.working())
        };
        let mut found = pin!(aside(find));
        let (found, ended) = tokio::select! {
            found = &mut found => (found, None),
            () = tokio::time::sleep(SEARCH) => {
                stop.store(true, Ordering::Relaxed);
                (found.await, Some(format!("no {wanted} nodes were found within {} s", SEARCH.as_secs())))
            }
            () = owner.gone.notified() => {
                stop.store(true, Ordering::Relaxed);
                // Its user has no second search before this one is over.
                let _ = found.await;
                return Err(failure("whoever asked for nodes has gone", "ask again"));
            }
        };
        let (found, free, working) =
            found.map_err(|why| failure(format!("nodes cannot be searched for: {why}"), "try again"))?;
        if let Some(set) = found {
            self.check_nodes(uid, set.size())?;
            return Ok(Some(set));
        }
        if let Some(ended) = ended {
            let remedy = "give another --alloc, such as first-fit-box or best-fit-box, or start fewer PEs";
            return Err(failure(ended, remedy));
        }
        let message = format!(
            "no {wanted} nodes with routes among them are free: {free} of {working} nodes that work are in no set"
        );
        let remedy = match wanted > working {
            true => "start fewer PEs, or more on each node (--ppn)",
            false => "wait for another job to end, start fewer PEs, or more on each node (--ppn)",
        };
        Err(failure(message, remedy))
    }

    /// Refuses a set of N nodes if its user would have more than a share. Those who could raise the limit may have all.
    fn check_nodes(&self, uid: u32, wanted: usize) -> Result<(), Failure> {
        if is_operator(uid) {
            return Ok(());
        }
        let (jobs, reservations) = (self.jobs.table.borrow(), self.jobs.reservations.borrow());
        let running = jobs.values().map(|job| &job.descriptor.new);
        let own = running.chain(reservations.values().map(|r| &r.new)).filter(|new| new.uid == uid);
        let held: usize = own.filter_map(|new| new.set.as_ref()).map(NodeSet::size).sum();
        let all = self.options.shape.nodes();
        let most = self.users.limits().share(Limit::Nodes, all as u64);
        match (held + wanted) as u64 > most {
            true => Err(failure(
                format!(
                    "node sets of user {uid} hold {held} nodes, and {wanted} more are asked for; one user may hold {most} of {all}"
                ),
                format!(
                    "start fewer PEs, more on each node (--ppn), or end another job; or {}",
                    self.users.raise(Limit::Nodes)
                ),
            )),
            false => Ok(()),
        }
    }
}

/// A set can be found for it: neither its nodes are named, nor are they those of all who may come.
fn takes_a_set(spec: &JobSpec) -> bool {
    !spec.open && !matches!(spec.map, Map::List(_))
}
