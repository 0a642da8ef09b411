//! Making a job: on this host alone, or on every host of the cluster that takes part in the network.
//!
//! Two phases. First every host reserves what the PEs on its nodes need (endpoints, memory, descriptors)
//! and may refuse; then every host opens the job in its part of the network, under the same id, slot,
//! generation and key. If anybody refuses, everybody forgets the job again. Hosts without a PE of the job
//! take part, because its packets may pass through them; a host that comes later opens it then.

use super::descriptor::{JobDescriptor, NewJob, OpenJob};
use super::job::{Job, Owner, PeState, random_key};
use super::open::all_seats;
use super::plan::{Layout, Reservation, Share, Site, barrier, layout, registered_bytes, reserve};
use crate::ask::ask;
use crate::daemon::Daemon;
use crate::failure::{failure, no_memory};
use crate::hosts::messages::HostMessages;
use crate::hosts::protocol::{Answer, Ask};
use crate::users::quota::Limit;
use crate::users::usage::is_operator;
use angara_abi::JobId;
use angara_abi::job::{Collectives, Geometry, PeEntry, Seat};
use angara_abi::shm::Source;
use angara_fabric::JobSlot;
use angara_net::HostId;
use angara_net::torus::NodeId;
use angara_plane::Command;
use angara_plane::{Identity, JobMemory};
use angara_protocol::msg::{CoreAdvice, Failure, JobHost, JobSpec, Path, Reply};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often a job is tried to be made while hosts come and go, and how long between.
const ATTEMPTS: usize = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// Checks that the host which makes the job knows its endpoints here as they were reserved.
fn agree_on_endpoints(new: &NewJob, share: &Share, open: &OpenJob) -> Result<(), Failure> {
    if open.endpoints.len() != new.nodes.len() {
        return Err(failure("not one endpoint for each PE", "use daemons of one version"));
    }
    if share.pes.iter().zip(&share.entries).any(|(pe, entry)| open.endpoints[*pe] != entry.endpoint) {
        return Err(failure("its PEs here have other endpoints now", "start the job again"));
    }
    Ok(())
}

/// A host's answer in the first phase.
struct Offer {
    host: HostId,
    endpoints: Vec<u16>,
    crowded: bool,
    cores: CoreAdvice,
}

