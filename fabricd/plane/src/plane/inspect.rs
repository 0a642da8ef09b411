//! What only a simulation asks of a data plane that it runs itself: what is under way and left over, and other clocks.

use crate::plane::DataPlane;
use angara_fabric::Route;
use angara_net::HostId;
use angara_net::torus::NodeId;

impl DataPlane {
    /// The clock that its trunks go by is set forward or back by so many milliseconds.
    pub fn step_clock(&mut self, by_ms: i64) {
        if let Some(trunks) = &mut self.trunks {
            trunks.step_clock(by_ms);
        }
    }

    /// Number of the latest route change.
    pub fn route_change(&self) -> u64 {
        self.fabric.route_change()
    }

    /// Nothing moves, until all hosts have agreed.
    pub fn is_held(&self) -> bool {
        self.fabric.on_hold()
    }

    /// The session with a host, if it carries links.
    pub fn live_session(&self, host: HostId) -> Option<u32> {
        self.trunks.as_ref()?.live_session(host)
    }

    /// The route from each node to each other.
    pub fn all_routes(&self) -> Vec<Option<Route>> {
        let nodes = self.shape.nodes() as NodeId;
        (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))).map(|(a, b)| self.fabric.route(a, b)).collect()
    }

    /// Returns what is still there although no job is.
    pub fn leftovers(&self) -> Vec<String> {
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
        look("outstanding", self.outstanding.len());
        look("bad trunks", self.bad_trunks());
        found
    }

    /// Trunks that a fault command has made worse.
    pub fn bad_trunks(&self) -> usize {
        self.trunks.as_ref().map_or(0, |t| t.impaired().len())
    }

    /// For people, when something is wrong.
    pub fn describe(&self) -> String {
        format!(
            "routes {} hold {} in operation {:?} faults {:?} at {:?}",
            self.fabric.route_change(),
            self.fabric.on_hold(),
            self.fabric.in_flight(),
            self.faults(),
            (self.clock)(),
        )
    }
}
