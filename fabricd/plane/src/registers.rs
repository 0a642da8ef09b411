//! Register pages of the nodes: what clients may read, and the mailbox by which they write.
//!
//! Pages are made when the first PE of a node attaches, and refreshed from the network's counters
//! about every millisecond while there is work and once before the thread sleeps.

use angara_abi::channel::Fault;
use angara_abi::csr;
use angara_abi::shm::{Access, Mapping, PageKind, Part, Source};
use angara_abi::{PAYLOAD_MAX, REDUCES, TREES};
use angara_fabric::{Fabric, Link, TreeRow};
use angara_net::torus::{Direction, NodeId, Shape};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// States of a link register.
const LINK_DOWN: u64 = 0;
const LINK_UP: u64 = 1;
const LINK_ABSENT: u64 = 2;

/// A register page as a PE of its node gets it.
pub enum RegisterPage {
    /// To be mapped.
    File(OwnedFd),
    /// In this process.
    Here(Part),
}

/// The register page of one node.
struct Registers {
    fd: Option<OwnedFd>,
    map: Mapping,
    errors: u64,
}

impl Registers {
    fn create(source: &Source, shape: &Shape, node: NodeId, channels: u16) -> io::Result<Registers> {
        let (fd, map) = source.create(&format!("angara-csr-{node}"), csr::CSR_BYTES, Access::ReadOnly)?;
        let registers = Registers { fd, map, errors: 0 };
        let dims: u64 = (0..4).map(|d| (shape.size(d) as u64) << (8 * d)).sum();
        registers.set(csr::ID, csr::ID_VALUE);
        registers.set(
            csr::CAPS,
            shape.dims().len() as u64
                | (channels as u64) << 8
                | (TREES as u64) << 24
                | (REDUCES as u64) << 32
                | (PAYLOAD_MAX as u64) << 40,
        );
        registers.set(csr::COORDS, u32::from_le_bytes(shape.coords(node).0) as u64);
        registers.set(csr::DIMS, dims | u64::from(!shape.is_torus()) << 32);
        registers.set(csr::NODE, node as u64);
        registers.map.stamp_page(PageKind::Csr, csr::CSR_BYTES)?;
        Ok(registers)
    }

    fn set(&self, register: u32, value: u64) {
        if let Ok(word) = self.map.at::<AtomicU64>(register as usize) {
            word.store(value, Ordering::Relaxed);
        }
    }
}

/// Register pages of the nodes of this host, and the counters that only they show.
pub(crate) struct RegisterPages {
    shape: Shape,
    /// Injection channels of a node.
    channels: u16,
    pages: BTreeMap<NodeId, Registers>,
    /// Barriers left and phases of the latest one, by node.
    barriers: BTreeMap<NodeId, (u64, u64)>,
    /// Counters changed since the pages were written.
    stale: bool,
}

impl RegisterPages {
    pub(crate) fn new(shape: Shape, channels: u16) -> RegisterPages {
        RegisterPages { shape, channels, pages: BTreeMap::new(), barriers: BTreeMap::new(), stale: false }
    }

    /// A node's register page, made at the first call.
    pub(crate) fn page(&mut self, fabric: &Fabric, node: NodeId, source: &Source) -> io::Result<RegisterPage> {
        // A library that has all PEs of a job in its process reads no registers: they have one page.
        let node = match source {
            Source::Arena(_) => self.pages.keys().next().copied().unwrap_or(node),
            Source::Files => node,
        };
        if !self.pages.contains_key(&node) {
            let page = Registers::create(source, &self.shape, node, self.channels)?;
            self.write(&page, fabric, node);
            self.pages.insert(node, page);
        }
        let page = self.pages.get(&node).ok_or(io::ErrorKind::NotFound)?;
        match &page.fd {
            Some(fd) => fd.try_clone().map(RegisterPage::File),
            None => Ok(RegisterPage::Here(Part::of(&page.map))),
        }
    }

    /// Counters of the network have changed.
    #[inline]
    pub(crate) fn are_stale(&mut self) {
        self.stale = true;
    }