impl Daemon {
    /// Creates a job owned by a control connection, on this host and all that take part in the network.
    pub(crate) async fn create_job(self: &Rc<Self>, uid: u32, owner: Owner, spec: JobSpec) -> Result<Reply, Failure> {
        self.jobs.had_jobs.set(true);
        for _ in 0..ATTEMPTS {
            let number = self.agreed().await?;
            let new = self.plan_job(number, uid, &owner, &spec).await?;
            let others: Vec<HostId> = self.cluster.ballots.agreed.borrow().members.keys().copied().collect();
            let others: Vec<HostId> =
                others.into_iter().filter(|h| self.cluster.messages.as_ref().is_some_and(|s| s.me != *h)).collect();
            let made = self.make(&new, owner.clone(), &others).await;
            // A host that comes in the middle would not know of the job.
            let undisturbed = self.is_settled() && self.cluster.ballots.number() == number;
            let refused = match made {
                Ok(Some(reply)) if undisturbed => return Ok(reply),
                Err(f) if undisturbed => Some(f),
                _ => None,
            };
            self.forget_reservation(new.id);
            self.tell_closed(new.id, &others);
            self.end_job(new.id).await;
            if let Some(f) = refused {
                return Err(f);
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(failure("hosts of the cluster come and go all the time", "see `angara cluster status`; try again"))
    }

    /// Returns what all hosts must agree on.
    async fn plan_job(&self, number: u64, uid: u32, owner: &Owner, spec: &JobSpec) -> Result<NewJob, Failure> {
        let taken = self.taken();
        let channels = self.options.channels;
        let seats = |nodes: &[NodeId]| if spec.open { all_seats(spec, nodes, channels, &taken) } else { spec.clone() };
        let (spec, set, layout) = match &self.cluster.messages {
            None => {
                let spec = seats(&self.hosted);
                self.check_share(uid, &spec)?;
                let set = self.node_set((uid, owner), &spec, &self.hosted).await?;
                let nodes = set.as_ref().map_or(&self.hosted[..], |set| &set.nodes);
                let layout = layout(&self.site(), &spec, nodes, &taken)?;
                (spec, set, layout)
            }
            Some(messages) => {
                let members = self.cluster.ballots.agreed.borrow().members.clone();
                let there = |node: &u32| members.contains_key(&messages.owners[*node as usize]);
                let available: Vec<u32> = (0..self.options.shape.nodes() as u32).filter(there).collect();
                let spec = seats(&available);
                self.check_share(uid, &spec)?;
                let set = self.node_set((uid, owner), &spec, &available).await?;
                let nodes = set.as_ref().map_or(&available, |set| &set.nodes);
                let layout = layout(&self.site(), &spec, nodes, &taken).map_err(|f| {
                    let missing: Vec<&str> = (messages.member.cluster.ids())
                        .filter(|h| !members.contains_key(h))
                        .map(|h| messages.name(h))
                        .collect();
                    match missing.is_empty() {
                        true => f,
                        false => Failure {
                            message: format!("{}; not in the network now: {}", f.message, missing.join(", ")),
                            remedy: format!("start fabricd there or {}; see `angara cluster status`", f.remedy),
                        },
                    }
                })?;
                (spec, set, layout)
            }
        };
        let system = |e: io::Error| no_memory("the job", &e);
        let user = if self.cluster.messages.is_some() { self.machine.user(uid).await } else { None };
        // A tree in use does not outlive a change of routes, and in a cluster those happen by themselves.
        let collectives = match spec.collectives {
            Collectives::Auto if self.cluster.messages.is_some() => Collectives::P2p,
            chosen => chosen,
        };
        // Nobody else is given the slot: there is no `await` from here until it is reserved.
        Ok(NewJob {
            id: self.fresh_job(),
            slot: self.free_slot(uid)?,
            generation: self.fresh_generation(),
            uid,
            user,
            key: random_key(&*self.machine).map_err(system)?,
            spec: JobSpec { collectives, ..spec },
            nodes: layout.nodes,
            set,
            heap_stride: layout.heap_stride as u64,
            number,
        })
    }

    /// PEs on each node, of jobs that run and of those being made.
    fn taken(&self) -> BTreeMap<NodeId, u32> {
        let (jobs, reservations) = (self.jobs.table.borrow(), self.jobs.reservations.borrow());
        let running = jobs.values().flat_map(|j| j.memory.entries.iter().map(|e| e.node));
        let mut taken = BTreeMap::new();
        for node in running.chain(reservations.values().flat_map(|r| r.new.nodes.iter().copied())) {
            *taken.entry(node).or_default() += 1;
        }
        taken
    }

    /// Refuses what is more than one user may have. Those who could raise the limits may have any number of jobs and PEs.
    fn check_share(&self, uid: u32, spec: &JobSpec) -> Result<(), Failure> {
        let limits = self.users.limits();
        let (name, most) = (spec.name.len() as u64, limits.get(Limit::Name));
        if name > most {
            return Err(failure(
                format!("the name of the job has {name} bytes; at most {most} are kept"),
                format!("give it a shorter one, or {}", self.users.raise(Limit::Name)),
            ));
        }
        if is_operator(uid) {
            return Ok(());
        }
        let (jobs, reservations) = (self.jobs.table.borrow(), self.jobs.reservations.borrow());
        let running = jobs.values().filter(|j| j.uid == uid).map(|j| j.spec.pes);
        let coming = reservations.values().filter(|r| r.new.uid == uid).map(|r| r.new.spec.pes);
        let (count, pes) = running.chain(coming).fold((0, 0), |(n, sum), pes| (n + 1, sum + u64::from(pes)));
        let (most_jobs, channels) = (limits.get(Limit::Jobs), self.channels());
        let most = limits.share(Limit::Pes, channels);
        if count >= most_jobs {
            return Err(failure(
                format!("user {uid} has {count} jobs here, as many as one user may have"),
                format!("end one, or {}", self.users.raise(Limit::Jobs)),
            ));
        }
        if pes + u64::from(spec.pes) > most {
            return Err(failure(
                format!(
                    "user {uid} has {pes} PEs here and asks for {} more; one user may have {most} of {channels}",
                    spec.pes
                ),
                format!("start fewer, end another job, or {}", self.users.raise(Limit::Pes)),
            ));
        }
        Ok(())
    }

    /// Injection channels of all nodes on which a PE may be placed.
    fn channels(&self) -> u64 {
        let nodes = if self.cluster.messages.is_some() { self.options.shape.nodes() } else { self.hosted.len() };
        nodes as u64 * u64::from(self.options.channels)
    }

    /// `None`: another host is about to agree on something, or has given away nodes of the set.
    async fn make(self: &Rc<Self>, new: &NewJob, owner: Owner, others: &[HostId]) -> Result<Option<Reply>, Failure> {
        let me = self.this_host();
        if self.overlaps(new.set.as_ref()) || self.needs_a_set(new) {
            return Ok(None);
        }
        let (endpoints, crowded, cores) = self.reserve(None, new.clone())?;
        let mut offers = vec![Offer { host: me, endpoints, crowded, cores: cores.clone() }];
        for &host in others {
            let messages = self.cluster.messages.as_ref().expect("there are other hosts");
            match messages.ask(host, Ask::Reserve(new.clone())).await.map_err(|f| from_host(messages.name(host), f))? {
                Answer::Reserved { endpoints, crowded, cores } => {
                    offers.push(Offer { host, endpoints, crowded, cores });
                }
                Answer::Later => return Ok(None),
                other => return Err(confused(messages.name(host), &other)),
            }
        }
        let owner_of = |pe: usize| self.cluster.messages.as_ref().map_or(me, |s| s.owners[new.nodes[pe] as usize]);
        let mut endpoints = vec![0u16; new.nodes.len()];
        let mut remote = Vec::new();
        for offer in &offers {
            let pes: Vec<usize> = (0..new.nodes.len()).filter(|pe| owner_of(*pe) == offer.host).collect();
            if pes.len() != offer.endpoints.len() {
                return Err(failure(
                    "the hosts disagree on who lives where",
                    "give all hosts of the cluster the same cluster file",
                ));
            }
            pes.iter().zip(&offer.endpoints).for_each(|(pe, endpoint)| endpoints[*pe] = *endpoint);
            if let Some(messages) = self.cluster.messages.as_ref().filter(|_| offer.host != me && !pes.is_empty()) {
                remote.push(JobHost {
                    host: messages.name(offer.host).into(),
                    pes: pes.iter().map(|pe| *pe as u32).collect(),
                    cores: offer.cores.clone(),
                });
            }
        }
        let spans = !remote.is_empty();
        let crowded = offers.iter().any(|o| o.crowded);
        let barrier = barrier(&new.spec, self.options.shape, &new.nodes, crowded, spans)?;
        let hosts = offers.iter().map(|o| o.host).collect();
        let open = OpenJob { id: new.id, endpoints, barrier, hosts };
        for &host in others {
            let messages = self.cluster.messages.as_ref().expect("there are other hosts");
            messages.ask(host, Ask::Open(open.clone())).await.map_err(|f| from_host(messages.name(host), f))?;
        }
        self.open(owner, open).await?;
        let (job, key, placement) = (new.id, new.key.clone(), new.nodes.clone());
        let confined = new.set.is_some() && new.spec.alloc.is_none();
        Ok(Some(Reply::Job { job, key, placement, cores, remote, confined }))
    }

    /// Returns what this host has for jobs.
    fn site(&self) -> Site<'_> {
        Site {
            shape: self.options.shape,
            hosted: &self.hosted,
            channels: self.options.channels,
            memory_limit: self.options.memory_limit,
            machine: &*self.machine,
            running: self.jobs.table.borrow().values().map(|j| j.memory.pes_here()).sum(),
            inside: matches!(self.source, Source::Arena(_)),
        }
    }

    /// Takes part in a job without PEs here that the others have had before this host came.
    pub(crate) async fn open_from_descriptor(self: &Rc<Self>, descriptor: &JobDescriptor) -> Result<(), Failure> {
        let id = descriptor.id();
        self.reserve(Some(descriptor.coordinator), descriptor.new.clone())?;
        if let Some(reservation) = self.jobs.reservations.borrow_mut().get_mut(&id) {
            reservation.is_late = descriptor.new.spec.open;
        }
        self.open(Owner::nobody(), descriptor.open.clone()).await?;
        if descriptor.new.spec.open {
            tokio::task::spawn_local(self.clone().learn_seats(id));
        }
        Ok(())
    }

    /// First phase: endpoints of the PEs here, whether they are too many for the cores, and which cores to take.
    pub(crate) fn reserve(
        &self,
        coordinator: Option<HostId>,
        new: NewJob,
    ) -> Result<(Vec<u16>, bool, CoreAdvice), Failure> {
        if let Some(node) = new.nodes.iter().find(|n| **n as usize >= self.options.shape.nodes()) {
            return Err(failure(format!("there is no node {node}"), "give all hosts the same cluster file"));
        }
        if self.slot_taken(new.slot) || self.jobs.table.borrow().contains_key(&new.id) {
            return Err(failure(format!("job {} or its slot is in use already", new.id), "try again"));
        }
        self.check_set(new.set.as_ref())?;
        if new.spec.open && self.has_domain(new.uid, &new.spec.name) {
            return Err(failure(format!("there is {} already", new.spec.name), "try again"));
        }
        let layout = Layout { nodes: new.nodes.clone(), heap_stride: new.heap_stride as usize };
        let share = reserve(&self.site(), &new.spec, &layout, &mut self.jobs.endpoints.borrow_mut())?;
        let endpoints = share.entries.iter().map(|e| e.endpoint).collect();
        let elsewhere = new.nodes.len() > share.pes.len();
        let busy = if elsewhere || new.spec.path == Path::Ring { self.options.cores.clone() } else { Vec::new() };
        let cores = CoreAdvice { first: self.jobs.next_core.get() as u32, busy };
        self.jobs.next_core.set((self.jobs.next_core.get() + share.pes.len()) % self.cores);
        let crowded = share.crowded;
        self.jobs
            .reservations
            .borrow_mut()
            .insert(new.id, Reservation { coordinator, new, share, seats: Vec::new(), is_late: false });
        Ok((endpoints, crowded, cores))
    }

    /// Memory of the PEs of a job that live here, and what all are told of each other.
    fn memory_of(&self, new: &NewJob, share: &Share, open: &OpenJob) -> Result<JobMemory, Failure> {
        let shape = self.options.shape;
        let geometry = Geometry {
            pes: new.nodes.len(),
            shape,
            heap_stride: new.heap_stride as usize,
            registered: registered_bytes(new.spec.registered, new.spec.pes) as usize,
            static_stride: 0,
            barrier: open.barrier,
            collectives: new.spec.collectives,
            crowded: share.crowded,
            open: new.spec.open,
            heterogeneous: new.spec.heterogeneous,
        };
        let entry =
            |(&node, &endpoint): (&u32, &u16)| PeEntry { node, coords: shape.coords(node), endpoint, seat: Seat::FREE };
        let entries: Vec<PeEntry> = new.nodes.iter().zip(&open.endpoints).map(entry).collect();
        let mut here = vec![false; entries.len()];
        share.pes.iter().for_each(|pe| here[*pe] = true);
        let identity = Identity { id: new.id, slot: new.slot, generation: new.generation, uid: new.uid };
        let ring_only = new.spec.path == Path::Ring;
        let mut memory = JobMemory::create(identity, &geometry, entries, here, ring_only, &self.source)
            .map_err(|e| no_memory("the job", &e))?;
        memory.set = new.set.clone();
        Ok(memory)
    }

    /// Second phase: the job exists from now on.
    pub(crate) async fn open(self: &Rc<Self>, owner: Owner, open: OpenJob) -> Result<(), Failure> {
        let reservation = self.jobs.reservations.borrow_mut().remove(&open.id);
        let Some(Reservation { coordinator, new, share, seats, is_late }) = reservation else {
            return Err(failure(format!("nothing is reserved for job {}", open.id), "try again"));
        };
        let give_back = || {
            self.jobs.endpoints.borrow_mut().give_back(&share.entries);
            self.jobs.seats_changed.notify_waiters();
        };
        let made = agree_on_endpoints(&new, &share, &open).and_then(|()| self.memory_of(&new, &share, &open));
        let memory = Arc::new(made.inspect_err(|_| give_back())?);
        let (id, uid) = (new.id, new.uid);
        self.log_of(uid, |left_out| {
            let spec = &new.spec;
            tracing::info!(
                job = id.number(),
                name = spec.name,
                pes = spec.pes,
                path = ?spec.path,
                uid,
                left_out,
                "job created"
            );
        });
        let me = self.this_host();
        let descriptor =
            JobDescriptor { coordinator: coordinator.unwrap_or(me), over: false, new: new.clone(), open: open.clone() };
        let job = Job {
            descriptor,
            key: new.key,
            uid,
            user: new.user,
            spec: new.spec,
            pes: memory
                .here
                .iter()
                .map(|here| if *here && is_late { PeState::Gone } else { PeState::Waiting })
                .collect(),
            memory: memory.clone(),
            owner,
            created: Instant::now(),
            notes: Vec::new(),
            notes_left_out: 0,
            watched: false,
            looks_soon: Cell::new(false),
            coordinator,
            hosts: open.hosts.into_iter().filter(|h| *h != me).collect(),
            architecture: None,
        };
        // Entered before the await so that the slot is taken.
        self.jobs.table.borrow_mut().insert(id, job);
        self.remember_job(id);
        self.jobs.seats_changed.notify_waiters();
        let opened = ask(&self.data, |reply| Command::OpenJob(memory, reply)).await;
        let refused = match opened {
            Ok(Ok(())) => {
                seats.into_iter().for_each(|(pe, word)| self.take_seat(id, pe, word));
                return Ok(());
            }
            Ok(Err(why)) => why,
            Err(dead) => dead.to_string(),
        };
        self.end_job(id).await;
        Err(failure(
            format!("the network refused the job: {refused}"),
            "clear faults (`angara fault all clear`) or restart the daemon",
        ))
    }

    /// Gives back what was reserved for a job that will not be.
    pub(crate) fn forget_reservation(&self, id: JobId) {
        if let Some(r) = self.jobs.reservations.borrow_mut().remove(&id) {
            self.jobs.endpoints.borrow_mut().give_back(&r.share.entries);
            self.jobs.seats_changed.notify_waiters();
        }
    }

    /// Jobs are made anew if hosts change meanwhile, so what was reserved before a change is of no use to anybody.
    pub(crate) fn forget_reservations_before(&self, number: u64) {
        let old: Vec<JobId> =
            self.jobs.reservations.borrow().iter().filter(|(_, r)| r.new.number < number).map(|(id, _)| *id).collect();
        old.into_iter().for_each(|id| self.forget_reservation(id));
    }

    pub(crate) fn slot_taken(&self, slot: JobSlot) -> bool {
        self.jobs.table.borrow().values().any(|j| j.memory.slot == slot)
            || self.jobs.reservations.borrow().values().any(|r| r.slot() == slot)
    }

    /// The first one of the file where there is no cluster.
    fn this_host(&self) -> HostId {
        self.cluster.messages.as_ref().map_or(HostId::default(), |s| s.me)
    }

    /// A free slot that no other host gives away. The last quarter is for users who have none, but for those who could
    /// raise the limits.
    fn free_slot(&self, uid: u32) -> Result<JobSlot, Failure> {
        let hosts = self.cluster.messages.as_ref().map_or(1, |s| s.hosts());
        let slots = || JobSlot::first(angara_fabric::JOBS_MAX).skip(self.this_host().index()).step_by(hosts);
        let (jobs, reservations) = (self.jobs.table.borrow(), self.jobs.reservations.borrow());
        let running = jobs.values().map(|j| (j.memory.slot, j.uid));
        let taken: BTreeMap<JobSlot, u32> =
            running.chain(reservations.values().map(|r| (r.slot(), r.new.uid))).collect();
        let all = slots().count();
        let mine = slots().filter(|slot| taken.get(slot) == Some(&uid)).count();
        let mut free = slots().filter(|slot| !taken.contains_key(slot));
        let first = free.next().ok_or_else(|| {
            failure(format!("all {all} job slots of this host are taken"), "wait for another job to end")
        })?;
        if mine > 0 && free.count() < all / 4 && !is_operator(uid) {
            return Err(failure(
                format!(
                    "user {uid} has {mine} of the {all} job slots of this host, and the last {} are for users who have none",
                    all / 4
                ),
                "end a job, or wait for another one to end",
            ));
        }
        Ok(first)
    }

    /// An id that no other host gives away.
    fn fresh_job(&self) -> JobId {
        let n = self.jobs.next_job.get();
        self.jobs.next_job.set(n.wrapping_add(1).max(1));
        let number = |s: &HostMessages| n.wrapping_mul(s.hosts() as u32).wrapping_add(s.me.number().into());
        JobId::new(self.cluster.messages.as_ref().map_or(n, number))
    }

    fn fresh_generation(&self) -> u16 {
        let n = self.jobs.next_generation.get().wrapping_add(1);
        self.jobs.next_generation.set(n);
        n
    }
}

fn from_host(name: &str, f: Failure) -> Failure {
    Failure { message: format!("host {name}: {}", f.message), ..f }
}

fn confused(name: &str, answer: &Answer) -> Failure {
    tracing::warn!(host = name, ?answer, "an answer to another question");
    failure(format!("host {name} gave an unexpected answer"), "use daemons of one version")
}
