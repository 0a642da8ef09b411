//! Many simulations: every combination of the values given for some settings.
//!
//! A sweep file is a run file with a `[sweep]` table that lists values:
//!
//! ```toml
//! topology = "torus:8x8x8"
//! router = "generic"
//! [sweep]
//! load = [0.1, 0.2, 0.3]
//! pattern = ["uniform", "tornado"]
//! ```
//!
//! Points are independent, so threads take whole points and the results do not depend on how many
//! threads there are.

#[cfg(feature = "shared-sweeps")]
pub mod finished;
pub mod seeds;

#[cfg(feature = "shared-sweeps")]
pub use finished::{Finished, Wanted, together};

use crate::Error;
use crate::plot::Chart;
use crate::settings::{Keys, Simulation};
use crate::table::{Table, number};
use crate::toml_file::TomlFile;
use crate::workload::{Plot, Report};
use angara_model::AnyTopology;
use angara_protocol::print::csv_cell;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most points of a sweep; more are a mistake.
pub(crate) const POINTS_MAX: usize = 10_000;

/// The points of a sweep, in order. `E` says what is simulated at each; it is `()` where only the results are there.
#[derive(Clone, Debug)]
pub struct Sweep<E = Simulation> {
    /// Swept settings in order; the last one varies fastest.
    pub names: Vec<String>,
    /// Points: the values of the swept settings, and the experiment.
    pub points: Vec<(Vec<String>, E)>,
}

impl Sweep {
    /// Reads a sweep file; `flags` win over its settings. Also the number of threads asked for: points are run
    /// side by side, each on one thread.
    ///
    /// # Errors
    /// Returns the mistake in the file or in a point, with its line if that is known.
    pub fn read(file: &TomlFile, flags: &Keys) -> Result<(Sweep, usize), Error> {
        let mut base: toml::Table = file.parse()?;
        let axes = match base.remove("sweep") {
            Some(toml::Value::Table(axes)) => axes,
            Some(_) => return Err(file.locate(Error::invalid("sweep", "no table", "write [sweep]"), Some("sweep"))),
            None => toml::Table::new(),
        };
        // Names and values of the plain settings are checked where they stand.
        let plain = file.without_table("sweep").parse::<Keys>()?;
        let threads = flags.threads.or(plain.threads).unwrap_or(1);
        if threads == 0 {
            let e = Error::invalid("threads", 0, "give at least 1");
            return Err(if flags.gives("threads") { e } else { file.locate(e, Some("threads")) });
        }
        let axes = ordered(file, axes)?;
        let total = axes.iter().map(|(_, values)| values.len()).product();
        if total == 0 || total > POINTS_MAX {
            let e = Error::invalid("number of points", total, format!("a sweep has 1 to {POINTS_MAX}"));
            return Err(file.locate(e, Some("sweep")));
        }
        let points = (0..total).map(|index| point(file, &base, &axes, flags, index)).collect::<Result<_, _>>()?;
        Ok((Sweep { names: axes.into_iter().map(|(name, _)| name).collect(), points }, threads))
    }

    /// Tells this sweep from others: the results depend on nothing else, but for the program.
    pub fn digest(&self) -> String {
        let mut hasher = DefaultHasher::new();
        (env!("CARGO_PKG_VERSION"), &self.names).hash(&mut hasher);
        for (values, simulation) in &self.points {
            let e = &simulation.experiment;
            let rest = (&e.network, &e.settings, &simulation.workload, &e.probe, &e.schedule, &e.observe.packets);
            (values, format!("{rest:?}")).hash(&mut hasher);
        }
        format!("{:016x}", hasher.finish())
    }

    fn swept(&self, values: &[String]) -> BTreeMap<String, String> {
        self.names.iter().cloned().zip(values.iter().cloned()).collect()
    }

