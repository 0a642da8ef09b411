//! The data plane without its thread, for a simulation that says when it runs and looks at what it knows.

use super::engine::Engine;
use super::notice::{Gauges, Notice};
use super::trunks::Wires;
use super::{Command, Handle, Reply};
use crate::config::Options;
use angara_abi::torus::NodeId;
use angara_cluster::HostId;
use angara_fabric::Route;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

impl Handle {
    /// A handle whose commands the simulation carries to the engine.
    pub(crate) fn simulated(
        options: &Options,
        wires: Option<Wires>,
        notices: UnboundedSender<Notice>,
    ) -> io::Result<(Handle, Engine, Receiver<Command>)> {
        let (commands, receiver) = channel();
        let wake = Arc::new(rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK)?);
        let gauges = Arc::new(Gauges::default());
        let engine = Engine::new(options, wires, notices, wake.clone(), gauges.clone())?;
        Ok((Handle { commands, wake, gauges }, engine, receiver))
    }
}

impl Engine {
    /// What the thread does until it sleeps, or for so many rounds; whether it would go on at once. `None`: it was told to end.
    pub(crate) fn run_for(
        &mut self,
        rounds: usize,
        commands: &Receiver<Command>,
        replies: &mut Vec<Reply>,
    ) -> Option<bool> {
        for _ in 0..rounds {
            let Some(more) = self.run_commands(commands, |reply| replies.push(reply)) else {
                self.say_goodbye();
                return None;
            };
            if !(self.round() | more) {
                self.before_sleep();
                return Some(false);
            }
        }
        Some(true)
    }

    /// How long it would sleep if nobody woke it.
    pub(crate) fn sleeps_for(&self) -> Option<Duration> {
        self.next_due()
    }

    /// The clock that its trunks go by is set forward or back.
    pub(crate) fn step_clock(&mut self, by: i64) {
        if let Some(trunks) = &mut self.trunks {
            trunks.step_clock(by);
        }
    }

    pub(crate) fn route_change(&self) -> u64 {
        self.fabric.route_change()
    }

    pub(crate) fn is_held(&self) -> bool {
        self.fabric.on_hold()
    }

    /// The session with a host, if it carries links.
    pub(crate) fn live_session(&self, host: HostId) -> Option<u32> {
        self.trunks.as_ref()?.live_session(host)
    }

    /// The route from each node to each other.
    pub(crate) fn all_routes(&self) -> Vec<Option<Route>> {
        let nodes = self.shape.nodes() as NodeId;
        (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))).map(|(a, b)| self.fabric.route(a, b)).collect()
    }

    /// What is still there although no job is.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut look = |what: &str, there: usize| {
            if there > 0 {
                found.push(format!("{there} {what}"));
            }
        };
        look("jobs in the network", self.jobs.len());
        look("lanes", self.active.len());
        look("trees", self.trees.iter().flatten().count());
        look("packets under way", self.fabric.in_flight().0);
        look("operations under way", self.fabric.in_flight().1);
        look("flights", self.flights.len());
        look("bad trunks", self.bad_trunks());
        found
    }

    /// Trunks that a fault command has made worse.
    pub(crate) fn bad_trunks(&self) -> usize {
        self.trunks.as_ref().map_or(0, |t| t.impaired().len())
    }

    /// For people, when something is wrong.
    pub(crate) fn describe(&self) -> String {
        format!(
            "routes {} hold {} in flight {:?} faults {:?} at {:?}",
            self.fabric.route_change(),
            self.fabric.on_hold(),
            self.fabric.in_flight(),
            self.faults(),
            Instant::now(),
        )
    }
}
