//! The provider with its mailbox: messages come in, and go out.

use super::fault::Outcome;
use super::here::{Here, Window};
use super::names::Names;
use super::state::ProviderState;
use super::waiting::Next;
use super::waits::Quiet;
use crate::abi::constants::errno;
use crate::memory::UserMemory;
use crate::wire::Head;
use angara::Job;
use angara::mailbox::{Mailbox, Peer, SendError, Stander};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Messages taken at once.
const BATCH: usize = 32;

pub(crate) struct Provider {
    mailbox: Mailbox,
    pub(crate) state: ProviderState,
}

impl Provider {
    /// `tables` says where in every heap region what processes publish of their memory begins.
    pub(crate) fn new(
        job: Arc<Job>,
        mailbox: Mailbox,
        job_name: u64,
        (names, tables): (Names, u64),
        window: Window,
    ) -> Provider {
        let here = Here::new(job, &mailbox, job_name, window);
        Provider { mailbox, state: ProviderState::new(here, names, tables) }
    }

    /// Takes what has arrived and sends what had no room. True if something came; otherwise others get the core.
    #[inline]
    pub(crate) fn progress(&mut self) -> bool {
        let came = self.take_in();
        if came {
            self.state.idle.ends();
        } else {
            self.nothing_came();
        }
        came
    }

    /// [`Provider::progress`] that does nothing else where nothing came.
    #[inline(always)]
    pub(super) fn take_in(&mut self) -> bool {
        let Provider { mailbox, state } = self;
        let came = match mailbox.receive(BATCH, &mut |peer, message| {
            state.looks.something_came();
            state.arrived(peer, message)
        }) {
            Ok(count) => count > 0,
            Err(e) => {
                state.breaks(&e);
                false
            }
        };
        if self.has_unsent() {
            self.flush();
        }
        if came {
            self.state.here.adapter().changes_something();
            if self.state.quiet.is_some() {
                self.quiet_is_over();
            }
        }
        came
    }

    #[cold]
    fn quiet_is_over(&mut self) {
        if self.state.quiet.take().is_some_and(|quiet| quiet.is_noted()) {
            self.state.here.adapter().no_wait();
        }
    }

    /// Messages wait for room.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        !self.state.peers.full.is_empty()
    }

    /// How many do.
    pub(crate) fn unsent(&self) -> usize {
        let peers = &self.state.peers;
        peers.full.iter().map(|seat| peers.all[*seat as usize].out.len()).sum()
    }

    pub(super) fn flush(&mut self) {
        let Provider { mailbox, state } = self;
        for seat in std::mem::take(&mut state.peers.full) {
            let known = &mut state.peers.all[seat as usize];
            let peer = Peer { seat, generation: known.generation };
            while let Some(message) = known.out.front() {
                match mailbox.try_send(peer, &[IoSlice::new(message)]) {
                    Ok(()) => {}
                    Err(SendError::Full) => break,
                    Err(SendError::Gone | SendError::TooLong { .. }) => {}
                    Err(SendError::Job(e)) => return state.breaks(&e),
                }
                known.out.pop_front();
            }
            if !known.out.is_empty() {
                state.peers.full.push(seat);
            }
        }
    }

    /// Sends now or not at all: `-FI_EAGAIN` if there is no room, or older messages wait for it.
    #[inline]
    pub(super) fn try_send(&mut self, peer: Peer, head: &Head, body: &[u8], payload: &UserMemory) -> Outcome {
        self.state.meet(peer, false)?;
        if !self.state.peers.at(peer).out.is_empty() {
            self.progress();
            if !self.state.peers.at(peer).out.is_empty() {
                return Err(errno::EAGAIN);
            }
        }
        let (head, len) = head.encode();
        let head = IoSlice::new(&head[..len]);
        match payload.one_piece() {
            Some(payload) if body.is_empty() => self.try_parts(peer, &[head, payload]),
            _ => self.try_pieces(peer, head, body, payload),
        }
    }

    #[cold]
    #[inline(never)]
    fn try_pieces(&mut self, peer: Peer, head: IoSlice<'_>, body: &[u8], payload: &UserMemory) -> Outcome {
        let mut parts = [IoSlice::new(&[]); 2 + crate::memory::PIECES];
        let all = [head, IoSlice::new(body)].into_iter().chain(payload.io_slices());
        let count = parts.iter_mut().zip(all).map(|(part, one)| *part = one).count();
        self.try_parts(peer, &parts[..count])
    }

    #[inline]
    fn try_parts(&mut self, peer: Peer, parts: &[IoSlice<'_>]) -> Outcome {
        let mut sent = self.mailbox.try_send(peer, parts);
        if matches!(sent, Err(SendError::Full)) {
            self.progress();
            sent = self.mailbox.try_send(peer, parts);
        }
        match sent {
            Ok(()) => {
                self.state.goes_on();
                Ok(())
            }
            Err(error) => self.not_sent(peer, error),
        }
    }

    #[cold]
    #[inline(never)]
    fn not_sent(&mut self, peer: Peer, error: SendError) -> Outcome {
        match error {
            SendError::Full => Err(errno::EAGAIN),
            SendError::Gone => Err(self.state.here.why_gone(peer)),
            SendError::TooLong { .. } => Err(errno::EMSGSIZE),
            SendError::Job(e) => {
                self.state.breaks(&e);
                Err(errno::EIO)
            }
        }
    }
}

