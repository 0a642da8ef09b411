//! Results of finished sweeps, drawn together.

use super::{Row, abscissa, axis_of, label, rank, scalars, seeds};
use crate::Error;
use crate::plot::Chart;
use crate::settings::Keys;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Short names of fields, what they stand for, and name and unit of their axis.
const FIELDS: [(&str, &str, &str); 2] = [
    ("latency", "packet_latency_cycles", "mean latency, cycles"),
    ("throughput", "accepted_flits_per_node_cycle", "accepted load, flits per node and cycle"),
];

/// Fields that count cycles or time of the run: no load makes them grow without limit.
const SPANS: [&str; 3] = ["warmup_cycles", "measured_cycles", "cycle_ps"];

/// A file that a sweep wrote.
#[derive(Debug)]
pub struct Finished {
    /// Name of the sweep, that of its directory.
    name: String,
    path: PathBuf,
    rows: Vec<Row>,
    /// Swept settings; the last one is the horizontal axis of the sweep's own charts.
    swept: Vec<String>,
}

/// The chart that is asked for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Field of the results, or `latency` or `throughput`.
    pub y: String,
    /// Swept setting of the horizontal axis; that of the sweeps' own charts if none.
    pub x: Option<String>,
    /// Heading; the field if none.
    pub title: Option<String>,
}

#[derive(Deserialize)]
struct Flat {
    swept: BTreeMap<String, String>,
    #[serde(flatten)]
    result: Map<String, Value>,
}

impl Finished {
    /// Reads what a sweep wrote: its directory, or the file `sweep.json` in that.
    ///
    /// # Errors
    /// Returns which file is not what a sweep writes.
    pub fn read(path: &Path) -> Result<Finished, Error> {
        let file = if path.is_dir() { path.join("sweep.json") } else { path.to_path_buf() };
        if path.is_dir() && !file.exists() {
            let remedy = match crate::parts::unfinished(path) {
                true => "it has not ended; `angara sim sweep` goes on with it",
                false => "there is no sweep.json; give the directory of a finished sweep",
            };
            return Err(Error::invalid("sweep", path.display(), remedy));
        }
        let text = std::fs::read_to_string(&file).map_err(|source| Error::File { path: file.clone(), source })?;
        let flat: Vec<Flat> = serde_json::from_str(&text).map_err(|e| Error::Setting {
            path: file.clone(),
            line: e.line().max(1),
            message: format!("this is no result of a sweep; give one's directory or its sweep.json ({e})"),
        })?;
        let rows: Vec<Row> =
            flat.into_iter().map(|f| Row { swept: f.swept, result: f.result, plots: Vec::new() }).collect();
        let refuse = |remedy: &str| Err(Error::invalid("sweep", file.display(), remedy));
        let Some(first) = rows.first() else { return refuse("it has no points; run `angara sim sweep` again") };
        if first.swept.is_empty() {
            return refuse("no setting was swept; list the values of one in its [sweep] table and run it again");
        }
        if rows.iter().any(|row| !row.swept.keys().eq(first.swept.keys())) {
            return refuse("its points are not of one sweep; run `angara sim sweep` again");
        }
        let swept = ordered(&rows);
        Ok(Finished { name: name(&file), path: file, rows, swept })
    }

    /// Numbers that the results have, by the names to ask for them.
    fn fields(&self) -> BTreeSet<String> {
        let all = self.rows.iter().flat_map(|row| scalars(&row.result));
        all.filter(|(_, text)| text.parse::<f64>().is_ok()).map(|(name, _)| name).collect()
    }

    /// Refuses a field that no result has.
    fn check_field(&self, asked: &str, field: &str) -> Result<(), Error> {
        if self.rows.iter().any(|row| number(&row.result, field).is_some()) {
            return Ok(());
        }
        let names: Vec<String> = self.fields().into_iter().collect();
        let remedy = format!("{} has no such number; it has {}", self.path.display(), names.join(", "));
        Err(Error::invalid("--y", asked, remedy))
    }
}

/// Name of a sweep that wrote `file`.
fn name(file: &Path) -> String {
    let whole = file.canonicalize().unwrap_or_else(|_| file.into());
    let named = if whole.file_name().is_some_and(|n| n == "sweep.json") {
        whole.parent().and_then(Path::file_name)
    } else {
        whole.file_stem()
    };
    named.map_or_else(|| file.display().to_string(), |n| n.to_string_lossy().into_owned())
}

