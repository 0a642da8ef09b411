//! Which posts are on their way.

use angara_abi::desc::Place;
use angara_fabric::Port;

/// A post the network works on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    /// Index of the lane it came from.
    pub(crate) lane: usize,
    pub(crate) seq: u32,
    pub(crate) completion: Option<Place>,
    /// Number in the lane's progress.
    pub(crate) number: u64,
    /// Ends with the network's completion, not with injection.
    pub(crate) answered: bool,
    /// Brings data back into memory of its PE.
    pub(crate) read: bool,
    /// A barrier, and whether a half one.
    pub(crate) barrier: Option<bool>,
    /// Whose memory it is for.
    pub(crate) to: Option<Port>,
}

/// Posts on their way, by tag. A tag is used once: completions of closed jobs find nothing.
#[derive(Default)]
pub(crate) struct Outstanding {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The latest post of each lane, which leads to those before it: a large job has many lanes, and each ends.
    latest: Vec<u32>,
}

struct Slot {
    /// How often it has been used.
    round: u32,
    operation: Option<Operation>,
    /// Slots of the same lane's posts before and after this one.
    before: u32,
    after: u32,
}

/// No slot.
const NONE: u32 = u32::MAX;

impl Outstanding {
    pub(crate) fn insert(&mut self, operation: Operation) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { round: 0, operation: None, before: NONE, after: NONE });
            self.slots.len() as u32 - 1
        });
        if self.latest.len() <= operation.lane {
            self.latest.resize(operation.lane + 1, NONE);
        }
        let before = std::mem::replace(&mut self.latest[operation.lane], index);
        if let Some(slot) = self.slots.get_mut(before as usize) {
            slot.after = index;
        }
        let slot = &mut self.slots[index as usize];
        (slot.operation, slot.before, slot.after) = (Some(operation), before, NONE);
        tag_of(slot.round, index)
    }

    pub(crate) fn get_mut(&mut self, tag: u64) -> Option<&mut Operation> {
        let slot = self.slots.get_mut(tag as u32 as usize)?;
        slot.operation.as_mut().filter(|_| slot.round == (tag >> 32) as u32)
    }

    pub(crate) fn remove(&mut self, tag: u64) -> Option<Operation> {
        let slot = self.slots.get_mut(tag as u32 as usize)?;
        if slot.round != (tag >> 32) as u32 {
            return None;
        }
        let taken = slot.operation.take()?;
        slot.round = slot.round.wrapping_add(1);
        let (before, after) = (slot.before, slot.after);
        if let Some(slot) = self.slots.get_mut(before as usize) {
            slot.after = after;
        }
        match self.slots.get_mut(after as usize) {
            Some(slot) => slot.before = before,
            None => self.latest[taken.lane] = before,
        }
        self.free.push(tag as u32);
        Some(taken)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.iter().filter(|slot| slot.operation.is_some()).count()
    }

    /// Forgets every post of a lane.
    pub(crate) fn drop_lane(&mut self, lane: usize) {
        while let Some(&index) = self.latest.get(lane).filter(|index| **index != NONE) {
            self.remove(tag_of(self.slots[index as usize].round, index));
        }
    }
}

fn tag_of(round: u32, index: u32) -> u64 {
    u64::from(round) << 32 | u64::from(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_finished_posts_find_nothing() {
        let mut outstanding = Outstanding::default();
        let f = Operation {
            lane: 0,
            seq: 1,
            completion: None,
            number: 0,
            answered: true,
            read: false,
            barrier: None,
            to: None,
        };
        let first = outstanding.insert(f);
        assert_eq!(outstanding.remove(first).map(|f| f.seq), Some(1));
        let second = outstanding.insert(Operation { seq: 2, lane: 7, ..f });
        assert!(outstanding.get_mut(first).is_none() && outstanding.remove(first).is_none());
        outstanding.drop_lane(7);
        assert!(outstanding.get_mut(second).is_none());
        assert!(outstanding.get_mut(u64::MAX).is_none());
    }

    #[test]
    fn a_lane_that_goes_takes_its_own_posts_and_no_others() {
        const SEED: u64 = 35;
        println!("seed {SEED}");
        let draw = |n: u64| angara_abi::random::mix(SEED.wrapping_add(n.wrapping_mul(angara_abi::random::STEP)));
        let (mut outstanding, mut known) = (Outstanding::default(), Vec::<(u64, usize, u32)>::new());
        for n in 0..20_000 {
            let random = draw(n);
            let lane = (random >> 8) as usize % 5;
            match random % 8 {
                0..4 => {
                    let (seq, completion, to, barrier) = (n as u32, None, None, None);
                    let f = Operation { lane, seq, completion, number: 0, answered: true, read: false, barrier, to };
                    known.push((outstanding.insert(f), lane, seq));
                }
                4..7 if !known.is_empty() => {
                    let (tag, _, seq) = known.swap_remove((random >> 16) as usize % known.len());
                    assert_eq!(outstanding.remove(tag).map(|f| f.seq), Some(seq));
                }
                7 if random >> 32 & 15 == 0 => {
                    outstanding.drop_lane(lane);
                    known.retain(|(tag, of, _)| {
                        assert!(*of != lane || outstanding.get_mut(*tag).is_none());
                        *of != lane
                    });
                }
                _ => {}
            }
            assert_eq!(outstanding.len(), known.len());
        }
        assert!(known.iter().all(|(tag, _, seq)| outstanding.get_mut(*tag).is_some_and(|f| f.seq == *seq)));
    }
}
