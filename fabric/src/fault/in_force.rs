//! Faults in force and planned. What happens to packets under way when routes change is the chip's part.

use super::kinds::{Fault, FaultError, FaultKind, Impair, Impairment};
use crate::chip::{Chip, Kind};
use crate::routes::{DIRS, NONE, Net};
use crate::types::{Blame, Link, Tick};
use angara_abi::torus::Direction;

/// Whether there is such a link.
pub(crate) fn check_link(net: &Net, link: &Link) -> Result<(), FaultError> {
    if (link.node as usize) < net.nodes && net.neighbour(link.node, link.dir.index()) != NONE {
        return Ok(());
    }
    Err(FaultError::NoLink(format!("{} of node {}", link.dir, link.node), net.shape))
}

/// Whether there can be such a fault.
fn check_fault(net: &Net, kind: &FaultKind) -> Result<(), FaultError> {
    match kind {
        FaultKind::LinkDown(link) => check_link(net, link),
        FaultKind::NodeDown(node) if *node as usize >= net.nodes => Err(FaultError::NoNode(*node, net.shape)),
        FaultKind::NodeDown(_) => Ok(()),
        FaultKind::Impaired { link, how } => {
            Impairment::default().with(*how).check()?;
            link.as_ref().map_or(Ok(()), |link| check_link(net, link))
        }
    }
}

fn kind_of(what: Blame) -> FaultKind {
    match what {
        Blame::Link(link) => FaultKind::LinkDown(link),
        Blame::Node(node) => FaultKind::NodeDown(node),
    }
}

/// The faults of a network. Methods that return something dead leave it to the caller to change routes.
#[derive(Default, Debug)]
pub(crate) struct Faults {
    in_force: Vec<Fault>,
    planned: Vec<Option<Fault>>,
}

impl Faults {
    /// Those in force and those planned.
    pub(crate) fn all(&self) -> Vec<Fault> {
        self.in_force.iter().copied().chain(self.planned.iter().flatten().copied()).collect()
    }

    /// What is out of service.
    pub(crate) fn dead(&self) -> Vec<Blame> {
        let blame = |f: &Fault| match f.kind {
            FaultKind::LinkDown(link) => Some(Blame::Link(link)),
            FaultKind::NodeDown(node) => Some(Blame::Node(node)),
            FaultKind::Impaired { .. } => None,
        };
        self.in_force.iter().filter_map(blame).collect()
    }

    /// Sets a fault now, or plans it for its time. Returns what is dead from now on.
    pub(crate) fn set(&mut self, chip: &mut Chip, fault: Fault) -> Result<Option<Blame>, FaultError> {
        check_fault(&chip.net, &fault.kind)?;
        match fault.at {
            Some(at) if at > chip.now => {
                self.planned.push(Some(fault));
                chip.events.push(at, Kind::Fault, 0, self.planned.len() as u32 - 1);
                Ok(None)
            }
            _ => Ok(self.begin(chip, fault)),
        }
    }

    /// [`Kind::Fault`]: a planned fault begins.
    pub(crate) fn on_fault(&mut self, chip: &mut Chip, index: u32) -> Option<Blame> {
        let fault = self.planned[index as usize].take()?;
        self.begin(chip, fault)
    }

    fn begin(&mut self, chip: &mut Chip, fault: Fault) -> Option<Blame> {
        self.remember(fault.kind, chip.now);
        match fault.kind {
            FaultKind::LinkDown(link) => Some(Blame::Link(link)),
            FaultKind::NodeDown(node) => Some(Blame::Node(node)),
            FaultKind::Impaired { link, how } => {
                impair_links(chip, link, how);
                None
            }
        }
    }

    fn remember(&mut self, kind: FaultKind, now: Tick) {
        self.in_force.retain(|f| !f.kind.is_replaced_by(kind));
        self.in_force.push(Fault { kind, at: Some(now) });
    }

    /// A link or node goes out of service.
    pub(crate) fn fail(&mut self, what: Blame, now: Tick) {
        self.remember(kind_of(what), now);
    }

    /// Takes back a fault in force or planned. Returns what is in service again.
    pub(crate) fn clear(&mut self, chip: &mut Chip, kind: FaultKind) -> Option<Blame> {
        for planned in &mut self.planned {
            if planned.is_some_and(|f| f.kind == kind) {
                *planned = None;
            }
        }
        match kind {
            FaultKind::Impaired { link, how } => {
                self.in_force.retain(|f| !f.kind.is_replaced_by(kind));
                impair_links(chip, link, how.none());
                None
            }
            FaultKind::LinkDown(link) => {
                let back = chip.net.reverse(link);
                self.in_force.retain(|f| !matches!(f.kind, FaultKind::LinkDown(l) if l == link || Some(l) == back));
                Some(Blame::Link(link))
            }
            FaultKind::NodeDown(node) => {
                self.in_force.retain(|f| f.kind != kind);
                Some(Blame::Node(node))
            }
        }
    }

    /// From now on exactly this is out of service. Impairments stay. If something does not exist, nothing changes.
    pub(crate) fn replace(&mut self, chip: &Chip, dead: &[Blame]) -> Result<(), FaultError> {
        for what in dead {
            check_fault(&chip.net, &kind_of(*what))?;
        }
        let before = std::mem::take(&mut self.in_force);
        let known = |k: FaultKind| before.iter().find(|f| f.kind == k).copied();
        self.in_force = before.iter().filter(|f| matches!(f.kind, FaultKind::Impaired { .. })).copied().collect();
        for what in dead {
            let kind = kind_of(*what);
            let fault = known(kind).unwrap_or(Fault { kind, at: Some(chip.now) });
            if !self.in_force.contains(&fault) {
                self.in_force.push(fault);
            }
        }
        Ok(())
    }
}

fn impair_links(chip: &mut Chip, link: Option<Link>, how: Impair) {
    for node in 0..chip.net.nodes as u32 {
        for dir in 0..DIRS {
            let this = Link { node, dir: Direction::ALL[dir] };
            if chip.net.neighbour(node, dir) != NONE && link.is_none_or(|l| l == this) {
                chip.impair(this, chip.impairment(this).with(how));
            }
        }
    }
    chip.impaired_otherwise();
}
