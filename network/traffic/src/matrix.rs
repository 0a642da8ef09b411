//! Matrices of rates: lines of as many numbers as there are of a kind, or lines `SRC DST RATE`, which is also the table
//! of Noxim.

use crate::{Error, TextFile};
use std::collections::HashMap;

/// Columns of Noxim's table.
const NOXIM: [&str; 7] = ["src", "dst", "pir", "por", "t_on", "t_off", "t_period"];

/// Destinations and rates of each source, with the first of its lines.
pub type Rows = Vec<(Vec<(u32, f64)>, usize)>;

/// The rates that `file` gives each of `count` of a kind, such as nodes.
///
/// # Errors
/// A line is wrong, or there are too many or too few.
pub fn rows(file: &TextFile, (count, kind): (u32, &str)) -> Result<Rows, Error> {
    let matrix = Matrix(file);
    if matrix.is_dense(count) { matrix.dense((count, kind)) } else { matrix.pairs((count, kind)) }
}

struct Matrix<'a>(&'a TextFile);

impl Matrix<'_> {
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
}
