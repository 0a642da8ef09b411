//! Reads a timeline again, and finds whatever a viewer would stumble over.

use angara_control::error::Failed;
use angara_net::packed::Unpacked;
use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// How compressed data begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Longest line that an event of ours takes, in bytes, many times over.
const LINE_MAX: u64 = 1 << 16;

/// A call, times in ns since the first one of the job.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Span {
    /// Thread of the PE.
    pub(super) thread: u16,
    /// When it began.
    pub(super) start: u64,
    pub(super) end: u64,
    /// Which routine, as a number of the timeline.
    pub(super) routine: u16,
    /// Cause of the wait: a PE, since when that had done what ended the wait, and whether it was a collective.
    pub(super) cause: Option<Because>,
    /// Bytes of the operation.
    pub(super) bytes: u64,
    /// It was made within another one.
    pub(super) is_inside: bool,
}

/// Cause of a call's wait.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Because {
    /// PE that came late.
    pub(super) pe: u32,
    /// When it did what ended the wait.
    pub(super) at: u64,
    /// Duration of the wait for it.
    pub(super) late: u64,
    /// True for a collective.
    pub(super) together: bool,
}

#[derive(Default)]
pub(super) struct Timeline {
    /// Calls of each PE, in the order of their starts; of those that began together the longest first.
    pub(super) pes: Vec<Vec<Span>>,
    /// Names of routines.
    pub(super) routines: Vec<String>,
    pub(super) arrows: u64,
    /// The file has its end, and nothing is missing.
    pub(super) complete: bool,
    pub(super) virtual_time: bool,
    /// By how much times of PEs of other hosts may be wrong, ns; 0 if there are none.
    pub(super) clock_error: u64,
}

/// A line of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    ph: String,
    name: String,
    pid: u32,
    tid: u16,
    #[serde(default)]
    cat: Option<String>,
    #[serde(default)]
    ts: Option<f64>,
    #[serde(default)]
    dur: Option<f64>,
    #[serde(default)]
    id: Option<u64>,
    #[serde(default)]
    bp: Option<String>,
    #[serde(default)]
    args: Details,
}

/// Members that we read of `args`.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Details {
    bytes: u64,
    inside: bool,
    woken_by: Option<u32>,
    put_at: f64,
    last: Option<u32>,
    last_at: f64,
    late: f64,
    complete: bool,
    arrows: u64,
    clock: String,
    clock_error: f64,
    #[serde(rename = "MB/s")]
    load: Option<f64>,
}

/// Microseconds as nanoseconds.
fn nanoseconds(micro: f64) -> Option<u64> {
    (0.0..1e15).contains(&micro).then(|| (micro * 1000.0).round() as u64)
}

/// Reads the timeline in `file`.
pub(super) fn read(file: &Path) -> Result<Timeline, Failed> {
    let remedy = "give a file written by `angara run --trace FILE.json`";
    let failed = |e: std::io::Error| Failed::usage(format!("cannot read {}: {e}", file.display()), remedy);
    let opened = File::open(file).map_err(failed)?;
    let bytes = opened.metadata().map_err(failed)?.len();
    let mut from = BufReader::new(opened);
    let compressed = from.fill_buf().map_err(failed)?.starts_with(&GZIP);
    let from: Box<dyn Read> =
        if compressed { Box::new(Unpacked::new(MultiGzDecoder::new(from), bytes)) } else { Box::new(from) };
    read_lines(BufReader::new(from)).map_err(|(line, why)| {
        Failed::usage(format!("{} is no timeline of calls: line {line}: {why}", file.display()), remedy)
    })
}

