//! EASY backfilling (D. Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995): jobs may overtake, but
//! not so that they delay the first one of the queue.

use super::fcfs::start_heads;
use super::{Desk, Scheduler};

/// The head of the queue has a reservation: the *shadow time*, at which enough nodes are free by the
/// estimates of running jobs. A later job starts at once if it ends before then by its estimate, or
/// takes only nodes that the head does not need then.
///
/// The shadow time counts nodes. If enough are free and the search finds no set, it is the next end
/// of a running job.
#[derive(Clone, Copy, Debug, Default)]
pub struct Easy;

impl Scheduler for Easy {
    fn name(&self) -> &'static str {
        "easy"
    }

    fn pass(&mut self, desk: &mut Desk) {
        start_heads(desk);
        let Some(&head) = desk.queue().first() else { return };
        let Some(mut shadow) = Shadow::of(desk.free(), desk.job(head).nodes, desk.running()) else { return };
        desk.promise(head, shadow.time);
        let mut place = 1;
        while let Some(&candidate) = desk.queue().get(place) {
            let job = desk.job(candidate);
            let before = desk.now() + job.estimate <= shadow.time;
            let room = if before { desk.free() } else { shadow.extra.min(desk.free()) };
            if job.nodes > room {
                place += 1;
                continue;
            }
            match desk.find(candidate) {
                // What a set holds beyond its nodes may be more than the head can spare.
                Some(set) if set.size() <= room => {
                    shadow.extra -= if before { 0 } else { set.size() };
                    desk.start(place, set);
                }
                _ => place += 1,
            }
        }
    }
}

/// Reservation of the head of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shadow {
    /// When enough nodes are free, by estimates.
    pub(crate) time: u64,
    /// Nodes that are free then beyond what the head needs.
    pub(crate) extra: usize,
}

impl Shadow {
    /// From free nodes now, what the head needs, and estimated ends; `None` if nothing runs.
    pub(crate) fn of(free: usize, needed: usize, running: impl Iterator<Item = (u64, usize)>) -> Option<Shadow> {
        let mut running = running.peekable();
        let mut then = free;
        while let Some((time, held)) = running.next() {
            then += held;
            let last_of_instant = running.peek().is_none_or(|next| next.0 > time);
            if last_of_instant && then >= needed {
                return Some(Shadow { time, extra: then - needed });
            }
        }
        None
    }
}
