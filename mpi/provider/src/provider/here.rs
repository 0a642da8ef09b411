//! This process in its job: what stays as it is until the job ends.

use crate::abi::constants::errno;
use crate::wire::HEAD_MAX;
use angara::driver::Adapter;
use angara::mailbox::{Mailbox, Peer};
use angara::{Job, Place, Reach, Region};
use angara_protocol::mpi::MpiCosts;
use std::sync::Arc;

pub(crate) struct Here {
    pub(crate) job: Arc<Job>,
    pub(crate) me: Peer,
    /// Names the job in addresses.
    pub(crate) job_name: u64,
    pub(super) eager_max: usize,
    pub(super) window: Window,
}

impl Here {
    pub(super) fn new(job: Arc<Job>, mailbox: &Mailbox, job_name: u64, window: Window) -> Here {
        // A machine's parameter where time is virtual, which has not begun yet.
        let limit = MpiCosts::from_env().map_or(usize::MAX, |costs| costs.eager as usize + HEAD_MAX);
        Here { job, me: mailbox.me(), job_name, eager_max: mailbox.message_max().min(limit), window }
    }

    #[inline]
    pub(super) fn adapter(&self) -> &Adapter {
        self.job.adapter()
    }

    pub(super) fn is_direct(&self, peer: Peer) -> bool {
        self.job.ctx().reach(peer.seat as usize) == Reach::Direct
    }

    /// Returns what a message to a peer that is not there fails with.
    pub(super) fn why_gone(&self, peer: Peer) -> i32 {
        let seat = self.job.pe_entry(peer.seat as usize).seat;
        if seat.life() == peer.generation { errno::ENOTCONN } else { errno::ECONNREFUSED }
    }

    /// In a job a PE is a rank. In a domain a seat is not.
    pub(super) fn called(&self, peer: Peer) -> String {
        format!("{} {}", if self.job.geometry().open { "seat" } else { "PE" }, peer.seat)
    }

    /// Where time is virtual: what the library takes to receive N bytes passes.
    #[inline]
    pub(super) fn pay_to_receive(&self, len: usize) {
        if let Some(costs) = self.adapter().mpi_costs() {
            let more = if len + HEAD_MAX > self.eager_max { costs.rendezvous } else { costs.copying(len) };
            self.adapter().takes(costs.receive + more);
        }
    }

    /// Where time is virtual: nothing can happen any more. The libraries above would say something else.
    #[cold]
    pub(super) fn waits_in_vain(&self, error: &angara::Error) -> ! {
        let (me, adapter) = (self.me.seat, self.adapter());
        let call = adapter.name_of_call().unwrap_or("MPI");
        let node = self.job.pe_entry(me as usize).node;
        adapter.read_real_clocks();
        // SAFETY: flushes the program's own streams.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        angara_protocol::complain!("angara: PE {me} (node {node}): {call}: {error}");
        adapter.abort(1, &format!("{call} failed"), false);
        // SAFETY: ends the process. What the library does at exit would wait for others.
        unsafe { libc::_exit(1) }
    }
}

/// The part of every PE's heap through which payloads go, in chunks.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    /// Where it begins in every PE's heap region.
    start: u64,
    pub(super) chunk: usize,
    pub(super) chunks: u32,
}

impl Window {
    /// Chunks in `len` bytes at `start`; the same on every PE.
    pub(crate) fn new(start: u64, len: usize) -> Window {
        let chunk = (len / 32).clamp(4 << 10, 256 << 10) & !0xfff;
        Window { start, chunk, chunks: (len / chunk).min(1 << 16) as u32 }
    }

    pub(super) fn place(&self, chunk: u32) -> Place {
        Place { region: Region::Heap, offset: self.start + u64::from(chunk) * self.chunk as u64 }
    }

    /// True if a peer's window can have N bytes in that chunk.
    pub(super) fn holds(&self, chunk: u32, bytes: usize) -> bool {
        chunk < self.chunks && bytes <= self.chunk
    }
}
