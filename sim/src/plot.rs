//! Line charts as SVG text.
//!
//! One kind of chart is enough for cost models and sweeps: several named curves over a common
//! horizontal axis, each axis linear or logarithmic.

use crate::Error;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::*;

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
        let (Some(xs), Some(ys)) = (range(points().map(|p| p.0), self.x_log), range(points().map(|p| p.1), self.y_log))
        else {
            return Err(Error::Plot(format!("`{}` has no points", self.title)));
        };
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            root.fill(&WHITE).map_err(failed)?;
            let mut builder = ChartBuilder::on(&root);
            builder.caption(&self.title, ("sans-serif", 18)).margin(12).x_label_area_size(46).y_label_area_size(72);
            let (xs, ys) = (xs.0..xs.1, ys.0..ys.1);
            match (self.x_log, self.y_log) {
                (false, false) => self.draw(builder.build_cartesian_2d(xs, ys).map_err(failed)?, &curves)?,
                (true, false) => self.draw(builder.build_cartesian_2d(xs.log_scale(), ys).map_err(failed)?, &curves)?,
                (false, true) => self.draw(builder.build_cartesian_2d(xs, ys.log_scale()).map_err(failed)?, &curves)?,
                (true, true) => {
                    self.draw(builder.build_cartesian_2d(xs.log_scale(), ys.log_scale()).map_err(failed)?, &curves)?
                }
            }
            root.present().map_err(failed)?;
        }
        Ok(svg)
    }

    fn draw<'a, X, Y>(
        &self,
        mut chart: ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
        curves: &[(&str, Vec<(f64, f64)>)],
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
            chart
                .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)).point_size(3))
                .map_err(failed)?
                .label(*name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        }
        if curves.len() > 1 {
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperLeft)
                .background_style(WHITE.mix(0.85))
                .border_style(RGBColor(180, 180, 180))
                .label_font(("sans-serif", 13))
                .draw()
                .map_err(failed)?;
        }
        Ok(())
    }
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
    fn points_are_numbers_too() {
        assert!(chart().csv().starts_with("curve,\"nodes\",\"us\"\n\"a\",0,1\n\"a\",8,2\n\"b\",1,3\n"));
    }

    #[test]
    fn a_chart_without_points_is_an_error() {
        let empty = Chart { curves: vec![("a".into(), vec![])], ..chart() };
        assert!(empty.svg().unwrap_err().to_string().contains("no points"));
    }
}
