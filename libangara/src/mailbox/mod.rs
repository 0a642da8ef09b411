//! Messages between the PEs of a job, written by puts into rings in the receiver's symmetric heap.
//!
//! A message of up to 240 bytes is one packet of the network. Whoever has never sent costs the receiver nothing: no memory
//! and no look. Both engines carry it. `docs/explain/mailbox.md` says what lies where, and why no order of copying is
//! assumed.
//!
//! ```
//! use angara::{Job, mailbox::Mailbox};
//! use std::{io::IoSlice, sync::Arc, time::Duration};
//! let job = Arc::new(Job::from_env(Mailbox::bytes(1))?); // under `angara run` the whole job, else one PE
//! let at = job.locate(job.heap(), Mailbox::bytes(job.n_pes())).expect("angara run --heap: room for a mailbox");
//! let mut mailbox = Mailbox::open(job.clone(), at)?;
//! let right = mailbox.peer((job.my_pe() + 1) % job.n_pes());
//! mailbox.try_send(right, &[IoSlice::new(b"hello")]).expect("a ring has room for a first message");
//! let mut text = [0; 5];
//! while mailbox.receive(1, &mut |_from, message| message.copy(0, &mut text))? == 0 {
//!     mailbox.wait(Duration::from_millis(100))?;
//! }
//! assert_eq!(&text, b"hello");
//! # Ok::<(), angara::Error>(())
//! ```

pub mod capi;
mod incoming;
mod layout;
mod message;
mod outgoing;

pub use message::Message;

use crate::error::{Error, Result};
use crate::job::Job;
use angara_abi::clock::WaitsFor;
use angara_abi::desc::{Place, Region};
use incoming::Incoming;
use layout::{BELL, Layout};
use outgoing::Outgoing;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A sender or receiver: one life of a seat of the job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Peer {
    /// Its PE number.
    pub seat: u32,
    /// Which life of the seat: [`angara_abi::job::Seat::life`].
    pub generation: u32,
}

/// Why a message was not sent. Nothing of it has been.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The receiver has not freed enough slots, or is still to come: receive, wait, and try again.
    #[error("the receiver's ring is full")]
    Full,
    /// That generation of the seat has left or was lost.
    #[error("the receiver has left")]
    Gone,
    /// Longer than [`Mailbox::message_max`].
    #[error("a message has at most {max} bytes, not {len}")]
    TooLong {
        /// Its bytes.
        len: usize,
        /// The most there can be.
        max: usize,
    },
    /// The job cannot go on.
    #[error(transparent)]
    Job(#[from] Error),
}

/// A wait longer than this has no limit where time is virtual.
const ENDLESS: Duration = Duration::from_secs(3600);
/// Where time is virtual, a look takes this fraction of the wait before it ...
const LATE: u64 = 16;
/// ... but no longer than this, in picoseconds. Ours.
const LOOK_MOST: u64 = 10_000_000;

/// This PE's mailbox. One thread at a time uses it.
pub struct Mailbox {
    job: Arc<Job>,
    layout: Layout,
    /// The mailbox in this PE's heap; the same place on every PE.
    at: Place,
    base: *mut u8,
    me: Peer,
    /// By seat: 1 + index in `outgoing`, or 0.
    known: Box<[u16]>,
    outgoing: Vec<Outgoing>,
    /// Those whose rings were full when something was last sent to them.
    blocked: Vec<u16>,
    /// Long messages are put together here, if they are not in one piece.
    whole: Vec<u8>,
    contacts: Vec<Incoming>,
    /// One of them could not be told what has been freed.
    owes: bool,
    /// Whose turn it is among them.
    turn: usize,
    /// The bell when contacts were looked for last.
    bell: u64,
    /// Time has become virtual since contacts have been made.
    is_ordered: bool,
}

// SAFETY: `base` leads into a shared mapping that lives as long as the job, which may be used from any thread.
unsafe impl Send for Mailbox {}

