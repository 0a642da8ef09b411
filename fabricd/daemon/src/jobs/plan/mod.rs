//! Where the PEs of a job go and what they need: decided, checked and reserved without touching the network.

pub(crate) mod placement;
mod sets;

use super::descriptor::NewJob;
use crate::failure::failure;
use crate::machine::Machine;
use angara_abi::job::{Barrier, PES_MAX, PeEntry, Seat, internal_bytes};
use angara_fabric::{BarrierFamily, BarrierWork, JobSlot};
use angara_net::HostId;
use angara_net::torus::{NodeId, Shape};
use angara_protocol::msg::{Failure, JobSpec, Path};
use placement::{Nodes, check_memory, place};
use rustix::process::{Resource, getrlimit};
use std::collections::BTreeMap;

/// Descriptors the daemon keeps per PE: connection, pidfd, doorbell, counters, and the register page of its node.
const FDS_PER_PE: u64 = 5;
/// Descriptors kept free for connections, pages and jobs.
const FDS_RESERVE: u64 = 128;

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
    pub(crate) machine: &'a dyn Machine,
    /// PEs of the jobs that run already.
    pub(crate) running: usize,
    /// PEs are in this process, and have no descriptors.
    pub(crate) inside: bool,
}

/// Checks a request and decides what all hosts must agree on. PEs are placed on nodes of `available`
/// that have channels beside those `taken`.
pub(crate) fn layout(
    site: &Site<'_>,
    spec: &JobSpec,
    available: &[NodeId],
    taken: &BTreeMap<NodeId, u32>,
) -> Result<Layout, Failure> {
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
    let taken = |node| taken.get(&node).copied().unwrap_or(0);
    let free = |node| u32::from(site.channels).saturating_sub(taken(node));
    let nodes = place(site.shape, Nodes { all: available, free: &free, taken: &taken }, spec.pes, spec.ppn, &spec.map)?;
    let heap = match spec.heap_may_shrink {
        true => spec.heap.min(allowed_heap(site, spec.pes, nodes.iter())),
        false => spec.heap,
    };
    let heap_stride = usize::try_from(heap)
        .ok()
        .and_then(|heap| heap.checked_add(internal_bytes(spec.pes as usize)))
        .and_then(angara_abi::page_round)
        .and_then(|charged| charged.checked_add(registered_bytes(spec.registered, spec.pes) as usize))
        .filter(|&stride| (stride as u64) < angara_abi::desc::OFFSET_MAX)
        .ok_or_else(|| {
            failure(format!("a symmetric heap of {} bytes", spec.heap), "give a size up to 128T, such as --heap 64M")
        })?;
    Ok(Layout { nodes, heap_stride })
}

/// Addresses of a process that registered memory of all PEs of a job may take. An eighth of what x86-64 has: the process has
/// other things to map, and may be in several domains.
const REGISTERED_MOST: u64 = 16 << 40;
/// What is less than this is not worth having, and multiples of it are given. Ours.
const REGISTERED_UNIT: u64 = 1 << 30;

/// Bytes for registered memory of each of so many PEs.
pub(crate) fn registered_bytes(wished: u64, pes: u32) -> u64 {
    wished.min(REGISTERED_MOST / u64::from(pes.max(1))) & !(REGISTERED_UNIT - 1)
}

/// What a job that is being made has here.
pub(crate) struct Reservation {
    /// Host that makes it, if it is another one.
    pub(crate) coordinator: Option<HostId>,
    pub(super) new: NewJob,
    pub(super) share: Share,
    /// Seats that were taken on other hosts before the job was open here: PE and word.
    pub(super) seats: Vec<(u32, u32)>,
    /// A domain that other hosts have had before: what its seats here have been through is to be asked first.
    pub(super) is_late: bool,
}

impl Reservation {
    pub(crate) fn slot(&self) -> JobSlot {
        self.new.slot
    }
}

