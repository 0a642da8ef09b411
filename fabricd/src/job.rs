//! A job as the control plane sees it: its memory, its PEs, its owner.

use crate::config::show_size;
use crate::create::JobCard;
use crate::limits;
use crate::memory::JobMemory;
use crate::placement::{check_memory, failure, place};
use crate::seqpacket::Connection;
use abi::job::{Barrier, INTERNAL_BYTES, JobState, PES_MAX, PeEntry};
use abi::msg::{Event, Failure, JobSpec, JobStatus, Line, Path};
use abi::torus::{NodeId, Shape};
use abi::wait::Linux;
use rustix::process::{Resource, Signal, getrlimit, pidfd_send_signal};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{mpsc, oneshot};

/// Descriptors the daemon keeps per PE: connection, pidfd, doorbell, counters.
const FDS_PER_PE: u64 = 4;
/// Descriptors kept free for connections, pages and jobs.
const FDS_RESERVE: u64 = 128;

/// One job.
pub(crate) struct Job {
    /// 32 hexadecimal digits.
    pub(crate) key: String,
    /// Who may attach.
    pub(crate) uid: u32,
    /// That user's name on the host where the job was created.
    pub(crate) user: Option<String>,
    /// What was asked for.
    pub(crate) spec: JobSpec,
    /// Its memory.
    pub(crate) memory: Arc<JobMemory>,
    /// Its PEs.
    pub(crate) pes: Vec<PeState>,
    /// Control connection that gets its events and whose end ends it.
    pub(crate) owner: Owner,
    /// When it was created.
    pub(crate) created: Instant,
    /// Things to know, for the report.
    pub(crate) notes: Vec<String>,
    /// Host whose daemon created the job, if it is another one.
    pub(crate) home: Option<u16>,
    /// Other hosts that know the job.
    pub(crate) hosts: Vec<u16>,
    /// For hosts that come later.
    pub(crate) card: JobCard,
}

/// A control connection, as jobs see it.
#[derive(Clone)]
pub(crate) struct Owner {
    pub(crate) connection: u64,
    /// Process at its other end; never killed for its own job's end.
    pub(crate) pid: Option<i32>,
    pub(crate) lines: mpsc::Sender<Outgoing>,
}

/// What is written to a control connection.
pub(crate) enum Words {
    Line(Line),
    /// Of a stream.
    Raw(Vec<u8>),
}

/// Something for a control connection.
pub(crate) struct Outgoing {
    pub(crate) words: Words,
    /// Told when it has been written.
    pub(crate) written: Option<oneshot::Sender<()>>,
}

/// A PE's life.
pub(crate) enum PeState {
    /// Not yet seen.
    Waiting,
    /// Attaching right now.
    Attaching,
    /// Connected.
    Attached(Rc<Attached>),
    /// Said goodbye, or was lost. Its counters live on in the data plane.
    Gone,
}

/// An attached PE.
pub(crate) struct Attached {
    pub(crate) connection: Rc<Connection>,
    pub(crate) process: Option<Rc<OwnedFd>>,
    pub(crate) pid: i32,
}

impl Job {
    /// Node of each PE.
    pub(crate) fn placement(&self) -> Vec<NodeId> {
        self.memory.entries.iter().map(|e| e.node).collect()
    }

    /// Tells the owner; dropped if it does not read (its connection buffers thousands).
    pub(crate) fn tell(&self, event: Event) {
        if self.owner.lines.try_send(Outgoing { words: Words::Line(Line::Event(event)), written: None }).is_err() {
            tracing::debug!(job = self.memory.id, "owner does not take events");
        }
    }

    /// Makes every library call of every PE end with an error.
    pub(crate) fn set_ended(&self) {
        self.memory.page.set_state(JobState::Ended);
        for pe in 0..self.memory.pes {
            self.memory.sync.alert(pe);
        }
        self.memory.sync.barrier_cell().notify(&Linux);
    }

