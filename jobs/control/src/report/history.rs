//! The history of a run: what its links carried, by time, for the page to play.
//!
//! A daemon has taken it on the wall, or the loads of links by virtual time are it. It is as large as a page can hold.

use angara_abi::FLIT_BYTES;
use angara_net::Link;
use angara_net::fault::{Failing, Fault};
use angara_net::torus::Shape;
use angara_protocol::msg::{Change, Frame, HistoryPiece, LinkUse, Span, Step, Times};
use serde::{Deserialize, Serialize};

/// Most frames, and most steps and changes, of a file.
const FRAMES_MAX: usize = 4_000;
/// Most rows of all frames: twice as many numbers are what a page keeps.
const ROWS_MAX: usize = 6_000_000;
/// Latest second, about thirty years.
const SECONDS_MAX: f64 = 1e9;

/// What has been, as `/api/past` of a daemon has it; seconds since the job began.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Default)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// Picoseconds of a flit on a link.
    pub(super) flit_ps: f64,
    /// What each link carried in a while.
    pub(super) frames: Vec<Frame>,
    /// What all links carried in a while.
    pub(super) steps: Vec<Step>,
    /// Changes of faults.
    pub(super) changes: Vec<Change>,
}

impl History {
    /// Adds a piece of what a daemon remembers; where the next one begins.
    pub fn add(&mut self, piece: HistoryPiece) -> Option<u64> {
        let HistoryPiece { flit_ps, began, frames, steps, changes, next } = piece;
        let since = |second: f64| (second - began).max(0.0);
        let span = |span: Span| Span { from: since(span.from), to: since(span.to), ..span };
        self.flit_ps = flit_ps;
        for frame in frames {
            let span = span(frame.span);
            // Those that the daemon has meanwhile joined with this one are in it.
            while self.frames.pop_if(|last| last.span.to > span.from).is_some() {}
            let id = self.frames.len() as u64 + 1;
            self.frames.push(Frame { id, span, ..frame });
        }
        self.steps.extend(steps.into_iter().map(|step| Step { span: span(step.span), top: Vec::new(), ..step }));
        for change in changes.into_iter().map(|change| Change { t: since(change.t), ..change }) {
            // Of those before the job the last one holds.
            if change.t == 0.0 {
                self.changes.clear();
            }
            self.changes.push(change);
        }
        next
    }

    /// Of a run in virtual time, by the loads of links and by the faults that it began with.
    pub fn in_virtual_time(shape: Shape, times: &Times, links: &[LinkUse], faults: &[String]) -> History {
        let mut history = History { flit_ps: times.flit_ps, changes: changes(shape, faults), ..History::default() };
        let mut links: Vec<_> =
            links.iter().map(|of| (Link { node: of.node, dir: of.dir }.index() as u32, &of.flits)).collect();
        links.sort_unstable_by_key(|(link, _)| *link);
        let end = times.pes.iter().map(|pe| pe.end).max().unwrap_or(0);
        for bucket in 0..links.iter().map(|(_, flits)| flits.len()).max().unwrap_or(0) {
            let carried =
                |flits: &[u64]| flits.get(bucket).map_or(0, |flits| u32::try_from(*flits).unwrap_or(u32::MAX));
            let rows: Vec<_> = links.iter().map(|(link, flits)| (*link, carried(flits))).collect();
            let rows: Vec<_> = rows.into_iter().filter(|(_, flits)| *flits > 0).collect();
            if rows.is_empty() {
                continue;
            }
            let from = bucket as u64 * times.bucket_ps;
            let to = from + times.bucket_ps;
            // The last one ends with the run.
            let to = if (from + 1..to).contains(&end) { end } else { to };
            let span = Span { from: from as f64 / 1e12, to: to as f64 / 1e12, ps: Some((from, to)) };
            let flits = rows.iter().map(|(_, flits)| u64::from(*flits)).sum();
            history.steps.push(Step { span, bytes: FLIT_BYTES as u64 * flits, flits, top: Vec::new() });
            history.frames.push(Frame { id: history.frames.len() as u64 + 1, span, links: rows });
        }
        history
    }

