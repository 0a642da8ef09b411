//! The file in which a sweep keeps its finished points until all are there.
//!
//! Its first line says which sweep it belongs to; then comes a line of JSON for every finished point, in the order in
//! which they ended. A sweep that was ended, however, goes on from there.

use crate::Error;
use crate::sweep::{Row, Sweep};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// The first line.
#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Header {
    /// Tells sweeps apart: see [`Sweep::digest`].
    sweep: String,
    /// Number of its points.
    points: usize,
}

/// Any other line.
#[derive(Serialize, Deserialize)]
struct Line<R> {
    /// Index of the point.
    point: usize,
    #[serde(flatten)]
    row: R,
}

/// Finished points of a sweep that has not ended.
#[derive(Debug)]
pub(crate) struct Partial {
    path: PathBuf,
    file: File,
}

impl Partial {
    /// Opens or creates the file `path` of `sweep`. Also the points that are finished; others are `None`.
    ///
    /// # Errors
    /// The file cannot be used, or holds something else.
    pub(crate) fn open(path: &Path, sweep: &Sweep) -> Result<(Partial, Vec<Option<Row>>), Error> {
        let failed = |source| Error::File { path: path.into(), source };
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        // Behind the last end of a line there is one that was cut.
        let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let mut lines = bytes[..whole].split_inclusive(|b| *b == b'\n').zip(1..);
        let header = Header { sweep: sweep.digest(), points: sweep.points.len() };
        let begun = match lines.next() {
            None => false,
            Some((line, _)) if serde_json::from_slice::<Header>(line).is_ok_and(|there| there == header) => true,
            Some(_) => {
                let why = "it holds points of another sweep, or of another version of this program; \
                           remove it, or name another directory with --out";
                return Err(damaged(path, 1, why));
            }
        };
        let mut rows = vec![None; sweep.points.len()];
        for (text, number) in lines {
            let line = serde_json::from_slice::<Line<Row>>(text).ok().filter(|line| sweep.has(line.point, &line.row));
            let line = line.ok_or_else(|| damaged(path, number, "no finished point of this sweep; remove the line"))?;
            rows[line.point] = Some(line.row);
        }
        file.set_len(whole as u64).map_err(failed)?;
        let mut partial = Partial { path: path.into(), file };
        if !begun {
            partial.write(&header)?;
        }
        Ok((partial, rows))
    }

    /// Keeps a finished point.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn keep(&mut self, point: usize, row: &Row) -> Result<(), Error> {
        self.write(&Line { point, row })
    }

    /// Removes the file: what it held is elsewhere.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(crate) fn remove(self) -> Result<(), Error> {
        match std::fs::remove_file(&self.path) {
            Err(source) if source.kind() != ErrorKind::NotFound => Err(Error::File { path: self.path, source }),
            _ => Ok(()),
        }
    }

    fn write(&mut self, line: &impl Serialize) -> Result<(), Error> {
        let line = serde_json::to_string(line).expect("rows hold only numbers and names") + "\n";
        self.file.write_all(line.as_bytes()).map_err(|source| Error::File { path: self.path.clone(), source })
    }
}

fn damaged(path: &Path, line: usize, message: &str) -> Error {
    Error::Setting { path: path.into(), line, message: message.into() }
}
