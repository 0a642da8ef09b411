//! Making a job: on this host alone, or on every host of the cluster that takes part in the network.
//!
//! Two phases. First every host reserves what the PEs on its nodes need (endpoints, memory, descriptors)
//! and may refuse; then every host opens the job in its part of the network, under the same id, slot,
//! generation and key. If anybody refuses, everybody forgets the job again. Hosts without a PE of the job
//! take part, because its packets may pass through them; a host that comes later opens it then.

use crate::daemon::Daemon;
use crate::job::{Job, Layout, Owner, PeState, Share, Site, barrier, layout, random_key, reserve};
use crate::memory::{Identity, JobMemory};
use crate::placement::failure;
use crate::span::{Answer, Ask, NewJob, OpenJob};
use crate::user;
use abi::job::{Collectives, Geometry, PeEntry};
use abi::msg::{CoreAdvice, Failure, JobHost, JobSpec, Path, Reply};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a job is tried to be made while hosts come and go, and how long between.
const ATTEMPTS: usize = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// What a job that is being made has here.
pub(crate) struct Reservation {
    /// Host that makes it, if it is another one.
    pub(crate) home: Option<u16>,
    new: NewJob,
    share: Share,
}

impl Reservation {
    pub(crate) fn slot(&self) -> u16 {
        self.new.slot
    }
}

/// All another host must know to let packets of a job pass.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct JobCard {
    pub(crate) home: u16,
    /// The job cannot go on and is about to end: nobody else needs to know it.
    pub(crate) over: bool,
    new: NewJob,
    open: OpenJob,
}

impl JobCard {
    pub(crate) fn id(&self) -> u32 {
        self.new.id
    }
}

/// A host's answer in the first phase.
struct Offer {
    host: u16,
    endpoints: Vec<u16>,
    crowded: bool,
    cores: CoreAdvice,
}