    /// Tells what in a file cannot be: the place, and why.
    pub(super) fn check(&self, shape: Shape) -> Result<(), String> {
        if !(self.flit_ps > 0.0 && self.flit_ps <= 1e12) {
            return Err(format!("history.flit_ps: {:?} is not the time of a flit in picoseconds", self.flit_ps));
        }
        let has = [("frames", self.frames.len()), ("steps", self.steps.len()), ("changes", self.changes.len())];
        if let Some((name, many)) = has.into_iter().find(|(_, many)| *many > FRAMES_MAX) {
            return Err(format!("history.{name}: {many} of them, at most {FRAMES_MAX} can be shown"));
        }
        let rows: usize = self.frames.iter().map(|frame| frame.links.len()).sum();
        if rows > ROWS_MAX {
            return Err(format!("history.frames: {rows} rows of links, at most {ROWS_MAX} can be shown"));
        }
        check_spans("frames", self.frames.iter().map(|frame| &frame.span))?;
        check_spans("steps", self.steps.iter().map(|step| &step.span))?;
        for (i, frame) in self.frames.iter().enumerate() {
            let at = format!("history.frames[{i}]");
            if i > 0 && frame.id <= self.frames[i - 1].id {
                return Err(format!("{at}.id: {} does not come after {}", frame.id, self.frames[i - 1].id));
            }
            for (j, (link, _)) in frame.links.iter().enumerate() {
                check_link(shape, &format!("{at}.links[{j}]"), *link)?;
                if j > 0 && *link <= frame.links[j - 1].0 {
                    return Err(format!("{at}.links[{j}]: link {link} does not come after {}", frame.links[j - 1].0));
                }
            }
        }
        let mut last = 0.0;
        for (i, change) in self.changes.iter().enumerate() {
            if !(change.t >= last && change.t <= SECONDS_MAX) {
                return Err(format!("history.changes[{i}].t: {:?} s does not come after {last:?} s", change.t));
            }
            last = change.t;
            for (j, link) in change.down.iter().enumerate() {
                check_link(shape, &format!("history.changes[{i}].down[{j}]"), *link)?;
            }
        }
        Ok(())
    }
}

fn check_link(shape: Shape, at: &str, link: u32) -> Result<(), String> {
    match Link::from_index(link as usize).exists(&shape) {
        true => Ok(()),
        false => Err(format!("{at}: {shape} has no link {link}")),
    }
}

/// Times go on, of the clock on the wall and of the network.
fn check_spans<'s>(name: &str, spans: impl Iterator<Item = &'s Span>) -> Result<(), String> {
    let (mut second, mut ps) = (0.0, 0);
    for (i, span) in spans.enumerate() {
        let Span { from, to, .. } = *span;
        if !(from >= second && to >= from && to <= SECONDS_MAX) {
            return Err(format!("history.{name}[{i}]: from {from:?} s to {to:?} s does not come after {second:?} s"));
        }
        second = to;
        if let Some((from, to)) = span.ps {
            if from < ps || to < from {
                return Err(format!("history.{name}[{i}].ps: from {from} to {to} does not come after {ps}"));
            }
            ps = to;
        }
    }
    Ok(())
}

