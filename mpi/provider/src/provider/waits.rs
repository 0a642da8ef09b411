//! Notes of the waits of a program that gets nothing, in words: left where the daemon reads them on request.

use super::ends::Requests;
use super::here::Here;
use super::objects::*;
use super::payload::{Fetches, InboundEnd, Offers};
use super::peers::Peers;
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
pub(crate) struct Quiet {
    since: Instant,
    written: Option<Instant>,
}

impl Quiet {
    /// Nothing has come at a look that others were far before. Returns for how long, if that is to be written down now.
    pub(super) fn lasts(quiet: &mut Option<Quiet>, now: Instant) -> Option<Duration> {
        let quiet = quiet.get_or_insert(Quiet { since: now, written: None });
        let since = now - quiet.since;
        if since < QUIET || quiet.written.is_some_and(|at| now - at < AGAIN) {
            return None;
        }
        quiet.written = Some(now);
        Some(since)
    }

    /// Something has come. True if a note says that nothing does.
    pub(super) fn is_noted(&self) -> bool {
        self.written.is_some()
    }
}

/// What is under way, for those who look on.
pub(crate) struct UnderWay<'a> {
    pub(super) here: &'a Here,
    pub(super) objects: &'a Objects,
    pub(super) peers: &'a Peers,
    pub(super) requests: &'a Requests,
    pub(super) offers: &'a Offers,
    pub(super) fetches: &'a Fetches,
}

impl UnderWay<'_> {
    /// What is under way, in words.
    pub(crate) fn what_it_waits_for(&self) -> String {
        self.in_words().unwrap_or_else(|| NOTHING.into())
    }

    /// Receives without a message, operations that a peer has not ended, and messages without a receive.
    pub(super) fn in_words(&self) -> Option<String> {
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
        for (done, peer) in self.offers.messages() {
            say(&|| self.outgoing(done, peer));
        }
        for (_, inbound) in self.fetches.iter() {
            if let InboundEnd::Received { done, .. } = &inbound.end {
                let (who, tag, len) = (self.here.called(inbound.peer), tagged(done), inbound.len);
                say(&|| format!("receive from {who}{tag}, {} of {len} bytes are here", inbound.got));
            }
        }
        for (want, memory, is_tagged) in self.posted() {
            say(&|| {
                let from = want.source.and_then(|source| self.peers.sources.peer(source));
                let from = from.map_or("anybody".to_owned(), |peer| self.here.called(peer));
                let tag = if is_tagged { wanted(&want) } else { String::new() };
                format!("receive from {from}{tag}, up to {memory} bytes")
            });
        }
        for (seat, known) in self.peers.all.iter().enumerate().filter(|(_, known)| !known.out.is_empty()) {
            let who = self.here.called(Peer { seat: seat as u32, generation: known.generation });
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
        format!("{kind} {}{}, {} bytes", self.here.called(peer), tagged(done), done.len)
    }

    /// Senders that posted receives name.
    pub(super) fn awaited(&self) -> HashSet<Source> {
        self.posted().into_iter().filter_map(|(want, ..)| want.source).collect()
    }

    /// Posted receives, those of messages with a tag first, each kind in the order in which they were posted.
    /// Buffers for several messages are the library's own.
    fn posted(&self) -> Vec<(Want, usize, bool)> {
        let mut all = Vec::new();
        for (_, ep) in self.objects.eps.iter() {
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
        let mut kept = self.objects.eps.iter().flat_map(|(_, ep)| ep.tagged.kept());
        let Some((source, tag, incoming)) = kept.next() else { return String::new() };
        let more = match kept.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let who = self.peers.sources.peer(source).map_or("nobody".to_owned(), |peer| self.here.called(peer));
        format!("; no receive takes {} bytes from {who}{}{more}", incoming.len, shown(tag))
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
