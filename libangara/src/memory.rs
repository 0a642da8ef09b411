//! Everything a PE maps: arenas, tables, counters, and the way from (PE, place) to an address.
//!
//! A PE reaches a peer's memory with one multiplication: all slices of a job lie in one arena
//! with a fixed stride. [`Peers`] holds exactly what that takes and nothing else, so that a put
//! touches one cache line of it, the target's state, the counters row and the data.

use crate::error::{Error, Result};
use angara_abi::account::{CLASSES, CONTEXTS, Class, Counters, Row, Traffic};
use angara_abi::channel::{Channel, ChannelFds, DMA_BYTES, PAGE_BYTES, RING_BYTES};
use angara_abi::clock::{CLOCK_BYTES, ClockPage};
use angara_abi::csr::CSR_BYTES;
use angara_abi::desc::{Place, Region};
use angara_abi::inside;
use angara_abi::job::{
    BOUNCE_BYTES, Barrier, Collectives, Geometry, INTERNAL_BYTES, JobPage, PES_MAX, PeEntry, Reach, Seat, SyncPage,
    Targets,
};
use angara_abi::shm::{Access, Mapping, PageKind, Part};
use angara_abi::wait::{Linux, WaitCell};
use angara_net::torus::Shape;
use angara_protocol::msg::FdRole;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

pub use angara_abi::job::HEAP_ALIGN;

/// A page-aligned range of this process whose contents are symmetric: variables (`.data`, `.bss`), or constants
/// (`.rodata`), which peers can only read. Constants come after all variables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StaticSegment {
    /// Address of the first byte.
    pub start: usize,
    /// Size in bytes, a multiple of the page size.
    pub len: usize,
    /// Peers may write it.
    pub writable: bool,
}

/// Where the slices of one region lie.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub(crate) base: *mut u8,
    pub(crate) stride: usize,
    /// Bytes of a slice that may be accessed; 0 for a region peers cannot name.
    pub(crate) len: usize,
    /// Bytes of it that may be written, from its start on.
    pub(crate) writable: usize,
}

/// State of the direct path, copied into each context.
#[derive(Clone)]
pub(crate) struct Peers {
    pub(crate) pes: usize,
    /// This PE.
    me: usize,
    /// Address of this PE's own heap slice.
    own: usize,
    /// Bytes of it that [`Peers::direct_heap`] covers; 0 if it shall not be used.
    own_len: usize,
    /// Offsets at which an element of up to 8 bytes may start; 0 as above.
    own_elements: usize,
    /// Address of the program's first variables, where the slice of static data begins.
    variables: usize,
    /// Bytes of them that [`Peers::direct_variable`] covers; 0 as above.
    variables_len: usize,
    /// Several threads communicate at once.
    threads: bool,
    targets: *const AtomicU32,
    cells: *const WaitCell,
    rows: *const Row,
    windows: [Window; 3],
}

// SAFETY: the pointers lead into shared mappings that outlive the context (it holds the memory);
// all access is through atomics, counters with one relaxed writer, or copies.
unsafe impl Send for Peers {}
// SAFETY: the pointers lead into shared mappings that outlive the context (it holds the memory); all access is through
// atomics, counters with one relaxed writer, or copies.
unsafe impl Sync for Peers {}

impl Peers {
    /// Address of `len` ≥ 1 bytes at `place` of `pe` if `pe` is reached directly and the range is inside.
    #[inline(always)]
    pub(crate) fn direct(&self, pe: usize, place: Place, len: usize) -> Option<*mut u8> {
        if pe >= self.pes {
            return None;
        }
        // SAFETY: the table has one word per PE and `pe` is below their number.
        if unsafe { &*self.targets.add(pe) }.load(Ordering::Relaxed) != Reach::Direct as u32 {
            return None;
        }
        self.address(pe, place, len)
    }

    /// [`Peers::direct`] for bytes that shall be written.
    #[inline(always)]
    pub(crate) fn direct_to(&self, pe: usize, place: Place, len: usize) -> Option<*mut u8> {
        self.direct(pe, place, len).filter(|_| self.is_writable(place, len))
    }

