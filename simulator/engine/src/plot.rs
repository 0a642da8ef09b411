//! Line charts, drawn as SVG, as PDF and by scripts of gnuplot.
//!
//! One kind of chart is enough for cost models and sweeps: several named curves over a common
//! horizontal axis, each axis linear or logarithmic. Drawing needs the feature `plot`.

#[cfg(feature = "plot")]
mod axis;
#[cfg(feature = "plot")]
mod draw;
#[cfg(feature = "plot")]
mod gnuplot;
#[cfg(feature = "plot")]
mod look;
#[cfg(feature = "plot")]
mod page;

#[cfg(feature = "plot")]
pub use page::{Page, Place, Rgb};

use angara_protocol::print::csv_cell;

angara_net::words! {
    /// Scale of an axis, where the user chooses it.
    #[derive(Debug)]
    pub enum Scale {
        /// Even, of what is drawn.
        Linear = "linear",
        /// Logarithmic; without what is at or below 0.
        Log = "log",
        /// Even, and 0 is on it.
        Zero = "zero",
    }
}

/// A chart to be drawn.
#[derive(Clone, PartialEq, Debug, Default)]
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
    /// 0 is on the horizontal axis, if that is linear.
    pub x_zero: bool,
    /// 0 is on the vertical axis, if that is linear.
    pub y_zero: bool,
    /// Curves: name and points.
    pub curves: Vec<(String, Vec<(f64, f64)>)>,
    /// Points of a curve belong to different cases: no line joins them.
    pub scatter: bool,
    /// How well points are known: name of the curve, point, half-width of its confidence interval.
    pub sure: Vec<(String, (f64, f64), f64)>,
    /// Where a curve has no finite value, as its network is saturated: its name and the place on the horizontal axis. Drawn
    /// hollow above the plot, in a row of its curve.
    pub beyond: Vec<(String, f64)>,
    /// Names of the places 0, 1, 2 … on a horizontal axis that has no numbers.
    pub places: Vec<String>,
    /// Numbers at the horizontal axis: the values that were tried, where they are few. Round ones, if empty.
    pub x_at: Vec<f64>,
}

impl Chart {
    /// Most numbers at an axis that need not be round.
    const NUMBERS_MAX: usize = 12;

    /// The same with the places of its points as numbers at the horizontal axis, unless they are many.
    #[must_use]
    pub fn at_its_points(mut self) -> Chart {
        let mut all: Vec<f64> = self.curves.iter().flat_map(|(_, points)| points.iter().map(|p| p.0)).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        self.x_at = if all.len() <= Chart::NUMBERS_MAX { all } else { Vec::new() };
        self
    }

    /// The points as CSV: curve, x, y.
    pub fn csv(&self) -> String {
        let mut out = format!("curve,{},{}\n", csv_cell(&self.x), csv_cell(&self.y));
        for (name, points) in &self.curves {
            points.iter().for_each(|(x, y)| out.push_str(&format!("{},{x},{y}\n", csv_cell(name))));
        }
        out
    }

    /// Distributions of latencies in cycles, each as [`Histogram::shares`](crate::run::stats::Histogram::shares) has
    /// it.
    pub fn of_latencies(title: String, curves: Vec<(String, Vec<(f64, f64)>)>) -> Chart {
        let (x, y) = ("latency, cycles".into(), "share of messages per cycle".into());
        Chart { title, x, y, x_log: true, y_log: true, curves, ..Chart::default() }
    }

    /// The same with other axes, where those are chosen.
    #[must_use]
    pub fn scaled(mut self, x: Option<Scale>, y: Option<Scale>) -> Chart {
        if let Some(x) = x {
            (self.x_log, self.x_zero) = (x == Scale::Log, x == Scale::Zero);
        }
        if let Some(y) = y {
            (self.y_log, self.y_zero) = (y == Scale::Log, y == Scale::Zero);
        }
        self
    }

    /// True if there is anything to draw.
    pub fn has_points(&self) -> bool {
        self.curves.iter().any(|(_, points)| !points.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_numbers_too() {
        let chart = Chart {
            x: "nodes".into(),
            y: "us".into(),
            curves: vec![("a".into(), vec![(0.0, 1.0), (8.0, 2.0)]), ("b".into(), vec![(1.0, 3.0)])],
            ..Chart::default()
        };
        assert!(chart.csv().starts_with("curve,nodes,us\na,0,1\na,8,2\nb,1,3\n"));
        let mut odd = chart;
        (odd.x, odd.curves[0].0) = ("nodes, \"all\"".into(), "a \"b\"".into());
        assert!(odd.csv().starts_with("curve,\"nodes, \"\"all\"\"\",us\n\"a \"\"b\"\"\",0,1\n"), "{}", odd.csv());
    }
}
