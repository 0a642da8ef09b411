//! Random MPI programs that cannot deadlock. All steps of all ranks are drawn in one order, in which each step can
//! end when
//! those before it have been carried out, even if every send waits for its receive. Each rank does its own ones.

use angara_tests::Rng;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Around the sizes where something changes: a flit, a packet, an eager message.
const SIZES: [usize; 20] =
    [0, 0, 1, 8, 8, 16, 100, 208, 209, 256, 1000, 2047, 2048, 2049, 2050, 16351, 16352, 16353, 20000, 65536];
/// Words of each rank's part of a collective.
const WORDS: [usize; 9] = [1, 1, 2, 32, 256, 300, 2044, 2045, 2500];
/// What a rank may send from its buffer in one program, of the 4 MiB that it has.
const BUFFERED: usize = 3 << 20;
/// The communicator in which only groups receive from any source: there nobody else's message can be taken.
pub(super) const GROUPS: usize = 1;
/// Bytes at the beginning of a window that are added to; the last word is only fetched and added to.
pub(super) const COUNTERS: usize = 64;
/// Where fetched and added to.
pub(super) const FETCHED: usize = 56;
const WINDOW: usize = 1 << 20;

pub(super) struct Message {
    pub(super) comm: usize,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) tag: i32,
    pub(super) bytes: usize,
    pub(super) mode: char,
    group: Option<usize>,
    /// The receive it was drawn with.
    partner: usize,
    pub(super) started: Option<usize>,
    done: bool,
    slot: Option<usize>,
    /// The step in which a call that may wait for the receive returns.
    pub(super) ended: Option<usize>,
}

pub(super) struct Receive {
    pub(super) comm: usize,
    pub(super) at: usize,
    pub(super) from: Option<usize>,
    pub(super) tag: Option<i32>,
    group: Option<usize>,
    partner: usize,
    pub(super) posted: Option<usize>,
    done: bool,
    slot: Option<usize>,
    pub(super) ended: Option<usize>,
}

pub(super) struct Collective {
    pub(super) name: &'static str,
    pub(super) comm: usize,
    pub(super) root: usize,
    pub(super) words: usize,
    pub(super) started: Vec<Option<usize>>,
    pub(super) ended: Vec<Option<usize>>,
    slots: Vec<Option<usize>>,
}

/// One operation of an epoch.
pub(super) struct Access {
    /// Put, accumulate, get, fetch and add (`o`), flush, flush locally (`l`).
    pub(super) what: char,
    pub(super) target: usize,
    pub(super) offset: usize,
    pub(super) bytes: usize,
    pub(super) data: u64,
}

pub(super) enum Op {
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
pub(super) enum Ends {
    Send(usize),
    Receive(usize),
    Collective(usize),
}

pub(super) struct Step {
    pub(super) rank: usize,
    pub(super) op: Op,
}

/// What a window holds where somebody has put something.
struct Region {
    window: usize,
    target: usize,
    offset: usize,
    bytes: usize,
    data: u64,
    /// Who may get it: who put it there or, after a fence, anybody.
    visible: Option<usize>,
}

/// What kinds of steps there are.
#[derive(Clone, Copy)]
pub(super) struct Mix {
    pub(super) one_sided: bool,
    /// A synchronous send may be received by Mprobe and Mrecv.
    pub(super) mrecv_answers: bool,
    /// A rank whose blocking send waits serves its windows. Otherwise a program has either such sends or passive
    /// targets.
    pub(super) sends_serve: bool,
}

pub(super) struct Program {
    pub(super) number: u64,
    pub(super) ranks: usize,
    pub(super) steps: Vec<Step>,
    pub(super) messages: Vec<Message>,
    pub(super) receives: Vec<Receive>,
    pub(super) collectives: Vec<Collective>,
    /// Messages that travel alone, so that the time that they take is known.
    pub(super) trips: Vec<usize>,
    /// Contents of windows at the end, by window and rank.
    pub(super) memory: BTreeMap<(usize, usize), Vec<u8>>,
    used: Vec<Vec<bool>>,
    buffered: Vec<usize>,
    regions: Vec<Region>,
    names: u64,
    /// The last step at which every rank had heard of all others.
    met: usize,
    mix: Mix,
}

pub(super) fn comm_rank(ranks: usize, comm: usize, rank: usize) -> usize {
    if comm == 2 { ranks - 1 - rank } else { rank }
}

/// The first bytes of the data of this name.
pub(super) fn data(name: u64, bytes: usize) -> Vec<u8> {
    let step = angara_abi::random::STEP;
    let word = |i| angara_abi::random::mix(name.wrapping_mul(step).wrapping_add(i)).to_le_bytes();
    (0..bytes.div_ceil(8) as u64).flat_map(word).take(bytes).collect()
}

impl Program {
    pub(super) fn of(number: u64, ranks: usize, mut rng: Rng, mix: Mix) -> Program {
        let mut program = Program {
            number,
            ranks,
            steps: Vec::new(),
            messages: Vec::new(),
            receives: Vec::new(),
            collectives: Vec::new(),
            trips: Vec::new(),
            memory: BTreeMap::new(),
            used: vec![Vec::new(); ranks],
            buffered: vec![0; ranks],
            regions: Vec::new(),
            names: 0,
            met: 0,
            mix,
        };
        program.fill(&mut rng);
        program
    }

