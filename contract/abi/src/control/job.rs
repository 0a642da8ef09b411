//! Memory of a job: the read-only job page, each PE's read-only target table, the shared
//! synchronisation page, and the segments.
//!
//! ```text
//! heap arena    n slices of `heap_stride`: [internal area | symmetric heap]   one memfd per job and host
//! static arena  n slices of `static_stride`: the PEs' global variables        one memfd per job and host
//! sync page     barrier words, one WaitCell per PE                            one memfd per job and host
//! job page      geometry and PE table, written by the daemon                  one memfd per job, read-only
//! target table  one state per PE as seen from this PE, written by the daemon  one memfd per PE, read-only
//! counters      traffic rows                                                  one memfd per PE
//! bounce        staging and completion words                                  one memfd per PE
//! ```
//!
//! All PEs of a job may write each other's heaps, so the heaps of a job are one protection domain
//! and one memfd; a client maps them with one call and reaches a peer with one multiplication.

use crate::note::WaitNote;
use crate::shm::{Mapping, PageKind, Part, ShmError};
use crate::wait::WaitCell;
use angara_net::torus::{Coords, DIMS_MAX, NodeId, Shape};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes at the start of each heap slice that belong to the library (flags, collective staging), in jobs of up to
/// [`PES_SMALL`] PEs.
pub const INTERNAL_BYTES: usize = 1 << 20;
/// Most PEs of a job whose tables of all PEs fit there.
pub const PES_SMALL: usize = 4096;
/// Bytes for each PE that tables of all PEs take in larger jobs, behind the others.
const TABLE_BYTES: usize = 256;

/// Bytes at the start of each heap slice that belong to the library, in a job of `pes` PEs.
pub const fn internal_bytes(pes: usize) -> usize {
    match large_tables(pes) {
        None => INTERNAL_BYTES,
        Some(tables) => tables.end,
    }
}

/// Where a library on top of the driver has its tables of all PEs, if they do not fit into what it has in smaller jobs.
pub const fn large_tables(pes: usize) -> Option<Range<usize>> {
    match pes > PES_SMALL {
        false => None,
        true => Some(INTERNAL_BYTES..INTERNAL_BYTES + (pes * TABLE_BYTES).next_multiple_of(crate::PAGE)),
    }
}
/// Bytes of a bounce region: completion words, then staging.
pub const BOUNCE_BYTES: usize = 1 << 20;
/// Every PE's own heap slice starts at a multiple of this, so that equal offsets are equally aligned addresses everywhere: the
/// largest alignment symmetric memory can have.
pub const HEAP_ALIGN: usize = 64 << 20;
/// Most PEs of one job.
pub const PES_MAX: usize = 65_536;
/// Marks an absent tree or PE.
pub const NONE: u32 = u32::MAX;

/// Byte offsets in the job page.
pub(crate) mod at {
    pub(crate) const PES: usize = 0x10;
    pub(crate) const NODES: usize = 0x14;
    pub(crate) const DIMS: usize = 0x18;
    pub(crate) const NDIMS: usize = 0x1c;
    pub(crate) const WRAP: usize = 0x20;
    pub(crate) const BARRIER: usize = 0x24;
    pub(crate) const COLLECTIVES: usize = 0x28;
    pub(crate) const STATE: usize = 0x2c;
    pub(crate) const ATTACHED: usize = 0x30;
    pub(crate) const CROWDED: usize = 0x34;
    pub(crate) const EXITS: usize = 0x38;
    pub(crate) const EXIT_STATUS: usize = 0x3c;
    pub(crate) const HEAP_STRIDE: usize = 0x40;
    pub(crate) const STATIC_STRIDE: usize = 0x48;
    pub(crate) const OPEN: usize = 0x50;
    pub(crate) const HETEROGENEOUS: usize = 0x54;
    pub(crate) const REGISTERED: usize = 0x58;
    pub(crate) const DAEMON_SLEEPS: usize = 0x80;
    pub(crate) const DAEMON_CORE: usize = 0x84;
    pub(crate) const PE_TABLE: usize = 0x1000;
    pub(crate) const PE_BYTES: usize = 16;
}

