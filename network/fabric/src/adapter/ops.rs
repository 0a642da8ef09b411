//! Operations between being posted and being reported.

use crate::op::{Op, Source};
use crate::routes::NONE;
use crate::types::{JobSlot, Tick};
use angara_abi::PAYLOAD_MAX;
use angara_abi::account::Class;
use angara_abi::desc::Place;

/// Most operations at once in one fabric.
const OPS_MAX: usize = 1 << 20;

/// One operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpRecord {
    pub(crate) doing: Op<Option<Place>>,
    pub(crate) port: u32,
    pub(crate) job: JobSlot,
    pub(crate) class: Class,
    pub(crate) tag: u64,
    /// When it may begin.
    pub(crate) issue: Tick,
    /// When it was posted.
    pub(crate) posted: Tick,
    /// Bytes.
    pub(crate) len: u32,
    /// Bytes packets have been made for.
    pub(crate) done: u32,
    /// Packets not yet in the network.
    pub(crate) to_inject: u32,
    /// Packets whose bytes are still in memory.
    pub(crate) to_copy: u32,
    /// Bytes still to come back.
    pub(crate) to_receive: u32,
    /// Complete only with its answer.
    pub(crate) answered: bool,
    /// It has been at the front of its port's queue.
    pub(crate) begun: bool,
    /// For a flush, the serial number of its packet: packets with lower ones must be in memory when it ends.
    pub(crate) behind: u64,
    /// Inline data.
    pub(crate) payload: u32,
    generation: u32,
    live: bool,
}

impl OpRecord {
    pub(crate) fn new(port: u32, job: JobSlot, class: Class, tag: u64, issue: Tick) -> OpRecord {
        OpRecord {
            doing: Op::Fence,
            port,
            job,
            class,
            tag,
            issue,
            posted: issue,
            len: 0,
            done: 0,
            to_inject: 0,
            to_copy: 0,
            to_receive: 0,
            answered: false,
            begun: false,
            behind: u64::MAX,
            payload: NONE,
            generation: 0,
            live: true,
        }
    }

    /// The DMA engine does it: more than goes into one packet.
    pub(crate) fn is_bulk(&self) -> bool {
        self.doing.is_transfer() && self.len > PAYLOAD_MAX as u32
    }

    /// Takes over what `op` asks for; returns inline bytes that need a payload slot.
    pub(crate) fn take<'a>(&mut self, op: Op<Source<'a>>, carry: bool) -> Option<&'a [u8]> {
        self.len = op.len(Source::len);
        self.answered = op.answered_by().is_some();
        self.to_receive = if self.answered { self.len } else { 0 };
        let mut inline = None;
        self.doing = op.with_source(|source| match source {
            Source::Memory { place, .. } => Some(place),
            Source::Inline(bytes) => {
                inline = Some(bytes);
                None
            }
            Source::Length(_) => None,
        });
        inline.filter(|_| carry)
    }
}

/// All live operations, named by index and generation.
#[derive(Default, Debug)]
pub(crate) struct Ops {
    slots: Vec<OpRecord>,
    free: Vec<u32>,
    /// Per port: live operations that end with an answer.
    answered: Vec<u32>,
}

impl Ops {
    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty() && self.slots.len() >= OPS_MAX
    }
    pub(crate) fn alloc(&mut self, mut record: OpRecord) -> u32 {
        if record.answered {
            let port = record.port as usize;
            if self.answered.len() <= port {
                self.answered.resize(port + 1, 0);
            }
            self.answered[port] += 1;
        }
        if let Some(i) = self.free.pop() {
            record.generation = self.slots[i as usize].generation;
            self.slots[i as usize] = record;
            return i;
        }
        self.slots.push(record);
        self.slots.len() as u32 - 1
    }
    pub(crate) fn free(&mut self, op: u32) {
        let slot = &mut self.slots[op as usize];
        debug_assert!(slot.live, "operation {op} freed twice");
        slot.live = false;
        if slot.answered {
            self.answered[slot.port as usize] -= 1;
        }
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(op);
    }
    /// Name that stays unique when the slot is used again.
    pub(crate) fn key(&self, op: u32) -> u64 {
        op as u64 | (self.slots[op as usize].generation as u64) << 32
    }
    pub(crate) fn by_key(&self, key: u64) -> Option<u32> {
        let slot = self.slots.get(key as u32 as usize)?;
        (slot.live && slot.generation == (key >> 32) as u32).then_some(key as u32)
    }
    /// Operations of a port that are posted and end with an answer.
    pub(crate) fn answered_of(&self, port: u32) -> u32 {
        self.answered.get(port as usize).copied().unwrap_or(0)
    }
    /// Live operations of a job.
    pub(crate) fn of_job(&self, job: JobSlot) -> Vec<u32> {
        (0..self.slots.len() as u32).filter(|i| self[*i].live && self[*i].job == job).collect()
    }
}

impl std::ops::Index<u32> for Ops {
    type Output = OpRecord;
    #[inline]
    fn index(&self, op: u32) -> &OpRecord {
        &self.slots[op as usize]
    }
}

impl std::ops::IndexMut<u32> for Ops {
    #[inline]
    fn index_mut(&mut self, op: u32) -> &mut OpRecord {
        &mut self.slots[op as usize]
    }
}
