//! Open-loop traffic: every node sends what its arrival process creates, whatever the network does.

use super::{Report, Shows, TRAFFIC_KEYS, Watch, Workload, WorkloadKind};
use crate::Error;
use crate::run::{Experiment, driver, knee};
use std::sync::Arc;

pub(super) const KIND: WorkloadKind = WorkloadKind {
    name: "open-loop",
    form: "open-loop",
    about: "messages by --pattern, --process and --load; the default",
    parse: |arguments| match arguments {
        "" => Ok(Arc::new(OpenLoop)),
        _ => Err(Error::invalid("workload", arguments, "open-loop takes no arguments")),
    },
};

#[derive(Debug)]
struct OpenLoop;

impl Workload for OpenLoop {
    fn keys(&self) -> &'static [&'static str] {
        &TRAFFIC_KEYS
    }
    fn shows(&self) -> Shows {
        Shows { histogram: true, links: true, packets: true }
    }
    fn spans_processes(&self) -> bool {
        true
    }
    fn run(&self, experiment: &Experiment, watch: &mut Watch<'_>) -> Result<Report, Error> {
        match experiment.find_saturation {
            Some(resolution) => knee::find(experiment, resolution, watch),
            None => driver::run(experiment, watch).map(|outcome| outcome.report()),
        }
    }
}
