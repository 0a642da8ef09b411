//! Where the time of a timeline went.

use super::events::{Timeline, outermost, read};
use super::path::{Critical, critical};
use angara_control::error::Failed;
use angara_control::report::table::Table;
use angara_protocol::print::csv_cell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Rows of tables that may get long, without `--all`.
const ROWS: usize = 16;

/// Returns where the time of the timeline in `file` went: as tables, whole if `all`, or as `csv`.
///
/// # Errors
/// The file cannot be read, or is no timeline.
pub fn of_file(file: &Path, all: bool, csv: bool) -> Result<String, Failed> {
    let timeline = read(file)?;
    let sums = Sums::of(&timeline);
    Ok(if csv { sums.csv(&timeline) } else { summary(&timeline, &sums, all) })
}

/// Time of a routine on a PE.
#[derive(Default, Clone, Copy)]
struct Use {
    calls: u64,
    /// In the routine, ns.
    time: u64,
    /// Part of `time` until the PE that it waited for had come, ns.
    late: u64,
    bytes: u64,
    longest: u64,
}

/// Time of a PE, ns.
#[derive(Default, Clone, Copy)]
struct Whole {
    first: u64,
    last: u64,
    inside: u64,
    late: u64,
}

/// Sums over all calls that are not part of others.
struct Sums {
    /// By routine and PE.
    uses: BTreeMap<(u16, u32), Use>,
    pes: Vec<Whole>,
    /// Waits for puts: from the PE that came late to the one that waited, how many, and how long, ns.
    senders: BTreeMap<(u32, u32), (u64, u64)>,
    /// Collectives: how often this PE was the last, and how long others had waited for it, ns.
    last: BTreeMap<u32, (u64, u64)>,
}

impl Sums {
    fn of(timeline: &Timeline) -> Sums {
        let mut sums = Sums { uses: BTreeMap::new(), pes: Vec::new(), senders: BTreeMap::new(), last: BTreeMap::new() };
        for (pe, spans) in timeline.pes.iter().enumerate() {
            let outer = outermost(spans);
            let mut whole = Whole {
                first: outer.first().map_or(0, |span| span.start),
                last: outer.iter().map(|span| span.end).max().unwrap_or(0),
                ..Whole::default()
            };
            for span in &outer {
                let late = span.cause.map_or(0, |because| because.late);
                let took = span.end - span.start;
                let sum = sums.uses.entry((span.routine, pe as u32)).or_default();
                *sum = Use {
                    calls: sum.calls + 1,
                    time: sum.time + took,
                    late: sum.late + late,
                    bytes: sum.bytes + span.bytes,
                    longest: sum.longest.max(took),
                };
                whole.inside += took;
                whole.late += late;
                match span.cause.filter(|because| because.late > 0) {
                    Some(because) if because.together => {
                        let (times, time) = sums.last.entry(because.pe).or_default();
                        (*times, *time) = (*times + 1, *time + because.late);
                    }
                    Some(because) => {
                        let (times, time) = sums.senders.entry((because.pe, pe as u32)).or_default();
                        (*times, *time) = (*times + 1, *time + because.late);
                    }
                    None => {}
                }
            }
            sums.pes.push(whole);
        }
        sums
    }

    fn csv(&self, timeline: &Timeline) -> String {
        let mut text = String::from("routine,pe,calls,time_ns,late_ns,longest_ns,bytes\n");
        for ((routine, pe), Use { calls, time, late, bytes, longest }) in &self.uses {
            let name = &timeline.routines[usize::from(*routine)];
            let name = csv_cell(name);
            let _ = writeln!(text, "{name},{pe},{calls},{time},{late},{longest},{bytes}");
        }
        text
    }
}

/// Nanoseconds for people.
fn micro(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1000.0)
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.1}", 100.0 * part as f64 / whole.max(1) as f64)
}

fn summary(timeline: &Timeline, sums: &Sums, all: bool) -> String {
    let mut text = String::new();
    let clock = if timeline.virtual_time { "virtual time" } else { "the clock on the wall" };
    let calls: usize = timeline.pes.iter().map(Vec::len).sum();
    let _ = writeln!(
        text,
        "{calls} calls of {} PEs, {} arrows; microseconds of {clock}",
        timeline.pes.len(),
        timeline.arrows
    );
    if timeline.clock_error > 0 {
        let error = micro(timeline.clock_error);
        let _ = writeln!(text, "times of PEs of other hosts may be wrong by up to {error}");
    }
    if !timeline.complete {
        text.push_str("the timeline is not complete: what follows is of the part that is there\n");
    }
    routines(&mut text, timeline, sums, all);
    pes(&mut text, sums, all);
    late(&mut text, sums, all);
    path(&mut text, timeline, &critical(timeline));
    text
}

/// A table and what it does not show.
fn put(text: &mut String, title: &str, table: &Table, left: usize) {
    let _ = write!(text, "\n{title}\n{}", table.render());
    if left > 0 {
        let _ = writeln!(text, "  and {left} more; --all shows them");
    }
}

/// How many rows of `len` are shown.
fn shown(len: usize, all: bool) -> usize {
    if all { len } else { len.min(ROWS) }
}