/// Waits.
impl Provider {
    /// A look that found nothing: others may need this core, and peers may be gone.
    fn nothing_came(&mut self) {
        let adapter = self.state.here.adapter();
        if let Some(call) = adapter.blocking_call() {
            return self.waits_in_a_call(call);
        }
        adapter.looks_somewhere();
        match self.state.idle.one_more(|| adapter.virtual_now().is_some()) {
            Next::LookAgain => {}
            Next::Sleep(limit) => self.sleep(limit),
            Next::Yield => self.state.idle.yields(),
        }
        if self.state.idle.asks_a_clock() {
            self.look_after_peers();
        }
    }

    /// Sleeps, by the library's rule, until something may have come or `limit` has passed.
    pub(crate) fn sleep(&mut self, limit: Duration) {
        if let Err(e) = self.mailbox.wait(limit) {
            self.state.breaks(&e);
        }
        self.look_after_peers();
    }

    pub(super) fn look_after_peers(&mut self) {
        let Some(now) = self.state.idle.is_time_to_look() else { return };
        self.stays_quiet(now);
        let met = (0..self.state.peers.all.len() as u32).filter_map(|seat| self.state.peers.met_at(seat));
        let gone: Vec<Peer> =
            met.filter(|peer| !self.mailbox.is_there(*peer) && !self.mailbox.is_to_come(*peer)).collect();
        if gone.is_empty() {
            return;
        }
        // Messages sent before a peer left are still received.
        let Provider { mailbox, state } = self;
        while let Ok(1..) = mailbox.receive(BATCH, &mut |peer, message| state.arrived(peer, message)) {}
        gone.into_iter().for_each(|peer| self.state.lose(peer));
    }

    /// Nothing has come at a look that others were far before. Leaves a note if that lasts.
    fn stays_quiet(&mut self, now: Instant) {
        let Some(since) = Quiet::lasts(&mut self.state.quiet, now) else { return };
        self.state.look_after_awaited();
        let text = self.state.under_way().what_it_waits_for();
        self.state.here.adapter().note_wait(since, &text);
    }

    /// Where time is virtual: a look in a call that returns only when something comes has found nothing.
    fn waits_in_a_call(&mut self, call: u32) {
        let Provider { mailbox, state } = self;
        if !state.looks.one_more(&state.here, call)
            || state.objects.queues.iter().any(|(_, queue)| queue.has_something())
        {
            return;
        }
        if state.here.adapter().takes_turns() {
            return state.looks.will_stand();
        }
        let might_go_on = state.looks.stand_at_once();
        let stood = mailbox.stand(might_go_on, &|| state.under_way().what_it_waits_for());
        self.has_stood(stood);
    }

    /// A stand for a message has ended: something may have come, or not.
    fn has_stood(&mut self, stood: angara::Result<bool>) {
        match stood {
            Err(e @ angara::Error::Deadlock { .. }) => self.state.here.waits_in_vain(&e),
            Err(e) => self.state.breaks(&e),
            Ok(may_come) => self.state.looks.doubt(!may_come),
        }
    }

    /// The calling thread is to stand without this state while others have their turns: the number of its call, and whether it
    /// might go on by itself.
    pub(crate) fn begin_to_stand(&mut self) -> Option<(Stander, u32, bool)> {
        let (call, might_go_on) = self.state.looks.begin_to_stand();
        Some((self.mailbox.stander()?, call, might_go_on))
    }

    /// It has stood.
    pub(crate) fn is_back(&mut self, call: u32, stood: angara::Result<bool>) {
        self.mailbox.see_who_has_freed();
        self.state.looks.is_back(&self.state.here, call);
        self.has_stood(stood);
    }
}
