//! `angara report A B`: what the second of two runs has more or less than the first.

use super::document::Document;
use super::table::{Table, Unit, bytes, count};
use super::times::{self, Csv};
use super::{RunReport, summary, total, word_of};
use crate::error::Failed;
use angara_abi::account::{Class, Traffic};
use angara_net::torus::{Direction, Shape};
use angara_protocol::msg::{CriticalPath, LinkReport, PeTimes, Times};
use angara_protocol::print::csv_cell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Display;

/// Rows shown of those that differ, unless all are wanted.
const SHOWN: usize = 10;
/// ... on a page, which browsers have to load as a whole.
const ON_A_PAGE: usize = 500;

/// A figure of both runs.
struct Row {
    /// What it is about, such as a link.
    name: String,
    /// Its measure, such as `flits`; empty where the name says it.
    what: &'static str,
    a: u64,
    b: u64,
    /// Picoseconds rather than a count.
    time: bool,
}

impl Row {
    fn count(name: impl Display, what: &'static str, (a, b): (u64, u64)) -> Row {
        Row { name: name.to_string(), what, a, b, time: false }
    }
    fn time(name: impl Display, what: &'static str, (a, b): (u64, u64)) -> Row {
        Row { time: true, ..Row::count(name, what, (a, b)) }
    }
    fn differs(&self) -> bool {
        self.a != self.b
    }
    /// A, B, their difference, and that in per cent of A.
    fn cells(&self, unit: Unit) -> [String; 4] {
        let show = |n: u64| if self.time { unit.show(n) } else { count(n) };
        let sign = if self.b > self.a { '+' } else { '-' };
        let (more, percent) = match self {
            row if !row.differs() => ("=".into(), "=".into()),
            row if row.a == 0 => (format!("+{}", show(row.b)), "new".into()),
            row => {
                let percent = 100.0 * (row.b as f64 - row.a as f64) / row.a as f64;
                (format!("{sign}{}", show(row.a.abs_diff(row.b))), format!("{percent:+.1}"))
            }
        };
        [show(self.a), show(self.b), more, percent]
    }
}

