//! Line charts as SVG text.
//!
//! One kind of chart is enough for cost models and sweeps: several named curves over a common
//! horizontal axis, each axis linear or logarithmic.

use crate::Error;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::*;
use std::ops::Range;

/// Width and height of a chart in SVG units.
const SIZE: (u32, u32) = (860, 540);
/// Colours of the curves in order, repeated when there are more curves; readable on white and
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
    /// Where a curve has no finite value: its name and the place on the horizontal axis. Drawn hollow at the top.
    pub beyond: Vec<(String, f64)>,
}

impl Chart {
    /// The points as CSV: curve, x, y.
    pub fn csv(&self) -> String {
        let mut out = format!("curve,\"{}\",\"{}\"\n", self.x, self.y);
        for (name, points) in &self.curves {
            points.iter().for_each(|(x, y)| out.push_str(&format!("\"{name}\",{x},{y}\n")));
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
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            root.fill(&WHITE).map_err(failed)?;
            let mut builder = ChartBuilder::on(&root);
            builder.caption(&self.title, ("sans-serif", 18)).margin(12).x_label_area_size(46).y_label_area_size(72);
            let (xs, top, ys) = (xs.0..xs.1, ys.1, ys.0..ys.1);
            match (self.x_log, self.y_log) {
                (false, false) => self.draw(builder.build_cartesian_2d(xs, ys).map_err(failed)?, &curves, top)?,
                (true, false) => {
                    self.draw(builder.build_cartesian_2d(xs.log_scale(), ys).map_err(failed)?, &curves, top)?
                }
                (false, true) => {
                    self.draw(builder.build_cartesian_2d(xs, ys.log_scale()).map_err(failed)?, &curves, top)?
                }
                (true, true) => self.draw(
                    builder.build_cartesian_2d(xs.log_scale(), ys.log_scale()).map_err(failed)?,
                    &curves,
                    top,
                )?,
            }
            root.present().map_err(failed)?;
        }
        Ok(svg)
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
    ) -> Result<(), Error>
    where
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let label = |v: &f64| crate::table::number(*v, 3);
        chart
            .configure_mesh()
            .light_line_style(RGBColor(240, 240, 240))
            .bold_line_style(RGBColor(215, 215, 215))
            .x_desc(&self.x)
            .y_desc(&self.y)
            .x_label_formatter(&label)
            .y_label_formatter(&label)
            .label_style(("sans-serif", 13))
            .draw()
            .map_err(failed)?;
        for (i, (name, points)) in curves.iter().enumerate() {
            let colour = COLOURS[i % COLOURS.len()];
            let (line, scatter) = (colour.stroke_width(2), self.scatter);
            if !scatter {
                chart.draw_series(LineSeries::new(points.iter().copied(), line)).map_err(failed)?;
            }
            for (_, x, low, high) in self.bars().filter(|b| b.0 == *name) {
                let bar = [(x, low), (x, high)];
                chart.draw_series([PathElement::new(bar, colour)]).map_err(failed)?;
                let cap = |p| EmptyElement::at(p) + PathElement::new([(-4, 0), (4, 0)], colour);
                chart.draw_series(bar.map(cap)).map_err(failed)?;
            }
            let marks = points.iter().map(|p| EmptyElement::at(*p) + Polygon::new(mark(i, (0, 0)), colour.filled()));
            let drawn = chart.draw_series(marks).map_err(failed)?;
            drawn.label(*name).legend(move |(x, y)| {
                let end = if scatter { x } else { x + 18 };
                EmptyElement::at((0, 0))
                    + PathElement::new([(x, y), (end, y)], line)
                    + Polygon::new(mark(i, (x + 9, y)), colour.filled())
            });
            let beyond = self.beyond.iter().filter(|b| b.0 == *name && (!self.x_log || b.1 > 0.0));
            let hollow = beyond.map(|b| EmptyElement::at((b.1, top)) + PathElement::new(mark(i, (0, 8)), colour));
            chart.draw_series(hollow).map_err(failed)?;
        }
        if curves.len() > 1 {
            let mut drawn = Vec::new();
            for (_, points) in curves {
                let at: Vec<(i32, i32)> = points.iter().map(|p| chart.backend_coord(p)).collect();
                drawn.extend(if self.scatter { at } else { along(&at) });
            }
            drawn.extend(
                self.beyond.iter().filter(|b| !self.x_log || b.1 > 0.0).map(|b| chart.backend_coord(&(b.1, top))),
            );
            let names = curves.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
            let legend = (50 + 7 * names as i32, 16 + 18 * curves.len() as i32);
            let place = emptiest(chart.plotting_area().get_pixel_range(), legend, &drawn);
            chart
                .configure_series_labels()
                .position(place)
                .background_style(WHITE.mix(0.85))
                .border_style(RGBColor(180, 180, 180))
                .label_font(("sans-serif", 13))
                .draw()
                .map_err(failed)?;
        }
        Ok(())
    }
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

