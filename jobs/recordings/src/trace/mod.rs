//! Timelines: `angara run --trace FILE` and `angara trace`.
//!
//! PEs note their calls in files of a directory beside FILE ([`crate::notes`]); [`loads`] looks at links meanwhile. When
//! the job has ended all are merged:
//! [`wakers`] finds what each wait and collective waited for, [`messages`] what calls of MPI did, and [`chrome`] writes the timeline. [`events`] reads such
//! a file again, strictly, and [`summary`] and [`path`] say where its time went.

mod chrome;
mod events;
mod loads;
mod messages;
mod path;
pub mod summary;
mod wakers;

use crate::notes::{Away, Calls, Notes};
use angara_abi::JobId;
use angara_control::daemon::Control;
use angara_control::error::Failed;
use angara_control::report::check_writable;
use angara_net::torus::Shape;
use angara_protocol::calls::Action;
use chrome::Writer;
use indicatif::{ProgressBar, ProgressStyle};
use loads::{Loads, Looks};
use messages::Messages;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use wakers::{Causes, Errors, Event, Watched};

/// A timeline, which is made of the notes of a job's PEs.
pub struct Trace {
    file: PathBuf,
    /// Most links with tracks of their own.
    links: u32,
    /// Looks at links that go on.
    looks: Option<Looks>,
    /// Loads of the links, and why they are not complete, if so.
    loads: (Loads, Option<Failed>),
}

impl Trace {
    /// Prepares a timeline in `file`, with tracks of N links.
    pub fn new(file: &Path, links: u32) -> Result<Trace, Failed> {
        check_writable(file, "--trace")?;
        let file = std::path::absolute(file).map_err(|e| Failed::unwritten(file.display(), &e))?;
        Ok(Trace { file, links, looks: None, loads: Default::default() })
    }

    /// The timeline's file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Begins to look at links of the daemon in `dir`, if they are wanted; before the job sends anything.
    pub async fn begin(&mut self, dir: &Path, virtual_time: bool) -> Result<(), Failed> {
        if self.links > 0 && !virtual_time {
            self.looks = Some(Looks::begin(dir).await?);
        }
        Ok(())
    }

    /// Looks at links for the last time, while the daemon still knows the job.
    pub async fn end(&mut self, control: &mut Control, job: JobId) {
        self.loads = match self.looks.take() {
            Some(looks) => looks.end().await,
            None if self.links > 0 => match loads::noted(control, job).await {
                Ok(loads) => (loads, None),
                Err(e) => (Loads::default(), Some(e)),
            },
            None => return,
        };
    }

    /// Writes the timeline of what `pes` PEs have noted on a network of `shape`. The result says what is missing, if something is.
    pub fn write(&self, notes: &Notes, pes: u32, shape: Shape) -> Result<Option<String>, Failed> {
        let failed = |e: io::Error| Failed::unwritten(format!("the timeline {}", self.file.display()), &e);
        self.merge(notes, pes, shape).map_err(failed)
    }