    /// Runs points on `threads` threads until `desk` has none left or `stop` breaks.
    ///
    /// # Errors
    /// A network that cannot be built, or what `desk` said.
    pub fn run(
        &self,
        threads: usize,
        desk: &dyn Desk,
        stop: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<(), Error> {
        let failed = Mutex::new(None);
        let is_lost = || failed.lock().expect("no thread panics while it holds the lock").is_some();
        let one = || -> Result<bool, Error> {
            if is_lost() || stop().is_break() {
                return Ok(false);
            }
            let Some(index) = desk.next()? else { return Ok(false) };
            let (values, simulation) = &self.points[index];
            let report = match simulation.run(&mut |_| stop()) {
                Err(Error::Interrupted(_)) => return Ok(false),
                other => other?,
            };
            if report.json.get("interrupted") == Some(&Value::Bool(true)) {
                return Ok(false);
            }
            desk.done(index, &Row::new(self.swept(values), report))?;
            Ok(true)
        };
        let work = || {
            let ended = loop {
                match one() {
                    Ok(true) => {}
                    Ok(false) => break Ok(()),
                    Err(e) => break Err(e),
                }
            };
            if let Err(e) = ended {
                failed.lock().expect("no thread panics while it holds the lock").get_or_insert(e);
            }
        };
        crate::threads::share(threads.min(self.points.len()), work);
        failed.into_inner().expect("all threads have ended").map_or(Ok(()), Err)
    }
}

/// Hands out the points of a sweep, and takes the results.
pub trait Desk: Sync {
    /// Returns a point that is to be simulated; `None` if none is left.
    ///
    /// # Errors
    /// What keeps the desk from its work.
    fn next(&self) -> Result<Option<usize>, Error>;

    /// Takes the result of a point.
    ///
    /// # Errors
    /// What keeps the desk from its work.
    fn done(&self, point: usize, row: &Row) -> Result<(), Error>;
}

/// A desk in memory, for one process.
pub struct Memory<'a> {
    points: usize,
    next: AtomicUsize,
    rows: Mutex<BTreeMap<usize, Row>>,
    /// Told how many points are finished.
    told: &'a (dyn Fn(usize) + Sync),
}

impl<'a> Memory<'a> {
    /// A desk for all points of `sweep`; `told` hears how many are finished.
    pub fn new(sweep: &Sweep, told: &'a (dyn Fn(usize) + Sync)) -> Memory<'a> {
        Memory { points: sweep.points.len(), next: AtomicUsize::new(0), rows: Mutex::default(), told }
    }
    /// The results in order of the points; `None` if some are missing.
    pub fn rows(self) -> Option<Vec<Row>> {
        let rows = self.rows.into_inner().expect("no thread panics while it holds the lock");
        (rows.len() == self.points).then(|| rows.into_values().collect())
    }
}

impl Desk for Memory<'_> {
    fn next(&self) -> Result<Option<usize>, Error> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        Ok((next < self.points).then_some(next))
    }
    fn done(&self, point: usize, row: &Row) -> Result<(), Error> {
        let mut rows = self.rows.lock().expect("no thread panics while it holds the lock");
        rows.insert(point, row.clone());
        (self.told)(rows.len());
        Ok(())
    }
}

type Axis = (String, Vec<toml::Value>);

/// The axes with numbers last, and of those first all others, then the size of the network, then load: the
/// last one is the horizontal axis of the charts.
fn ordered(file: &TomlFile, axes: toml::Table) -> Result<Vec<Axis>, Error> {
    let names = Keys::names();
    let mut found = Vec::new();
    for (name, values) in axes {
        let Some(place) = names.iter().position(|n| *n == name) else {
            let e = Error::invalid("swept setting", &name, format!("there are {}", names.join(", ")));
            return Err(file.locate(e, Some(&name)));
        };
        let values = match values {
            toml::Value::Array(values) => values,
            toml::Value::String(range) if name == "seed" => {
                seeds::range(&range).map_err(|e| file.locate(e, Some(&name)))?
            }
            single => vec![single],
        };
        for value in &values {
            let alone = toml::Table::from_iter([(name.clone(), value.clone())]);
            if let Err(e) = alone.try_into::<Keys>() {
                return Err(file.locate(Error::Network(e.message().trim_end().into()), Some(&name)));
            }
        }
        let number = values.iter().all(|v| v.is_float() || v.is_integer());
        found.push((rank(&name, number), place, (name, values)));
    }
    found.sort_by_key(|(rank, place, _)| (*rank, *place));
    Ok(found.into_iter().map(|(_, _, axis)| axis).collect())
}