    /// Writes the network's counters into the pages, if any changed.
    pub(crate) fn refresh(&mut self, fabric: &Fabric) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        for (&node, page) in &self.pages {
            self.write(page, fabric, node);
        }
    }

    /// A node has left a barrier of N phases.
    pub(crate) fn barrier_left(&mut self, node: NodeId, phases: u64) {
        let (done, latest) = self.barriers.entry(node).or_default();
        (*done, *latest) = (*done + 1, phases);
    }

    /// Nodes that have left barriers: how many, and the phases of the latest one.
    pub(crate) fn barriers(&self) -> Vec<(NodeId, u64, u64)> {
        self.barriers.iter().map(|(node, (left, phases))| (*node, *left, *phases)).collect()
    }

    /// A client of a node has violated the protocol.
    pub(crate) fn count_error(&mut self, node: NodeId) {
        if let Some(page) = self.pages.get_mut(&node) {
            page.errors += 1;
            page.set(csr::ERRORS, page.errors);
        }
    }

    /// Carries out a client's command to write a register.
    pub(crate) fn command(&mut self, node: NodeId, register: u32, value: u64) -> Result<(), Fault> {
        let page = self.pages.get_mut(&node);
        match register {
            _ if !csr::exists(register) || !csr::client_writable(register) => return Err(Fault::BadCsr),
            csr::SCRATCH => {
                if let Some(page) = page {
                    page.set(csr::SCRATCH, value);
                }
            }
            // The other writable register counts errors; only clearing it means something.
            _ if value != 0 => return Err(Fault::BadCsr),
            _ => {
                if let Some(page) = page {
                    page.errors = 0;
                    page.set(csr::ERRORS, 0);
                }
            }
        }
        Ok(())
    }

    fn write(&self, page: &Registers, fabric: &Fabric, node: NodeId) {
        page.set(csr::STATUS, u64::from(fabric.routes().node_up(node)));
        for dir in Direction::ALL {
            self.write_link(page, fabric, Link { node, dir });
        }
        for tree in 0..TREES {
            let row = fabric.tree(tree as u8).and_then(|t| t.row(node));
            page.set(csr::tree(tree, csr::TREE_ROW), row.map_or(0, row_bits));
            let (results, bcasts) = fabric.tree_counters(tree as u8, node);
            page.set(csr::tree(tree, csr::TREE_RESULTS), results);
            page.set(csr::tree(tree, csr::TREE_BCASTS), bcasts);
        }
        let (done, phases) = self.barriers.get(&node).copied().unwrap_or_default();
        page.set(csr::BARRIER_DONE, done);
        page.set(csr::BARRIER_PHASES, phases);
    }

    fn write_link(&self, page: &Registers, fabric: &Fabric, link: Link) {
        let register = |r| csr::link(link.dir.index(), r);
        if self.shape.neighbour(link.node, link.dir).is_none() {
            return page.set(register(csr::LINK_STATE), LINK_ABSENT);
        }
        let up = fabric.routes().link_up(link);
        page.set(register(csr::LINK_STATE), if up { LINK_UP } else { LINK_DOWN });
        let counters = fabric.link_counters(link);
        let sent = counters.total();
        page.set(register(csr::LINK_TX_PACKETS), sent.packets);
        page.set(register(csr::LINK_TX_FLITS), sent.flits);
        page.set(register(csr::LINK_TX_BYTES), sent.bytes);
        page.set(register(csr::LINK_RX_PACKETS), counters.rx_packets);
        page.set(register(csr::LINK_CRC_ERRORS), counters.crc_errors);
        page.set(register(csr::LINK_REPLAYS), counters.replays);
    }
}

fn row_bits(row: &TreeRow) -> u64 {
    const VALID: u64 = 1 << 14;
    row.down as u64
        | row.to_root.map_or(0, |d| d.index() as u64) << 8
        | u64::from(row.is_root) << 12
        | u64::from(row.contributors > 0) << 13
        | VALID
        | (row.down_sum as u64) << 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_net::torus::Direction;

    #[test]
    fn rows_are_packed_as_the_register_map_says() {
        let row = TreeRow {
            is_root: false,
            to_root: Some(Direction::new(1, false)),
            contributors: 2,
            down: 0b101,
            down_sum: 2,
        };
        assert_eq!(row_bits(&row), 0b101 | 5 << 8 | 1 << 13 | 1 << 14 | 2 << 16);
    }
}
