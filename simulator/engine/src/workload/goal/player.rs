//! Playing a schedule: operations of all ranks and packets of the network, in order of time.

use super::super::Watch;
use super::super::closed::{Closed, packets_for};
use super::binary::Pages;
use super::schedule::{ANY, Kind, Operation, Schedule};
use crate::Error;
use crate::run::Experiment;
use angara_fabric::Tick;
use angara_model::{Injection, TrafficClass};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// Picoseconds of a nanosecond, the unit of calculations.
const NS: u64 = 1000;
/// Packets of a rank that the network has at most; later ones wait in its adapter.
const UNDER_WAY_MAX: u32 = 2000;
/// Last picosecond of a run.
const TIME_MAX: Tick = 1 << 62;

/// Something whose time is known.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    CalcEnds {
        rank: u32,
        operation: u32,
        cpu: u8,
    },
    /// The last flit of a packet has come.
    Arrives {
        from: u32,
        to: u32,
        message: u64,
    },
}

/// What a rank is to do at the present time.
enum Task {
    Begin { rank: u32, operation: u32 },
    End { rank: u32, operation: u32 },
}

#[derive(Default)]
struct Cpu {
    busy: bool,
    ready: VecDeque<u32>,
}

/// A send or recv that has not found its other side.
#[derive(Clone, Copy)]
struct Open {
    operation: u32,
    peer: u32,
    tag: u32,
}

impl Open {
    fn fits(&self, peer: u32, tag: u32) -> bool {
        let same = |mine: u32, other: u32| mine == other || mine == ANY || other == ANY;
        same(self.peer, peer) && same(self.tag, tag)
    }
}

/// Takes the first that fits.
fn take(from: &mut VecDeque<Open>, peer: u32, tag: u32) -> Option<Open> {
    let first = from.iter().position(|open| open.fits(peer, tag))?;
    from.remove(first)
}

/// A message whose packets leave.
struct Leaving {
    to: u32,
    message: u64,
    flits: Box<dyn Iterator<Item = u16>>,
}

#[derive(Default)]
struct Rank {
    cpus: Vec<Cpu>,
    /// Of operations that wait for several others and have some of them: how many are missing.
    missing: HashMap<u32, u32>,
    /// Recvs, and messages that have come before theirs, each in order.
    recvs: VecDeque<Open>,
    come: VecDeque<Open>,
    /// Messages for the network: their number and bytes, and the one that leaves.
    outbox: VecDeque<(u32, u64, u64)>,
    leaving: Option<Leaving>,
    under_way: u32,
    /// Operations that have ended, and when the last one did.
    ended: u32,
    end: Tick,
}

/// A message under way.
struct Message {
    packets: u64,
    tag: u32,
    operation: u32,
}

/// Messages from one rank to another in the order of their sends.
#[derive(Default)]
struct Pair {
    first: u64,
    messages: VecDeque<Message>,
}

/// A schedule that is played.
pub(super) struct Player<'a> {
    schedule: &'a Schedule,
    experiment: &'a Experiment,
    closed: Closed,
    pages: Pages<'a>,
    rank_of: Vec<u32>,
    ranks: Vec<Rank>,
    pairs: HashMap<(u32, u32), Pair>,
    now: Tick,
    events: BinaryHeap<Reverse<(Tick, u64, Event)>>,
    /// Events so far; those of one time come in their order.
    count: u64,
    tasks: VecDeque<Task>,
    messages: u64,
    ended: u64,
}

