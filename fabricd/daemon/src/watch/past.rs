//! What samples have shown: a bounded past, so that a page that opens later has one.
//!
//! Counters of samples become steps: how much all links have carried since the step before, and which links carried most.
//! Steps of the last minute are kept as they come, older ones in pieces of 5 s, for an hour. Frames have every link that has
//! carried something. Of those there are fewer in a large network: the oldest ones are joined as soon as all take more than
//! [`BUDGET`]. Time in which nothing happens takes no room, so a run that has ended remains.

use super::sample::Sample;
use angara_net::torus::NodeId;
use angara_protocol::msg::{Change, Frame, JobStatus, Span, Step};
use angara_protocol::print::plain_line;
use serde::Serialize;
use std::collections::VecDeque;

/// Steps that are kept as they come: a minute of them at ten a second.
const FINE: usize = 600;
/// Seconds of an older step.
const COARSE_S: f64 = 5.0;
/// Older steps: an hour of them.
const COARSE: usize = 720;
/// Links of a step.
pub(crate) const TOP: usize = 16;
/// Bytes of frames.
const BUDGET: usize = 40 << 20;
/// A minute of frames is to take no more.
const MINUTE: usize = 16 << 20;
/// Bytes of a link in a frame.
const ROW: usize = size_of::<(u32, u32)>();
/// Rows of frames in an answer, about: a few megabytes of text.
const ROWS: usize = 200_000;
/// Jobs, of those that have ended.
const JOBS: usize = 16;
/// Bytes of their placements.
const PLACEMENTS: usize = 4 << 20;
/// Changes of faults.
const CHANGES: usize = 256;

/// A job that was seen.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Seen {
    pub(crate) job: u64,
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) pes: u32,
    /// Seconds since the daemon's start.
    pub(crate) from: f64,
    /// The same; `None` while it runs.
    pub(crate) to: Option<f64>,
    /// The node of each PE, which is asked for.
    #[serde(skip)]
    pub(crate) placement: Vec<NodeId>,
}

/// Sums since the last frame or step.
#[derive(Default)]
struct Counted {
    flits: Vec<u64>,
    bytes: u64,
    at: f64,
    ps: Option<u64>,
}

/// All of it.
#[derive(Default)]
pub(crate) struct Past {
    coarse: VecDeque<Step>,
    fine: VecDeque<Step>,
    frames: VecDeque<Frame>,
    /// Bytes of frames.
    held: usize,
    ids: u64,
    /// Seconds between two frames.
    spacing: f64,
    step: Counted,
    frame: Counted,
    pub(crate) jobs: VecDeque<Seen>,
    pub(crate) changes: VecDeque<Change>,
}

impl Past {
    /// Takes a sample in.
    pub(crate) fn take(&mut self, sample: &Sample) {
        let (now, ps) = (sample.at.as_secs_f64(), sample.plane.time_ps);
        let (mut flits, mut bytes) = (Vec::with_capacity(sample.links.len()), 0);
        for load in (0..sample.links.len()).map(|index| sample.figures(index).load) {
            flits.push(load.flits);
            bytes += load.bytes;
        }
        self.note_faults(now, sample);
        sample.jobs.iter().for_each(|job| self.note_job(now, job));
        if self.step.flits.len() != flits.len() {
            // The first one: what was before is no rate.
            self.step = Counted { flits: flits.clone(), bytes, at: now, ps };
            self.frame = Counted { flits, bytes, at: now, ps };
            return;
        }
        let carried = since(&self.step.flits, &flits);
        if carried.is_empty() {
            // Silence takes no room: the next step begins where something begins.
            (self.step.at, self.step.ps) = (now, ps);
        } else {
            let total = carried.iter().map(|(_, flits)| u64::from(*flits)).sum();
            let step = Step {
                span: self.step.until(now, ps),
                bytes: bytes.saturating_sub(self.step.bytes),
                flits: total,
                top: top(carried.clone()),
            };
            self.add_step(step);
            self.step = Counted { flits: flits.clone(), bytes, at: now, ps };
        }
        // Not looked at before it can be due.
        if !carried.is_empty() && now - self.frame.at < self.spacing / 2.0 {
            return;
        }
        self.take_frame((now, ps), (flits, bytes), carried.is_empty());
    }