/// The settings that `rows` sweep, in the order of the sweep.
fn ordered(rows: &[Row]) -> Vec<String> {
    let known = Keys::names();
    let mut names: Vec<&String> = rows[0].swept.keys().collect();
    names.sort_by_key(|name| {
        let number = rows.iter().all(|row| row.swept[*name].parse::<f64>().is_ok());
        (rank(name, number), known.iter().position(|n| n == *name))
    });
    names.into_iter().cloned().collect()
}

/// A number of a result; those inside an object as `object.name`.
fn number(result: &Map<String, Value>, field: &str) -> Option<f64> {
    match result.get(field) {
        Some(value) => value.as_f64(),
        None => {
            let (object, inner) = field.split_once('.')?;
            number(result.get(object)?.as_object()?, inner)
        }
    }
}

/// True if a field is a time, which has no value where the network is saturated.
fn is_time(field: &str) -> bool {
    let ends = ["_cycles", "_ns", "_us"].iter().any(|unit| field.ends_with(unit));
    (ends || field.split('.').next().is_some_and(|object| object.ends_with("_cycles"))) && !SPANS.contains(&field)
}

/// Half-width of the confidence interval of a field, if it is known. It is said of the mean latency, in cycles.
fn confidence(row: &Row, field: &str) -> Option<f64> {
    if let Some(half) = row.between_runs(field) {
        return Some(half);
    }
    let (half, cycles) = (row.number("confidence")?, row.number("packet_latency_cycles")?);
    match field {
        "packet_latency_cycles" => Some(half),
        "packet_latency_ns" => Some(half * row.number(field)? / cycles),
        _ => None,
    }
}