/// How barriers are done for a job on the ring path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u32)]
pub enum Barrier {
    /// On-host counter when every target is direct, else multiphase.
    Auto = 0,
    /// The adapter's multiphase barrier (paper 001).
    Multiphase = 1,
    /// Shared-memory counter; refused when a target is not on this host.
    Counter = 2,
    /// Dissemination by puts.
    Dissemination = 3,
    /// The adapters: everybody sends to everybody.
    AllToAll = 4,
    /// The adapters: along a tree in the torus and back.
    Tree = 5,
    /// The adapters: pairwise exchanges.
    Hypercube = 6,
    /// The adapters: gather to one node, release from there.
    Master = 7,
    /// The adapters: everybody waits for the announced number of packets.
    Counting = 8,
}

impl Barrier {
    /// Every choice.
    pub const ALL: [Barrier; 9] = {
        use Barrier::*;
        [Auto, Multiphase, Counter, Dissemination, AllToAll, Tree, Hypercube, Master, Counting]
    };

    /// Done by the adapters, through the network.
    pub fn by_adapter(self) -> bool {
        use Barrier::*;
        matches!(self, Multiphase | AllToAll | Tree | Hypercube | Master | Counting)
    }
}

/// How collectives are done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u32)]
pub enum Collectives {
    /// Trees on the ring path where the operation allows, else point-to-point; never trees in a cluster.
    Auto = 0,
    /// Trees wherever the operation allows.
    Tree = 1,
    /// Point-to-point only.
    P2p = 2,
}

/// Whole-job state, set by the daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum JobState {
    /// Running.
    Running = 0,
    /// Being ended: a PE failed, the launcher went away, or someone asked for it.
    Ended = 1,
}

/// A PE's seat in its job.
///
/// A process that sits there takes part in the job for a while, from a start to the matching end (in OpenSHMEM:
/// from init to the last finalize): a *life* of the seat. It may rest then, and begin another life together with the
/// other PEs. Lives are counted from 1, and the same for all seats: what a PE does in one life concerns only PEs in
/// the same one.
///
/// In an open job each seat has its own count: another process sits down for each life, and what is meant for the one
/// must not reach the next. There a life is called a *generation* of the seat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seat {
    /// Occupancy of the seat.
    pub state: SeatState,
    /// How many lives of the seat are over.
    pub ended: u32,
}

/// Occupant of a seat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum SeatState {
    /// Nobody yet.
    Free = 0,
    /// A process that takes part.
    Taken = 1,
    /// A process that has ended its life, and may leave or begin the next one.
    Resting = 2,
    /// Nobody any more: the process left while it rested.
    Left = 3,
    /// Nobody any more: the process left in the middle of a life.
    Deserted = 4,
}

impl Seat {
    /// Before anybody comes.
    pub const FREE: Seat = Seat { state: SeatState::Free, ended: 0 };
    /// In the first life.
    pub const TAKEN: Seat = Seat { state: SeatState::Taken, ended: 0 };

    /// A process takes part now.
    #[inline]
    pub fn taken(self) -> bool {
        self.state == SeatState::Taken
    }
    /// Nobody will sit here again.
    #[inline]
    pub fn is_over(self) -> bool {
        matches!(self.state, SeatState::Left | SeatState::Deserted)
    }
    /// The life that goes on, or would be next.
    #[inline]
    pub fn life(self) -> u32 {
        self.ended.saturating_add(1)
    }
    /// Whoever sits here has taken part in life `life` to its end, or can still do so.
    pub fn reaches(self, life: u32) -> bool {
        !self.is_over() || self.ended >= life
    }
    /// The life is over.
    pub fn rest(self) -> Seat {
        if self.taken() { Seat { state: SeatState::Resting, ended: self.life() } } else { self }
    }
    /// The next life begins.
    pub fn start(self) -> Seat {
        if self.state == SeatState::Resting { Seat { state: SeatState::Taken, ..self } } else { self }
    }
    /// The process has gone.
    pub fn leave(self) -> Seat {
        let state = match self.state {
            SeatState::Taken => SeatState::Deserted,
            SeatState::Resting => SeatState::Left,
            other => other,
        };
        Seat { state, ..self }
    }

    /// In an open job: another process sits down, for the next life.
    pub fn sit(self) -> Seat {
        let ended = self.ended.saturating_add((self.state == SeatState::Deserted).into());
        Seat { state: SeatState::Taken, ended }
    }