    /// The last frame ends with this sample, the latest there is.
    pub(crate) fn complete(&mut self, sample: &Sample) {
        if self.frame.flits.len() == self.step.flits.len() {
            let (flits, bytes) = (self.step.flits.clone(), self.step.bytes);
            self.take_frame((sample.at.as_secs_f64(), sample.plane.time_ps), (flits, bytes), true);
        }
    }

    /// What comes next is the first one: what was before is nobody's.
    pub(crate) fn begin(&mut self) {
        (self.step, self.frame) = Default::default();
    }

    fn take_frame(&mut self, (now, ps): (f64, Option<u64>), (flits, bytes): (Vec<u64>, u64), over: bool) {
        let moved = since(&self.frame.flits, &flits);
        self.spacing = 60.0 * (moved.len() * ROW) as f64 / MINUTE as f64;
        if moved.is_empty() {
            (self.frame.at, self.frame.ps) = (now, ps);
        } else if over || now - self.frame.at >= self.spacing {
            let span = self.frame.until(now, ps);
            self.ids += 1;
            self.add_frame(Frame { id: self.ids, span, links: moved });
            self.frame = Counted { flits, bytes, at: now, ps };
        }
    }

    fn add_step(&mut self, step: Step) {
        self.fine.push_back(step);
        if self.fine.len() <= FINE {
            return;
        }
        let Some(oldest) = self.fine.pop_front() else { return };
        match self.coarse.back_mut() {
            Some(last) if oldest.span.to - last.span.from <= COARSE_S => join_steps(last, oldest),
            _ => self.coarse.push_back(oldest),
        }
        if self.coarse.len() > COARSE {
            self.coarse.pop_front();
        }
    }

    fn add_frame(&mut self, frame: Frame) {
        self.held += bytes(&frame);
        self.frames.push_back(frame);
        // Two neighbours become one; the oldest pair that is shorter than what follows it, so that the past gets coarser
        // with its age.
        while self.frames.len() > 2 && (self.held > BUDGET || self.frames.len() > FINE + COARSE) {
            let lasts = |i: usize| self.frames[i].span.to - self.frames[i].span.from;
            let pairs = self.frames.len() - 1;
            let at = (0..pairs / 2)
                .find(|i| lasts(*i) + lasts(i + 1) <= COARSE_S)
                .unwrap_or_else(|| (0..pairs).min_by(|a, b| lasts(*a).total_cmp(&lasts(*b))).unwrap_or(0));
            let Some(later) = self.frames.remove(at + 1) else { return };
            let earlier = &mut self.frames[at];
            self.held -= bytes(earlier) + bytes(&later);
            join_frames(earlier, later);
            self.held += bytes(earlier);
            // One that takes everything alone goes.
            if self.frames.len() <= 3 && self.held > BUDGET {
                self.held -= self.frames.pop_front().map_or(0, |frame| bytes(&frame));
            }
        }
    }

    fn note_faults(&mut self, t: f64, sample: &Sample) {
        let faults = &sample.plane.faults;
        let last = self.changes.back();
        if last.map_or(faults.is_empty(), |last| last.faults == *faults) {
            return;
        }
        let links = (0..).zip(&sample.links);
        let down = links.filter(|(_, link)| link.here && !link.up).map(|(index, _)| index).collect();
        self.changes.push_back(Change { t, faults: faults.iter().map(|fault| plain_line(fault)).collect(), down });
        if self.changes.len() > CHANGES {
            self.changes.pop_front();
        }
    }

