//! Reports: what `angara run --report FILE` writes and `angara report FILE` shows.
//!
//! The file is JSON: the daemon's traffic report at the top level, and beside it the command, the
//! options, how the run ended and the hottest links. How it is written and read is in `file`.

mod compare;
pub mod document;
mod file;
pub mod heatmap;
mod history;
pub mod html;
pub mod table;
pub mod times;

pub use compare::{Comparison, compare};
pub use file::{Writer, check_writable, read};
pub use history::History;

use crate::cores::Bind;
use angara_abi::account::{Class, Load};
use angara_abi::job::{Barrier, Collectives};
use angara_net::torus::Shape;
use angara_protocol::msg::{LinkReport, LinkUse, PairReport, Report, RoutineRow, TimesPiece, WaitRow};
use angara_protocol::print::plain_line;
use document::Document;
use serde::{Deserialize, Serialize};
use table::{Table, bytes, count, duration, terminal_width};

/// Number of hottest links kept in a report.
const HOTTEST: usize = 10;
/// What is said of a network without traffic.
const NOTHING: &str = "none: nothing left a node";
/// Most links listed in full without `--all`.
const LINKS_SHOWN: usize = 64;
/// Most PEs whose nodes are listed without `--all`.
const PLACES_SHOWN: usize = 512;

/// A whole report file.
#[derive(Serialize, Deserialize, Debug)]
pub struct RunReport {
    /// Version of the file's format.
    format: u32,
    /// Counters of the daemon.
    #[serde(flatten)]
    pub traffic: Report,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Options of the run.
    pub options: RunOptions,
    /// Exit code of the launcher.
    pub exit_code: u8,
    /// `ok`, or why the job was ended.
    pub outcome: String,
    /// Links with most flits, hottest first.
    pub hottest: Vec<Hot>,
    /// What virtual time went for, in detail; [`Writer`] writes it, too.
    #[serde(flatten, skip_serializing)]
    pub details: Details,
    /// What links carried, by time; [`Writer`] writes it, too.
    #[serde(default, skip_serializing)]
    pub history: Option<History>,
    /// The traffic's, on their way from the file; [`Writer`] writes them.
    #[serde(skip_serializing)]
    pairs: Vec<PairReport>,
}

/// Use of virtual time, in detail.
#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub struct Details {
    waits: Vec<WaitRow>,
    routines: Vec<RoutineRow>,
    link_times: Vec<LinkUse>,
}

impl Details {
    /// Adds a piece; where the next one begins.
    pub fn add(&mut self, piece: TimesPiece) -> Option<u32> {
        let TimesPiece { waits, routines, links, next } = piece;
        self.waits.extend(waits);
        self.routines.extend(routines);
        self.link_times.extend(links);
        next
    }
}

/// The options that decide what a run does.
#[derive(Serialize, Deserialize, Debug)]
pub struct RunOptions {
    /// Number of PEs.
    pub pes: u32,
    /// PEs on a node.
    pub ppn: u32,
    /// How PEs were placed.
    pub map: String,
    /// Cores of PEs.
    pub bind: Bind,
    /// Kind of barrier.
    pub barrier: Barrier,
    /// How collectives were done.
    pub collectives: Collectives,
    /// Bytes of symmetric heap.
    pub heap: u64,
    /// Faults, as they were written.
    pub faults: Vec<String>,
    /// Name of the machine, if one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Its changed settings, as they were written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
}

impl RunOptions {
    /// The machine and its changed settings in words.
    pub fn machine_name(&self) -> String {
        let name = self.machine.as_deref().unwrap_or("default");
        let with = if self.set.is_empty() { "" } else { " with " };
        format!("{name}{with}{}", self.set.join(", "))
    }
}

/// A hot link.
#[derive(Serialize, Deserialize, Debug, PartialEq, Eq)]
pub struct Hot {
    /// `0,0,0 +X`.
    pub link: String,
    /// All classes together.
    pub load: Load,
}

impl RunReport {
    /// The history is that of virtual time, which the details tell.
    pub fn add_history_of_virtual_time(&mut self) {
        let Some(times) = &self.traffic.virtual_time else { return };
        let faults = &self.options.faults;
        self.history = Some(History::in_virtual_time(self.traffic.shape, times, &self.details.link_times, faults));
    }