/// How the rows of a group are shown.
enum View {
    /// All of them, in order.
    Whole,
    /// Those of a measure that differ, most first.
    Most(&'static str),
}

/// Rows about the same.
struct Group {
    title: String,
    /// What a row's name is.
    key: &'static str,
    view: View,
    /// The table of `--csv` that has the rows.
    csv: Option<Csv>,
    rows: Vec<Row>,
}

/// Two runs on the same network.
pub struct Comparison {
    unit: Unit,
    /// The runs, in a line each.
    runs: [String; 2],
    /// Settings: name, and what they are in both runs.
    settings: Vec<(&'static str, String, String)>,
    notes: Vec<String>,
    groups: Vec<Group>,
}

/// Compares two reports, each with the name of its file.
///
/// # Errors
/// If the networks or the numbers of PEs are not the same: links and PEs of one have no counterparts in the other.
pub fn compare((a_name, a): (&str, &RunReport), (b_name, b): (&str, &RunReport)) -> Result<Comparison, Failed> {
    let size = |r: &RunReport| (r.traffic.shape, r.traffic.placement.len());
    if size(a) != size(b) {
        let words = |name: &str, r: &RunReport| format!("{name} is of {} PEs on {}", size(r).1, size(r).0);
        let what = format!("{}, {}: their links and PEs cannot be compared", words(a_name, a), words(b_name, b));
        let remedy = "give two reports of the same --torus and -n; `angara whatif` compares times of different ones";
        return Err(Failed::usage(what, remedy));
    }
    let longest = [a, b].map(|r| {
        let pes = r.traffic.virtual_time.iter().flat_map(|times| &times.pes);
        pes.map(|pe| pe.end).max().unwrap_or_else(|| wall(r))
    });
    let unit = Unit::of(longest[0].max(longest[1]));
    let mut all = Comparison {
        unit,
        runs: [format!("A  {a_name}: {}", summary(a)), format!("B  {b_name}: {}", summary(b))],
        settings: settings(a, b),
        notes: Vec::new(),
        groups: Vec::new(),
    };
    match (&a.traffic.virtual_time, &b.traffic.virtual_time) {
        (Some(_), Some(_)) => all.groups.extend(in_virtual_time(a, b, unit)),
        (None, None) => {
            let rows = vec![Row::time("the run", "", (wall(a), wall(b)))];
            all.groups.push(whole(format!("Time, {}", unit.name), "time", rows));
            all.notes.push("both ran in real time, which differs from run to run".into());
        }
        (virt, _) => {
            let (virt, real) = if virt.is_some() { ("A", "B") } else { ("B", "A") };
            all.notes.push(format!("{virt} ran in virtual time, {real} in real time: times are not compared"));
        }
    }
    all.groups.extend(traffic(a, b));
    Ok(all)
}

/// Picoseconds on the clock of the wall.
fn wall(r: &RunReport) -> u64 {
    (r.traffic.wall_s * 1e12) as u64
}

fn whole(title: String, key: &'static str, rows: Vec<Row>) -> Group {
    Group { title, key, view: View::Whole, csv: None, rows }
}

/// Two lists as one, by key; several values of a key are added, missing ones are 0.
fn joined<K: Ord, const N: usize>(
    a: impl IntoIterator<Item = (K, [u64; N])>,
    b: impl IntoIterator<Item = (K, [u64; N])>,
) -> BTreeMap<K, [(u64, u64); N]> {
    let mut all: BTreeMap<K, [(u64, u64); N]> = BTreeMap::new();
    for (key, values) in a {
        let sums = all.entry(key).or_insert([(0, 0); N]);
        sums.iter_mut().zip(values).for_each(|(sum, value)| sum.0 = sum.0.saturating_add(value));
    }
    for (key, values) in b {
        let sums = all.entry(key).or_insert([(0, 0); N]);
        sums.iter_mut().zip(values).for_each(|(sum, value)| sum.1 = sum.1.saturating_add(value));
    }
    all
}

/// What decides what a run does.
fn settings(a: &RunReport, b: &RunReport) -> Vec<(&'static str, String, String)> {
    let of = |r: &RunReport| {
        let (t, o) = (&r.traffic, &r.options);
        let set = t.set.as_ref().map_or_else(|| "none".into(), |set| set.show(&t.shape));
        let faults = if o.faults.is_empty() { "none".into() } else { o.faults.join("; ") };
        [
            ("program", r.command.join(" ")),
            ("outcome", r.outcome.clone()),
            ("path", word_of(&t.path)),
            ("machine", o.machine_name()),
            ("PEs on a node", o.ppn.to_string()),
            ("map", o.map.clone()),
            ("node set", set),
            ("cores", o.bind.to_string()),
            ("barrier", word_of(&o.barrier)),
            ("collectives", word_of(&o.collectives)),
            ("heap", bytes(o.heap)),
            ("faults", faults),
        ]
    };
    let mut all: Vec<_> = of(a).into_iter().zip(of(b)).map(|((name, a), (_, b))| (name, a, b)).collect();
    let (pa, pb) = (&a.traffic.placement, &b.traffic.placement);
    let at = |pe: usize, node: u32| format!("PE {pe} on {}", a.traffic.shape.show(a.traffic.shape.coords(node)));
    let moved: Vec<usize> = (0..pa.len()).filter(|pe| pa[*pe] != pb[*pe]).collect();
    all.push(match moved.first() {
        None => ("placement", String::new(), String::new()),
        Some(pe) => ("placement", at(*pe, pa[*pe]), format!("{}; moved PEs: {}", at(*pe, pb[*pe]), moved.len())),
    });
    all
}

/// Times, critical path, waits and routines.
fn in_virtual_time(a: &RunReport, b: &RunReport, unit: Unit) -> Vec<Group> {
    let (Some(ta), Some(tb)) = (&a.traffic.virtual_time, &b.traffic.virtual_time) else { return Vec::new() };
    const PARTS: [&str; 6] = ["ended", "computing", "library", "for data", "for the network", "other"];
    let pes = |t: &Times| -> Vec<(usize, [u64; 7])> {
        let of =
            |pe: &PeTimes| [pe.end, pe.compute, pe.software, pe.for_data, pe.for_network, times::other(pe), pe.posts];
        t.pes.iter().map(of).enumerate().collect()
    };
    let by_pe = joined(pes(ta), pes(tb));
    let mut sums = vec![Row::time("end of the last PE", "", (ended(ta), ended(tb)))];
    let mut each = Vec::new();
    let add = |sum: (u64, u64), more: (u64, u64)| (sum.0.saturating_add(more.0), sum.1.saturating_add(more.1));
    let total = |i: usize| by_pe.values().fold((0, 0), |sum, values| add(sum, values[i]));
    sums.extend((1..6).map(|i| Row::time(format!("{}, all PEs", PARTS[i]), "", total(i))));
    for (pe, values) in &by_pe {
        each.extend((0..6).map(|i| Row::time(pe, PARTS[i], values[i])));
        each.push(Row::count(pe, "posts", values[6]));
    }
    let parts = times::parts(&ta.path).into_iter().zip(times::parts(&tb.path));
    let span = |p: &CriticalPath| p.end.saturating_sub(p.from);
    let mut path = vec![Row::time("all of it", "", (span(&ta.path), span(&tb.path)))];
    path.extend(parts.map(|((name, a), (_, b))| Row::time(name, "", (a, b))));

    let waits = |r: &RunReport| -> Vec<_> {
        r.details.waits.iter().map(|(pe, whom, times, ps)| ((*pe, *whom), [*ps, *times])).collect()
    };
    let mut waited = Vec::new();
    for ((pe, whom), [ps, times]) in joined(waits(a), waits(b)) {
        let name = format!("PE {pe} for {}", whom.map_or("others".into(), |whom| format!("PE {whom}")));
        waited.extend([Row::time(&name, "waited", ps), Row::count(&name, "times", times)]);
    }
    let routines = |r: &RunReport| -> Vec<(String, [u64; 3])> {
        r.details.routines.iter().map(|(_, name, calls, ps, bytes)| (name.clone(), [*ps, *calls, *bytes])).collect()
    };
    let mut called = Vec::new();
    for (name, [ps, calls, bytes]) in joined(routines(a), routines(b)) {
        called.push(Row::time(&name, "time", ps));
        called.extend([Row::count(&name, "calls", calls), Row::count(&name, "bytes", bytes)]);
    }
    let most = |title: &str, key, measure, csv, rows| {
        let title = format!("{title}, {}", unit.name);
        Group { title, key, view: View::Most(measure), csv: Some(csv), rows }
    };
    vec![
        whole(format!("Virtual time, {}", unit.name), "time", sums),
        Group { csv: Some(Csv::Path), ..whole(format!("Critical path, {}", unit.name), "it was", path) },
        most("Ends of PEs", "PE", "ended", Csv::Pes, each),
        most("Waits", "wait", "waited", Csv::Waits, waited),
        most("Routines, all PEs", "routine", "time", Csv::Routines, called),
    ]
}

/// Picoseconds until the last PE ended.
fn ended(times: &Times) -> u64 {
    times.pes.iter().map(|pe| pe.end).max().unwrap_or(0)
}

/// By class, by link, and between PEs.
fn traffic(a: &RunReport, b: &RunReport) -> Vec<Group> {
    let classes = |r: &RunReport| -> Vec<(Class, [u64; 4])> {
        r.traffic.pairs.iter().map(|pair| (pair.class, measures(&pair.traffic))).collect()
    };
    let mut by_class = Vec::new();
    for (class, values) in joined(classes(a), classes(b)) {
        let names = ["operations", "packets", "flits", "payload bytes"];
        by_class.extend(names.iter().zip(values).map(|(what, both)| Row::count(class.name(), what, both)));
    }
    let pairs = |r: &RunReport| -> Vec<((u32, u32), [u64; 1])> {
        r.traffic.pairs.iter().map(|pair| ((pair.from, pair.to), [measures(&pair.traffic)[3]])).collect()
    };
    let between = joined(pairs(a), pairs(b)).into_iter();
    let between = between.map(|((from, to), [both])| Row::count(format!("{from} to {to}"), "bytes", both)).collect();
    let (links, trouble) = links(a, b);
    let most =
        |title: &str, key, measure, csv, rows| Group { title: title.into(), key, view: View::Most(measure), csv, rows };
    let mut all = vec![
        whole("Traffic by class, all PEs".into(), "class", by_class),
        most("Flits per link", "link", "flits", Some(Csv::Links), links),
        most("Payload bytes between PEs", "from and to", "bytes", None, between),
    ];
    if !trouble.is_empty() {
        all.push(whole("Links in trouble".into(), "link", trouble));
    }
    all
}

/// Operations, packets, flits and bytes, there and back.
fn measures(traffic: &Traffic) -> [u64; 4] {
    let Traffic { ops, out, back } = traffic;
    [*ops, out.packets + back.packets, out.flits + back.flits, out.bytes + back.bytes]
}

/// What links carried, and what was wrong with them.
fn links(a: &RunReport, b: &RunReport) -> (Vec<Row>, Vec<Row>) {
    const TROUBLE: [&str; 5] = ["crc errors", "replays", "twice", "early", "down"];
    let of = |r: &RunReport| -> Vec<((u32, Direction), [u64; 8])> {
        let values = |link: &LinkReport| {
            let (sum, down) = (total(link), u64::from(!link.up));
            let (crc, twice) = (link.crc_errors, link.duplicates);
            [sum.flits, sum.packets, sum.bytes, crc, link.replays, twice, link.reordered, down]
        };
        r.traffic.links.iter().map(|link| ((link.node, link.dir), values(link))).collect()
    };
    let shape: Shape = a.traffic.shape;
    let (mut carried, mut trouble) = (Vec::new(), Vec::new());
    for ((node, dir), values) in joined(of(a), of(b)) {
        let name = format!("{} {dir}", shape.show(shape.coords(node)));
        let names = ["flits", "packets", "bytes"];
        carried.extend(names.iter().zip(values).map(|(what, both)| Row::count(&name, what, both)));
        let bad = TROUBLE.iter().zip(&values[3..]).filter(|(_, both)| **both != (0, 0));
        trouble.extend(bad.map(|(what, both)| Row::count(&name, what, *both)));
    }
    (carried, trouble)
}

impl Group {
    fn add_to(&self, out: &mut Document, unit: Unit, most: usize) {
        out.heading(self.title.clone());
        let View::Most(measure) = self.view else {
            let named = self.rows.iter().any(|row| !row.what.is_empty());
            let titles = [self.key, "what", ">A", ">B", ">B - A", ">%"];
            let titles: Vec<&str> = titles.into_iter().filter(|title| named || *title != "what").collect();
            let mut table = Table::new(&titles).keys(1 + usize::from(named));
            for row in &self.rows {
                let what = named.then(|| row.what.to_string());
                table.row(&[row.name.clone()].into_iter().chain(what).chain(row.cells(unit)).collect::<Vec<_>>());
            }
            if table.is_empty() {
                out.line("none in either");
            }
            return out.table(table);
        };
        let known: Vec<&Row> = self.rows.iter().filter(|row| row.what == measure).collect();
        let mut differ: Vec<&Row> = known.iter().copied().filter(|row| row.differs()).collect();
        let (differing, same) = (differ.len(), known.len() - differ.len());
        differ.sort_by_key(|row| Reverse(row.a.abs_diff(row.b)));
        differ.truncate(most);
        let mut table = Table::new(&[self.key, ">A", ">B", ">B - A", ">%"]);
        for row in &differ {
            table.row(&[&[row.name.clone()][..], &row.cells(unit)].concat());
        }
        out.table(table);
        out.line(match (differing, same) {
            (0, 0) => "none in either".into(),
            (0, same) => format!("the same: all {same}"),
            (n, same) if n > differ.len() => {
                let left_out = n - differ.len();
                format!("{n} differ, {same} are the same ({left_out} that differ less left out; --all shows them)")
            }
            (n, same) => format!("{n} differ, {same} are the same"),
        });
    }
}

impl Comparison {
    /// Everything, or what differs most.
    pub fn document(&self, all: bool) -> Document {
        self.with_most(if all { usize::MAX } else { SHOWN })
    }

