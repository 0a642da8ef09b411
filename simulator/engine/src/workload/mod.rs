//! Workloads: what the nodes of a simulated machine do.
//!
//! The usual question, "what latency at what load", is the workload `open-loop`: every node sends
//! whatever its arrival process creates, and nobody waits for anybody. All others are programs: nodes
//! react to what arrives, and the run ends when the program does. A workload is written
//! `NAME[:ARGUMENTS]`; [`KINDS`] lists them, [`Workload`] is what one must be able to do.
//! To add one, implement the trait in a file of its own and add a line to [`KINDS`].

mod all_to_all;
mod arrived;
pub mod barrier;
pub mod closed;
pub mod collective;
pub mod exchange;
pub mod goal;
pub mod heat;
mod jobs;
mod kind;
mod list;
mod netrace;
mod open_loop;
mod pair_probe;
mod request_reply;
pub mod script;
pub mod spmv;
mod trace;

pub use crate::run::Watch;
pub use crate::run::report::{Plot, Report};
pub use closed::Closed;
pub use kind::{Brought, Shows, TRAFFIC_KEYS, Workload, WorkloadKind, numbers};

use crate::Error;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Every kind.
pub const KINDS: &[WorkloadKind] = &[
    open_loop::KIND,
    all_to_all::KIND,
    request_reply::KIND,
    pair_probe::KIND,
    collective::BROADCAST,
    collective::REDUCE,
    collective::ALL_REDUCE,
    collective::ALL_GATHER,
    spmv::KIND,
    heat::KIND,
    barrier::KIND,
    script::KIND,
    trace::KIND,
    goal::KIND,
    list::KIND,
    netrace::KIND,
    jobs::KIND,
];

/// A workload as the user chose it.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Chosen {
    text: String,
    /// The chosen workload.
    pub workload: Arc<dyn Workload>,
}

impl Default for Chosen {
    fn default() -> Chosen {
        "open-loop".parse().expect("a kind without arguments")
    }
}

impl PartialEq for Chosen {
    fn eq(&self, other: &Chosen) -> bool {
        self.text == other.text
    }
}

impl Serialize for Chosen {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.text)
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for Chosen {
    type Error = Error;
    fn try_from(text: String) -> Result<Chosen, Error> {
        text.parse()
    }
}

impl FromStr for Chosen {
    type Err = Error;
    fn from_str(text: &str) -> Result<Chosen, Error> {
        let (name, arguments) = text.split_once(':').unwrap_or((text, ""));
        let Some(kind) = KINDS.iter().find(|k| k.name == name) else {
            let forms: Vec<&str> = KINDS.iter().map(|k| k.form).collect();
            return Err(Error::invalid("workload", text, format!("use {}", forms.join(", "))));
        };
        let workload = (kind.parse)(arguments).map_err(|e| match e {
            Error::Invalid { remedy, .. } => {
                Error::invalid("workload", text, format!("{remedy}; it is written {}", kind.form))
            }
            other => match other.parts() {
                (what, remedy, _) if !remedy.is_empty() => {
                    Error::invalid("workload", text, format!("{what}; {remedy}"))
                }
                _ => other,
            },
        })?;
        Ok(Chosen { text: text.into(), workload })
    }
}

/// Runs settings written as in a file, for tests of workloads.
#[cfg(test)]
pub(crate) fn simulate(settings: &str) -> Report {
    let keys: crate::settings::Keys = toml::from_str(settings).unwrap();
    let simulation = keys.resolve().map_err(|e| e.0).unwrap();
    simulation.run(&mut |_| std::ops::ControlFlow::Continue(())).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything a run shows but time and memory, with all packets followed and all links counted.
    fn everything(settings: &str, threads: usize) -> String {
        let keys: crate::settings::Keys = toml::from_str(settings).unwrap();
        let mut simulation = keys.resolve().map_err(|e| e.0).unwrap();
        simulation.experiment.threads = threads;
        simulation.experiment.observe.links = true;
        let mut report = simulation.run(&mut |_| std::ops::ControlFlow::Continue(())).unwrap();
        for name in ["wall_s", "packet_hops_per_s", "flit_hops_per_s", "peak_rss_bytes", "model_bytes", "threads"] {
            report.json.remove(name);
        }
        assert!(report.observed.ways.iter().all(|w| w.events.last().unwrap().stage == angara_model::Stage::Delivered));
        format!("{:#?} {:?} {}", report.json, report.observed.ways, report.observed.links.unwrap().csv())
    }

    #[test]
    fn nothing_a_run_shows_depends_on_threads() {
        let network = "topology = \"torus:4x4\"\nlength = 3\ntrace = \"0..20,0->5\"\n";
        for router in [
            "router = \"generic\"\n",
            "router = \"angara\"\nrouting = \"adaptive\"\n",
            "router = \"angara\"\nfault = [\"link 1,0 +Y down\", \"link 2,2 -X down\"]\n",
        ] {
            for workload in ["load = 0.3\nwarmup = 200\ncycles = 500", "workload = \"all-to-all:100\""] {
                let settings = format!("{network}{router}{workload}");
                let alone = everything(&settings, 1);
                assert!(alone.contains("Delivered"));
                assert_eq!(alone, everything(&settings, 3), "{settings}");
            }
        }
    }

    #[test]
    fn workloads_are_read_and_refused() {
        for text in ["open-loop", "all-to-all:4096", "request-reply:4,2,18", "pair-probe:0,1"] {
            assert_eq!(text.parse::<Chosen>().unwrap().to_string(), text);
        }
        let refused = |text: &str| text.parse::<Chosen>().unwrap_err().to_string();
        assert!(refused("none").contains("use open-loop, all-to-all:BYTES"), "{}", refused("none"));
        assert!(refused("all-to-all").contains("it is written all-to-all:BYTES"), "{}", refused("all-to-all"));
        assert!(refused("request-reply:1,2").contains("give 3 whole numbers"));
        assert!(refused("open-loop:3").contains("open-loop takes no arguments"));
    }
}