    fn fill(&mut self, rng: &mut Rng) {
        let moves = 5 + rng.below(40);
        for _ in 0..moves {
            match rng.below(20) {
                0..4 => self.plan(rng),
                4 => self.plan_group(rng),
                5..7 => {
                    let (rank, ns) = (self.rank(rng), rng.below(10_000));
                    self.push(rank, Op::Sleep(ns));
                }
                7 => self.collective(rng, true),
                8 => self.collective(rng, false),
                9 if self.blocking_sends() => self.shift(rng),
                10 if self.mix.one_sided && self.passive_targets() => self.passive(rng),
                11 if self.mix.one_sided => self.active(rng),
                12..15 => self.wait(rng, false),
                _ => self.advance(rng),
            }
        }
        while self.messages.iter().any(|m| !m.done) || self.receives.iter().any(|r| !r.done) {
            self.advance(rng);
            self.wait(rng, true);
        }
        while self.collectives.iter().any(|c| c.ended.contains(&None)) {
            self.advance_collectives(rng);
            self.wait(rng, true);
        }
        if rng.one_in(2) {
            self.trip(rng);
        }
        self.windows();
    }

    fn push(&mut self, rank: usize, op: Op) -> usize {
        self.steps.push(Step { rank, op });
        self.steps.len() - 1
    }
    fn blocking_sends(&self) -> bool {
        self.mix.sends_serve || self.number.is_multiple_of(2)
    }
    fn passive_targets(&self) -> bool {
        self.mix.sends_serve || !self.blocking_sends()
    }
    fn rank(&self, rng: &mut Rng) -> usize {
        rng.below(self.ranks as u64) as usize
    }
    fn other(&self, rng: &mut Rng, than: usize) -> usize {
        (than + 1 + rng.below(self.ranks as u64 - 1) as usize) % self.ranks
    }
    fn slot(&mut self, rank: usize) -> usize {
        let used = &mut self.used[rank];
        let slot = used.iter().position(|used| !used).unwrap_or_else(|| {
            used.push(false);
            used.len() - 1
        });
        used[slot] = true;
        slot
    }
    fn name(&mut self) -> u64 {
        self.names += 1;
        self.number * 10_000 + 5_000 + self.names
    }
    pub(super) fn message_data(&self, message: usize) -> u64 {
        self.number * 10_000 + message as u64
    }
    /// The data of a rank's part of a collective.
    pub(super) fn part(&self, collective: usize, comm_rank: usize) -> u64 {
        (self.number * 10_000 + collective as u64) * 64 + comm_rank as u64
    }

    fn message(&mut self, message: Message, wants_any_tag: bool) {
        let i = self.messages.len();
        let any = message.group.is_some();
        self.receives.push(Receive {
            comm: message.comm,
            at: message.to,
            from: (!any).then_some(message.from),
            tag: (!wants_any_tag).then_some(message.tag),
            group: message.group,
            partner: i,
            posted: None,
            done: false,
            slot: None,
            ended: None,
        });
        self.messages.push(message);
    }

    fn draw(&self, rng: &mut Rng, comm: usize, from: usize, to: usize, tag: i32) -> Message {
        Message {
            comm,
            from,
            to,
            tag,
            bytes: rng.pick(&SIZES),
            mode: rng.pick(&['n', 'n', 'n', 's', 'b']),
            group: None,
            partner: self.receives.len(),
            started: None,
            done: false,
            slot: None,
            ended: None,
        }
    }