/// When which faults of a run begin in virtual time.
fn changes(shape: Shape, faults: &[String]) -> Vec<Change> {
    let mut faults: Vec<Fault> = faults.iter().filter_map(|text| Fault::parse(text, &shape).ok()).collect();
    faults.sort_by_key(|fault| fault.at);
    let change = |i: usize| {
        let so_far = &faults[..=i];
        let down = so_far.iter().filter(|fault| fault.failing == Failing::Down);
        let mut down: Vec<u32> = down
            .flat_map(|fault| fault.site.links(&shape))
            .flat_map(|link| [Some(link), link.reverse(&shape)])
            .flatten()
            .map(|link| link.index() as u32)
            .collect();
        down.sort_unstable();
        down.dedup();
        let names = so_far.iter().map(|fault| Fault { at: None, ..*fault }.show(&shape)).collect();
        Change { t: faults[i].at.unwrap_or(0) as f64 / 1e12, faults: names, down }
    };
    (0..faults.len()).map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_net::torus::Direction;
    use angara_protocol::msg::PeTimes;

    fn shape() -> Shape {
        "2x2".parse().expect("a shape")
    }

    fn good() -> History {
        let times = Times {
            flit_ps: 2000.0,
            bucket_ps: 1000,
            pes: vec![PeTimes { end: 3500, ..PeTimes::default() }],
            ..Times::default()
        };
        let link = |node, flits: &[u64]| LinkUse { node, dir: Direction::ALL[0], flits: flits.to_vec() };
        let links = [link(1, &[0, 0, 7, 1]), link(0, &[5, 0, 2])];
        History::in_virtual_time(shape(), &times, &links, &["link 0,0 +X down @2ns".into(), "node 1,0 drop=1%".into()])
    }

    #[test]
    fn loads_by_virtual_time_are_pictures_and_silence_is_none() {
        let history = good();
        assert_eq!(history.check(shape()), Ok(()));
        let frames: Vec<_> = history.frames.iter().map(|frame| (frame.span.ps, frame.links.clone())).collect();
        let expected = [
            (Some((0, 1000)), vec![(0, 5)]),
            (Some((2000, 3000)), vec![(0, 2), (8, 7)]),
            (Some((3000, 3500)), vec![(8, 1)]),
        ];
        assert_eq!(frames, expected);
        assert_eq!(history.steps.iter().map(|step| step.flits).collect::<Vec<_>>(), [5, 9, 1]);
        let changes: Vec<_> = history.changes.iter().map(|change| (change.t, !change.down.is_empty())).collect();
        assert_eq!(changes, [(0.0, false), (2e-9, true)]);
    }

    #[test]
    fn what_a_daemon_remembers_is_counted_from_the_begin_of_the_job() {
        let span = |from, to| Span { from, to, ps: None };
        let frame = |id, from, to| Frame { id, span: span(from, to), links: vec![(0, 1)] };
        let change = |t, fault: &str| Change { t, faults: vec![fault.into()], down: vec![] };
        let mut history = History::default();
        let piece = HistoryPiece {
            flit_ps: 2000.0,
            began: 10.0,
            frames: vec![frame(7, 9.0, 11.0), frame(8, 11.0, 12.0)],
            steps: vec![Step { span: span(9.5, 11.0), bytes: 1, flits: 1, top: vec![(0, 1)] }],
            changes: vec![change(1.0, "a"), change(3.0, "b"), change(11.0, "c")],
            next: Some(8),
        };
        assert_eq!(history.add(piece), Some(8));
        let rest =
            HistoryPiece { frames: vec![frame(9, 11.0, 13.0)], began: 10.0, flit_ps: 2000.0, ..Default::default() };
        assert_eq!(history.add(rest), None);
        assert_eq!(history.check(shape()), Ok(()));
        let spans: Vec<_> = history.frames.iter().map(|frame| (frame.id, frame.span.from, frame.span.to)).collect();
        assert_eq!(spans, [(1, 0.0, 1.0), (2, 1.0, 3.0)]);
        assert_eq!(history.changes.iter().map(|change| change.t).collect::<Vec<_>>(), [0.0, 1.0]);
    }

    #[test]
    fn nonsense_is_named_with_its_place() {
        type Spoil = fn(&mut History);
        let cases: [(&str, Spoil); 11] = [
            ("history.flit_ps: -1", |h| h.flit_ps = -1.0),
            ("history.flit_ps: NaN", |h| h.flit_ps = f64::NAN),
            ("history.frames[1]: from", |h| h.frames[1].span.from = -1.0),
            ("history.frames[2]: from", |h| h.frames[2].span.to = 1e300),
            ("history.frames[2].ps: from", |h| h.frames[2].span.ps = Some((5, 4))),
            ("history.frames[1].links[1]: 2x2 has no link 4000000000", |h| h.frames[1].links[1].0 = 4_000_000_000),
            ("history.frames[1].links[1]: link 0 does not come after 0", |h| h.frames[1].links[1].0 = 0),
            ("history.frames[1].id: 1 does not", |h| h.frames[1].id = 1),
            ("history.steps[0]: from", |h| h.steps[0].span.from = f64::INFINITY),
            ("history.changes[1].down[0]: 2x2 has no link 3", |h| h.changes[1].down = vec![3]),
            ("history.steps: 4001 of them", |h| h.steps = vec![h.steps[0].clone(); 4001]),
        ];
        for (place, spoil) in cases {
            let mut history = good();
            spoil(&mut history);
            let why = history.check(shape()).expect_err(place);
            assert!(why.contains(place), "{place}: {why}");
        }
    }
}
