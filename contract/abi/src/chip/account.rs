//! Traffic accounting: the same figures on every engine.
//!
//! Each (context slot, destination PE, class) has one [`Row`] in a region only its PE writes.
//! The daemon sums rows and folds them into links through the route table, so a `direct` run
//! reports the traffic its operations would have put on each link of the torus.

use crate::PAYLOAD_MAX;
use crate::packet::data_flits;
use crate::shm::{Mapping, Shared, ShmError};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Class under which a packet is counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Class {
    /// Program puts.
    Put = 0,
    /// Program gets.
    Get = 1,
    /// Program atomics.
    Amo = 2,
    /// Everything the library adds: quiet, locks, collectives, barriers.
    Sync = 3,
}

/// Number of classes.
pub const CLASSES: usize = 4;
/// Context slots in a counter region; contexts beyond share slots.
pub const CONTEXTS: usize = 16;
/// Most bytes one READ_REQ asks for; a longer get is several requests.
pub const READ_MAX: usize = 32 * 1024;

impl Class {
    /// Every class, by index.
    pub const ALL: [Class; CLASSES] = [Class::Put, Class::Get, Class::Amo, Class::Sync];
    /// Decodes a class code.
    pub fn from_bits(bits: u8) -> Option<Class> {
        Class::ALL.get(bits as usize).copied()
    }
    /// The operation of this class that programs do most, on 8 bytes: a put, a get, a fetching atomic, a
    /// signal. [`Row`] counts it with one increment.
    #[inline(always)]
    pub const fn usual(self) -> Traffic {
        match self {
            Class::Put | Class::Sync => Traffic::put(8),
            Class::Get => Traffic::get(8),
            Class::Amo => Traffic::amo(8, false, true),
        }
    }
    /// Lower-case name, as in reports.
    pub fn name(self) -> &'static str {
        ["put", "get", "amo", "sync"][self as usize]
    }
}

/// Packets, flits and payload bytes of one direction of one operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Load {
    /// Packets.
    pub packets: u64,
    /// Flits, header and tail included.
    pub flits: u64,
    /// Payload bytes.
    pub bytes: u64,
}