/// Place of a swept setting among others, whose values are all numbers or not.
fn rank(name: &str, number: bool) -> u8 {
    match name {
        "load" => 3,
        "topology" => 2,
        "seed" => 0,
        _ => u8::from(number || name == "workload"),
    }
}

fn point(
    file: &TomlFile,
    base: &toml::Table,
    axes: &[Axis],
    flags: &Keys,
    index: usize,
) -> Result<(Vec<String>, Simulation), Error> {
    let mut rest = index;
    let mut table = base.clone();
    let mut values = vec![String::new(); axes.len()];
    for (slot, (name, choices)) in values.iter_mut().zip(axes).rev() {
        let value = &choices[rest % choices.len()];
        rest /= choices.len();
        *slot = value.as_str().map_or_else(|| value.to_string(), String::from);
        table.insert(name.clone(), value.clone());
    }
    let keys: Keys = table.try_into().expect("every setting was checked alone");
    // Threads take points; each is simulated by one.
    let keys = Keys { threads: None, ..flags.clone().over(keys) };
    let simulation = keys.resolve().map_err(|(e, key)| match flags.gives(key) {
        true => e,
        false => file.locate(e, Some(key)),
    })?;
    Ok((values, simulation))
}

/// The result of a point, without what differs from run to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The swept settings.
    pub swept: BTreeMap<String, String>,
    /// The result.
    pub result: Map<String, Value>,
    /// Fields of it worth a curve.
    pub plots: Vec<Plot>,
}

/// Fields of a report that depend on the machine and the moment.
const VOLATILE: [&str; 6] =
    ["wall_s", "packet_hops_per_s", "flit_hops_per_s", "peak_rss_bytes", "model_bytes", "threads"];

impl Row {
    fn new(swept: BTreeMap<String, String>, report: Report) -> Row {
        let mut result = report.json;
        result.retain(|name, _| !VOLATILE.contains(&name.as_str()));
        Row { swept, result, plots: report.plots }
    }
    fn saturated(&self) -> bool {
        self.result.get("saturated") == Some(&Value::Bool(true))
    }
    fn number(&self, field: &str) -> Option<f64> {
        self.result.get(field).and_then(Value::as_f64)
    }
    /// Half-width of the confidence interval of the mean of `field`, if this is the mean of several runs.
    fn between_runs(&self, field: &str) -> Option<f64> {
        self.result.get(seeds::BETWEEN)?.get(field)?.as_f64()
    }
}

/// The results as one object each: the swept settings, then every field.
pub fn json(rows: &[Row]) -> impl Serialize {
    #[derive(Serialize)]
    struct Flat<'a> {
        swept: &'a BTreeMap<String, String>,
        #[serde(flatten)]
        result: &'a Map<String, Value>,
    }
    rows.iter().map(|row| Flat { swept: &row.swept, result: &row.result }).collect::<Vec<_>>()
}

/// Numbers, truth values and texts of a result by name; those inside an object as `object.name`.
/// The settings, which are the same or swept, are left out.
fn scalars(result: &Map<String, Value>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (name, value) in result.iter().filter(|(name, _)| *name != "settings") {
        match value {
            Value::Object(inner) => {
                found.extend(scalars(inner).into_iter().map(|(inner, text)| (format!("{name}.{inner}"), text)));
            }
            Value::Array(_) => {}
            Value::Null => found.push((name.clone(), String::new())),
            Value::String(text) => found.push((name.clone(), text.clone())),
            other => found.push((name.clone(), other.to_string())),
        }
    }
    found
}

