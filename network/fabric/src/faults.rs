//! Faults in force and planned. What happens to packets under way when routes change is the chip's part.

use crate::chip::{Chip, EventKind};
use crate::types::{Outage, Tick};
use angara_net::Link;
use angara_net::fault::{Book, Failing, Fault, Impair, Impairment, ImpairmentError, Site};
use angara_net::torus::Shape;

/// Why a fault was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FaultError {
    /// No such link or node.
    #[error("{0}")]
    Site(String),
    /// No link at all.
    #[error("every link down is no network")]
    NoNetwork,
    /// Links cannot be so.
    #[error(transparent)]
    Impairment(#[from] ImpairmentError),
}

/// Tells whether there is such a link.
pub(crate) fn check_link(shape: &Shape, link: Link) -> Result<(), FaultError> {
    Site::Link(link).check(shape).map_err(FaultError::Site)
}

/// Tells whether there can be such a fault.
fn check_fault(shape: &Shape, fault: &Fault) -> Result<(), FaultError> {
    fault.site.check(shape).map_err(FaultError::Site)?;
    match (fault.site, fault.failing) {
        (Site::EveryLink, Failing::Down) => Err(FaultError::NoNetwork),
        (_, Failing::Down) => Ok(()),
        (_, Failing::Impaired(how)) => Ok(Impairment::default().with(how).check()?),
    }
}

/// Returns what a fault takes out of service.
fn outage(fault: &Fault) -> Option<Outage> {
    match fault.site {
        _ if !fault.is_down() => None,
        Site::Link(link) => Some(Outage::Link(link)),
        Site::Node(node) => Some(Outage::Node(node)),
        Site::EveryLink => None,
    }
}

fn fault_of(what: Outage) -> Fault {
    match what {
        Outage::Link(link) => Fault::link_down(link),
        Outage::Node(node) => Fault::node_down(node),
    }
}

/// The faults of a network. Methods that return something dead leave it to the caller to change routes.
#[derive(Default, Debug)]
pub(crate) struct Faults {
    in_force: Book,
    planned: Vec<Option<Fault>>,
}

impl Faults {
    /// Those in force and those planned.
    pub(crate) fn all(&self) -> Vec<Fault> {
        self.in_force.faults().iter().copied().chain(self.planned.iter().flatten().copied()).collect()
    }

    /// Returns what is out of service.
    pub(crate) fn dead(&self) -> Vec<Outage> {
        self.in_force.faults().iter().filter_map(outage).collect()
    }

    /// Sets a fault now, or plans it for its time. Returns what is dead from now on.
    pub(crate) fn set(&mut self, chip: &mut Chip, fault: Fault) -> Result<Option<Outage>, FaultError> {
        check_fault(&chip.net.shape, &fault)?;
        match fault.at {
            Some(at) if at > chip.now => {
                self.planned.push(Some(fault));
                chip.events.push(at, EventKind::Fault, 0, self.planned.len() as u32 - 1);
                Ok(None)
            }
            _ => Ok(self.begin(chip, fault)),
        }
    }

    /// [`EventKind::Fault`]: a planned fault begins.
    pub(crate) fn on_fault(&mut self, chip: &mut Chip, index: u32) -> Option<Outage> {
        let fault = self.planned[index as usize].take()?;
        self.begin(chip, fault)
    }

    fn begin(&mut self, chip: &mut Chip, fault: Fault) -> Option<Outage> {
        self.in_force.set(fault);
        if let Failing::Impaired(how) = fault.failing {
            impair_links(chip, fault.site, how);
        }
        outage(&fault)
    }

    /// A link or node goes out of service.
    pub(crate) fn fail(&mut self, what: Outage) {
        self.in_force.set(fault_of(what));
    }

    /// Takes back a fault in force or planned, whenever it began or is to begin. Returns what is in service again.
    pub(crate) fn clear(&mut self, chip: &mut Chip, fault: Fault) -> Option<Outage> {
        for planned in &mut self.planned {
            if planned.is_some_and(|f| f.now() == fault.now()) {
                *planned = None;
            }
        }
        let reverse = match (fault.site, fault.failing) {
            (Site::Link(link), Failing::Down) => link.reverse(&chip.net.shape).map(Fault::link_down),
            _ => None,
        };
        self.in_force.retain(|f| !f.is_replaced_by(&fault) && !reverse.is_some_and(|back| f.is_replaced_by(&back)));
        if let Failing::Impaired(how) = fault.failing {
            impair_links(chip, fault.site, how.none());
        }
        outage(&fault)
    }

    /// From now on exactly this is out of service. Impairments stay. If something does not exist, nothing changes.
    pub(crate) fn replace(&mut self, chip: &Chip, dead: &[Outage]) -> Result<(), FaultError> {
        for what in dead {
            check_fault(&chip.net.shape, &fault_of(*what))?;
        }
        self.in_force.retain(|f| !f.is_down());
        dead.iter().for_each(|what| self.in_force.set(fault_of(*what)));
        Ok(())
    }
}

/// Impairs the links of `site`. For each link the latest setting counts, even if earlier ones covered several links.
fn impair_links(chip: &mut Chip, site: Site, how: Impair) {
    for link in site.links(&chip.net.shape) {
        chip.impair(link, chip.impairment(link).with(how));
    }
    chip.impaired_otherwise();
}

/// Time of N flits at the rate of an impaired link.
pub(crate) fn span(what: &Impairment, flits: u16) -> Tick {
    const SECOND: Tick = 1_000_000_000_000;
    match what.rate {
        0 => 0,
        rate => (flits as u64 * angara_abi::FLIT_BYTES as u64 * SECOND).div_ceil(rate),
    }
}

/// Packets need numbers and checksums.
pub(crate) fn numbers(what: &Impairment) -> bool {
    let Impairment { corrupt: _, drop: _, duplicate, reorder, delay_ps: _, rate: _, seed: _ } = *what;
    what.spoilt() > 0 || duplicate > 0 || reorder > 0
}