impl Load {
    /// Nothing.
    pub const NONE: Load = Load { packets: 0, flits: 0, bytes: 0 };
    /// The adapter's length function: `bytes` payload split into packets of at most 256 bytes.
    /// An operation without payload still needs no packet here; see [`Load::bare`].
    #[inline(always)]
    pub const fn payload(bytes: usize) -> Load {
        let full = bytes / PAYLOAD_MAX;
        let rest = bytes % PAYLOAD_MAX;
        let packets = full + (rest > 0) as usize;
        let flits = full * (2 + PAYLOAD_MAX / crate::FLIT_BYTES) + if rest > 0 { 2 + data_flits(rest) } else { 0 };
        Load { packets: packets as u64, flits: flits as u64, bytes: bytes as u64 }
    }
    /// `packets` packets of `data_flits` flits of operands or addresses each, no payload.
    #[inline(always)]
    pub const fn bare(packets: u64, data_flits: u64) -> Load {
        Load { packets, flits: (2 + data_flits) * packets, bytes: 0 }
    }
    /// Adds `other`. Stops at the top: the figures may come from memory a client wrote.
    pub fn add(&mut self, other: Load) {
        self.packets = self.packets.saturating_add(other.packets);
        self.flits = self.flits.saturating_add(other.flits);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Load of one operation, on the way to its target and on the way back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Traffic {
    /// Operations, whatever their size.
    pub ops: u64,
    /// Load from source to target.
    pub out: Load,
    /// Load on the way back: answers of reads and fetching atomics.
    pub back: Load,
}

impl Traffic {
    /// A put of `bytes`.
    #[inline(always)]
    pub const fn put(bytes: usize) -> Traffic {
        Traffic { ops: 1, out: Load::payload(bytes), back: Load::NONE }
    }
    /// A get of `bytes`: read requests of at most [`READ_MAX`], responses of 256-byte packets.
    #[inline(always)]
    pub const fn get(bytes: usize) -> Traffic {
        Traffic { ops: 1, out: Load::bare(bytes.div_ceil(READ_MAX) as u64, 1), back: Load::payload(bytes) }
    }
    /// An atomic on a word of `width` bytes (4 or 8). The chip's own add and xor (`native`) carry
    /// one operand flit; service-processor atomics carry a second one and are answered if `fetch`.
    #[inline(always)]
    pub const fn amo(width: usize, native: bool, fetch: bool) -> Traffic {
        let out = Load { bytes: width as u64, ..Load::bare(1, if native { 1 } else { 2 }) };
        Traffic { ops: 1, out, back: if fetch { Load::payload(width) } else { Load::NONE } }
    }
    /// The same `n` times. Stops at the top, as [`Load::add`].
    pub fn times(self, n: u64) -> Traffic {
        let load = |l: Load| Load {
            packets: l.packets.saturating_mul(n),
            flits: l.flits.saturating_mul(n),
            bytes: l.bytes.saturating_mul(n),
        };
        Traffic { ops: self.ops.saturating_mul(n), out: load(self.out), back: load(self.back) }
    }
    /// Adds `other`.
    pub fn add(&mut self, other: Traffic) {
        self.ops = self.ops.saturating_add(other.ops);
        self.out.add(other.out);
        self.back.add(other.back);
    }
}

/// One row of counters: 64 bytes. [`Class::usual`] operations have a word of their own, so that a put of 8
/// bytes costs one increment and not four.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Row {
    /// Operations that the words below count.
    ops: AtomicU64,
    /// Packets from source to target.
    out_packets: AtomicU64,
    /// Flits from source to target.
    out_flits: AtomicU64,
    /// Payload bytes from source to target.
    out_bytes: AtomicU64,
    /// Packets of answers.
    back_packets: AtomicU64,
    /// Flits of answers.
    back_flits: AtomicU64,
    /// Payload bytes of answers.
    back_bytes: AtomicU64,
    /// Operations of the kind that the class does most, 8 bytes each; whoever reads the row multiplies.
    usual: AtomicU64,
}

const _: () = assert!(size_of::<Row>() == 64);
// SAFETY: `repr(C)` with atomics only.
unsafe impl Shared for Row {}

impl Row {
    /// Counts one operation. Only one thread writes a row, so plain load and store suffice.
    #[inline]
    pub fn count(&self, t: Traffic) {
        let bump = |c: &AtomicU64, n: u64| c.store(c.load(Relaxed).wrapping_add(n), Relaxed);
        bump(&self.ops, t.ops);
        bump(&self.out_packets, t.out.packets);
        bump(&self.out_flits, t.out.flits);
        bump(&self.out_bytes, t.out.bytes);
        if t.back.packets != 0 {
            bump(&self.back_packets, t.back.packets);
            bump(&self.back_flits, t.back.flits);
            bump(&self.back_bytes, t.back.bytes);
        }
    }
    /// Counts one [`Class::usual`] operation of the row's class. Only one thread writes a row.
    #[inline]
    pub fn count_usual(&self) {
        self.usual.store(self.usual.load(Relaxed).wrapping_add(1), Relaxed);
    }
    /// Counts one operation of one of several threads that write this row.
    pub fn count_shared(&self, t: Traffic) {
        let bump = |c: &AtomicU64, n: u64| {
            if n > 0 {
                c.fetch_add(n, Relaxed);
            }
        };
        bump(&self.ops, t.ops);
        bump(&self.out_packets, t.out.packets);
        bump(&self.out_flits, t.out.flits);
        bump(&self.out_bytes, t.out.bytes);
        bump(&self.back_packets, t.back.packets);
        bump(&self.back_flits, t.back.flits);
        bump(&self.back_bytes, t.back.bytes);
    }
    /// Returns what has been counted in this row, which belongs to `class`.
    pub fn read(&self, class: Class) -> Traffic {
        let mut sum = class.usual().times(self.usual.load(Relaxed));
        sum.add(Traffic {
            ops: self.ops.load(Relaxed),
            out: Load {
                packets: self.out_packets.load(Relaxed),
                flits: self.out_flits.load(Relaxed),
                bytes: self.out_bytes.load(Relaxed),
            },
            back: Load {
                packets: self.back_packets.load(Relaxed),
                flits: self.back_flits.load(Relaxed),
                bytes: self.back_bytes.load(Relaxed),
            },
        });
        sum
    }
}

/// The counter region of one PE: `CONTEXTS` slots × `pes` destinations × `CLASSES` rows.
pub struct Counters {
    /// Rows by destination PE, context slot and class.
    map: Mapping,
    /// Destination PEs.
    pes: usize,
}

impl Counters {
    /// Bytes of the region for a job of `pes` PEs.
    pub fn bytes(pes: usize) -> usize {
        CONTEXTS * pes * CLASSES * size_of::<Row>()
    }
    /// Wraps a mapping of at least [`Counters::bytes`].
    pub fn new(map: Mapping, pes: usize) -> Result<Counters, ShmError> {
        map.require(Self::bytes(pes))?;
        Ok(Counters { map, pes })
    }
    /// The region, for a PE in the same process.
    pub fn part(&self) -> crate::shm::Part {
        crate::shm::Part::of(&self.map)
    }
    /// Something that nobody reads, to be counted in for a while.
    pub fn cover(&self) -> std::io::Result<crate::shm::Cover> {
        crate::shm::Cover::of(&self.map)
    }
    /// The row of (`slot`, `pe`, `class`).
    ///
    /// # Panics
    /// If `slot` or `pe` is out of range.
    #[inline]
    pub fn row(&self, slot: usize, pe: usize, class: Class) -> &Row {
        assert!(slot < CONTEXTS && pe < self.pes, "counter row ({slot}, {pe}) out of range");
        let index = (slot * self.pes + pe) * CLASSES + class as usize;
        self.map.at::<Row>(index * size_of::<Row>()).expect("bounds checked at construction")
    }
    /// Sum over context slots of what went to `pe` in `class`.
    pub fn sum(&self, pe: usize, class: Class) -> Traffic {
        let mut sum = Traffic::default();
        for slot in 0..CONTEXTS {
            sum.add(self.row(slot, pe, class).read(class));
        }
        sum
    }
}