/// The results as CSV: the swept settings `names`, then every field any point has.
pub fn csv(names: &[String], rows: &[Row]) -> String {
    let rows: Vec<(&Row, BTreeMap<String, String>)> =
        rows.iter().map(|r| (r, scalars(&r.result).into_iter().collect())).collect();
    let mut columns: Vec<String> = Vec::new();
    for (row, _) in &rows {
        for (name, _) in scalars(&row.result) {
            if !columns.contains(&name) {
                columns.push(name);
            }
        }
    }
    let line = |cells: Vec<String>| cells.iter().map(|c| csv_cell(c)).collect::<Vec<_>>().join(",") + "\n";
    let mut out = line(names.iter().chain(&columns).cloned().collect());
    for (row, fields) in &rows {
        let swept = names.iter().map(|n| row.swept[n].clone());
        out.push_str(&line(swept.chain(columns.iter().map(|c| fields.get(c).cloned().unwrap_or_default())).collect()));
    }
    out
}

/// The results for people: swept settings and what is worth plotting.
pub fn summary(names: &[String], rows: &[Row]) -> String {
    let mut fields: Vec<&str> = Vec::new();
    for plot in rows.iter().flat_map(|r| &r.plots) {
        if !fields.contains(&plot.field.as_str()) {
            fields.push(&plot.field);
        }
    }
    let right: Vec<String> = fields.iter().map(|f| format!(">{f}")).collect();
    let mut titles: Vec<&str> = names.iter().map(String::as_str).collect();
    titles.extend(right.iter().map(String::as_str));
    titles.push("");
    let mut table = Table::new(&titles);
    for row in rows {
        let show = |field: &&str| match (row.number(field), row.between_runs(field)) {
            (None, _) => "-".into(),
            (Some(value), None) => number(value, 5),
            (Some(value), Some(half)) => format!("{} ± {}", number(value, 5), number(half, 2)),
        };
        let mut cells: Vec<String> = names.iter().map(|name| row.swept[name].clone()).collect();
        cells.extend(fields.iter().map(show));
        cells.push(if row.saturated() { "saturated" } else { "" }.into());
        table.row(&cells);
    }
    table.render() + &most_carried(names, rows) + &differences(rows)
}

/// Says so if rows are of networks whose packets take other times where nothing is in their way: a comparison of their
/// latencies is one of these times, too.
fn differences(rows: &[Row]) -> String {
    let mut kinds: Vec<[f64; 3]> = Vec::new();
    for row in rows {
        let lone = row.result.get("settings").and_then(|settings| settings.get("lone_packet"));
        let time = |name: &str| lone?.get(name)?.as_f64();
        if let (Some(ends), Some(hop), Some(flit)) = (time("ends_ns"), time("hop_ns"), time("flit_ns"))
            && !kinds.contains(&[ends, hop, flit])
        {
            kinds.push([ends, hop, flit]);
        }
    }
    if kinds.len() < 2 {
        return String::new();
    }
    let shown = kinds.iter().take(4).map(|[ends, hop, flit]| {
        format!("{} ns at the ends, {} ns a hop, {} ns a flit", number(*ends, 4), number(*hop, 4), number(*flit, 4))
    });
    let more = if kinds.len() > 4 { format!("; and {} others", kinds.len() - 4) } else { String::new() };
    format!(
        "\nnote: the networks of these rows differ in the times of a lone packet: {}{more}; give them one --machine to \
         compare how they are wired\n",
        shown.collect::<Vec<_>>().join("; ")
    )
}