    /// Kills every attached process and closes its connection. A process that created the job
    /// itself only loses the connection.
    pub(crate) fn kill(&self) {
        for state in &self.pes {
            if let PeState::Attached(a) = state {
                if let Some(process) = a.process.as_ref().filter(|_| self.owner.pid != Some(a.pid)) {
                    // Fails only if it is already gone.
                    let _ = pidfd_send_signal(process.as_ref(), Signal::KILL);
                }
                a.connection.shutdown();
            }
        }
    }

    /// One line of `angara status`.
    pub(crate) fn status(&self) -> JobStatus {
        JobStatus {
            job: self.memory.id,
            name: self.spec.name.clone(),
            uid: self.uid,
            pes: self.spec.pes,
            attached: self.memory.page.attached() as u32,
            memory: self.memory.reserved(),
            age_s: self.created.elapsed().as_secs_f64(),
        }
    }
}

/// What all hosts must agree on.
pub(crate) struct Layout {
    /// Node of each PE.
    pub(crate) nodes: Vec<NodeId>,
    /// Bytes from one heap slice to the next.
    pub(crate) heap_stride: usize,
}

/// This host's part of a new job: everything that can be decided without touching the network.
#[derive(Debug)]
pub(crate) struct Share {
    /// The PEs that live here ...
    pub(crate) pes: Vec<usize>,
    /// ... and where.
    pub(crate) entries: Vec<PeEntry>,
    /// More processes than cores.
    pub(crate) crowded: bool,
}

/// What the daemon knows when it plans a job.
pub(crate) struct Site<'a> {
    pub(crate) shape: Shape,
    /// Nodes of this host.
    pub(crate) hosted: &'a [NodeId],
    pub(crate) channels: u16,
    pub(crate) memory_limit: Option<u64>,
    /// PEs of the jobs that run already.
    pub(crate) running: usize,
}

/// Checks a request and decides what all hosts must agree on. PEs are placed on nodes of `available`.
pub(crate) fn layout(site: &Site<'_>, spec: &JobSpec, available: &[NodeId]) -> Result<Layout, Failure> {
    if spec.pes as usize > PES_MAX {
        return Err(failure(
            format!("{} PEs; a job has at most {PES_MAX}", spec.pes),
            format!("start at most {PES_MAX} PEs"),
        ));
    }
    if spec.ppn > site.channels as u32 {
        return Err(failure(
            format!("{} PEs per node, but a node has {} injection channels", spec.ppn, site.channels),
            format!("use --ppn {} or start the daemon with --channels {}", site.channels, spec.ppn),
        ));
    }
    let nodes = place(site.shape, available, spec.pes, spec.ppn, &spec.map)?;
    let heap_stride = usize::try_from(spec.heap)
        .ok()
        .and_then(|heap| heap.checked_add(INTERNAL_BYTES))
        .and_then(abi::page_round)
        .filter(|&stride| spec.heap > 0 && (stride as u64) < abi::desc::OFFSET_MAX)
        .ok_or_else(|| {
            failure(
                format!("a symmetric heap of {} bytes", spec.heap),
                "give a size from 4K to 128T, such as --heap 64M",
            )
        })?;
    Ok(Layout { nodes, heap_stride })
}

/// Takes endpoints and checks memory and descriptors for the PEs that live on this host.
pub(crate) fn reserve(
    site: &Site<'_>,
    spec: &JobSpec,
    layout: &Layout,
    endpoints: &mut Endpoints,
) -> Result<Share, Failure> {
    let pes: Vec<usize> =
        (0..layout.nodes.len()).filter(|pe| site.hosted.binary_search(&layout.nodes[*pe]).is_ok()).collect();
    check_memory(layout.heap_stride as u64, pes.len() as u32, &limits::memory_limits(site.memory_limit))?;
    check_descriptors(site.running + pes.len())?;
    let nodes: Vec<NodeId> = pes.iter().map(|pe| layout.nodes[*pe]).collect();
    let entries = endpoints.take(site.shape, &nodes, site.channels)?;
    let spans = pes.len() < layout.nodes.len();
    // The daemon works beside the PEs of a ring, and the kernel beside a daemon with trunks.
    let beside = if spans { 2 } else { usize::from(spec.path == Path::Ring) };
    let crowded = site.running + pes.len() + beside > limits::cores();
    Ok(Share { pes, entries, crowded })
}

