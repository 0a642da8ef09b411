//! What virtual time went for, as tables and as CSV.

use super::document::Document;
use super::table::{Table, Unit, count};
use super::{Details, RunReport};
use angara_net::torus::Shape;
use angara_protocol::msg::{CriticalPath, LinkUse, PathStep, PeTimes, RoutineRow, Times, Why};
use angara_protocol::print::csv_cell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Rows shown of each table unless all are wanted.
const SHOWN: usize = 32;
/// ... of those that only a few matter of.
const FEW: usize = 10;
/// From nothing to the most that any link does.
const BARS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

angara_net::words! {
    /// Tables that can be had as CSV.
    #[derive(Debug)]
    pub enum Csv {
        /// Where the time of each PE went
        Pes = "pes",
        /// How long each PE waited for which
        Waits = "waits",
        /// What each routine cost each PE
        Routines = "routines",
        /// What each link carried, by time
        Links = "links",
        /// Where most of the critical path was
        Path = "path",
    }
}

fn share(ps: u64, of: u64) -> String {
    format!("{:.1}", 100.0 * ps as f64 / of.max(1) as f64)
}

/// The unit of all times of a run.
pub(super) fn unit(times: &Times) -> Unit {
    Unit::of(times.pes.iter().map(|pe| pe.end).max().unwrap_or(0))
}

/// Adds everything.
pub(super) fn add(out: &mut Document, report: &RunReport, times: &Times, all: bool) {
    let unit = unit(times);
    out.heading("Virtual time");
    out.table(pes(times, unit, all));
    out.heading("Critical path");
    path(out, &times.path, unit, all);
    let Details { waits, routines, link_times } = &report.details;
    if !waits.is_empty() {
        out.heading("Waiting for whom");
        whom(out, report, unit, all);
    }
    if !routines.is_empty() {
        out.heading("Routines");
        by_routine(out, routines, (times, unit), all);
    }
    if !link_times.is_empty() {
        let most = link_times.iter().flat_map(|link| &link.flits).map(|flits| busy(*flits, times)).fold(0.0, f64::max);
        let each = unit.show(times.bucket_ps);
        out.heading(format!("Links by time: {each} {} each, █ is {:.1} %", unit.name, 100.0 * most));
        links(out, report.traffic.shape, link_times, (times, most), all);
    }
}

/// Where the time of each PE went; of many only those that ended first and last.
fn pes(times: &Times, unit: Unit, all: bool) -> Table {
    let ended = format!(">ended, {}", unit.name);
    let titles = [
        ">PE",
        ended.as_str(),
        ">computing, %",
        ">library, %",
        ">for data, %",
        ">for the network, %",
        ">other, %",
        ">posts",
    ];
    let mut table = Table::new(&titles);
    let mut order: Vec<usize> = (0..times.pes.len()).collect();
    if !all && order.len() > SHOWN {
        order.sort_by_key(|pe| times.pes[*pe].end);
        order.drain(SHOWN / 2..order.len() - SHOWN / 2);
    }
    for pe in order {
        let PeTimes { end, for_data, for_network, compute, software, posts } = times.pes[pe];
        let [data, network, computing, library, other] =
            [for_data, for_network, compute, software, other(&times.pes[pe])].map(|ps| share(ps, end));
        table.row(&[pe.to_string(), unit.show(end), computing, library, data, network, other, count(posts)]);
    }
    table
}

/// Sleeps, and looks at clocks.
pub(super) fn other(pe: &PeTimes) -> u64 {
    let known = pe.for_data.saturating_add(pe.for_network).saturating_add(pe.compute).saturating_add(pe.software);
    pe.end.saturating_sub(known)
}

