//! Where results go.

use crate::Error;
use crate::plot::Chart;
use angara_protocol::whole_file::write_whole;
use serde::Serialize;
use std::path::Path;

/// Prints `report` as JSON or, for people, as `text`.
pub(super) fn print(json: bool, report: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Error> {
    if json {
        say(&(serde_json::to_string_pretty(report).expect("reports hold only numbers and names") + "\n"))
    } else {
        say(&text())
    }
}

/// Prints text. A reader that has seen enough, such as `head`, is no error.
pub(super) fn say(text: &str) -> Result<(), Error> {
    angara_protocol::print::out(text).map_err(|source| Error::File { path: "standard output".into(), source })
}

/// Writes `chart` as SVG.
pub(super) fn write_chart(path: &Path, chart: &Chart) -> Result<(), Error> {
    write(path, &chart.svg()?)
}

/// Writes a text file.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Error> {
    write_whole(path, text).map_err(|source| Error::File { path: path.into(), source })
}