/// Reads the lines of a timeline. Errors: the number of a line, and what is wrong with it.
fn read_lines(mut from: impl BufRead) -> Result<Timeline, (usize, String)> {
    let mut reader = Reader::default();
    let (mut text, mut number) = (Vec::new(), 0);
    loop {
        number += 1;
        text.clear();
        let read = (&mut from).take(LINE_MAX).read_until(b'\n', &mut text);
        match read {
            Ok(0) => break,
            Ok(_) => {}
            // A compressed file that was cut off ends like this.
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof && number > 1 => break,
            Err(e) => return Err((number, e.to_string())),
        }
        let whole = text.ends_with(b"\n");
        let line = text.trim_ascii();
        match (number, line) {
            (1, b"[") => continue,
            (1, _) => return Err((1, "it does not begin with `[`".into())),
            (_, b"]") => {
                reader.closed = true;
                continue;
            }
            _ if reader.closed => return Err((number, "something follows the end".into())),
            // A file that was cut off ends within a line.
            _ if !whole => break,
            _ => {}
        }
        let row = line.strip_suffix(b",").unwrap_or(line);
        reader.add(row).map_err(|why| (number, why))?;
    }
    reader.finish().map_err(|why| (number, why))
}

#[derive(Default)]
struct Reader {
    timeline: Timeline,
    numbers: HashMap<String, u16>,
    /// Arrows that have begun, and where: PE, thread, time.
    open: HashMap<u64, (u32, u16, u64)>,
    closed: bool,
}

impl Reader {
    fn add(&mut self, line: &[u8]) -> Result<(), String> {
        let row: Row = serde_json::from_slice(line).map_err(|e| e.to_string())?;
        let time = |micro: Option<f64>, what: &str| {
            let micro = micro.ok_or_else(|| format!("an event `{}` needs `{what}`", row.ph))?;
            nanoseconds(micro).ok_or_else(|| format!("`{what}` is {micro}"))
        };
        match row.ph.as_str() {
            "M" => {
                self.timeline.virtual_time |= row.args.clock == "virtual";
                let error = nanoseconds(row.args.clock_error).ok_or("`clock_error` is no time")?;
                self.timeline.clock_error = self.timeline.clock_error.max(error);
                if row.name == "trace_end" {
                    (self.timeline.complete, self.timeline.arrows) = (row.args.complete, row.args.arrows);
                }
            }
            "X" => {
                let (start, took) = (time(row.ts, "ts")?, time(row.dur, "dur")?);
                if row.cat.is_none() {
                    return Err("a call needs `cat`".into());
                }
                self.span(row, start, start + took)?;
            }
            "s" => {
                let (id, at) = (row.id.ok_or("an arrow needs `id`")?, time(row.ts, "ts")?);
                if self.open.insert(id, (row.pid, row.tid, at)).is_some() {
                    return Err(format!("arrow {id} begins twice"));
                }
            }
            "f" => {
                let (id, at) = (row.id.ok_or("an arrow needs `id`")?, time(row.ts, "ts")?);
                let Some((.., from)) = self.open.remove(&id) else {
                    return Err(format!("arrow {id} has no beginning"));
                };
                if at < from || row.bp.as_deref() != Some("e") {
                    return Err(format!("arrow {id} ends before it begins, or belongs to no call"));
                }
            }
            "C" => {
                time(row.ts, "ts")?;
                if row.args.load.is_none_or(|load| !(0.0..1e15).contains(&load)) {
                    return Err(format!("the load of link {} needs `MB/s`, at least 0", row.name));
                }
            }
            other => return Err(format!("events `{other}` are none of M, X, C, s and f")),
        }
        Ok(())
    }