    /// As it stands in the job page.
    pub fn to_word(self) -> u32 {
        self.ended << 3 | self.state as u32
    }
    /// Reads [`Seat::to_word`]; an unknown state counts as deserted.
    #[inline]
    pub fn from_word(word: u32) -> Seat {
        use SeatState::*;
        let state = match word & 7 {
            state if state == Taken as u32 => Taken,
            state if state == Free as u32 => Free,
            state if state == Resting as u32 => Resting,
            state if state == Left as u32 => Left,
            _ => Deserted,
        };
        Seat { state, ended: word >> 3 }
    }
}

/// Facts about a job that all its processes share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Number of PEs.
    pub pes: usize,
    /// Shape of the network.
    pub shape: Shape,
    /// Bytes from one PE's heap slice to the next, internal area included.
    pub heap_stride: usize,
    /// How many of them, at the end of a slice, are for registered memory, and not part of the heap.
    pub registered: usize,
    /// Bytes from one PE's static slice to the next; 0 until the first PE attached.
    pub static_stride: usize,
    /// How the job does barriers.
    pub barrier: Barrier,
    /// How the job does collectives.
    pub collectives: Collectives,
    /// More PEs than cores on this host: waiting must not spin.
    pub crowded: bool,
    /// PEs are seats that processes take and leave as they like; there is nothing that all of them do together.
    pub open: bool,
    /// PEs may be programs of several architectures: only the heap is symmetric.
    pub heterogeneous: bool,
}

/// Where a PE lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeEntry {
    /// Number of its node.
    pub node: NodeId,
    /// Coordinates of that node.
    pub coords: Coords,
    /// Its injection channel at that node.
    pub endpoint: u16,
    /// Occupancy of its seat, and how many of its lives are over.
    pub seat: Seat,
}

/// The job page, from either side.
pub struct JobPage {
    /// The page, then 16 bytes for each PE.
    map: Mapping,
}

impl JobPage {
    /// Bytes of the page of a job of `pes` PEs.
    pub fn bytes(pes: usize) -> usize {
        at::PE_TABLE + pes * at::PE_BYTES
    }

    /// Daemon: lays out a fresh mapping.
    pub fn init(map: Mapping, g: &Geometry, entries: &[PeEntry]) -> Result<JobPage, ShmError> {
        map.require(Self::bytes(entries.len()))?;
        let page = JobPage { map };
        let mut dims = [1u8; DIMS_MAX];
        dims[..g.shape.dims().len()].copy_from_slice(g.shape.dims());
        for (offset, value) in [
            (at::PES, g.pes as u32),
            (at::NODES, g.shape.nodes() as u32),
            (at::DIMS, u32::from_le_bytes(dims)),
            (at::NDIMS, g.shape.dims().len() as u32),
            (at::WRAP, g.shape.is_torus() as u32),
            (at::BARRIER, g.barrier as u32),
            (at::COLLECTIVES, g.collectives as u32),
            (at::CROWDED, g.crowded as u32),
            (at::OPEN, g.open as u32),
            (at::HETEROGENEOUS, g.heterogeneous as u32),
        ] {
            page.u32(offset).store(value, Ordering::Relaxed);
        }
        page.u64(at::HEAP_STRIDE).store(g.heap_stride as u64, Ordering::Relaxed);
        page.u64(at::REGISTERED).store(g.registered as u64, Ordering::Relaxed);
        page.u64(at::STATIC_STRIDE).store(g.static_stride as u64, Ordering::Relaxed);
        for (pe, e) in entries.iter().enumerate() {
            let base = at::PE_TABLE + pe * at::PE_BYTES;
            page.u32(base).store(e.node, Ordering::Relaxed);
            page.u32(base + 4).store(u32::from_le_bytes(e.coords.0), Ordering::Relaxed);
            page.u32(base + 8).store(e.endpoint as u32, Ordering::Relaxed);
            page.u32(base + 12).store(e.seat.to_word(), Ordering::Relaxed);
        }
        page.map.stamp_page(PageKind::Job, Self::bytes(entries.len()))?;
        Ok(page)
    }

    /// The page, for PEs in the same process.
    pub fn part(&self) -> Part {
        Part::of(&self.map)
    }

    /// Client: checks a mapped page.
    pub fn open(map: Mapping) -> Result<JobPage, ShmError> {
        map.expect_page(PageKind::Job)?;
        let page = JobPage { map };
        page.map.require(Self::bytes(page.u32(at::PES).load(Ordering::Relaxed) as usize))?;
        Ok(page)
    }

