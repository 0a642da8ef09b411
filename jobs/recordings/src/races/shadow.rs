//! Accesses to a PE's memory, by byte, as far as a later access could collide with them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Progress of each PE, as one of them knows it.
pub(super) type Clock = Vec<u32>;

/// One access: of a call, or of the program itself.
#[derive(Debug)]
pub(super) struct Op {
    pub(super) pe: u32,
    /// Number of the call among those of the PE.
    pub(super) call: u32,
    pub(super) kind: AccessKind,
    /// The context of the transfer that it is part of, if it is one.
    pub(super) ctx: Option<u16>,
    /// Pairs of PE and progress: the access is over for everybody who knows that the PE has come so far.
    over: RefCell<Vec<(u32, u32)>>,
}

/// Kind of an access.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum AccessKind {
    Read,
    Write,
    /// An atomic: it collides with no other atomic.
    Atomic,
}

impl Op {
    pub(super) fn new(pe: u32, call: u32, kind: AccessKind, ctx: Option<u16>) -> Rc<Op> {
        Rc::new(Op { pe, call, kind, ctx, over: RefCell::default() })
    }

    /// Whoever knows that `pe` has come to `at` knows that this is over.
    pub(super) fn finish(&self, pe: u32, at: u32) {
        let mut over = self.over.borrow_mut();
        if !over.iter().any(|(known, _)| *known == pe) {
            over.push((pe, at));
        }
    }

    /// It is over for somebody who knows `clock`.
    pub(super) fn over_by(&self, clock: &Clock) -> bool {
        self.over.borrow().iter().any(|(pe, at)| clock[*pe as usize] >= *at)
    }

    fn collides(&self, other: &Op) -> bool {
        let harmless = matches!(
            (self.kind, other.kind),
            (AccessKind::Read, AccessKind::Read) | (AccessKind::Atomic, AccessKind::Atomic)
        );
        // When one PE puts twice to one place, either may win; programs that do so put the same.
        let both_put = self.kind == AccessKind::Write
            && other.kind == AccessKind::Write
            && self.ctx.is_some()
            && other.ctx.is_some();
        let same = self.pe == other.pe && (self.call == other.call || both_put);
        !harmless && !same
    }
}

/// A kind of memory of a PE, and a place in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct At {
    pub(super) of: Of,
    pub(super) offset: u64,
}

/// Which memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Of {
    Heap,
    Static,
    /// Seen by the PE alone.
    Private,
}

struct Segment {
    end: u64,
    touched: Vec<Rc<Op>>,
}

/// The memory of a PE.
#[derive(Default)]
pub(super) struct Shadow {
    segments: BTreeMap<At, Segment>,
}

impl Shadow {
    /// Adds an access of `len` bytes by somebody who knows `clock`. `found` is told of each earlier one that collides
    /// with it and of the bytes that both touch.
    pub(super) fn touch(
        &mut self,
        at: At,
        len: u64,
        (op, clock): (&Rc<Op>, &Clock),
        mut found: impl FnMut(&Rc<Op>, At, u64),
    ) {
        let end = at.offset.saturating_add(len);
        self.split(at);
        self.split(At { offset: end, ..at });
        let mut next = at.offset;
        while next < end {
            let from = At { offset: next, ..at };
            let to = At { offset: end, ..at };
            let Some((start, segment)) = self.segments.range_mut(from..to).next() else {
                self.add(from, end, op);
                break;
            };
            if start.offset > next {
                let start = start.offset;
                self.add(from, start, op);
                next = start;
                continue;
            }
            for before in &segment.touched {
                if !before.over_by(clock) && before.collides(op) {
                    found(before, from, segment.end - next);
                }
            }
            segment.touched.retain(|before| !replaces(op, before, clock));
            segment.touched.push(op.clone());
            next = segment.end;
        }
        if at.of == Of::Private {
            // Nobody else sees it, so what is over collides with nothing.
            let to = At { offset: end, ..at };
            let over: Vec<At> = (self.segments.range_mut(at..to))
                .filter_map(|(start, segment)| {
                    segment.touched.retain(|op| !op.over_by(clock));
                    segment.touched.is_empty().then_some(*start)
                })
                .collect();
            over.iter().for_each(|start| drop(self.segments.remove(start)));
        }
    }

