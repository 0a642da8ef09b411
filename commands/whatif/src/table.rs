//! What came out of all runs, as text, CSV, JSON and a picture.

use super::axes::{Axes, Case, PES};
use angara_control::error::Failed;
use angara_control::report::document::Document;
use angara_control::report::table::Unit;
use angara_control::report::{self, total};
use angara_protocol::print::csv_cell;
use angara_sim::plot::Chart;
use angara_sim::table::{Table, number};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// Marks the time of a run that another run may differ from.
const DIFFERS: &str = "*";

/// What one run came to.
pub(super) struct Outcome {
    code: u8,
    /// It went on without a PE, or its times rest on a guess: another run may differ.
    differs: bool,
    measured: Option<Measured>,
}

struct Measured {
    /// Its network.
    network: String,
    /// Its machine, with changed settings.
    machine: String,
    /// Nanoseconds from the beginning of the programs to the end of the last one.
    time: f64,
    /// The part of their time that PEs waited, all together.
    waiting: f64,
    /// The link with most flits, and the part of the time that it sent.
    hottest: Option<(String, f64)>,
}

impl Outcome {
    /// Of a run with this exit code and report, which another run may differ from.
    pub(super) fn new(code: u8, differs: bool, file: &Path) -> Outcome {
        let measured = report::read(file).ok().filter(|_| code == 0).and_then(|report| {
            let traffic = &report.traffic;
            let times = traffic.virtual_time.as_ref()?;
            let time = times.pes.iter().map(|pe| pe.end).max()?;
            let sum: u64 = times.pes.iter().map(|pe| pe.end).sum();
            let waited: u64 = times.pes.iter().map(|pe| pe.for_data + pe.for_network).sum();
            let hottest = traffic.links.iter().max_by_key(|link| total(link).flits);
            let busy = |flits: u64| flits as f64 * times.flit_ps / time.max(1) as f64;
            Some(Measured {
                network: traffic.shape.to_string(),
                machine: report.options.machine_name(),
                time: time as f64 / 1e3,
                waiting: waited as f64 / sum.max(1) as f64,
                hottest: hottest.map(|link| (report::link_name(traffic.shape, link), busy(total(link).flits))),
            })
        });
        Outcome { code, differs, measured }
    }
}

/// Everything that came out.
pub(super) struct Results<'a> {
    pub(super) axes: &'a Axes,
    pub(super) cases: &'a [Case],
    /// Of every case; none if it was not run to its end.
    pub(super) outcomes: &'a [Option<Outcome>],
}