    /// A message that a receive names the source of.
    fn plan(&mut self, rng: &mut Rng) {
        let (from, comm, tag) = (self.rank(rng), rng.pick(&[0, 2]), rng.below(3) as i32);
        // Few pairs, so that messages of a pair meet.
        let to = if rng.one_in(8) { from } else { self.other(rng, from) };
        for _ in 0..=rng.below(3) {
            let mut message = self.draw(rng, comm, from, to, tag);
            if rng.one_in(3) {
                message.tag = rng.below(3) as i32;
            }
            self.buffers(&mut message);
            self.message(message, rng.one_in(3));
        }
    }

    /// A mode that needs no more room than there is.
    fn buffers(&mut self, message: &mut Message) {
        if message.mode == 'b' {
            self.buffered[message.from] += message.bytes + 512;
            if self.buffered[message.from] > BUFFERED {
                message.mode = 'n';
            }
        }
    }

    /// Messages of several ranks to one that receives them from any source, in whichever order they come.
    fn plan_group(&mut self, rng: &mut Rng) {
        let (to, group) = (self.rank(rng), self.messages.len());
        if self.messages.iter().any(|m| m.comm == GROUPS && m.to == to) {
            return;
        }
        let any_tag = rng.one_in(2);
        for _ in 0..2 + rng.below(5) {
            let from = self.rank(rng);
            let tag = if any_tag { rng.below(3) as i32 } else { 7 };
            let mut message = self.draw(rng, GROUPS, from, to, tag);
            message.group = Some(group);
            self.buffers(&mut message);
            self.message(message, any_tag);
        }
    }

    /// For each receive that is posted, the message that it gets of those that are started: of its source the first
    /// that
    /// fits and that no earlier receive has got. Without receives from any source there is one such matching only.
    fn matching(&self) -> (BTreeMap<usize, usize>, BTreeMap<usize, usize>) {
        let order = |at: &dyn Fn(usize) -> Option<usize>, len: usize| -> Vec<usize> {
            let mut all: Vec<(usize, usize)> = (0..len).filter_map(|i| Some((at(i)?, i))).collect();
            all.sort_unstable();
            all.into_iter().map(|(_, i)| i).collect()
        };
        let messages = order(&|m| self.messages[m].started, self.messages.len());
        let (mut of_receive, mut of_message) = (BTreeMap::new(), BTreeMap::new());
        for r in order(&|r| self.receives[r].posted, self.receives.len()) {
            let receive = &self.receives[r];
            if receive.group.is_some() {
                continue;
            }
            let fits = |m: &&usize| receive.fits(&self.messages[**m]) && !of_message.contains_key(*m);
            if let Some(&m) = messages.iter().find(fits) {
                of_receive.insert(r, m);
                of_message.insert(m, r);
            }
        }
        (of_receive, of_message)
    }

    /// Gives each receive that has got another message than its own that message's place. False if then another receive
    /// that is posted could not get its message.
    fn settle(&mut self) -> bool {
        for (r, m) in self.matching().0 {
            let (own, other) = (self.receives[r].partner, self.messages[m].partner);
            if own == m {
                continue;
            }
            let posted = self.receives[other].posted.is_some();
            if !posted {
                self.receives[other].tag = Some(self.messages[own].tag);
            } else if !self.receives[other].fits(&self.messages[own]) {
                return false;
            }
            (self.receives[r].partner, self.receives[other].partner) = (m, own);
            (self.messages[m].partner, self.messages[own].partner) = (r, other);
        }
        true
    }

    fn group_of(&self, group: usize) -> (usize, usize, usize) {
        let started = self.messages.iter().filter(|m| m.group == Some(group) && m.started.is_some()).count();
        let posted = self.receives.iter().filter(|r| r.group == Some(group) && r.posted.is_some()).count();
        (started, posted, self.messages.iter().filter(|m| m.group == Some(group)).count())
    }
    fn can_end_send(&self, m: usize) -> bool {
        let message = &self.messages[m];
        let matched = || match message.group {
            // Any receive may take another one's message, until there is one for each.
            Some(group) => {
                let (_, posted, all) = self.group_of(group);
                posted == all
            }
            None => self.matching().1.contains_key(&m),
        };
        message.started.is_some() && (message.mode == 'b' || matched())
    }
    fn can_end_receive(&self, r: usize) -> bool {
        let receive = &self.receives[r];
        let Some(posted) = receive.posted else { return false };
        match receive.group {
            Some(group) => {
                let before = self.receives.iter().filter(|r| r.group == Some(group) && r.posted <= Some(posted));
                before.filter(|r| r.posted.is_some()).count() <= self.group_of(group).0
            }
            None => self.matching().0.contains_key(&r),
        }
    }

