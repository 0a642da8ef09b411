//! Report of a workload: text for people, an object for programs, charts for both.

use crate::observe::Observed;
use crate::plot::Chart;
use crate::run::stats::Histogram;
use crate::table::Table;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt::Write;

/// The result of a workload.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// For people; whole lines.
    pub text: String,
    /// For programs.
    pub json: Map<String, Value>,
    /// Latencies in router cycles, by name: `latency`, or those of each job.
    pub histograms: Vec<(String, Histogram)>,
    /// File name without extension, and chart.
    pub charts: Vec<(String, Chart)>,
    /// Other files of a whole result: name and text.
    pub files: Vec<(String, String)>,
    /// Fields that a sweep should plot.
    pub plots: Vec<Plot>,
    /// Observations made.
    pub observed: Observed,
}

/// A field worth a curve over a sweep. Points whose report has `saturated` set are left out of curves of
/// times.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Plot {
    /// File name without extension.
    pub file: String,
    /// Field of [`Report::json`].
    pub field: String,
    /// Name and unit of the axis.
    pub axis: String,
}

impl Plot {
    /// A plot of `field` in `file`.svg.
    pub fn new(file: &str, field: &str, axis: &str) -> Plot {
        Plot { file: file.into(), field: field.into(), axis: axis.into() }
    }
}

impl Report {
    /// A report that begins with the line `title`.
    pub fn new(title: &str) -> Report {
        Report { text: format!("{title}\n"), ..Report::default() }
    }
    /// Adds a line `name   value` for people.
    pub fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.text, "  {name:<22}{value}");
    }
    /// Adds a table for people.
    pub fn table(&mut self, table: &Table) {
        self.text.push_str(&table.render());
    }
    /// Adds a field for programs.
    pub fn set(&mut self, name: &str, value: impl Serialize) {
        let value = serde_json::to_value(value).expect("reports hold only numbers, names and lists of them");
        self.json.insert(name.into(), value);
    }
    /// Says that a sweep should plot the number `field` in `file`.svg.
    pub fn plot(&mut self, file: &str, field: &str, axis: &str) {
        self.plots.push(Plot::new(file, field, axis));
    }
    /// Adds a file.
    pub fn file(&mut self, name: &str, text: String) {
        self.files.push((name.into(), text));
    }
    /// Adds a chart.
    pub fn chart(&mut self, name: &str, chart: Chart) {
        self.charts.push((name.into(), chart));
    }
}
