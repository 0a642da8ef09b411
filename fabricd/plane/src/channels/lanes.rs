//! All channels being served.

use super::lane::Lane;
use super::outstanding::Outstanding;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Channels, and what they have posted.
#[derive(Default)]
pub(crate) struct Channels {
    pub(crate) lanes: Lanes,
    pub(crate) outstanding: Outstanding,
}

impl Channels {
    /// Serves a channel no more, nor any of its posts.
    pub(crate) fn close(&mut self, index: usize) -> Option<Lane> {
        self.outstanding.drop_lane(index);
        self.lanes.close(index)
    }
}

/// Lanes by their index, which stays the same while one is in use.
#[derive(Default)]
pub(crate) struct Lanes {
    lanes: Vec<Option<Lane>>,
    /// Indices of the lanes in use, where each is among them, and those of the others.
    active: Vec<usize>,
    active_at: Vec<usize>,
    free: BinaryHeap<Reverse<usize>>,
}

impl Lanes {
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&Lane> {
        self.lanes.get(index)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Lane> {
        self.lanes.get_mut(index)?.as_mut()
    }

    /// Indices of those in use: in the order in which they came, until one has gone.
    #[inline]
    pub(crate) fn active(&self) -> &[usize] {
        &self.active
    }

    /// Those in use, in the order of [`Lanes::active`].
    pub(crate) fn served(&self) -> impl Iterator<Item = &Lane> {
        self.active.iter().filter_map(|index| self.get(*index))
    }

    /// Those in use, by index.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().flatten()
    }

    /// Takes the lowest index that is free.
    pub(crate) fn open(&mut self, lane: Lane) -> usize {
        let index = self.free.pop().map_or(self.lanes.len(), |Reverse(index)| index);
        if index == self.lanes.len() {
            self.lanes.push(None);
            self.active_at.push(0);
        }
        self.lanes[index] = Some(lane);
        self.active_at[index] = self.active.len();
        self.active.push(index);
        index
    }

    fn close(&mut self, index: usize) -> Option<Lane> {
        let lane = self.lanes.get_mut(index)?.take();
        let at = self.active_at[index];
        if self.active.get(at) == Some(&index) {
            self.active.swap_remove(at);
            if let Some(&moved) = self.active.get(at) {
                self.active_at[moved] = at;
            }
            self.free.push(Reverse(index));
        }
        lane
    }
}
