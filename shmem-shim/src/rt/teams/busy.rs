//! Teams that threads of this PE are in collectives of.

use super::group::stream;
use crate::rt::mutex::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Default)]
pub(crate) struct Busy {
    /// A thread is in a collective of the team of all PEs, or of any where teams have no streams.
    world: AtomicBool,
    /// The other teams, by stream.
    others: Mutex<Vec<u64>>,
}

impl Busy {
    /// Enters a collective of the team with this stream. Returns whether no other thread is in one.
    pub(crate) fn enter(&self, stream: u64) -> bool {
        match stream {
            stream::WORLD => !self.world.swap(true, Ordering::Acquire),
            stream => {
                let mut others = lock(&self.others);
                let free = !others.contains(&stream);
                if free {
                    others.push(stream);
                }
                free
            }
        }
    }

    /// Leaves the collective that [`Busy::enter`] has let this thread into.
    pub(crate) fn leave(&self, stream: u64) {
        match stream {
            stream::WORLD => self.world.store(false, Ordering::Release),
            stream => lock(&self.others).retain(|other| *other != stream),
        }
    }
}