/// `auto` is decided here, once for all PEs. Where some targets are behind the network (`spans`: on other
/// hosts), so is the barrier. Else, with a core for each PE, flags cross each other on their way; with fewer
/// cores, fewer switches between PEs win.
pub(crate) fn barrier(spec: &JobSpec, crowded: bool, spans: bool) -> Result<Barrier, Failure> {
    Ok(match (spec.barrier, spec.path) {
        (Barrier::Counter, _) if spans => {
            return Err(failure(
                "the counter barrier is in shared memory, but the job spans hosts",
                "leave --barrier out, use multiphase or dissemination, or start fewer PEs",
            ));
        }
        (_, Path::Direct) if spans => {
            return Err(failure(
                "--path direct reaches only PEs of the same host, but the job spans hosts",
                "leave --path out, or start fewer PEs",
            ));
        }
        (Barrier::Auto, Path::Ring) => Barrier::Multiphase,
        (Barrier::Auto, _) if spans => Barrier::Multiphase,
        (Barrier::Auto, _) if !crowded => Barrier::Dissemination,
        (Barrier::Auto, _) => Barrier::Counter,
        (chosen, _) => chosen,
    })
}

fn check_descriptors(pes: usize) -> Result<(), Failure> {
    let need = pes as u64 * FDS_PER_PE + FDS_RESERVE;
    match getrlimit(Resource::Nofile).current {
        Some(limit) if need > limit => Err(failure(
            format!("{pes} PEs need {need} file descriptors, the daemon may open {limit}"),
            format!("raise the limit before starting the daemon (`ulimit -n {need}`)"),
        )),
        _ => Ok(()),
    }
}

/// Endpoints in use at each node.
#[derive(Default)]
pub(crate) struct Endpoints {
    used: BTreeMap<NodeId, Vec<bool>>,
}

impl Endpoints {
    /// The lowest free endpoint at the node of each PE; all or nothing.
    fn take(&mut self, shape: Shape, nodes: &[NodeId], channels: u16) -> Result<Vec<PeEntry>, Failure> {
        let mut entries = Vec::with_capacity(nodes.len());
        for &node in nodes {
            let used = self.used.entry(node).or_insert_with(|| vec![false; channels as usize]);
            let Some(endpoint) = used.iter().position(|&u| !u) else {
                self.give_back(&entries);
                return Err(failure(
                    format!("node {node} has no free injection channel: all {channels} are in use"),
                    "wait for another job to end, place PEs elsewhere, or start the daemon with more --channels",
                ));
            };
            used[endpoint] = true;
            let coords = shape.coords(node);
            entries.push(PeEntry { node, coords, endpoint: endpoint as u16, attached: false });
        }
        Ok(entries)
    }

    /// Frees the endpoints of a job.
    pub(crate) fn give_back(&mut self, entries: &[PeEntry]) {
        for e in entries {
            if let Some(used) = self.used.get_mut(&e.node) {
                used[e.endpoint as usize] = false;
            }
        }
    }
}