    /// The report of a run by a command line, of which pairs of PEs are still to come.
    pub fn new(command: Vec<String>, options: RunOptions, traffic: Report, code: u8, outcome: String) -> RunReport {
        RunReport {
            format: file::FORMAT,
            command,
            options,
            exit_code: code,
            outcome,
            hottest: hottest(traffic.shape, &traffic.links, HOTTEST),
            traffic,
            details: Details::default(),
            history: None,
            pairs: Vec::new(),
        }
    }
}

/// All classes of a link together.
pub fn total(link: &LinkReport) -> Load {
    link.load.values().fold(Load::default(), |mut sum, l| {
        sum.add(*l);
        sum
    })
}

/// `0,0,0 +X`.
pub fn link_name(shape: Shape, link: &LinkReport) -> String {
    format!("{} {}", shape.show(shape.coords(link.node)), link.dir)
}

/// The links with most flits.
pub fn hottest(shape: Shape, links: &[LinkReport], most: usize) -> Vec<Hot> {
    let mut sorted: Vec<&LinkReport> = links.iter().filter(|l| heatmap::flits(l) > 0).collect();
    sorted.sort_by_key(|l| (std::cmp::Reverse(heatmap::flits(l)), l.node, l.dir));
    sorted.truncate(most);
    sorted.into_iter().map(|l| Hot { link: link_name(shape, l), load: total(l) }).collect()
}

/// The time that a run took: virtual time to the picosecond, else that of the clock on the wall.
pub fn took(t: &Report) -> String {
    let end = t.virtual_time.as_ref().and_then(|times| times.pes.iter().map(|pe| pe.end).max());
    end.map_or_else(|| duration(t.wall_s), |ps| format!("{} of virtual time", duration(ps as f64 / 1e12)))
}

/// Program, size, network, path, time and outcome in a line.
pub fn summary(report: &RunReport) -> String {
    let t = &report.traffic;
    let path = word_of(&t.path);
    let (command, pes) = (report.command.join(" "), t.placement.len());
    plain_line(&format!("{command}: {pes} PEs on {}, path {path}, {}, {}", t.shape, took(t), report.outcome))
}

/// A word of the protocol as JSON has it.
fn word_of(word: &impl Serialize) -> String {
    serde_json::to_value(word).ok().and_then(|v| v.as_str().map(String::from)).unwrap_or_default()
}

/// Returns everything as text.
pub fn show(report: &RunReport, all: bool, colour: bool) -> String {
    document(report, all, colour).text()
}

/// Returns everything.
pub(crate) fn document(report: &RunReport, all: bool, colour: bool) -> Document {
    let t = &report.traffic;
    let mut out = Document::default();
    out.line(summary(report));
    if let Some(set) = &t.set {
        out.line(format!("node set: {}", set.show(&t.shape)));
    }
    for note in &t.notes {
        out.line(format!("note: {note}"));
    }
    if let Some(times) = &t.virtual_time {
        times::add(&mut out, report, times, all);
    }
    out.heading("Placement (PE: node)");
    out.drawn(placement(t, all));
    out.heading("Traffic by class, all PEs");
    add_table(&mut out, classes(t), "none");
    if all {
        out.heading("Traffic between PEs");
        out.table(pair_table(t));
    }
    out.heading("Traffic per link");
    match link_rows(t.shape, &t.links, if all { usize::MAX } else { LINKS_SHOWN }) {
        Some((table, left_out)) => {
            out.table(table);
            out.drawn(left_out);
        }
        None => out.line(NOTHING),
    }
    add_heat(&mut out, t, colour);
    out.heading("Hottest links");
    let mut hot = Table::new(&["link", ">packets", ">flits", ">bytes"]);
    for h in &report.hottest {
        hot.row(&[h.link.clone(), count(h.load.packets), count(h.load.flits), count(h.load.bytes)]);
    }
    add_table(&mut out, hot, NOTHING);
    out
}

/// A table, or what to say where it has no rows.
fn add_table(out: &mut Document, table: Table, none: &str) {
    if table.is_empty() {
        out.line(none);
    }
    out.table(table);
}

