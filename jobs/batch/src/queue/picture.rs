//! The machine over time as SVG: which nodes each job held, and how many were in use.

use super::metrics::{class_name, size_class};
use super::{Job, Outcome};
use angara_control::report::table::escaped;
use angara_net::torus::NodeId;
use angara_placement::Machine;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Range;

/// The field of nodes: left and upper edge, width and height.
const LEFT: f64 = 90.0;
const TOP: f64 = 84.0;
const WIDTH: f64 = 1060.0;
const HEIGHT: f64 = 480.0;
/// The field of utilisation below it.
const LINE_TOP: f64 = 600.0;
const LINE_HEIGHT: f64 = 110.0;
const PAGE: (f64, f64) = (1180.0, 770.0);
/// Colours of jobs, smallest class first.
const COLOURS: [&str; 6] = ["#fde725", "#7ad151", "#22a884", "#2a788e", "#414487", "#440154"];

/// What is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Picture<'a> {
    /// The machine, with nothing taken.
    pub machine: &'a Machine,
    pub jobs: &'a [Job],
    /// What became of them; with the sets of those in `span`.
    pub outcome: &'a Outcome,
    /// The time shown, seconds.
    pub span: (u64, u64),
    /// First line of the title.
    pub title: &'a str,
}

impl Picture<'_> {
    fn x(&self, time: u64) -> f64 {
        let time = time.clamp(self.span.0, self.span.1);
        LEFT + WIDTH * (time - self.span.0) as f64 / (self.span.1 - self.span.0).max(1) as f64
    }

    fn y(&self, node: usize) -> f64 {
        TOP + HEIGHT * (1.0 - node as f64 / self.machine.shape().nodes() as f64)
    }

    /// The drawing. Gaps in node numbers too small to be seen are not drawn.
    pub fn svg(&self) -> String {
        let mut out = String::new();
        self.head(&mut out);
        let dead: Vec<NodeId> =
            (0..self.machine.shape().nodes() as NodeId).filter(|&n| self.machine.is_dead(n)).collect();
        self.bars(&mut out, &dead, self.span, "#999999");
        let sets: BTreeSet<_> = self.outcome.sets.keys().copied().collect();
        for index in sets {
            let (job, set) = (&self.jobs[index], &self.outcome.sets[&index]);
            let Some(ran) = self.outcome.ran[index] else { continue };
            let span = (ran.start, ran.start + job.run);
            let wait = ran.start - job.submit;
            let about = format!("job {}, nodes: {}, {} s, waited {wait} s", job.number, job.nodes, job.run);
            let _ = write!(out, "<g><title>{about}</title>");
            self.bars(&mut out, &set.nodes, span, colour(job.nodes));
            self.bars(&mut out, &set.transit, span, "url(#transit)");
            out.push_str("</g>\n");
        }
        self.utilisation(&mut out);
        self.axes(&mut out);
        self.legend(&mut out);
        out.push_str("</svg>\n");
        out
    }

    fn head(&self, out: &mut String) {
        let (width, height) = PAGE;
        let shape = self.machine.shape();
        let _ = writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"13\">\n<defs><pattern id=\"transit\" width=\"5\" height=\"5\" \
             patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect width=\"5\" height=\"5\" fill=\"#ffffff\"/>\
             <rect width=\"2\" height=\"5\" fill=\"#c0392b\"/></pattern></defs>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
             <text x=\"{LEFT}\" y=\"28\" font-size=\"17\">{}</text>\n\
             <text x=\"{LEFT}\" y=\"48\">Nodes held by jobs on {shape}, {} of {} nodes work</text>",
            escaped(self.title),
            self.machine.working(),
            shape.nodes(),
        );
    }

    /// Rectangles of nodes, ascending, during a span.
    fn bars(&self, out: &mut String, nodes: &[NodeId], span: (u64, u64), fill: &str) {
        let (left, right) = (self.x(span.0), self.x(span.1));
        for run in runs(nodes, self.machine.shape().nodes() / HEIGHT as usize) {
            let (top, bottom) = (self.y(run.end), self.y(run.start));
            let _ = write!(
                out,
                "<rect x=\"{left:.1}\" y=\"{top:.2}\" width=\"{:.1}\" height=\"{:.2}\" fill=\"{fill}\"/>",
                (right - left).max(0.2),
                (bottom - top).max(0.3),
            );
        }
        out.push('\n');
    }

    /// Share of working nodes in use by processes, the mean of each pixel.
    fn shares(&self) -> Vec<f64> {
        let columns = WIDTH as usize;
        let second = columns as f64 / (self.span.1 - self.span.0).max(1) as f64;
        let mut used = vec![0.0; columns];
        for (job, ran) in self.jobs.iter().zip(&self.outcome.ran) {
            let Some(ran) = ran else { continue };
            let column = |time: u64| (time.clamp(self.span.0, self.span.1) - self.span.0) as f64 * second;
            let (from, to) = (column(ran.start), column(ran.start + job.run));
            for (k, used) in used.iter_mut().enumerate().take(to.ceil() as usize).skip(from as usize) {
                *used += job.nodes as f64 * (to.min(k as f64 + 1.0) - from.max(k as f64));
            }
        }
        used.iter().map(|used| used / self.machine.working().max(1) as f64).collect()
    }

    fn utilisation(&self, out: &mut String) {
        out.push_str("<polyline fill=\"none\" stroke=\"#1f4e79\" stroke-width=\"1.2\" points=\"");
        for (k, share) in self.shares().into_iter().enumerate() {
            let _ = write!(out, "{:.1},{:.1} ", LEFT + k as f64 + 0.5, LINE_TOP + LINE_HEIGHT * (1.0 - share));
        }
        out.push_str("\"/>\n");
    }

    fn axes(&self, out: &mut String) {
        for (top, height) in [(TOP, HEIGHT), (LINE_TOP, LINE_HEIGHT)] {
            let _ = writeln!(
                out,
                "<rect x=\"{LEFT}\" y=\"{top}\" width=\"{WIDTH}\" height=\"{height}\" fill=\"none\" stroke=\"#000000\"/>"
            );
        }
        let mut label = |x: f64, y: f64, anchor: &str, text: &str| {
            let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
        };
        let nodes = self.machine.shape().nodes();
        let quarters: BTreeSet<usize> = (0..=4).map(|k| nodes * k / 4).collect();
        for node in quarters {
            label(LEFT - 6.0, self.y(node) + 4.0, "end", &node.to_string());
        }
        for percent in [0, 50, 100] {
            let y = LINE_TOP + LINE_HEIGHT * (1.0 - f64::from(percent) / 100.0);
            label(LEFT - 6.0, y + 4.0, "end", &format!("{percent} %"));
        }
        let (unit, seconds, step) = ticks(self.span.1 - self.span.0);
        for time in (self.span.0.div_ceil(step)..=self.span.1 / step).map(|k| k * step) {
            let text = format!("{}", time as f64 / seconds as f64);
            label(self.x(time), LINE_TOP + LINE_HEIGHT + 18.0, "middle", &text);
        }
        label(LEFT + WIDTH / 2.0, PAGE.1 - 18.0, "middle", &format!("time since the first submission, {unit}"));
        for (middle, text) in [(TOP + HEIGHT / 2.0, "node number"), (LINE_TOP + LINE_HEIGHT / 2.0, "nodes in use")] {
            let _ = writeln!(
                out,
                "<text transform=\"translate(22 {middle}) rotate(-90)\" text-anchor=\"middle\">{text}</text>"
            );
        }
    }

    fn legend(&self, out: &mut String) {
        let classes: BTreeSet<usize> = self.outcome.sets.keys().map(|&job| size_class(self.jobs[job].nodes)).collect();
        let transit = self.outcome.sets.values().any(|set| !set.transit.is_empty());
        let dead = self.machine.working() < self.machine.shape().nodes();
        let mut entries: Vec<_> = classes
            .into_iter()
            .map(|c| (colour(c), format!("{} {}", class_name(c), if c == 1 { "node" } else { "nodes" })))
            .collect();
        entries.extend(transit.then(|| ("url(#transit)", "transit".to_string())));
        entries.extend(dead.then(|| ("#999999", "dead".to_string())));
        entries.push(("#ffffff", "free".into()));
        let mut x = LEFT;
        for (fill, text) in entries {
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"60\" width=\"14\" height=\"12\" fill=\"{fill}\" stroke=\"#000000\" stroke-width=\"0.5\"/>\
                 <text x=\"{}\" y=\"71\">{text}</text>",
                x + 19.0
            );
            x += 40.0 + 7.5 * text.len() as f64;
        }
    }
}