    /// As much as fits on a page.
    pub(super) fn for_a_page(&self) -> Document {
        self.with_most(ON_A_PAGE)
    }

    /// So many rows of each table of what differs.
    fn with_most(&self, most: usize) -> Document {
        let mut out = Document::default();
        self.runs.iter().chain(&self.notes).for_each(|line| out.line(line));
        out.heading("Settings");
        let mut table = Table::new(&["what", "A", "B"]);
        let (same, differ): (Vec<_>, Vec<_>) = self.settings.iter().partition(|(_, a, b)| a == b);
        differ.into_iter().for_each(|(name, a, b)| table.row(&[*name, a, b]));
        out.table(table);
        let same: Vec<&str> = same.into_iter().map(|(name, ..)| *name).collect();
        out.line(format!("the same: network, PEs{}{}", if same.is_empty() { "" } else { ", " }, same.join(", ")));
        self.groups.iter().for_each(|group| group.add_to(&mut out, self.unit, most));
        out
    }

    /// One of the tables as CSV: name, measure, both figures and their difference; times in picoseconds.
    ///
    /// # Errors
    /// If the runs do not both have it.
    pub fn csv(&self, what: Csv) -> Result<String, Failed> {
        let Some(group) = self.groups.iter().find(|group| group.csv == Some(what)) else {
            let why = format!("--csv {what} is for two runs in virtual time, and these are not");
            return Err(Failed::usage(why, "run both with `--clock virtual --report FILE`, or ask for --csv links"));
        };
        let mut out = String::from("name,what,a,b,difference\n");
        for row in &group.rows {
            let measure = match row.what {
                "" => "time_ps".into(),
                what if row.time => format!("{}_ps", what.replace(' ', "_")),
                what => what.into(),
            };
            let more = i128::from(row.b) - i128::from(row.a);
            out.push_str(&format!("{},{measure},{},{},{more}\n", csv_cell(&row.name), row.a, row.b));
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    fn changed() -> RunReport {
        let mut b = sample();
        b.traffic.placement = vec![0, 3];
        b.traffic.pairs[0].traffic = Traffic::put(8192);
        b.traffic.links[1].replays = 3;
        b.traffic.links[0].load.get_mut(&Class::Put).expect("puts").flits += 100;
        b
    }

    fn text(a: &RunReport, b: &RunReport) -> String {
        compare(("a.json", a), ("b.json", b)).expect("the same size").document(false).text()
    }

    #[test]
    fn what_differs_is_said_in_numbers_and_per_cent() {
        let text = text(&sample(), &changed());
        for part in [
            "A  a.json: ./heat 10: 2 PEs on 2x2",
            "placement PE 1 on 1,0 PE 1 on 1,1; moved PEs: 1",
            "payload bytes 4 096 8 192 +4 096 +100.0",
            "+100",
            "1 differ, 1 are the same",
            "1,0 -X replays 0 3     +3 new",
            "0 to 1",
            "both ran in real time",
        ] {
            let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(squeezed(&text).contains(&squeezed(part)), "{part} missing in\n{text}");
        }
    }

    #[test]
    fn equal_runs_have_nothing_but_equal_signs() {
        let text = text(&sample(), &sample());
        assert!(text.contains("the same: all 2") && text.contains(", placement\n") && !text.contains('+'), "{text}");
    }

    #[test]
    fn other_networks_and_numbers_of_pes_are_refused() {
        let mut other = sample();
        other.traffic.shape = "4".parse().expect("a shape");
        let e = compare(("a.json", &sample()), ("b.json", &other)).map(drop).unwrap_err();
        assert!(e.message.contains("b.json is of 2 PEs on 4"), "{}", e.message);
        other = sample();
        other.traffic.placement.push(2);
        let e = compare(("a.json", &sample()), ("b.json", &other)).map(drop).unwrap_err();
        assert!(e.message.contains("b.json is of 3 PEs"), "{}", e.message);
    }

    #[test]
    fn times_are_compared_where_both_have_them() {
        let with = |end: u64| {
            let mut r = sample();
            let pe = PeTimes { end, for_data: end / 2, ..PeTimes::default() };
            r.traffic.virtual_time = Some(Times { pes: vec![pe, pe], ..Times::default() });
            r.details.waits = vec![(0, Some(1), 3, end / 2)];
            r.details.routines = vec![(0, "shmem_put".into(), 7, end / 4, 96)];
            r
        };
        let (a, b) = (with(400_000_000), with(300_000_000));
        let text = text(&a, &b);
        for part in ["400.000 300.000 -100.000 -25.0", "PE 0 for PE 1", "shmem_put", "Critical path, us"] {
            let squeezed = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(squeezed.contains(part), "{part} missing in\n{text}");
        }
        let both = compare(("a", &a), ("b", &b)).expect("the same size");
        for what in [Csv::Pes, Csv::Waits, Csv::Routines, Csv::Links, Csv::Path] {
            let csv = both.csv(what).expect("both have it");
            assert!(csv.lines().count() > 1 && csv.lines().all(|l| l.matches(',').count() >= 4), "{csv}");
        }
        assert!(
            both.csv(Csv::Waits).expect("there").contains("\nPE 0 for PE 1,waited_ps,200000000,150000000,-50000000\n")
        );
        assert!(both.csv(Csv::Pes).expect("there").contains("\n0,for_data_ps,"));
        let mixed = compare(("a", &a), ("b", &sample())).expect("the same size");
        assert!(mixed.document(false).text().contains("A ran in virtual time, B in real time"));
        assert!(mixed.csv(Csv::Pes).is_err() && mixed.csv(Csv::Links).is_ok());
    }
}
