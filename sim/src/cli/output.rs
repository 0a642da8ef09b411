//! Where results go.

use crate::Error;
use crate::plot::Chart;
use serde::Serialize;
use std::path::Path;

/// Prints `report` as JSON or, for people, as `text`.
pub(super) fn print(json: bool, report: &impl Serialize, text: impl FnOnce() -> String) {
    if json {
        println!("{}", serde_json::to_string_pretty(report).expect("reports hold only numbers and names"));
    } else {
        print!("{}", text());
    }
}

/// Writes `chart` as SVG.
pub(super) fn write_chart(path: &Path, chart: &Chart) -> Result<(), Error> {
    write(path, &chart.svg()?)
}

/// Writes a text file.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|source| Error::File { path: path.into(), source })
}
