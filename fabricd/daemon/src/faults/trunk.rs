//! Orders to trunks: which of several that are under way counts.

use angara_net::HostId;
use angara_net::fault::TrunkChange;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// What one host asks another to do to its trunks.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct TrunkRequest {
    /// To the trunk to this host; `None`: to all ...
    pub(super) to: Option<HostId>,
    /// ... but this one, which the asker itself sees to.
    pub(super) except: Option<HostId>,
    pub(super) change: TrunkChange,
}

/// Orders to trunks given here, in their order.
#[derive(Default)]
pub(crate) struct TrunkOrders {
    given: Cell<u64>,
    /// The latest one that ended a cut of the trunk to a host, and the latest one that cleared it.
    restored: RefCell<BTreeMap<HostId, (u64, u64)>>,
}

impl TrunkOrders {
    /// Number of an order to the trunks to `hosts`.
    pub(super) fn give(&self, hosts: &[HostId], change: TrunkChange) -> u64 {
        let number = self.given.get() + 1;
        self.given.set(number);
        if change.cut == Some(false) {
            let mut all = self.restored.borrow_mut();
            for host in hosts {
                let (restored, cleared) = all.entry(*host).or_default();
                *restored = number;
                *cleared = if change.what.is_some() { number } else { *cleared };
            }
        }
        number
    }

    /// True if a later order has undone this one for the trunk to a host.
    pub(super) fn undone(&self, host: HostId, number: u64, change: TrunkChange) -> bool {
        let (restored, cleared) = self.restored.borrow().get(&host).copied().unwrap_or_default();
        (if change.cut == Some(true) { restored } else { cleared }) > number
    }
}