/// Nodes of all PEs, or of the first ones of a large job.
fn placement(t: &Report, all: bool) -> String {
    let cell = |(pe, node): (usize, &u32)| format!("{pe}: {}", t.shape.show(t.shape.coords(*node)));
    let most = if all { usize::MAX } else { PLACES_SHOWN };
    let cells: Vec<String> = t.placement.iter().take(most).enumerate().map(cell).collect();
    let width = cells.iter().map(String::len).max().unwrap_or(0);
    let per_line = (terminal_width().unwrap_or(100) / (width + 3)).clamp(1, 8);
    let line = |cells: &[String]| {
        let text: String = cells.iter().map(|c| format!("  {c:width$} ")).collect();
        text.trim_end().to_string() + "\n"
    };
    let mut text: String = cells.chunks(per_line).map(line).collect();
    let left_out = t.placement.len() - cells.len();
    if left_out > 0 {
        text.push_str(&format!("  ({left_out} more PEs left out; --all shows them)\n"));
    }
    text
}

fn classes(t: &Report) -> Table {
    let mut table = Table::new(&["class", ">operations", ">packets", ">flits", ">payload bytes", ">returned bytes"]);
    for class in Class::ALL {
        let mut sum = angara_abi::account::Traffic::default();
        t.pairs.iter().filter(|p| p.class == class).for_each(|p| sum.add(p.traffic));
        if sum.ops > 0 {
            let both = [sum.out, sum.back];
            table.row(&[
                class.name().to_string(),
                count(sum.ops),
                count(both.iter().map(|l| l.packets).sum()),
                count(both.iter().map(|l| l.flits).sum()),
                count(sum.out.bytes),
                count(sum.back.bytes),
            ]);
        }
    }
    table
}

fn pair_table(t: &Report) -> Table {
    let mut table = Table::new(&[
        ">from",
        ">to",
        "class",
        ">operations",
        ">packets",
        ">flits",
        ">payload bytes",
        ">returned bytes",
    ])
    .keys(3);
    for p in &t.pairs {
        let both = [p.traffic.out, p.traffic.back];
        table.row(&[
            p.from.to_string(),
            p.to.to_string(),
            p.class.name().into(),
            count(p.traffic.ops),
            count(both.iter().map(|l| l.packets).sum()),
            count(both.iter().map(|l| l.flits).sum()),
            count(p.traffic.out.bytes),
            count(p.traffic.back.bytes),
        ]);
    }
    table
}

/// Something was wrong with packets of the link.
fn trouble(l: &LinkReport) -> bool {
    l.crc_errors + l.replays + l.duplicates + l.reordered > 0
}

/// Links as a table; if there are more than `most`, the ones with most flits. Empty if none.
pub fn links(shape: Shape, links: &[LinkReport], most: usize) -> String {
    link_rows(shape, links, most).map_or_else(String::new, |(table, left_out)| table.render() + &left_out)
}

/// The same, and a line about those left out.
fn link_rows(shape: Shape, links: &[LinkReport], most: usize) -> Option<(Table, String)> {
    let mut shown: Vec<&LinkReport> = links.iter().filter(|l| heatmap::flits(l) > 0 || !l.up || trouble(l)).collect();
    if shown.is_empty() {
        return None;
    }
    let left_out = shown.len().saturating_sub(most);
    if left_out > 0 {
        shown.sort_by_key(|l| (std::cmp::Reverse(heatmap::flits(l)), l.node, l.dir));
        shown.truncate(most);
    }
    let mut head = vec!["link", "to", ">packets", ">flits", ">bytes"];
    head.extend([">put flits", ">get flits", ">amo flits", ">sync flits", ">crc", ">replays"]);
    // Only with `angara fault`.
    let more = shown.iter().any(|l| l.duplicates + l.reordered > 0);
    if more {
        head.extend([">twice", ">early"]);
    }
    head.push("state");
    let mut table = Table::new(&head);
    for l in shown {
        let sum = total(l);
        let class = |c: Class| l.load.get(&c).map_or(0, |l| l.flits);
        let mut row = vec![
            link_name(shape, l),
            shape.show(shape.coords(l.to)),
            count(sum.packets),
            count(sum.flits),
            count(sum.bytes),
            count(class(Class::Put)),
            count(class(Class::Get)),
            count(class(Class::Amo)),
            count(class(Class::Sync)),
            count(l.crc_errors),
            count(l.replays),
        ];
        if more {
            row.extend([count(l.duplicates), count(l.reordered)]);
        }
        row.push(if l.up { "up" } else { "down" }.into());
        table.row(&row);
    }
    let more =
        if left_out > 0 { format!("  ({left_out} quieter links left out; --all shows them)\n") } else { String::new() };
    Some((table, more))
}