fn routines(text: &mut String, timeline: &Timeline, sums: &Sums, all: bool) {
    let mut rows: Vec<(u64, Vec<String>)> = Vec::new();
    for (number, name) in timeline.routines.iter().enumerate() {
        let of: Vec<&Use> = sums.uses.range((number as u16, 0)..=(number as u16, u32::MAX)).map(|(_, of)| of).collect();
        if of.is_empty() {
            continue;
        }
        let sum = |what: fn(&Use) -> u64| of.iter().map(|of| what(of)).sum::<u64>();
        let (calls, time) = (sum(|of| of.calls), sum(|of| of.time));
        let on = |pe: Option<u64>| micro(pe.unwrap_or(0));
        let least = if of.len() < sums.pes.len() { Some(0) } else { of.iter().map(|of| of.time).min() };
        rows.push((
            time,
            vec![
                name.clone(),
                calls.to_string(),
                micro(time / sums.pes.len().max(1) as u64),
                on(least),
                on(of.iter().map(|of| of.time).max()),
                micro(sum(|of| of.late) / sums.pes.len().max(1) as u64),
                format!("{:.3}", time as f64 / 1000.0 / calls as f64),
                on(of.iter().map(|of| of.longest).max()),
                sum(|of| of.bytes).to_string(),
            ],
        ));
    }
    rows.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
    let titles = ["routine", ">calls", ">us per PE", ">least", ">most", ">late", ">us per call", ">longest", ">bytes"];
    let mut table = Table::new(&titles);
    let count = shown(rows.len(), all);
    rows[..count].iter().for_each(|(_, row)| table.row(row));
    put(text, "Routines (late: until those that were waited for had come)", &table, rows.len() - count);
}

fn pes(text: &mut String, sums: &Sums, all: bool) {
    let mut table = Table::new(&["PE", ">us", ">in the library", ">%", ">late", ">%", ">outside", ">%"]);
    let count = shown(sums.pes.len(), all);
    for (pe, whole) in sums.pes[..count].iter().enumerate() {
        let time = whole.last - whole.first;
        let outside = time.saturating_sub(whole.inside);
        table.row(&[
            pe.to_string(),
            micro(time),
            micro(whole.inside),
            percent(whole.inside, time),
            micro(whole.late),
            percent(whole.late, time),
            micro(outside),
            percent(outside, time),
        ]);
    }
    put(text, "PEs, from their first call to the end of their last", &table, sums.pes.len() - count);
    let outside: Vec<u64> = sums.pes.iter().map(|of| (of.last - of.first).saturating_sub(of.inside)).collect();
    let (most, mean) =
        (outside.iter().max().copied().unwrap_or(0), outside.iter().sum::<u64>() / outside.len().max(1) as u64);
    let _ = writeln!(
        text,
        "  load imbalance: the most that a PE is outside the library is {} times the mean",
        if mean == 0 { "-".into() } else { format!("{:.2}", most as f64 / mean as f64) }
    );
}

fn late(text: &mut String, sums: &Sums, all: bool) {
    let mut senders: Vec<_> = sums.senders.iter().collect();
    senders.sort_by_key(|(_, (_, time))| std::cmp::Reverse(*time));
    let mut table = Table::new(&["from PE", ">to PE", ">waits", ">us late"]).keys(2);
    let count = shown(senders.len(), all);
    for ((from, to), (times, time)) in &senders[..count] {
        table.row(&[from.to_string(), to.to_string(), times.to_string(), micro(*time)]);
    }
    if count > 0 {
        put(
            text,
            "Late senders: puts and messages that began when somebody waited for them already",
            &table,
            senders.len() - count,
        );
    }
    let mut last: Vec<_> = sums.last.iter().collect();
    last.sort_by_key(|(_, (_, time))| std::cmp::Reverse(*time));
    let mut table = Table::new(&["PE", ">waits for it", ">us waited"]);
    let count = shown(last.len(), all);
    for (pe, (times, time)) in &last[..count] {
        table.row(&[pe.to_string(), times.to_string(), micro(*time)]);
    }
    if count > 0 {
        put(text, "The last to come to collectives", &table, last.len() - count);
    }
}

fn path(text: &mut String, timeline: &Timeline, path: &Critical) {
    let Critical { length, hand_over, outside, routines, pes, changes } = path;
    let mut table = Table::new(&["on the critical path", ">us", ">%"]);
    let mut row = |what: String, time: u64| table.row(&[what, micro(time), percent(time, *length)]);
    row("outside the library".into(), *outside);
    row("from a put, a message or an arrival to the end of a wait".into(), *hand_over);
    let mut of: Vec<_> = routines.iter().collect();
    of.sort_by_key(|(_, time)| std::cmp::Reverse(**time));
    for (routine, time) in of.into_iter().take(ROWS) {
        row(timeline.routines[usize::from(*routine)].clone(), *time);
    }
    let mut on: Vec<_> = pes.iter().collect();
    on.sort_by_key(|(_, time)| std::cmp::Reverse(**time));
    for (pe, time) in on.into_iter().take(8) {
        row(format!("on PE {pe}"), *time);
    }
    put(text, &format!("Critical path: {} us, {changes} times from PE to PE", micro(*length)), &table, 0);
}
