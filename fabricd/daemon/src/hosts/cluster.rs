//! What this host knows of its cluster.

use super::ballot::Ballots;
use super::messages::HostMessages;
use super::streams::Streams;
use crate::faults::trunk::{TrunkOrders, TrunkRequest};
use angara_net::fault::Fault;
use std::cell::{Cell, RefCell};

/// The other hosts, what all have agreed on, and what is under way between them.
pub(crate) struct Cluster {
    /// The other hosts, if this daemon is one of a cluster.
    pub(crate) messages: Option<HostMessages>,
    /// What the hosts have agreed on.
    pub(crate) ballots: Ballots,
    /// Bytes between launchers and their other halves.
    pub(crate) streams: Streams,
    /// Orders to trunks that were given here.
    pub(crate) trunk_orders: TrunkOrders,
    /// Cuts of trunks that other hosts have asked for and that are made in a moment.
    pub(crate) cuts: RefCell<Vec<TrunkRequest>>,
    /// The others go on without this host.
    pub(crate) expelled: Cell<bool>,
}

impl Cluster {
    /// Before anything has been agreed on. `faults` are those from the start.
    pub(crate) fn new(messages: Option<HostMessages>, faults: &[Fault]) -> Cluster {
        Cluster {
            messages,
            ballots: Ballots::new(faults),
            streams: Streams::default(),
            trunk_orders: TrunkOrders::default(),
            cuts: RefCell::default(),
            expelled: Cell::new(false),
        }
    }
}