/// Stands for a mailbox.
pub struct Stander {
    job: Arc<Job>,
    waits_for: WaitsFor,
}

impl Stander {
    /// As [`Mailbox::stand`].
    pub fn stand(&self, might_go_on: bool, what: &dyn Fn() -> String) -> Result<bool> {
        self.job.adapter.stand_once(self.waits_for, might_go_on, what)
    }
}

impl Mailbox {
    /// Bytes of the longest message where PEs are few; [`Mailbox::message_max`] is less where they are many.
    pub const MESSAGE_MOST: usize = layout::MESSAGE_MOST;

    /// Bytes of symmetric heap that a mailbox takes in a job of `pes` PEs. Memory is used only for rings in which
    /// something has been sent.
    pub fn bytes(pes: usize) -> usize {
        Layout::new(pes).bytes()
    }

    /// The mailbox at `at`, the same place on every PE, a multiple of the page size, which holds zeros when the job
    /// begins. Others may have sent before this is called.
    pub fn open(job: Arc<Job>, at: Place) -> Result<Mailbox> {
        let layout = Layout::new(job.n_pes());
        let bytes = layout.bytes();
        if at.region != Region::Heap || !at.offset.is_multiple_of(angara_abi::PAGE as u64) {
            let Place { region, offset } = at;
            return Err(Error::invalid(format!(
                "a mailbox is at a whole page of the heap, not {region:?} {offset:#x}"
            )));
        }
        let me = job.my_pe();
        let base = job.adapter.memory.peers.address(me, at, bytes).ok_or_else(|| {
            let room = job.adapter.memory.peers.window(Region::Heap).len.saturating_sub(at.offset as usize);
            Error::invalid(format!(
                "a mailbox for {} PEs takes {bytes} bytes of symmetric heap, {room} are left",
                layout.pes
            ))
        })?;
        let generation = job.adapter.memory.job.seat(me).life();
        Ok(Mailbox {
            known: vec![0; layout.pes].into(),
            me: Peer { seat: me as u32, generation },
            layout,
            at,
            base,
            outgoing: Vec::new(),
            blocked: Vec::new(),
            whole: Vec::new(),
            contacts: Vec::new(),
            owes: false,
            turn: 0,
            bell: 0,
            is_ordered: false,
            job,
        })
    }

    /// This PE in its life.
    pub fn me(&self) -> Peer {
        self.me
    }
    /// Returns who sits at `seat` now, or would next.
    ///
    /// # Panics
    /// If there is no such PE.
    pub fn peer(&self, seat: usize) -> Peer {
        Peer { seat: seat as u32, generation: self.job.pe_entry(seat).seat.life() }
    }
    /// The job whose PEs these are.
    pub fn job(&self) -> &Arc<Job> {
        &self.job
    }

    /// True if `peer` has not left or been lost: one load. Also true of one that is still to come.
    #[inline]
    pub fn is_there(&self, peer: Peer) -> bool {
        let seat = peer.seat as usize;
        seat < self.layout.pes && {
            let seat = self.job.adapter.memory.job.seat(seat);
            seat.life() == peer.generation && !seat.is_over()
        }
    }

    /// True if `peer` of an open job has still to come, as far as is known here: on another host it may have done so
    /// already.
    pub fn is_to_come(&self, peer: Peer) -> bool {
        let seat = peer.seat as usize;
        seat < self.layout.pes && self.job.geometry().open && {
            let seat = self.job.adapter.memory.job.seat(seat);
            seat.life() < peer.generation || seat.life() == peer.generation && !seat.taken() && !seat.is_over()
        }
    }

    /// Bytes of the longest message.
    pub fn message_max(&self) -> usize {
        self.layout.message_max()
    }

    /// Those who have sent to this PE, or may be about to.
    pub fn contacts(&self) -> impl Iterator<Item = Peer> {
        self.contacts.iter().map(Incoming::peer)
    }

