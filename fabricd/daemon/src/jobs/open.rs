//! Open jobs, called *domains*: processes that know of no launcher take seats in them and leave as they like.
//!
//! A domain belongs to a user and has a name. The first process that asks for it has it made, on all hosts; its PEs are
//! seats, each a channel at a node. Every host hands out the seats of its own nodes. A process that leaves, with or
//! without a goodbye, leaves an empty seat: others cannot reach it, nothing else happens to them. Another process may
//! take the seat once nothing of the one before is on its way; the seat's count of lives then tells the two apart. A domain
//! nobody has been in for a while ends.

use super::job::{Job, Owner, PeState};
use super::plan::check_descriptors;
use super::plan::placement::check_memory;
use crate::ask::ask;
use crate::daemon::Daemon;
use crate::failure::{failure, no_memory};
use angara_abi::job::{Barrier, Collectives, INTERNAL_BYTES, JobState, PES_MAX, Seat};
use angara_abi::{ABI_VERSION, JobId};
use angara_net::torus::NodeId;
use angara_net::units::show_bytes;
use angara_plane::Command;
use angara_plane::{JobMemory, PeFds, PeMemory};
use angara_protocol::msg::{Failure, JobSpec, Map, Path};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Longest name of a domain, in bytes.
const NAME_MAX: usize = 64;
/// How long a domain stays when nobody is in it: a process on its way finds it, and the next program needs no new one.
const LINGER: Duration = Duration::from_secs(2);
/// How long to wait for somebody else to make the domain, or for its seats to become free.
const PATIENCE: Duration = Duration::from_secs(10);
/// Where another host refuses because somebody there is making it, too, this host may not hear what becomes of that: so
/// soon it asks again.
const AGAIN: Duration = Duration::from_millis(5);

/// What a process asks for.
pub(crate) struct Wish {
    pub(crate) abi: u32,
    pub(crate) domain: String,
    pub(crate) hint: Option<u32>,
    pub(crate) heap: u64,
    pub(crate) registered: u64,
    pub(crate) path: Path,
}

/// A seat that has been taken.
pub(crate) struct Claim {
    pub(crate) job: Arc<JobMemory>,
    pub(crate) pe: Arc<PeMemory>,
    pub(crate) fds: Option<PeFds>,
    /// Of the job.
    pub(crate) key: String,
}

/// Why there is no seat.
enum Missing {
    /// There is no such domain.
    Domain,
    /// All seats here are taken.
    Room(Failure),
    /// It is impossible.
    Never(Failure),
}

/// The same with a seat for half of the free channels of every node, so that other jobs find some, too.
pub(super) fn all_seats(spec: &JobSpec, nodes: &[NodeId], channels: u16, taken: &BTreeMap<NodeId, u32>) -> JobSpec {
    let most = PES_MAX / nodes.len().max(1);
    let seats = |node: &NodeId| {
        let free = u32::from(channels).saturating_sub(taken.get(node).copied().unwrap_or(0));
        std::iter::repeat_n(*node, (free.div_ceil(2) as usize).min(most))
    };
    let list: Vec<NodeId> = nodes.iter().flat_map(seats).collect();
    JobSpec { pes: list.len() as u32, ppn: channels.into(), map: Map::List(list), ..spec.clone() }
}

impl Daemon {
    /// Takes a seat of a domain, which is made if there is none.
    pub(crate) async fn join(self: &Rc<Self>, uid: u32, wish: &Wish) -> Result<Claim, Failure> {
        self.check_wish(wish)?;
        let spec = JobSpec {
            pes: 0,
            ppn: 0,
            map: Map::Linear,
            heap: wish.heap,
            heap_may_shrink: false,
            registered: wish.registered,
            path: wish.path,
            barrier: Barrier::Auto,
            collectives: Collectives::P2p,
            name: format!("domain {}", wish.domain),
            alloc: None,
            open: true,
            heterogeneous: false,
        };
        let (mut full, deadline) = (None, Instant::now() + PATIENCE);
        while Instant::now() < deadline {
            // Nothing that changes from here on is missed.
            let changed = self.jobs.seats_changed.notified();
            match self.sit(uid, &spec.name, wish) {
                Ok(claim) => return Ok(claim),
                Err(Missing::Never(f)) => return Err(f),
                Err(Missing::Domain) if !self.is_made(uid, &spec.name) => {
                    let made = self.create_job(uid, Owner::nobody(), spec.clone()).await;
                    // Somebody on another host may have been quicker.
                    match made {
                        Ok(_) => {}
                        Err(f) if self.cluster.messages.is_none() => return Err(f),
                        Err(f) => full = Some(f),
                    }
                    if !self.has_domain(uid, &spec.name) {
                        tokio::time::sleep(AGAIN).await;
                    }
                    continue;
                }
                // Those who have just left are on their way out.
                Err(Missing::Room(f)) if !self.is_leaving(uid, &spec.name) => return Err(f),
                Err(Missing::Room(f)) => full = Some(f),
                Err(Missing::Domain) => {}
            }
            // At the deadline the reason is the one that was there last.
            let _ = timeout_at(deadline, changed).await;
        }
        Err(full.unwrap_or_else(|| failure(format!("{} is being made for too long", spec.name), "try again")))
    }

