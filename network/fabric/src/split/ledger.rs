//! Knowledge that the parts of a split network exchange when its routes change; see [`crate::Fabric::recover`].

use crate::collective::{JobName, Range, TreeRow, TreeRows, TreeState};
use crate::types::{ENDPOINTS_MAX, JobSlot, Port};
use angara_abi::TREES;
use angara_net::torus::{Direction, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Knowledge of one part of a network that the others need when routes change, or the sum over several parts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ledger {
    /// Packets ejected that came over boundary links, by job, source, target and channel.
    pub(crate) ejected: BTreeMap<(JobName, NodeId, NodeId, u8), u64>,
    /// The least number of barriers that a node of the job has left.
    pub(crate) barriers: BTreeMap<JobName, u64>,
    /// Ports and their operations, by key, whose answers have been given up.
    pub(crate) unanswered: BTreeSet<(JobName, Port, u64)>,
    pub(crate) trees: BTreeMap<u8, TreeState>,
}

/// Why bytes are not a ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LedgerError {
    /// Written by another version.
    #[error("ledger format {0} is not {FORMAT}: all hosts must run the same version")]
    Format(u8),
    /// They end too early.
    #[error("the ledger ends in the middle")]
    Short,
    /// They go on.
    #[error("{0} bytes behind the end of the ledger")]
    Long(usize),
    /// A value that cannot be.
    #[error("ledger: {0} cannot be {1}")]
    Value(&'static str, u64),
}

/// First byte of a ledger.
const FORMAT: u8 = 1;

impl Ledger {
    /// Adds what another part knows.
    pub fn merge(&mut self, other: &Ledger) {
        for (stream, count) in &other.ejected {
            let mine = self.ejected.entry(*stream).or_default();
            *mine = (*mine).max(*count);
        }
        for (job, left) in &other.barriers {
            let mine = self.barriers.entry(*job).or_insert(*left);
            *mine = (*mine).min(*left);
        }
        self.unanswered.extend(&other.unanswered);
        for (tree, state) in &other.trees {
            match self.trees.get_mut(tree) {
                Some(mine) => mine.join(state),
                None => drop(self.trees.insert(*tree, state.clone())),
            }
        }
    }

    /// As bytes, little-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        let count = |out: &mut Vec<u8>, n: usize| out.extend((n as u32).to_le_bytes());
        let name = |out: &mut Vec<u8>, (job, generation): JobName| {
            out.extend(job.number().to_le_bytes());
            out.extend(generation.to_le_bytes());
        };
        count(&mut out, self.ejected.len());
        for ((job, src, dst, vc), ejected) in &self.ejected {
            name(&mut out, *job);
            out.extend(src.to_le_bytes());
            out.extend(dst.to_le_bytes());
            out.push(*vc);
            out.extend(ejected.to_le_bytes());
        }
        count(&mut out, self.barriers.len());
        for (job, left) in &self.barriers {
            name(&mut out, *job);
            out.extend(left.to_le_bytes());
        }
        count(&mut out, self.unanswered.len());
        for (job, port, op) in &self.unanswered {
            name(&mut out, *job);
            out.extend(port.node.to_le_bytes());
            out.extend(port.endpoint.to_le_bytes());
            out.extend(op.to_le_bytes());
        }
        count(&mut out, self.trees.len());
        for (tree, state) in &self.trees {
            out.push(*tree);
            name(&mut out, state.job);
            out.extend([state.moved as u8, state.clash as u8]);
            for range in [state.made, state.emitted, state.done, state.bcasts] {
                out.extend(range.0.to_le_bytes());
                out.extend(range.1.to_le_bytes());
            }
            out.extend(state.casts.to_le_bytes());
            count(&mut out, state.rows.rows.len());
            for (node, row) in &state.rows.rows {
                out.extend(node.to_le_bytes());
                out.extend([row.is_root as u8, row.to_root.map_or(NO_DIR, |d| d.index() as u8)]);
                out.extend(row.contributors.to_le_bytes());
                out.extend([row.down, row.down_sum]);
            }
            count(&mut out, state.rows.ports.len());
            for port in &state.rows.ports {
                out.extend(port.node.to_le_bytes());
                out.extend(port.endpoint.to_le_bytes());
            }
        }
        out
    }

    /// Returns what [`Ledger::to_bytes`] wrote. Any other bytes are refused, or are the ledger of some network: what it
    /// says is looked up, never trusted to exist.
    pub fn from_bytes(bytes: &[u8]) -> Result<Ledger, LedgerError> {
        let mut r = Reader(bytes);
        let format = r.u8()?;
        if format != FORMAT {
            return Err(LedgerError::Format(format));
        }
        let mut ledger = Ledger::default();
        for _ in 0..r.u32()? {
            let (job, src, dst, vc) = (r.name()?, r.u32()?, r.u32()?, r.u8()?);
            if vc > 1 {
                return Err(LedgerError::Value("a channel", vc as u64));
            }
            ledger.ejected.insert((job, src, dst, vc), r.count()?);
        }
        for _ in 0..r.u32()? {
            ledger.barriers.insert(r.name()?, r.count()?);
        }
        for _ in 0..r.u32()? {
            ledger.unanswered.insert((r.name()?, r.port()?, r.u64()?));
        }
        for _ in 0..r.u32()? {
            let tree = r.u8()?;
            if tree as usize >= TREES {
                return Err(LedgerError::Value("a tree", tree as u64));
            }
            ledger.trees.insert(tree, r.tree()?);
        }
        if !r.0.is_empty() {
            return Err(LedgerError::Long(r.0.len()));
        }
        Ok(ledger)
    }
}