    #[inline]
    fn u32(&self, offset: usize) -> &AtomicU32 {
        self.map.at(offset).expect("offset inside the page checked at construction")
    }
    fn u64(&self, offset: usize) -> &AtomicU64 {
        self.map.at(offset).expect("offset inside the page checked at construction")
    }

    /// The geometry, or `None` if the page holds values this version does not know.
    pub fn geometry(&self) -> Option<Geometry> {
        let get = |offset| self.u32(offset).load(Ordering::Relaxed);
        let dims = get(at::DIMS).to_le_bytes();
        let shape = Shape::new(dims.get(..get(at::NDIMS) as usize)?, get(at::WRAP) != 0).ok()?;
        Some(Geometry {
            pes: get(at::PES) as usize,
            shape,
            heap_stride: self.u64(at::HEAP_STRIDE).load(Ordering::Relaxed) as usize,
            registered: self.u64(at::REGISTERED).load(Ordering::Relaxed) as usize,
            static_stride: self.u64(at::STATIC_STRIDE).load(Ordering::Acquire) as usize,
            barrier: Barrier::ALL.into_iter().find(|b| *b as u32 == get(at::BARRIER))?,
            collectives: [Collectives::Auto, Collectives::Tree, Collectives::P2p]
                .into_iter()
                .find(|c| *c as u32 == get(at::COLLECTIVES))?,
            crowded: get(at::CROWDED) != 0,
            open: get(at::OPEN) != 0,
            heterogeneous: get(at::HETEROGENEOUS) != 0,
        })
    }

    /// Returns who sits at the seat of `pe`, which must be below the number of PEs: one load.
    #[inline]
    pub fn seat(&self, pe: usize) -> Seat {
        Seat::from_word(self.u32(at::PE_TABLE + pe * at::PE_BYTES + 12).load(Ordering::Acquire))
    }
    /// PE `pe`, which must be below the number of PEs.
    pub fn pe(&self, pe: usize) -> PeEntry {
        let base = at::PE_TABLE + pe * at::PE_BYTES;
        let get = |offset| self.u32(offset).load(Ordering::Relaxed);
        PeEntry {
            node: get(base),
            coords: Coords(get(base + 4).to_le_bytes()),
            endpoint: get(base + 8) as u16,
            seat: self.seat(pe),
        }
    }
    /// Daemon: changes the seat of `pe`, and counts.
    pub fn set_seat(&self, pe: usize, seat: Seat) {
        let word = self.u32(at::PE_TABLE + pe * at::PE_BYTES + 12);
        let before = Seat::from_word(word.swap(seat.to_word(), Ordering::AcqRel));
        if before.taken() != seat.taken() {
            let delta = if seat.taken() { 1 } else { u32::MAX };
            self.u32(at::ATTACHED).fetch_add(delta, Ordering::AcqRel);
        }
    }
    /// PEs that take part now.
    pub fn attached(&self) -> usize {
        self.u32(at::ATTACHED).load(Ordering::Acquire) as usize
    }
    /// Daemon: fixes the static stride when the first PE attached.
    pub fn set_static_stride(&self, bytes: usize) {
        self.u64(at::STATIC_STRIDE).store(bytes as u64, Ordering::Release);
    }
    /// Whole-job state.
    pub fn state(&self) -> JobState {
        match self.u32(at::STATE).load(Ordering::Acquire) {
            0 => JobState::Running,
            _ => JobState::Ended,
        }
    }
    /// Daemon: sets the whole-job state.
    pub fn set_state(&self, state: JobState) {
        self.u32(at::STATE).store(state as u32, Ordering::Release);
    }
    /// Exit status all PEs shall have, once one of them has ended the whole program in order.
    pub fn exit_status(&self) -> Option<i32> {
        let exits = self.u32(at::EXITS).load(Ordering::Acquire) != 0;
        exits.then(|| self.u32(at::EXIT_STATUS).load(Ordering::Relaxed) as i32)
    }
    /// Daemon: sets the exit status, before the state. The first one holds.
    pub fn set_exit_status(&self, status: i32) {
        if self.exit_status().is_none() {
            self.u32(at::EXIT_STATUS).store(status as u32, Ordering::Relaxed);
            self.u32(at::EXITS).store(1, Ordering::Release);
        }
    }
    /// Non-zero while the data plane sleeps: a post must then ring the doorbell eventfd.
    pub fn daemon_sleeps(&self) -> &AtomicU32 {
        self.u32(at::DAEMON_SLEEPS)
    }
    /// The core the data plane was seen on last, plus one; 0 before that.
    pub fn daemon_core(&self) -> &AtomicU32 {
        self.u32(at::DAEMON_CORE)
    }
}

