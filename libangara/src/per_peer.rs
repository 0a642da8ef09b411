//! Something for each PE of a job. A job may have many PEs and one of them talk to a few: memory is taken for those it talks to,
//! in groups of neighbours.

use std::sync::OnceLock;

/// PEs of a group.
const GROUP: usize = 64;

/// A `T` for each PE, in its default state before anybody asks for it.
pub struct PerPeer<T>(Box<[OnceLock<Box<[T]>>]>);

impl<T: Default> PerPeer<T> {
    /// For `pes` PEs.
    pub fn new(pes: usize) -> PerPeer<T> {
        PerPeer((0..pes.div_ceil(GROUP)).map(|_| OnceLock::new()).collect())
    }

    /// That of `pe`, if somebody has asked for it or a neighbour's.
    #[inline]
    pub fn get(&self, pe: usize) -> Option<&T> {
        self.0[pe / GROUP].get().map(|group| &group[pe % GROUP])
    }

    /// That of `pe`.
    ///
    /// # Panics
    /// If there is no such PE, but for the last group.
    #[inline]
    pub fn of(&self, pe: usize) -> &T {
        &self.0[pe / GROUP].get_or_init(fresh)[pe % GROUP]
    }

    /// That of `pe`, to be changed.
    ///
    /// # Panics
    /// As [`PerPeer::of`].
    #[inline]
    pub fn of_mut(&mut self, pe: usize) -> &mut T {
        let group = &mut self.0[pe / GROUP];
        group.get_or_init(fresh);
        &mut group.get_mut().expect("made above")[pe % GROUP]
    }
}

fn fresh<T: Default>() -> Box<[T]> {
    (0..GROUP).map(|_| T::default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_taken_for_neighbours_of_those_asked_for() {
        let mut words = PerPeer::<u32>::new(130);
        *words.of_mut(129) = 7;
        assert_eq!((words.get(129), words.get(128), words.get(0)), (Some(&7), Some(&0), None));
        assert_eq!(*words.of(0), 0);
        assert_eq!((words.get(63), words.get(64)), (Some(&0), None));
    }
}