    fn span(&mut self, row: Row, start: u64, end: u64) -> Result<(), String> {
        let pe = row.pid as usize;
        if pe >= angara_abi::job::PES_MAX {
            return Err(format!("there is no PE {pe}"));
        }
        let routine = match self.numbers.get(&row.name) {
            Some(number) => *number,
            None => {
                let number = u16::try_from(self.numbers.len()).map_err(|_| "that many routines do not exist")?;
                self.numbers.insert(row.name.clone(), number);
                self.timeline.routines.push(row.name);
                number
            }
        };
        let Details { bytes, inside, woken_by, put_at, last, last_at, late, .. } = row.args;
        let late = nanoseconds(late).ok_or("`late` is no time")?;
        let cause = |pe: Option<u32>, at: f64, together| {
            let (pe, at) = (pe?, nanoseconds(at)?);
            Some(Because { pe, at, late, together })
        };
        let cause = cause(woken_by, put_at, false).or_else(|| cause(last, last_at, true));
        if self.timeline.pes.len() <= pe {
            self.timeline.pes.resize(pe + 1, Vec::new());
        }
        self.timeline.pes[pe].push(Span { thread: row.tid, start, end, routine, cause, bytes, is_inside: inside });
        Ok(())
    }

    fn finish(mut self) -> Result<Timeline, String> {
        if self.closed && !self.open.is_empty() {
            return Err(format!("{} arrows have no end", self.open.len()));
        }
        self.timeline.complete &= self.closed;
        for spans in &mut self.timeline.pes {
            spans.sort_by_key(|span| (span.thread, span.start, std::cmp::Reverse(span.end)));
        }
        Ok(self.timeline)
    }
}

/// Calls that are not part of another one. Times do not tell: calls in virtual time may take none.
pub(super) fn outermost(spans: &[Span]) -> Vec<Span> {
    spans.iter().filter(|span| !span.is_inside).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(rows: &[&str]) -> Result<Timeline, (usize, String)> {
        read_lines(rows.join("\n").as_bytes())
    }

    const CALL: &str = r#"{"ph":"X","name":"shmem_put","cat":"put","pid":1,"tid":0,"ts":1.500,"dur":0.250,"args":{"pe":0,"bytes":8}},"#;

    #[test]
    fn a_file_that_was_cut_off_is_read_up_to_there() {
        let timeline = lines(&["[", CALL, &CALL[..40]]).unwrap();
        assert_eq!(timeline.pes[1].len(), 1);
        assert_eq!((timeline.pes[1][0].start, timeline.pes[1][0].end), (1500, 1750));
        assert!(!timeline.complete);
    }

    #[test]
    fn what_a_viewer_would_stumble_over_is_found() {
        let wrong = |rows: &[&str], what: &str| {
            let Err((_, why)) = lines(rows) else { panic!("taken: {rows:?}") };
            assert!(why.contains(what), "{why}");
        };
        wrong(&["{"], "does not begin");
        wrong(&["[", r#"{"ph":"X","name":"a","cat":"b","pid":0,"tid":0,"ts":1},"#, "]"], "needs `dur`");
        wrong(&["[", r#"{"ph":"B","name":"a","pid":0,"tid":0},"#, "]"], "none of M, X, C, s and f");
        wrong(&["[", r#"{"ph":"C","name":"0,0+X","pid":2,"tid":0,"ts":1,"args":{"MB/s":-1}},"#, "]"], "at least 0");
        wrong(&["[", r#"{"ph":"f","name":"put","id":3,"pid":0,"tid":0,"ts":1,"bp":"e"},"#, "]"], "no beginning");
        wrong(&["[", r#"{"ph":"s","name":"put","id":3,"pid":0,"tid":0,"ts":1},"#, "]", ""], "no end");
        wrong(&["[", r#"{"ph":"M","name":"x","pid":0,"tid":0,"more":1},"#, "]"], "more");
        wrong(&["[", CALL, "]", CALL, ""], "follows");
    }

    #[test]
    fn calls_within_calls_are_told_apart() {
        let inside = CALL.replace(r#""bytes":8"#, r#""bytes":8,"inside":true"#);
        let timeline = lines(&["[", CALL, &inside, CALL, ""]).unwrap();
        assert_eq!(timeline.pes[1].len(), 3);
        assert_eq!(outermost(&timeline.pes[1]).len(), 2, "at the same time, and not within each other");
    }
}