/// Colour of a job of N nodes.
fn colour(nodes: usize) -> &'static str {
    let class = size_class(nodes).ilog2() as usize / 3;
    COLOURS[class.min(COLOURS.len() - 1)]
}

/// Runs of numbers, which ascend, with no gap above `gap`.
fn runs(nodes: &[NodeId], gap: usize) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for &node in nodes {
        let node = node as usize;
        match runs.last_mut() {
            Some(run) if node <= run.end + gap => run.end = node + 1,
            _ => runs.push(node..node + 1),
        }
    }
    runs
}

/// Unit of a time axis, its seconds, and seconds between labels: at most 12 of them.
fn ticks(span: u64) -> (&'static str, u64, u64) {
    let (unit, seconds) = match span {
        0..=300 => ("s", 1),
        301..=18_000 => ("min", 60),
        18_001..=400_000 => ("h", 3600),
        _ => ("days", 86_400),
    };
    let steps = (0..).flat_map(|power| [1, 2, 5].map(|digit| digit * 10u64.pow(power) * seconds));
    (unit, seconds, steps.into_iter().find(|step| span / step <= 12).expect("steps grow without end"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::engine::{Ran, Record, simulate};
    use crate::queue::schedule::Easy;
    use angara_fabric::Outage;
    use angara_placement::{FirstFitBox, NodeSet};
    use std::collections::HashMap;
    use std::ops::ControlFlow;

    #[test]
    fn runs_close_small_gaps() {
        assert_eq!(runs(&[0, 1, 2, 5, 9], 0), [0..3, 5..6, 9..10]);
        assert_eq!(runs(&[0, 1, 2, 5, 9], 2), [0..6, 9..10]);
    }

    #[test]
    fn labels_of_time_are_few_and_round() {
        assert_eq!(
            [ticks(10), ticks(7200), ticks(86_400), ticks(5_000_000)],
            [("s", 1, 1), ("min", 60, 600), ("h", 3600, 7200), ("days", 86_400, 432_000)]
        );
    }

    #[test]
    fn what_is_in_use_is_drawn_where_it_is() {
        let machine = Machine::new("4".parse().unwrap(), &[Outage::Node(3)]);
        let job = Job { number: 9, submit: 0, nodes: 1, run: 50, estimate: 50 };
        let ran = Some(Ran { start: 0, transit: 1, blocked: false, promised: None });
        let sets = HashMap::from([(0, NodeSet { nodes: vec![0], transit: vec![1] })]);
        let outcome = Outcome { ran: vec![ran], sets, ..Outcome::default() };
        let picture = Picture { machine: &machine, jobs: &[job], outcome: &outcome, span: (0, 100), title: "a < b" };
        let shares = picture.shares();
        assert!((shares[0] - 1.0 / 3.0).abs() < 1e-9 && (shares[529] - 1.0 / 3.0).abs() < 1e-9, "{shares:?}");
        assert!(shares[530..].iter().all(|&share| share == 0.0));
        let svg = picture.svg();
        for part in [
            "<rect x=\"90.0\" y=\"444.00\" width=\"530.0\" height=\"120.00\" fill=\"#fde725\"/>",
            "<rect x=\"90.0\" y=\"324.00\" width=\"530.0\" height=\"120.00\" fill=\"url(#transit)\"/>",
            "<rect x=\"90.0\" y=\"84.00\" width=\"1060.0\" height=\"120.00\" fill=\"#999999\"/>",
            "a &lt; b",
            "3 of 4 nodes work",
        ] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
    }

    #[test]
    fn only_the_span_asked_for_is_kept() {
        let machine = Machine::new("4".parse().unwrap(), &[]);
        let job = |submit| Job { number: submit, submit, nodes: 2, run: 5, estimate: 5 };
        let jobs: Vec<Job> = (0..10).map(|k| job(10 * k)).collect();
        let record = Record { samples: 0, sets: 20..41 };
        let go = &mut |_| ControlFlow::Continue(());
        let outcome = simulate(&machine, &jobs, &mut Easy::default(), &FirstFitBox, &record, go).unwrap();
        let kept: BTreeSet<usize> = outcome.sets.keys().copied().collect();
        assert_eq!(kept, BTreeSet::from([2, 3, 4]));
    }
}
