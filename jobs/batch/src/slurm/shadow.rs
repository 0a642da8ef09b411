//! When enough nodes are free for a job, and how many more.

/// Reservation of the first job in numbers of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shadow {
    /// When enough nodes are free, by estimates.
    pub(super) time: u64,
    /// Nodes that are free then beyond what the head needs.
    pub(super) extra: usize,
}

impl Shadow {
    /// From free nodes now, what the head needs, and estimated ends; `None` if nothing runs.
    pub(super) fn of(free: usize, needed: usize, running: impl Iterator<Item = (u64, usize)>) -> Option<Shadow> {
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
