//! Rates of all pairs of ranks, from a file.
//!
//! Three forms are read. Lines of as many numbers as there are nodes are a matrix: a line per source. Other lines are `SRC DST RATE`, which is also the table of Noxim. An object of JSON
//! is a report of `angara run --report`: its rates are the flits that went from node to node.

use super::alias::Alias;
use super::file::TextFile;
use super::weights::Weights;
use crate::Error;
use angara_net::torus::Shape;
use angara_protocol::msg::PairReport;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};

/// Columns of Noxim's table.
const NOXIM: [&str; 7] = ["src", "dst", "pir", "por", "t_on", "t_off", "t_period"];
/// Version of the reports that are read.
pub(super) const REPORT_FORMAT: u32 = 2;

/// A file of rates.
#[derive(Clone, PartialEq, Debug)]
pub struct Matrix(TextFile);

/// Rates of each source, with the first of its lines.
pub(super) type Rows = Vec<(Vec<(u32, f64)>, usize)>;

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
        TextFile::read("pattern", pattern, path).map(Matrix)
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
            self.rows((count, "nodes"))?
        };
        let sum = |(row, line): &(Vec<(u32, f64)>, usize)| (row.iter().map(|(_, rate)| rate).sum(), *line);
        let sums: Vec<(f64, usize)> = rows.iter().map(sum).collect();
        if let Some((_, line)) = sums.iter().find(|(sum, _)| !sum.is_finite()) {
            return Err(self.0.wrong(*line, "the rates of this source have no finite sum; give smaller ones"));
        }
        let weights = Weights::new(self.0.clone(), sums)?;
        Ok((rows.iter().map(|(row, _)| Alias::new(row)).collect(), weights))
    }

    /// Rates of each of so many of a kind, such as nodes, if the file is no report.
    pub(super) fn rows(&self, of: (u32, &str)) -> Result<Rows, Error> {
        if self.is_dense(of.0) { self.dense(of) } else { self.pairs(of) }
    }

    /// True for a line per rank; lines of three to seven words are pairs unless there are as many ranks.
    fn is_dense(&self, count: u32) -> bool {
        let Some((_, words)) = self.0.lines().next() else { return false };
        let columns = words.count();
        // A comment with `%` is Noxim's.
        let noxim = self.0.text().lines().any(|line| line.trim_start().starts_with('%'));
        !noxim && (columns == count as usize || !(3..=NOXIM.len()).contains(&columns))
    }

    fn dense(&self, (count, kind): (u32, &str)) -> Result<Rows, Error> {
        let mut rows: Rows = Vec::new();
        let mut last = 1;
        for (line, words) in self.0.lines() {
            if rows.len() == count as usize {
                let why = format!("line {} of a matrix for {count} {kind}", count + 1);
                let remedy = "end it before, or add a line that begins with % if lines are SRC DST RATE";
                return Err(self.0.wrong(line, format!("{why}; {remedy}")));
            }
            let rates = words.map(|word| self.0.rate(line, word)).collect::<Result<Vec<f64>, _>>()?;
            if rates.len() != count as usize {
                let why = format!(
                    "{} numbers, where a matrix for {count} {kind} has {count} in each line; or write lines SRC DST RATE",
                    rates.len()
                );
                return Err(self.0.wrong(line, why));
            }
            rows.push(((0..).zip(rates).filter(|(_, rate)| *rate > 0.0).collect(), line));
            last = line;
        }
        if rows.len() != count as usize {
            let why = format!("{} lines, where a matrix for {count} {kind} has {count}", rows.len());
            let remedy = "add those missing, or a line that begins with % if lines are SRC DST RATE";
            return Err(self.0.wrong(last, format!("{why}; {remedy}")));
        }
        Ok(rows)
    }

    fn pairs(&self, of: (u32, &str)) -> Result<Rows, Error> {
        let mut rows: Rows = vec![(Vec::new(), 1); of.0 as usize];
        let mut seen = HashMap::new();
        for (line, words) in self.0.lines() {
            let words: Vec<&str> = words.collect();
            let [source, target, rate, ref more @ ..] = words[..] else {
                let why = format!("`{}` is no pair; write SRC DST RATE", words.join(" "));
                return Err(self.0.wrong(line, why));
            };
            let source_rank = self.0.number_of(line, "source", source, of)?;
            let to = self.0.number_of(line, "target", target, of)?;
            let value = self.0.rate(line, rate)?;
            self.refuse_noxim(line, rate, more)?;
            if let Some(first) = seen.insert((source_rank, to), line) {
                let why = format!("{source} {target} has its rate in line {first}; give each pair once");
                return Err(self.0.wrong(line, why));
            }
            let row = &mut rows[source_rank as usize];
            if row.0.is_empty() {
                row.1 = line;
            }
            row.0.push((to, value));
        }
        Ok(rows)
    }

    /// Refuses columns of Noxim's table that change what a source does.
    fn refuse_noxim(&self, line: usize, pir: &str, more: &[&str]) -> Result<(), Error> {
        let number = |word: &str| self.0.rate(line, word);
        let bad = |column: usize, why: &str| {
            Err(self.0.wrong(line, format!("{} is {}: {why}", NOXIM[column], more[column - 3])))
        };
        if more.len() + 3 > NOXIM.len() {
            let why = format!("{} columns; write SRC DST RATE, or those of Noxim: {}", more.len() + 3, NOXIM.join(" "));
            return Err(self.0.wrong(line, why));
        }
        let values = more.iter().map(|word| number(word)).collect::<Result<Vec<f64>, _>>()?;
        match values[..] {
            [por, ..] if por != number(pir)? => bad(
                3,
                "a rate that depends on the last cycle is not supported; make it equal to pir, and see --process",
            ),
            [_, on, ..] if on != 0.0 => bad(4, "times of silence are not supported; make it 0"),
            [_, _, _, period] if values[2] < period => {
                bad(5, "times of silence are not supported; make it equal to t_period")
            }
            [_, _, _] => bad(5, "times of silence are not supported; leave it out"),
            _ => Ok(()),
        }
    }

    fn report(&self, count: u32) -> Result<Rows, Error> {
        let report: Reported = serde_json::from_str(self.0.text()).map_err(|e| {
            let why = format!("this is no report of `angara run --report` ({e}); give one, or lines SRC DST RATE");
            self.0.wrong(e.line().max(1), why)
        })?;
        let wrong = |why: String| Err(self.0.wrong(1, why));
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