    /// A job is there.
    pub(crate) fn begin_job(&mut self, job: Seen) {
        self.jobs.push_back(job);
        let held =
            |jobs: &VecDeque<Seen>| jobs.iter().map(|job| job.placement.len() * size_of::<NodeId>()).sum::<usize>();
        while self.jobs.len() > JOBS || held(&self.jobs) > PLACEMENTS {
            // Those that run are told of elsewhere, too.
            let ended = self.jobs.iter().position(|job| job.to.is_some()).unwrap_or(0);
            self.jobs.remove(ended);
        }
    }

    /// A job is over for whoever looks when none of its PEs is there any more.
    fn note_job(&mut self, t: f64, status: &JobStatus) {
        let number = status.job.number().into();
        if has_ended(status) {
            return self.end_job(number, t);
        }
        if let Some(job) = self.jobs.iter_mut().rev().find(|job| job.job == number) {
            job.to = None;
        }
    }

    /// A job has ended.
    pub(crate) fn end_job(&mut self, number: u64, t: f64) {
        if let Some(job) = self.jobs.iter_mut().rev().find(|job| job.job == number && job.to.is_none()) {
            job.to = Some(t);
        }
    }

    /// Steps, the oldest first.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.coarse.iter().chain(&self.fine)
    }

    /// Frames after the one of this number, the oldest first.
    pub(crate) fn frames(&self, after: u64) -> impl Iterator<Item = &Frame> {
        self.frames.iter().skip_while(move |frame| frame.id <= after)
    }

    /// Frames after the one of this number, as many as an answer has room for, and whether there are others.
    pub(crate) fn piece(&self, after: u64) -> (Vec<&Frame>, bool) {
        let mut rows = 0;
        let mut room = |links: usize| {
            let first = rows == 0;
            rows += links;
            first || rows <= ROWS
        };
        let frames: Vec<_> = self.frames(after).take_while(|frame| room(frame.links.len())).collect();
        let last = frames.last().map_or(after, |frame| frame.id);
        (frames, self.frames(last).next().is_some())
    }

    /// Bytes that frames take.
    pub(crate) fn held(&self) -> usize {
        self.held
    }
}

/// All PEs that ever came have gone.
pub(crate) fn has_ended(job: &JobStatus) -> bool {
    job.came > 0 && job.attached == 0
}

impl Counted {
    fn until(&self, to: f64, ps: Option<u64>) -> Span {
        Span { from: self.at, to, ps: self.ps.zip(ps) }
    }
}

fn join_steps(step: &mut Step, later: Step) {
    step.span.join(later.span);
    step.bytes += later.bytes;
    step.flits += later.flits;
    step.top = top(sum(&step.top, &later.top));
}

fn join_frames(frame: &mut Frame, later: Frame) {
    frame.id = later.id;
    frame.span.join(later.span);
    frame.links = sum(&frame.links, &later.links);
}

/// Bytes that a frame takes.
fn bytes(frame: &Frame) -> usize {
    frame.links.capacity() * ROW + size_of::<Frame>()
}

/// Flits of each link that has carried some between two readings. One that counts from zero again has carried nothing.
fn since(last: &[u64], now: &[u64]) -> Vec<(u32, u32)> {
    let each = (0..).zip(last.iter().zip(now)).filter(|(_, (last, now))| now > last);
    let mut rows: Vec<_> =
        each.map(|(link, (last, now))| (link, u32::try_from(now - last).unwrap_or(u32::MAX))).collect();
    rows.shrink_to_fit();
    rows
}

/// Of two lists by link, the sums.
fn sum(one: &[(u32, u32)], other: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut rows: Vec<(u32, u32)> = one.iter().chain(other).copied().collect();
    rows.sort_unstable_by_key(|(link, _)| *link);
    rows.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            kept.1 = kept.1.saturating_add(later.1);
        }
        same
    });
    rows.shrink_to_fit();
    rows
}

