//! Line charts as SVG text.
//!
//! One kind of chart is enough for cost models and sweeps: several named curves over a common
//! horizontal axis, each axis linear or logarithmic.

use crate::Error;
use angara_protocol::print::csv_cell;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;
use std::ops::Range;

/// Width and height of a chart in SVG units, unless names need more.
const SIZE: (u32, u32) = (860, 540);
/// Width of the vertical axis with its numbers and name, and the margin.
const LEFT: u32 = 84;
/// Width of a letter, about, and height of a line of a legend.
const LETTER: (u32, u32) = (7, 18);
/// Colours of the curves in order, again with other dashes when there are more curves; readable on white and
/// distinguishable by colour-blind readers.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(60, 60, 60),
    RGBColor(148, 103, 189),
];

/// A chart to be drawn.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Heading.
    pub title: String,
    /// Name and unit of the horizontal axis.
    pub x: String,
    /// Name and unit of the vertical axis.
    pub y: String,
    /// Logarithmic horizontal axis; points at or below 0 are left out.
    pub x_log: bool,
    /// Logarithmic vertical axis; points at or below 0 are left out.
    pub y_log: bool,
    /// Curves: name and points.
    pub curves: Vec<(String, Vec<(f64, f64)>)>,
    /// Points of a curve belong to different cases: no line joins them.
    pub scatter: bool,
    /// How well points are known: name of the curve, point, half-width of its confidence interval.
    pub sure: Vec<(String, (f64, f64), f64)>,
    /// Where a curve has no finite value, as its network is saturated: its name and the place on the horizontal axis. Drawn
    /// hollow at the top.
    pub beyond: Vec<(String, f64)>,
    /// Names of the places 0, 1, 2 … on a horizontal axis that has no numbers.
    pub places: Vec<String>,
}

/// A horizontal axis of so many named places.
struct Places(usize);

impl Ranged for Places {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;
    fn map(&self, value: &f64, (low, high): (i32, i32)) -> i32 {
        low + ((value + 0.5) / self.0 as f64 * f64::from(high - low)).round() as i32
    }
    fn key_points<H: KeyPointHint>(&self, _: H) -> Vec<f64> {
        (0..self.0).map(|place| place as f64).collect()
    }
    fn range(&self) -> Range<f64> {
        -0.5..self.0 as f64 - 0.5
    }
}

impl ValueFormatter<f64> for Places {
    fn format(value: &f64) -> String {
        value.to_string()
    }
}

impl From<Places> for Range<f64> {
    fn from(places: Places) -> Range<f64> {
        places.range()
    }
}

/// An entry of a legend: its curve, or none for a hollow mark, and what it says.
type Entry<'a> = (Option<usize>, &'a str);

/// Places drawn on in a chart, in SVG units: the area of the plot, and points on all that stands there.
type Drawn = ((Range<i32>, Range<i32>), Vec<(i32, i32)>);

impl Chart {
    /// The points as CSV: curve, x, y.
    pub fn csv(&self) -> String {
        let mut out = format!("curve,{},{}\n", csv_cell(&self.x), csv_cell(&self.y));
        for (name, points) in &self.curves {
            points.iter().for_each(|(x, y)| out.push_str(&format!("{},{x},{y}\n", csv_cell(name))));
        }
        out
    }

    /// The chart as an SVG document.
    ///
    /// # Errors
    /// When there is not a single point to draw.
    pub fn svg(&self) -> Result<String, Error> {
        let keep = |&(x, y): &(f64, f64)| {
            x.is_finite() && y.is_finite() && (!self.x_log || x > 0.0) && (!self.y_log || y > 0.0)
        };
        let curves: Vec<(&str, Vec<(f64, f64)>)> =
            self.curves.iter().map(|(name, p)| (name.as_str(), p.iter().copied().filter(keep).collect())).collect();
        let points = || curves.iter().flat_map(|(_, p)| p.iter());
        let ys: Vec<f64> = points().map(|p| p.1).chain(self.bars().flat_map(|(_, _, low, high)| [low, high])).collect();
        let beyond = self.beyond.iter().map(|b| b.1).filter(|x| !self.x_log || *x > 0.0);
        let (Some(xs), Some(ys)) = (range(points().map(|p| p.0).chain(beyond), self.x_log), self.heights(ys)) else {
            return Err(Error::Plot(format!("`{}` has no points", self.title)));
        };
        let legend = self.legend(&curves);
        let (mut svg, drawn) = self.render(&curves, (xs, ys), &legend, None)?;
        if hides(&legend, &drawn) {
            svg = self.render(&curves, (xs, ys), &legend, Some(legend_size(&legend).0))?.0;
        }
        Ok(svg)
    }