/// How a PE reaches another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Reach {
    /// Map and store: the target's memory is on this host.
    Direct = 0,
    /// Post to the adapter.
    Ring = 1,
    /// Every route is dead, or the PE is gone.
    Unreachable = 2,
}

/// The read-only target table of one PE.
pub struct Targets {
    /// One u32 for each PE: a [`Reach`].
    map: Mapping,
    /// Number of PEs.
    pes: usize,
}

impl Targets {
    /// Bytes of the table of a job of `pes` PEs.
    pub fn bytes(pes: usize) -> usize {
        pes * 4
    }
    /// Wraps a mapping of at least [`Targets::bytes`].
    pub fn new(map: Mapping, pes: usize) -> Result<Targets, ShmError> {
        map.require(Self::bytes(pes))?;
        Ok(Targets { map, pes })
    }
    /// The table, for a PE in the same process.
    pub fn part(&self) -> Part {
        Part::of(&self.map)
    }
    /// A table by which all PEs are reached directly, for a while.
    pub fn cover(&self) -> std::io::Result<crate::shm::Cover> {
        const { assert!(Reach::Direct as u32 == 0) };
        crate::shm::Cover::of(&self.map)
    }
    /// How to reach `pe`.
    ///
    /// # Panics
    /// If `pe` is out of range.
    #[inline]
    pub fn get(&self, pe: usize) -> Reach {
        match self.word(pe).load(Ordering::Relaxed) {
            0 => Reach::Direct,
            1 => Reach::Ring,
            _ => Reach::Unreachable,
        }
    }
    /// Daemon: changes how `pe` is reached.
    pub fn set(&self, pe: usize, reach: Reach) {
        self.word(pe).store(reach as u32, Ordering::Release);
    }
    #[inline]
    fn word(&self, pe: usize) -> &AtomicU32 {
        assert!(pe < self.pes, "PE {pe} out of range");
        self.map.at(pe * 4).expect("bounds checked at construction")
    }
}

/// The synchronisation page every PE of a job maps writable.
pub struct SyncPage {
    /// The on-host barrier, then cells, notes and cores of the PEs.
    map: Mapping,
    /// Number of PEs.
    pes: usize,
}

impl SyncPage {
    pub(crate) const DEADLINES: usize = 0x040;
    pub(crate) const BEGINS: usize = 0x048;
    pub(crate) const MET: usize = 0x050;
    pub(crate) const ARRIVED: usize = 0x080;
    pub(crate) const GENERATION: usize = 0x100;
    pub(crate) const BARRIER_CELL: usize = 0x180;
    pub(crate) const GATHERED: usize = 0x200;
    pub(crate) const CELLS: usize = 0x1000;
    /// Cores whose PEs can be gathered before they arrive at the on-host barrier as one.
    pub const CORES: usize = (Self::CELLS - Self::GATHERED) / 128;