    /// Begins a send or receive that was planned, or both, in a form that can end.
    fn advance(&mut self, rng: &mut Rng) {
        if rng.one_in(4) {
            self.advance_collectives(rng);
        }
        let idle = |(i, started): (usize, bool)| (!started).then_some(i);
        let sends: Vec<usize> =
            self.messages.iter().map(|m| m.started.is_some()).enumerate().filter_map(idle).collect();
        let receives: Vec<usize> =
            self.receives.iter().map(|r| r.posted.is_some()).enumerate().filter_map(idle).collect();
        match (rng.one_in(2), sends.is_empty(), receives.is_empty()) {
            (_, true, true) => {}
            (true, false, _) | (_, false, true) => self.start_send(rng.pick(&sends), rng),
            _ => self.start_receive(rng.pick(&receives), rng),
        }
    }

    fn start_send(&mut self, m: usize, rng: &mut Rng) {
        let at = self.steps.len();
        let partner = self.messages[m].partner;
        let partners: Vec<(usize, usize)> = self.partners();
        let tags: Vec<Option<i32>> = self.receives.iter().map(|r| r.tag).collect();
        self.messages[m].started = Some(at);
        if !self.settle() {
            self.messages[m].started = None;
            self.undo(&partners, &tags);
            return;
        }
        let receive = &self.receives[self.messages[m].partner];
        // That the receive is posted is known by whoever has met the others since.
        let known = receive.posted.is_some_and(|posted| posted < self.met) && receive.group.is_none();
        if known && self.messages[m].mode == 'n' && rng.one_in(2) {
            self.messages[m].mode = 'r';
        }
        let rank = self.messages[m].from;
        if self.can_end_send(m) && self.blocking_sends() && rng.one_in(2) {
            self.push(rank, Op::Send(m));
            (self.messages[m].done, self.messages[m].ended) = (true, Some(at));
            return;
        }
        // Both at once: the sender may wait for the receive that comes next.
        let to = self.messages[m].to;
        let alone = self.messages[m].group.is_none() && self.receives[partner].posted.is_none() && rank != to;
        if alone && self.blocking_sends() && self.messages[m].partner == partner && rng.one_in(2) {
            self.receives[partner].posted = Some(at + 1);
            if self.matching().0.get(&partner) == Some(&m) {
                self.push(rank, Op::Send(m));
                let ask = self.ask(rng, partner);
                self.push(to, if ask == '-' { Op::Recv(partner) } else { Op::Ask(ask, partner) });
                (self.messages[m].done, self.messages[m].ended) = (true, Some(at));
                (self.receives[partner].done, self.receives[partner].ended) = (true, Some(at + 1));
                return;
            }
            self.receives[partner].posted = None;
        }
        self.messages[m].slot = Some(self.slot(rank));
        self.push(rank, Op::Isend(m));
    }

    /// How the message of this receive is asked for, if at all.
    fn ask(&self, rng: &mut Rng, r: usize) -> char {
        let receive = &self.receives[r];
        let may_be = |(m, message): (usize, &Message)| match receive.group {
            Some(group) => message.group == Some(group) && message.mode == 's',
            None => receive.partner == m && message.mode == 's',
        };
        let ask = rng.pick(&['p', 'i', 'm', 'n', '-', '-', '-', '-']);
        match ask {
            'm' | 'n' if !self.mix.mrecv_answers && self.messages.iter().enumerate().any(may_be) => 'p',
            _ => ask,
        }
    }

    fn partners(&self) -> Vec<(usize, usize)> {
        self.messages.iter().map(|m| m.partner).zip(self.receives.iter().map(|r| r.partner)).collect()
    }
    fn undo(&mut self, partners: &[(usize, usize)], tags: &[Option<i32>]) {
        for (i, (m, r)) in partners.iter().enumerate() {
            (self.messages[i].partner, self.receives[i].partner) = (*m, *r);
            self.receives[i].tag = tags[i];
        }
    }

