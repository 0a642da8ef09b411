//! State of the two-phase commit by which the hosts of a cluster change what is out of service: [`super::commit`].

use super::linkstate::Edge;
use super::relay::COUNT_MAX;
use crate::jobs::descriptor::JobDescriptor;
use angara_abi::JobId;
use angara_net::HostId;
use angara_net::fault::{Book, Command, Fault};
use angara_protocol::msg::Failure;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

/// Number of a change of what is out of service, and the host that leads it. Higher ballots win.
pub(crate) type Ballot = (u64, HostId);

/// What all hosts of a group have agreed on.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Agreed {
    /// Of the change that made it so.
    pub(crate) number: u64,
    /// Hosts that take part, and the lives of their daemons.
    pub(crate) members: BTreeMap<HostId, u64>,
    /// Trunks that carry links.
    pub(crate) edges: BTreeSet<Edge>,
    /// Daemons that did not answer in time.
    pub(crate) expelled: BTreeSet<(HostId, u64)>,
    /// Faults of links and nodes.
    pub(crate) faults: Book,
}

/// A host's answer to "prepare".
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Prepared {
    pub(super) agreed: Agreed,
    pub(super) ledger: Vec<u8>,
    /// Jobs that were made on that host.
    pub(super) jobs: Vec<JobDescriptor>,
}

/// The second phase: how every host goes on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Commit {
    pub(crate) ballot: Ballot,
    pub(crate) agreed: Agreed,
    pub(crate) ledger: Vec<u8>,
    /// Every job of the group.
    pub(crate) jobs: Vec<JobDescriptor>,
}

/// A fault command that waits for its commit.
pub(super) struct PendingFault {
    pub(super) command: Command,
    /// Void after a later change than this one.
    pub(super) since: Option<u64>,
    pub(super) done: oneshot::Sender<Result<(), Failure>>,
}

/// What this host has promised and committed.
#[derive(Default)]
pub(crate) struct Ballots {
    pub(crate) agreed: RefCell<Agreed>,
    /// Highest ballot that this host has prepared for; lower ones are refused.
    pub(super) promised: Cell<Ballot>,
    /// Latest ballot that this host has committed.
    pub(super) committed: Cell<Ballot>,
    /// Jobs that are over although changes up to these may name them.
    pub(super) closed: RefCell<BTreeMap<JobId, Ballot>>,
    /// Time since which the network stands still for a prepared ballot.
    pub(crate) held: Cell<Option<Instant>>,
    /// True if another change is needed although nothing seems to have changed.
    pub(super) again: Cell<bool>,
    pub(super) pending: RefCell<Vec<PendingFault>>,
    /// Wakes the leader: a change may be needed.
    pub(crate) wake: Notify,
}

impl Ballots {
    pub(crate) fn new(faults: &[Fault]) -> Ballots {
        let faults = faults.iter().filter(|f| f.at.is_none()).copied().collect();
        Ballots { agreed: RefCell::new(Agreed { faults, ..Agreed::default() }), ..Ballots::default() }
    }

    pub(crate) fn number(&self) -> u64 {
        self.agreed.borrow().number
    }

    pub(crate) fn promised(&self) -> Ballot {
        self.promised.get()
    }

    /// The host that made a job has ended it, and names it for no change after `named`. One that it was named for may
    /// still be on its way here, and must not bring the job back.
    pub(crate) fn note_closed(&self, job: JobId, named: Ballot) {
        if named > self.committed.get() {
            self.closed.borrow_mut().insert(job, named);
        }
    }

    /// The next change must have a higher number.
    pub(super) fn promise_above(&self, number: u64) {
        let (n, host) = self.promised.get();
        self.promised.set((n.max(number.min(COUNT_MAX)), host));
    }
}
