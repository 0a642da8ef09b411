//! Seats whose processes have left, until nothing of them is on its way.

use super::job::Jobs;
use super::seats::JobKey;
use crate::command::Reply;
use angara_fabric::{Fabric, Port};

/// Seats that have become free, and who is told when another process may take them.
#[derive(Default)]
pub(crate) struct Departures(Vec<Leaving>);

struct Leaving {
    job: JobKey,
    pe: usize,
    tell: Reply<()>,
}

impl Departures {
    /// Tells when nothing that this PE has posted is on its way any more, or its job is over.
    pub(crate) fn tell_when_quiet(&mut self, job: JobKey, pe: usize, tell: Reply<()>) {
        self.0.push(Leaving { job, pe, tell });
    }

    /// Behind a round: tells those who wait for a seat to be quiet.
    #[inline]
    pub(crate) fn look(&mut self, jobs: &Jobs, fabric: &Fabric) {
        if !self.0.is_empty() {
            self.tell(jobs, fabric);
        }
    }

    #[cold]
    fn tell(&mut self, jobs: &Jobs, fabric: &Fabric) {
        for Leaving { job, pe, tell } in std::mem::take(&mut self.0) {
            if is_quiet(job, pe, jobs, fabric) {
                tell.send(());
            } else {
                self.0.push(Leaving { job, pe, tell });
            }
        }
    }
}

fn is_quiet((slot, id): JobKey, pe: usize, jobs: &Jobs, fabric: &Fabric) -> bool {
    let job = jobs.get(slot).filter(|job| job.memory.id == id);
    let entry = job.and_then(|job| job.memory.entries.get(pe));
    entry.is_none_or(|e| fabric.is_quiet(Port { node: e.node, endpoint: e.endpoint }))
}