    /// Sleeps, as all waits of this library do, until something may have come: a message, somebody new, or room for a
    /// message that was refused as [`SendError::Full`]. False if `limit` is over first.
    pub fn wait(&mut self, limit: Duration) -> Result<bool> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        let came = match self.job.adapter.virtual_now() {
            Some(begin) if limit < ENDLESS => self.look_until(begin, limit)?,
            clock => {
                let end = Instant::now().checked_add(limit).filter(|_| clock.is_none());
                let mut came = false;
                let ready = || {
                    came = self.has_something();
                    came || end.is_some_and(|end| Instant::now() >= end)
                };
                let what = || format!("a message to PE {}", self.me.seat);
                self.job.wait(ready, &what)?;
                came
            }
        };
        self.see_who_has_freed();
        Ok(came)
    }

    /// Waits until something may have come, as [`Mailbox::wait`] without a limit, or until one of `peers` has left.
    pub(crate) fn wait_for(&mut self, peers: &[usize], what: &dyn Fn() -> String) -> Result<()> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        let over = |seat: &usize| self.job.adapter.memory.job.seat(*seat).is_over();
        let ready = || self.has_something() || peers.iter().any(over);
        self.job.adapter.wait_memory(WaitsFor::Message(self.at, self.me.generation), ready, what)?;
        self.see_who_has_freed();
        Ok(())
    }

    /// Those to whom messages were refused may have made room.
    pub fn see_who_has_freed(&mut self) {
        let mut blocked = std::mem::take(&mut self.blocked);
        blocked.retain(|index| !self.has_been_freed(&self.outgoing[usize::from(*index)]));
        self.blocked = blocked;
    }

    /// Where time is virtual: stands still until a message is complete, or until room or an answer may have come. `what` is
    /// said where nothing can.
    /// Whoever `might_go_on` by itself is told first that nothing can come, by `false`.
    pub fn stand(&mut self, might_go_on: bool, what: &dyn Fn() -> String) -> Result<bool> {
        let may_come = self.stander().map_or(Ok(true), |stander| stander.stand(might_go_on, what))?;
        self.see_who_has_freed();
        Ok(may_come)
    }

    /// What stands for this mailbox while other threads use it; nothing if something may have come already. Afterwards
    /// [`Mailbox::see_who_has_freed`] is to be called.
    pub fn stander(&self) -> Option<Stander> {
        let waits_for = WaitsFor::Message(self.at, self.me.generation);
        (!self.has_something()).then(|| Stander { job: Arc::clone(&self.job), waits_for })
    }

    /// [`Mailbox::wait`] where time is virtual: the longer it has waited, the longer until it looks again.
    fn look_until(&self, begin: u64, limit: Duration) -> Result<bool> {
        let adapter = &self.job.adapter;
        let limit = limit.as_nanos() as u64 * 1000;
        loop {
            let waited = adapter.virtual_now().map_or(limit, |now| now.saturating_sub(begin));
            adapter.look_after((waited / LATE).min(LOOK_MOST).min(limit.saturating_sub(waited)))?;
            if self.has_something() {
                return Ok(true);
            }
            if waited >= limit {
                return Ok(false);
            }
        }
    }

    fn has_something(&self) -> bool {
        self.word(BELL).load(Ordering::Acquire) != self.bell
            || self.contacts.iter().any(|contact| self.arrived(contact).is_some())
            || self.blocked.iter().any(|index| self.has_been_freed(&self.outgoing[usize::from(*index)]))
    }

    fn is_forked(&self) -> bool {
        self.job.adapter.guard.forked()
    }

    /// A word of this PE's own mailbox.
    #[inline]
    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && offset < self.layout.bytes());
        // SAFETY: aligned and inside the mailbox, which `open` has checked; peers write the word whole.
        unsafe { AtomicU64::from_ptr(self.base.add(offset).cast()) }
    }

    /// The place at `offset` of any PE's mailbox.
    #[inline]
    fn place(&self, offset: usize) -> Place {
        Place { offset: self.at.offset + offset as u64, ..self.at }
    }
}
