//! The simulator for Python: the compiled part of the package `angara`.
//!
//! Settings arrive as an object of JSON with the names of a TOML file, and pass through the same checks.
//! Results leave as JSON and as buffers of numbers, of which `angara/__init__.py` makes Python's objects. So no
//! setting and no field is named here.
#![deny(unsafe_code)]

mod supervise;

use angara_sim::Error;
use angara_sim::observe::{Links, timeline};
use angara_sim::run::Progress;
use angara_sim::run::stats::Histogram;
use angara_sim::settings::{Keys, Simulation, presets};
use angara_sim::sweep::seeds::Means;
use angara_sim::sweep::{self, Memory, Sweep};
use angara_sim::toml_file::TomlFile;
use angara_sim::workload::{KINDS, Report};
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde_json::json;
use std::collections::HashMap;
use supervise::supervise;

/// The exception for an error of the simulator, with the text that the command prints.
fn raise(e: Error) -> PyErr {
    match e {
        Error::Interrupted(_) => PyKeyboardInterrupt::new_err(e.to_string()),
        Error::File { .. } => PyOSError::new_err(e.to_string()),
        _ => PyValueError::new_err(e.to_string()),
    }
}

/// Settings as a file that has no lines.
fn settings(json: &str) -> PyResult<TomlFile> {
    let table: Result<toml::Table, _> = serde_json::from_str(json);
    table.map(|table| TomlFile::of(&table)).map_err(|e| PyValueError::new_err(format!("settings: {e}")))
}

/// Checks the settings of a run.
fn simulation(file: &TomlFile, preset: Option<&str>, count_links: bool) -> Result<Simulation, Error> {
    let mut keys = file.parse::<Keys>()?;
    if let Some(name) = preset {
        keys = presets::under(keys, name)?;
    }
    let mut simulation = keys.resolve().map_err(|(e, key)| file.locate(e, Some(key)))?;
    if count_links && !simulation.workload.workload.shows().links {
        return Err(Error::invalid("count_links", "True", "this workload does not count links; leave it out"));
    }
    simulation.experiment.observe.links = count_links;
    Ok(simulation)
}

/// Runs one simulation. Returns `result` (JSON), `text`, `histograms` and `links`.
#[pyfunction]
fn simulate<'py>(
    py: Python<'py>,
    json: &str,
    preset: Option<&str>,
    count_links: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let simulation = simulation(&settings(json)?, preset, count_links).map_err(raise)?;
    let report = supervise(py, progress.as_ref(), move |watch| {
        let mut report = simulation.run(&mut |p| watch.look(p))?;
        timeline::add_ways(&simulation.experiment, &mut report);
        Ok(report)
    })?;
    shown(py, &report)
}

fn shown<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("result", json!(report.json).to_string())?;
    out.set_item("text", &report.text)?;
    let histograms = PyDict::new(py);
    for (name, histogram) in &report.histograms {
        histograms.set_item(name, buckets(py, histogram)?)?;
    }
    out.set_item("histograms", histograms)?;
    if let Some(links) = &report.observed.links {
        out.set_item("links", columns(py, links)?)?;
    }
    Ok(out)
}

/// Numbers of 8 bytes each, as this machine has them in memory.
fn whole(py: Python<'_>, values: impl Iterator<Item = u64>) -> Bound<'_, PyBytes> {
    PyBytes::new(py, &values.flat_map(u64::to_ne_bytes).collect::<Vec<u8>>())
}

/// Buckets that are not empty: smallest and largest latency in cycles, and messages.
fn buckets<'py>(py: Python<'py>, histogram: &Histogram) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("low_cycles", whole(py, histogram.buckets().map(|(values, _)| *values.start())))?;
    out.set_item("high_cycles", whole(py, histogram.buckets().map(|(values, _)| *values.end())))?;
    out.set_item("messages", whole(py, histogram.buckets().map(|(_, count)| count)))?;
    Ok(out)
}

/// The columns of `links.csv`.
fn columns<'py>(py: Python<'py>, links: &Links) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    let all = &links.outputs;
    out.set_item("name", all.iter().map(|o| links.name(o)).collect::<Vec<_>>())?;
    out.set_item("router", whole(py, all.iter().map(|o| o.router.into())))?;
    out.set_item("port", whole(py, all.iter().map(|o| o.port.into())))?;
    out.set_item("to_endpoint", whole(py, all.iter().map(|o| o.to_endpoint.into())))?;
    out.set_item("cut", whole(py, all.iter().map(|o| o.cut.into())))?;
    out.set_item("packets", whole(py, all.iter().map(|o| o.load.packets)))?;
    out.set_item("flits", whole(py, all.iter().map(|o| o.load.flits)))?;
    out.set_item("replays", whole(py, all.iter().map(|o| o.load.replays)))?;
    out.set_item("crc_errors", whole(py, all.iter().map(|o| o.load.crc_errors)))?;
    out.set_item("duplicates", whole(py, all.iter().map(|o| o.load.duplicates)))?;
    out.set_item("reordered", whole(py, all.iter().map(|o| o.load.reordered)))?;
    let rates: Vec<u8> = all.iter().flat_map(|o| links.rate(o).to_ne_bytes()).collect();
    out.set_item("flits_per_cycle", PyBytes::new(py, &rates))?;
    Ok(out)
}

/// Runs every combination of the lists in the table `sweep`. Returns `names`, `rows` (JSON) and `text`. Values in
/// `shown` stand there as it says: files of arrays.
#[pyfunction]
fn run_sweep<'py>(
    py: Python<'py>,
    json: &str,
    shown: HashMap<String, String>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (mut sweep, threads) = Sweep::read(&settings(json)?, &Keys::default()).map_err(raise)?;
    for value in sweep.points.iter_mut().flat_map(|(values, _)| values) {
        if let Some(name) = shown.get(value) {
            value.clone_from(name);
        }
    }
    let of = sweep.points.len() as u64;
    let (sweep, rows) = supervise(py, progress.as_ref(), move |watch| {
        let told = |done: usize| {
            // Whether to stop is asked elsewhere, too.
            let _ = watch.look(Progress { doing: "points", done: done as u64, of });
        };
        let desk = Memory::new(&sweep, &told);
        sweep.run(threads, &desk, &|| watch.stopped())?;
        let rows = desk.rows().ok_or(Error::Interrupted("no results are kept"))?;
        Ok((sweep, rows))
    })?;
    let out = PyDict::new(py);
    let rows_json = serde_json::to_string(&sweep::json(&rows)).expect("rows hold only numbers and names");
    out.set_item("names", &sweep.names)?;
    out.set_item("rows", rows_json)?;
    let means = Means::of(&sweep.names, &rows);
    out.set_item("text", sweep::summary(&means.names, &means.rows))?;
    Ok(out)
}

/// Names of all settings, presets and workloads and what they are, as JSON.
#[pyfunction]
fn catalog() -> String {
    let about = Keys::names().into_iter().zip(Keys::about());
    let settings: Vec<_> = about.map(|(name, about)| json!({"name": name, "about": about})).collect();
    let presets: Vec<_> = presets::PRESETS.iter().map(|p| json!({"name": p.name, "about": p.about})).collect();
    let workloads: Vec<_> = KINDS.iter().map(|k| json!({"name": k.form, "about": k.about})).collect();
    json!({"settings": settings, "presets": presets, "workloads": workloads}).to_string()
}

/// Makes the module.
#[pymodule]
#[pyo3(name = "_angara")]
fn make(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    module.add_function(wrap_pyfunction!(run_sweep, module)?)?;
    module.add_function(wrap_pyfunction!(catalog, module)?)
}