    /// Returns what the legend says; nothing where the title says it all.
    fn legend<'a>(&self, curves: &[(&'a str, Vec<(f64, f64)>)]) -> Vec<Entry<'a>> {
        let mut entries: Vec<Entry> = curves.iter().enumerate().map(|(i, (name, _))| (Some(i), *name)).collect();
        if !self.beyond.is_empty() {
            entries.push((None, "hollow, at the top: saturated"));
        }
        if entries.len() > 1 { entries } else { Vec::new() }
    }

    /// The document, with the legend where it hides least or, in so much more width, beside the plot.
    fn render(
        &self,
        curves: &[(&str, Vec<(f64, f64)>)],
        (xs, ys): ((f64, f64), (f64, f64)),
        legend: &[Entry<'_>],
        beside: Option<i32>,
    ) -> Result<(String, Drawn), Error> {
        let longest = self.places.iter().map(|name| name.chars().count() as u32 + 2).max().unwrap_or(0);
        let width = SIZE.0.max(LEFT + longest * LETTER.0 * self.places.len() as u32);
        let more = beside.map_or(0, |width| width + 12);
        let height = SIZE.1.max(if more > 0 { legend_size(legend).1 as u32 + 60 } else { 0 });
        let mut svg = String::new();
        let root = SVGBackend::with_string(&mut svg, (width + more as u32, height)).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let (left, _) = root.split_horizontally(width as i32);
        let mut builder = ChartBuilder::on(&left);
        builder.caption(&self.title, ("sans-serif", 18)).margin(12).x_label_area_size(46).y_label_area_size(72);
        let (places, xs, top, ys) = (Places(self.places.len()), xs.0..xs.1, ys.1, ys.0..ys.1);
        let drawn = match (places.0 > 0, self.x_log, self.y_log) {
            (true, _, _) => self.draw(builder.build_cartesian_2d(places, ys).map_err(failed)?, curves, top)?,
            (_, false, false) => self.draw(builder.build_cartesian_2d(xs, ys).map_err(failed)?, curves, top)?,
            (_, true, false) => {
                self.draw(builder.build_cartesian_2d(xs.log_scale(), ys).map_err(failed)?, curves, top)?
            }
            (_, false, true) => {
                self.draw(builder.build_cartesian_2d(xs, ys.log_scale()).map_err(failed)?, curves, top)?
            }
            (_, true, true) => {
                self.draw(builder.build_cartesian_2d(xs.log_scale(), ys.log_scale()).map_err(failed)?, curves, top)?
            }
        };
        if !legend.is_empty() {
            let at = match beside {
                Some(_) => (width as i32, 36),
                None => emptiest(&drawn, legend_size(legend)).1,
            };
            self.draw_legend(&root, legend, at)?;
        }
        root.present().map_err(failed)?;
        drop((left, root));
        Ok((svg, drawn))
    }

    fn draw_legend(&self, root: &Area<'_>, legend: &[Entry<'_>], (x, y): (i32, i32)) -> Result<(), Error> {
        let (width, height) = legend_size(legend);
        let frame = [(x, y), (x + width, y + height)];
        root.draw(&Rectangle::new(frame, WHITE.mix(0.85).filled())).map_err(failed)?;
        root.draw(&Rectangle::new(frame, RGBColor(180, 180, 180))).map_err(failed)?;
        for ((curve, name), line) in legend.iter().zip(0..) {
            let (x, y) = (x + 10, y + 8 + LETTER.1 as i32 * line + 9);
            match *curve {
                Some(i) => {
                    let (on, off) = if self.scatter { (0, 18) } else { dash(i).unwrap_or((18, 0)) };
                    let pieces = (0..18).step_by((on + off) as usize).filter(|_| on > 0);
                    for at in pieces {
                        let piece = [(x + at, y), (x + (at + on).min(18), y)];
                        root.draw(&PathElement::new(piece, colour(i).stroke_width(2))).map_err(failed)?;
                    }
                    root.draw(&Polygon::new(mark(i, (x + 9, y)), colour(i).filled())).map_err(failed)?;
                }
                None => root.draw(&PathElement::new(mark(0, (x + 9, y)), BLACK)).map_err(failed)?,
            }
            let text = Text::new((*name).to_string(), (x + 26, y - 6), ("sans-serif", 13));
            root.draw(&text).map_err(failed)?;
        }
        Ok(())
    }

    /// Lowest and highest value, with room on top for what is beyond.
    fn heights(&self, ys: Vec<f64>) -> Option<(f64, f64)> {
        let (low, high) = range(ys.into_iter(), self.y_log)?;
        match (self.beyond.is_empty(), self.y_log) {
            (true, _) => Some((low, high)),
            (false, true) => Some((low, high * (high / low).powf(0.06))),
            (false, false) => Some((low, high + 0.06 * (high - low))),
        }
    }

    /// Curve, place and ends of every error bar that can be drawn.
    fn bars(&self) -> impl Iterator<Item = (&str, f64, f64, f64)> {
        self.sure.iter().filter_map(|(name, (x, y), half)| {
            let (low, high) = (y - half, y + half);
            (high > low && (!self.y_log || low > 0.0)).then_some((name.as_str(), *x, low, high))
        })
    }

    fn draw<'a, X, Y>(
        &self,
        mut chart: ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
        curves: &[(&str, Vec<(f64, f64)>)],
        top: f64,
    ) -> Result<Drawn, Error>
    where
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let label = |v: &f64| crate::table::number(*v, 3);
        let place = |v: &f64| self.places.get(v.round() as usize).cloned().unwrap_or_else(|| label(v));
        chart
            .configure_mesh()
            .light_line_style(RGBColor(240, 240, 240))
            .bold_line_style(RGBColor(215, 215, 215))
            .x_desc(&self.x)
            .y_desc(&self.y)
            .x_label_formatter(&place)
            .y_label_formatter(&label)
            .label_style(("sans-serif", 13))
            .draw()
            .map_err(failed)?;
        let mut drawn = Vec::new();
        for (i, (name, points)) in curves.iter().enumerate() {
            let (colour, line) = (colour(i), colour(i).stroke_width(2));
            let at: Vec<(i32, i32)> = points.iter().map(|p| chart.backend_coord(p)).collect();
            drawn.extend(if self.scatter { at } else { along(&at) });
            match dash(i).filter(|_| !self.scatter) {
                _ if self.scatter => {}
                None => drop(chart.draw_series(LineSeries::new(points.iter().copied(), line)).map_err(failed)?),
                Some((on, off)) => {
                    let dashed = DashedLineSeries::new(points.iter().copied(), on, off, line);
                    chart.draw_series(dashed).map_err(failed)?;
                }
            }
            for (_, x, low, high) in self.bars().filter(|b| b.0 == *name) {
                let bar = [(x, low), (x, high)];
                drawn.extend(bar.iter().map(|p| chart.backend_coord(p)));
                chart.draw_series([PathElement::new(bar, colour)]).map_err(failed)?;
                let cap = |p| EmptyElement::at(p) + PathElement::new([(-4, 0), (4, 0)], colour);
                chart.draw_series(bar.map(cap)).map_err(failed)?;
            }
            let marks = points.iter().map(|p| EmptyElement::at(*p) + Polygon::new(mark(i, (0, 0)), colour.filled()));
            chart.draw_series(marks).map_err(failed)?;
            let beyond: Vec<(f64, f64)> = self.beyond.iter().filter(|b| b.0 == *name).map(|b| (b.1, top)).collect();
            let beyond = beyond.iter().filter(|b| !self.x_log || b.0 > 0.0);
            drawn.extend(beyond.clone().map(|p| chart.backend_coord(p)));
            let hollow = beyond.map(|p| EmptyElement::at(*p) + PathElement::new(mark(i, (0, 8)), colour));
            chart.draw_series(hollow).map_err(failed)?;
        }
        Ok((chart.plotting_area().get_pixel_range(), drawn))
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn colour(i: usize) -> RGBColor {
    COLOURS[i % COLOURS.len()]
}

