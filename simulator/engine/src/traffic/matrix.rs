//! Rates of all pairs of ranks, from a file.
//!
//! Three forms are read. Lines of as many numbers as there are nodes are a matrix: a line per source. Other lines are `SRC DST RATE`, which is also the table of Noxim. An object of JSON
//! is a report of `angara run --report`: its rates are the flits that went from node to node.

use super::alias::Alias;
use super::weights::Weights;
use crate::Error;
use angara_net::torus::Shape;
use angara_protocol::msg::PairReport;
use angara_traffic::{REPORT_FORMAT, Rows, TextFile, rows};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A file of rates.
#[derive(Clone, PartialEq, Debug)]
pub struct Matrix(TextFile);

/// What is read of a report.
#[derive(Deserialize)]
struct Reported {
    format: u32,
    shape: Shape,
    placement: Vec<u32>,
    pairs: Vec<PairReport>,
}

impl From<TextFile> for Matrix {
    fn from(file: TextFile) -> Matrix {
        Matrix(file)
    }
}

impl Matrix {
    /// Reads the file at `path`; the pattern is `pattern`, for messages.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(pattern: &str, path: &str) -> Result<Matrix, Error> {
        Ok(Matrix(TextFile::read("pattern", pattern, path)?))
    }

    /// The rates of a file that is part of the program.
    pub fn of(path: &str, text: &str) -> Matrix {
        Matrix(TextFile::of(path, text))
    }

    /// The file.
    pub fn file(&self) -> &TextFile {
        &self.0
    }

    /// Destinations of each of `count` ranks, and how much each sends.
    ///
    /// # Errors
    /// A mistake in the file, or another number of ranks.
    pub fn prepare(&self, count: u32) -> Result<(Vec<Alias>, Weights), Error> {
        let rows = if self.0.text().trim_start().starts_with('{') {
            self.report(count)?
        } else {
            rows(&self.0, (count, "nodes"))?
        };
        let sum = |(row, line): &(Vec<(u32, f64)>, usize)| (row.iter().map(|(_, rate)| rate).sum(), *line);
        let sums: Vec<(f64, usize)> = rows.iter().map(sum).collect();
        if let Some((_, line)) = sums.iter().find(|(sum, _)| !sum.is_finite()) {
            return Err(self.0.wrong(*line, "the rates of this source have no finite sum; give smaller ones").into());
        }
        let weights = Weights::new(self.0.clone(), sums)?;
        Ok((rows.iter().map(|(row, _)| Alias::new(row)).collect(), weights))
    }

    fn report(&self, count: u32) -> Result<Rows, Error> {
        let report: Reported = serde_json::from_str(self.0.text()).map_err(|e| {
            let why = format!("this is no report of `angara run --report` ({e}); give one, or lines SRC DST RATE");
            self.0.wrong(e.line().max(1), why)
        })?;
        let wrong = |why: String| Err(self.0.wrong(1, why).into());
        let nodes = report.shape.nodes() as u32;
        if report.format != REPORT_FORMAT {
            return wrong(format!("format is {}; write the report again with this version", report.format));
        }
        if nodes != count {
            let shape = report.shape;
            let whole = if shape.is_torus() { format!("torus:{shape}") } else { shape.to_string() };
            return wrong(format!(
                "shape is {shape} of {nodes} nodes, the network has {count}; give --topology {whole}"
            ));
        }
        let mut rates: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for pair in &report.pairs {
            let node = |pe: u32| report.placement.get(pe as usize).copied().filter(|node| *node < nodes);
            let (Some(from), Some(to)) = (node(pair.from), node(pair.to)) else {
                return wrong(format!("pairs has {} and {}, and one of them has no place", pair.from, pair.to));
            };
            for (way, flits) in [((from, to), pair.traffic.out.flits), ((to, from), pair.traffic.back.flits)] {
                if flits > 0 {
                    let sum = rates.entry(way).or_default();
                    *sum = sum.saturating_add(flits);
                }
            }
        }
        if rates.is_empty() {
            return wrong("pairs holds no flits; run the program with --path ring, on more than one node".into());
        }
        let mut rows: Rows = vec![(Vec::new(), 1); count as usize];
        for ((from, to), flits) in rates {
            rows[from as usize].0.push((to, flits as f64));
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests;
