//! Knowledge of each PE about the others' progress, call by call: vector clocks.
//!
//! A PE is one line of events; its threads are told apart by time only. For a PE an access is over if the PE knows of
//! an event that proves it: of the call itself where it blocks, of the quiet behind it, or of a wait that saw a value
//! which was sent behind it on the same way and after a fence (OpenSHMEM 1.6, 9.10 and 9.12).

use super::shadow::{AccessKind, At, Clock, Op, Shadow};
use super::steps::{Log, Step, Steps};
use super::words::{self, Way, Words, Write};
use super::{Found, at};
use angara_abi::desc::Place;
use angara_protocol::calls::{Action, Blocks, Call, Meeting, Members, Memory};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// `SHMEM_CTX_DEFAULT`, which barriers complete.
const DEFAULT: u16 = 1;
/// In place of a context where the program itself stores: no transfer is on it.
const DIRECT: u16 = 0;

#[derive(Default)]
struct Pe {
    clock: Clock,
    /// By context and target.
    ways: HashMap<(u16, u32), Rc<RefCell<Way>>>,
    /// The last fence of each context.
    fences: HashMap<u16, u32>,
    /// The put before a fence within a call: data of a signal.
    last_put: Option<Rc<Op>>,
    carried: Option<Rc<Op>>,
    /// Accesses that end with a call that is under way.
    open: HashMap<u32, Vec<Rc<Op>>>,
    /// Meets of each group so far.
    meets: HashMap<Members, u64>,
    /// Number of its group's meets at which each collective under way is.
    meeting: HashMap<u32, u64>,
}

/// A collective.
#[derive(Default)]
struct Meet {
    /// Joint knowledge of the PEs that have come.
    all: Clock,
    /// Knowledge of the root.
    root: Option<Clock>,
    left: u32,
}

/// Users of an array that a program lends to collectives, and the collectives it is used in.
struct Work {
    meet: (Members, u64),
    /// It is a barrier, which may follow itself.
    barrier: bool,
    users: Users,
    /// Users of the collective before.
    before: Users,
}

/// By user of an array: its call, and the event that ended it.
type Users = BTreeMap<u32, (u32, Option<u32>)>;

/// All that is known at a step.
pub(super) struct Order<'l> {
    log: &'l Log,
    pes: Vec<Pe>,
    memory: Vec<Shadow>,
    words: Words,
    meets: HashMap<(Members, u64), Meet>,
    locks: HashMap<At, Clock>,
    /// By the PE whose memory an array is, and its place.
    works: HashMap<(u32, Place), Work>,
    found: Found,
}

/// The members of a group.
fn pes(members: Members) -> impl Iterator<Item = u32> {
    (0..members.size).map(move |i| members.start.wrapping_add_signed(members.stride.wrapping_mul(i as i32)))
}

/// Raises `clock` to what `other` knows, too.
fn join(clock: &mut Clock, other: &Clock) {
    clock.resize(clock.len().max(other.len()), 0);
    clock.iter_mut().zip(other).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
}

/// Goes through all calls; `progress` is told of each step.
pub(super) fn races(log: &Log, progress: impl Fn()) -> Found {
    let pes = log.calls.len();
    let pe = || Pe { clock: vec![0; pes], ..Pe::default() };
    let mut order = Order {
        log,
        pes: (0..pes).map(|_| pe()).collect(),
        memory: (0..pes).map(|_| Shadow::default()).collect(),
        words: Words::default(),
        meets: HashMap::new(),
        locks: HashMap::new(),
        works: HashMap::new(),
        found: Found::default(),
    };
    for (pe, calls) in log.calls.iter().enumerate() {
        calls.iter().for_each(|call| order.words.learn(pe as u32, call));
    }
    let mut steps = Steps::new(&log.calls);
    while let Some((step, call)) = steps.take(|step, call| order.can_end(step, call)) {
        order.step(step, call);
        progress();
    }
    order.found
}

