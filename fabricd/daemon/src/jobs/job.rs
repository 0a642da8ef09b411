//! A job as the control plane sees it: its memory, its PEs, its owner.

use super::descriptor::JobDescriptor;
use crate::failure::failure;
use crate::machine::Machine;
use crate::users::quota::{Limit, Limits};
use angara_abi::job::{JobState, Seat};
use angara_abi::wait::Linux;
use angara_abi::{Architecture, JobId};
use angara_net::HostId;
use angara_net::torus::NodeId;
use angara_net::units::show_bytes;
use angara_plane::JobMemory;
use angara_plane::observe::figures::SetFigures;
use angara_protocol::msg::{Event, Failure, JobSpec, JobStatus};
use rustix::process::{Signal, geteuid, pidfd_send_signal};
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

pub(crate) struct Job {
    /// 32 hexadecimal digits.
    pub(crate) key: String,
    /// Who may attach.
    pub(crate) uid: u32,
    /// That user's name on the host where the job was created.
    pub(crate) user: Option<String>,
    /// What was asked for.
    pub(crate) spec: JobSpec,
    pub(crate) memory: Arc<JobMemory>,
    pub(crate) pes: Vec<PeState>,
    /// Control connection that gets its events and whose end ends it.
    pub(crate) owner: Owner,
    /// When it was created.
    pub(crate) created: Instant,
    /// Things to know, for the report, and how many more there were.
    pub(crate) notes: Vec<String>,
    pub(crate) notes_left_out: u64,
    /// Somebody has left, and whether the others wait for it is being watched.
    pub(crate) watched: bool,
    /// Its seats will be looked at soon.
    pub(crate) looks_soon: Cell<bool>,
    /// Host whose daemon created the job, if it is another one.
    pub(crate) coordinator: Option<HostId>,
    /// Other hosts that know the job.
    pub(crate) hosts: Vec<HostId>,
    /// For hosts that come later.
    pub(crate) descriptor: JobDescriptor,
    /// What the program of its first PE was compiled for.
    pub(crate) architecture: Option<Architecture>,
}

/// What a process says of the program that it runs.
#[derive(Clone, Copy)]
pub(crate) struct Program<'a> {
    /// What it was compiled for.
    pub(crate) architecture: Architecture,
    /// Bytes of each of its static segments.
    pub(crate) statics: &'a [u64],
}

/// A control connection, as jobs see it.
#[derive(Clone)]
pub(crate) struct Owner {
    pub(crate) connection: u64,
    /// Process at its other end; never killed for its own job's end.
    pub(crate) pid: Option<i32>,
    pub(crate) lines: mpsc::Sender<Outgoing>,
    /// Told when it does not take its events: then it is closed.
    pub(crate) overrun: Rc<Notify>,
    /// Told when its other end has closed it: nobody waits for an answer any more.
    pub(crate) gone: Rc<Notify>,
}

impl Owner {
    /// Of a job that was created on another host, or of a domain.
    pub(crate) fn nobody() -> Owner {
        Owner {
            connection: u64::MAX,
            pid: None,
            lines: mpsc::channel(1).0,
            overrun: Rc::default(),
            gone: Rc::default(),
        }
    }
}

/// What is written to a control connection.
pub(crate) enum Words {
    Event(Event),
    /// A [`angara_protocol::msg::Line::Reply`] as text, with its newline.
    Answer(Vec<u8>),
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

pub(crate) struct Attached {
    /// Closes its connection.
    pub(crate) close: Box<dyn Fn()>,
    pub(crate) process: Option<Rc<OwnedFd>>,
    pub(crate) pid: i32,
}

impl Job {
    /// Lets a program of this architecture take part, unless the first PE's is another one, which is told, and the job has
    /// not been declared heterogeneous.
    pub(crate) fn admit(&mut self, architecture: Architecture) -> Result<(), Architecture> {
        admit(&mut self.architecture, architecture, self.spec.heterogeneous)
    }