    /// True if peers may write `len` bytes at `place`, which [`Peers::address`] has checked.
    #[inline(always)]
    pub(crate) fn is_writable(&self, place: Place, len: usize) -> bool {
        place.offset as usize + len <= self.windows[place.region as usize].writable
    }

    /// [`Peers::direct`] for `len` ≥ 1 bytes at `p` of this PE's own heap: what most operations name.
    #[inline(always)]
    pub(crate) fn direct_heap(&self, pe: usize, p: *const u8, len: usize) -> Option<*mut u8> {
        let offset = (p as usize).wrapping_sub(self.own);
        // Neither subtraction wraps where the comparison before it holds; a length of 0 is refused.
        if pe >= self.pes || offset >= self.own_len || len.wrapping_sub(1) >= self.own_len - offset {
            return None;
        }
        // SAFETY: the table has one word per PE and `pe` is below their number.
        if unsafe { &*self.targets.add(pe) }.load(Ordering::Relaxed) != Reach::Direct as u32 {
            return None;
        }
        let w = &self.windows[Region::Heap as usize];
        // SAFETY: offset + len ≤ slice length, and the arena holds `pes` slices.
        Some(unsafe { w.base.add(pe * w.stride + offset) })
    }

    /// [`Peers::direct_heap`] for bytes among the program's first variables, mostly all it has.
    #[inline(always)]
    pub(crate) fn direct_variable(&self, pe: usize, p: *const u8, len: usize) -> Option<*mut u8> {
        let offset = (p as usize).wrapping_sub(self.variables);
        if pe >= self.pes || offset >= self.variables_len || len.wrapping_sub(1) >= self.variables_len - offset {
            return None;
        }
        // Also of this PE: what goes past its adapter is not ordered with what goes through it.
        // SAFETY: the table has one word per PE and `pe` is below their number.
        if unsafe { &*self.targets.add(pe) }.load(Ordering::Relaxed) != Reach::Direct as u32 {
            return None;
        }
        if pe == self.me {
            // Only addresses of the same view show if ranges overlap.
            return Some(p.cast_mut());
        }
        let w = &self.windows[Region::Static as usize];
        // SAFETY: the first variables begin the slice; offset + len ≤ its length, and the arena holds `pes` slices.
        Some(unsafe { w.base.add(pe * w.stride + offset) })
    }

    /// [`Peers::direct_heap`] for an aligned element of `N` bytes.
    #[inline(always)]
    pub(crate) fn direct_element<const N: usize>(&self, pe: usize, p: *const u8) -> Option<*mut u8> {
        let offset = (p as usize).wrapping_sub(self.own);
        if pe >= self.pes || offset >= self.own_elements || !(p as usize).is_multiple_of(N) {
            return None;
        }
        // SAFETY: the table has one word per PE and `pe` is below their number.
        if unsafe { &*self.targets.add(pe) }.load(Ordering::Relaxed) != Reach::Direct as u32 {
            return None;
        }
        let w = &self.windows[Region::Heap as usize];
        // SAFETY: offset + 8 ≤ slice length, and the arena holds `pes` slices.
        Some(unsafe { w.base.add(pe * w.stride + offset) })
    }

    /// Sends every operation through the long way, which can be told to look closer.
    pub(crate) fn without_shortcut(&mut self) {
        (self.own_len, self.own_elements, self.variables_len) = (0, 0, 0);
    }

    /// True if anything may take the short way.
    #[inline(always)]
    pub(crate) fn has_shortcut(&self) -> bool {
        self.own_elements > 0
    }

    /// [`Peers::direct`] without asking how `pe` is reached. `pe` must be below the number of PEs.
    #[inline(always)]
    pub(crate) fn address(&self, pe: usize, place: Place, len: usize) -> Option<*mut u8> {
        let w = &self.windows[place.region as usize];
        let room = w.len.saturating_sub(place.offset as usize);
        // One comparison refuses a length of 0 and one that does not fit.
        if len.wrapping_sub(1) >= room {
            return None;
        }
        // SAFETY: offset + len ≤ slice length, and the arena holds `pes` slices.
        Some(unsafe { w.base.add(pe * w.stride + place.offset as usize) })
    }

