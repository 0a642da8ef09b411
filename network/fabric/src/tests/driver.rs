//! A driver for tests: memory for every port, effects applied in order, completions kept.

use crate::*;
use angara_abi::account::Class;
use angara_abi::desc::{AmoOp, Place, Region};
use angara_abi::packet::Vc;
use std::collections::BTreeMap;

/// The slot of the job that most tests have alone.
pub(super) const JOB: JobSlot = JobSlot::new(0);

/// Bytes of memory per port.
pub(crate) const MEMORY: usize = 1 << 17;

pub(crate) fn heap(offset: u64) -> Place {
    Place { region: Region::Heap, offset }
}

pub(crate) fn port(node: u32) -> Port {
    Port { node, endpoint: 0 }
}

/// A fabric with one job on all ports and the memory behind them.
pub(crate) struct World {
    pub(crate) fabric: Fabric,
    pub(crate) memory: BTreeMap<Port, Vec<u8>>,
    pub(crate) effects: Vec<Effect>,
    /// Bytes of each write and result, beside `effects`.
    pub(crate) data: Vec<Vec<u8>>,
    pub(crate) completions: Vec<Completion>,
    pub(crate) next_tag: u64,
}

impl World {
    pub(crate) fn with(config: Config, ports: &[Port]) -> World {
        let mut fabric = Fabric::new(Config { check_order: true, ..config }).unwrap();
        fabric.open_job(JOB, ports).unwrap();
        let memory = ports.iter().map(|p| (*p, vec![0; MEMORY])).collect();
        World { fabric, memory, effects: Vec::new(), data: Vec::new(), completions: Vec::new(), next_tag: 0 }
    }
    /// One port on every node of `shape`.
    pub(crate) fn new(shape: &str) -> World {
        let config = Config::new(shape.parse().unwrap());
        let ports: Vec<Port> = (0..config.shape.nodes() as u32).map(port).collect();
        World::with(config, &ports)
    }
    pub(crate) fn post(&mut self, from: Port, class: Class, op: Op<Source<'_>>) -> Result<u64, InjectError> {
        self.next_tag += 1;
        self.fabric.inject(from, JOB, class, op, self.fabric.now(), self.next_tag)?;
        Ok(self.next_tag)
    }
    /// Posts, running the network whenever the port is busy.
    pub(crate) fn must_post(&mut self, from: Port, class: Class, op: Op<Source<'_>>) -> u64 {
        loop {
            match self.post(from, class, op) {
                Ok(tag) => return tag,
                Err(InjectError::Busy) => self.settle(),
                Err(e) => panic!("{op:?}: {e}"),
            }
        }
    }
    pub(crate) fn put(&mut self, from: Port, to: Port, offset: u64, bytes: &[u8]) -> u64 {
        let source = Source::Inline(bytes);
        self.must_post(
            from,
            Class::Put,
            Op::Write { to, place: heap(offset), source, vc: Vc::Request, adaptive: false },
        )
    }
    /// Applies what is there to apply; true if there was something.
    pub(crate) fn apply(&mut self) -> bool {
        let before = self.effects.len() + self.completions.len();
        while let Some(effect) = self.fabric.poll_effect() {
            let mut bytes = Vec::new();
            match effect {
                Effect::Write { at, place, data, .. } | Effect::TreeResult { at, place, data, .. } => {
                    bytes = self.fabric.payload(data).to_vec();
                    assert_eq!(bytes.len(), data.len());
                    let start = place.offset as usize;
                    self.memory.get_mut(&at).unwrap()[start..start + bytes.len()].copy_from_slice(&bytes);
                }
                Effect::Fetch { at, place, len, token, .. } => {
                    let start = place.offset as usize;
                    let data = self.memory[&at][start..start + len as usize].to_vec();
                    self.fabric.supply(token, &data);
                }
                Effect::Amo { at, place, op, width, operand, comparand, token, .. } => {
                    let word = &mut self.memory.get_mut(&at).unwrap()[place.offset as usize..][..width as usize];
                    let mut raw = [0; 8];
                    raw[..width as usize].copy_from_slice(word);
                    let old = u64::from_le_bytes(raw);
                    let new = match op {
                        AmoOp::Add => old.wrapping_add(operand),
                        AmoOp::Xor => old ^ operand,
                        AmoOp::And => old & operand,
                        AmoOp::Or => old | operand,
                        AmoOp::Swap => operand,
                        AmoOp::CompareSwap => {
                            if old == comparand {
                                operand
                            } else {
                                old
                            }
                        }
                        AmoOp::Fetch => old,
                    };
                    word.copy_from_slice(&new.to_le_bytes()[..width as usize]);
                    if let Some(token) = token {
                        self.fabric.supply(token, &old.to_le_bytes());
                    }
                }
                _ => {}
            }
            self.effects.push(effect);
            self.data.push(bytes);
        }
        while let Some(c) = self.fabric.poll_completion() {
            self.completions.push(c);
        }
        self.effects.len() + self.completions.len() > before
    }
    /// Runs until nothing happens any more.
    pub(crate) fn settle(&mut self) {
        loop {
            self.fabric.run_free();
            if !self.apply() {
                return;
            }
        }
    }
    /// As `settle`, then everything must have left the network.
    pub(crate) fn finish(&mut self) {
        self.settle();
        assert_eq!(self.fabric.in_flight(), (0, 0), "packets or payloads left behind");
        let check = self.fabric.order_check(JOB);
        assert_eq!(check.held(), !self.is_disordered(), "{check:?} {:?}", self.errors());
    }
    pub(crate) fn states(&self, tag: u64) -> Vec<OpState> {
        self.completions.iter().filter(|c| c.tag == tag).map(|c| c.state).collect()
    }
    pub(crate) fn errors(&self) -> Vec<NetError> {
        let what = |e: &Effect| match e {
            Effect::Error { what, .. } => Some(*what),
            _ => None,
        };
        self.effects.iter().filter_map(what).collect()
    }
    /// The model has said that a fence or flush did not do what it is for.
    pub(crate) fn is_disordered(&self) -> bool {
        self.errors().iter().any(|e| matches!(e, NetError::Overtaken { .. } | NetError::Unflushed { .. }))
    }
    /// Sum over all links of what was sent in `class`.
    pub(crate) fn sent(&self, class: Class) -> angara_abi::account::Load {
        let mut sum = angara_abi::account::Load::default();
        for node in 0..self.fabric.shape().nodes() as u32 {
            for dir in angara_net::torus::Direction::ALL {
                sum.add(self.fabric.job_link_counters(JOB, Link { node, dir })[class as usize]);
            }
        }
        sum
    }
}

/// Small deterministic generator for test data; the seed is in every failure message.
#[derive(Clone, Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 += 1;
        crate::rng::random(self.0, n, 99, 0) % n
    }
    pub(crate) fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.below(256) as u8).collect()
    }
}

/// Injection ports of nodes, as a seed draws them: half of all have one.
pub(crate) fn ports_drawn(seed: u64) -> u8 {
    let drawn = crate::rng::random(seed, 0, 98, 0);
    if drawn & 1 == 0 { 1 } else { 2 + (drawn >> 1) as u8 % 7 }
}
