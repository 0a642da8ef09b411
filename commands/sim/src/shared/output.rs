//! Where results go.

use angara_cli::shared::word;
use angara_protocol::whole_file::write_whole;
use angara_sim::Error;
use angara_sim::plot::{Chart, Scale};
use clap::Args;
use serde::Serialize;
use std::path::Path;

/// Prints `report` as JSON or, for people, as `text`.
pub(crate) fn print(json: bool, report: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Error> {
    if json {
        say(&(serde_json::to_string_pretty(report).expect("reports hold only numbers and names") + "\n"))
    } else {
        say(&text())
    }
}

/// Prints text. A reader that has seen enough, such as `head`, is no error.
pub(crate) fn say(text: &str) -> Result<(), Error> {
    angara_protocol::print::out(text).map_err(|source| Error::File { path: "standard output".into(), source })
}

angara_net::words! {
    /// How a chart is written.
    #[derive(Debug)]
    pub(crate) enum Format {
        /// A picture for browsers.
        Svg = "svg",
        /// A page for papers.
        Pdf = "pdf",
        /// A script NAME.gp and its data NAME.dat.
        Gnuplot = "gnuplot",
    }
}

impl Format {
    /// Returns the format that the name of a file asks for: SVG unless that says something else.
    pub(crate) fn of(path: &Path) -> Format {
        match path.extension().and_then(|e| e.to_str()) {
            Some("pdf") => Format::Pdf,
            Some("gp") => Format::Gnuplot,
            _ => Format::Svg,
        }
    }
}

/// Axes of charts.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Axes {
    /// Horizontal axis of charts: linear, logarithmic (without points at or below 0) or linear from 0 on [default: that of
    /// the chart]
    #[arg(long, value_parser = word::<Scale>(), value_name = "SCALE")]
    x_axis: Option<Scale>,
    /// Vertical axis of charts, likewise
    #[arg(long, value_parser = word::<Scale>(), value_name = "SCALE")]
    y_axis: Option<Scale>,
}

impl Axes {
    pub(crate) fn of(self, chart: Chart) -> Chart {
        chart.scaled(self.x_axis, self.y_axis)
    }
}

/// Refuses a file that could not be written later: `option` asked for it.
pub(crate) fn check_file(option: &str, path: &Path) -> Result<(), Error> {
    let directory = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match directory.is_dir() && !path.is_dir() {
        true => Ok(()),
        false => Err(Error::invalid(option, path.display(), "give a file in a directory that exists")),
    }
}

/// Writes `chart` in the format that the file's name asks for.
pub(crate) fn write_chart(path: &Path, chart: &Chart) -> Result<(), Error> {
    write_as(path, chart, Format::of(path))
}

/// Writes `chart` as `name` with the extensions of `formats` into a directory.
pub(crate) fn write_charts(dir: &Path, name: &str, chart: &Chart, formats: &[Format]) -> Result<(), Error> {
    // Names may have dots.
    let file = |extension: &str| dir.join(format!("{name}.{extension}"));
    formats.iter().try_for_each(|format| match format {
        Format::Svg => write_as(&file("svg"), chart, *format),
        Format::Pdf => write_as(&file("pdf"), chart, *format),
        Format::Gnuplot => write_as(&file("gp"), chart, *format),
    })
}

fn write_as(path: &Path, chart: &Chart, format: Format) -> Result<(), Error> {
    match format {
        Format::Svg => write(path, chart.svg()?),
        Format::Pdf => write(path, chart.pdf()?),
        Format::Gnuplot => {
            let data = path.with_extension("dat");
            let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
            let (script, points) = chart.gnuplot(&text(path.file_stem()), &text(data.file_name()))?;
            write(&data, points)?;
            write(path, script)
        }
    }
}

/// Writes a file.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Error> {
    write_whole(path, content).map_err(|source| Error::File { path: path.into(), source })
}
