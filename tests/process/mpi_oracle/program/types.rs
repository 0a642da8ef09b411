//! What a program consists of, its numbers, and what all kinds of steps need.

use angara_tests::Rng;
use std::collections::BTreeMap;

/// Around the sizes where something changes: a flit, a packet, an eager message.
pub(super) const SIZES: [usize; 20] =
    [0, 0, 1, 8, 8, 16, 100, 208, 209, 256, 1000, 2047, 2048, 2049, 2050, 16351, 16352, 16353, 20000, 65536];
/// The communicator in which only groups receive from any source: there nobody else's message can be taken.
pub(crate) const GROUPS: usize = 1;
/// Bytes at the beginning of a window that are added to; the last word is only fetched and added to.
pub(crate) const COUNTERS: usize = 64;
/// Where fetched and added to.
pub(crate) const FETCHED: usize = 56;

pub(crate) struct Message {
    pub(crate) comm: usize,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) tag: i32,
    pub(crate) bytes: usize,
    pub(crate) mode: char,
    pub(super) group: Option<usize>,
    /// The receive it was drawn with.
    pub(super) partner: usize,
    pub(crate) started: Option<usize>,
    pub(super) done: bool,
    pub(super) slot: Option<usize>,
    /// The step in which a call that may wait for the receive returns.
    pub(crate) ended: Option<usize>,
}

pub(crate) struct Receive {
    pub(crate) comm: usize,
    pub(crate) at: usize,
    pub(crate) from: Option<usize>,
    pub(crate) tag: Option<i32>,
    pub(super) group: Option<usize>,
    pub(super) partner: usize,
    pub(crate) posted: Option<usize>,
    pub(super) done: bool,
    pub(super) slot: Option<usize>,
    pub(crate) ended: Option<usize>,
}

pub(crate) struct Collective {
    pub(crate) name: &'static str,
    pub(crate) comm: usize,
    pub(crate) root: usize,
    pub(crate) words: usize,
    pub(crate) started: Vec<Option<usize>>,
    pub(crate) ended: Vec<Option<usize>>,
    pub(super) slots: Vec<Option<usize>>,
}

/// One operation of an epoch.
pub(crate) struct Access {
    /// Put, accumulate, get, fetch and add (`o`), flush, flush locally (`l`).
    pub(crate) what: char,
    pub(crate) target: usize,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
    pub(crate) data: u64,
}

pub(crate) enum Op {
    Sleep(u64),
    Send(usize),
    Isend(usize),
    Recv(usize),
    Irecv(usize),
    Ask(char, usize),
    Sendrecv(usize, usize),
    /// Slots, and what ends in each.
    Wait(&'static str, Vec<(usize, Ends)>),
    Coll(usize),
    Icoll(usize),
    Epoch {
        how: &'static str,
        window: usize,
        targets: Vec<usize>,
        accesses: Vec<Access>,
    },
    Post {
        window: usize,
        origins: Vec<usize>,
    },
    Exposed(usize),
    /// Its own memory of a window, N bytes.
    Window(usize, usize),
}

#[derive(Clone, Copy)]
pub(crate) enum Ends {
    Send(usize),
    Receive(usize),
    Collective(usize),
}

pub(crate) struct Step {
    pub(crate) rank: usize,
    pub(crate) op: Op,
}

/// What a window holds where somebody has put something.
pub(super) struct Region {
    pub(super) window: usize,
    pub(super) target: usize,
    pub(super) offset: usize,
    pub(super) bytes: usize,
    pub(super) data: u64,
    /// Who may get it: who put it there or, after a fence, anybody.
    pub(super) visible: Option<usize>,
}

/// What kinds of steps there are.
#[derive(Clone, Copy)]
pub(crate) struct Mix {
    pub(crate) one_sided: bool,
    /// A synchronous send may be received by Mprobe and Mrecv.
    pub(crate) mrecv_answers: bool,
    /// A rank whose blocking send waits serves its windows. Otherwise a program has either such sends or passive
    /// targets.
    pub(crate) sends_serve: bool,
}

pub(crate) struct Program {
    pub(crate) number: u64,
    pub(crate) ranks: usize,
    pub(crate) steps: Vec<Step>,
    pub(crate) messages: Vec<Message>,
    pub(crate) receives: Vec<Receive>,
    pub(crate) collectives: Vec<Collective>,
    /// Messages that travel alone, so that the time that they take is known.
    pub(crate) trips: Vec<usize>,
    /// Contents of windows at the end, by window and rank.
    pub(crate) memory: BTreeMap<(usize, usize), Vec<u8>>,
    pub(super) used: Vec<Vec<bool>>,
    pub(super) buffered: Vec<usize>,
    pub(super) regions: Vec<Region>,
    pub(super) names: u64,
    /// The last step at which every rank had heard of all others.
    pub(super) met: usize,
    pub(super) mix: Mix,
}

pub(crate) fn comm_rank(ranks: usize, comm: usize, rank: usize) -> usize {
    if comm == 2 { ranks - 1 - rank } else { rank }
}

/// The first bytes of the data of this name.
pub(crate) fn data(name: u64, bytes: usize) -> Vec<u8> {
    let step = angara_abi::random::STEP;
    let word = |i| angara_abi::random::mix(name.wrapping_mul(step).wrapping_add(i)).to_le_bytes();
    (0..bytes.div_ceil(8) as u64).flat_map(word).take(bytes).collect()
}

impl Program {
    pub(super) fn push(&mut self, rank: usize, op: Op) -> usize {
        self.steps.push(Step { rank, op });
        self.steps.len() - 1
    }
    pub(super) fn blocking_sends(&self) -> bool {
        self.mix.sends_serve || self.number.is_multiple_of(2)
    }
    pub(super) fn passive_targets(&self) -> bool {
        self.mix.sends_serve || !self.blocking_sends()
    }
    pub(super) fn rank(&self, rng: &mut Rng) -> usize {
        rng.below(self.ranks as u64) as usize
    }
    pub(super) fn other(&self, rng: &mut Rng, than: usize) -> usize {
        (than + 1 + rng.below(self.ranks as u64 - 1) as usize) % self.ranks
    }
    pub(super) fn slot(&mut self, rank: usize) -> usize {
        let used = &mut self.used[rank];
        let slot = used.iter().position(|used| !used).unwrap_or_else(|| {
            used.push(false);
            used.len() - 1
        });
        used[slot] = true;
        slot
    }
    pub(super) fn name(&mut self) -> u64 {
        self.names += 1;
        self.number * 10_000 + 5_000 + self.names
    }
    pub(crate) fn message_data(&self, message: usize) -> u64 {
        self.number * 10_000 + message as u64
    }

    /// The data of a rank's part of a collective.
    pub(crate) fn part(&self, collective: usize, comm_rank: usize) -> u64 {
        (self.number * 10_000 + collective as u64) * 64 + comm_rank as u64
    }
}

impl Receive {
    pub(crate) fn fits(&self, message: &Message) -> bool {
        let Message { comm, from, to, tag, .. } = message;
        let (source, tagged) = (self.from.is_none_or(|s| s == *from), self.tag.is_none_or(|t| t == *tag));
        (self.comm, self.at) == (*comm, *to) && source && tagged
    }
}

/// Adds words to words, modulo 2^64.
pub(crate) fn add(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.chunks_exact_mut(8).zip(from.chunks_exact(8)) {
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let sum = word(to).wrapping_add(word(from));
        to.copy_from_slice(&sum.to_le_bytes());
    }
}