    pub(crate) fn window(&self, region: Region) -> Window {
        self.windows[region as usize]
    }

    /// How `pe` is reached now.
    #[inline]
    pub(crate) fn reach(&self, pe: usize) -> Reach {
        assert!(pe < self.pes, "PE {pe} out of range");
        // SAFETY: index checked above.
        match unsafe { &*self.targets.add(pe) }.load(Ordering::Relaxed) {
            0 => Reach::Direct,
            1 => Reach::Ring,
            _ => Reach::Unreachable,
        }
    }

    /// From now on several threads may communicate at once.
    pub(crate) fn with_threads(&mut self) {
        self.threads = true;
        // The short path counts without asking for the thread.
        self.without_shortcut();
    }

    /// Counts an operation of `class` on `pe`, which must be below the number of PEs.
    #[inline(always)]
    pub(crate) fn count(&self, pe: usize, class: Class, traffic: Traffic) {
        if self.threads { self.count_of_thread(pe, class, traffic) } else { self.count_alone(pe, class, traffic) }
    }

    /// [`Peers::count`] where only one thread communicates.
    #[inline(always)]
    pub(crate) fn count_alone(&self, pe: usize, class: Class, traffic: Traffic) {
        self.row(0, pe, class).count(traffic);
    }

    /// Counts a [`Class::usual`] operation where only one thread communicates.
    #[inline(always)]
    pub(crate) fn count_usual(&self, pe: usize, class: Class) {
        self.row(0, pe, class).count_usual();
    }

    /// Every thread has rows of its own, as long as there are some; the rest share the last ones.
    #[inline(never)]
    fn count_of_thread(&self, pe: usize, class: Class, traffic: Traffic) {
        // The first ones are for a thread that does not ask which it is.
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        thread_local! {
            static SLOT: usize = NEXT.fetch_add(1, Ordering::Relaxed).min(CONTEXTS - 1);
        }
        // A thread that is being torn down has lost its slot.
        match SLOT.try_with(|slot| *slot).unwrap_or(CONTEXTS - 1) {
            slot if slot == CONTEXTS - 1 => self.row(slot, pe, class).count_shared(traffic),
            slot => self.row(slot, pe, class).count(traffic),
        }
    }

    #[inline(always)]
    fn row(&self, slot: usize, pe: usize, class: Class) -> &Row {
        debug_assert!(slot < CONTEXTS && pe < self.pes);
        // SAFETY: the region holds `CONTEXTS` slots of `pes` × CLASSES rows.
        unsafe { &*self.rows.add((slot * self.pes + pe) * CLASSES + class as usize) }
    }

    /// Returns what `pe`, which must be below the number of PEs, sleeps on.
    #[inline(always)]
    pub(crate) fn cell(&self, pe: usize) -> &WaitCell {
        debug_assert!(pe < self.pes);
        // SAFETY: the synchronisation page holds one cell per PE.
        unsafe { &*self.cells.add(pe) }
    }

    /// Tells `pe` that its memory changed.
    #[inline(always)]
    pub(crate) fn notify(&self, pe: usize) {
        self.cell(pe).notify(&Linux);
    }
}

/// All mapped memory of one PE except its channel.
pub(crate) struct Memory {
    pub(crate) me: usize,
    pub(crate) geometry: Geometry,
    pub(crate) job: JobPage,
    pub(crate) sync: SyncPage,
    pub(crate) bounce: Mapping,
    pub(crate) counters: Counters,
    pub(crate) peers: Peers,
    pub(crate) segments: Vec<StaticSegment>,
    pub(crate) static_fd: Option<OwnedFd>,
    /// Address and bytes of the target table, for the fork handler.
    pub(crate) table: (*mut u8, usize),
    /// Kept mapped: `peers` points into them.
    pub(crate) targets: Targets,
    _heap: Mapping,
    /// Descriptor of the heap arena, if a daemon has given it.
    pub(crate) heap_fd: Option<OwnedFd>,
    _statics: Option<Mapping>,
}

