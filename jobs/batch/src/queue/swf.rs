//! The Standard Workload Format of the Parallel Workloads Archive (S. Chapin and others, "Benchmarks and
//! standards for the evaluation of parallel job schedulers", JSSPP 1999): one job a line, 18 numbers,
//! -1 where one is not known; lines that begin with `;` are comments, `; Key: Value` at the head.

use super::Job;
use angara_control::error::Failed;
use angara_net::packed::Unpacked;
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// Fields that every line has.
const FIELDS: usize = 18;
/// Longest line, so that a file that is no log does not fill the memory.
const LINE_MAX: u64 = 1 << 16;
/// Largest number: times and sizes add up without overflow.
const NUMBER_MAX: f64 = 1e15;

/// Fields by their place.
const NUMBER: usize = 0;
const SUBMIT: usize = 1;
const WAIT: usize = 2;
const RUN: usize = 3;
const USED: usize = 4;
const ASKED: usize = 7;
const ESTIMATE: usize = 8;
const STATUS: usize = 10;

/// A line of a log.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// A comment, without its `;`.
    Comment(String),
    /// A job.
    Record(Record),
}

/// A job's line: its fields as they are written, also those beyond the standard ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    fields: Vec<String>,
    numbers: [f64; FIELDS],
}

impl Record {
    /// Sets how long the job waited.
    pub fn set_wait(&mut self, seconds: u64) {
        self.fields[WAIT] = seconds.to_string();
        self.numbers[WAIT] = seconds as f64;
    }

    /// The line of a job of a model.
    pub fn of(job: &Job) -> Record {
        let mut fields = vec!["-1".to_string(); FIELDS];
        for (field, value) in [
            (NUMBER, job.number),
            (SUBMIT, job.submit),
            (RUN, job.run),
            (USED, job.nodes as u64),
            (ASKED, job.nodes as u64),
            (ESTIMATE, job.estimate),
            (STATUS, 1),
        ] {
            fields[field] = value.to_string();
        }
        let numbers = std::array::from_fn(|k| fields[k].parse().expect("written above"));
        Record { fields, numbers }
    }
}

angara_net::words! {
    /// What becomes of jobs that the machine has not enough nodes for.
    #[derive(Debug)]
    pub enum Oversized {
        /// The log is refused
        Refuse = "refuse",
        /// They are left out
        Skip = "skip",
    }
}

/// How a log is read.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Nodes that work.
    pub nodes: usize,
    /// Processors of a node.
    pub processors: usize,
    /// Jobs larger than the machine.
    pub oversized: Oversized,
}

/// Jobs that were left out, and what was changed of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Notes {
    /// Run time or size is -1, not known; or the job was cancelled before it started.
    pub unknown: usize,
    /// Run time 0.
    pub instant: usize,
    /// Parts of jobs that were restarted (status 2 to 4), which are also in a line of the whole.
    pub parts: usize,
    /// Larger than the machine.
    pub oversized: usize,
    /// Estimates shorter than the run time, raised to it.
    pub raised: usize,
}

/// Reads a log line by line, plain or compressed.
pub struct Reader {
    path: PathBuf,
    input: Box<dyn BufRead>,
    line: u64,
}

impl Reader {
    /// Opens a log.
    pub fn open(path: &Path) -> Result<Reader, Failed> {
        let unread = |e: std::io::Error| {
            Failed::usage(
                format!("cannot read {}: {e}", path.display()),
                "name a log in the Standard Workload Format (--log)",
            )
        };
        let file = File::open(path).map_err(unread)?;
        let bytes = file.metadata().map_err(unread)?.len();
        let mut input = BufReader::new(file);
        let compressed = input.fill_buf().map_err(unread)?.starts_with(&[0x1f, 0x8b]);
        let input: Box<dyn BufRead> = if compressed {
            Box::new(BufReader::new(Unpacked::new(MultiGzDecoder::new(input), bytes)))
        } else {
            Box::new(input)
        };
        Ok(Reader { path: path.to_path_buf(), input, line: 0 })
    }

    /// A mistake in the line read last.
    fn wrong(&self, what: impl std::fmt::Display, remedy: impl Into<String>) -> Failed {
        Failed::usage(format!("{}, line {}: {what}", self.path.display(), self.line), remedy)
    }

    /// The next line that is not empty.
    pub fn line(&mut self) -> Result<Option<Line>, Failed> {
        loop {
            let mut bytes = Vec::new();
            let read = self.input.by_ref().take(LINE_MAX).read_until(b'\n', &mut bytes);
            self.line += 1;
            match read {
                Ok(0) => return Ok(None),
                Ok(n) if n as u64 == LINE_MAX && !bytes.ends_with(b"\n") => {
                    let what = format!("longer than {LINE_MAX} bytes");
                    return Err(self.wrong(what, "name a log in the Standard Workload Format"));
                }
                Ok(_) => {}
                Err(e) => return Err(self.wrong(format!("cannot be read: {e}"), "copy or download the log again")),
            }
            // Comments have names in all kinds of encodings.
            let text = String::from_utf8_lossy(&bytes);
            let text = text.trim_end_matches(['\n', '\r']);
            match text.trim_start().strip_prefix(';') {
                Some(comment) => return Ok(Some(Line::Comment(comment.to_string()))),
                None if text.trim().is_empty() => {}
                None => return self.record(text).map(|record| Some(Line::Record(record))),
            }
        }
    }