impl Order<'_> {
    /// A wait that nothing can have ended has to wait for other steps.
    fn can_end(&self, step: Step, call: &Call) -> bool {
        let Action::Wait { satisfied: true, .. } = call.action else { return true };
        let asked = words::asked(&call.action);
        words::waited(&call.action).any(|at| self.words.seen(step.pe, at, asked).next().is_some())
    }

    fn step(&mut self, step: Step, call: &Call) {
        let me = &mut self.pes[step.pe as usize];
        me.clock[step.pe as usize] += 1;
        match step.end {
            false => self.begin(step, call),
            true => self.end(step, call),
        }
    }

    fn now(&self, pe: u32) -> u32 {
        self.pes[pe as usize].clock[pe as usize]
    }

    fn begin(&mut self, step: Step, call: &Call) {
        let pe = step.pe;
        match call.action {
            Action::Put { .. } | Action::Get { .. } => self.transfer(step, call),
            Action::Atomic { .. } => self.atomic(step, call),
            Action::Fence { ctx } => {
                let now = self.now(pe);
                let me = &mut self.pes[pe as usize];
                match call.depth {
                    0 => drop(me.fences.insert(ctx, now)),
                    // Within a put with signal: it orders that put alone.
                    _ => me.carried = me.last_put.take(),
                }
            }
            Action::Quiet { ctx, pe: target } => self.quiet(pe, ctx, target),
            Action::Meet { .. } => self.arrive(step, call),
            Action::Unlock { at: lock } => {
                self.quiet(pe, DEFAULT, None);
                join(self.locks.entry(at(lock)).or_default(), &self.pes[pe as usize].clock);
            }
            Action::Access { pe: of, at: place, len, writes, atomic } => {
                let of = if let Memory::Private(_) = place { pe } else { of };
                let kind = match (atomic, writes) {
                    (true, _) => AccessKind::Atomic,
                    (false, true) => AccessKind::Write,
                    (false, false) => AccessKind::Read,
                };
                let op = Op::new(pe, step.call, kind, None);
                op.finish(pe, self.now(pe));
                self.touch(of, at(place), len, &op);
                if atomic {
                    self.learn(pe, of, at(place), None);
                }
                if atomic && writes {
                    self.say(pe, (DIRECT, of), at(place), Blocks::one(len as usize), (op, None, None));
                }
            }
            Action::Other | Action::Wait { .. } | Action::Lock { .. } | Action::Mpi { .. } | Action::Message { .. } => {
            }
        }
    }

    fn end(&mut self, step: Step, call: &Call) {
        let pe = step.pe;
        match call.action {
            Action::Wait { satisfied: true, .. } => {
                let asked = words::asked(&call.action);
                words::waited(&call.action).for_each(|at| self.learn(pe, pe, at, asked));
            }
            Action::Atomic { fetches: true, pe: target, remote, .. } => self.learn(pe, target, at(remote), None),
            Action::Lock { at: lock, taken: true } => {
                if let Some(clock) = self.locks.get(&at(lock)) {
                    join(&mut self.pes[pe as usize].clock, clock);
                }
            }
            Action::Meet { .. } => self.leave(step, call),
            _ => {}
        }
        let now = self.now(pe);
        for op in self.pes[pe as usize].open.remove(&step.call).into_iter().flatten() {
            op.finish(pe, now);
        }
    }

    /// An access of `len` bytes of a PE's memory begins.
    fn touch(&mut self, of: u32, at: At, len: u64, op: &Rc<Op>) {
        // The target of a call that ended with an error may not exist.
        let Some(memory) = self.memory.get_mut(of as usize) else { return };
        let (log, found, clock) = (self.log, &mut self.found, &self.pes[op.pe as usize].clock);
        memory.touch(at, len, (op, clock), |before, at, len| {
            found.add(log, (before, op), Some((of, at, len)));
        });
    }

    fn touch_blocks(&mut self, of: u32, first: At, blocks: Blocks, step: u64, op: &Rc<Op>) {
        let whole = blocks.block == step || blocks.count == 1;
        let (count, len) = if whole { (1, blocks.bytes()) } else { (blocks.count, blocks.block) };
        for block in 0..if len > 0 { count } else { 0 } {
            self.touch(of, At { offset: first.offset.saturating_add(block.saturating_mul(step)), ..first }, len, op);
        }
    }

    /// Nothing but a quiet of the context, or what comes behind a fence, says that `op` is over.
    fn send(&mut self, pe: u32, ctx: u16, target: u32, op: Rc<Op>) {
        let me = &mut self.pes[pe as usize];
        let now = me.clock[pe as usize];
        me.ways.entry((ctx, target)).or_default().borrow_mut().ops.push((now, op));
    }

    fn transfer(&mut self, step: Step, call: &Call) {
        let (pe, put) = (step.pe, matches!(call.action, Action::Put { .. }));
        let (Action::Put { ctx, pe: target, remote, local, blocks, blocking, .. }
        | Action::Get { ctx, pe: target, remote, local, blocks, blocking }) = call.action
        else {
            return;
        };
        let (there, here) =
            if put { (AccessKind::Write, AccessKind::Read) } else { (AccessKind::Read, AccessKind::Write) };
        let (there, here) = (Op::new(pe, step.call, there, Some(ctx)), Op::new(pe, step.call, here, Some(ctx)));
        let now = self.now(pe);
        if blocking {
            here.finish(pe, now);
        }
        if blocking && !put {
            there.finish(pe, now);
        }
        // The value of `shmem_p` has no place.
        let has_place = !(put && blocking && matches!(local, Memory::Private(_)));
        if has_place {
            self.touch_blocks(pe, at(local), blocks, blocks.local_step, &here);
        }
        self.touch_blocks(target, at(remote), blocks, blocks.remote_step, &there);
        if put || !blocking {
            self.send(pe, ctx, target, there.clone());
        }
        if !blocking {
            self.send(pe, ctx, target, here);
        }
        if let Action::Put { value, .. } = call.action {
            self.pes[pe as usize].last_put = Some(there.clone());
            self.say(pe, (ctx, target), at(remote), blocks, (there, value, None));
        }
    }

    fn atomic(&mut self, step: Step, call: &Call) {
        let Action::Atomic { ctx, pe: target, remote, width, writes, fetches, signals, operand, stores } = call.action
        else {
            return;
        };
        let pe = step.pe;
        let op = Op::new(pe, step.call, AccessKind::Atomic, Some(ctx));
        if fetches {
            op.finish(pe, self.now(pe));
        }
        self.touch(target, at(remote), width.into(), &op);
        if !fetches {
            self.send(pe, ctx, target, op.clone());
        }
        if writes {
            let carried = self.pes[pe as usize].carried.take().filter(|_| signals && call.depth > 0);
            let value = stores.then_some(operand);
            self.say(pe, (ctx, target), at(remote), Blocks::one(width.into()), (op, value, carried));
        }
    }

    /// Words that `pe` writes tell what it knows.
    fn say(
        &mut self,
        pe: u32,
        (ctx, target): (u16, u32),
        to: At,
        blocks: Blocks,
        (op, value, carried): (Rc<Op>, Option<u64>, Option<Rc<Op>>),
    ) {
        if !self.words.known(target, to, blocks) {
            return;
        }
        let me = &mut self.pes[pe as usize];
        let fenced = me.fences.get(&ctx).copied().unwrap_or(0);
        let way = me.ways.entry((ctx, target)).or_default().clone();
        let write = Write { op, clock: Rc::new(me.clock.clone()), target, way, fenced, carried, value };
        self.words.write(to, blocks, &write);
    }

    /// `pe` looks at a word of PE `of`, and learns what its writers knew.
    fn learn(&mut self, pe: u32, of: u32, at: At, asked: Option<angara_abi::clock::Comparison>) {
        let now = self.now(pe);
        let seen: Vec<Write> = self.words.seen(of, at, asked).cloned().collect();
        for write in seen {
            join(&mut self.pes[pe as usize].clock, &write.clock);
            write.op.finish(pe, now);
            if let Some(data) = &write.carried {
                data.finish(pe, now);
            }
            write.way.borrow_mut().arrived(pe, now, write.fenced);
        }
    }

    /// Ends everything that `pe` has sent on a context, to one target or to all.
    fn quiet(&mut self, pe: u32, ctx: u16, target: Option<u32>) {
        let now = self.now(pe);
        let done = |way: &(u16, u32)| way.0 == ctx && target.is_none_or(|target| way.1 == target);
        for (_, way) in self.pes[pe as usize].ways.extract_if(|way, _| done(way)) {
            way.borrow().ops.iter().for_each(|(_, op)| op.finish(pe, now));
        }
    }

    fn arrive(&mut self, step: Step, call: &Call) {
        let Action::Meet { meeting, members, root, dest, dest_len, source, source_len, work } = call.action else {
            return;
        };
        let pe = step.pe;
        if matches!(meeting, Meeting::Barrier | Meeting::Memory) {
            self.quiet(pe, DEFAULT, None);
        }
        if !matches!(meeting, Meeting::Memory) {
            let parts = [(dest, dest_len, AccessKind::Write), (source, source_len, AccessKind::Read)];
            for (memory, len, kind) in parts.into_iter().filter(|(_, len, _)| *len > 0) {
                let op = Op::new(pe, step.call, kind, None);
                self.touch(pe, at(memory), len, &op);
                self.pes[pe as usize].open.entry(step.call).or_default().push(op);
            }
        }
        let me = &mut self.pes[pe as usize];
        let count = me.meets.entry(members).or_default();
        let key = (members, *count);
        me.meeting.insert(step.call, *count);
        *count += 1;
        let meet = self.meets.entry(key).or_default();
        join(&mut meet.all, &me.clock);
        let at_root = i64::from(members.start) + i64::from(root) * i64::from(members.stride);
        if at_root == i64::from(pe) {
            meet.root = Some(me.clock.clone());
        }
        if let Some(work) = work {
            self.lend(step, work, key, matches!(meeting, Meeting::Barrier | Meeting::Sync));
        }
    }

    /// An array that the program lends must not be in use for an earlier collective.
    fn lend(&mut self, step: Step, place: Place, meet: (Members, u64), barrier: bool) {
        let pe = step.pe;
        for of in pes(meet.0) {
            let new = || Work { meet, barrier, users: Users::new(), before: Users::new() };
            let work = self.works.entry((of, place)).or_insert_with(new);
            if work.meet != meet {
                // The specification allows it for the same PEs; old programs do it with fewer and fewer.
                let follows = work.barrier && barrier;
                let before = if follows { Users::new() } else { std::mem::take(&mut work.users) };
                *work = Work { before, ..new() };
            }
            let clock = &self.pes[pe as usize].clock;
            for (user, (call, left)) in work.before.iter().filter(|(user, _)| pes(meet.0).any(|pe| pe == **user)) {
                if *user != pe && left.is_none_or(|left| clock[*user as usize] < left) {
                    let of = |pe, call| Op::new(pe, call, AccessKind::Write, None);
                    self.found.add(self.log, (&of(*user, *call), &of(pe, step.call)), None);
                }
            }
            work.users.insert(pe, (step.call, None));
        }
    }

    fn leave(&mut self, step: Step, call: &Call) {
        let Action::Meet { meeting, members, work, .. } = call.action else { return };
        let pe = step.pe;
        let me = &mut self.pes[pe as usize];
        let Some(count) = me.meeting.remove(&step.call) else { return };
        let key = (members, count);
        if let Some(meet) = self.meets.get_mut(&key) {
            match (meeting, &meet.root) {
                (Meeting::Broadcast, Some(root)) => join(&mut me.clock, root),
                (Meeting::Broadcast, None) => {}
                _ => join(&mut me.clock, &meet.all),
            }
            meet.left += 1;
            if meet.left >= members.size {
                self.meets.remove(&key);
            }
        }
        let now = self.now(pe);
        for place in work.into_iter().flat_map(|place| pes(members).map(move |of| (of, place))) {
            if let Some(work) = self.works.get_mut(&place).filter(|work| work.meet == key)
                && let Some((_, left)) = work.users.get_mut(&pe)
            {
                *left = Some(now);
            }
        }
    }
}