fn path(out: &mut Document, path: &CriticalPath, unit: Unit, all: bool) {
    let CriticalPath { from, end, pe, .. } = *path;
    let (whole, in_unit) = (end.saturating_sub(from), format!(">{}", unit.name));
    let turns = count(path.turns);
    let mut line =
        format!("{} {}, to the end of PE {pe}, over {} PEs in {turns} turns", unit.show(whole), unit.name, path.pes);
    if from > 0 {
        let _ = write!(line, "; what was before {} {} is forgotten", unit.show(from), unit.name);
    }
    out.line(line + ":");
    let mut table = Table::new(&["it was", &in_unit, ">%"]);
    for (name, ps) in parts(path) {
        table.row(&[name.to_string(), unit.show(ps), share(ps, whole)]);
    }
    out.table(table);
    let mut table = Table::new(&["most of it", ">times", &in_unit, ">%"]);
    for row in path.most.iter().take(if all { usize::MAX } else { FEW }) {
        table.row(&[what(row.why, row.pe, row.whom), count(row.times), unit.show(row.ps), share(row.ps, whole)]);
    }
    out.table(table);
    if all {
        let [from, until] = ["from", "until"].map(|end| format!(">{end}, {}", unit.name));
        let mut table = Table::new(&["its last steps", &from, &until, &in_unit]);
        for PathStep { why, pe, whom, from, until } in path.last.iter().rev() {
            let times = [*from, *until, until.saturating_sub(*from)].map(|ps| unit.show(ps));
            table.row(&[&[what(*why, *pe, *whom)], &times[..]].concat());
        }
        out.table(table);
    }
}