const NO_DIR: u8 = u8::MAX;
/// Nothing happens more often.
const COUNT_MAX: u64 = 1 << 60;

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], LedgerError> {
        let (head, rest) = self.0.split_first_chunk().ok_or(LedgerError::Short)?;
        self.0 = rest;
        Ok(*head)
    }
    fn u8(&mut self) -> Result<u8, LedgerError> {
        self.array::<1>().map(|b| b[0])
    }
    fn bool(&mut self) -> Result<bool, LedgerError> {
        match self.u8()? {
            b @ 0..=1 => Ok(b == 1),
            b => Err(LedgerError::Value("yes or no", b as u64)),
        }
    }
    fn u16(&mut self) -> Result<u16, LedgerError> {
        self.array().map(u16::from_le_bytes)
    }
    fn u32(&mut self) -> Result<u32, LedgerError> {
        self.array().map(u32::from_le_bytes)
    }
    fn u64(&mut self) -> Result<u64, LedgerError> {
        self.array().map(u64::from_le_bytes)
    }
    fn name(&mut self) -> Result<JobName, LedgerError> {
        Ok((JobSlot::new(self.u16()?), self.u16()?))
    }
    /// A number that counts something that has happened one by one.
    fn count(&mut self) -> Result<u64, LedgerError> {
        match self.u64()? {
            n @ 0..=COUNT_MAX => Ok(n),
            n => Err(LedgerError::Value("a count", n)),
        }
    }
    fn range(&mut self) -> Result<Range, LedgerError> {
        match Range(self.u64()?, self.u64()?) {
            none if none == Range::default() => Ok(none),
            Range(_, most @ COUNT_MAX..) => Err(LedgerError::Value("a count", most)),
            range => Ok(range),
        }
    }

    fn port(&mut self) -> Result<Port, LedgerError> {
        let port = Port { node: self.u32()?, endpoint: self.u16()? };
        match port.endpoint as usize {
            0..ENDPOINTS_MAX => Ok(port),
            other => Err(LedgerError::Value("an endpoint", other as u64)),
        }
    }

    fn tree(&mut self) -> Result<TreeState, LedgerError> {
        let mut state = TreeState {
            job: self.name()?,
            moved: self.bool()?,
            clash: self.bool()?,
            made: self.range()?,
            emitted: self.range()?,
            done: self.range()?,
            bcasts: self.range()?,
            casts: self.count()?,
            rows: TreeRows::default(),
        };
        for _ in 0..self.u32()? {
            let (node, is_root, dir) = (self.u32()?, self.bool()?, self.u8()?);
            let to_root = match dir {
                NO_DIR => None,
                d => Some(*Direction::ALL.get(d as usize).ok_or(LedgerError::Value("a direction", d as u64))?),
            };
            let row = TreeRow { is_root, to_root, contributors: self.u16()?, down: self.u8()?, down_sum: self.u8()? };
            state.rows.rows.push((node, row));
        }
        for _ in 0..self.u32()? {
            state.rows.ports.push(self.port()?);
        }
        Ok(state)
    }
}