    fn start_receive(&mut self, r: usize, rng: &mut Rng) {
        let at = self.steps.len();
        let (partners, tags) = (self.partners(), self.receives.iter().map(|r| r.tag).collect::<Vec<_>>());
        self.receives[r].posted = Some(at);
        if !self.settle() {
            self.receives[r].posted = None;
            self.undo(&partners, &tags);
            return;
        }
        let rank = self.receives[r].at;
        if self.can_end_receive(r) && rng.one_in(2) {
            let ask = self.ask(rng, r);
            self.push(rank, if ask == '-' { Op::Recv(r) } else { Op::Ask(ask, r) });
            (self.receives[r].done, self.receives[r].ended) = (true, Some(at));
            return;
        }
        self.receives[r].slot = Some(self.slot(rank));
        self.push(rank, Op::Irecv(r));
    }

    /// One rank waits for some of what it has begun and what can end, or for all of it.
    fn wait(&mut self, rng: &mut Rng, all: bool) {
        let rank = self.rank(rng);
        let mut slots = Vec::new();
        for (m, message) in self.messages.iter().enumerate() {
            if let (false, Some(slot)) = (message.done || message.from != rank, message.slot) {
                slots.extend(self.can_end_send(m).then_some((slot, Ends::Send(m))));
            }
        }
        for (r, receive) in self.receives.iter().enumerate() {
            if let (false, Some(slot)) = (receive.done || receive.at != rank, receive.slot) {
                slots.extend(self.can_end_receive(r).then_some((slot, Ends::Receive(r))));
            }
        }
        for (c, collective) in self.collectives.iter().enumerate() {
            if let (None, Some(slot)) = (collective.ended[rank], collective.slots[rank]) {
                slots.extend((!collective.started.contains(&None)).then_some((slot, Ends::Collective(c))));
            }
        }
        if !all {
            slots.retain(|_| rng.one_in(2));
        }
        if slots.is_empty() {
            return;
        }
        for i in (1..slots.len()).rev() {
            slots.swap(i, rng.below(i as u64 + 1) as usize);
        }
        let at = Some(self.steps.len());
        for (slot, ends) in &slots {
            self.used[rank][*slot] = false;
            match *ends {
                Ends::Send(m) => (self.messages[m].done, self.messages[m].ended) = (true, at),
                Ends::Receive(r) => (self.receives[r].done, self.receives[r].ended) = (true, at),
                Ends::Collective(c) => self.collectives[c].ended[rank] = at,
            }
        }
        let how = ["wait", "waitall", "waitany", "waitsome", "test", "testall", "testany", "testsome"];
        self.push(rank, Op::Wait(rng.pick(&how), slots));
    }

    fn collective(&mut self, rng: &mut Rng, blocking: bool) {
        let comm = rng.below(3) as usize;
        // Collectives of a communicator begin in the same order everywhere.
        if self.collectives.iter().any(|c| c.comm == comm && c.started.contains(&None)) {
            return;
        }
        let name = rng.pick(&[
            "barrier",
            "bcast",
            "reduce",
            "allreduce",
            "scan",
            "gather",
            "allgather",
            "scatter",
            "alltoall",
        ]);
        let (root, words) = (self.rank(rng), rng.pick(&WORDS));
        self.collectives.push(Collective {
            name,
            comm,
            root,
            words,
            started: vec![None; self.ranks],
            ended: vec![None; self.ranks],
            slots: vec![None; self.ranks],
        });
        if blocking {
            self.meet(self.collectives.len() - 1);
        }
    }

    /// All ranks call a blocking collective.
    fn meet(&mut self, c: usize) {
        for rank in 0..self.ranks {
            let at = self.push(rank, Op::Coll(c));
            (self.collectives[c].started[rank], self.collectives[c].ended[rank]) = (Some(at), Some(at));
        }
        if ["barrier", "allreduce", "allgather", "alltoall"].contains(&self.collectives[c].name) {
            self.met = self.steps.len() - self.ranks;
        }
    }