/// The results of `sweeps` as one chart, a curve for every combination of the other settings of each.
///
/// # Errors
/// A field or a setting that a sweep does not have, or sweeps over different settings.
pub fn together(sweeps: &[Finished], wanted: &Wanted) -> Result<Chart, Error> {
    let short = FIELDS.iter().find(|f| f.0 == wanted.y);
    let field = short.map_or(wanted.y.as_str(), |f| f.1);
    let known = FIELDS.iter().find(|f| f.1 == field);
    sweeps.iter().try_for_each(|sweep| sweep.check_field(&wanted.y, field))?;
    let x = horizontal(sweeps, wanted)?;
    let title = match (&wanted.title, known) {
        (Some(title), _) => title.clone(),
        (None, Some((name, ..))) => name[..1].to_uppercase() + &name[1..],
        (None, None) => field.into(),
    };
    let y = known.map_or(field, |f| f.2).into();
    let mut chart = Chart { title, x: axis_of(&x).into(), y, places: places(sweeps, &x), ..Chart::default() };
    // Named places are no way from one to the next.
    chart.scatter = !chart.places.is_empty();
    for sweep in sweeps {
        // With the seed on the axis every run stands for itself.
        let means = seeds::averaged(&sweep.rows).filter(|_| x != "seed");
        for row in means.as_deref().unwrap_or(&sweep.rows) {
            add(&mut chart, &curve(sweeps, sweep, row, &x), row, &x, field);
        }
    }
    chart.curves.iter_mut().for_each(|(_, points)| points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    match chart.has_points() {
        true => Ok(chart),
        false => {
            Err(Error::invalid("--y", &wanted.y, "every point is saturated, where it has no value; try throughput"))
        }
    }
}

/// The setting of the horizontal axis.
fn horizontal(sweeps: &[Finished], wanted: &Wanted) -> Result<String, Error> {
    let last = |sweep: &Finished| sweep.swept.last().cloned().unwrap_or_default();
    let Some(first) = sweeps.first() else { return Err(Error::invalid("number of sweeps", 0, "give at least one")) };
    let x = wanted.x.clone().unwrap_or_else(|| last(first));
    for sweep in sweeps {
        let path = sweep.path.display();
        if !sweep.swept.contains(&x) {
            let remedy = format!("{path} sweeps {}", sweep.swept.join(", "));
            return Err(Error::invalid(if wanted.x.is_some() { "--x" } else { "horizontal axis" }, x, remedy));
        }
        if wanted.x.is_none() && last(sweep) != x {
            let remedy = format!("that of {path} is {}; choose with --x what all sweep", last(sweep));
            return Err(Error::invalid("horizontal axis", x, remedy));
        }
    }
    Ok(x)
}

/// Names of the places on an axis where values are no numbers; none if all are.
fn places(sweeps: &[Finished], x: &str) -> Vec<String> {
    let values = || sweeps.iter().flat_map(|s| &s.rows).map(|row| &row.swept[x]);
    let mut places: Vec<String> = Vec::new();
    if values().any(|value| abscissa(x, value).is_none()) {
        for value in values() {
            if !places.contains(value) {
                places.push(value.clone());
            }
        }
    }
    places
}

/// Name of the curve that a result belongs to: its sweep, if there are several, and its other settings.
fn curve(sweeps: &[Finished], sweep: &Finished, row: &Row, x: &str) -> String {
    let others = sweep.swept.iter().filter(|name| *name != x && row.swept.contains_key(*name));
    let settings = label(others.map(|name| (name.as_str(), row.swept[name].as_str())));
    let alike = sweeps.iter().filter(|other| other.name == sweep.name).count();
    let name = if alike > 1 { sweep.path.display().to_string() } else { sweep.name.clone() };
    match (sweeps.len() > 1, settings.is_empty()) {
        (_, true) => name,
        (true, false) => format!("{name}, {settings}"),
        (false, false) => settings,
    }
}

fn add(chart: &mut Chart, curve: &str, row: &Row, x: &str, field: &str) {
    let value = &row.swept[x];
    let place = chart.places.iter().position(|name| name == value).map(|place| place as f64);
    let Some(x) = place.or_else(|| abscissa(x, value)) else { return };
    let at = chart.curves.iter().position(|(name, _)| name == curve).unwrap_or_else(|| {
        chart.curves.push((curve.into(), Vec::new()));
        chart.curves.len() - 1
    });
    if is_time(field) && row.saturated() {
        chart.beyond.push((curve.into(), x));
    } else if let Some(y) = number(&row.result, field) {
        chart.curves[at].1.push((x, y));
        chart.sure.extend(confidence(row, field).map(|half| (curve.to_string(), (x, y), half)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes files of a scratch directory of its own, and passes its path on.
    fn within(name: &str, files: &[(&str, &str)], then: impl FnOnce(&Path)) {
        let dir = std::env::temp_dir().join(format!("angara-finished-{}-{name}", std::process::id()));
        for (file, text) in files {
            let path = dir.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        then(&dir);
        std::fs::remove_dir_all(dir).unwrap();
    }

    fn point(swept: &str, latency: f64, more: &str) -> String {
        format!(
            "{{\"swept\":{{{swept}}},\"packet_latency_cycles\":{latency},\"packet_latency_ns\":{},\"confidence\":0.5,\
             \"settings\":{{\"seed\":1}},\"links\":{{\"max_flits_per_cycle\":0.25}}{more}}}",
            latency * 2.0
        )
    }

    fn loads(factor: f64) -> String {
        let at = |load: f64, more: &str| point(&format!("\"load\":\"{load}\""), load * factor, more);
        format!("[{},{},{}]", at(0.2, ""), at(0.1, ""), at(0.3, ",\"saturated\":true"))
    }

    fn wanted(y: &str) -> Wanted {
        Wanted { y: y.into(), x: None, title: None }
    }

    fn drawn(dir: &Path, sweeps: &[&str], wanted: &Wanted) -> Result<Chart, String> {
        let read = |s: &&str| Finished::read(&dir.join(s));
        let sweeps: Vec<Finished> = sweeps.iter().map(read).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
        together(&sweeps, wanted).map_err(|e| e.to_string().replace(&format!("{}/", dir.display()), ""))
    }

    #[test]
    fn curves_have_the_names_of_their_sweeps() {
        let both = |pattern: &str| {
            let swept = format!("\"load\":\"0.1\",\"pattern\":\"{pattern}\"");
            point(&swept, 4.0, "")
        };
        let patterns = format!("[{},{}]", both("uniform"), both("tornado"));
        let (one, two) = (loads(100.0), loads(200.0));
        let files = [
            ("a/sweep.json", one.as_str()),
            ("b/sweep.json", two.as_str()),
            ("c.json", &patterns),
            ("d/a/sweep.json", &one),
        ];
        within("names", &files, |dir| {
            let chart = drawn(dir, &["a", "b/sweep.json", "c.json"], &wanted("latency")).unwrap();
            let names: Vec<&str> = chart.curves.iter().map(|c| c.0.as_str()).collect();
            assert_eq!(names, ["a", "b", "c, uniform", "c, tornado"]);
            assert_eq!(chart.curves[1].1, [(0.1, 20.0), (0.2, 40.0)], "in the order of the axis");
            assert_eq!(chart.beyond, [("a".into(), 0.3), ("b".into(), 0.3)]);
            assert_eq!((chart.sure.len(), chart.sure[0].2), (6, 0.5));
            assert_eq!((chart.title.as_str(), chart.y.as_str()), ("Latency", "mean latency, cycles"));
            assert!(chart.svg().is_ok() && chart.places.is_empty());

            let ns = drawn(dir, &["a"], &wanted("packet_latency_ns")).unwrap();
            assert_eq!((ns.sure[0].2, ns.beyond.len(), ns.curves[0].0.as_str()), (1.0, 1, "a"));
            let links = drawn(dir, &["a"], &wanted("links.max_flits_per_cycle")).unwrap();
            assert_eq!((links.curves[0].1.len(), links.sure.len(), links.beyond.len()), (3, 0, 0));
            let alike = drawn(dir, &["a", "d/a"], &wanted("latency")).unwrap();
            assert!(alike.curves[1].0.ends_with("d/a/sweep.json"), "{:?}", alike.curves[1].0);

            let by_name = Wanted { x: Some("pattern".into()), ..wanted("latency") };
            let chart = drawn(dir, &["c.json"], &by_name).unwrap();
            assert_eq!(
                (chart.places.as_slice(), chart.scatter),
                (&["uniform".to_string(), "tornado".into()][..], true)
            );
            assert_eq!(chart.curves, [("load 0.1".into(), vec![(0.0, 4.0), (1.0, 4.0)])]);
        });
    }

    #[test]
    fn what_is_no_sweep_is_named_with_a_remedy() {
        let saturated = format!("[{}]", point("\"load\":\"1\"", 4.0, ",\"saturated\":true"));
        let (good, single) = (loads(1.0), format!("[{}]", point("", 1.0, "")));
        let mixed = format!("[{},{}]", point("\"load\":\"1\"", 1.0, ""), point("\"seed\":\"1\"", 1.0, ""));
        let sizes = format!("[{}]", point("\"topology\":\"torus:4x4\"", 1.0, ""));
        let files = [
            ("good/sweep.json", good.as_str()),
            ("text.json", "latency\n"),
            ("object.json", "{\n\"points\": 3}"),
            ("rows.json", "[\n{\"swept\": 3}]"),
            ("empty.json", "[]"),
            ("single.json", &single),
            ("mixed.json", &mixed),
            ("sizes.json", &sizes),
            ("saturated.json", &saturated),
            ("part/parts/3.claim", ""),
            ("other/notes", ""),
        ];
        within("bad", &files, |dir| {
            let refused = |sweeps: &[&str], wanted: &Wanted| drawn(dir, sweeps, wanted).unwrap_err();
            for (sweep, parts) in [
                ("text.json", &["text.json:1: ", "no result of a sweep", "sweep.json"][..]),
                ("object.json", &["object.json:1: ", "no result of a sweep"]),
                ("rows.json", &["rows.json:2: "]),
                ("empty.json", &["empty.json: it has no points"]),
                ("single.json", &["single.json: no setting was swept", "[sweep]"]),
                ("mixed.json", &["mixed.json: its points are not of one sweep"]),
                ("part", &["part: it has not ended", "goes on"]),
                ("other", &["other: there is no sweep.json"]),
                ("none.json", &["none.json: No such file"]),
            ] {
                let said = refused(&["good", sweep], &wanted("latency"));
                assert!(parts.iter().all(|part| said.contains(part)), "{said}");
            }
            let said = refused(&["good"], &wanted("speed"));
            let fields = "confidence, links.max_flits_per_cycle, packet_latency_cycles, packet_latency_ns";
            assert_eq!(said, format!("--y is speed: good/sweep.json has no such number; it has {fields}"));
            let said = refused(&["good"], &Wanted { x: Some("vcs".into()), ..wanted("latency") });
            assert_eq!(said, "--x is vcs: good/sweep.json sweeps load");
            let said = refused(&["good", "sizes.json"], &wanted("latency"));
            assert_eq!(said, "horizontal axis is load: sizes.json sweeps topology");
            assert!(refused(&["saturated.json"], &wanted("latency")).contains("every point is saturated"));
            let topology = Wanted { x: Some("topology".into()), ..wanted("latency") };
            assert_eq!(drawn(dir, &["sizes.json"], &topology).unwrap().curves[0].1, [(16.0, 1.0)]);
        });
    }

    #[test]
    fn times_are_told_from_what_has_a_value_beyond_saturation() {
        for field in ["packet_latency_cycles", "packet_latency_ns", "latency_percentiles_cycles.p99", "time_ns"] {
            assert!(is_time(field), "{field}");
        }
        for field in ["accepted_flits_per_node_cycle", "measured_cycles", "warmup_cycles", "packets", "cycle_ps"] {
            assert!(!is_time(field), "{field}");
        }
    }
}
