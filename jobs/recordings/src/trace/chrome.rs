//! Writes the JSON that Perfetto and chrome://tracing load: a list of events, one to a line.
//!
//! Times are microseconds since the first call of the job, with three decimals.

use super::loads::Track;
use super::messages::Arrow;
use super::wakers::{Cause, Event};
use crate::notes::Away;
use angara_net::torus::Shape;
use angara_protocol::calls::{Action, Head, Meeting, MpiKind};
use angara_protocol::print::plain_line;
use angara_protocol::whole_file::WholeFile;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::HashSet;
use std::fmt::Display;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Where the text goes.
enum Sink {
    Plain(BufWriter<WholeFile>),
    // Events come in many small pieces, which the compressor would look at one by one.
    Compressed(BufWriter<GzEncoder<WholeFile>>),
}

impl Write for Sink {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Plain(out) => out.write(text),
            Sink::Compressed(out) => out.write(text),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Plain(out) => out.flush(),
            Sink::Compressed(out) => out.flush(),
        }
    }
}

/// A timeline that is being written.
pub(super) struct Writer {
    out: Sink,
    /// Time of the first call, ns.
    origin: u64,
    /// Arrows so far.
    arrows: u64,
    /// PEs' threads that have a name.
    named: HashSet<(u32, u16)>,
}

/// Nanoseconds as microseconds.
struct Micro(u64);

impl Display for Micro {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

impl Writer {
    /// Begins a file of calls that began at `origin` at the earliest; compressed if its name ends in `.gz`.
    pub(super) fn new(file: &Path, origin: u64) -> io::Result<Writer> {
        let out = WholeFile::create(file)?;
        let out = match file.extension().is_some_and(|ending| ending == "gz") {
            true => Sink::Compressed(BufWriter::new(GzEncoder::new(out, Compression::fast()))),
            false => Sink::Plain(BufWriter::new(out)),
        };
        let mut writer = Writer { out, origin, arrows: 0, named: HashSet::new() };
        writer.out.write_all(b"[\n")?;
        Ok(writer)
    }