    fn check_wish(&self, wish: &Wish) -> Result<(), Failure> {
        if wish.abi != ABI_VERSION {
            return Err(failure(
                format!("the program speaks ABI version {}, the daemon {ABI_VERSION}", wish.abi),
                "rebuild the program, or use the library and the daemon of one release",
            ));
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if wish.domain.is_empty() || wish.domain.len() > NAME_MAX || !wish.domain.chars().all(allowed) {
            return Err(failure(
                format!("{:?} cannot be the name of a domain", wish.domain),
                format!("use 1 to {NAME_MAX} letters, digits, `-`, `_` and `.`"),
            ));
        }
        if self.options.virtual_time.is_some() {
            return Err(failure(
                "this daemon's time is virtual, and a domain has no beginning that all its processes share",
                "start the program with `angara run`",
            ));
        }
        Ok(())
    }

    /// True if there is such a domain here, or will be in a moment.
    pub(crate) fn has_domain(&self, uid: u32, name: &str) -> bool {
        self.jobs.table.borrow().values().any(|job| is_domain(job, uid, name)) || self.is_made(uid, name)
    }

    fn is_made(&self, uid: u32, name: &str) -> bool {
        self.jobs.reservations.borrow().values().any(|r| r.new.spec.open && r.new.uid == uid && r.new.spec.name == name)
    }

    /// Some seat of the domain is neither taken nor free yet.
    fn is_leaving(&self, uid: u32, name: &str) -> bool {
        let jobs = self.jobs.table.borrow();
        let mut domains = jobs.values().filter(|job| is_domain(job, uid, name));
        domains.any(|job| job.pes.iter().any(|pe| matches!(pe, PeState::Gone)))
    }

    /// Takes a seat of a domain that there is.
    fn sit(&self, uid: u32, name: &str, wish: &Wish) -> Result<Claim, Missing> {
        let mut jobs = self.jobs.table.borrow_mut();
        let running: usize = jobs.values().map(seats_taken).sum();
        let job = jobs.values_mut().find(|job| is_domain(job, uid, name)).ok_or(Missing::Domain)?;
        let memory = job.memory.clone();
        if job.spec.path != wish.path {
            return Err(Missing::Never(failure(
                format!("{name} was made for the path {:?}, and this process asks for {:?}", job.spec.path, wish.path),
                "use another name (ANGARA_DOMAIN), or the same ANGARA_DOMAIN_PATH as those who are in it",
            )));
        }
        let room = (memory.charged() - INTERNAL_BYTES) as u64;
        if room < wish.heap {
            return Err(Missing::Never(failure(
                format!("seats of {name} have {}; this process needs {}", show_bytes(room), show_bytes(wish.heap)),
                "use another name (ANGARA_DOMAIN), or programs of one version",
            )));
        }
        let pe = free_seat(job, wish.hint).ok_or_else(|| {
            let here = memory.pes_here();
            Missing::Room(failure(
                format!("all {here} seats of {name} on this host are taken"),
                "end a program, or start the daemon with more --channels or a larger --torus",
            ))
        })?;
        let limits = self.machine.memory_limits(self.options.memory_limit);
        check_memory(memory.charged() as u64, seats_taken(job) as u32 + 1, &limits).map_err(Missing::Never)?;
        check_descriptors(running + 1).map_err(Missing::Never)?;
        let (pe_memory, fds) =
            PeMemory::create(&memory, pe, None).map_err(|e| Missing::Never(no_memory(&format!("seat {pe}"), &e)))?;
        job.pes[pe] = PeState::Attaching;
        Ok(Claim { job: memory, pe: Arc::new(pe_memory), fds, key: job.key.clone() })
    }

    /// A process has left its seat, which is free once nothing of it is on its way.
    pub(super) async fn leave_seat(self: &Rc<Self>, memory: &Arc<JobMemory>, pe: usize, lost: bool) {
        let (id, slot) = (memory.id, memory.slot);
        self.with_job(memory, |job| job.pes[pe] = PeState::Gone);
        let data = self.data.clone();
        if ask(&data, |reply| Command::Detach { job: (slot, id), pe, lost, reply }).await.is_err() {
            return; // the daemon ends
        }
        tracing::debug!(job = id.number(), pe, lost, "left its seat");
        if self.has_job(memory) {
            self.change_seat(id, pe, Seat::leave);
            // Who was refused at the last moment has changed no seat.
            self.look_at_domain(id);
        }
        let (daemon, memory) = (self.clone(), memory.clone());
        tokio::task::spawn_local(async move {
            if ask(&data, |reply| Command::WhenQuiet((slot, id), pe, reply)).await.is_err() {
                return; // the daemon ends
            }
            match memory.clear_heap(pe) {
                Ok(()) => {
                    daemon.with_job(&memory, |job| job.pes[pe] = PeState::Waiting);
                    daemon.jobs.seats_changed.notify_waiters();
                }
                // It stays empty: what is left there is nobody else's business.
                Err(e) => tracing::error!(job = id.number(), pe, error = %e, "cannot clear a seat"),
            }
        });
    }

    /// Somebody has sat down at a seat of another host, or has left it. Whom the page shows can be reached.
    pub(crate) fn take_open_seat(self: &Rc<Self>, memory: Arc<JobMemory>, pe: usize, seat: Seat) {
        let (daemon, slot) = (self.clone(), memory.slot);
        tokio::task::spawn_local(async move {
            let told = ask(&daemon.data, |reply| Command::SetElsewhere(slot, pe, seat.taken(), reply)).await;
            // Words of a seat only grow; an older one may have overtaken this one here.
            if told.is_ok() && memory.page.pe(pe).seat.to_word() < seat.to_word() {
                memory.page.set_seat(pe, seat);
                daemon.look_at_domain(memory.id);
            }
        });
    }

    /// Ends a domain made here that nobody is in any more, after a while.
    pub(crate) fn look_at_domain(self: &Rc<Self>, id: JobId) {
        let jobs = self.jobs.table.borrow();
        let Some(job) = jobs.get(&id).filter(|job| job.coordinator.is_none() && job.memory.page.attached() == 0) else {
            return;
        };
        let (daemon, memory) = (self.clone(), job.memory.clone());
        tokio::task::spawn_local(async move {
            let before = daemon.comings(&memory);
            tokio::time::sleep(LINGER).await;
            // Whoever came meanwhile has this done anew when leaving.
            if daemon.has_job(&memory) && daemon.comings(&memory) == before && memory.page.attached() == 0 {
                daemon.end_job_everywhere(id).await;
            }
        });
    }

    /// How many processes have ever sat in a domain.
    fn comings(&self, memory: &JobMemory) -> u64 {
        (0..memory.pes).map(|pe| u64::from(memory.page.pe(pe).seat.life())).sum()
    }
}

/// True if this is the user's domain of that name, and goes on.
fn is_domain(job: &Job, uid: u32, name: &str) -> bool {
    job.memory.open
        && job.uid == uid
        && job.spec.name == name
        && !job.descriptor.over
        && job.memory.page.state() == JobState::Running
}

/// Processes that a job has here, or may have.
fn seats_taken(job: &Job) -> usize {
    if job.memory.open {
        return job.pes.iter().filter(|pe| matches!(pe, PeState::Attaching | PeState::Attached(_))).count();
    }
    job.memory.pes_here()
}

/// A free seat of this host: on the node that process `hint` of many would have if each had its own, or on the one after
/// it that has a seat; without a hint on the node with most of them.
fn free_seat(job: &Job, hint: Option<u32>) -> Option<usize> {
    let memory = &job.memory;
    let mut free: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
    for pe in (0..memory.pes).filter(|pe| memory.here[*pe]) {
        let seats = free.entry(memory.entries[pe].node).or_default();
        if matches!(job.pes[pe], PeState::Waiting) {
            seats.push(pe);
        }
    }
    let first = hint.map_or(0, |hint| hint as usize % free.len().max(1));
    let mut in_turn: Vec<&Vec<usize>> = free.values().collect();
    let first = first.min(in_turn.len());
    in_turn.rotate_left(first);
    let mut in_turn = in_turn.into_iter();
    let seats = match hint {
        Some(_) => in_turn.find(|seats| !seats.is_empty()),
        // The first one of those with most.
        None => in_turn.rev().max_by_key(|seats| seats.len()),
    };
    seats?.first().copied()
}
