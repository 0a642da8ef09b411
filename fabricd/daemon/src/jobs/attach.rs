//! Processes become PEs of a job, and leave it.

use super::job::{Attached, Job, PeState, Program, other_architecture, show_segments};
use super::plan::placement::check_static_memory;
use crate::ask::{ask, tell};
use crate::daemon::Daemon;
use crate::failure::{failure, no_memory};
use crate::hosts::protocol::Tell;
use angara_abi::job::Seat;
use angara_abi::{ABI_VERSION, JobId};
use angara_plane::Command;
use angara_plane::{JobMemory, PeFds, PeMemory, RegisterPage, StaticsError};
use angara_protocol::msg::{Event, Failure};
use std::rc::Rc;
use std::sync::Arc;

/// Most symmetric static segments of one executable.
const SEGMENTS_MAX: usize = 64;
/// Longest abort reason that is passed on.
const REASON_MAX: usize = 1024;

/// Memory of a job and of one of its PEs, and descriptors where the PE is another process.
pub(crate) type Claimed = (Arc<JobMemory>, Arc<PeMemory>, Option<PeFds>);

impl Daemon {
    /// Checks an attach request and makes the PE's own memory.
    pub(crate) fn claim(
        &self,
        uid: u32,
        (abi, id, key, pe): (u32, JobId, &str, u32),
        program: Program<'_>,
    ) -> Result<Claimed, Failure> {
        if abi != ABI_VERSION {
            return Err(failure(
                format!("the program speaks ABI version {abi}, the daemon {ABI_VERSION}"),
                "rebuild the program, or use the library and the daemon of one release",
            ));
        }
        let mut jobs = self.jobs.table.borrow_mut();
        let job = jobs
            .get_mut(&id)
            .ok_or_else(|| failure(format!("there is no job {id}"), "start the program with `angara run`"))?;
        if job.uid != uid {
            return Err(failure(
                format!("job {id} belongs to user {}, this process to user {}", job.uid, uid),
                "run the program as the user who created the job",
            ));
        }
        if job.memory.open {
            return Err(failure(format!("job {id} is a domain"), "join it by its name"));
        }
        if job.key != key {
            return Err(failure(format!("wrong key for job {id}"), "start the program with `angara run`"));
        }
        let index = pe as usize;
        require_waiting(job, pe)?;
        if let Err(first) = job.admit(program.architecture) {
            return Err(other_architecture(&format!("PE {pe}"), program.architecture, id, first));
        }
        let first = job.memory.statics().is_none();
        let statics = job.statics_of(program);
        self.check_statics(&job.memory, statics)?;
        if let Some(messages) = self.cluster.messages.as_ref().filter(|_| first) {
            messages.tell(&job.hosts, &Tell::Statics(id, program.architecture, statics.to_vec()));
        }
        let (memory, fds) = PeMemory::create(&job.memory, index, self.options.virtual_time)
            .map_err(|e| no_memory(&format!("PE {pe}"), &e))?;
        job.pes[index] = PeState::Attaching;
        Ok((job.memory.clone(), Arc::new(memory), fds))
    }

    fn check_statics(&self, memory: &JobMemory, statics: &[u64]) -> Result<(), Failure> {
        if statics.len() > SEGMENTS_MAX {
            return Err(failure(
                format!("{} static segments; at most {SEGMENTS_MAX} are supported", statics.len()),
                "link fewer libraries with symmetric static data",
            ));
        }
        let stride = statics.iter().fold(0u64, |sum, &s| sum.saturating_add(s));
        let limits = self.machine.memory_limits(self.options.memory_limit);
        let bytes = check_static_memory(stride, memory.pes_here() as u32, &limits)?;
        memory.set_statics(statics, bytes).map_err(|e| match e {
            StaticsError::Malformed => failure(
                format!("{} are not whole pages", show_segments(statics)),
                "check that client and daemon are of the same version",
            ),
            StaticsError::Mismatch(first) => failure(
                format!(
                    "this process has {}, the first PE of job {} has {}: it runs a different executable",
                    show_segments(statics),
                    memory.id,
                    show_segments(&first)
                ),
                "run the same executable on every PE",
            ),
            StaticsError::Io(e) => no_memory(&format!("the global variables of job {}", memory.id), &e),
        })
    }

    /// Registers the channel of a PE with the data plane; the register page of its node.
    pub(crate) async fn attach(
        self: &Rc<Self>,
        job: &Arc<JobMemory>,
        pe: &Arc<PeMemory>,
        attached: Attached,
    ) -> Result<RegisterPage, Failure> {
        let (slot, for_plane, pid) = (job.slot, pe.clone(), attached.pid);
        let csr = match ask(&self.data, |reply| Command::Attach(slot, for_plane, pid, reply)).await {
            Ok(Ok(csr)) => csr,
            Ok(Err(e)) => return Err(failure(format!("cannot attach PE {}: {e}", pe.pe), "start the job again")),
            Err(dead) => return Err(failure(dead.to_string(), "restart the daemon")),
        };
        // The job may have ended while the data plane was busy.
        self.with_job(job, |j| {
            j.pes[pe.pe] = PeState::Attached(Rc::new(attached));
        });
        if self.has_job(job) {
            self.change_seat(job.id, pe.pe, |seat| if job.open { seat.sit() } else { Seat::TAKEN });
        }
        tracing::debug!(job = job.id.number(), pe = pe.pe, "attached");
        Ok(csr)
    }