/// Those that carried most, first.
fn top(mut rows: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    let order = |(link, flits): &(u32, u32)| (std::cmp::Reverse(*flits), *link);
    if rows.len() > TOP {
        rows.select_nth_unstable_by_key(TOP, order);
        rows.truncate(TOP);
    }
    rows.sort_unstable_by_key(order);
    rows.shrink_to_fit();
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_abi::account::Load;
    use angara_plane::observe::figures::LinkFigures;
    use std::time::Duration;

    /// At `tenths` of a second each of some links has carried so many flits.
    fn sample(links: usize, tenths: u64, flits: u64) -> Sample {
        let load = Load { packets: 1, flits, bytes: 8 * flits };
        let link = LinkFigures { here: true, up: true, load, ..LinkFigures::default() };
        Sample { at: Duration::from_millis(100 * tenths), links: vec![link; links], ..Sample::default() }
    }

    fn carried(past: &Past) -> u64 {
        past.frames(0).flat_map(|frame| &frame.links).map(|(_, flits)| u64::from(*flits)).sum()
    }

    #[test]
    fn a_run_that_has_ended_remains_however_long_nothing_happens() {
        let mut past = Past::default();
        (0..20).for_each(|i| past.take(&sample(8, i, 10 * i)));
        (20..50_000).for_each(|i| past.take(&sample(8, i, 190)));
        let steps: Vec<_> = past.steps().collect();
        assert_eq!(steps.len(), 19);
        assert!(steps.iter().all(|step| step.flits == 80 && step.bytes == 640 && step.top.len() == 8));
        assert_eq!(carried(&past), 8 * 190);
    }

    #[test]
    fn what_is_old_is_kept_in_larger_pieces_and_no_flit_is_lost() {
        let mut past = Past::default();
        (0..10_000).for_each(|i| past.take(&sample(8, i, i)));
        let (steps, flits) = past.steps().fold((0, 0), |(n, sum), step| (n + 1, sum + step.flits));
        assert!(steps < FINE + 200, "{steps} steps");
        assert_eq!((flits, carried(&past)), (8 * 9_999, 8 * 9_999));
        let ids: Vec<u64> = past.frames(0).map(|frame| frame.id).collect();
        assert!(ids.len() <= FINE + COARSE && ids.is_sorted(), "{ids:?}");
        assert_eq!(past.frames(ids[ids.len() - 3]).count(), 2);
    }

    #[test]
    fn the_largest_network_stays_within_the_budget() {
        let mut past = Past::default();
        (0..60).for_each(|i| past.take(&sample(8 * 32_768, 80 * i, i)));
        assert!(past.held() <= BUDGET, "{} bytes", past.held());
        assert!(past.frames(0).count() > 8);
        assert_eq!((past.steps().count(), carried(&past)), (59, 8 * 32_768 * 59));
    }

    #[test]
    fn what_a_job_begins_with_is_not_its_own_and_what_it_ends_with_is() {
        let mut past = Past::default();
        (0..5).for_each(|i| past.take(&sample(8, i, 10 * i)));
        past.complete(&sample(8, 4, 40));
        assert_eq!(carried(&past), 8 * 40);
        // Nobody looks for a while.
        past.begin();
        past.take(&sample(8, 90, 700));
        past.take(&sample(8, 91, 710));
        past.complete(&sample(8, 91, 710));
        past.complete(&sample(8, 92, 710));
        assert_eq!(carried(&past), 8 * 50);
        let (frames, more) = past.piece(0);
        assert!(!more && frames.iter().all(|frame| frame.span.to > frame.span.from), "{frames:?}");
    }

    #[test]
    fn jobs_that_have_ended_are_remembered_up_to_a_bound() {
        let mut past = Past::default();
        for job in 0..100 {
            let seen = Seen { job, name: "a".into(), uid: 1, pes: 1, from: 0.0, to: None, placement: vec![0; 32_768] };
            past.begin_job(seen);
            past.end_job(job, 1.0);
        }
        assert_eq!(past.jobs.len(), JOBS);
        assert!(past.jobs.iter().all(|job| job.to.is_some()) && past.jobs.back().is_some_and(|job| job.job == 99));
    }
}
