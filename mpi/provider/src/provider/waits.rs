//! Notes of the waits of a program that gets nothing, in words: left where the daemon reads them on request.

use super::objects::*;
use super::transfer::InboundEnd;
use super::{Provider, ProviderState};
use crate::abi::constants::*;
use crate::matching::{Source, Want};
use angara::mailbox::Peer;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Nothing has come for so long: what is under way is written down.
const QUIET: Duration = Duration::from_millis(200);
/// And written again so often.
const AGAIN: Duration = Duration::from_secs(1);
/// Operations that are named one by one.
const NAMED: usize = 5;
/// A library that waits for messages of its own has posted buffers for all of them together.
const NOTHING: &str = "MPI: any message; nothing of the program's is posted or under way";
/// Bits of a tag that are MPI's with MPICH (`MPIDI_OFI_TAG_BITS_a`). Open MPI has one more, the sign.
const MPI_TAG: u64 = (1 << 31) - 1;
/// Open MPI's own messages have tags between this and 0.
const OWN_TAGS: i32 = -100_000;

/// A time in which nothing comes.
pub(super) struct Quiet {
    since: Instant,
    written: Option<Instant>,
}

impl Provider {
    /// Nothing has come at a look that others were far before. Leaves a note if that lasts.
    pub(super) fn stays_quiet(&mut self, now: Instant) {
        let quiet = self.state.quiet.get_or_insert(Quiet { since: now, written: None });
        let since = quiet.since;
        if now - since < QUIET || quiet.written.is_some_and(|at| now - at < AGAIN) {
            return;
        }
        quiet.written = Some(now);
        self.state.look_after_awaited();
        let text = self.state.what_it_waits_for();
        self.state.job.adapter().note_wait(now - since, &text);
    }
}

impl ProviderState {
    /// Something has come.
    #[cold]
    pub(super) fn quiet_is_over(&mut self) {
        if self.quiet.take().is_some_and(|quiet| quiet.written.is_some()) {
            self.job.adapter().no_wait();
        }
    }

    /// Ends receives from processes that had still to come when they were posted, and have gone since.
    fn look_after_awaited(&mut self) {
        let sources: HashSet<Source> = self.posted().into_iter().filter_map(|(want, ..)| want.source).collect();
        let mut gone = vec![false; self.sources.peers.len()];
        for source in sources {
            gone[source as usize] = self.never_sends(source).is_some();
        }
        if gone.contains(&true) {
            self.eps.ids(|_| true).into_iter().for_each(|ep| self.end_receives_from(ep, &gone));
        }
    }

    /// What is under way, in words.
    pub(super) fn what_it_waits_for(&self) -> String {
        self.under_way().unwrap_or_else(|| NOTHING.into())
    }

    /// Receives without a message, operations that a peer has not ended, and messages without a receive.
    pub(super) fn under_way(&self) -> Option<String> {
        let mut all: Vec<String> = Vec::new();
        let mut count = 0;
        let mut say = |text: &dyn Fn() -> String| {
            count += 1;
            if count <= NAMED {
                all.push(text());
            }
        };
        for (_, request) in self.requests.iter() {
            say(&|| self.outgoing(&request.done, request.peer));
        }
        for (done, peer) in self.outbound.iter().filter_map(|(_, rts)| Some((rts.message()?, rts.peer))) {
            say(&|| self.outgoing(done, peer));
        }
        for (_, inbound) in self.inbound.iter() {
            if let InboundEnd::Received { done, .. } = &inbound.end {
                let (who, tag, len) = (self.called(inbound.peer), tagged(done), inbound.len);
                say(&|| format!("receive from {who}{tag}, {} of {len} bytes are here", inbound.got));
            }
        }
        for (want, memory, is_tagged) in self.posted() {
            say(&|| {
                let from = want.source.and_then(|source| self.sources.peer(source));
                let from = from.map_or("anybody".to_owned(), |peer| self.called(peer));
                let tag = if is_tagged { wanted(&want) } else { String::new() };
                format!("receive from {from}{tag}, up to {memory} bytes")
            });
        }
        for (seat, known) in self.peers.iter().enumerate().filter(|(_, known)| !known.out.is_empty()) {
            let who = self.called(Peer { seat: seat as u32, generation: known.generation });
            say(&|| format!("{} messages to {who}, which has no room for them", known.out.len()));
        }
        if count == 0 {
            return None;
        }
        let more = if count > NAMED { format!("; and {} more", count - NAMED) } else { String::new() };
        Some(format!("MPI: {}{more}{}", all.join("; "), self.unwanted()))
    }

    /// An operation that its target has not ended.
    fn outgoing(&self, done: &Done, peer: Peer) -> String {
        let kind = match done.flags {
            flags if flags & ATOMIC != 0 => "atomic on memory of",
            flags if flags & READ != 0 => "get from",
            flags if flags & WRITE != 0 => "put to",
            _ => "send to",
        };
        format!("{kind} {}{}, {} bytes", self.called(peer), tagged(done), done.len)
    }

    /// Posted receives, those of messages with a tag first, each kind in the order in which they were posted.
    /// Buffers for several messages are the library's own.
    fn posted(&self) -> Vec<(Want, usize, bool)> {
        let mut all = Vec::new();
        for (_, ep) in self.eps.iter() {
            for (matching, is_tagged) in [(&ep.tagged, true), (&ep.plain, false)] {
                let ones = matching.posted().filter(|(_, _, receive)| receive.multi == 0);
                all.extend(ones.map(|(order, want, posted)| (Reverse(is_tagged), order, *want, posted.memory.len())));
            }
        }
        all.sort_unstable_by_key(|(kind, order, ..)| (*kind, *order));
        all.into_iter().map(|(Reverse(is_tagged), _, want, len)| (want, len, is_tagged)).collect()
    }

    /// Messages that no receive has taken: often the tag is not what the receive wants.
    fn unwanted(&self) -> String {
        let mut kept = self.eps.iter().flat_map(|(_, ep)| ep.tagged.kept());
        let Some((source, tag, incoming)) = kept.next() else { return String::new() };
        let more = match kept.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let who = self.sources.peer(source).map_or("nobody".to_owned(), |peer| self.called(peer));
        format!("; no receive takes {} bytes from {who}{}{more}", incoming.len, shown(tag))
    }

    /// In a job a PE is a rank. In a domain a seat is not.
    fn called(&self, peer: Peer) -> String {
        format!("{} {}", if self.job.geometry().open { "seat" } else { "PE" }, peer.seat)
    }
}

fn tagged(done: &Done) -> String {
    if done.flags & TAGGED != 0 { shown(done.tag) } else { String::new() }
}

fn wanted(want: &Want) -> String {
    if want.ignore & MPI_TAG == MPI_TAG { format!(", any tag ({:#x})", want.tag) } else { shown(want.tag) }
}

/// MPI's tag, which MPICH and Open MPI put in the last bits, and all bits.
fn shown(tag: u64) -> String {
    let signed = tag as i32;
    let mpi = if (OWN_TAGS..0).contains(&signed) { i64::from(signed) } else { (tag & MPI_TAG) as i64 };
    format!(", tag {mpi} ({tag:#x})")
}