    /// Bytes of the page of a job of `pes` PEs.
    pub fn bytes(pes: usize) -> usize {
        Self::homes(pes) + 4 * pes
    }
    pub(crate) fn notes(pes: usize) -> usize {
        Self::CELLS + 3 * pes * size_of::<WaitCell>()
    }
    pub(crate) fn homes(pes: usize) -> usize {
        Self::notes(pes) + pes * size_of::<WaitNote>()
    }
    /// Daemon: lays out a fresh mapping.
    pub fn init(map: Mapping, pes: usize) -> Result<SyncPage, ShmError> {
        map.stamp_page(PageKind::Sync, Self::bytes(pes))?;
        Ok(SyncPage { map, pes })
    }
    /// The page, for PEs in the same process.
    pub fn part(&self) -> Part {
        Part::of(&self.map)
    }
    /// Client: checks a mapped page.
    pub fn open(map: Mapping, pes: usize) -> Result<SyncPage, ShmError> {
        map.expect_page(PageKind::Sync)?;
        map.require(Self::bytes(pes))?;
        Ok(SyncPage { map, pes })
    }
    /// Counts changes of deadlines of PEs that stand, where time is virtual ([`crate::clock::ClockPage::set_deadline`]).
    pub fn deadlines(&self) -> &AtomicU32 {
        self.map.at(Self::DEADLINES).expect("constant offset inside the page")
    }
    /// Where virtual time begins for all PEs at once: when, in picoseconds.
    pub fn begins(&self) -> &AtomicU64 {
        self.map.at(Self::BEGINS).expect("constant offset inside the page")
    }
    /// PEs of the job.
    pub fn pes(&self) -> usize {
        self.pes
    }
    /// PEs that have said when virtual time may begin for them.
    pub fn met(&self) -> &AtomicU32 {
        self.map.at(Self::MET).expect("constant offset inside the page")
    }
    /// PEs that have arrived at the on-host barrier.
    pub fn arrived(&self) -> &AtomicU32 {
        self.map.at(Self::ARRIVED).expect("constant offset inside the page")
    }
    /// PEs of the `core`-th core that have arrived there, `core` being below [`SyncPage::CORES`].
    pub fn gathered(&self, core: usize) -> &AtomicU32 {
        assert!(core < Self::CORES, "core {core} of {}", Self::CORES);
        self.map.at(Self::GATHERED + 128 * core).expect("index checked above")
    }
    /// The core PE `pe` is bound to, plus one; 0 if it is free to move.
    pub fn home(&self, pe: usize) -> &AtomicU32 {
        self.map.at(Self::homes(self.pes) + 4 * pe).expect("PE index checked by the caller")
    }
    /// Returns what PE `pe` has been waiting for.
    pub fn note(&self, pe: usize) -> &WaitNote {
        self.map.at(Self::notes(self.pes) + pe * size_of::<WaitNote>()).expect("PE index checked by the caller")
    }
    /// Generation of the on-host barrier.
    pub fn generation(&self) -> &AtomicU32 {
        self.map.at(Self::GENERATION).expect("constant offset inside the page")
    }
    /// Returns what PEs in the on-host barrier sleep on.
    pub fn barrier_cell(&self) -> &WaitCell {
        self.map.at(Self::BARRIER_CELL).expect("constant offset inside the page")
    }
    /// Returns what PE `pe` sleeps on while it waits for its memory; whoever writes that notifies it.
    #[inline]
    pub fn cell(&self, pe: usize) -> &WaitCell {
        self.map.at(Self::CELLS + pe * size_of::<WaitCell>()).expect("PE index checked by the caller")
    }
    /// Returns what PE `pe` sleeps on while it waits for its adapter (answers, room, a hardware barrier).
    /// Apart from [`SyncPage::cell`], or every put to a PE that sits in a barrier would wake it.
    pub fn answers(&self, pe: usize) -> &WaitCell {
        self.map.at(Self::CELLS + (self.pes + pe) * size_of::<WaitCell>()).expect("PE index checked by the caller")
    }
    /// Returns what PE `pe` sleeps on while it waits for a completion word and nothing else. Only the daemon writes
    /// those, and it notifies with a fence ([`crate::wait::Fenced`]), so that sleeping here costs no heavy one.
    pub fn completions(&self, pe: usize) -> &WaitCell {
        self.map.at(Self::CELLS + (2 * self.pes + pe) * size_of::<WaitCell>()).expect("PE index checked by the caller")
    }
    /// Daemon: wakes PE `pe` whatever it waits for.
    #[cfg(not(loom))]
    pub fn alert(&self, pe: usize) {
        use crate::wait::{Fenced, Linux};
        self.cell(pe).notify(&Linux);
        self.answers(pe).notify(&Linux);
        self.completions(pe).notify(&Fenced(Linux));
    }
}

/// Layout of a bounce region: 64 completion words, then staging.
pub mod bounce {
    /// Completion words (u64) at the start.
    pub const COMPLETIONS: usize = 64;
    /// Bytes of the words that take results of fetching atomics, one beside each completion word.
    pub const RESULTS: usize = COMPLETIONS * 8;
    /// First byte of staging.
    pub const STAGING: usize = 4096;
    /// Bytes of staging.
    pub const STAGING_BYTES: usize = super::BOUNCE_BYTES - STAGING;
}
