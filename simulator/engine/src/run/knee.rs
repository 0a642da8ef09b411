//! The largest load that a network carries, by bisection.

use super::driver;
use super::experiment::Experiment;
use super::report::Report;
use super::verdict::NONE;
use super::{Outcome, Progress, Watch};
use crate::Error;
use crate::table::{Table, number};
use serde::Serialize;

/// One of the loads that were tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Trial {
    /// Flits per node and cycle that were asked for.
    load: f64,
    /// Flits per node and cycle that arrived.
    accepted: f64,
    /// Mean latency, router cycles; without meaning where the network is saturated.
    latency_cycles: Option<f64>,
    /// The network did not carry the load.
    saturated: bool,
    /// Whether it did was not known after the most cycles of a run.
    undecided: bool,
}

/// Simulates `experiment` at loads that enclose the largest one it carries, until they are at most
/// `resolution` apart. A load that is undecided does not count as carried.
///
/// # Errors
/// A network that cannot be built, or [`Error::Interrupted`].
pub fn find(experiment: &Experiment, resolution: f64, watch: &mut Watch<'_>) -> Result<Report, Error> {
    let largest = driver::load_max(experiment);
    let (mut carried, mut saturated) = (0.0, None);
    let mut trials: Vec<Trial> = Vec::new();
    let all = 1 + (largest / resolution).log2().ceil().max(0.0) as u64;
    loop {
        let beyond: f64 = saturated.unwrap_or(largest);
        let load = if trials.is_empty() { largest } else { (carried + beyond) / 2.0 };
        let done = trials.len() as u64;
        let mut step = |_: Progress| watch(Progress { doing: "searching", done, of: all.max(done + 1) });
        let outcome = driver::run(&experiment.at_load(load), &mut step)?;
        if outcome.interrupted {
            return Err(Error::Interrupted("the largest load was not found yet"));
        }
        trials.push(trial(load, &outcome));
        match outcome.saturated || outcome.undecided.is_some() {
            true => saturated = Some(load),
            false => carried = load,
        }
        let Some(beyond) = saturated.filter(|beyond| beyond - carried > resolution) else { break };
        debug_assert!(beyond > carried);
        let enough = watch(Progress { doing: "searching", done: done + 1, of: all.max(done + 2) }).is_break();
        if experiment.together.any(enough) {
            return Err(Error::Interrupted("the largest load was not found yet"));
        }
    }
    Ok(report(experiment, carried, saturated, trials))
}

fn trial(load: f64, outcome: &Outcome) -> Trial {
    Trial {
        load,
        accepted: outcome.accepted_flits_per_node_cycle,
        latency_cycles: outcome.packet_latency_cycles,
        saturated: outcome.saturated,
        undecided: outcome.undecided.is_some(),
    }
}

fn report(experiment: &Experiment, carried: f64, saturated: Option<f64>, mut trials: Vec<Trial>) -> Report {
    let s = &experiment.settings;
    let mut report = Report::new(&format!("{} · {} · length {} · {}", s.machine(), s.pattern, s.length, s.process));
    let most = trials.iter().max_by(|a, b| a.accepted.total_cmp(&b.accepted)).copied();
    match saturated {
        Some(load) => {
            let undecided = trials.iter().any(|t| t.load == load && t.undecided);
            let not = if undecided { "may be: --cycles-max ended the run" } else { "are not" };
            report.line("saturation", format!("{carried:.4} flits per node and cycle are carried, {load:.4} {not}"));
            let growth =
                format!("at most {} % of what is created is left behind where a load is carried", 100.0 * NONE);
            report.line("", growth);
        }
        None => report.line("saturation", format!("none: the largest load, {carried:.4}, is carried")),
    }
    if let Some(most) = most {
        report.line("most carried", format!("{:.4} flits per node and cycle, at load {:.4}", most.accepted, most.load));
        report.set("most_carried_flits_per_node_cycle", most.accepted);
    }
    trials.sort_by(|a, b| a.load.total_cmp(&b.load));
    let mut table = Table::new(&[">load", ">accepted", ">latency, cycles", ""]);
    for t in &trials {
        let latency = t.latency_cycles.filter(|_| !t.saturated).map_or("-".into(), |l| number(l, 4));
        let cells = [number(t.load, 4), number(t.accepted, 4), latency];
        let note = match (t.saturated, t.undecided) {
            (true, _) => "saturated",
            (_, true) => "undecided",
            _ => "",
        };
        table.row(&[&cells[..], &[note.into()]].concat());
    }
    report.table(&table);
    report.set("settings", s);
    report.set("carried_flits_per_node_cycle", carried);
    report.set("saturated_flits_per_node_cycle", saturated);
    report.set("saturation_flits_per_node_cycle", saturated.map_or(carried, |load| (carried + load) / 2.0));
    report.set("trials", trials);
    report.plot("saturation", "saturation_flits_per_node_cycle", "saturation load, flits per node and cycle");
    report
}

#[cfg(test)]
mod tests {
    use crate::workload::simulate;

    #[test]
    fn the_port_of_a_hot_node_sets_the_largest_load() {
        // Node 5 of 16 gets half of everything and a sixteenth of the rest: 1 flit per cycle at 0.1176.
        let report = simulate(
            "topology = \"torus:4x4\"\nrouter = \"generic\"\npattern = \"hotspot:5,0.5\"\nfind-saturation = 0.01\n\
             cycles-max = 60000",
        );
        let number = |field: &str| report.json[field].as_f64().unwrap();
        let bound = 1.0 / (16.0 * (0.5 + 0.5 / 16.0));
        assert!((number("saturation_flits_per_node_cycle") - bound).abs() < 0.012, "{}", report.text);
        assert!(number("saturated_flits_per_node_cycle") - number("carried_flits_per_node_cycle") <= 0.01);
        assert!(report.text.contains("are carried"), "{}", report.text);
    }

    #[test]
    fn a_network_that_carries_everything_says_so() {
        let report = simulate(
            "topology = \"torus:8\"\nrouter = \"generic\"\npattern = \"neighbor\"\nfind-saturation = 0.1\n\
             cycles-max = 20000",
        );
        assert!(report.json["saturated_flits_per_node_cycle"].is_null(), "{}", report.text);
        assert_eq!(report.json["carried_flits_per_node_cycle"], 1.0);
    }
}