    fn add(&mut self, start: At, end: u64, op: &Rc<Op>) {
        self.segments.insert(start, Segment { end, touched: vec![op.clone()] });
    }

    /// Makes a segment that reaches over `at` two.
    fn split(&mut self, at: At) {
        let first = At { offset: 0, ..at };
        let Some((_, segment)) = self.segments.range_mut(first..at).next_back() else { return };
        if segment.end > at.offset {
            let tail = Segment { end: segment.end, touched: segment.touched.clone() };
            segment.end = at.offset;
            self.segments.insert(at, tail);
        }
    }
}

/// Whatever collides with `before` from now on collides with `new`, too, or has been said already.
fn replaces(new: &Op, before: &Op, clock: &Clock) -> bool {
    match new.kind {
        AccessKind::Write => true,
        // Transfers on one context are completed together.
        _ => {
            let together = new.ctx.is_some() && new.ctx == before.ctx;
            new.kind == before.kind && new.pe == before.pe && (together || before.over_by(clock))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAP: At = At { of: Of::Heap, offset: 64 };

    fn collisions(shadow: &mut Shadow, op: &Rc<Op>, at: u64, len: u64, clock: &[u32]) -> Vec<(u32, u64, u64)> {
        let mut all = Vec::new();
        shadow.touch(At { offset: at, ..HEAP }, len, (op, &clock.to_vec()), |o, at, len| {
            all.push((o.call, at.offset, len))
        });
        all
    }

    #[test]
    fn only_what_both_touch_and_nothing_orders_collides() {
        let mut shadow = Shadow::default();
        let put = Op::new(0, 1, AccessKind::Write, Some(1));
        assert_eq!(collisions(&mut shadow, &put, 64, 32, &[1, 0]), []);
        let get = Op::new(1, 2, AccessKind::Read, Some(1));
        assert_eq!(collisions(&mut shadow, &get, 88, 100, &[0, 1]), [(1, 88, 8)]);
        put.finish(0, 5);
        let get = Op::new(1, 3, AccessKind::Read, Some(1));
        assert_eq!(collisions(&mut shadow, &get, 64, 16, &[4, 2]), [(1, 64, 16)]);
        assert_eq!(collisions(&mut shadow, &Op::new(1, 4, AccessKind::Read, Some(1)), 64, 16, &[5, 3]), []);
        let put = Op::new(0, 7, AccessKind::Write, Some(1));
        assert_eq!(collisions(&mut shadow, &put, 70, 2, &[8, 0]), [(4, 70, 2)], "of transfers on one context the last");
    }

    #[test]
    fn atomics_collide_with_everything_but_atomics_and_puts_of_one_pe_with_others_puts() {
        let mut shadow = Shadow::default();
        let of = |pe, call, kind| Op::new(pe, call, kind, Some(1));
        assert_eq!(collisions(&mut shadow, &of(0, 1, AccessKind::Atomic), 64, 8, &[1, 0]), []);
        assert_eq!(collisions(&mut shadow, &of(1, 1, AccessKind::Atomic), 64, 8, &[0, 1]), []);
        assert_eq!(collisions(&mut shadow, &of(1, 2, AccessKind::Write), 68, 4, &[0, 2]), [(1, 68, 4), (1, 68, 4)]);
        assert_eq!(collisions(&mut shadow, &of(1, 3, AccessKind::Write), 68, 4, &[0, 3]), []);
        assert_eq!(collisions(&mut shadow, &of(0, 2, AccessKind::Write), 68, 4, &[2, 0]), [(3, 68, 4)]);
    }

    #[test]
    fn private_memory_is_forgotten_when_nothing_is_under_way() {
        let mut shadow = Shadow::default();
        let at = At { of: Of::Private, offset: 4096 };
        let get = Op::new(0, 1, AccessKind::Write, Some(1));
        shadow.touch(at, 64, (&get, &vec![1]), |_, _, _| panic!("nothing was there"));
        let mut seen = 0;
        let read = Op::new(0, 2, AccessKind::Read, Some(1));
        read.finish(0, 2);
        shadow.touch(at, 8, (&read, &vec![2]), |_, _, _| seen += 1);
        assert_eq!(seen, 1);
        get.finish(0, 3);
        shadow.touch(at, 64, (&read, &vec![3]), |_, _, _| seen += 1);
        assert_eq!((seen, shadow.segments.len()), (1, 0));
    }
}