/// Both heat maps.
pub fn heat(t: &Report, colour: bool) -> String {
    let mut out = Document::default();
    add_heat(&mut out, t, colour);
    out.text()
}

fn add_heat(out: &mut Document, t: &Report, colour: bool) {
    out.heading("Heat map: flits sent by each node in each direction");
    out.drawn(heatmap::links(t.shape, &t.links, colour));
    if t.placement.len() > 1 {
        out.heading("Heat map: payload between PEs");
        out.drawn(heatmap::pairs(t.placement.len(), &t.pairs, colour));
    }
    let bytes_total: u64 = t.pairs.iter().map(|p| p.traffic.out.bytes + p.traffic.back.bytes).sum();
    out.line(format!("total payload: {}", bytes(bytes_total)));
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use angara_abi::JobId;
    use angara_abi::account::Traffic;
    use angara_protocol::msg::{BarrierReport, PairReport, Path as EnginePath};

    pub(crate) fn sample() -> RunReport {
        let shape: Shape = "2x2".parse().unwrap();
        let link = |node: u32, dir: &str, n: usize| LinkReport {
            node,
            dir: dir.parse().expect("a direction"),
            to: shape.neighbour(node, dir.parse().unwrap()).unwrap(),
            load: [(Class::Put, Load::payload(n)), (Class::Sync, Load::payload(8))].into(),
            crc_errors: 0,
            replays: 0,
            duplicates: 0,
            reordered: 0,
            up: true,
        };
        let links = vec![link(0, "+X", 4096), link(1, "-X", 64)];
        RunReport {
            format: file::FORMAT,
            pairs: vec![],
            details: Details::default(),
            history: None,
            command: vec!["./heat".into(), "10".into()],
            options: RunOptions {
                pes: 2,
                ppn: 1,
                map: "linear".into(),
                bind: Bind::Auto,
                barrier: Barrier::Auto,
                collectives: Collectives::Auto,
                heap: 1 << 20,
                faults: vec![],
                machine: None,
                set: vec![],
            },
            exit_code: 0,
            outcome: "ok".into(),
            hottest: hottest(shape, &links, HOTTEST),
            traffic: Report {
                job: JobId::new(1),
                name: "heat".into(),
                shape,
                path: EnginePath::Direct,
                placement: vec![0, 1],
                wall_s: 0.25,
                virtual_time: None,
                pairs: vec![PairReport { from: 0, to: 1, class: Class::Put, traffic: Traffic::put(4096) }],
                links,
                barriers: BarrierReport { family: Barrier::Auto, left: 0, early: 0, unfinished: 0, late: 0 },
                set: None,
                notes: vec!["one note".into()],
            },
        }
    }

    #[test]
    fn the_text_names_everything() {
        let text = show(&sample(), true, false);
        for part in [
            "./heat 10: 2 PEs on 2x2, path direct",
            "note: one note",
            "0: 0,0",
            "put",
            "4 096",
            "0,0 +X",
            "Hottest",
            "██",
        ] {
            assert!(text.contains(part), "{part} missing in\n{text}");
        }
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn large_networks_are_cut_with_a_word_about_it() {
        let r = sample();
        let text = links(r.traffic.shape, &r.traffic.links, 1);
        assert!(text.contains("0,0 +X") && !text.contains("1,0 -X") && text.contains("1 quieter links"), "{text}");
    }

    #[test]
    fn places_of_a_large_job_are_cut_with_a_word_about_it() {
        let mut r = sample();
        r.traffic.placement = vec![0; PLACES_SHOWN + 3];
        let cut = placement(&r.traffic, false);
        assert!(cut.contains(" 511: ") && !cut.contains(" 512: ") && cut.contains("(3 more PEs left out"), "{cut}");
        let all = placement(&r.traffic, true);
        assert!(all.contains(" 514: ") && !all.contains("left out"), "{all}");
    }
}