// SAFETY: `table` is only used by the fork handler; the mappings are `Send` themselves.
unsafe impl Send for Memory {}
// SAFETY: `table` is only used by the fork handler; the mappings are `Send` themselves.
unsafe impl Sync for Memory {}

/// Mappings of a channel.
pub(crate) struct Device {
    pub(crate) channel: Channel,
    pub(crate) csr: Mapping,
    /// Wakes the data plane, where that is another process.
    pub(crate) doorbell: Option<OwnedFd>,
}

struct Parts {
    job: JobPage,
    targets: Mapping,
    sync: Mapping,
    heap: Mapping,
    statics: Option<(Option<OwnedFd>, Mapping)>,
    bounce: Mapping,
    counters: Mapping,
    /// Bytes from one heap slice to the next.
    heap_step: usize,
}

impl Memory {
    fn build(me: usize, parts: Parts, segments: &[StaticSegment]) -> Result<Memory> {
        let geometry = parts.job.geometry().ok_or_else(|| Error::layout("job page", "unknown values"))?;
        let pes = geometry.pes;
        let table = (parts.targets.as_ptr(), parts.targets.len());
        let rows = parts.counters.as_ptr() as *const Row;
        let none = Window { base: std::ptr::null_mut(), stride: 0, len: 0, writable: 0 };
        let window = |map: &Mapping, stride, len, writable| Window { base: map.as_ptr(), stride, len, writable };
        let own_statics = static_bytes(segments)?;
        let variables = segments.iter().filter(|s| s.writable).map(|s| s.len).sum();
        let windows = [
            window(&parts.heap, parts.heap_step, geometry.heap_stride, geometry.heap_stride),
            parts.statics.as_ref().map_or(none, |(_, map)| window(map, geometry.static_stride, own_statics, variables)),
            none,
        ];
        let sync = SyncPage::open(parts.sync, pes).map_err(|e| Error::layout("synchronisation page", e))?;
        let targets = Targets::new(parts.targets, pes).map_err(|e| Error::layout("target table", e))?;
        let counters = Counters::new(parts.counters, pes).map_err(|e| Error::layout("counter region", e))?;
        let own = parts.heap.as_ptr() as usize + me * parts.heap_step;
        let own_len = geometry.heap_stride;
        // Without an arena there is no slice of static data.
        let first = segments.first().filter(|s| s.writable && parts.statics.is_some());
        let peers = Peers {
            pes,
            me,
            own,
            own_len,
            own_elements: own_len.saturating_sub(7),
            variables: first.map_or(0, |s| s.start),
            variables_len: first.map_or(0, |s| s.len),
            threads: false,
            targets: table.0 as *const AtomicU32,
            cells: sync.cell(0),
            rows,
            windows,
        };
        let (static_fd, statics) = parts.statics.unzip();
        let static_fd = static_fd.flatten();
        Ok(Memory {
            me,
            geometry,
            job: parts.job,
            sync,
            bounce: parts.bounce,
            counters,
            peers,
            segments: segments.to_vec(),
            static_fd,
            table,
            targets,
            _heap: parts.heap,
            heap_fd: None,
            _statics: statics,
        })
    }

