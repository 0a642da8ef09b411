//! Notes of messages, for timelines ([`angara_protocol::calls::mpi`]).

use angara::Job;
use angara::mailbox::Peer;
use angara_protocol::calls::Step;
use angara_protocol::calls::mpi::{Hooks, Noted, preloaded};
use std::sync::{Arc, OnceLock};

/// Messages of this process, where they are noted.
pub(super) struct Notes(Option<Box<Messages>>);

struct Messages {
    hooks: &'static Hooks,
    /// By PE.
    counts: Vec<Counts>,
}

/// Messages between this PE and another one.
#[derive(Clone, Copy, Default)]
struct Counts {
    sent: u64,
    /// The last one that was noted: one more than were sent if the next has found no room so far.
    noted: u64,
    came: u64,
}

/// The job whose time counts.
static JOB: OnceLock<Arc<Job>> = OnceLock::new();

extern "C" fn virtual_now() -> u64 {
    JOB.get().and_then(|job| job.adapter().virtual_now()).unwrap_or(u64::MAX)
}

impl Messages {
    fn begin(job: &Arc<Job>) -> Option<Box<Messages>> {
        let hooks = preloaded().filter(|_| !job.geometry().open)?;
        let job = JOB.get_or_init(|| job.clone());
        let pe = job.my_pe();
        let noted = Noted { pe: pe as u32, pes: job.n_pes() as u32, node: job.pe_entry(pe).node, virtual_now };
        let counts = vec![Counts::default(); job.n_pes()];
        (hooks.begin)(&noted).then(|| Box::new(Messages { hooks, counts }))
    }
}

impl Notes {
    /// Messages are noted from now on, if the program was started so.
    pub(super) fn begin(job: &Arc<Job>) -> Notes {
        Notes(Messages::begin(job))
    }

    /// A message is about to be sent, for the first time or again. It is noted before its receiver can have it.
    #[inline]
    pub(super) fn note_sending(&mut self, peer: Peer, len: usize) {
        if let Some(messages) = &mut self.0 {
            let counts = &mut messages.counts[peer.seat as usize];
            let number = counts.sent + 1;
            if counts.noted < number {
                counts.noted = number;
                (messages.hooks.message)(Step::Sent, peer.seat, number, len as u64);
            }
        }
    }

    /// It has been sent.
    #[inline]
    pub(super) fn count_sent(&mut self, peer: Peer) {
        if let Some(messages) = &mut self.0 {
            messages.counts[peer.seat as usize].sent += 1;
        }
    }

    /// The number of a message that has come, if it counts. Messages between two PEs come in the order in which they were sent.
    #[inline]
    pub(super) fn number_of(&mut self, peer: Peer) -> u64 {
        self.0.as_mut().map_or(0, |messages| {
            let came = &mut messages.counts[peer.seat as usize].came;
            *came += 1;
            *came
        })
    }

    /// This has happened to a message.
    #[inline]
    pub(super) fn note(&self, step: Step, peer: Peer, number: u64, len: usize) {
        if let Some(messages) = &self.0 {
            (messages.hooks.message)(step, peer.seat, number, len as u64);
        }
    }
}
