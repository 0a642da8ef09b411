//! The daemon's log.

use angara_protocol::print::{plain_json, plain_line};
use std::fmt::Debug;
use std::io::{self, Write};
use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{self, debug_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Where lines go.
pub type Writer = Box<dyn Write>;

/// Begins to log what `filter` lets through, as JSON or as text, in colours for a terminal.
pub fn start(filter: &str, json: bool, to: fn() -> Writer, colours: bool) -> Result<(), String> {
    let parsed: Targets = filter
        .parse()
        .map_err(|e| format!("log: `{filter}` is not a filter ({e}); write a level such as info, or fabricd=debug"))?;
    let base = tracing_subscriber::fmt()
        // The filter alone decides.
        .with_max_level(LevelFilter::TRACE)
        .with_writer(to)
        // A log that cannot be written, on a full disk for one, must not end the daemon: complaining about that panics.
        .log_internal_errors(false)
        .with_ansi(colours);
    // Users and other hosts choose some of the values, and logs are read in terminals.
    let field = |out: &mut format::Writer<'_>, field: &Field, value: &dyn Debug| {
        let value = plain_line(&format!("{value:?}"));
        match field.name() {
            "message" => write!(out, "{value}"),
            name => write!(out, "{name}={value}"),
        }
    };
    match json {
        true => base.json().with_writer(move || JsonLog(to())).finish().with(parsed).init(),
        false => base.fmt_fields(debug_fn(field).delimited(" ")).finish().with(parsed).init(),
    }
    Ok(())
}

/// For lines of JSON.
struct JsonLog(Writer);

impl Write for JsonLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.0.write_all(plain_json(&text).as_bytes()).map(|()| line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
