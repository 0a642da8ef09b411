//! State of the data-plane thread: jobs, channels, and the network between them.

use super::{Command, Gauges, Notice};
use crate::config::Options;
use crate::fault::{ClearSpec, FaultSpec};
use crate::memory::{JobMemory, PeMemory};
use abi::job::Reach;
use abi::msg::{LinkReport, PairReport};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use tokio::sync::mpsc::UnboundedSender;

pub(crate) struct Engine {
    jobs: BTreeMap<u16, EngineJob>,
    notices: UnboundedSender<Notice>,
    wake: Arc<OwnedFd>,
    gauges: Arc<Gauges>,
}

struct EngineJob {
    memory: Arc<JobMemory>,
    pes: BTreeMap<usize, Arc<PeMemory>>,
}

impl Engine {
    pub(super) fn new(
        _options: &Options,
        notices: UnboundedSender<Notice>,
        wake: Arc<OwnedFd>,
        gauges: Arc<Gauges>,
    ) -> io::Result<Engine> {
        Ok(Engine { jobs: BTreeMap::new(), notices, wake, gauges })
    }
    pub(super) fn serve(mut self, commands: &Receiver<Command>) {
        while let Ok(Command::Call(f)) = commands.recv() {
            f(&mut self);
        }
    }
    pub(crate) fn open_job(&mut self, memory: Arc<JobMemory>) -> Result<(), String> {
        self.jobs.insert(memory.slot, EngineJob { memory, pes: BTreeMap::new() });
        Ok(())
    }
    pub(crate) fn close_job(&mut self, slot: u16) {
        self.jobs.remove(&slot);
    }
    /// Serves a PE's channel from now on; returns its node's register page.
    pub(crate) fn attach(&mut self, slot: u16, pe: Arc<PeMemory>) -> io::Result<OwnedFd> {
        let job = self.jobs.get_mut(&slot).ok_or(io::ErrorKind::NotFound)?;
        for target in 0..job.memory.pes {
            pe.targets.set(target, if job.memory.ring_only { Reach::Ring } else { Reach::Direct });
        }
        job.pes.insert(pe.pe, pe);
        let (fd, map) = abi::shm::Mapping::create("angara-csr", abi::csr::CSR_BYTES, abi::shm::Access::ReadOnly)?;
        map.stamp_page(abi::shm::PageKind::Csr, abi::csr::CSR_BYTES)?;
        Ok(fd)
    }
    pub(crate) fn detach(&mut self, _slot: u16, _pe: usize, _lost: bool) {}
    pub(crate) fn report(&mut self, _slot: u16) -> (Vec<PairReport>, Vec<LinkReport>, Vec<String>) {
        (vec![], vec![], vec![])
    }
    pub(crate) fn counters(&mut self) -> Vec<LinkReport> {
        vec![]
    }
    pub(crate) fn set_fault(&mut self, _f: FaultSpec) -> Result<(), String> {
        Ok(())
    }
    pub(crate) fn clear_fault(&mut self, _f: ClearSpec) -> Result<(), String> {
        Ok(())
    }
    pub(crate) fn faults(&self) -> Vec<String> {
        vec![]
    }
    pub(crate) fn tree_open(&mut self, _slot: u16, _root: usize, _pes: &[u32]) -> Result<u8, String> {
        Err("no".into())
    }
    pub(crate) fn tree_close(&mut self, _slot: u16, _tree: u8) -> Result<(), String> {
        Err("no".into())
    }
}