    /// Some rank begins a nonblocking collective.
    fn advance_collectives(&mut self, rng: &mut Rng) {
        let rank = self.rank(rng);
        if let Some(c) = self.collectives.iter().position(|c| c.started[rank].is_none()) {
            let slot = self.slot(rank);
            self.collectives[c].slots[rank] = Some(slot);
            self.collectives[c].started[rank] = Some(self.push(rank, Op::Icoll(c)));
        }
    }

    /// Every rank sends to one and receives from another, all at once.
    fn shift(&mut self, rng: &mut Rng) {
        let (by, comm) = (1 + rng.below(self.ranks as u64 - 1) as usize, rng.pick(&[0, 2]));
        let (first, at) = (self.messages.len(), self.steps.len());
        for rank in 0..self.ranks {
            // With a tag of its own: what was sent before is no concern of it.
            let mut message = self.draw(rng, comm, rank, (rank + by) % self.ranks, 1000 + at as i32);
            message.mode = 'n';
            self.message(message, false);
        }
        for rank in 0..self.ranks {
            let (m, r) = (first + rank, first + (rank + self.ranks - by) % self.ranks);
            let at = Some(self.push(rank, Op::Sendrecv(m, r)));
            let (message, receive) = (&mut self.messages[m], &mut self.receives[r]);
            (message.started, message.ended, message.done) = (at, at, true);
            (receive.posted, receive.ended, receive.done) = (at, at, true);
        }
        // A receive of any tag that is posted may have got it.
        if self.matching().0.iter().any(|(r, m)| self.receives[*r].partner != *m) {
            self.steps.truncate(at);
            self.messages.truncate(first);
            self.receives.truncate(first);
        }
    }

    /// Operations of one epoch. What is put has a place of its own, so that no order can matter.
    fn accesses(
        &mut self,
        rng: &mut Rng,
        origin: usize,
        window: usize,
        targets: &[usize],
        flushes: bool,
    ) -> Vec<Access> {
        let mut all = Vec::new();
        for _ in 0..rng.below(6) {
            let target = rng.pick(targets);
            let index = if window == 2 { 0 } else { target };
            let held = if window == 2 { origin } else { target };
            let memory = self.memory.entry((window, held)).or_insert_with(|| vec![0; COUNTERS]);
            let end = memory.len();
            let mut access = Access { what: 'p', target: index, offset: end, bytes: 8, data: 0 };
            match rng.below(5) {
                0 | 1 => {
                    access.what = rng.pick(&['p', 'a']);
                    access.bytes = rng.pick(&SIZES);
                    if access.what == 'a' {
                        access.bytes = access.bytes / 8 * 8;
                        access.offset = end.next_multiple_of(8);
                    }
                    if access.offset + access.bytes > WINDOW {
                        continue;
                    }
                    let mut bytes = vec![0; access.offset - end];
                    self.names += 1;
                    access.data = self.number * 10_000 + 5_000 + self.names;
                    bytes.extend(data(access.data, access.bytes));
                    memory.extend(bytes);
                    let Access { offset, bytes, data, .. } = access;
                    let visible = Some(origin);
                    self.regions.push(Region { window, target: held, offset, bytes, data, visible });
                    all.push(access);
                    if flushes {
                        all.push(Access { what: 'f', target: index, offset: 0, bytes: 0, data: 0 });
                    }
                }
                2 => {
                    let fits = |r: &&Region| {
                        // In an epoch without a flush, what is put in it cannot be got yet.
                        let old = flushes || !all.iter().any(|a| a.data == r.data);
                        r.window == window && r.target == held && r.visible.is_none_or(|o| o == origin) && old
                    };
                    let fitting: Vec<&Region> = self.regions.iter().filter(fits).collect();
                    if fitting.is_empty() {
                        continue;
                    }
                    let region = fitting[rng.below(fitting.len() as u64) as usize];
                    let Region { offset, bytes, data, .. } = *region;
                    all.push(Access { what: 'g', target: index, offset, bytes, data });
                }
                3 => {
                    access.what = 'a';
                    access.bytes = 8 * (1 + rng.below(7) as usize);
                    access.offset = 0;
                    access.data = self.name();
                    let memory = self.memory.get_mut(&(window, held)).expect("made above");
                    add(&mut memory[..access.bytes], &data(access.data, access.bytes));
                    all.push(access);
                }
                _ => {
                    (access.what, access.offset) = ('o', FETCHED);
                    access.data = self.name();
                    let memory = self.memory.get_mut(&(window, held)).expect("made above");
                    add(&mut memory[FETCHED..COUNTERS], &data(access.data, 8));
                    all.push(access);
                }
            }
        }
        all
    }