impl Daemon {
    /// Creates a job owned by a control connection, on this host and all that take part in the network.
    pub(crate) async fn create_job(&self, uid: u32, owner: Owner, spec: JobSpec) -> Result<Reply, Failure> {
        self.had_jobs.set(true);
        for _ in 0..ATTEMPTS {
            let number = self.agreed().await?;
            let new = self.plan_job(number, uid, &spec).await?;
            let others: Vec<u16> = self.agreement.agreed.borrow().members.keys().copied().collect();
            let others: Vec<u16> =
                others.into_iter().filter(|h| self.span.as_ref().is_some_and(|s| s.me != *h)).collect();
            let made = self.make(&new, owner.clone(), &others).await;
            // A host that comes in the middle would not know of the job.
            let undisturbed = self.is_settled() && self.agreement.number() == number;
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

    /// What all hosts must agree on.
    async fn plan_job(&self, number: u64, uid: u32, spec: &JobSpec) -> Result<NewJob, Failure> {
        let layout = match &self.span {
            None => layout(&self.site(), spec, &self.hosted)?,
            Some(span) => {
                let members = self.agreement.agreed.borrow().members.clone();
                let there = |node: &u32| members.contains_key(&span.owners[*node as usize]);
                let available: Vec<u32> = (0..self.options.shape.nodes() as u32).filter(there).collect();
                layout(&self.site(), spec, &available).map_err(|f| {
                    let missing: Vec<&str> =
                        (0..span.hosts() as u16).filter(|h| !members.contains_key(h)).map(|h| span.name(h)).collect();
                    match missing.is_empty() {
                        true => f,
                        false => Failure {
                            message: format!("{}; not in the network now: {}", f.message, missing.join(", ")),
                            remedy: format!("start fabricd there or {}; see `angara cluster status`", f.remedy),
                        },
                    }
                })?
            }
        };
        let system = |e: io::Error| {
            failure(
                format!("cannot create the memory of the job: {e}"),
                "free memory or descriptors, or start fewer PEs",
            )
        };
        let user = if self.span.is_some() { user::name(uid).await } else { None };
        // A tree in use does not outlive a change of routes, and in a cluster those happen by themselves.
        let collectives = match spec.collectives {
            Collectives::Auto if self.span.is_some() => Collectives::P2p,
            chosen => chosen,
        };
        // Nobody else is given the slot: there is no `await` from here until it is reserved.
        Ok(NewJob {
            id: self.fresh_job(),
            slot: self.free_slot()?,
            generation: self.fresh_generation(),
            uid,
            user,
            key: random_key().map_err(system)?,
            spec: JobSpec { collectives, ..spec.clone() },
            nodes: layout.nodes,
            heap_stride: layout.heap_stride as u64,
            number,
        })
    }

    /// `None`: another host is about to agree on something.
    async fn make(&self, new: &NewJob, owner: Owner, others: &[u16]) -> Result<Option<Reply>, Failure> {
        let me = self.span.as_ref().map_or(0, |s| s.me);
        let (endpoints, crowded, cores) = self.reserve(None, new.clone())?;
        let mut offers = vec![Offer { host: me, endpoints, crowded, cores: cores.clone() }];
        for &host in others {
            let span = self.span.as_ref().expect("there are other hosts");
            match span.ask(host, Ask::Reserve(new.clone())).await.map_err(|f| from_host(span.name(host), f))? {
                Answer::Reserved { endpoints, crowded, cores } => {
                    offers.push(Offer { host, endpoints, crowded, cores });
                }
                Answer::Later => return Ok(None),
                other => return Err(confused(span.name(host), &other)),
            }
        }
        let owner_of = |pe: usize| self.span.as_ref().map_or(0, |s| s.owners[new.nodes[pe] as usize]);
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
            if let Some(span) = self.span.as_ref().filter(|_| offer.host != me && !pes.is_empty()) {
                remote.push(JobHost {
                    host: span.name(offer.host).into(),
                    pes: pes.iter().map(|pe| *pe as u32).collect(),
                    cores: offer.cores.clone(),
                });
            }
        }
        let spans = !remote.is_empty();
        let barrier = barrier(&new.spec, offers.iter().any(|o| o.crowded), spans)?;
        let hosts = offers.iter().map(|o| o.host).collect();
        let open = OpenJob { id: new.id, endpoints, barrier, hosts };
        for &host in others {
            let span = self.span.as_ref().expect("there are other hosts");
            span.ask(host, Ask::Open(open.clone())).await.map_err(|f| from_host(span.name(host), f))?;
        }
        self.open(owner, open).await?;
        let (job, key, placement) = (new.id, new.key.clone(), new.nodes.clone());
        Ok(Some(Reply::Job { job, key, placement, cores, remote }))
    }

    /// What this host has for jobs.
    fn site(&self) -> Site<'_> {
        Site {
            shape: self.options.shape,
            hosted: &self.hosted,
            channels: self.options.channels,
            memory_limit: self.options.memory_limit,
            running: self.jobs.borrow().values().map(|j| j.memory.pes_here()).sum(),
        }
    }

    /// Takes part in a job that the others have had before this host came.
    pub(crate) async fn open_from_card(&self, card: &JobCard) -> Result<(), Failure> {
        self.reserve(Some(card.home), card.new.clone())?;
        self.open(Owner::elsewhere(), card.open.clone()).await
    }

    /// First phase: endpoints of the PEs here, whether they are too many for the cores, and which cores to take.
    pub(crate) fn reserve(&self, home: Option<u16>, new: NewJob) -> Result<(Vec<u16>, bool, CoreAdvice), Failure> {
        if let Some(node) = new.nodes.iter().find(|n| **n as usize >= self.options.shape.nodes()) {
            return Err(failure(format!("there is no node {node}"), "give all hosts the same cluster file"));
        }
        if self.slot_taken(new.slot) || self.jobs.borrow().contains_key(&new.id) {
            return Err(failure(format!("job {} or its slot is in use already", new.id), "try again"));
        }
        let layout = Layout { nodes: new.nodes.clone(), heap_stride: new.heap_stride as usize };
        let share = reserve(&self.site(), &new.spec, &layout, &mut self.endpoints.borrow_mut())?;
        let endpoints = share.entries.iter().map(|e| e.endpoint).collect();
        let elsewhere = new.nodes.len() > share.pes.len();
        let busy = if elsewhere || new.spec.path == Path::Ring { self.options.cores.clone() } else { Vec::new() };
        let cores = CoreAdvice { first: self.next_core.get() as u32, busy };
        self.next_core.set((self.next_core.get() + share.pes.len()) % self.cores);
        let crowded = share.crowded;
        self.reservations.borrow_mut().insert(new.id, Reservation { home, new, share });
        Ok((endpoints, crowded, cores))
    }

