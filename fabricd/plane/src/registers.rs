//! Register pages of the nodes: what clients may read, and the mailbox by which they write.
//!
//! Pages are made when the first PE of a node attaches, and refreshed from the network's counters
//! about every millisecond while there is work and once before the thread sleeps.

use crate::plane::DataPlane;
use angara_abi::channel::Fault;
use angara_abi::csr;
use angara_abi::shm::{Access, Mapping, PageKind, Part, Source};
use angara_abi::{PAYLOAD_MAX, REDUCES, TREES};
use angara_fabric::Link;
use angara_net::torus::{Direction, NodeId, Shape};
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
pub(crate) struct Registers {
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

    pub(crate) fn set(&self, register: u32, value: u64) {
        if let Ok(word) = self.map.at::<AtomicU64>(register as usize) {
            word.store(value, Ordering::Relaxed);
        }
    }

    pub(crate) fn count_error(&mut self) {
        self.errors += 1;
        self.set(csr::ERRORS, self.errors);
    }
}

impl DataPlane {
    /// A node's register page, made at the first call.
    pub(crate) fn register_page(&mut self, node: NodeId, source: &Source) -> io::Result<RegisterPage> {
        // A library that has all PEs of a job in its process reads no registers: they have one page.
        let node = match source {
            Source::Arena(_) => self.registers.keys().next().copied().unwrap_or(node),
            Source::Files => node,
        };
        if !self.registers.contains_key(&node) {
            let page = Registers::create(source, &self.shape, node, self.channels)?;
            self.refresh(&page, node);
            self.registers.insert(node, page);
        }
        let page = self.registers.get(&node).ok_or(io::ErrorKind::NotFound)?;
        match &page.fd {
            Some(fd) => fd.try_clone().map(RegisterPage::File),
            None => Ok(RegisterPage::Here(Part::of(&page.map))),
        }
    }

    /// Writes the network's counters into the pages, if any changed.
    pub(crate) fn refresh_registers(&mut self) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        for (&node, page) in &self.registers {
            self.refresh(page, node);
        }
    }

    fn refresh(&self, page: &Registers, node: NodeId) {
        page.set(csr::STATUS, u64::from(self.fabric.routes().node_up(node)));
        for dir in Direction::ALL {
            self.refresh_link(page, Link { node, dir });
        }
        self.refresh_collectives(page, node);
    }

    fn refresh_link(&self, page: &Registers, link: Link) {
        let register = |r| csr::link(link.dir.index(), r);
        if self.shape.neighbour(link.node, link.dir).is_none() {
            return page.set(register(csr::LINK_STATE), LINK_ABSENT);
        }
        let up = self.fabric.routes().link_up(link);
        page.set(register(csr::LINK_STATE), if up { LINK_UP } else { LINK_DOWN });
        let counters = self.fabric.link_counters(link);
        let sent = counters.total();
        page.set(register(csr::LINK_TX_PACKETS), sent.packets);
        page.set(register(csr::LINK_TX_FLITS), sent.flits);
        page.set(register(csr::LINK_TX_BYTES), sent.bytes);
        page.set(register(csr::LINK_RX_PACKETS), counters.rx_packets);
        page.set(register(csr::LINK_CRC_ERRORS), counters.crc_errors);
        page.set(register(csr::LINK_REPLAYS), counters.replays);
    }

    /// Executes a CSR command, if there is one.
    pub(crate) fn poll_mailbox(&mut self, index: usize) -> bool {
        let Some(lane) = &self.lanes[index] else { return false };
        let Some((seq, register, value)) = lane.memory.channel.csr_pending() else { return false };
        let node = lane.port.node;
        let result = match register {
            _ if !csr::exists(register) || !csr::client_writable(register) => Err(Fault::BadCsr),
            csr::SCRATCH => {
                if let Some(page) = self.registers.get(&node) {
                    page.set(csr::SCRATCH, value);
                }
                Ok(())
            }
            // The other writable register counts errors; only clearing it means something.
            _ if value != 0 => Err(Fault::BadCsr),
            _ => {
                if let Some(page) = self.registers.get_mut(&node) {
                    page.errors = 0;
                    page.set(csr::ERRORS, 0);
                }
                Ok(())
            }
        };
        if result.is_err() {
            self.count_violation(node);
        }
        let Some(lane) = &mut self.lanes[index] else { return true };
        if result.is_err() && !std::mem::replace(&mut lane.csr_logged, true) {
            tracing::warn!(job = lane.job.id.number(), pe = lane.pe, register, value, "CSR command refused");
        }
        lane.memory.channel.csr_acknowledge(seq, result);
        lane.notify();
        true
    }
}