    fn merge(&self, notes: &Notes, pes: u32, shape: Shape) -> io::Result<Option<String>> {
        let away = notes.away(pes);
        let (mut watched, mut origin, mut count) = (Watched::new(errors(&away)), u64::MAX, 0u64);
        let mut all = notes.read(pes)?;
        for calls in all.iter_mut().flatten() {
            while let Some(call) = next_call(calls)? {
                (origin, count) = (origin.min(call.start), count + 1);
                watched.add(calls.head.pe, &call);
            }
        }
        let silent = all.iter().filter(|calls| calls.is_none()).count();
        let cut = all.iter().flatten().filter(|calls| calls.full).count();
        let mut all = notes.read(pes)?;
        let mut writer = Writer::new(&self.file, origin)?;
        let progress = progress(count);
        for calls in all.iter().flatten() {
            writer.pe(&calls.head, shape, away[calls.head.pe as usize].as_ref())?;
        }
        let mut causes = Causes::new(pes as usize, watched);
        let (mut messages, mut names) = (Messages::default(), Names::default());
        // The next call of each PE, by its end.
        let mut next = BinaryHeap::new();
        let mut heads: Vec<_> = (0..pes as usize).map(|_| None).collect();
        for (pe, calls) in all.iter_mut().enumerate() {
            advance(pe, calls, &mut heads, &mut next, &mut causes)?;
        }
        while let Some(Reverse((_, pe))) = next.pop() {
            let mut call: angara_protocol::calls::Call = heads[pe].take().expect("it is in the queue");
            let calls = all[pe].as_ref().expect("it has given a call");
            progress.inc(1);
            match call.action {
                Action::Message { .. } => {
                    if let Some(arrow) = messages.add(pe as u32, &call) {
                        writer.message(&arrow)?;
                    }
                }
                Action::Mpi { .. } => {
                    call.routine = names.number(calls.text(call.routine));
                    let cause = messages.settle(pe as u32, &mut call);
                    writer.call(&Event { pe: pe as u32, call, cause }, names.of(call.routine))?;
                }
                _ => {
                    call.routine = names.number(calls.text(call.routine));
                    causes.add(pe as u32, call, &mut |event| writer.call(&event, names.of(event.call.routine)))?;
                }
            }
            advance(pe, &mut all[pe], &mut heads, &mut next, &mut causes)?;
        }
        causes.finish(&mut |event| writer.call(&event, names.of(event.call.routine)))?;
        let (loads, blind) = &self.loads;
        writer.links(pes, &loads.hottest(self.links, shape))?;
        let lacking = notes.lacking();
        writer.finish(cut > 0 || blind.is_some() || !lacking.is_empty())?;
        progress.finish_and_clear();
        let mut missing = Vec::new();
        match (silent, cut) {
            (0, 0) => {}
            (0, cut) => missing.push(format!("{cut} PEs could not note all of their calls")),
            (silent, 0) if silent == pes as usize && lacking.is_empty() => {
                missing.push("no PE has noted a call; only programs for OpenSHMEM and MPI do".into());
            }
            (silent, 0) => missing.push(format!("{silent} PEs have noted no call")),
            (silent, cut) => {
                missing.push(format!("{silent} PEs have noted no call, and {cut} could not note all of theirs"));
            }
        }
        missing.extend(lacking);
        missing.extend(blind.as_ref().map(|why| format!("links were not seen to the end: {}", why.message)));
        Ok((!missing.is_empty()).then(|| missing.join("; ")))
    }
}

/// How well times of PEs can be compared that are away on other hosts.
fn errors(away: &[Option<Away>]) -> Errors {
    let mut hosts = vec![None];
    let of = away.iter().map(|away| {
        let host = away.as_ref().map(|away| &away.host);
        let number = hosts.iter().position(|known| *known == host).unwrap_or_else(|| {
            hosts.push(host);
            hosts.len() - 1
        });
        (number, away.as_ref().map_or(0, |away| away.error))
    });
    Errors::new(of.collect())
}

/// Shows on a terminal how many of `calls` are in the timeline, where there are so many that it takes a while.
fn progress(calls: u64) -> ProgressBar {
    if calls < 1_000_000 {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("timeline: {human_pos} of {human_len} calls, {eta} left");
    ProgressBar::new(calls).with_style(style.expect("it is well formed"))
}

/// The next call; accesses of the program itself have no place in a timeline.
fn next_call(calls: &mut Calls) -> io::Result<Option<angara_protocol::calls::Call>> {
    loop {
        match calls.next_call()? {
            Some(call) if matches!(call.action, Action::Access { .. }) => {}
            next => return Ok(next),
        }
    }
}

/// Reads the next call of `pe`.
fn advance(
    pe: usize,
    calls: &mut Option<Calls>,
    heads: &mut [Option<angara_protocol::calls::Call>],
    next: &mut BinaryHeap<Reverse<(u64, usize)>>,
    causes: &mut Causes,
) -> io::Result<()> {
    match calls.as_mut().map(next_call).transpose()?.flatten() {
        Some(call) => {
            next.push(Reverse((call.end, pe)));
            heads[pe] = Some(call);
        }
        None => causes.ended(pe as u32),
    }
    Ok(())
}

/// Names of routines, which each PE numbers for itself, as strings of JSON.
#[derive(Default)]
struct Names {
    numbers: HashMap<String, u32>,
    names: Vec<String>,
}

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.numbers.insert(name.into(), number);
        self.names.push(serde_json::Value::from(name).to_string());
        number
    }

    fn of(&self, number: u32) -> &str {
        &self.names[number as usize]
    }
}
