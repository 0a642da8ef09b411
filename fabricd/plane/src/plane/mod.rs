//! All that a data plane owns: the network, the jobs in it, and the channels being served.

mod inspect;
pub(crate) mod serve;

use crate::channels::lane::Lane;
use crate::channels::outstanding::{Outstanding, Owner, Ports};
use crate::command::{Command, Ear, Handle, JobKey, Reply};
use crate::config::{Clock, Config};
use crate::faults::book::FaultBook;
use crate::jobs::job::{Account, Jobs, OpenJob};
use crate::jobs::memory::{JobMemory, PeMemory};
use crate::notice::{Gauges, Notice};
use crate::observe::capture::Captures;
use crate::observe::figures::Rounds;
use crate::registers::{RegisterPage, Registers};
use crate::trunks::{TrunkEvent, TrunkFigures, Trunks};
use crate::virtual_time::coroutines::Coroutines;
use crate::virtual_time::record::Record;
use crate::virtual_time::standing::{OPS_PER_PORT, VirtualRun};
use angara_abi::JobId;
use angara_abi::account::Load;
use angara_abi::channel::Fault;
use angara_abi::job::{Barrier, Reach};
use angara_abi::shm::Source;
use angara_abi::wait::{Kernel, Linux};
use angara_fabric::{BarrierFamily, Fabric, JobSlot, Link, Port, Routes, Tick};
use angara_net::HostId;
use angara_net::fault::TrunkChange;
use angara_net::torus::{NodeId, Shape};
use angara_trunk::KeyRing;
use rustix::event::epoll;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Instant;

/// Rounds a departing PE's channel is served on, so that its last posts are not lost.
const DRAIN_ROUNDS: usize = 1024;

/// A data plane.
pub struct DataPlane {
    pub(crate) shape: Shape,
    pub(crate) channels: u16,
    pub(crate) fabric: Fabric,
    /// The route tables as they were when traffic was last counted into links.
    pub(crate) routes: Routes,
    pub(crate) ports: Ports,
    pub(crate) jobs: Jobs,
    pub(crate) lanes: Vec<Option<Lane>>,
    /// Indices of the lanes in use, where each is among them, and those of the others.
    pub(crate) active: Vec<usize>,
    active_at: Vec<usize>,
    free_lanes: BinaryHeap<Reverse<usize>>,
    pub(crate) outstanding: Outstanding,
    pub(crate) registers: BTreeMap<NodeId, Registers>,
    /// Barriers left and phases of the latest one, by node.
    pub(crate) barriers: BTreeMap<NodeId, (u64, u64)>,
    /// Counters changed since the register pages were written.
    pub(crate) stale: bool,
    pub(crate) faults: FaultBook,
    /// While links are slow, the network's time runs no faster than the clock on the wall: it was then, and that.
    pub(crate) pace: Option<(Instant, Tick)>,
    /// Owner of each tree.
    pub(crate) trees: [Option<JobSlot>; angara_abi::TREES],
    pub(crate) epoll: OwnedFd,
    pub(crate) gauges: Arc<Gauges>,
    /// PEs that stand and PEs that are due, in virtual time.
    pub(crate) virtual_time: Option<VirtualRun>,
    /// The PEs themselves, where they are on this thread.
    pub(crate) coroutines: Option<Box<dyn Coroutines>>,
    /// Captures.
    pub(crate) captures: Captures,
    /// To the other hosts of the cluster, if there are any.
    pub(crate) trunks: Option<Trunks>,
    /// What closed jobs have put on links without the network, if somebody may look at counters: they never go back.
    pub(crate) past: Option<BTreeMap<Link, Load>>,
    /// Rounds with work and without, and sleeps.
    pub(crate) rounds: Rounds,
    /// Seats whose processes have left, and who is told when nothing of them is on its way.
    leaving: Vec<Leaving>,
    /// Events of trunks that are about to be reported.
    words: Vec<TrunkEvent>,
    /// The clock on the wall.
    pub(crate) clock: Clock,
    pub(crate) commands: Receiver<Command>,
    notices: Box<dyn FnMut(Notice) + Send>,
    _wake: Arc<OwnedFd>,
}