    /// Names the track of a PE, which may be away on another host.
    pub(super) fn pe(&mut self, head: &Head, shape: Shape, away: Option<&Away>) -> io::Result<()> {
        let Head { pe, pid, node, virtual_time, .. } = *head;
        // Two runs in virtual time are equal.
        let pid = if virtual_time { 0 } else { pid };
        let coords: Vec<String> = shape.coords(node).0[..shape.dims().len()].iter().map(u8::to_string).collect();
        let clock = if virtual_time { "virtual" } else { "wall" };
        let host = away.map_or(String::new(), |away| {
            let name = serde_json::Value::from(plain_line(&away.host));
            format!(r#","host":{name},"clock_error":{}"#, Micro(away.error))
        });
        writeln!(
            self.out,
            r#"{{"ph":"M","name":"process_name","pid":{pe},"tid":0,"args":{{"name":"PE {pe}","node":"{}","process":{pid},"clock":"{clock}"{host}}}}},"#,
            coords.join(",")
        )?;
        writeln!(
            self.out,
            r#"{{"ph":"M","name":"process_sort_index","pid":{pe},"tid":0,"args":{{"sort_index":{pe}}}}},"#
        )
    }

    /// Names the track of a thread when it is first seen. Threads are numbered in the order of their first calls.
    fn thread(&mut self, pe: u32, thread: u16) -> io::Result<()> {
        if !self.named.insert((pe, thread)) {
            return Ok(());
        }
        writeln!(
            self.out,
            r#"{{"ph":"M","name":"thread_name","pid":{pe},"tid":{thread},"args":{{"name":"thread {thread}"}}}},"#
        )
    }

    /// Adds a call of `routine`, which is a string of JSON.
    pub(super) fn call(&mut self, event: &Event, routine: &str) -> io::Result<()> {
        let Event { pe, call, cause } = event;
        self.thread(*pe, call.thread)?;
        let (from, took) = (self.micro(call.start), Micro(call.end - call.start));
        let (category, thread) = (category(&call.action), call.thread);
        write!(
            self.out,
            r#"{{"ph":"X","name":{routine},"cat":"{category}","pid":{pe},"tid":{thread},"ts":{from},"dur":{took},"args":{{"#
        )?;
        self.details(&call.action)?;
        if call.depth > 0 {
            self.out.write_all(br#","inside":true"#)?;
        }
        match cause {
            Some(Cause::Write(by)) => {
                let waited = waited(call.start, by.start, call.end);
                write!(
                    self.out,
                    r#","woken_by":{},"put_at":{},"late":{}"#,
                    by.pe,
                    // Clocks of two hosts may say that it began behind the wait.
                    self.micro(by.start.min(call.end)),
                    Micro(waited)
                )?;
            }
            Some(Cause::Last(last, at)) => {
                let at = (*at).min(call.end);
                let late = at.saturating_sub(call.start);
                write!(self.out, r#","last":{last},"last_at":{},"late":{}"#, self.micro(at), Micro(late))?;
            }
            None => {}
        }
        self.out.write_all(b"}},\n")?;
        match (cause, &call.action) {
            // Messages have arrows of their own.
            (Some(Cause::Write(_)), Action::Mpi { .. }) => Ok(()),
            (Some(Cause::Write(by)), _) => {
                let (from, to) = ((by.pe, by.thread, by.start), (*pe, call.thread, call.end));
                self.arrow("put", from, to)
            }
            _ => Ok(()),
        }
    }

    /// Adds tracks of links, as those of one more process behind `pes` PEs.
    pub(super) fn links(&mut self, pes: u32, tracks: &[Track]) -> io::Result<()> {
        // Without calls there is no time that theirs could be compared with.
        if tracks.is_empty() || self.origin == u64::MAX {
            return Ok(());
        }
        writeln!(
            self.out,
            r#"{{"ph":"M","name":"process_name","pid":{pes},"tid":0,"args":{{"name":"links"}}}},
{{"ph":"M","name":"process_sort_index","pid":{pes},"tid":0,"args":{{"sort_index":{pes}}}}},"#
        )?;
        for Track { link, load } in tracks {
            // Where the first call begins, one has been the load.
            let first = load.partition_point(|(time, _)| *time <= self.origin).saturating_sub(1);
            for (time, load) in &load[first..] {
                writeln!(
                    self.out,
                    r#"{{"ph":"C","name":"{link}","cat":"link","pid":{pes},"tid":0,"ts":{},"args":{{"MB/s":{load:.3}}}}},"#,
                    self.micro(*time)
                )?;
            }
        }
        Ok(())
    }

    fn micro(&self, time: u64) -> Micro {
        Micro(time.saturating_sub(self.origin))
    }

    /// Returns what a call was about, as members of an object.
    fn details(&mut self, action: &Action) -> io::Result<()> {
        let out = &mut self.out;
        match action {
            Action::Put { pe, blocks, .. } | Action::Get { pe, blocks, .. } => {
                write!(out, r#""pe":{pe},"bytes":{}"#, blocks.bytes())
            }
            Action::Atomic { pe, width, .. } => write!(out, r#""pe":{pe},"bytes":{width}"#),
            Action::Quiet { pe: Some(pe), .. } => write!(out, r#""pe":{pe}"#),
            Action::Wait { count, comparison, satisfied, .. } => {
                let relation =
                    ["?", "==", "!=", ">", ">=", "<", "<="].get(usize::from(comparison.relation)).unwrap_or(&"?");
                write!(out, r#""variables":{count},"until":"{relation} {}","satisfied":{satisfied}"#, comparison.value)
            }
            Action::Meet { members, dest_len, source_len, .. } => {
                write!(out, r#""pes":{},"bytes":{}"#, members.size, dest_len.max(source_len))
            }
            Action::Lock { taken, .. } => write!(out, r#""taken":{taken}"#),
            Action::Mpi { to, from, tag, bytes, pes, .. } => {
                let some =
                    |name: &str, value: Option<i64>| value.map_or(String::new(), |n| format!(r#""{name}":{n},"#));
                let (to, from) = (some("to", to.map(i64::from)), some("from", from.map(i64::from)));
                let (tag, pes) = (some("tag", tag.map(i64::from)), some("pes", (*pes > 0).then_some((*pes).into())));
                write!(out, r#"{to}{from}{tag}{pes}"bytes":{bytes}"#)
            }
            Action::Other
            | Action::Fence { .. }
            | Action::Quiet { .. }
            | Action::Unlock { .. }
            | Action::Access { .. }
            | Action::Message { .. } => write!(out, r#""bytes":0"#),
        }
    }

    /// Adds a message that has come.
    pub(super) fn message(&mut self, Arrow { from, to }: &Arrow) -> io::Result<()> {
        self.thread(from.pe, from.thread)?;
        self.thread(to.pe, to.thread)?;
        self.arrow("message", (from.pe, from.thread, from.start), (to.pe, to.thread, to.end))
    }

    /// An arrow from what ended a wait to that wait: PE, thread and time of both.
    fn arrow(&mut self, name: &str, from: (u32, u16, u64), to: (u32, u16, u64)) -> io::Result<()> {
        self.arrows += 1;
        let id = self.arrows;
        let to = (to.0, to.1, to.2.max(from.2));
        // Ends of arrows belong to the call around their time.
        let mut end = |phase: &str, (pe, thread, time): (u32, u16, u64)| {
            let time = self.micro(time);
            writeln!(
                self.out,
                r#"{{"ph":"{phase}","name":"{name}","cat":"arrow","id":{id},"pid":{pe},"tid":{thread},"ts":{time},"bp":"e"}},"#
            )
        };
        end("s", from)?;
        end("f", to)
    }

    /// Completes the file.
    pub(super) fn finish(mut self, missing: bool) -> io::Result<()> {
        writeln!(
            self.out,
            r#"{{"ph":"M","name":"trace_end","pid":0,"tid":0,"args":{{"complete":{},"arrows":{}}}}}"#,
            !missing, self.arrows
        )?;
        self.out.write_all(b"]\n")?;
        let file = match self.out {
            Sink::Plain(out) => out.into_inner().map_err(|e| e.into_error())?,
            Sink::Compressed(out) => out.into_inner().map_err(|e| e.into_error())?.finish()?,
        };
        file.finish()
    }
}

/// How long a wait that began and ended at these times had to wait for a put that began at `put`.
fn waited(start: u64, put: u64, end: u64) -> u64 {
    put.min(end).saturating_sub(start)
}

/// Returns what kind of call it is.
fn category(action: &Action) -> &'static str {
    match action {
        Action::Put { .. } => "put",
        Action::Get { .. } => "get",
        Action::Atomic { signals: true, .. } => "signal",
        Action::Atomic { .. } => "atomic",
        Action::Fence { .. } | Action::Quiet { .. } => "order",
        Action::Wait { .. } => "wait",
        Action::Meet { meeting: Meeting::Sync | Meeting::Barrier, .. } => "barrier",
        Action::Meet { meeting: Meeting::Memory, .. } => "memory",
        Action::Meet { .. } => "collective",
        Action::Lock { .. } | Action::Unlock { .. } => "lock",
        Action::Mpi { kind, .. } => match kind {
            MpiKind::Send => "send",
            MpiKind::Receive => "receive",
            MpiKind::Exchange => "exchange",
            MpiKind::Wait => "wait",
            MpiKind::Test => "test",
            MpiKind::Collective => "collective",
            MpiKind::OneSided => "one-sided",
            MpiKind::Other => "other",
        },
        Action::Other | Action::Access { .. } | Action::Message { .. } => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hosts_stay_one_text_of_json() {
        let file = std::env::temp_dir().join(format!("angara-chrome-{}.json", std::process::id()));
        let names = ["a\"b", "a\\", "a\nb\u{1}", "\"},{\"ph\":\"X", "\u{202e}h", "node2"];
        let mut writer = Writer::new(&file, 0).expect("a file");
        for (pe, host) in names.iter().enumerate() {
            let head = Head { pe: pe as u32, pes: 6, node: 0, pid: 1, virtual_time: false };
            let away = Away { host: host.to_string(), error: 1 };
            writer.pe(&head, "2x2".parse().expect("a shape"), Some(&away)).expect("written");
            writer.thread(pe as u32, 3).expect("written");
        }
        writer.finish(false).expect("written");
        let text = std::fs::read_to_string(&file).expect("there");
        std::fs::remove_file(&file).expect("ours");
        let events: Vec<serde_json::Value> = serde_json::from_str(&text).expect("one list of events");
        let named = |name: &'static str| events.iter().filter(move |event| event["name"] == name);
        let hosts: Vec<&str> = named("process_name").filter_map(|event| event["args"]["host"].as_str()).collect();
        assert_eq!(hosts, names.map(plain_line).iter().map(|name| &name[..]).collect::<Vec<_>>());
        assert!(hosts.iter().all(|host| !host.contains(['\n', '\u{1}', '\u{202e}'])), "{hosts:?}");
        assert_eq!(named("thread_name").count(), names.len());
        assert_eq!(events.len(), 3 * names.len() + 1);
    }
}
