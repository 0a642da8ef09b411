//! All that a data plane owns, and what of it is lent to whom.
//!
//! Every part belongs to a type of its own, whose methods touch nothing else. What needs several parts borrows them, as a
//! struct of references such as [`Service`]: its fields say what it can reach.

mod execute;
mod idle;
mod members;
mod pace;
mod serve;

use self::pace::Pace;
use crate::bells::Bells;
use crate::channels::lanes::Channels;
use crate::command::{Command, Ear, Handle};
use crate::config::{Clock, Config};
use crate::faults::book::FaultBook;
use crate::faults::outages::Outages;
use crate::jobs::departures::Departures;
use crate::jobs::routing::Routing;
use crate::jobs::seats::Seats;
use crate::jobs::traffic::LinkAccounts;
use crate::notice::{Notice, Reports};
use crate::observe::capture::Captures;
use crate::observe::figures::{Figures, Rounds};
use crate::observe::link_reports::LinkReports;
use crate::registers::RegisterPages;
use crate::service::view::Service;
use crate::trees::{TreeLoader, Trees};
use crate::trunks::Trunks;
use crate::virtual_time::coroutines::Coroutines;
use crate::virtual_time::record::Record;
use crate::virtual_time::report::TimeReport;
use crate::virtual_time::standing::{OPS_PER_PORT, VirtualRun};
use crate::virtual_time::turns::Turns;
use angara_fabric::{Fabric, Route};
use angara_net::HostId;
use angara_net::torus::{NodeId, Shape};
use std::io;
use std::sync::mpsc::Receiver;

pub struct DataPlane {
    shape: Shape,
    pub(crate) fabric: Fabric,
    seats: Seats,
    channels: Channels,
    accounts: LinkAccounts,
    registers: RegisterPages,
    trees: Trees,
    faults: FaultBook,
    pace: Pace,
    bells: Bells,
    captures: Captures,
    /// PEs that stand and PEs that are due, in virtual time.
    virtual_time: Option<VirtualRun>,
    /// The PEs themselves, where they are on this thread.
    coroutines: Option<Box<dyn Coroutines>>,
    /// To the other hosts of the cluster, if there are any.
    trunks: Option<Trunks>,
    rounds: Rounds,
    departures: Departures,
    clock: Clock,
    commands: Receiver<Command>,
    reports: Reports,
}

/// Views that are also parts of others. Functions would borrow all of the data plane, and leave nothing for the rest.
macro_rules! service {
    ($plane:ident) => {
        Service {
            shape: &$plane.shape,
            fabric: &mut $plane.fabric,
            seats: &$plane.seats,
            channels: &mut $plane.channels,
            registers: &mut $plane.registers,
            time: $plane.virtual_time.as_mut(),
            reports: &mut $plane.reports,
        }
    };
}

macro_rules! routing {
    ($plane:ident) => {
        Routing {
            fabric: &mut $plane.fabric,
            jobs: &mut $plane.seats.jobs,
            accounts: &mut $plane.accounts,
            registers: &mut $plane.registers,
        }
    };
}