    /// Second phase: the job exists from now on.
    pub(crate) async fn open(&self, owner: Owner, open: OpenJob) -> Result<(), Failure> {
        let reservation = self.reservations.borrow_mut().remove(&open.id);
        let Some(Reservation { home, new, share }) = reservation else {
            return Err(failure(format!("nothing is reserved for job {}", open.id), "try again"));
        };
        let give_back = || self.endpoints.borrow_mut().give_back(&share.entries);
        if open.endpoints.len() != new.nodes.len() {
            give_back();
            return Err(failure("not one endpoint for each PE", "use daemons of one version"));
        }
        let shape = self.options.shape;
        let geometry = Geometry {
            pes: new.nodes.len(),
            shape,
            heap_stride: new.heap_stride as usize,
            static_stride: 0,
            barrier: open.barrier,
            collectives: new.spec.collectives,
            crowded: share.crowded,
        };
        let entry =
            |(&node, &endpoint): (&u32, &u16)| PeEntry { node, coords: shape.coords(node), endpoint, attached: false };
        let entries: Vec<PeEntry> = new.nodes.iter().zip(&open.endpoints).map(entry).collect();
        let mut here = vec![false; entries.len()];
        share.pes.iter().for_each(|pe| here[*pe] = true);
        let identity = Identity { id: new.id, slot: new.slot, generation: new.generation };
        let memory = JobMemory::create(identity, &geometry, entries, here, new.spec.path == Path::Ring);
        let memory = Arc::new(memory.map_err(|e| {
            give_back();
            failure(
                format!("cannot create the memory of the job: {e}"),
                "free memory or descriptors, or start fewer PEs",
            )
        })?);
        let (id, uid) = (new.id, new.uid);
        tracing::info!(job = id, name = new.spec.name, pes = new.spec.pes, path = ?new.spec.path, uid, "job created");
        let me = self.span.as_ref().map_or(0, |s| s.me);
        let card = JobCard { home: home.unwrap_or(me), over: false, new: new.clone(), open: open.clone() };
        let job = Job {
            card,
            key: new.key,
            uid,
            user: new.user,
            spec: new.spec,
            pes: (0..memory.pes).map(|_| PeState::Waiting).collect(),
            memory: memory.clone(),
            owner,
            created: Instant::now(),
            notes: Vec::new(),
            home,
            hosts: open.hosts.into_iter().filter(|h| *h != me).collect(),
        };
        // Entered before the await so that the slot is taken.
        self.jobs.borrow_mut().insert(id, job);
        let opened = self.data.call(move |engine| engine.open_job(memory)).await;
        let refused = match opened {
            Ok(Ok(())) => return Ok(()),
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
    pub(crate) fn forget_reservation(&self, id: u32) {
        if let Some(r) = self.reservations.borrow_mut().remove(&id) {
            self.endpoints.borrow_mut().give_back(&r.share.entries);
        }
    }

    /// Jobs are made anew if hosts change meanwhile, so what was reserved before a change is of no use to anybody.
    pub(crate) fn forget_reservations_before(&self, number: u64) {
        let old: Vec<u32> =
            self.reservations.borrow().iter().filter(|(_, r)| r.new.number < number).map(|(id, _)| *id).collect();
        old.into_iter().for_each(|id| self.forget_reservation(id));
    }

    pub(crate) fn slot_taken(&self, slot: u16) -> bool {
        self.jobs.borrow().values().any(|j| j.memory.slot == slot)
            || self.reservations.borrow().values().any(|r| r.slot() == slot)
    }

    /// A free slot that no other host gives away.
    fn free_slot(&self) -> Result<u16, Failure> {
        let (me, hosts) = self.span.as_ref().map_or((0, 1), |s| (s.me, s.hosts()));
        (me..fabric::JOBS_MAX as u16)
            .step_by(hosts)
            .find(|s| !self.slot_taken(*s))
            .ok_or_else(|| failure("no job slot is free", "wait for another job to end"))
    }

    /// An id that no other host gives away.
    fn fresh_job(&self) -> u32 {
        let n = self.next_job.get();
        self.next_job.set(n.wrapping_add(1).max(1));
        self.span.as_ref().map_or(n, |s| n.wrapping_mul(s.hosts() as u32).wrapping_add(s.me as u32))
    }

    fn fresh_generation(&self) -> u16 {
        let n = self.next_generation.get().wrapping_add(1);
        self.next_generation.set(n);
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