    /// A PE asks to end its job.
    pub(crate) fn abort(
        self: &Rc<Self>,
        uid: u32,
        (memory, pe): (&Arc<JobMemory>, usize),
        status: i32,
        mut reason: String,
        orderly: bool,
    ) {
        // Who leaves a domain does not end it.
        if !self.has_job(memory) || memory.open {
            return;
        }
        let job = memory.id;
        truncate(&mut reason, REASON_MAX);
        self.log_of(uid, |left_out| {
            tracing::info!(job = job.number(), pe, status, reason, left_out, "a PE asked to end the job");
        });
        self.with_job(memory, |j| {
            let note = format!("PE {pe} ended the job with status {status}: {reason}");
            j.note(self.users.limits(), note);
            if orderly {
                j.memory.page.set_exit_status(status);
            }
            j.set_ended();
        });
        // Before its PE leaves, whose turn it is: no other one has a turn after it.
        tell(&self.data, Command::EndVirtualTime);
        if orderly {
            self.exit_all(memory.clone(), pe);
        }
        self.spread(job, Event::Abort { job, pe: pe as u32, status, reason, orderly });
    }

    /// True if this very job goes on here. Its number alone does not say so: a coordinator that was started again counts from
    /// 1.
    pub(crate) fn has_job(&self, memory: &Arc<JobMemory>) -> bool {
        self.jobs.table.borrow().get(&memory.id).is_some_and(|job| Arc::ptr_eq(&job.memory, memory))
    }

    /// Does something to a job that goes on.
    pub(crate) fn with_job(&self, memory: &Arc<JobMemory>, f: impl FnOnce(&mut Job)) {
        if let Some(job) =
            self.jobs.table.borrow_mut().get_mut(&memory.id).filter(|job| Arc::ptr_eq(&job.memory, memory))
        {
            f(job);
        }
    }

    /// The PE has said goodbye. In virtual time it keeps its turn until its process is gone: what that still writes comes
    /// before what others write afterwards.
    pub(crate) async fn goodbye(self: &Rc<Self>, (memory, pe): (&Arc<JobMemory>, usize)) {
        if !self.has_job(memory) {
            return;
        }
        if memory.open {
            return self.leave_seat(memory, pe, false).await;
        }
        self.change_seat(memory.id, pe, Seat::leave);
        if self.options.virtual_time.is_none() {
            self.unplug(memory, pe, false).await;
        }
    }

    /// The process of a PE is gone. `lost`: without a goodbye.
    pub(crate) async fn unseat(self: &Rc<Self>, uid: u32, (memory, pe): (&Arc<JobMemory>, usize), lost: bool) {
        if !self.has_job(memory) {
            return; // the network has forgotten its PEs with it
        }
        let id = memory.id;
        if memory.open {
            return self.leave_seat(memory, pe, lost).await;
        }
        if lost {
            self.with_job(memory, |job| job.set_ended());
        }
        self.change_seat(id, pe, Seat::leave);
        self.unplug(memory, pe, lost).await;
        tracing::debug!(job = id.number(), pe, lost, "detached");
        if lost && self.has_job(memory) {
            self.with_job(memory, |job| {
                let node = job.memory.entries[pe].node;
                self.log_of(uid, |left_out| tracing::info!(job = id.number(), pe, node, left_out, "PE lost"));
                job.note(self.users.limits(), format!("PE {pe} on node {node} was lost"));
            });
            let node = memory.entries[pe].node;
            self.spread(id, Event::PeLost { job: id, pe: pe as u32, node, finalized: false });
        }
    }
}

impl Daemon {
    /// The data plane serves a PE no more.
    async fn unplug(&self, memory: &Arc<JobMemory>, pe: usize, lost: bool) {
        let (id, slot) = (memory.id, memory.slot);
        self.with_job(memory, |job| job.pes[pe] = PeState::Gone);
        if ask(&self.data, |reply| Command::Detach { job: (slot, id), pe, lost, reply }).await.is_err() {
            tracing::debug!(job = id.number(), pe, "the data plane is gone");
        }
    }
}

/// Tells why nobody can become PE `pe`, if so.
fn require_waiting(job: &Job, pe: u32) -> Result<(), Failure> {
    let (index, pes, id) = (pe as usize, job.pes.len(), job.memory.id);
    let (message, remedy) = match job.pes.get(index) {
        None => {
            let remedy = format!("use PE 0 to {}", pes - 1);
            return Err(failure(format!("PE {pe} is out of range: job {id} has {pes} PEs"), remedy));
        }
        Some(PeState::Waiting) if !job.memory.here[index] => {
            (format!("PE {pe} of job {id} lives on another host"), "start it there (`angara run` does)")
        }
        Some(PeState::Waiting) => return Ok(()),
        Some(PeState::Attaching | PeState::Attached(_)) => (
            format!("PE {pe} of job {id} is attached already"),
            "start one process per PE; a child process that uses SHMEM itself needs its own `angara run`",
        ),
        Some(PeState::Gone) => (
            format!("PE {pe} of job {id} has already finished"),
            "a job runs one program; start another job for the next one",
        ),
    };
    Err(failure(message, remedy))
}

fn truncate(text: &mut String, max: usize) {
    if text.len() > max {
        let end = (0..=max).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
        text.truncate(end);
    }
}