impl DataPlane {
    /// A data plane and the way to it. It does nothing until somebody has it run: [`crate::start`] or
    /// [`DataPlane::run_for`]. `notices` hears what it says unasked, on the thread that runs it.
    pub fn new(config: Config, notices: impl FnMut(Notice) + Send + 'static) -> io::Result<(Handle, DataPlane)> {
        let (handle, Ear { commands, wake, gauges }) = Handle::new()?;
        if let Some(coroutines) = &config.coroutines {
            let _ = gauges.wanted.set(coroutines.wanted());
        }
        let Config { shape, channels, clock, virtual_time, record, .. } = config;
        let record = record.filter(|_| virtual_time.is_some()).map(|to| Record::create(to, config.seed)).transpose()?;
        let mut network = angara_fabric::Config {
            seed: config.seed,
            // Without other hosts the routers of all nodes are emulated here, also of those that host no PE.
            owned: config.trunks.as_ref().map(|trunks| trunks.nodes.clone()),
            trains: virtual_time.is_none(),
            check_order: virtual_time.is_some(),
            params: config.params,
            ..angara_fabric::Config::new(shape)
        };
        if virtual_time.is_some() {
            network.params.ops_per_port = OPS_PER_PORT;
        }
        let fabric = Fabric::new(network).map_err(io::Error::other)?;
        let trunks = config.trunks.map(|trunks| Trunks::new(trunks, &fabric, clock)).transpose()?;
        let mut plane = DataPlane {
            shape,
            accounts: LinkAccounts::new(fabric.routes().clone(), config.watched),
            fabric,
            seats: Seats::default(),
            channels: Channels::default(),
            registers: RegisterPages::new(shape, channels),
            trees: Trees::default(),
            faults: FaultBook::default(),
            pace: Pace::default(),
            bells: Bells::new(wake)?,
            captures: Captures::new(virtual_time.is_some()),
            virtual_time: virtual_time.map(|v| VirtualRun::new(&v, record)),
            coroutines: config.coroutines,
            trunks,
            rounds: Rounds::default(),
            departures: Departures::default(),
            clock,
            commands,
            reports: Reports::new(gauges, notices),
        };
        // A cluster agrees on them first, when their time has come.
        let alone = plane.trunks.is_none();
        for fault in config.faults.into_iter().filter(|fault| alone || fault.at.is_some()) {
            plane.set_fault(fault).map_err(io::Error::other)?;
        }
        Ok((handle, plane))
    }

    #[inline]
    fn service(&mut self) -> Service<'_> {
        service!(self)
    }

    #[inline]
    pub(crate) fn turns(&mut self) -> Turns<'_> {
        Turns {
            service: service!(self),
            coroutines: &mut self.coroutines,
            captures: &mut self.captures,
            bells: &self.bells,
        }
    }

    fn routing(&mut self) -> Routing<'_> {
        routing!(self)
    }

    fn outages(&mut self) -> Outages<'_> {
        Outages {
            book: &mut self.faults,
            routing: routing!(self),
            trunks: self.trunks.as_mut(),
            time: self.virtual_time.as_mut(),
            reports: &mut self.reports,
        }
    }

    fn tree_loader(&mut self) -> TreeLoader<'_> {
        TreeLoader {
            trees: &mut self.trees,
            fabric: &mut self.fabric,
            seats: &self.seats,
            registers: &mut self.registers,
            time: self.virtual_time.as_mut(),
        }
    }

    fn link_reports(&self) -> LinkReports<'_> {
        LinkReports { fabric: &self.fabric, jobs: &self.seats.jobs, accounts: &self.accounts }
    }

    fn figures(&self) -> Figures<'_> {
        Figures {
            fabric: &self.fabric,
            jobs: &self.seats.jobs,
            lanes: &self.channels.lanes,
            accounts: &self.accounts,
            registers: &self.registers,
            trees: &self.trees,
            gauges: &self.reports.gauges,
            rounds: self.rounds,
            is_virtual: self.virtual_time.is_some(),
        }
    }

    fn time_report(&self) -> Option<TimeReport<'_>> {
        let run = self.virtual_time.as_ref()?;
        Some(TimeReport { run, fabric: &self.fabric, lanes: &self.channels.lanes })
    }

    /// Every fault as text.
    fn faults(&self) -> Vec<String> {
        let mut faults = self.faults.show((self.clock)(), &self.shape);
        faults.extend(self.trunks.iter().flat_map(Trunks::impaired));
        faults
    }

    fn is_over(&self) -> bool {
        self.virtual_time.as_ref().is_some_and(|run| run.over)
    }
}

/// What only a simulation asks of a data plane that it runs itself: what is under way and left over, and other clocks.
impl DataPlane {
    /// The clock that its trunks go by is set forward or back by N milliseconds.
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
        look("jobs in the network", self.seats.jobs.len());
        look("lanes", self.channels.lanes.active().len());
        look("trees", self.trees.len());
        look("packets under way", self.fabric.in_flight().0);
        look("operations under way", self.fabric.in_flight().1);
        look("outstanding", self.channels.outstanding.len());
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
