//! Words by which PEs tell each other something: those that somebody waits for, and those that atomics change.
//!
//! Whoever sees a value knows what its writer knew. Which write a wait saw is not known for sure, so it counts as
//! having seen the latest of every PE that fits. That finds fewer races, and none that is none, unless a wait is further
//! behind than [`VALUES`].

use super::shadow::{At, Clock, Op};
use angara_abi::clock::Comparison;
use angara_protocol::calls::{Action, Blocks, Call, Memory};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

/// Values of one PE that are remembered of a word: a wait that sees an older one is behind by this many.
const VALUES: usize = 16;

/// Transfers of a PE on one way, from one quiet to the next. Writes that tell of them hold on to them.
#[derive(Default, Debug)]
pub(super) struct Way {
    /// With the event that began each.
    pub(super) ops: Vec<(u32, Rc<Op>)>,
    /// How many of the first of them are known to have arrived, by who knows it.
    arrived: HashMap<u32, usize>,
}

impl Way {
    /// `pe` has learnt at its event `now` that everything begun before event `fenced` has arrived.
    pub(super) fn arrived(&mut self, pe: u32, now: u32, fenced: u32) {
        let known = self.arrived.entry(pe).or_default();
        let all = self.ops.partition_point(|(begun, _)| *begun < fenced);
        for (_, op) in self.ops.get(*known..all).into_iter().flatten() {
            op.finish(pe, now);
        }
        *known = all.max(*known);
    }
}

/// A write to a word, and what a reader of the word learns from it.
#[derive(Clone)]
pub(super) struct Write {
    pub(super) op: Rc<Op>,
    /// Knowledge of its writer.
    pub(super) clock: Rc<Clock>,
    /// PE whose memory it is in.
    pub(super) target: u32,
    /// Operations its writer has sent there on the same context.
    pub(super) way: Rc<RefCell<Way>>,
    /// Operations of `way` begun before this event arrive before the write.
    pub(super) fenced: u32,
    /// Data that the same call put before it.
    pub(super) carried: Option<Rc<Op>>,
    /// Value of the word after it, if known.
    pub(super) value: Option<u64>,
}

#[derive(Default)]
struct Word {
    /// By writer, oldest first.
    writes: BTreeMap<u32, VecDeque<Write>>,
}

impl Word {
    fn add(&mut self, write: Write) {
        let of = self.writes.entry(write.op.pe).or_default();
        // Whatever fits any value fits the newer one, too.
        of.retain(|before| before.value.is_some() || write.value.is_some());
        if of.len() == VALUES {
            of.pop_front();
        }
        of.push_back(write);
    }
}

/// All such words, by PE and place.
#[derive(Default)]
pub(super) struct Words(HashMap<u32, BTreeMap<At, Word>>);

/// Places of the variables of a wait.
pub(super) fn waited(action: &Action) -> impl Iterator<Item = At> + use<> {
    let (first, count, width) = match *action {
        Action::Wait { at, count, comparison, .. } => (Some(super::at(at)), count, u64::from(comparison.width)),
        _ => (None, 0, 0),
    };
    first.into_iter().flat_map(move |at| (0..count).map(move |i| At { offset: at.offset + i * width, ..at }))
}

/// Returns what a wait asks of its variable. Of several, each may have a value of its own.
pub(super) fn asked(action: &Action) -> Option<Comparison> {
    match *action {
        Action::Wait { count: 1, comparison, .. } => Some(comparison),
        _ => None,
    }
}

impl Words {
    /// Looks through a call of `pe` for words to remember.
    pub(super) fn learn(&mut self, pe: u32, call: &Call) {
        for at in waited(&call.action) {
            self.0.entry(pe).or_default().entry(at).or_default();
        }
        let changed = match call.action {
            Action::Atomic { pe, remote, .. } => Some((pe, remote)),
            Action::Access { pe, at: at @ Memory::Symmetric(_), atomic: true, .. } => Some((pe, at)),
            _ => None,
        };
        if let Some((pe, at)) = changed {
            self.0.entry(pe).or_default().entry(super::at(at)).or_default();
        }
    }

    /// True if any of these bytes of PE `pe` are such words.
    pub(super) fn known(&self, pe: u32, at: At, blocks: Blocks) -> bool {
        let words = self.0.get(&pe);
        words.is_some_and(|words| ranges(at, blocks).any(|(start, end)| words.range(start..end).next().is_some()))
    }

    /// A write of the bytes from `at` on.
    pub(super) fn write(&mut self, at: At, blocks: Blocks, write: &Write) {
        let Some(words) = self.0.get_mut(&write.target) else { return };
        for (start, end) in ranges(at, blocks) {
            words.range_mut(start..end).for_each(|(_, word)| word.add(write.clone()));
        }
    }

    /// Returns what a look at a word of `pe` can have seen: of each writer the latest that fits.
    pub(super) fn seen(&self, pe: u32, at: At, asked: Option<Comparison>) -> impl Iterator<Item = &Write> {
        let fits = move |write: &&Write| match (asked, write.value) {
            (Some(asked), Some(value)) => asked.holds(value),
            _ => true,
        };
        let word = self.0.get(&pe).and_then(|words| words.get(&at));
        word.into_iter().flat_map(move |word| word.writes.values().filter_map(move |of| of.iter().rev().find(fits)))
    }
}

/// Where the blocks begin and end.
fn ranges(at: At, blocks: Blocks) -> impl Iterator<Item = (At, At)> {
    (0..blocks.count).map(move |block| {
        let start = at.offset.saturating_add(block.saturating_mul(blocks.remote_step));
        (At { offset: start, ..at }, At { offset: start.saturating_add(blocks.block), ..at })
    })
}