    fn passive(&mut self, rng: &mut Rng) {
        let (rank, window) = (self.rank(rng), rng.pick(&[1, 1, 2]));
        let target = if window == 2 { rank } else { self.rank(rng) };
        let how = rng.pick(&["shared", "exclusive", "all"]);
        let everybody: Vec<usize> = (0..self.ranks).collect();
        let targets = if how == "all" && window != 2 { everybody } else { vec![target] };
        let accesses = self.accesses(rng, rank, window, &targets, true);
        let named = if window == 2 { vec![0] } else { targets };
        self.push(rank, Op::Epoch { how, window, targets: named, accesses });
    }

    fn active(&mut self, rng: &mut Rng) {
        let everybody: Vec<usize> = (0..self.ranks).collect();
        let window = 0;
        if rng.one_in(2) {
            for rank in 0..self.ranks {
                let accesses = self.accesses(rng, rank, window, &everybody, false);
                self.push(rank, Op::Epoch { how: "fence", window, targets: everybody.clone(), accesses });
            }
            self.regions.iter_mut().filter(|r| r.window == window).for_each(|r| r.visible = None);
            return;
        }
        // Over libfabric, with any provider, MPICH 5.0.2 hangs where a rank posts for an origin that has not yet
        // started
        // its epoch at another rank.
        if self.collectives.iter().any(|c| c.comm == 0 && c.started.contains(&None)) {
            return;
        }
        self.barrier();
        let first = self.rank(rng);
        let split = 1 + rng.below(self.ranks as u64 - 1) as usize;
        let turned: Vec<usize> = (0..self.ranks).map(|i| (first + i) % self.ranks).collect();
        let (origins, targets) = turned.split_at(split);
        for target in targets {
            self.push(*target, Op::Post { window, origins: origins.to_vec() });
        }
        for origin in origins {
            let accesses = self.accesses(rng, *origin, window, targets, false);
            self.push(*origin, Op::Epoch { how: "start", window, targets: targets.to_vec(), accesses });
        }
        for target in targets {
            self.push(*target, Op::Exposed(window));
        }
    }

    fn barrier(&mut self) {
        let none = || vec![None; self.ranks];
        let (name, started, ended, slots) = ("barrier", none(), none(), none());
        self.collectives.push(Collective { name, comm: 0, root: 0, words: 0, started, ended, slots });
        self.meet(self.collectives.len() - 1);
    }

    /// One message while nothing else is under way. Its receiver waits already.
    fn trip(&mut self, rng: &mut Rng) {
        self.barrier();
        let from = self.rank(rng);
        let to = self.other(rng, from);
        let m = self.messages.len();
        let mut message = self.draw(rng, 0, from, to, 5000);
        message.mode = 'n';
        self.message(message, false);
        for rank in (0..self.ranks).filter(|rank| *rank != to) {
            self.push(rank, Op::Sleep(100_000));
        }
        let at = self.push(from, Op::Send(m));
        self.push(to, Op::Recv(m));
        let (message, receive) = (&mut self.messages[m], &mut self.receives[m]);
        (message.started, message.ended, message.done) = (Some(at), Some(at), true);
        (receive.posted, receive.ended, receive.done) = (Some(at + 1), Some(at + 1), true);
        self.trips.push(m);
        // Nobody begins the next barrier before it has arrived.
        for rank in 0..self.ranks {
            self.push(rank, Op::Sleep(100_000));
        }
    }

    /// What windows hold at the end.
    fn windows(&mut self) {
        if self.memory.is_empty() {
            return;
        }
        self.barrier();
        let held: Vec<_> = self.memory.iter().map(|((window, rank), held)| (*window, *rank, held.len())).collect();
        for (window, rank, bytes) in held {
            self.push(rank, Op::Window(window, bytes));
        }
    }

    /// As `tests/c/mpi/oracle.c` reads it. What receives may take is known once all messages are.
    pub(super) fn text(&self) -> String {
        let mut text = format!("program {}\n", self.number);
        for (i, step) in self.steps.iter().enumerate() {
            writeln!(text, "{} {i} {}", step.rank, self.words(step)).expect("a string");
        }
        text
    }