/// 128 random bits as hexadecimal digits.
pub(crate) fn random_key() -> std::io::Result<String> {
    let mut bytes = [0u8; 16];
    let n = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    if n != bytes.len() {
        return Err(std::io::Error::other("the kernel gave too few random bytes"));
    }
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// One sentence about a PE's static segments.
pub(crate) fn show_segments(segments: &[u64]) -> String {
    match segments {
        [] => "no symmetric static data".into(),
        s => format!("static segments of {}", s.iter().map(|&b| show_size(b)).collect::<Vec<_>>().join(" + ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::job::Collectives;
    use abi::msg::Map;

    fn spec(pes: u32, ppn: u32) -> JobSpec {
        JobSpec {
            pes,
            ppn,
            map: Map::Linear,
            heap: 1 << 20,
            path: Path::Auto,
            barrier: Barrier::Auto,
            collectives: Collectives::Auto,
            name: "test".into(),
        }
    }

    fn try_plan(spec: &JobSpec, endpoints: &mut Endpoints) -> Result<Share, Failure> {
        let hosted: Vec<NodeId> = (0..8).collect();
        let shape = "2x2x2".parse().expect("shape");
        let site = Site { shape, hosted: &hosted, channels: 4, memory_limit: None, running: 0 };
        reserve(&site, spec, &layout(&site, spec, &hosted)?, endpoints)
    }

    #[test]
    fn a_host_takes_endpoints_for_its_own_pes_only() {
        let shape: Shape = "2x2x2".parse().expect("shape");
        let (all, hosted): (Vec<NodeId>, Vec<NodeId>) = ((0..8).collect(), (4..8).collect());
        let site = Site { shape, hosted: &hosted, channels: 4, memory_limit: None, running: 0 };
        let spec = spec(6, 1);
        let layout = layout(&site, &spec, &all).expect("fits");
        let share = reserve(&site, &spec, &layout, &mut Endpoints::default()).expect("fits");
        assert_eq!((share.pes, share.entries.len()), (vec![4, 5], 2));
        assert_eq!(barrier(&spec, false, true), Ok(Barrier::Multiphase));
        for refused in [JobSpec { path: Path::Direct, ..spec.clone() }, JobSpec { barrier: Barrier::Counter, ..spec }] {
            let f = barrier(&refused, false, true).expect_err("not across hosts");
            assert!(f.message.contains("spans hosts"), "{f:?}");
        }
    }

    #[test]
    fn endpoints_are_shared_out_and_given_back() {
        let mut endpoints = Endpoints::default();
        let first = try_plan(&spec(8, 2), &mut endpoints).expect("fits");
        assert_eq!(first.entries.iter().map(|e| e.endpoint).collect::<Vec<_>>(), [0, 1, 0, 1, 0, 1, 0, 1]);
        let second = try_plan(&spec(2, 2), &mut endpoints).expect("fits");
        assert_eq!(second.entries.iter().map(|e| (e.node, e.endpoint)).collect::<Vec<_>>(), [(0, 2), (0, 3)]);
        let full = try_plan(&spec(1, 1), &mut endpoints).expect_err("node 0 is full");
        assert!(full.message.contains("all 4 are in use"), "{full:?}");
        endpoints.give_back(&first.entries);
        assert_eq!(try_plan(&spec(1, 1), &mut endpoints).expect("free again").entries[0].endpoint, 0);
    }

    #[test]
    fn impossible_jobs_are_refused_with_a_remedy() {
        let mut endpoints = Endpoints::default();
        for (s, part) in [
            (spec(5000, 1), "at most 4096"),
            (spec(9, 1), "= 8"),
            (spec(8, 5), "4 injection channels"),
            (JobSpec { heap: u64::MAX, ..spec(1, 1) }, "symmetric heap"),
            (JobSpec { heap: 1 << 46, ..spec(8, 1) }, "MemAvailable"),
        ] {
            let f = try_plan(&s, &mut endpoints).expect_err("must be refused");
            assert!(f.message.contains(part) && !f.remedy.is_empty(), "{f:?}");
        }
    }

    #[test]
    fn keys_are_long_and_differ() {
        let (a, b) = (random_key().expect("random"), random_key().expect("random"));
        assert_eq!((a.len(), a == b), (32, false));
    }
}