/// Returns what a path was spent with.
pub(super) fn parts(path: &CriticalPath) -> [(&'static str, u64); 7] {
    [
        ("computing", path.compute),
        ("calls of the library", path.software),
        ("sleeps and looks at clocks", path.other),
        ("messages to another PE", path.data),
        ("operations of a PE itself", path.answers),
        ("barriers all had entered", path.barriers),
        ("reductions and broadcasts", path.trees),
    ]
}

fn what(why: Why, pe: u32, whom: u32) -> String {
    match why {
        Why::Run => format!("PE {pe} runs"),
        Why::Data => format!("message from PE {whom} to PE {pe}"),
        Why::Answer if whom == pe => format!("adapter of PE {pe}"),
        Why::Answer => format!("operation of PE {pe} at PE {whom}"),
        Why::Barrier => format!("barrier: PE {pe} leaves, PE {whom} entered last"),
        Why::Tree => format!("tree: PE {pe} has it, PE {whom} came last"),
    }
}

fn whom(out: &mut Document, report: &RunReport, unit: Unit, all: bool) {
    let mut rows: Vec<_> = report.details.waits.iter().collect();
    let left_out = rows.len().saturating_sub(SHOWN);
    if !all && left_out > 0 {
        rows.sort_by_key(|row| Reverse(row.3));
        rows.truncate(SHOWN);
    }
    let titles = [">PE", ">waited for PE", ">times", &format!(">{}", unit.name), ">of its time, %"];
    let mut table = Table::new(&titles).keys(2);
    for (pe, whom, times, ps) in rows {
        let end = report.traffic.virtual_time.as_ref().and_then(|t| t.pes.get(*pe as usize)).map_or(0, |pe| pe.end);
        let whom = whom.map_or("others".into(), |whom| whom.to_string());
        table.row(&[pe.to_string(), whom, count(*times), unit.show(*ps), share(*ps, end)]);
    }
    out.table(table);
    if !all && left_out > 0 {
        out.line(format!("({left_out} shorter ones left out; --all shows them)"));
    }
}

/// Routines of all PEs together, or of each.
fn by_routine(out: &mut Document, rows: &[RoutineRow], (times, unit): (&Times, Unit), all: bool) {
    let mut sums: BTreeMap<&str, (u64, u64, u64, u64)> = BTreeMap::new();
    for (_, name, calls, ps, bytes) in rows {
        let sum = sums.entry(name).or_default();
        *sum = (sum.0.saturating_add(*calls), sum.1.saturating_add(*ps), sum.2.max(*ps), sum.3.saturating_add(*bytes));
    }
    let whole = times.pes.iter().fold(0u64, |sum, pe| sum.saturating_add(pe.end));
    let mut order: Vec<_> = sums.into_iter().collect();
    order.sort_by_key(|(_, sum)| Reverse(sum.1));
    let [every, most] = [format!(">{}, all PEs", unit.name), format!(">at most, {}", unit.name)];
    let mut table = Table::new(&["routine", ">calls", &every, ">%", &most, ">bytes"]);
    for (name, (calls, ps, most, bytes)) in order.into_iter().take(if all { usize::MAX } else { SHOWN }) {
        table.row(&[name.to_string(), count(calls), unit.show(ps), share(ps, whole), unit.show(most), count(bytes)]);
    }
    out.table(table);
    if all {
        let mut table = Table::new(&[">PE", "routine", ">calls", &format!(">{}", unit.name), ">bytes"]).keys(2);
        for (pe, name, calls, ps, bytes) in rows {
            table.row(&[pe.to_string(), name.clone(), count(*calls), unit.show(*ps), count(*bytes)]);
        }
        out.table(table);
    }
}

/// The part of a time that a link needs for N flits.
fn busy(flits: u64, times: &Times) -> f64 {
    flits as f64 * times.flit_ps / times.bucket_ps.max(1) as f64
}

fn name(shape: Shape, link: &LinkUse) -> String {
    format!("{} {}", shape.show(shape.coords(link.node)), link.dir)
}

fn links(out: &mut Document, shape: Shape, links: &[LinkUse], (times, highest): (&Times, f64), all: bool) {
    let mut order: Vec<_> = links.iter().map(|link| (link, link.flits.iter().sum::<u64>())).collect();
    order.sort_by_key(|(_, flits)| Reverse(*flits));
    let left_out = if all { 0 } else { order.len().saturating_sub(FEW) };
    order.truncate(order.len() - left_out);
    let mut table = Table::new(&["link", ">busy, %", ">at most, %", "by time"]);
    for (link, flits) in order {
        let parts: Vec<f64> = link.flits.iter().map(|flits| busy(*flits, times)).collect();
        let bar = |part: &f64| match *part {
            part if part <= 0.0 => BARS[0],
            part => BARS[((part / highest * 8.0).ceil() as usize).clamp(1, 8)],
        };
        let most = parts.iter().copied().fold(0.0, f64::max);
        let mean = busy(flits, times) / parts.len().max(1) as f64;
        let percent = |part: f64| format!("{:.1}", 100.0 * part);
        table.row(&[name(shape, link), percent(mean), percent(most), parts.iter().map(bar).collect()]);
    }
    out.table(table);
    if left_out > 0 {
        out.line(format!("({left_out} quieter links left out; --all shows them)"));
    }
}

/// Returns one of the tables as CSV.
pub fn csv(report: &RunReport, times: &Times, what: Csv) -> String {
    let mut out = String::new();
    let details = &report.details;
    let mut row = |cells: &[&dyn std::fmt::Display]| {
        let cells: Vec<String> = cells.iter().map(ToString::to_string).collect();
        let _ = writeln!(out, "{}", cells.join(","));
    };
    match what {
        Csv::Pes => {
            row(&[&"pe,end_ps,compute_ps,software_ps,for_data_ps,for_network_ps,other_ps,posts"]);
            for (i, pe) in times.pes.iter().enumerate() {
                row(&[&i, &pe.end, &pe.compute, &pe.software, &pe.for_data, &pe.for_network, &other(pe), &pe.posts]);
            }
        }
        Csv::Waits => {
            row(&[&"pe,for_pe,times,ps"]);
            for (pe, whom, times, ps) in &details.waits {
                row(&[pe, &whom.map_or("others".into(), |whom| whom.to_string()), times, ps]);
            }
        }
        Csv::Routines => {
            row(&[&"pe,routine,calls,ps,bytes"]);
            for (pe, name, calls, ps, bytes) in &details.routines {
                // A program may have made it up.
                row(&[pe, &csv_cell(name), calls, ps, bytes]);
            }
        }
        Csv::Links => {
            row(&[&"link,from_ps,until_ps,flits,busy"]);
            for link in &details.link_times {
                let at = |i: usize| times.bucket_ps.saturating_mul(i as u64);
                for (i, flits) in link.flits.iter().enumerate() {
                    let name = name(report.traffic.shape, link).replace(',', "-");
                    row(&[&name, &at(i), &at(i + 1), flits, &format!("{:.4}", busy(*flits, times))]);
                }
            }
        }
        Csv::Path => {
            row(&[&"why,pe,for_pe,times,ps"]);
            for share in &times.path.most {
                let why = format!("{:?}", share.why).to_lowercase();
                row(&[&why, &share.pe, &share.whom, &share.times, &share.ps]);
            }
        }
    }
    out
}

/// True if every link that is named is one of the network.
pub(super) fn fits(shape: Shape, links: &[LinkUse]) -> bool {
    links.iter().all(|link| (link.node as usize) < shape.nodes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_net::words::Word;
    use angara_protocol::msg::PathShare;

    fn times() -> Times {
        let pe = |end| PeTimes { end, for_data: 100, for_network: 200, compute: 300, software: 50, posts: 2_000 };
        let most = vec![
            PathShare { why: Why::Data, pe: 1, whom: 0, times: 3, ps: 500_000 },
            PathShare { why: Why::Answer, pe: 1, whom: 1, times: 1, ps: 7 },
        ];
        let last = vec![PathStep { why: Why::Run, pe: 1, whom: 1, from: 1_000_000, until: 2_000_000 }];
        let path = Box::new(CriticalPath {
            end: 2_000_000,
            pe: 1,
            pes: 2,
            turns: 3,
            compute: 1_000_000,
            most,
            last,
            ..Default::default()
        });
        Times { flit_ps: 2_000.0, call_ps: 1_000, bucket_ps: 1_000_000, pes: vec![pe(1_000_000), pe(2_000_000)], path }
    }

    fn report() -> RunReport {
        let mut report = super::super::tests::sample();
        report.traffic.virtual_time = Some(times());
        report.details = Details {
            waits: vec![(0, Some(1), 3, 500_000), (1, None, 1, 7)],
            routines: vec![(0, "shmem_long_p".into(), 12, 34_000, 96), (1, "=a,\"b\n".into(), 1, 1, 1)],
            link_times: vec![LinkUse { node: 1, dir: "-X".parse().expect("a direction"), flits: vec![0, 250, 500] }],
        };
        report
    }

    #[test]
    fn all_that_is_known_is_shown() {
        let report = report();
        let mut shown = Document::default();
        add(&mut shown, &report, &times(), true);
        let text = shown.text();
        for part in [
            "2.000 us, to the end of PE 1, over 2 PEs in 3 turns",
            "message from PE 0 to PE 1",
            "adapter of PE 1",
            "PE 1 runs",
            "computing                  1.000 50.0",
            "others",
            "shmem_long_p",
            "1,0 -X",
            "·▄█",
        ] {
            assert!(text.contains(part), "{part} missing in\n{text}");
        }
        assert!(fits(report.traffic.shape, &report.details.link_times));
        assert!(!fits(
            report.traffic.shape,
            &[LinkUse { node: 4, dir: "-X".parse().expect("a direction"), flits: vec![] }]
        ));
    }

    #[test]
    fn csv_has_as_many_cells_in_each_row() {
        let report = report();
        for (what, ..) in Csv::WORDS {
            let text = csv(&report, &times(), *what);
            // What is in quotes is one cell.
            let outside = |line: &str| line.split('"').step_by(2).map(|part| part.matches(',').count()).sum::<usize>();
            let cells: Vec<usize> = text.lines().map(outside).collect();
            assert!(cells.len() > 1 && cells[0] > 0 && cells.iter().all(|n| *n == cells[0]), "{text}");
        }
        assert!(csv(&report, &times(), Csv::Routines).ends_with("\n1,\"'=a,\"\"b\\n\",1,1,1\n"));
        assert!(csv(&report, &times(), Csv::Links).contains("\n1-0 -X,1000000,2000000,250,0.5000\n"));
    }
}