/// Returns what the network carried at the best of all loads, for everything that was saturated at some: beyond it may
/// carry less.
fn most_carried(names: &[String], rows: &[Row]) -> String {
    let Some((load, others)) = names.split_last().filter(|(last, _)| *last == "load") else {
        return String::new();
    };
    let mut groups: Vec<(String, Vec<&Row>)> = Vec::new();
    for row in rows {
        let name = others.iter().map(|n| format!(" {n} {}", row.swept[n])).collect::<Vec<_>>().join(",");
        match groups.iter_mut().find(|(group, _)| *group == name) {
            Some((_, group)) => group.push(row),
            None => groups.push((name, vec![row])),
        }
    }
    let mut out = String::new();
    for (name, group) in groups.iter().filter(|(_, group)| group.iter().any(|row| row.saturated())) {
        let carried = group.iter().filter_map(|row| Some((row.number("accepted_flits_per_node_cycle")?, row)));
        if let Some((most, row)) = carried.max_by(|a, b| a.0.total_cmp(&b.0)) {
            let at = &row.swept[load];
            out.push_str(&format!("\nmost carried{name}: {} flits per node and cycle, at load {at}", number(most, 4)));
        }
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

/// Place of a swept value on an axis: its number, the nodes of a topology, or the first number in
/// something like `hotspot:3,0.2`.
fn abscissa(name: &str, value: &str) -> Option<f64> {
    match name {
        "topology" => Some(value.parse::<AnyTopology>().ok()?.endpoints() as f64),
        _ => value.rsplit(':').next()?.split(',').next()?.parse().ok(),
    }
}

/// Name of a curve: the values of settings, and the names of those whose values say nothing alone.
fn label<'a>(swept: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let names = |value: &str| value.contains(|c: char| c.is_alphabetic());
    let each = |(name, value): (&str, &str)| if names(value) { value.into() } else { format!("{name} {value}") };
    swept.map(each).collect::<Vec<String>>().join(", ")
}

/// A chart per plot of the workload over the last swept setting, one curve for every combination of
/// the others; none if that setting has no numbers. Where a point is saturated its time has no value, which is shown.
pub fn charts(names: &[String], rows: &[Row]) -> Vec<(String, Chart)> {
    let Some((x_name, others)) = names.split_last() else { return Vec::new() };
    let mut charts: Vec<(String, Chart)> = Vec::new();
    for row in rows {
        let Some(x) = abscissa(x_name, &row.swept[x_name]) else { continue };
        let label = label(others.iter().map(|name| (name.as_str(), row.swept[name].as_str())));
        for plot in &row.plots {
            let at = charts.iter().position(|(file, _)| *file == plot.file).unwrap_or_else(|| {
                charts.push((plot.file.clone(), chart(x_name, plot)));
                charts.len() - 1
            });
            let curves = &mut charts[at].1.curves;
            let curve = curves.iter().position(|(name, _)| *name == label).unwrap_or_else(|| {
                curves.push((label.clone(), Vec::new()));
                curves.len() - 1
            });
            let is_time = plot.axis.ends_with("cycles") || plot.axis.ends_with("ns");
            let chart = &mut charts[at].1;
            if is_time && row.saturated() {
                chart.beyond.push((label.clone(), x));
            } else if let Some(y) = row.number(&plot.field) {
                chart.curves[curve].1.push((x, y));
                // Within a run it is said of the mean in cycles.
                let within = || row.number("confidence").filter(|_| plot.axis.ends_with("cycles"));
                let half = row.between_runs(&plot.field).or_else(within);
                chart.sure.extend(half.map(|half| (label.clone(), (x, y), half)));
            }
        }
    }
    charts
}

/// An empty chart of `plot` over `x_name`.
fn chart(x_name: &str, plot: &Plot) -> Chart {
    let title = plot.file[..1].to_uppercase() + &plot.file[1..];
    Chart { title, x: axis_of(x_name).into(), y: plot.axis.clone(), ..Chart::default() }
}

/// Name and unit of an axis for a setting.
fn axis_of(setting: &str) -> &str {
    match setting {
        "load" => "offered load, flits per node and cycle",
        "topology" => "nodes",
        other => other,
    }
}

#[cfg(test)]
pub(crate) mod tests;
