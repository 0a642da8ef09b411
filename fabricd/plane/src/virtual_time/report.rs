//! What virtual time has come to, and what it went for, told to whoever asks.

use crate::plane::DataPlane;
use angara_fabric::{FlitTime, Link, Tick};
use angara_protocol::doubts::Doubted;
use angara_protocol::msg::{LinkUse, PIECE_NUMBERS, Routine, Times, TimesPiece, VirtualStatus};
use std::time::Instant;

impl DataPlane {
    /// Before the network goes on to `next`: what links have carried, if that is to be noted before then.
    pub(super) fn look_at_links(&mut self, next: Tick) {
        let notes = self.virtual_time.as_ref().and_then(|run| run.notes.as_ref());
        if notes.is_none_or(|notes| next < notes.links.next()) {
            return;
        }
        let carried: Vec<(Link, u64)> = self.links().map(|link| (link, self.carried(link))).collect();
        if let Some(notes) = self.virtual_time.as_mut().and_then(|run| run.notes.as_mut()) {
            notes.links.look(next, carried.into_iter());
        }
    }

    /// Flits that a link has carried.
    fn carried(&self, link: Link) -> u64 {
        self.fabric.link_counters(link).total().flits
    }

    /// Costs of routines of a PE, as it reports them.
    pub(crate) fn routines(&mut self, pe: usize, routines: Vec<Routine>) {
        if let Some(run) = &mut self.virtual_time {
            run.spent_of(pe).called(routines);
        }
    }

    /// Returns what virtual time went for so far.
    pub(crate) fn times(&self) -> Option<Times> {
        let run = self.virtual_time.as_ref()?;
        let FlitTime { num, den } = self.fabric.params().link_flit;
        let last = run.spent.iter().enumerate().max_by_key(|(pe, spent)| (spent.times.end, std::cmp::Reverse(*pe)));
        Some(Times {
            flit_ps: num as f64 / den as f64,
            call_ps: run.call_cost,
            bucket_ps: run.notes.as_ref().map_or(0, |notes| notes.links.width),
            pes: run.spent.iter().map(|spent| spent.times).collect(),
            path: last.zip(run.notes.as_ref()).map_or_else(Default::default, |((pe, spent), notes)| {
                notes.log.path(pe as u32, spent.times.end).into()
            }),
        })
    }

    /// Returns what is too much for that, a piece of it: PEs from number `from` on, and links behind them.
    pub(crate) fn times_piece(&self, from: u32) -> TimesPiece {
        let Some(run) = &self.virtual_time else { return TimesPiece::default() };
        let mut piece = TimesPiece::default();
        let (pes, mut numbers) = (run.spent.len(), 0);
        for (pe, spent) in run.spent.iter().enumerate().skip(from as usize) {
            if numbers > PIECE_NUMBERS {
                return TimesPiece { next: Some(pe as u32), ..piece };
            }
            let rows = piece.waits.len() + piece.routines.len();
            piece.waits.extend(spent.waits(pe as u32));
            piece.routines.extend(spent.routines(pe as u32));
            // A name is as long as several numbers.
            numbers += 8 * (piece.waits.len() + piece.routines.len() - rows);
        }
        let Some(notes) = &run.notes else { return piece };
        for (index, link) in self.links().enumerate().skip((from as usize).saturating_sub(pes)) {
            if numbers > PIECE_NUMBERS {
                return TimesPiece { next: Some((pes + index) as u32), ..piece };
            }
            let carried = self.carried(link);
            if carried > 0 {
                let flits = notes.links.of(link, carried);
                numbers += flits.len();
                piece.links.push(LinkUse { node: link.node, dir: link.dir, flits });
            }
        }
        piece
    }

    /// Returns what virtual time has come to, for whoever asks.
    pub(crate) fn virtual_status(&mut self) -> Option<VirtualStatus> {
        let has_ended = self.virtual_time.as_ref()?.begun.is_some() && self.active.is_empty() && !self.is_over();
        if has_ended {
            // Credits of trees may be on their way. How many events there were does not depend on who asks when.
            self.go_on();
        }
        let run = self.virtual_time.as_ref()?;
        let mut doubted = run.doubted.clone();
        doubted.extend((0..self.lanes.len()).filter_map(|index| self.doubted(index)));
        doubted.sort_by_key(|doubted| doubted.pe);
        let wall = run.begun.map(|begun| run.left.unwrap_or_else(Instant::now).saturating_duration_since(begun));
        Some(VirtualStatus {
            time_ps: run.spent.iter().map(|spent| spent.times.end).max().unwrap_or(0),
            stops: run.stops,
            events: self.fabric.events_handled(),
            wall_s: wall.unwrap_or_default().as_secs_f64(),
            doubted,
        })
    }

    /// What makes times of a lane's PE doubtful, as it says.
    pub(super) fn doubted(&self, index: usize) -> Option<Doubted> {
        let lane = self.lanes[index].as_ref()?;
        let clock = lane.memory.clock.as_ref()?;
        let (reasons, looks) = (clock.doubted(), clock.looks_most());
        (!reasons.is_none()).then(|| Doubted { pe: lane.pe as u32, reasons: reasons.bits(), looks })
    }
}