    /// Memory of a job of one PE, made here.
    pub(crate) fn solo(heap: usize, segments: &[StaticSegment]) -> Result<Memory> {
        let failed = |source| Error::System { what: "memory for a job of one PE", source };
        let too_big = || Error::invalid(format!("a symmetric heap of {heap} bytes is too large"));
        let heap_stride = heap.checked_add(INTERNAL_BYTES).and_then(angara_abi::page_round).ok_or_else(too_big)?;
        let static_stride = static_bytes(segments)?;
        let shape = Shape::new(&[1], true).expect("one node is a shape");
        let geometry = Geometry {
            pes: 1,
            shape,
            heap_stride,
            static_stride,
            barrier: Barrier::Auto,
            collectives: Collectives::P2p,
            crowded: false,
            open: false,
            registered: 0,
            heterogeneous: false,
        };
        let make = |name, len| Mapping::create(name, len, Access::Shared).map(|(_, map)| map).map_err(failed);
        let entry = PeEntry { node: 0, coords: shape.coords(0), endpoint: 0, seat: Seat::TAKEN };
        let job = JobPage::init(make("angara-job", JobPage::bytes(1))?, &geometry, &[entry])
            .map_err(|e| Error::layout("job page", e))?;
        let sync = make("angara-sync", SyncPage::bytes(1))?;
        sync.stamp_page(PageKind::Sync, SyncPage::bytes(1)).map_err(|e| Error::layout("synchronisation page", e))?;
        let statics = match static_stride {
            0 => None,
            n => Some(
                Mapping::create("angara-static", n, Access::Shared).map(|(fd, map)| (Some(fd), map)).map_err(failed)?,
            ),
        };
        let parts = Parts {
            job,
            targets: make("angara-targets", Targets::bytes(1))?,
            sync,
            heap: Mapping::create("angara-heap", heap_stride, Access::Shared)
                .and_then(|(fd, _)| Mapping::map_aligned(fd, heap_stride, 0, HEAP_ALIGN))
                .map_err(failed)?,
            statics,
            bounce: make("angara-bounce", BOUNCE_BYTES)?,
            counters: make("angara-counters", Counters::bytes(1))?,
            heap_step: heap_stride,
        };
        Memory::build(0, parts, segments)
    }