    /// Static segments of `program` that are symmetric. In a heterogeneous job there are none: variables of two executables
    /// lie at different places.
    pub(crate) fn statics_of<'a>(&self, program: Program<'a>) -> &'a [u64] {
        if self.spec.heterogeneous { &[] } else { program.statics }
    }

    /// Node of each PE.
    pub(crate) fn placement(&self) -> Vec<NodeId> {
        self.memory.entries.iter().map(|e| e.node).collect()
    }

    /// Tells the owner. One that does not read, though its connection keeps thousands, is not served any more.
    pub(crate) fn tell(&self, event: Event) {
        self.send(event, None);
    }

    /// As [`Job::tell`]; the answer comes when the words are written, or their reader has gone.
    pub(crate) fn tell_last(&self, event: Event) -> oneshot::Receiver<()> {
        let (written, on_written) = oneshot::channel();
        self.send(event, Some(written));
        on_written
    }

    fn send(&self, event: Event, written: Option<oneshot::Sender<()>>) {
        if self.owner.lines.try_send(Outgoing { words: Words::Event(event), written }).is_err() {
            tracing::debug!(job = self.memory.id.number(), "owner does not take events");
            self.owner.overrun.notify_one();
        }
    }

    /// Keeps something for the report, unless there is more than enough.
    pub(crate) fn note(&mut self, limits: &Limits, text: String) {
        match (self.notes.len() as u64) < limits.get(Limit::Notes) {
            true => self.notes.push(text),
            false => self.notes_left_out += 1,
        }
    }

    /// Returns what was kept.
    pub(crate) fn notes(&self) -> Vec<String> {
        let left_out = (self.notes_left_out > 0).then(|| format!("{} more notes were left out", self.notes_left_out));
        self.notes.iter().cloned().chain(left_out).collect()
    }

    /// Makes every library call of every PE end with an error.
    pub(crate) fn set_ended(&self) {
        self.memory.page.set_state(JobState::Ended);
        for pe in 0..self.memory.pes {
            self.memory.sync.alert(pe);
        }
        self.memory.sync.barrier_cell().notify(&Linux);
    }

    /// Sends a signal to the processes of this host that take part, if they are the daemon's own user's: the rights with
    /// which it sends signals are the daemon's, and nobody's process may be signalled with more than her own. Not to
    /// `spare`, nor to a process that created the job itself.
    pub(crate) fn signal(&self, signal: Signal, spare: Option<usize>) {
        if self.uid != geteuid().as_raw() {
            return;
        }
        for (pe, state) in self.pes.iter().enumerate().filter(|(pe, _)| Some(*pe) != spare) {
            let PeState::Attached(a) = state else { continue };
            let takes_part = self.memory.page.pe(pe).seat.taken();
            if let Some(process) = a.process.as_ref().filter(|_| takes_part && self.owner.pid != Some(a.pid)) {
                // Fails only if it is already gone.
                let _ = pidfd_send_signal(process.as_ref(), signal);
            }
        }
    }

    /// Kills the processes that [`Job::signal`] reaches and closes the connections of all. Other users' processes are
    /// ended by their launcher, by its agent on this host, or by the library at its next call; a process that rests goes
    /// on without the job.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL, None);
        for state in &self.pes {
            if let PeState::Attached(a) = state {
                (a.close)();
            }
        }
    }

    /// PEs that have ever been attached.
    fn came(&self) -> u32 {
        (0..self.memory.pes).filter(|pe| self.memory.page.pe(*pe).seat != Seat::FREE).count() as u32
    }

    /// One line of `angara status`.
    pub(crate) fn status(&self, sets: &SetFigures) -> JobStatus {
        JobStatus {
            job: self.memory.id,
            name: self.spec.name.clone(),
            uid: self.uid,
            pes: self.spec.pes,
            attached: self.memory.page.attached() as u32,
            came: self.came(),
            memory: self.memory.reserved(),
            age_s: self.created.elapsed().as_secs_f64(),
            path: self.spec.path,
            set: self.descriptor.new.set.clone(),
            tables_made: sets.tables_made(self.memory.id),
        }
    }
}

/// 128 random bits as hexadecimal digits.
pub(crate) fn random_key(machine: &dyn Machine) -> std::io::Result<String> {
    Ok(machine.random()?.iter().map(|b| format!("{b:02x}")).collect())
}

/// One sentence about a PE's static segments.
pub(crate) fn show_segments(segments: &[u64]) -> String {
    match segments {
        [] => "no symmetric static data".into(),
        s => format!("static segments of {}", s.iter().map(|&b| show_bytes(b)).collect::<Vec<_>>().join(" + ")),
    }
}

fn admit(first: &mut Option<Architecture>, own: Architecture, heterogeneous: bool) -> Result<(), Architecture> {
    match *first.get_or_insert(own) {
        first if first == own || heterogeneous => Ok(()),
        first => Err(first),
    }
}

/// `who` runs a program of another architecture than the first PE.
pub(crate) fn other_architecture(who: &str, own: Architecture, job: JobId, first: Architecture) -> Failure {
    failure(
        format!("{who} runs a program for {own}, and the first PE of job {job} one for {first}"),
        "run all PEs on machines of one kind, or start the job with `angara run --heterogeneous`",
    )
}

/// There is no such job here.
pub(crate) fn unknown(id: JobId) -> Failure {
    failure(format!("there is no job {id} here"), "see `angara status` for the jobs that run")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Real;

    #[test]
    fn the_first_pe_decides_on_the_architecture_unless_there_may_be_two() {
        use Architecture::{Aarch64, X86_64};
        let mut first = None;
        let steps = [(X86_64, false), (Aarch64, false), (X86_64, false), (Aarch64, true), (Aarch64, false)];
        let all = steps.map(|(own, heterogeneous)| admit(&mut first, own, heterogeneous));
        assert_eq!(all, [Ok(()), Err(X86_64), Ok(()), Ok(()), Err(X86_64)]);
        let refusal = other_architecture("PE 3", Aarch64, JobId::new(7), X86_64);
        assert_eq!(refusal.message, "PE 3 runs a program for aarch64, and the first PE of job 7 one for x86-64");
        assert!(refusal.remedy.contains("--heterogeneous"), "{refusal:?}");
    }

    #[test]
    fn keys_are_long_and_differ() {
        let (a, b) = (random_key(&Real).expect("random"), random_key(&Real).expect("random"));
        assert_eq!((a.len(), a == b), (32, false));
    }
}