    fn record(&self, text: &str) -> Result<Record, Failed> {
        let fields: Vec<String> = text.split_whitespace().map(str::to_string).collect();
        if fields.len() < FIELDS {
            let what = format!("{} fields; a job has {FIELDS}", fields.len());
            return Err(self.wrong(what, "complete the line, with -1 for what is not known"));
        }
        let mut numbers = [0.0; FIELDS];
        for (index, number) in numbers.iter_mut().enumerate() {
            let parsed = fields[index].parse::<f64>().ok().filter(|n| n.abs() <= NUMBER_MAX);
            *number = parsed.ok_or_else(|| {
                let what = format!("field {} is `{}`, not a number up to {NUMBER_MAX:e}", index + 1, fields[index]);
                self.wrong(what, "correct it, or write -1 if it is not known")
            })?;
        }
        Ok(Record { fields, numbers })
    }

    /// A field that is -1 or not negative, in whole seconds or processors; `None` if it is -1.
    fn known(&self, record: &Record, field: usize, name: &str) -> Result<Option<u64>, Failed> {
        let number = record.numbers[field];
        if number == -1.0 {
            return Ok(None);
        }
        if number < 0.0 {
            let what = format!("{name} (field {}) is {}", field + 1, record.fields[field]);
            return Err(self.wrong(what, "write -1 if it is not known; anything else is at least 0"));
        }
        Ok(Some(number.round() as u64))
    }

    /// The job of a record; `None` if it is left out, and `notes` says why.
    pub fn job(&self, record: &Record, reading: &Reading, notes: &mut Notes) -> Result<Option<Job>, Failed> {
        let known = |field, name| self.known(record, field, name);
        let Some(submit) = known(SUBMIT, "submit time")? else {
            return Err(self.wrong("submit time (field 2) is -1", "give every job one: its order depends on it"));
        };
        let run = known(RUN, "run time")?;
        let processors = match known(USED, "number of processors")? {
            None | Some(0) => known(ASKED, "number of processors asked for")?,
            used => used,
        };
        let estimate = known(ESTIMATE, "requested time")?;
        if (2.0..=4.0).contains(&record.numbers[STATUS]) {
            notes.parts += 1;
            return Ok(None);
        }
        let (Some(run), Some(processors @ 1..)) = (run, processors) else {
            notes.unknown += 1;
            return Ok(None);
        };
        if run == 0 {
            notes.instant += 1;
            return Ok(None);
        }
        let nodes = processors.div_ceil(reading.processors as u64) as usize;
        let number = record.numbers[NUMBER].max(0.0) as u64;
        if nodes > reading.nodes {
            if reading.oversized == Oversized::Refuse {
                let what = format!("job {number} takes {nodes} nodes; {} work", reading.nodes);
                return Err(self.wrong(what, "leave such jobs out with `--oversized skip`, or take a larger --torus"));
            }
            notes.oversized += 1;
            return Ok(None);
        }
        let asked = estimate.filter(|&asked| asked > 0).unwrap_or(run);
        notes.raised += usize::from(asked < run);
        Ok(Some(Job { number, submit, nodes, run, estimate: asked.max(run) }))
    }
}

/// Reads the jobs of a log. Submit times count from the first job.
pub fn jobs(path: &Path, reading: &Reading) -> Result<(Vec<Job>, Notes), Failed> {
    let mut reader = Reader::open(path)?;
    let (mut jobs, mut notes) = (Vec::new(), Notes::default());
    let mut last = None;
    while let Some(line) = reader.line()? {
        let Line::Record(record) = line else { continue };
        let submit = record.numbers[SUBMIT];
        if last.is_some_and(|last| submit < last) {
            let what = format!("submit time (field 2) is {submit}, less than {} before", last.unwrap_or_default());
            let remedy = "sort the log by submit time: grep '^;' FILE; grep -v '^;' FILE | sort -n -s -k 2,2";
            return Err(reader.wrong(what, remedy));
        }
        last = Some(submit);
        jobs.extend(reader.job(&record, reading, &mut notes)?);
    }
    if jobs.is_empty() {
        let what = format!("{} has no job that ran", path.display());
        return Err(Failed::usage(what, "name a log in the Standard Workload Format (--log)"));
    }
    let first = jobs[0].submit;
    jobs.iter_mut().for_each(|job: &mut Job| job.submit -= first);
    Ok((jobs, notes))
}

/// Writes one line.
pub fn write(out: &mut dyn Write, line: &Line) -> std::io::Result<()> {
    match line {
        Line::Comment(text) => writeln!(out, ";{text}"),
        Line::Record(record) => writeln!(out, "{}", record.fields.join(" ")),
    }
}

#[cfg(test)]
mod tests;