    /// Maps what the daemon handed over for PE `me` of `pes` and checks every header and size.
    pub(crate) fn map(
        me: usize,
        pes: usize,
        roles: &[FdRole],
        fds: Vec<OwnedFd>,
        segments: &[StaticSegment],
    ) -> Result<(Memory, Device, Option<ClockPage>)> {
        if roles.len() != fds.len() {
            let why = format!("announced {} descriptors, sent {}", roles.len(), fds.len());
            return Err(Error::Daemon(why));
        }
        if pes == 0 || pes > PES_MAX || me >= pes {
            return Err(Error::invalid(format!("PE {me} of {pes}: at most {PES_MAX} PEs make a job")));
        }
        let mut given = Given(roles.iter().copied().zip(fds.into_iter().map(Some)).collect());
        let job = given.read_only(FdRole::Job, "job page", JobPage::bytes(pes))?;
        let job = JobPage::open(job).map_err(|e| Error::layout("job page", e))?;
        let geometry = job.geometry().ok_or_else(|| Error::layout("job page", "unknown values"))?;
        if geometry.pes != pes {
            let why = format!("it describes {} PEs where the launcher announced {pes}", geometry.pes);
            return Err(Error::layout("job page", why));
        }
        // Whatever this executable has lies elsewhere in others.
        let segments = if geometry.heterogeneous { &[] } else { segments };
        let total = |stride: usize, what: &'static str| {
            stride.checked_mul(pes).ok_or_else(|| Error::layout(what, format!("stride {stride} too large")))
        };
        let own = static_bytes(segments)?;
        if geometry.static_stride != own && own != 0 {
            let why = format!("static stride is {} where this process has {own} bytes", geometry.static_stride);
            return Err(Error::layout("static arena", why));
        }
        let statics = match own {
            0 => None,
            _ => {
                let fd = given.take(FdRole::Static, "static arena")?;
                let map = map_shared(&fd, "static arena", total(geometry.static_stride, "static arena")?)?;
                Some((Some(fd), map))
            }
        };
        let (heap_fd, heap) = given.heap(total(geometry.heap_stride, "heap arena")?, me * geometry.heap_stride)?;
        let parts = Parts {
            targets: given.read_only(FdRole::Targets, "target table", Targets::bytes(pes))?,
            sync: given.shared(FdRole::Sync, "synchronisation page", SyncPage::bytes(pes))?,
            heap,
            statics,
            bounce: given.shared(FdRole::Bounce, "bounce region", BOUNCE_BYTES)?,
            counters: given.shared(FdRole::Counters, "counter region", Counters::bytes(pes))?,
            heap_step: geometry.heap_stride,
            job,
        };
        let csr = given.read_only(FdRole::Csr, "CSR page", CSR_BYTES)?;
        csr.expect_page(PageKind::Csr).map_err(|e| Error::layout("CSR page", e))?;
        let channel = ChannelFds {
            page: given.sized(FdRole::ChannelPage, "channel page", PAGE_BYTES)?,
            status: given.sized(FdRole::ChannelStatus, "channel status page", PAGE_BYTES)?,
            ring: given.sized(FdRole::Ring, "injection ring", RING_BYTES)?,
            dma: given.sized(FdRole::Dma, "descriptor queue", DMA_BYTES)?,
        };
        let channel = Channel::map(&channel).map_err(|e| Error::layout("injection channel", e))?;
        let doorbell = Some(given.take(FdRole::Doorbell, "doorbell")?);
        let clock = match roles.contains(&FdRole::Clock) {
            true => {
                let map = given.shared(FdRole::Clock, "clock page", CLOCK_BYTES)?;
                Some(ClockPage::open(map).map_err(|e| Error::layout("clock page", e))?)
            }
            false => None,
        };
        let memory = Memory { heap_fd: Some(heap_fd), ..Memory::build(me, parts, segments)? };
        Ok((memory, Device { channel, csr, doorbell }, clock))
    }

    /// What belongs to a PE in the process of all PEs.
    ///
    /// # Safety
    /// The regions of `given` are what [`inside::Parts`] says, and stay as long as the process.
    pub(crate) unsafe fn inside(given: &inside::Parts) -> Result<(Memory, Device, ClockPage)> {
        // SAFETY: the caller's promise; the other side keeps to atomics and copies, too.
        let lent = |part: Part| unsafe { Mapping::lent(part.at, part.len) };
        let (me, pes) = (given.pe as usize, given.pes as usize);
        // SAFETY: the caller's promise.
        let segments = unsafe { std::slice::from_raw_parts(given.segments, given.segment_count) };
        let segment = |s: &inside::Segment| StaticSegment { start: s.start, len: s.len, writable: s.writable };
        let segments: Vec<StaticSegment> = segments.iter().map(segment).collect();
        let job = JobPage::open(lent(given.job)).map_err(|e| Error::layout("job page", e))?;
        let parts = Parts {
            targets: lent(given.targets),
            sync: lent(given.sync),
            heap: lent(given.heap),
            statics: Some((None, lent(given.statics))),
            bounce: lent(given.bounce),
            counters: lent(given.counters),
            heap_step: given.heap_step,
            job,
        };
        let memory = Memory::build(me, parts, &segments)?;
        if memory.geometry.pes != pes || me >= pes {
            return Err(Error::layout("job page", format!("{} PEs, not {pes}", memory.geometry.pes)));
        }
        let channel = Channel::over(given.channel.map(lent)).map_err(|e| Error::layout("injection channel", e))?;
        let clock = ClockPage::open(lent(given.clock)).map_err(|e| Error::layout("clock page", e))?;
        Ok((memory, Device { channel, csr: lent(given.csr), doorbell: None }, clock))
    }

    /// The symmetric place of address `p` of this process if `len` bytes from it are symmetric.
    #[inline]
    pub(crate) fn locate(&self, p: *const u8, len: usize) -> Option<Place> {
        let heap = self.peers.window(Region::Heap);
        let offset = (p as usize).wrapping_sub(heap.base as usize + self.me * heap.stride);
        if offset < heap.len && len <= heap.len - offset {
            return Some(Place { region: Region::Heap, offset: offset as u64 });
        }
        self.locate_static(p as usize, len)
    }

    fn locate_static(&self, p: usize, len: usize) -> Option<Place> {
        let place = |offset: usize| Some(Place { region: Region::Static, offset: offset as u64 });
        let mut before = 0;
        for s in &self.segments {
            let offset = p.wrapping_sub(s.start);
            if offset < s.len {
                return if len <= s.len - offset { place(before + offset) } else { None };
            }
            before += s.len;
        }
        let arena = self.peers.window(Region::Static);
        let offset = p.wrapping_sub((arena.base as usize).wrapping_add(self.me * arena.stride));
        if offset < arena.len && len <= arena.len - offset { place(offset) } else { None }
    }

    /// [`Memory::locate`] for bytes that shall be written.
    #[inline]
    pub(crate) fn locate_to(&self, p: *const u8, len: usize) -> Option<Place> {
        self.locate(p, len).filter(|place| self.peers.is_writable(*place, len))
    }

    /// This process's own address of `place`: for static data the program's variable itself.
    pub(crate) fn local(&self, place: Place) -> *mut u8 {
        if place.region == Region::Static {
            let mut rest = place.offset as usize;
            for s in &self.segments {
                if rest < s.len {
                    return (s.start + rest) as *mut u8;
                }
                rest -= s.len;
            }
        }
        self.peers.address(self.me, place, 1).unwrap_or(std::ptr::null_mut())
    }
}

