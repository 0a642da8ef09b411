//! Groups of PEs, and the names under which their collectives talk.
//!
//! A group is `start + i * stride` for `i < size` in PEs of the job; a strided part of a strided part is one again, so
//! splitting needs no communication and no memory at other PEs.

use crate::ctypes::int;

/// Members of a group: `size` of them from `start` on, `stride` apart.
#[derive(Clone, Copy)]
pub(crate) struct Triplet {
    pub(crate) start: int,
    pub(crate) stride: int,
    pub(crate) size: int,
}

/// Some PEs of the job, numbered from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Group {
    pub(crate) start: usize,
    pub(crate) stride: isize,
    pub(crate) size: usize,
    /// Name under which its collectives talk ([`stream`]).
    pub(crate) stream: u64,
}

impl Group {
    /// Returns the group of all `n` PEs of a job.
    pub(crate) fn all(n: usize) -> Group {
        Group { start: 0, stride: 1, size: n, stream: stream::WORLD }
    }
    /// Returns PE `i` of the group as a PE of the job.
    #[inline]
    pub(crate) fn world(&self, i: usize) -> usize {
        debug_assert!(i < self.size);
        self.start.wrapping_add_signed(self.stride.wrapping_mul(i as isize))
    }
    /// As [`Group::world`], for a number that may not be a PE of the group.
    pub(crate) fn pe(&self, i: int) -> Option<usize> {
        usize::try_from(i).ok().filter(|i| *i < self.size).map(|i| self.world(i))
    }
    /// Returns the number in the group of a PE of the job.
    pub(crate) fn index(&self, world: usize) -> Option<usize> {
        if self.size == 1 || self.stride == 0 {
            return (world == self.start).then_some(0);
        }
        let distance = world as isize - self.start as isize;
        let i = distance / self.stride;
        (distance % self.stride == 0 && i >= 0 && (i as usize) < self.size).then_some(i as usize)
    }
    /// Returns the group of these PEs, if they are evenly spaced.
    pub(crate) fn of(pes: &[usize], stream: u64) -> Option<Group> {
        let start = *pes.first()?;
        let stride = pes.get(1).map_or(1, |second| *second as isize - start as isize);
        let group = Group { start, stride, size: pes.len(), stream };
        pes.iter().enumerate().all(|(i, pe)| group.world(i) == *pe).then_some(group)
    }
    /// Returns the group of some of its members, if all of them exist.
    pub(crate) fn part(&self, members: Triplet) -> Option<Group> {
        let Triplet { start, stride, size } = members;
        let (first, count) = (self.pe(start)?, usize::try_from(size).ok().filter(|n| *n > 0)?);
        let last = start as i64 + (count as i64 - 1) * stride as i64;
        self.pe(int::try_from(last).ok()?)?;
        if stride == 0 && count > 1 {
            return None;
        }
        Some(Group { start: first, stride: self.stride * stride as isize, size: count, stream: self.stream })
    }
    /// Returns "the job has" or "the team has".
    pub(crate) fn noun(&self, n: usize) -> &'static str {
        if self.size == n { "the job has" } else { "the team has" }
    }
}

/// Names of teams, which are agreed on when a team is made and never used again.
pub(crate) mod stream {
    /// Name of the team of all PEs, which has words of its own.
    pub(crate) const WORLD: u64 = 0;
    /// Name of `SHMEM_TEAM_SHARED`.
    pub(crate) const SHARED: u64 = 1;
    /// Name under which all active sets talk.
    pub(crate) const ACTIVE_SETS: u64 = 2;
    /// Bits of a name that count the teams whose first PE is the same; those above are that PE, plus one.
    const COUNT_BITS: u32 = 40;

    /// Returns name number `count` of those that PE `first` gives.
    pub(crate) fn named_by(first: usize, count: u64) -> u64 {
        (first as u64 + 1) << COUNT_BITS | count
    }

    /// Returns a name as a reader knows it: the first PE of the team's parent, and the number of the team among those it
    /// has named.
    pub(crate) fn shown(team: u64) -> String {
        match team {
            WORLD => "SHMEM_TEAM_WORLD".into(),
            SHARED => "SHMEM_TEAM_SHARED".into(),
            ACTIVE_SETS => "active set".into(),
            name => format!("{}.{}", (name >> COUNT_BITS).saturating_sub(1), name & ((1 << COUNT_BITS) - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_parts_number_their_pes() {
        let part = |of: Group, start, stride, size| of.part(Triplet { start, stride, size });
        let world = Group { start: 0, stride: 1, size: 12, stream: 0 };
        let odd = part(world, 1, 2, 6).unwrap();
        let back = part(odd, 5, -2, 3).unwrap();
        assert_eq!((0..3).map(|i| back.world(i)).collect::<Vec<_>>(), [11, 7, 3]);
        assert_eq!((back.index(7), back.index(5), back.index(0)), (Some(1), None, None));
        assert_eq!(part(world, 8, 3, 3), None);
        assert_eq!(part(world, 0, 0, 2), None);
        assert_eq!(part(odd, 2, 0, 1).unwrap().index(5), Some(0));
        assert!(part(world, -1, 1, 1).is_none() && part(world, 0, 1, 0).is_none());
        assert!(part(world, 0, i32::MAX, i32::MAX).is_none());
    }

    #[test]
    fn pes_of_a_host_are_a_group_if_they_are_evenly_spaced() {
        assert_eq!(Group::of(&[2, 3, 4], 0), Some(Group { start: 2, stride: 1, size: 3, stream: 0 }));
        assert_eq!(Group::of(&[1, 4, 7], 0), Some(Group { start: 1, stride: 3, size: 3, stream: 0 }));
        assert_eq!(Group::of(&[5], 1), Some(Group { start: 5, stride: 1, size: 1, stream: 1 }));
        assert_eq!((Group::of(&[], 0), Group::of(&[0, 1, 3], 0)), (None, None));
    }
}