/// Lengths of the strokes and gaps of curve `i`, if it has any.
fn dash(i: usize) -> Option<(i32, i32)> {
    [None, Some((7, 4)), Some((2, 3))][i / COLOURS.len() % 3]
}

fn legend_size(entries: &[Entry<'_>]) -> (i32, i32) {
    let longest = entries.iter().map(|(_, name)| name.chars().count() as u32).max().unwrap_or(0);
    ((50 + LETTER.0 * longest) as i32, (16 + LETTER.1 * entries.len() as u32) as i32)
}

/// True if a legend would hide something wherever it stood.
fn hides(legend: &[Entry<'_>], drawn: &Drawn) -> bool {
    !legend.is_empty() && emptiest(drawn, legend_size(legend)).0 > 0
}

/// Places on the line through `points`, close enough together that none is far from the next.
fn along(points: &[(i32, i32)]) -> Vec<(i32, i32)> {
    const PIECES: i32 = 16;
    let between = |w: &[(i32, i32)]| {
        let ((x, y), (to_x, to_y)) = (w[0], w[1]);
        (0..PIECES).map(move |k| (x + (to_x - x) * k / PIECES, y + (to_y - y) * k / PIECES))
    };
    points.windows(2).flat_map(between).chain(points.last().copied()).collect()
}

/// Where in the plot a legend of that width and height covers least of what is drawn: how many places, and its corner.
fn emptiest(((xs, ys), drawn): &Drawn, (width, height): (i32, i32)) -> (usize, (i32, i32)) {
    let room = 6;
    let (left, right) = (xs.start + room, xs.end - width - room);
    let (upper, lower) = (ys.start + room, ys.end - height - room);
    let (centre, middle) = ((left + right) / 2, (upper + lower) / 2);
    let corners = [
        (left, upper),
        (right, upper),
        (right, lower),
        (left, lower),
        (centre, upper),
        (centre, lower),
        (right, middle),
        (left, middle),
    ];
    // Marks are wider than their places.
    let covers = |x: i32, y: i32, (px, py): &(i32, i32)| {
        (x - room..x + width + room).contains(px) && (y - room..y + height + room).contains(py)
    };
    let covered = |(x, y): (i32, i32)| (drawn.iter().filter(|at| covers(x, y, at)).count(), (x, y));
    corners.into_iter().map(covered).min_by_key(|(count, _)| *count).expect("there are corners")
}

/// Outline of the mark of curve `i` around a place: circle, square, triangle, diamond or triangle upside down, then again.
fn mark(i: usize, at: (i32, i32)) -> Vec<(i32, i32)> {
    let mut corners: Vec<(f64, f64)> = match i % 5 {
        0 => (0..16).map(|k| (f64::from(k) * std::f64::consts::TAU / 16.0).sin_cos()).collect(),
        1 => vec![(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        2 => vec![(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
        3 => vec![(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
        _ => vec![(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)],
    };
    corners.push(corners[0]);
    let point = |(x, y): &(f64, f64)| (at.0 + (x * 4.0).round() as i32, at.1 + (y * 4.0).round() as i32);
    corners.iter().map(point).collect()
}

/// Lowest and highest value with some room, so that no curve lies on the frame.
fn range(values: impl Iterator<Item = f64>, log: bool) -> Option<(f64, f64)> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
    if low > high {
        return None;
    }
    if log {
        return Some((low / 1.15, high * 1.15));
    }
    let room = if high > low { (high - low) * 0.04 } else { low.abs().max(1.0) * 0.5 };
    let bottom = if low >= 0.0 && low < high * 0.5 { 0.0 } else { low - room };
    Some((bottom, high + room))
}

fn failed(e: impl std::fmt::Display) -> Error {
    Error::Plot(e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        Chart {
            title: "time".into(),
            x: "nodes".into(),
            y: "us".into(),
            curves: vec![("a".into(), vec![(0.0, 1.0), (8.0, 2.0)]), ("b".into(), vec![(1.0, 3.0), (8.0, 2.5)])],
            ..Chart::default()
        }
    }

    #[test]
    fn every_scale_draws_its_curves() {
        for (x_log, y_log) in [(false, false), (true, false), (false, true), (true, true)] {
            let svg = Chart { x_log, y_log, ..chart() }.svg().unwrap();
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
            assert!(svg.matches("<polyline").count() >= 2, "two curves");
        }
    }

    #[test]
    fn marks_bars_and_what_is_beyond_are_drawn() {
        let counts = |c: Chart| {
            let svg = c.svg().unwrap();
            (svg.matches("<polyline").count(), svg.matches("<polygon").count())
        };
        let (lines, marks) = counts(chart());
        // Four points and two entries of the legend.
        assert_eq!(marks, 6);
        assert_eq!(counts(Chart { scatter: true, ..chart() }).0, lines - 4, "no line joins them, nor in the legend");
        let sure = vec![("a".to_string(), (8.0, 2.0), 0.5)];
        assert_eq!(counts(Chart { sure, ..chart() }).0, lines + 3, "a bar and two caps");
        let beyond = |xs: &[f64]| Chart { beyond: xs.iter().map(|x| ("b".to_string(), *x)).collect(), ..chart() };
        let (one, two) = (counts(beyond(&[4.0])), counts(beyond(&[4.0, 5.0])));
        assert_eq!((two.0 - one.0, one.1), (1, marks), "hollow, in the room made for them on top");
    }

    #[test]
    fn the_legend_hides_no_point_where_there_is_room() {
        let place = |drawn: &[(i32, i32)]| emptiest(&((0..100, 0..100), drawn.to_vec()), (30, 20));
        assert_eq!(place(&[]), (0, (6, 6)));
        assert_eq!(place(&[(10, 10)]), (0, (64, 6)));
        assert_eq!(place(&along(&[(0, 0), (100, 100)])), (0, (64, 6)));
        assert_eq!(place(&along(&[(0, 10), (100, 10)])), (0, (64, 74)));
        assert_eq!(along(&[(0, 0), (32, 16)])[..3], [(0, 0), (2, 1), (4, 2)]);
    }

    /// Width of a document.
    fn width(svg: &str) -> u32 {
        svg.split("width=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().parse().unwrap()
    }

    #[test]
    fn a_legend_without_room_stands_beside_the_plot() {
        let full = |n: u32| {
            let curve = |k: u32| {
                let point = |x: u32| (f64::from(x), f64::from((x * 7 + k * 5) % 19));
                (format!("curve {k}"), (0..20).map(point).collect())
            };
            Chart { curves: (0..n).map(curve).collect(), ..chart() }.svg().unwrap()
        };
        assert_eq!(width(&chart().svg().unwrap()), SIZE.0);
        assert!(width(&full(20)) > SIZE.0 + 100);
        // No two curves of that many look the same.
        let looks: std::collections::BTreeSet<_> = (0..24).map(|i| (i % COLOURS.len(), dash(i))).collect();
        assert_eq!(looks.len(), 24);
    }

    #[test]
    fn hollow_marks_are_explained_and_places_named() {
        let beyond = Chart { beyond: vec![("b".to_string(), 4.0)], ..chart() }.svg().unwrap();
        assert!(beyond.contains("hollow, at the top: saturated") && !chart().svg().unwrap().contains("hollow"));
        let places: Vec<String> = ["linear", "random:1", "link=15GB/s"].map(String::from).into();
        let points = vec![(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)];
        let svg = Chart { places: places.clone(), curves: vec![("a".into(), points)], ..chart() }.svg().unwrap();
        assert!(places.iter().all(|name| svg.matches(name.as_str()).count() == 1), "{svg}");
        let many: Vec<String> = (0..40).map(|i| format!("link={i}GB/s,hop=60ns")).collect();
        let points = (0..40).map(|i| (f64::from(i), 1.0)).collect();
        let svg = Chart { places: many, curves: vec![("a".into(), points)], ..chart() }.svg().unwrap();
        assert!(width(&svg) > 40 * 20 * LETTER.0, "every name has its room");
    }

    #[test]
    fn points_are_numbers_too() {
        assert!(chart().csv().starts_with("curve,nodes,us\na,0,1\na,8,2\nb,1,3\n"));
        let mut odd = chart();
        (odd.x, odd.curves[0].0) = ("nodes, \"all\"".into(), "a \"b\"".into());
        assert!(odd.csv().starts_with("curve,\"nodes, \"\"all\"\"\",us\n\"a \"\"b\"\"\",0,1\n"), "{}", odd.csv());
    }

    #[test]
    fn a_chart_without_points_is_an_error() {
        let empty = Chart { curves: vec![("a".into(), vec![])], ..chart() };
        assert!(empty.svg().unwrap_err().to_string().contains("no points"));
    }
}