/// Bytes of all segments; each must be whole pages.
fn static_bytes(segments: &[StaticSegment]) -> Result<usize> {
    let mut sum = 0usize;
    if !segments.is_sorted_by_key(|s| !s.writable) {
        return Err(Error::invalid("static segments: constants come after all variables"));
    }
    for s in segments {
        if s.start % angara_abi::PAGE != 0 || s.len % angara_abi::PAGE != 0 || s.len == 0 {
            return Err(Error::invalid(format!("static segment {:#x}+{:#x} is not whole pages", s.start, s.len)));
        }
        sum = sum.checked_add(s.len).ok_or_else(|| Error::invalid("static segments too large"))?;
    }
    Ok(sum)
}

fn map_shared(fd: &OwnedFd, what: &'static str, len: usize) -> Result<Mapping> {
    check_size(fd, what, len)?;
    Mapping::map(fd, len).map_err(|source| Error::System { what, source })
}

/// A mapping longer than its file would end this process with SIGBUS on first touch.
fn check_size(fd: &OwnedFd, what: &'static str, len: usize) -> Result<()> {
    let stat = rustix::fs::fstat(fd.as_fd()).map_err(|e| Error::system(what, e))?;
    if (stat.st_size as u64) < len as u64 {
        return Err(Error::layout(what, format!("{} bytes where {len} are needed", stat.st_size)));
    }
    Ok(())
}

/// Descriptors that came with the attach answer, taken out one by one.
struct Given(Vec<(FdRole, Option<OwnedFd>)>);

impl Given {
    fn take(&mut self, role: FdRole, what: &'static str) -> Result<OwnedFd> {
        let slot = self.0.iter_mut().find(|(r, fd)| *r == role && fd.is_some());
        slot.and_then(|(_, fd)| fd.take()).ok_or_else(|| Error::layout(what, "descriptor missing"))
    }
    fn sized(&mut self, role: FdRole, what: &'static str, len: usize) -> Result<OwnedFd> {
        let fd = self.take(role, what)?;
        check_size(&fd, what, len)?;
        Ok(fd)
    }
    fn shared(&mut self, role: FdRole, what: &'static str, len: usize) -> Result<Mapping> {
        map_shared(&self.take(role, what)?, what, len)
    }
    /// The heap arena, with the slice at byte `mine` aligned to [`HEAP_ALIGN`].
    fn heap(&mut self, len: usize, mine: usize) -> Result<(OwnedFd, Mapping)> {
        let what = "heap arena";
        let fd = self.take(FdRole::Heap, what)?;
        check_size(&fd, what, len)?;
        let map = Mapping::map_aligned(&fd, len, mine, HEAP_ALIGN).map_err(|source| Error::System { what, source })?;
        Ok((fd, map))
    }
    fn read_only(&mut self, role: FdRole, what: &'static str, len: usize) -> Result<Mapping> {
        let fd = self.sized(role, what, len)?;
        Mapping::map_read_only(&fd, len).map_err(|source| Error::System { what, source })
    }
}