/// Bytes that a PE in this process takes beside its heap, about: its channel, stack, copy of the program, and what the library
/// touches of its area.
const INSIDE_BYTES: u64 = 192 << 10;

/// Bytes of symmetric memory that a PE may take, of a slice of N.
fn taken_of(site: &Site<'_>, pes: u32, heap_stride: u64) -> u64 {
    match site.inside {
        // Where there are many, most of the library's area is never touched.
        true => heap_stride - internal_bytes(pes as usize) as u64 + INSIDE_BYTES,
        false => heap_stride,
    }
}

/// The heap per PE with which a job may take half of the memory that this host's limits leave to it, in whole
/// megabytes and no less than one; less, where there may be many PEs in this process.
fn allowed_heap<'a>(site: &Site<'_>, pes: u32, nodes: impl Iterator<Item = &'a NodeId>) -> u64 {
    let here = nodes.filter(|node| site.hosted.binary_search(node).is_ok()).count().max(1);
    let limits = site.machine.memory_limits(site.memory_limit);
    let half = limits.iter().map(|(_, limit)| limit / 2).min().unwrap_or(u64::MAX);
    let (beside, unit) = match site.inside {
        true => (INSIDE_BYTES, 64 << 10),
        false => (internal_bytes(pes as usize) as u64, 1 << 20),
    };
    let heap = (half / here as u64).saturating_sub(beside);
    (heap & !(unit - 1)).max(unit)
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
    // Of an open job nobody knows how many will come; each is checked then.
    let coming = if spec.open { 1 } else { pes.len() };
    let charged = (layout.heap_stride as u64).saturating_sub(registered_bytes(spec.registered, spec.pes));
    let each = taken_of(site, spec.pes, charged);
    check_memory(each, coming as u32, &site.machine.memory_limits(site.memory_limit))?;
    if !site.inside {
        check_descriptors(site.running + coming)?;
    }
    let nodes: Vec<NodeId> = pes.iter().map(|pe| layout.nodes[*pe]).collect();
    let entries = endpoints.take(site.shape, &nodes, site.channels)?;
    let spans = pes.len() < layout.nodes.len();
    // The daemon works beside the PEs of a ring, and the kernel beside a daemon with trunks.
    let beside = if spans { 2 } else { usize::from(spec.path == Path::Ring) };
    let crowded = site.running + coming + beside > site.machine.cores();
    Ok(Share { pes, entries, crowded })
}

/// `auto` is decided here, once for all PEs. Where some targets are behind the network (`spans`: on other
/// hosts), so is the barrier: the one that costs the emulation less, for PEs at `nodes`. Else, with a core for each PE, flags
/// cross each other on their way; with fewer cores, fewer switches between PEs win.
pub(crate) fn barrier(
    spec: &JobSpec,
    shape: Shape,
    nodes: &[NodeId],
    crowded: bool,
    spans: bool,
) -> Result<Barrier, Failure> {
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
        (Barrier::Auto, path) if spans || path == Path::Ring => match BarrierWork::new(shape, nodes).choice() {
            BarrierFamily::Tree => Barrier::Tree,
            _ => Barrier::Multiphase,
        },
        (Barrier::Auto, _) if !crowded => Barrier::Dissemination,
        (Barrier::Auto, _) => Barrier::Counter,
        (chosen, _) => chosen,
    })
}