/// Where in `area` a legend of that width and height covers least of what is drawn, all in pixels.
fn emptiest(area: (Range<i32>, Range<i32>), (width, height): (i32, i32), drawn: &[(i32, i32)]) -> SeriesLabelPosition {
    use SeriesLabelPosition::*;
    let (xs, ys) = area;
    let (left, right, centre) = (xs.start, xs.end - width, (xs.start + xs.end - width) / 2);
    let (upper, lower, middle) = (ys.start, ys.end - height, (ys.start + ys.end - height) / 2);
    let places = [
        (UpperLeft, left, upper),
        (UpperRight, right, upper),
        (LowerRight, right, lower),
        (LowerLeft, left, lower),
        (UpperMiddle, centre, upper),
        (LowerMiddle, centre, lower),
        (MiddleRight, right, middle),
        (MiddleLeft, left, middle),
    ];
    let covered = |x: i32, y: i32| {
        drawn.iter().filter(|(px, py)| (x..x + width).contains(px) && (y..y + height).contains(py)).count()
    };
    places.into_iter().min_by_key(|(_, x, y)| covered(*x, *y)).map_or(UpperLeft, |(place, _, _)| place)
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
        assert_eq!(counts(Chart { scatter: true, ..chart() }).0, lines - 2, "no line joins them");
        let sure = vec![("a".to_string(), (8.0, 2.0), 0.5)];
        assert_eq!(counts(Chart { sure, ..chart() }).0, lines + 3, "a bar and two caps");
        let beyond = |xs: &[f64]| Chart { beyond: xs.iter().map(|x| ("b".to_string(), *x)).collect(), ..chart() };
        let (one, two) = (counts(beyond(&[4.0])), counts(beyond(&[4.0, 5.0])));
        assert_eq!((two.0 - one.0, one.1), (1, marks), "hollow, in the room made for them on top");
    }

    #[test]
    fn the_legend_hides_no_point_where_there_is_room() {
        let place = |drawn: &[(i32, i32)]| format!("{:?}", emptiest((0..100, 0..100), (40, 30), drawn));
        assert_eq!(place(&[]), "UpperLeft");
        assert_eq!(place(&[(10, 10)]), "UpperRight");
        assert_eq!(place(&along(&[(0, 0), (100, 100)])), "UpperRight");
        assert_eq!(place(&along(&[(0, 10), (100, 10)])), "LowerRight");
        assert_eq!(along(&[(0, 0), (32, 16)])[..3], [(0, 0), (2, 1), (4, 2)]);
    }

    #[test]
    fn points_are_numbers_too() {
        assert!(chart().csv().starts_with("curve,\"nodes\",\"us\"\n\"a\",0,1\n\"a\",8,2\n\"b\",1,3\n"));
    }

    #[test]
    fn a_chart_without_points_is_an_error() {
        let empty = Chart { curves: vec![("a".into(), vec![])], ..chart() };
        assert!(empty.svg().unwrap_err().to_string().contains("no points"));
    }
}
