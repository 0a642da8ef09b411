//! What virtual time has come to, and what it went for, told to whoever asks.

use super::standing::VirtualRun;
use super::turns::Turns;
use crate::channels::lane::Lane;
use crate::channels::lanes::Lanes;
use crate::observe::link_reports::links;
use angara_fabric::{Fabric, FlitTime, Link, Tick};
use angara_protocol::msg::{LinkUse, PIECE_NUMBERS, Times, TimesPiece, VirtualStatus};
use std::time::Instant;

impl Turns<'_> {
    /// Before the network goes on to `next`: what links have carried, if that is to be noted before then.
    pub(super) fn look_at_links(&mut self, next: Tick) {
        let notes = self.service.time.as_ref().and_then(|run| run.notes.as_ref());
        if notes.is_none_or(|notes| next < notes.links.next()) {
            return;
        }
        let carried: Vec<(Link, u64)> =
            links(self.service.fabric).map(|link| (link, carried(self.service.fabric, link))).collect();
        if let Some(notes) = self.service.time.as_mut().and_then(|run| run.notes.as_mut()) {
            notes.links.look(next, carried.into_iter());
        }
    }
}

/// Flits that a link has carried.
fn carried(fabric: &Fabric, link: Link) -> u64 {
    fabric.link_counters(link).total().flits
}

/// Parts of a data plane that know how time has passed.
pub(crate) struct TimeReport<'p> {
    pub(crate) run: &'p VirtualRun,
    pub(crate) fabric: &'p Fabric,
    pub(crate) lanes: &'p Lanes,
}

impl TimeReport<'_> {
    /// Returns what virtual time went for so far.
    pub(crate) fn times(&self) -> Times {
        let run = self.run;
        let FlitTime { num, den } = self.fabric.params().link_flit;
        let last = run.spent.iter().enumerate().max_by_key(|(pe, spent)| (spent.times.end, std::cmp::Reverse(*pe)));
        Times {
            flit_ps: num as f64 / den as f64,
            call_ps: run.call_cost,
            bucket_ps: run.notes.as_ref().map_or(0, |notes| notes.links.width),
            pes: run.spent.iter().map(|spent| spent.times).collect(),
            path: last.zip(run.notes.as_ref()).map_or_else(Default::default, |((pe, spent), notes)| {
                notes.log.path(pe as u32, spent.times.end).into()
            }),
        }
    }

    /// Returns what is too much for that, a piece of it: PEs from number `from` on, and links behind them.
    pub(crate) fn piece(&self, from: u32) -> TimesPiece {
        let run = self.run;
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
        for (index, link) in links(self.fabric).enumerate().skip((from as usize).saturating_sub(pes)) {
            if numbers > PIECE_NUMBERS {
                return TimesPiece { next: Some((pes + index) as u32), ..piece };
            }
            let carried = carried(self.fabric, link);
            if carried > 0 {
                let flits = notes.links.of(link, carried);
                numbers += flits.len();
                piece.links.push(LinkUse { node: link.node, dir: link.dir, flits });
            }
        }
        piece
    }

    /// Returns what virtual time has come to.
    pub(crate) fn status(&self) -> VirtualStatus {
        let run = self.run;
        let mut doubted = run.doubted.clone();
        doubted.extend(self.lanes.values().filter_map(Lane::doubted));
        doubted.sort_by_key(|doubted| doubted.pe);
        let wall = run.begun.map(|begun| run.left.unwrap_or_else(Instant::now).saturating_duration_since(begun));
        VirtualStatus {
            time_ps: run.spent.iter().map(|spent| spent.times.end).max().unwrap_or(0),
            stops: run.stops,
            events: self.fabric.events_handled(),
            wall_s: wall.unwrap_or_default().as_secs_f64(),
            doubted,
        }
    }
}
