//! Recordings as schedules: one-sided operations become messages, each with its recv.

use super::schedule::{Dependency, Kind, Operation, Rank};
use crate::Error;
use angara_abi::PAYLOAD_MAX;
use angara_protocol::recording::{Cause, Post, Reached, Record, Recording};
use std::collections::BTreeMap;

/// Tags of what changes memory, of what asks for an answer, of answers, and of barriers.
const DATA: u32 = 0;
const REQUEST: u32 = 1;
const ANSWER: u32 = 2;
const BARRIER: u32 = 3;
/// Cpu of what the adapter does by itself.
const ADAPTER: u8 = 1;
/// Bytes of a request, a word, and a barrier's message.
const WORD: u64 = 8;

/// A message to another PE.
#[derive(Clone, Copy)]
struct Message {
    bytes: u64,
    /// Bytes of the answer that it asks for.
    answer: Option<u64>,
    /// It changes memory there.
    changes: bool,
}

impl Message {
    fn of(post: &Post) -> Option<(u32, Message)> {
        let plain = |bytes: u32| Message { bytes: bytes.into(), answer: None, changes: true };
        Some(match *post {
            Post::Write { to, len, .. } => (to, plain(len)),
            Post::Amo { to, width, fetch, .. } => (to, Message { answer: fetch.then_some(width.into()), ..plain(16) }),
            Post::Read { to, len, .. } => (to, Message { bytes: WORD, answer: Some(len.into()), changes: false }),
            Post::Flush { to, .. } => (to, Message { bytes: WORD, answer: Some(WORD), changes: false }),
            _ => return None,
        })
    }

    fn tag(&self) -> u32 {
        if self.answer.is_some() { REQUEST } else { DATA }
    }
}

/// Packets in which the adapter sends N bytes.
fn packets(bytes: u64) -> u64 {
    bytes.div_ceil(PAYLOAD_MAX as u64).max(1)
}

/// Turns a recording into schedules of its PEs.
pub(super) struct Converter<'a> {
    recording: &'a Recording,
    /// Messages by receiver and sender, in their order.
    messages: BTreeMap<(u32, u32), Vec<Message>>,
}

/// A PE while it is turned.
#[derive(Default)]
struct Pe {
    rank: Rank,
    /// What its next operation waits for.
    needs: Vec<u32>,
    /// The operation with which each post ends, if it has one.
    posts: Vec<Option<u32>>,
    /// Posts with an answer and the operation that has it, by PE asked.
    answers: BTreeMap<u32, Vec<(u64, u32)>>,
    /// Packets that have come from each PE, with the operation after which there are so many.
    arrivals: BTreeMap<u32, Vec<(u64, u32)>>,
    /// The last recv of each source and tag.
    recvs: BTreeMap<(u32, u32), u32>,
    barrier: Option<u32>,
    /// What its next post waits for in the adapter: the last post, or a barrier behind that.
    queue: Option<u32>,
    /// Picoseconds that were too few for a nanosecond.
    rest: u64,
}

impl Pe {
    fn add(&mut self, kind: Kind, (peer, tag): (u32, u32), (size, cpu): (u64, u8), needs: &[u32]) -> u32 {
        let of = self.rank.operations.len() as u32;
        self.rank.operations.push(Operation { kind, size, peer, tag, cpu, nic: 0 });
        let mut needs = needs.to_vec();
        needs.sort_unstable();
        needs.dedup();
        self.rank.dependencies.extend(needs.into_iter().map(|on| Dependency { of, on, start: false }));
        of
    }

    /// The program computes: what it does next waits for that.
    fn compute(&mut self, ns: u64) -> u32 {
        let needs = std::mem::take(&mut self.needs);
        let step = self.add(Kind::Calc, (0, 0), (ns, 0), &needs);
        self.needs.push(step);
        step
    }

    /// A message posted: it leaves behind those before it, and the program goes on.
    fn send(&mut self, to: (u32, u32), bytes: u64) -> u32 {
        let needs: Vec<u32> = self.needs.iter().copied().chain(self.queue).collect();
        let send = self.add(Kind::Send, to, (bytes, ADAPTER), &needs);
        self.queue = Some(send);
        send
    }

    /// A recv behind the last one of the same source and tag, and behind `more`.
    fn recv(&mut self, from: (u32, u32), bytes: u64, more: Option<u32>) -> u32 {
        let needs: Vec<u32> = self.recvs.get(&from).copied().into_iter().chain(more).collect();
        let recv = self.add(Kind::Recv, from, (bytes, ADAPTER), &needs);
        self.recvs.insert(from, recv);
        recv
    }

    fn arrives(&mut self, from: u32, packets: u64, with: u32) {
        let come = self.arrivals.entry(from).or_default();
        let before = come.last().map_or(0, |last| last.0);
        come.push((before + packets, with));
    }
}