    fn send(&self, m: usize) -> String {
        let Message { comm, from: _, to, tag, bytes, mode, .. } = &self.messages[m];
        let to = comm_rank(self.ranks, *comm, *to);
        format!("{mode} {comm} {to} {tag} {bytes} {}", self.message_data(m))
    }
    fn receive(&self, r: usize) -> String {
        let Receive { comm, from, tag, .. } = &self.receives[r];
        let from = from.map_or(-1, |from| comm_rank(self.ranks, *comm, from) as i32);
        format!("{comm} {from} {}", tag.unwrap_or(-1))
    }
    /// Room for whatever it may get, and sometimes for more.
    fn most(&self, r: usize) -> usize {
        let receive = &self.receives[r];
        let bytes = match receive.group {
            Some(group) => self.messages.iter().filter(|m| m.group == Some(group)).map(|m| m.bytes).max(),
            None => Some(self.messages[receive.partner].bytes),
        };
        bytes.expect("a message") + if r.is_multiple_of(3) { 100 } else { 0 }
    }

    fn words(&self, step: &Step) -> String {
        let ranks = |all: &[usize]| all.iter().fold(all.len().to_string(), |text, rank| format!("{text} {rank}"));
        let called = |c: usize| {
            let Collective { name, comm, root, words, .. } = &self.collectives[c];
            let root = comm_rank(self.ranks, *comm, *root);
            format!("{name} {comm} {root} {words} {}", self.part(c, 0) / 64)
        };
        match &step.op {
            Op::Sleep(ns) => format!("sleep {ns}"),
            Op::Send(m) => format!("send {}", self.send(*m)),
            Op::Isend(m) => format!("isend {} {}", self.messages[*m].slot.expect("a slot"), self.send(*m)),
            Op::Recv(r) => format!("recv {} {}", self.receive(*r), self.most(*r)),
            Op::Irecv(r) => {
                format!("irecv {} {} {}", self.receives[*r].slot.expect("a slot"), self.receive(*r), self.most(*r))
            }
            Op::Ask(how, r) => format!("ask {how} {}", self.receive(*r)),
            Op::Sendrecv(m, r) => {
                format!("sendrecv {} {} {}", &self.send(*m)[2..], self.receive(*r)[2..].trim(), self.most(*r))
            }
            Op::Wait(how, slots) => {
                let slots: Vec<usize> = slots.iter().map(|(slot, _)| *slot).collect();
                format!("{how} {}", ranks(&slots))
            }
            Op::Coll(c) => format!("coll {}", called(*c)),
            Op::Icoll(c) => {
                format!("icoll {} {}", self.collectives[*c].slots[step.rank].expect("a slot"), called(*c))
            }
            Op::Epoch { how, window, targets, accesses } => {
                let mut text = match *how {
                    "start" => format!("epoch start {window} {}", ranks(targets)),
                    "fence" | "all" => format!("epoch {how} {window}"),
                    _ => format!("epoch {how} {window} {}", targets[0]),
                };
                write!(text, " {}", accesses.len()).expect("a string");
                for Access { what, target, offset, bytes, data } in accesses {
                    let rest = match what {
                        'f' | 'l' => String::new(),
                        'g' => format!(" {offset} {bytes}"),
                        _ => format!(" {offset} {bytes} {data}"),
                    };
                    write!(text, " {what} {target}{rest}").expect("a string");
                }
                text
            }
            Op::Post { window, origins } => format!("post {window} {}", ranks(origins)),
            Op::Exposed(window) => format!("exposed {window}"),
            Op::Window(window, bytes) => format!("window {window} {bytes}"),
        }
    }
}

impl Receive {
    pub(super) fn fits(&self, message: &Message) -> bool {
        let Message { comm, from, to, tag, .. } = message;
        let (source, tagged) = (self.from.is_none_or(|s| s == *from), self.tag.is_none_or(|t| t == *tag));
        (self.comm, self.at) == (*comm, *to) && source && tagged
    }
}

/// Adds words to words, modulo 2^64.
pub(super) fn add(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.chunks_exact_mut(8).zip(from.chunks_exact(8)) {
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let sum = word(to).wrapping_add(word(from));
        to.copy_from_slice(&sum.to_le_bytes());
    }
}