pub(crate) fn check_descriptors(pes: usize) -> Result<(), Failure> {
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
            entries.push(PeEntry { node, coords, endpoint: endpoint as u16, seat: Seat::FREE });
        }
        Ok(entries)
    }

    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        self.used.values().flatten().filter(|used| **used).count()
    }

    #[cfg(test)]
    fn taken(&self, node: NodeId) -> u32 {
        self.used.get(&node).map_or(0, |used| used.iter().filter(|u| **u).count() as u32)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Real;
    use angara_abi::job::Collectives;
    use angara_protocol::msg::Map;

    fn spec(pes: u32, ppn: u32) -> JobSpec {
        JobSpec {
            pes,
            ppn,
            map: Map::Linear,
            heap: 1 << 20,
            heap_may_shrink: false,
            registered: 0,
            path: Path::Auto,
            barrier: Barrier::Auto,
            collectives: Collectives::Auto,
            name: "test".into(),
            alloc: None,
            open: false,
            heterogeneous: false,
        }
    }

    fn try_plan(spec: &JobSpec, endpoints: &mut Endpoints) -> Result<Share, Failure> {
        let hosted: Vec<NodeId> = (0..8).collect();
        let shape = "2x2x2".parse().expect("shape");
        let site =
            Site { shape, hosted: &hosted, channels: 4, memory_limit: None, machine: &Real, running: 0, inside: false };
        let taken = (0..8).map(|node| (node, endpoints.taken(node))).collect();
        reserve(&site, spec, &layout(&site, spec, &hosted, &taken)?, endpoints)
    }

    #[test]
    fn a_host_takes_endpoints_for_its_own_pes_only() {
        let shape: Shape = "2x2x2".parse().expect("shape");
        let (all, hosted): (Vec<NodeId>, Vec<NodeId>) = ((0..8).collect(), (4..8).collect());
        let site =
            Site { shape, hosted: &hosted, channels: 4, memory_limit: None, machine: &Real, running: 0, inside: false };
        let spec = spec(6, 1);
        let layout = layout(&site, &spec, &all, &BTreeMap::new()).expect("fits");
        let share = reserve(&site, &spec, &layout, &mut Endpoints::default()).expect("fits");
        assert_eq!((share.pes, share.entries.len()), (vec![4, 5], 2));
        let barrier = |spec: &JobSpec, spans| barrier(spec, shape, &layout.nodes, false, spans);
        assert_eq!(barrier(&spec, true), Ok(Barrier::Multiphase));
        assert_eq!(barrier(&spec, false), Ok(Barrier::Dissemination));
        for refused in [JobSpec { path: Path::Direct, ..spec.clone() }, JobSpec { barrier: Barrier::Counter, ..spec }] {
            let f = barrier(&refused, true).expect_err("not across hosts");
            assert!(f.message.contains("spans hosts"), "{f:?}");
        }
    }

    #[test]
    fn pes_behind_the_network_meet_where_it_costs_least() {
        let shape: Shape = "16x16x16".parse().expect("shape");
        let chosen = |nodes: &[NodeId], barrier_wanted, path| {
            let spec = JobSpec { path, barrier: barrier_wanted, ..spec(nodes.len() as u32, 1) };
            barrier(&spec, shape, nodes, true, false).expect("possible")
        };
        let (near, far) = ([0, 1, 16, 17, 256, 257, 272, 273], [17, 700, 1203, 1999, 2345, 3010, 3500, 4001]);
        assert_eq!(chosen(&near, Barrier::Auto, Path::Ring), Barrier::Multiphase);
        assert_eq!(chosen(&far, Barrier::Auto, Path::Ring), Barrier::Tree);
        assert_eq!(chosen(&far, Barrier::Multiphase, Path::Ring), Barrier::Multiphase, "as asked");
        assert_eq!(chosen(&far, Barrier::Auto, Path::Auto), Barrier::Counter, "in shared memory");
    }

    #[test]
    fn endpoints_are_shared_out_and_given_back() {
        let mut endpoints = Endpoints::default();
        let first = try_plan(&spec(8, 2), &mut endpoints).expect("fits");
        assert_eq!(first.entries.iter().map(|e| e.endpoint).collect::<Vec<_>>(), [0, 1, 0, 1, 0, 1, 0, 1]);
        let node_0 = JobSpec { map: Map::List(vec![0; 2]), ..spec(2, 2) };
        let second = try_plan(&node_0, &mut endpoints).expect("fits");
        assert_eq!(second.entries.iter().map(|e| (e.node, e.endpoint)).collect::<Vec<_>>(), [(0, 2), (0, 3)]);
        // Others have fewer PEs, and node 0 is full: it is not taken, unless it was asked for.
        let next = try_plan(&spec(1, 1), &mut endpoints).expect("there are others");
        assert_eq!((next.entries[0].node, next.entries[0].endpoint), (4, 0));
        let wanted = JobSpec { map: Map::List(vec![0]), ..spec(1, 1) };
        let full = try_plan(&wanted, &mut endpoints).expect_err("node 0 is full");
        assert!(full.message.contains("all 4 are in use"), "{full:?}");
        endpoints.give_back(&first.entries);
        assert_eq!(try_plan(&spec(1, 1), &mut endpoints).expect("free again").entries[0].endpoint, 0);
    }

    #[test]
    fn jobs_go_to_nodes_with_free_channels_until_there_are_none() {
        let mut endpoints = Endpoints::default();
        let node_0 = JobSpec { map: Map::List(vec![0; 4]), ..spec(4, 4) };
        try_plan(&node_0, &mut endpoints).expect("fits");
        let places = |share: &Share| share.entries.iter().map(|e| e.node).collect::<Vec<_>>();
        for map in [Map::Linear, Map::Random(7)] {
            let share = try_plan(&JobSpec { map, ..spec(7, 1) }, &mut endpoints).expect("seven nodes are free");
            let mut nodes = places(&share);
            nodes.sort_unstable();
            assert_eq!(nodes, [1, 2, 3, 4, 5, 6, 7]);
        }
        // No node has four channels any more, but two each are enough together.
        let share = try_plan(&spec(4, 4), &mut endpoints).expect("fits");
        assert_eq!(places(&share), [1, 1, 2, 2]);
        let f = try_plan(&spec(16, 4), &mut endpoints).expect_err("ten are left");
        assert!(f.message.contains("16 PEs") && f.message.contains("10 of 10 free channels"), "{f:?}");
        assert!(!f.remedy.is_empty());
    }

    #[test]
    fn a_heap_nobody_asked_for_shrinks_to_what_memory_allows() {
        let hosted: Vec<NodeId> = (0..8).collect();
        let shape = "2x2x2".parse().expect("shape");
        let site = Site {
            shape,
            hosted: &hosted,
            channels: 4,
            memory_limit: Some(64 << 20),
            machine: &Real,
            running: 0,
            inside: false,
        };
        let heap = |spec: &JobSpec| {
            layout(&site, spec, &hosted, &BTreeMap::new()).expect("fits").heap_stride - internal_bytes(8)
        };
        let asked = JobSpec { heap: 256 << 20, ..spec(8, 1) };
        assert_eq!(heap(&asked), 256 << 20);
        let default = JobSpec { heap_may_shrink: true, ..asked };
        assert_eq!(heap(&default), 3 << 20);
        assert_eq!(heap(&JobSpec { pes: 1, ..default.clone() }), 31 << 20);
        assert_eq!(heap(&JobSpec { heap: 1 << 20, ..default }), 1 << 20);
        assert_eq!(heap(&JobSpec { heap: 0, ..spec(1, 1) }), 0, "a heap of no bytes is one");
    }

    #[test]
    fn impossible_jobs_are_refused_with_a_remedy() {
        let mut endpoints = Endpoints::default();
        for (s, part) in [
            (spec(70_000, 1), "at most 65536"),
            (spec(9, 1), "= 8"),
            (spec(8, 5), "4 injection channels"),
            (JobSpec { heap: u64::MAX, ..spec(1, 1) }, "symmetric heap"),
            (JobSpec { heap: 1 << 46, ..spec(8, 1) }, "MemAvailable"),
        ] {
            let f = try_plan(&s, &mut endpoints).expect_err("must be refused");
            assert!(f.message.contains(part) && !f.remedy.is_empty(), "{f:?}");
        }
    }
}