impl<'a> Player<'a> {
    pub(super) fn new(schedule: &'a Schedule, experiment: &'a Experiment, closed: Closed) -> Player<'a> {
        Player {
            schedule,
            experiment,
            closed,
            pages: Pages::new(&schedule.file),
            rank_of: experiment.ranks(),
            ranks: schedule.ranks.iter().map(|_| Rank::default()).collect(),
            pairs: HashMap::new(),
            now: 0,
            events: BinaryHeap::new(),
            count: 0,
            tasks: VecDeque::new(),
            messages: 0,
            ended: 0,
        }
    }

    /// Plays until nothing more happens.
    pub(super) fn play(&mut self, watch: &mut Watch<'_>) -> Result<(), Error> {
        for (rank, place) in (0..).zip(&self.schedule.ranks) {
            for i in 0..place.free {
                let operation = self.pages.free(place, i).map_err(|e| self.unread(e))?;
                let stored = self.pages.operation(place, operation).map_err(|e| self.unread(e))?;
                self.begin(rank, operation, stored.operation)?;
            }
            self.work()?;
        }
        let all = self.schedule.operations();
        loop {
            let next = self.events.peek().map_or(Tick::MAX, |Reverse((at, ..))| *at);
            // What is sent at a time is in the network before the network comes to it.
            if let Some(d) = self.closed.next_delivery_before(next)? {
                let [from, to] = [d.src, d.dst].map(|node| self.rank_of[node as usize]);
                self.schedule_event(d.tail, Event::Arrives { from, to, message: d.tag });
                continue;
            }
            let Some(Reverse((at, _, event))) = self.events.pop() else { return Ok(()) };
            self.now = at;
            match event {
                Event::Arrives { from, to, message } => self.packet(from, to, message)?,
                Event::CalcEnds { rank, operation, cpu } => self.calc_ends(rank, operation, cpu)?,
            }
            self.work()?;
            self.closed.look(watch, "replaying", self.ended, all)?;
        }
    }

    /// When each rank has ended, the messages, and the network.
    pub(super) fn ended(self) -> Result<(Vec<Tick>, u64, Closed), Error> {
        let waiting = (0..).zip(&self.ranks).find_map(|(rank, of)| Some((rank, of.recvs.front()?)));
        if let Some((rank, recv)) = waiting {
            let shown = |number: u32| if number == ANY { "any".into() } else { number.to_string() };
            let (from, tag) = (shown(recv.peer), shown(recv.tag));
            let why = format!("rank {rank} waits for ever: recv from rank {from}, tag {tag}, has no send left");
            let remedy = "add that send, or let it not depend on this recv";
            return Err(self.schedule.wrong(rank, recv.operation, &format!("{why}; {remedy}")));
        }
        let unseen = (0..).zip(&self.ranks).find_map(|(rank, of)| Some((rank, of.come.front()?)));
        if let Some((rank, send)) = unseen {
            let why =
                format!("the send from rank {} to rank {rank}, tag {}, has no recv; add one", send.peer, send.tag);
            return Err(self.schedule.wrong(send.peer, send.operation, &why));
        }
        debug_assert_eq!(self.ended, self.schedule.operations());
        Ok((self.ranks.iter().map(|rank| rank.end).collect(), self.messages, self.closed))
    }

    fn unread(&self, source: std::io::Error) -> Error {
        Error::Network(format!("the schedule {:?} cannot be read any more: {source}", self.schedule))
    }

    fn schedule_event(&mut self, at: Tick, event: Event) {
        self.count += 1;
        self.events.push(Reverse((at, self.count, event)));
    }

    /// Does all that can be done at this time.
    fn work(&mut self) -> Result<(), Error> {
        while let Some(task) = self.tasks.pop_front() {
            match task {
                Task::Begin { rank, operation } => {
                    let stored = self.pages.operation(&self.schedule.ranks[rank as usize], operation);
                    let stored = stored.map_err(|e| self.unread(e))?;
                    self.begin(rank, operation, stored.operation)?;
                }
                Task::End { rank, operation } => self.end(rank, operation)?,
            }
        }
        Ok(())
    }

    /// An operation waits for nothing but its cpu.
    fn begin(&mut self, rank: u32, number: u32, operation: Operation) -> Result<(), Error> {
        let of = &mut self.ranks[rank as usize];
        let cpu = usize::from(operation.cpu);
        if of.cpus.len() <= cpu {
            of.cpus.resize_with(cpu + 1, Cpu::default);
        }
        if of.cpus[cpu].busy {
            of.cpus[cpu].ready.push_back(number);
            return Ok(());
        }
        let (peer, tag) = (operation.peer, operation.tag);
        let open = Open { operation: number, peer, tag };
        let end = match operation.kind {
            Kind::Calc if operation.size == 0 => true,
            Kind::Calc => {
                of.cpus[cpu].busy = true;
                let at = self.now + operation.size * NS;
                if at > TIME_MAX {
                    let why = format!("a calculation that ends after {TIME_MAX} ps; give shorter ones");
                    return Err(self.schedule.wrong(rank, number, &why));
                }
                self.schedule_event(at, Event::CalcEnds { rank, operation: number, cpu: operation.cpu });
                false
            }
            Kind::Recv => {
                let come = take(&mut of.come, peer, tag);
                if come.is_none() {
                    of.recvs.push_back(open);
                }
                come.is_some()
            }
            Kind::Send => {
                self.send(rank, open, operation.size);
                true
            }
        };
        self.free(rank, number, true)?;
        if end {
            self.tasks.push_back(Task::End { rank, operation: number });
        }
        Ok(())
    }

    fn end(&mut self, rank: u32, operation: u32) -> Result<(), Error> {
        let of = &mut self.ranks[rank as usize];
        (of.ended, of.end) = (of.ended + 1, self.now);
        self.ended += 1;
        self.free(rank, operation, false)
    }

    /// Those that waited for the start or the end of an operation go on.
    fn free(&mut self, rank: u32, operation: u32, start: bool) -> Result<(), Error> {
        let place = &self.schedule.ranks[rank as usize];
        let stored = self.pages.operation(place, operation).map_err(|e| self.unread(e))?;
        let (first, len) = if start { stored.after_start } else { stored.after_end };
        for index in first..first + len {
            let waiting = self.pages.waiting(place, index).map_err(|e| self.unread(e))?;
            let waits = self.pages.operation(place, waiting).map_err(|e| self.unread(e))?.waits;
            let missing = &mut self.ranks[rank as usize].missing;
            let left = missing.remove(&waiting).unwrap_or(waits) - 1;
            if left > 0 {
                missing.insert(waiting, left);
            } else {
                self.tasks.push_back(Task::Begin { rank, operation: waiting });
            }
        }
        Ok(())
    }

    fn calc_ends(&mut self, rank: u32, operation: u32, cpu: u8) -> Result<(), Error> {
        let cpu = usize::from(cpu);
        self.ranks[rank as usize].cpus[cpu].busy = false;
        self.end(rank, operation)?;
        while let Some(of) = Some(&mut self.ranks[rank as usize].cpus[cpu]).filter(|of| !of.busy)
            && let Some(next) = of.ready.pop_front()
        {
            let stored = self.pages.operation(&self.schedule.ranks[rank as usize], next);
            let stored = stored.map_err(|e| self.unread(e))?;
            self.begin(rank, next, stored.operation)?;
        }
        Ok(())
    }

    fn send(&mut self, rank: u32, send: Open, bytes: u64) {
        self.messages += 1;
        let to = send.peer;
        if to == rank {
            return self.come(to, Open { peer: rank, ..send });
        }
        let packets = packets_for(self.experiment, bytes).count() as u64;
        let pair = self.pairs.entry((rank, to)).or_default();
        let number = pair.first + pair.messages.len() as u64;
        pair.messages.push_back(Message { packets, tag: send.tag, operation: send.operation });
        self.ranks[rank as usize].outbox.push_back((to, bytes, number));
        self.feed(rank);
    }

    /// Gives the network packets of a rank.
    fn feed(&mut self, rank: u32) {
        let of = &mut self.ranks[rank as usize];
        while of.under_way < UNDER_WAY_MAX {
            let Some(leaving) = &mut of.leaving else {
                let Some((to, bytes, message)) = of.outbox.pop_front() else { return };
                of.leaving = Some(Leaving { to, message, flits: Box::new(packets_for(self.experiment, bytes)) });
                continue;
            };
            let Some(flits) = leaving.flits.next() else {
                of.leaving = None;
                continue;
            };
            of.under_way += 1;
            self.closed.send(Injection {
                src: self.experiment.placement[rank as usize],
                dst: self.experiment.placement[leaving.to as usize],
                flits,
                class: TrafficClass::Request,
                adaptive: self.experiment.adaptive,
                at: self.now,
                tag: leaving.message,
                ..Injection::default()
            });
        }
    }

    /// A packet has come; messages of a pair are seen in the order of their sends.
    fn packet(&mut self, from: u32, to: u32, message: u64) -> Result<(), Error> {
        self.ranks[from as usize].under_way -= 1;
        self.feed(from);
        let Some(pair) = self.pairs.get_mut(&(from, to)) else { return Ok(()) };
        if let Some(message) = pair.messages.get_mut((message - pair.first) as usize) {
            message.packets -= 1;
        }
        let mut come = Vec::new();
        while pair.messages.front().is_some_and(|message| message.packets == 0)
            && let Some(message) = pair.messages.pop_front()
        {
            pair.first += 1;
            come.push(Open { operation: message.operation, peer: from, tag: message.tag });
        }
        if pair.messages.is_empty() {
            self.pairs.remove(&(from, to));
        }
        come.into_iter().for_each(|message| self.come(to, message));
        Ok(())
    }

    /// A message has come.
    fn come(&mut self, rank: u32, message: Open) {
        let of = &mut self.ranks[rank as usize];
        match take(&mut of.recvs, message.peer, message.tag) {
            Some(recv) => self.tasks.push_back(Task::End { rank, operation: recv.operation }),
            None => of.come.push_back(message),
        }
    }
}
