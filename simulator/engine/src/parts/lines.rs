//! Files with all points of a sweep: a line that says which sweep it is, then a line of JSON for each point.

use super::about::About;
use super::{damaged, io_error, is_gone};
use crate::Error;
use crate::sweep::Row;
use angara_protocol::whole_file::write_whole;
use serde::{Deserialize, Serialize};
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;

/// The first line.
#[derive(Serialize, Deserialize)]
struct First {
    #[serde(flatten)]
    about: About,
    /// Tells builds of this program apart. Two of them may have different results, whatever their version is.
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
}

/// A finished point: any other line, and what a file of one point holds.
#[derive(Serialize, Deserialize)]
pub(super) struct Line<R> {
    /// Index of the point.
    pub(super) point: usize,
    #[serde(flatten)]
    pub(super) row: R,
}

/// What such a file holds.
pub(super) struct Lines {
    pub(super) about: About,
    program: Option<String>,
    /// The points that are in it; `None` are not.
    pub(super) rows: Vec<Option<Row>>,
}

impl Lines {
    /// Reads `path`, if it is there. A last line that was cut is left out.
    ///
    /// # Errors
    /// A line that is no point of the sweep.
    pub(super) fn read(path: &Path) -> Result<Option<Lines>, Error> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(e) if is_gone(&e) => return Ok(None),
            Err(e) => return Err(io_error(path, e)),
        };
        let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let mut lines = bytes[..whole].split_inclusive(|b| *b == b'\n').zip(1..);
        let Some((first, _)) = lines.next() else { return Ok(None) };
        let First { about, program } =
            serde_json::from_slice(first).map_err(|_| damaged(path, 1, "this begins no sweep; remove the file"))?;
        if about.points > crate::sweep::POINTS_MAX {
            return Err(damaged(path, 1, "no sweep has so many points; remove the file"));
        }
        let mut rows = vec![None; about.points];
        for (text, number) in lines {
            let line = serde_json::from_slice::<Line<Row>>(text).ok().filter(|line| about.has(line.point, &line.row));
            let line = line.ok_or_else(|| damaged(path, number, "no finished point of this sweep; remove the line"))?;
            rows[line.point] = Some(line.row);
        }
        Ok(Some(Lines { about, program, rows }))
    }

    /// Writes the points of a finished sweep.
    pub(super) fn write(path: &Path, about: &About, rows: &[Row]) -> Result<(), Error> {
        let json = |value: &dyn Fn() -> serde_json::Result<String>| value().expect("numbers and names") + "\n";
        let first = First { about: about.clone(), program: program() };
        let mut text = json(&|| serde_json::to_string(&first));
        for (point, row) in rows.iter().enumerate() {
            text += &json(&|| serde_json::to_string(&Line { point, row }));
        }
        write_whole(path, text).map_err(|e| io_error(path, e))
    }

    /// Returns the points of a finished sweep.
    pub(super) fn complete(self) -> Option<Vec<Row>> {
        self.rows.into_iter().collect()
    }

    /// True if this build of the program wrote it.
    pub(super) fn is_ours(&self) -> bool {
        self.program.is_some() && self.program == program()
    }
}

/// Returns what tells this build of the program from others.
fn program() -> Option<String> {
    static PROGRAM: OnceLock<Option<String>> = OnceLock::new();
    PROGRAM.get_or_init(read_program).clone()
}

fn read_program() -> Option<String> {
    let mut file = std::fs::File::open("/proc/self/exe").ok()?;
    let (mut hasher, mut buffer) = (DefaultHasher::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(format!("{:016x}", hasher.finish())),
            n => hasher.write(&buffer[..n]),
        }
    }
}