impl<'a> Converter<'a> {
    /// Reads all of a recording for who sends what to whom.
    pub(super) fn new(recording: &'a Recording) -> Result<Converter<'a>, Error> {
        let mut messages: BTreeMap<(u32, u32), Vec<Message>> = BTreeMap::new();
        for from in 0..recording.header.places.len() {
            let mut tape = recording.tape(from);
            while let Some((_, record)) = tape.next(recording)? {
                let Record::Post(post) = record else { continue };
                if let Post::Reduce { .. } | Post::Bcast { .. } = post {
                    let why = "takes part in a collective by trees of the routers, which are no messages";
                    let remedy = "record the program with --collectives p2p, and a barrier other than tree";
                    return Err(Error::Network(format!("PE {from} of the recording {why}; {remedy}")));
                }
                if let Some((to, message)) = Message::of(&post) {
                    messages.entry((to, from as u32)).or_default().push(message);
                }
            }
        }
        let pes = recording.header.places.len();
        match messages.keys().find(|(to, _)| *to as usize >= pes) {
            Some((to, from)) => {
                let why = format!("PE {from} of the recording has a post to PE {to}, and there are {pes}");
                Err(Error::Network(format!("{why}; record the program again")))
            }
            None => Ok(Converter { recording, messages }),
        }
    }

    /// The schedule of a PE.
    pub(super) fn rank(&self, number: u32) -> Result<Rank, Error> {
        let mut pe = Pe::default();
        for (&(_, from), messages) in self.messages.range((number, 0)..=(number, u32::MAX)) {
            for message in messages {
                let recv = pe.recv((from, message.tag()), message.bytes, None);
                if let Some(bytes) = message.answer {
                    pe.add(Kind::Send, (from, ANSWER), (bytes, ADAPTER), &[recv]);
                }
                if message.changes && from != number {
                    pe.arrives(from, packets(message.bytes), recv);
                }
            }
        }
        let mut tape = self.recording.tape(number as usize);
        while let Some((gap, record)) = tape.next(self.recording)? {
            let ps = gap.saturating_add(pe.rest);
            pe.rest = ps % 1000;
            if ps >= 1000 {
                pe.compute(ps / 1000);
            }
            match record {
                Record::Post(post) => self.post(&mut pe, number, &post),
                Record::Wait(causes) => causes.into_iter().try_for_each(|cause| self.wait(&mut pe, number, cause))?,
                Record::End => {}
            }
        }
        pe.compute(0);
        Ok(pe.rank)
    }

    fn post(&self, pe: &mut Pe, number: u32, post: &Post) {
        let end = match (post, Message::of(post)) {
            (Post::Barrier { .. }, _) => Some(self.barrier(pe, number)),
            (_, Some((to, message))) => {
                let send = pe.send((to, message.tag()), message.bytes);
                if message.changes && to == number {
                    pe.arrives(number, packets(message.bytes), send);
                }
                match message.answer {
                    Some(bytes) => {
                        let answer = pe.recv((to, ANSWER), bytes, Some(send));
                        pe.answers.entry(to).or_default().push((pe.posts.len() as u64, answer));
                        pe.arrives(number, packets(bytes), answer);
                        Some(answer)
                    }
                    None => Some(send),
                }
            }
            _ => None,
        };
        pe.posts.push(end);
    }

    /// A dissemination barrier: in round r a message to the PE 2^r further on.
    fn barrier(&self, pe: &mut Pe, number: u32) -> u32 {
        let pes = self.recording.header.places.len() as u32;
        let mut last = pe.compute(0);
        let mut before = pe.queue;
        let mut far = 1;
        while far < pes {
            let needs: Vec<u32> = before.into_iter().chain([last]).collect();
            let to = (number + far) % pes;
            pe.add(Kind::Send, (to, BARRIER), (WORD, ADAPTER), &needs);
            last = pe.recv(((number + pes - far) % pes, BARRIER), WORD, Some(last));
            (before, far) = (None, far.saturating_mul(2));
        }
        (pe.barrier, pe.queue) = (Some(last), Some(last));
        last
    }

    fn wait(&self, pe: &mut Pe, number: u32, cause: Cause) -> Result<(), Error> {
        match cause {
            Cause::Own { reached, back, all } => {
                let Some(index) = (pe.posts.len() as u64).checked_sub(back) else { return Ok(()) };
                if reached < Reached::Complete {
                    return Ok(());
                }
                pe.needs.extend(pe.posts.get(index as usize).copied().flatten());
                if all {
                    let until =
                        |of: &Vec<(u64, u32)>| of[..of.partition_point(|(post, _)| *post <= index)].last().copied();
                    let last: Vec<u32> = pe.answers.values().filter_map(until).map(|(_, answer)| answer).collect();
                    pe.needs.extend(last);
                    pe.needs.extend(pe.barrier);
                }
                Ok(())
            }
            Cause::Arrival { from, count } => {
                let come = pe.arrivals.get(&from).map_or(&[][..], |come| come);
                let Some((_, with)) = come.get(come.partition_point(|(packets, _)| *packets < count)) else {
                    let why = format!("PE {number} of the recording waits for packet {count} of PE {from}");
                    return Err(Error::Network(format!("{why}, which sends fewer; record the program again")));
                };
                pe.needs.push(*with);
                Ok(())
            }
            Cause::Tree { .. } => Ok(()),
        }
    }

    /// Number of ranks.
    pub(super) fn ranks(&self) -> u32 {
        self.recording.header.places.len() as u32
    }
}
