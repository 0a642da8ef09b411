//! One look at everything.

use super::sample::{Memory, Sample};
use crate::ask::ask;
use crate::daemon::Daemon;
use angara_abi::account::Load;
use angara_fabric::Link;
use angara_net::torus::NodeId;
use angara_plane::observe::figures::LinkFigures;
use angara_plane::{Command, Dead, Folded, Handle, Reply, Timed};
use std::collections::BTreeMap;
use std::time::Duration;

/// Nodes whose links are copied at once: so long may a post wait.
const NODES_PER_PIECE: u32 = 256;

impl Daemon {
    /// Copies everything, now.
    pub(super) async fn sample(&self) -> Result<Sample, Dead> {
        let (at, at_ns) = (self.started.elapsed(), self.machine.monotonic());
        let mut took = Duration::ZERO;
        let nodes = self.options.shape.nodes() as NodeId;
        let mut links = Vec::with_capacity(nodes as usize * 8);
        for from in (0..nodes).step_by(NODES_PER_PIECE as usize) {
            let piece = from..(from + NODES_PER_PIECE).min(nodes);
            let (copied, cost) = timed(&self.data, |reply| Command::WatchLinks(piece, reply)).await?;
            links.extend(copied);
            took += cost;
        }
        took += self.add_direct(&mut links).await?;
        let hosted = self.hosted.clone();
        let (plane, cost) = timed(&self.data, |reply| Command::WatchPlane(hosted, reply)).await?;
        let job = |job: &crate::jobs::job::Job| job.status(&plane.sets);
        let jobs = self.jobs.table.borrow().values().map(job).collect();
        Ok(Sample {
            at,
            at_ns,
            links,
            far: self.watcher.far.links(),
            plane,
            jobs,
            cluster: self.cluster_status().await,
            refused: self.users.refused(),
            memory: memory(),
            took: took + cost,
        })
    }

    /// Returns what PEs of open jobs have put on links without the network.
    async fn add_direct(&self, links: &mut [LinkFigures]) -> Result<Duration, Dead> {
        let (jobs, mut took) = timed(&self.data, Command::WatchJobs).await?;
        for (slot, pes) in jobs {
            let mut folded: Folded = ask(&self.data, |reply| Command::Folded(slot, reply)).await?;
            for pe in 0..pes {
                let (more, cost) = timed(&self.data, |reply| Command::FoldPe(slot, pe, folded, reply)).await?;
                (folded, took) = (more, took + cost);
            }
            add(links, folded.sums());
        }
        Ok(took)
    }
}

/// A figure of the data plane, and how long that was busy with it.
async fn timed<T: Send + 'static>(
    data: &Handle,
    command: impl FnOnce(Reply<Timed<T>>) -> Command,
) -> Result<(T, Duration), Dead> {
    let Timed { value, took } = ask(data, command).await?;
    Ok((value, took))
}

fn add(links: &mut [LinkFigures], loads: BTreeMap<Link, Load>) {
    for (link, load) in loads {
        if let Some(figures) = links.get_mut(link.index()) {
            figures.load.add(load);
        }
    }
}

/// Of this process; zero where the system does not say.
fn memory() -> Memory {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, |dir| dir.count() as u64);
    Memory { resident: pages.unwrap_or(0) * rustix::param::page_size() as u64, descriptors }
}