impl Results<'_> {
    /// Nanoseconds of the first run.
    fn first(&self) -> Option<f64> {
        self.outcomes.first()?.as_ref()?.measured.as_ref().map(|m| m.time)
    }

    fn rows(&self) -> impl Iterator<Item = (&Case, &Outcome)> {
        self.cases.iter().zip(self.outcomes).filter_map(|(case, outcome)| Some((case, outcome.as_ref()?)))
    }

    fn measured(&self) -> impl Iterator<Item = &Measured> {
        self.rows().filter_map(|(_, outcome)| outcome.measured.as_ref())
    }

    /// The unit of all times.
    fn unit(&self) -> Unit {
        Unit::of(self.measured().map(|m| m.time * 1e3).fold(0.0, f64::max) as u64)
    }

    /// Titles and rows of a table for people.
    fn cells(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let unit = self.unit();
        let mut head: Vec<String> = self.axes.names().map(String::from).collect();
        head.push(format!(">time, {}", unit.name));
        head.extend([">speed-up", ">waiting, %", "hottest link", ">busy, %"].map(String::from));
        let mut rows = Vec::new();
        for (case, outcome) in self.rows() {
            let mut row = case.values.clone();
            match &outcome.measured {
                Some(m) => {
                    let speedup = self.first().map_or("-".into(), |first| format!("{:.3}", first / m.time));
                    let (link, busy) = m.hottest.clone().unwrap_or_else(|| ("-".into(), 0.0));
                    let mark = if outcome.differs { DIFFERS } else { "" };
                    row.extend([
                        unit.show((m.time * 1e3).round() as u64) + mark,
                        speedup,
                        number(100.0 * m.waiting, 3),
                        link,
                    ]);
                    row.push(number(100.0 * busy, 3));
                }
                None => row.extend([&format!("exit code {}", outcome.code), "-", "-", "-", "-"].map(str::to_string)),
            }
            rows.push(row);
        }
        (head, rows)
    }

    /// What the mark at a time means, if one has it.
    fn note(&self) -> Option<String> {
        let differs = self.rows().any(|(_, outcome)| outcome.differs && outcome.measured.is_some());
        let why = "went on without a PE for a time, or its times rest on a guess: another run may differ";
        differs.then(|| format!("{DIFFERS} {why}"))
    }

    /// A table for people.
    pub(super) fn text(&self) -> String {
        let (head, rows) = self.cells();
        let mut table = Table::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
        rows.iter().for_each(|row| table.row(row));
        table.render() + &self.note().map_or_else(String::new, |note| note + "\n")
    }

    /// A page that needs nothing else: the picture, the table, and how to have them again.
    pub(super) fn html(&self, program: &str, command: &str, date: &str) -> String {
        let mut page = Document::default();
        page.line(command);
        page.line(format!("angara {}, {date}", env!("CARGO_PKG_VERSION")));
        let all = |of: fn(&Measured) -> &String| {
            let all: BTreeSet<&String> = self.measured().map(of).collect();
            all.into_iter().cloned().collect::<Vec<_>>().join("; ")
        };
        page.line(format!("networks: {}", all(|m| &m.network)));
        page.line(format!("machines: {}", all(|m| &m.machine)));
        match self.svg(program) {
            Ok(svg) => page.picture(svg),
            Err(e) => page.line(e.message),
        }
        let (head, rows) = self.cells();
        let mut table = report::table::Table::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
        rows.iter().for_each(|row| table.row(row));
        page.table(table);
        self.note().into_iter().for_each(|note| page.line(note));
        page.page(&self.title(program))
    }

    /// Program, and what all runs have in common: network and machine, with its router and its changed settings.
    fn title(&self, program: &str) -> String {
        let program = Path::new(program).file_name().map_or(program.into(), |name| name.to_string_lossy());
        let one = |what: &str, of: fn(&Measured) -> &String| {
            let first = self.measured().next().map(of)?;
            self.measured().all(|m| of(m) == first).then(|| format!("{what}{first}"))
        };
        let network =
            one("torus ", |m| &m.network).unwrap_or_else(|| "several tori".into()).replace("torus mesh:", "mesh ");
        let machine = one("machine ", |m| &m.machine).unwrap_or_else(|| "several machines".into());
        format!("{program} in virtual time: {network}, {machine}")
    }

    /// The same for spreadsheets; times in nanoseconds, shares from 0 to 1.
    pub(super) fn csv(&self) -> String {
        let mut out = String::new();
        self.axes.names().for_each(|name| out.push_str(&format!("{},", csv_cell(name))));
        out.push_str("exit_code,time_ns,speed_up,waiting,hottest_link,busy,differs\n");
        for (case, outcome) in self.rows() {
            case.values.iter().for_each(|value| out.push_str(&format!("{},", csv_cell(value))));
            out.push_str(&outcome.code.to_string());
            let differs = u8::from(outcome.differs);
            match &outcome.measured {
                Some(m) => {
                    let speedup = self.first().map_or(String::new(), |first| (first / m.time).to_string());
                    let (link, busy) = m.hottest.clone().unwrap_or_default();
                    out.push_str(&format!(
                        ",{},{speedup},{},{},{busy},{differs}\n",
                        m.time,
                        m.waiting,
                        csv_cell(&link)
                    ));
                }
                None => out.push_str(&format!(",,,,,,{differs}\n")),
            }
        }
        out
    }

    /// The same as a list of objects.
    pub(super) fn json(&self) -> String {
        let row = |(case, outcome): (&Case, &Outcome)| {
            let mut row = serde_json::Map::new();
            row.extend(self.axes.names().zip(&case.values).map(|(name, value)| (name.into(), json!(value))));
            row.insert("exit_code".into(), json!(outcome.code));
            row.insert("differs".into(), json!(outcome.differs));
            if let Some(m) = &outcome.measured {
                row.insert("time_ns".into(), json!(m.time));
                row.insert("speed_up".into(), json!(self.first().map(|first| first / m.time)));
                row.insert("waiting".into(), json!(m.waiting));
                row.insert("hottest_link".into(), json!(m.hottest.as_ref().map(|h| &h.0)));
                row.insert("busy".into(), json!(m.hottest.as_ref().map(|h| h.1)));
            }
            Value::Object(row)
        };
        let rows: Vec<Value> = self.rows().map(row).collect();
        serde_json::to_string_pretty(&rows).expect("plain data") + "\n"
    }

    /// The times, one point for each run: over the last axis that varies, a curve for every combination of the others.
    /// Numbers of PEs are a logarithmic axis; the values of another one are places without an order.
    pub(super) fn svg(&self, program: &str) -> Result<String, Failed> {
        let varying: Vec<usize> = (0..self.axes.names().count()).filter(|axis| self.values(*axis).len() > 1).collect();
        let (last, others) = varying.split_last().map_or((None, &[][..]), |(last, others)| (Some(*last), others));
        let x = last.and_then(|axis| self.axes.names().nth(axis)).unwrap_or("");
        let growth = x == PES;
        let places = last.map_or_else(|| vec!["the run".into()], |axis| self.values(axis));
        let mut curves: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
        for (case, outcome) in self.rows() {
            let Some(m) = &outcome.measured else { continue };
            let name = others.iter().map(|axis| case.values[*axis].clone()).collect::<Vec<_>>().join(", ");
            let value = last.map_or("", |axis| case.values[axis].as_str());
            let place = places.iter().position(|known| known == value).unwrap_or(0) as f64;
            let point = (if growth { value.parse().unwrap_or(place) } else { place }, self.unit().scaled(m.time * 1e3));
            match curves.iter_mut().find(|(curve, _)| *curve == name) {
                Some((_, points)) => points.push(point),
                None => curves.push((name, vec![point])),
            }
        }
        curves.iter_mut().for_each(|(_, points)| points.sort_by(|a, b| a.0.total_cmp(&b.0)));
        let chart = Chart {
            title: self.title(program),
            x: if growth { "PEs" } else { x }.into(),
            y: format!("time, {}", self.unit().name),
            x_log: growth,
            y_log: growth,
            curves,
            scatter: !growth,
            places: if growth { Vec::new() } else { places },
            ..Chart::default()
        };
        let chart = if growth { chart.at_its_points() } else { chart };
        chart.svg().map_err(|e| Failed::runtime(format!("nothing to draw: {e}"), "see what the runs said"))
    }

    /// The values of an axis, in order.
    fn values(&self, axis: usize) -> Vec<String> {
        let mut values: Vec<String> = Vec::new();
        for case in self.cases {
            if !values.contains(&case.values[axis]) {
                values.push(case.values[axis].clone());
            }
        }
        values
    }
}