/// A seat whose process has left.
struct Leaving {
    job: JobKey,
    pe: usize,
    tell: Reply<()>,
}

impl DataPlane {
    /// A data plane and the way to it. It does nothing until somebody has it run: [`crate::start`] or
    /// [`DataPlane::run_for`]. `notices` hears what it says unasked, on the thread that runs it.
    pub fn new(config: Config, notices: impl FnMut(Notice) + Send + 'static) -> io::Result<(Handle, DataPlane)> {
        let (handle, Ear { commands, wake, gauges }) = Handle::new()?;
        if let Some(coroutines) = &config.coroutines {
            let _ = gauges.wanted.set(coroutines.wanted());
        }
        let Config { shape, channels, clock, virtual_time, record, .. } = config;
        let record = record.filter(|_| virtual_time.is_some()).map(|to| Record::create(to, config.seed)).transpose()?;
        let mut network = angara_fabric::Config {
            seed: config.seed,
            // Without other hosts the routers of all nodes are emulated here, also of those that host no PE.
            owned: config.trunks.as_ref().map(|trunks| trunks.nodes.clone()),
            trains: virtual_time.is_none(),
            check_order: virtual_time.is_some(),
            params: config.params,
            ..angara_fabric::Config::new(shape)
        };
        if virtual_time.is_some() {
            network.params.ops_per_port = OPS_PER_PORT;
        }
        let fabric = Fabric::new(network).map_err(io::Error::other)?;
        let trunks = config.trunks.map(|trunks| Trunks::new(trunks, &fabric, clock)).transpose()?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &wake, epoll::EventData::new_u64(0), epoll::EventFlags::IN | epoll::EventFlags::ET)?;
        let mut plane = DataPlane {
            shape,
            channels,
            routes: fabric.routes().clone(),
            fabric,
            ports: Ports::default(),
            jobs: Jobs::default(),
            lanes: Vec::new(),
            active: Vec::new(),
            active_at: Vec::new(),
            free_lanes: BinaryHeap::new(),
            outstanding: Outstanding::default(),
            registers: BTreeMap::new(),
            barriers: BTreeMap::new(),
            stale: false,
            faults: FaultBook::default(),
            pace: None,
            trees: [None; angara_abi::TREES],
            epoll,
            gauges,
            virtual_time: virtual_time.map(|v| VirtualRun::new(&v, record)),
            coroutines: config.coroutines,
            captures: Captures::default(),
            trunks,
            past: config.watched.then(BTreeMap::new),
            rounds: Rounds::default(),
            leaving: Vec::new(),
            words: Vec::new(),
            clock,
            commands,
            notices: Box::new(notices),
            _wake: wake,
        };
        // A cluster agrees on them first, when their time has come.
        let alone = plane.trunks.is_none();
        for fault in config.faults.into_iter().filter(|fault| alone || fault.at.is_some()) {
            plane.set_fault(fault).map_err(io::Error::other)?;
        }
        Ok((handle, plane))
    }

    /// Enters a job into the network.
    pub(crate) fn open_job(&mut self, memory: Arc<JobMemory>) -> Result<(), String> {
        let ports: Vec<Port> = memory.entries.iter().map(|e| Port { node: e.node, endpoint: e.endpoint }).collect();
        let opened = match &memory.set {
            Some(set) => self.fabric.open_job_in(memory.slot, memory.generation, &ports, set),
            None => self.fabric.open_job_as(memory.slot, memory.generation, &ports),
        };
        opened.map_err(|e| e.to_string())?;
        if memory.set.is_some() {
            self.routes_changed();
        }
        let family = memory.page.geometry().and_then(|g| family(g.barrier)).unwrap_or_default();
        self.fabric.set_barrier_family(memory.slot, family).map_err(|e| e.to_string())?;
        for (pe, &port) in ports.iter().enumerate() {
            self.ports.set(port, Some(Owner { slot: memory.slot, pe: pe as u32 }));
        }
        let (pes, open, expected) = (memory.pes, memory.open, memory.pes_here());
        let job = OpenJob {
            memory,
            attached: 0,
            expected,
            pes: (0..pes).map(|_| None).collect(),
            lanes: vec![None; pes],
            lost: vec![open; pes],
            account: Account::default(),
        };
        self.jobs.insert(job);
        self.jobs_changed();
        self.record_begins(&ports, family)
    }

    /// Removes a job and all it has in the network.
    pub(crate) fn close_job(&mut self, slot: JobSlot) {
        let Some(job) = self.jobs.remove(slot) else { return };
        self.record_ends();
        self.remember(&job);
        for lane in job.lanes.iter().flatten() {
            self.drop_lane(*lane);
        }
        for tree in 0..angara_abi::TREES {
            if self.trees[tree] == Some(slot) {
                self.trees[tree] = None;
                self.fabric.unload_tree(tree as u8);
                self.forget_tree(tree as u8);
            }
        }
        self.fabric.close_job(slot);
        if job.memory.set.is_some() {
            self.routes_changed();
        }
        for e in &job.memory.entries {
            self.ports.set(Port { node: e.node, endpoint: e.endpoint }, None);
        }
        self.faults.job_closed(self.jobs.values().any(OpenJob::complete));
        if let Some(run) = self.virtual_time.as_mut().filter(|_| self.jobs.is_empty()) {
            run.over = false;
        }
        self.jobs_changed();
    }

    /// Serves the channel of a PE, process `pid`, from now on; returns its node's register page.
    pub(crate) fn attach(&mut self, slot: JobSlot, pe: Arc<PeMemory>, pid: i32) -> io::Result<RegisterPage> {
        let gone = || io::Error::other("the job has ended");
        let memory = self.jobs.get(slot).ok_or_else(gone)?.memory.clone();
        let entry = memory.entries[pe.pe];
        let page = self.register_page(entry.node, memory.source())?;
        if let Some(doorbell) = &pe.doorbell {
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&self.epoll, doorbell, epoll::EventData::new_u64(0), flags)?;
        }
        let job = self.jobs.get_mut(slot).ok_or_else(gone)?;
        let port = Port { node: entry.node, endpoint: entry.endpoint };
        let lane = Lane::new(port, job.memory.clone(), pe.clone(), pid);
        let index = self.free_lanes.pop().map_or(self.lanes.len(), |Reverse(index)| index);
        if index == self.lanes.len() {
            self.lanes.push(None);
            self.active_at.push(0);
        }
        self.lanes[index] = Some(lane);
        self.active_at[index] = self.active.len();
        self.active.push(index);
        if let Some(run) = &mut self.virtual_time {
            run.runs(index);
        }
        job.lanes[pe.pe] = Some(index);
        job.attached += usize::from(job.pes[pe.pe].replace(pe.clone()).is_none());
        if job.complete() {
            self.faults.job_complete((self.clock)());
        }
        // At a seat that was empty others reach somebody from now on.
        let was_lost = std::mem::replace(&mut job.lost[pe.pe], false);
        // PEs in this process have one table, which the first has filled.
        if !self.shares_reach(slot) || self.active.len() == 1 {
            self.show_reach(slot, Ways::From(pe.pe));
        }
        if was_lost {
            self.show_reach(slot, Ways::To(pe.pe));
        }
        Ok(page)
    }

    /// True if a job still has its slot. Whoever is told late that it has ended may name a slot that is another job's.
    pub(crate) fn has_job(&self, slot: JobSlot, id: JobId) -> bool {
        self.jobs.get(slot).is_some_and(|job| job.memory.id == id)
    }

    /// Stops serving the channel of a PE of a job. `lost`: it did not say goodbye.
    pub(crate) fn detach(&mut self, (slot, id): JobKey, pe: usize, lost: bool) {
        if !self.has_job(slot, id) {
            return;
        }
        let lane = self.jobs.get(slot).and_then(|j| *j.lanes.get(pe)?);
        let Some(lane) = lane else { return };
        if self.virtual_time.is_some() {
            self.left_virtual_time(lane, lost);
        } else if !lost {
            for _ in 0..DRAIN_ROUNDS {
                if !self.poll_lane(lane) && !self.run_network(&mut self.turn()) {
                    break;
                }
            }
        }
        self.drop_lane(lane);
        let Some(job) = self.jobs.get_mut(slot) else { return };
        job.lanes[pe] = None;
        if job.memory.open {
            job.retire(pe, &self.routes);
        }
        if lost || job.memory.open {
            job.lost[pe] = true;
            self.show_reach(slot, Ways::To(pe));
        }
    }

    /// Tells when nothing that this PE has posted is on its way any more, or its job is over: then another process may take
    /// its seat.
    pub(crate) fn when_quiet(&mut self, job: JobKey, pe: usize, tell: Reply<()>) {
        self.leaving.push(Leaving { job, pe, tell });
    }

    /// Behind a round: tells those who wait for a seat to be quiet.
    #[inline]
    pub(crate) fn look_at_leaving(&mut self) {
        if !self.leaving.is_empty() {
            self.tell_quiet();
        }
    }

    #[cold]
    fn tell_quiet(&mut self) {
        for Leaving { job, pe, tell } in std::mem::take(&mut self.leaving) {
            if self.is_quiet(job, pe) {
                tell.send(());
            } else {
                self.leaving.push(Leaving { job, pe, tell });
            }
        }
    }

    fn is_quiet(&self, (slot, id): JobKey, pe: usize) -> bool {
        let job = self.jobs.get(slot).filter(|job| job.memory.id == id);
        let entry = job.and_then(|job| job.memory.entries.get(pe));
        entry.is_none_or(|e| self.fabric.is_quiet(Port { node: e.node, endpoint: e.endpoint }))
    }

    fn drop_lane(&mut self, index: usize) {
        if let Some(lane) = self.lanes[index].take() {
            // The client may hold the same eventfd open, so closing ours would not remove it.
            if let Some(Err(e)) = lane.memory.doorbell.as_ref().map(|bell| epoll::delete(&self.epoll, bell)) {
                tracing::warn!(error = %e, "cannot stop watching a doorbell");
            }
        }
        self.outstanding.drop_lane(index);
        let at = self.active_at[index];
        if self.active.get(at) == Some(&index) {
            self.active.swap_remove(at);
            if let Some(&moved) = self.active.get(at) {
                self.active_at[moved] = at;
            }
            self.free_lanes.push(Reverse(index));
        }
    }

    /// Puts a channel into its sticky error state: nothing more is taken from it.
    pub(crate) fn break_lane(&mut self, index: usize, fault: Fault, seq: u32, why: &str) {
        let Some(lane) = self.lanes.get_mut(index).and_then(Option::as_mut).filter(|l| !l.broken) else { return };
        lane.broken = true;
        lane.pending = None;
        lane.memory.channel.set_error(fault, seq);
        if let Some(clock) = &lane.memory.clock {
            clock.end();
            Linux.futex_wake(clock.goes());
        }
        lane.job.sync.alert(lane.pe);
        let (job, pe, node) = (lane.job.id, lane.pe as u32, lane.port.node);
        let reason = format!("{} (post {seq}): {why}", fault.describe());
        if fault != Fault::Unreachable {
            self.count_violation(node);
        }
        // Who is told also logs it.
        self.notice(Notice::ChannelError { job, pe, reason });
    }

    pub(crate) fn count_violation(&mut self, node: NodeId) {
        self.gauges.violations.fetch_add(1, Ordering::Relaxed);
        if let Some(registers) = self.registers.get_mut(&node) {
            registers.count_error();
        }
    }

    /// A process on another host has become a PE of an open job, or a PE there has gone: nobody reaches it any more.
    pub(crate) fn set_elsewhere(&mut self, slot: JobSlot, pe: usize, there: bool) {
        if let Some(lost) = self.jobs.get_mut(slot).and_then(|j| j.lost.get_mut(pe)) {
            *lost = !there;
            self.show_reach(slot, Ways::To(pe));
        }
    }

    /// Takes what the trunks brought; whether there was anything.
    pub(crate) fn poll_trunks(&mut self) -> bool {
        let Some(trunks) = &mut self.trunks else { return false };
        let work = trunks.poll(&mut self.fabric, &mut self.words);
        for word in self.words.drain(..) {
            (self.notices)(Notice::Trunk(word));
        }
        work
    }

    /// Hands the trunks what leaves this host; whether there was anything.
    pub(crate) fn gather_trunks(&mut self) -> bool {
        self.trunks.as_mut().is_some_and(|t| t.gather(&mut self.fabric))
    }

    /// Sends what the trunks have.
    pub(crate) fn send_trunks(&mut self) {
        if let Some(trunks) = &mut self.trunks {
            trunks.send();
        }
    }

    pub(crate) fn notice(&mut self, notice: Notice) {
        (self.notices)(notice);
    }

    /// Makes the trunk to a host, or those to all but `except`, bad or good again.
    pub(crate) fn impair(&mut self, host: Option<HostId>, except: Option<HostId>, change: TrunkChange) {
        if let Some(trunks) = &mut self.trunks {
            trunks.impair(host, except, change);
        }
    }

    /// Other keys for the trunks from now on.
    pub(crate) fn set_keys(&mut self, keys: &KeyRing) {
        if let Some(trunks) = &mut self.trunks {
            trunks.set_keys(keys);
        }
    }

    /// Sends a message to the daemon of another host.
    pub(crate) fn tell(&mut self, host: HostId, message: &[u8]) {
        if let Some(trunks) = &mut self.trunks {
            trunks.tell(host, message);
        }
    }

    /// Figures of the trunks, datagrams of strangers, and the socket engine in use.
    pub(crate) fn trunk_figures(&self) -> (Vec<TrunkFigures>, u64, String) {
        self.trunks.as_ref().map_or_else(Default::default, |t| (t.figures(), t.strangers(), t.engine()))
    }

    /// The lane behind a port.
    pub(crate) fn lane_at(&self, port: Port) -> Option<usize> {
        let owner = self.ports.get(port)?;
        *self.jobs.get(owner.slot)?.lanes.get(owner.pe as usize)?
    }

    /// The PEs of a job are in this process, and share a table.
    fn shares_reach(&self, slot: JobSlot) -> bool {
        self.jobs.get(slot).is_some_and(|job| matches!(job.memory.source(), Source::Arena(_)))
    }

    /// Writes how PEs of a job reach each other.
    pub(crate) fn show_reach(&self, slot: JobSlot, ways: Ways) {
        let Some(job) = self.jobs.get(slot) else { return };
        let (from, to) = match ways {
            Ways::All => (0..job.pes.len(), 0..job.memory.pes),
            Ways::From(pe) => (pe..pe + 1, 0..job.memory.pes),
            Ways::To(pe) => (0..job.pes.len(), pe..pe + 1),
        };
        // Where all share one table, a PE of a node that works speaks for all.
        let up = |pe: &&Arc<PeMemory>| self.fabric.routes().node_up(job.memory.entries[pe.pe].node);
        let speaker = job.pes.iter().flatten().find(up).filter(|_| self.shares_reach(slot));
        let speakers: Vec<&Arc<PeMemory>> = match speaker {
            Some(pe) => vec![pe],
            None => job.pes[from].iter().flatten().collect(),
        };
        for pe in speakers {
            let here = job.memory.entries[pe.pe].node;
            for target in to.clone() {
                let there = job.memory.entries[target].node;
                let both_ways = self.fabric.reachable(here, there) && self.fabric.reachable(there, here);
                let usual = if job.memory.direct(target) { Reach::Direct } else { Reach::Ring };
                let reach = if job.lost[target] || !both_ways { Reach::Unreachable } else { usual };
                if pe.targets.get(target) != reach {
                    pe.targets.set(target, reach);
                }
            }
        }
    }
}

/// Ways between PEs of a job. One that comes or goes changes its own: a large job has many others.
#[derive(Clone, Copy)]
pub(crate) enum Ways {
    All,
    From(usize),
    To(usize),
}

/// Returns what the adapters do; `None` for barriers that are none of theirs.
fn family(barrier: Barrier) -> Option<BarrierFamily> {
    Some(match barrier {
        Barrier::Multiphase => BarrierFamily::Multiphase,
        Barrier::AllToAll => BarrierFamily::AllToAll,
        Barrier::Tree => BarrierFamily::Tree,
        Barrier::Hypercube => BarrierFamily::Hypercube,
        Barrier::Master => BarrierFamily::Master,
        Barrier::Counting => BarrierFamily::Counting,
        Barrier::Auto | Barrier::Counter | Barrier::Dissemination => return None,
    })
}
