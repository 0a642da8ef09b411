//! Notes of messages, for timelines ([`angara_abi::calls::mpi`]).

use super::State;
use angara::Job;
use angara::angara_abi::calls::Step;
use angara::angara_abi::calls::mpi::{Hooks, Noted, preloaded};
use angara::mailbox::Peer;
use std::sync::{Arc, OnceLock};

/// Messages of this process, where they are noted.
pub(super) struct Messages {
    hooks: &'static Hooks,
    /// How many have been sent to each PE, and have come from it.
    counts: Vec<(u64, u64)>,
}

/// The job whose time counts.
static JOB: OnceLock<Arc<Job>> = OnceLock::new();

extern "C" fn virtual_now() -> u64 {
    JOB.get().and_then(|job| job.adapter().virtual_now()).unwrap_or(u64::MAX)
}

impl Messages {
    /// If they are to be noted, in this job.
    pub(super) fn begin(job: &Arc<Job>) -> Option<Box<Messages>> {
        let hooks = preloaded().filter(|_| !job.geometry().open)?;
        let job = JOB.get_or_init(|| job.clone());
        let pe = job.my_pe();
        let noted = Noted { pe: pe as u32, pes: job.n_pes() as u32, node: job.pe_entry(pe).node, virtual_now };
        let counts = vec![(0, 0); job.n_pes()];
        (hooks.begin)(&noted).then(|| Box::new(Messages { hooks, counts }))
    }
}

impl State {
    /// A message has been sent.
    #[inline]
    pub(super) fn note_sent(&mut self, peer: Peer, len: usize) {
        if let Some(messages) = &mut self.messages {
            let (sent, _) = &mut messages.counts[peer.seat as usize];
            *sent += 1;
            (messages.hooks.message)(Step::Sent, peer.seat, *sent, len as u64);
        }
    }

    /// The number of a message that has come, if it counts. Messages between two PEs come in the order in which they were sent.
    #[inline]
    pub(super) fn number_of(&mut self, peer: Peer) -> u64 {
        self.messages.as_mut().map_or(0, |messages| {
            let (_, came) = &mut messages.counts[peer.seat as usize];
            *came += 1;
            *came
        })
    }

    /// This has happened to a message.
    #[inline]
    pub(super) fn note(&self, step: Step, peer: Peer, number: u64, len: usize) {
        if let Some(messages) = &self.messages {
            (messages.hooks.message)(step, peer.seat, number, len as u64);
        }
    }
}
