//! The shared memory of a job and of its PEs, as the daemon holds it.
//!
//! Both halves of the daemon hold these through `Arc`: the control plane creates them and hands
//! descriptors out, the data plane reads and writes through the mappings. Nothing here trusts what
//! the mappings contain.

use crate::config::VirtualTime;
use angara_abi::JobId;
use angara_abi::account::{CONTEXTS, Class, Counters, Traffic};
use angara_abi::channel::{Channel, ChannelFds};
use angara_abi::clock::ClockPage;
use angara_abi::desc::{Place, Region};
use angara_abi::job::{BOUNCE_BYTES, Geometry, HEAP_ALIGN, JobPage, PeEntry, SyncPage, Targets};
use angara_abi::shm::{Access, Mapping, Part, Source};
use angara_fabric::JobSlot;
use angara_net::NodeSet;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

/// Memory of a whole job on this host.
pub struct JobMemory {
    /// Job id, as clients know it.
    pub id: JobId,
    /// Slot in the fabric.
    pub slot: JobSlot,
    /// Tells this job from earlier ones in the same slot, on every host.
    pub generation: u16,
    pub uid: u32,
    /// Number of PEs.
    pub pes: usize,
    /// Where each PE lives.
    pub entries: Vec<PeEntry>,
    /// True for PEs of this host.
    pub here: Vec<bool>,
    /// Daemon's view of the job page.
    pub page: JobPage,
    /// Wake-up cells.
    pub sync: SyncPage,
    /// Bytes of one heap slice.
    pub heap_stride: usize,
    /// How many of them, at its end, are for registered memory, which counts as the programs'.
    pub registered: usize,
    /// Bytes from one heap slice to the next, which are more where slices shall be aligned in one process.
    heap_step: usize,
    /// Every target goes through the rings.
    pub ring_only: bool,
    /// PEs are seats that processes take and leave.
    pub open: bool,
    /// Nodes that the job has for itself; none unless given before the job is opened.
    pub set: Option<NodeSet>,
    source: Source,
    /// How PEs reach each other, where all are in one process.
    targets: Option<Mapping>,
    heap: Mapping,
    statics: OnceLock<StaticArena>,
    fds: Option<JobFds>,
}

/// Descriptors of a job's memory, where other processes map it.
pub struct JobFds {
    pub page: OwnedFd,
    /// Synchronisation page.
    pub sync: OwnedFd,
    /// Heap arena.
    pub heap: OwnedFd,
}

/// Static data of all PEs; there once the first PE said how much it has.
struct StaticArena {
    segments: Vec<u64>,
    /// Bytes of one PE.
    bytes: usize,
    /// Bytes from those of one PE to those of the next.
    stride: usize,
    /// The first of them in the mapping.
    first: usize,
    fd: Option<OwnedFd>,
    memory: Option<Mapping>,
}

/// Names of a job.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    pub id: JobId,
    /// Slot in the fabric.
    pub slot: JobSlot,
    /// As in [`JobMemory`].
    pub generation: u16,
    pub uid: u32,
}

/// Why a PE's static segments were refused.
#[derive(Debug)]
pub enum StaticsError {
    /// Not page-rounded, or their sum overflows.
    Malformed,
    /// The first PE had others.
    Mismatch(Vec<u64>),
    /// No memory.
    Io(io::Error),
}

impl JobMemory {
    /// Creates heap, synchronisation page and job page.
    pub fn create(
        Identity { id, slot, generation, uid }: Identity,
        geometry: &Geometry,
        entries: Vec<PeEntry>,
        here: Vec<bool>,
        ring_only: bool,
        source: &Source,
    ) -> io::Result<JobMemory> {
        let pes = geometry.pes;
        let name = |part: &str| format!("angara-{id}-{part}");
        let no_room = || io::Error::from(io::ErrorKind::OutOfMemory);
        let (heap_step, heap_fd, heap) = match source {
            Source::Files => {
                let bytes = geometry.heap_stride.checked_mul(pes).ok_or_else(no_room)?;
                let (fd, map) = source.create(&name("heap"), bytes, Access::Shared)?;
                (geometry.heap_stride, fd, map)
            }
            Source::Arena(arena) => {
                // As aligned as a process maps its own slice.
                let step = geometry.heap_stride.checked_next_multiple_of(HEAP_ALIGN).ok_or_else(no_room)?;
                (step, None, arena.cut(step.checked_mul(pes).ok_or_else(no_room)?, HEAP_ALIGN)?)
            }
        };
        let (sync_fd, sync) = source.create(&name("sync"), SyncPage::bytes(pes), Access::Shared)?;
        let (page_fd, page) = source.create(&name("job"), JobPage::bytes(pes), Access::ReadOnly)?;
        let fds = match (page_fd, sync_fd, heap_fd) {
            (Some(page), Some(sync), Some(heap)) => Some(JobFds { page, sync, heap }),
            _ => None,
        };
        Ok(JobMemory {
            id,
            slot,
            generation,
            uid,
            pes,
            here,
            page: JobPage::init(page, geometry, &entries)?,
            sync: SyncPage::init(sync, pes)?,
            heap_stride: geometry.heap_stride,
            registered: geometry.registered.min(geometry.heap_stride),
            heap_step,
            ring_only,
            open: geometry.open,
            set: None,
            entries,
            targets: match source {
                Source::Arena(arena) => Some(arena.cut(Targets::bytes(pes), angara_abi::PAGE)?),
                Source::Files => None,
            },
            source: source.clone(),
            heap,
            statics: OnceLock::new(),
            fds,
        })
    }

    /// Fixes the static segments at the first call, checks them at later ones. `limit` bounds the
    /// bytes of this host's PEs.
    pub fn set_statics(&self, segments: &[u64], limit: u64) -> Result<(), StaticsError> {
        if let Some(arena) = self.statics.get() {
            return if arena.segments == segments {
                Ok(())
            } else {
                Err(StaticsError::Mismatch(arena.segments.clone()))
            };
        }
        let page = angara_abi::PAGE as u64;
        let sum = segments.iter().try_fold(0u64, |sum, &s| if s % page == 0 { sum.checked_add(s) } else { None });
        let here = sum.and_then(|s| s.checked_mul(self.pes_here() as u64)).filter(|&b| b <= limit);
        let bytes = here.and(sum).and_then(|s| s.checked_mul(self.pes as u64));
        let (Some(stride), Some(bytes)) = (sum, bytes) else { return Err(StaticsError::Malformed) };
        let (fd, memory) = match bytes {
            0 => (None, None),
            _ => {
                let name = format!("angara-{}-static", self.id);
                let (fd, map) = self.source.create(&name, bytes as usize, Access::Shared).map_err(StaticsError::Io)?;
                (fd, Some(map))
            }
        };
        let (stride, segments) = (stride as usize, segments.to_vec());
        self.keep_statics(StaticArena { segments, bytes: stride, stride, first: 0, fd, memory });
        Ok(())
    }

    /// Fixes the static segments of PEs whose programs are copies in one arena of this process: each copy takes `stride` bytes, and
    /// its segments begin at its byte `first`.
    pub fn set_images(
        &self,
        segments: &[u64],
        (stride, first): (usize, usize),
        align: usize,
    ) -> Result<(), StaticsError> {
        let bytes = segments.iter().sum::<u64>() as usize;
        let all = stride.checked_mul(self.pes).filter(|_| first + bytes <= stride);
        let (Some(all), Source::Arena(arena), None) = (all, &self.source, self.statics.get()) else {
            return Err(StaticsError::Malformed);
        };
        let memory = Some(arena.cut(all, align).map_err(StaticsError::Io)?);
        self.keep_statics(StaticArena { segments: segments.to_vec(), bytes, stride, first, fd: None, memory });
        Ok(())
    }

    fn keep_statics(&self, arena: StaticArena) {
        let stride = arena.stride;
        self.statics.set(arena).unwrap_or_else(|_| unreachable!("only the control plane sets it, once"));
        self.page.set_static_stride(stride);
    }

    /// Gives the memory of a PE's heap back: it is zero for whoever comes next.
    pub fn clear_heap(&self, pe: usize) -> io::Result<()> {
        let (from, len) = (pe * self.heap_stride, self.heap_stride);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let fds = self.fds.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        Ok(fallocate(fds.heap.as_fd(), flags, from as u64, len as u64)?)
    }

    /// True if PEs of this host reach `pe` without the network.
    pub fn direct(&self, pe: usize) -> bool {
        self.here[pe] && !self.ring_only
    }
    /// PEs on this host.
    pub fn pes_here(&self) -> usize {
        self.here.iter().filter(|h| **h).count()
    }

    /// The static segments, once known.
    pub fn statics(&self) -> Option<&[u64]> {
        self.statics.get().map(|s| &s.segments[..])
    }

    /// Bytes of one PE's slice of `region`.
    pub fn region_bytes(&self, region: Region) -> usize {
        match region {
            Region::Heap => self.heap_stride,
            Region::Static => self.statics.get().map_or(0, |s| s.bytes),
            Region::Bounce => BOUNCE_BYTES,
        }
    }

    /// True if `len` bytes at `place` are inside the region of any PE.
    pub fn contains(&self, place: Place, len: usize) -> bool {
        let size = self.region_bytes(place.region) as u64;
        place.offset.checked_add(len as u64).is_some_and(|end| end <= size)
    }

    /// The mapping and the byte in it for `len` bytes at `place` of PE `pe`. `bounce` is that
    /// PE's own bounce region where it is allowed.
    pub fn resolve<'m>(
        &'m self,
        pe: usize,
        place: Place,
        len: usize,
        bounce: Option<&'m Mapping>,
    ) -> Option<(&'m Mapping, usize)> {
        if !self.contains(place, len) || pe >= self.pes {
            return None;
        }
        let slice = |stride: usize| pe * stride + place.offset as usize;
        match place.region {
            Region::Heap => Some((&self.heap, slice(self.heap_step))),
            Region::Static => {
                let arena = self.statics.get()?;
                Some((arena.memory.as_ref()?, arena.first + slice(arena.stride)))
            }
            Region::Bounce => Some((bounce?, place.offset as usize)),
        }
    }

    /// Where memory of the job comes from.
    pub fn source(&self) -> &Source {
        &self.source
    }
    /// Descriptors of job page, synchronisation page and heap arena, where other processes can map them.
    pub fn fds(&self) -> Option<&JobFds> {
        self.fds.as_ref()
    }
    /// Descriptor of the static arena, if there are static segments.
    pub fn static_fd(&self) -> Option<&OwnedFd> {
        self.statics.get()?.fd.as_ref()
    }
    /// Job page, synchronisation page and heap arena, for PEs in this process.
    pub fn parts(&self) -> [Part; 3] {
        [self.page.part(), self.sync.part(), Part::of(&self.heap)]
    }
    /// Bytes from one slice of the heap arena to the next.
    pub fn heap_step(&self) -> usize {
        self.heap_step
    }
    /// The copies of the program in this process.
    pub fn images(&self) -> Part {
        self.statics.get().and_then(|s| s.memory.as_ref()).map_or(Part::NONE, Part::of)
    }
    /// Bytes reserved for the job on this host so far. Slices of PEs elsewhere stay holes, as do those of free seats.
    pub fn reserved(&self) -> u64 {
        let taken = |pe: &usize| self.here[*pe] && (!self.open || self.page.pe(*pe).seat.taken());
        let pes = (0..self.pes).filter(taken).count();
        ((self.charged() + self.region_bytes(Region::Static)) * pes) as u64
    }
    /// Bytes of a heap slice that count as the daemon's.
    pub fn charged(&self) -> usize {
        self.heap_stride - self.registered
    }
}

/// Memory of one attached PE.
pub struct PeMemory {
    /// PE number.
    pub pe: usize,
    /// Its injection channel.
    pub channel: Channel,
    /// Its staging and completion words.
    pub bounce: Mapping,
    /// Its clock, in virtual time.
    pub clock: Option<ClockPage>,
    /// How it reaches the others.
    pub targets: Targets,
    /// Wakes the data plane, where the PE is another process.
    pub doorbell: Option<OwnedFd>,
    counters: Counters,
    counters_fd: Option<OwnedFd>,
    pes: usize,
}

/// Regions of one PE in this process.
pub struct PeParts {
    /// How it reaches others.
    pub targets: Part,
    /// Its staging area.
    pub bounce: Part,
    pub counters: Part,
    /// Its injection channel.
    pub channel: [Part; 4],
    /// Its clock, in virtual time.
    pub clock: Part,
}

/// Descriptors that go to the PE and are then closed here.
pub struct PeFds {
    /// How it reaches others.
    pub targets: OwnedFd,
    /// Its staging area.
    pub bounce: OwnedFd,
    /// Its clock, in virtual time.
    pub clock: Option<OwnedFd>,
    /// Its injection channel.
    pub channel: ChannelFds,
}

impl PeMemory {
    /// Creates everything that belongs to PE `pe` of `job` alone.
    pub fn create(
        job: &JobMemory,
        pe: usize,
        virtual_time: Option<VirtualTime>,
    ) -> io::Result<(PeMemory, Option<PeFds>)> {
        let name = |part: &str| format!("angara-{}-{pe}-{part}", job.id);
        let pes = job.pes;
        let source = &job.source;
        let (targets_fd, targets) = match &job.targets {
            // One for all.
            Some(shared) => (None, shared.again().ok_or(io::ErrorKind::Unsupported)?),
            None => source.create(&name("targets"), Targets::bytes(pes), Access::ReadOnly)?,
        };
        let (counters_fd, counters) = source.create(&name("counters"), Counters::bytes(pes), Access::Shared)?;
        let (bounce_fd, bounce) = source.create(&name("bounce"), BOUNCE_BYTES, Access::Shared)?;
        let (channel_fds, channel) = Channel::create(source, &name("channel"))?;
        let clock = virtual_time
            .map(|v| ClockPage::create(source, &name("clock"), v.call_cost, v.ahead, v.noted))
            .transpose()?;
        let (clock_fd, clock) = clock.unzip();
        let fds = match (targets_fd, bounce_fd, channel_fds) {
            (Some(targets), Some(bounce), Some(channel)) => {
                Some(PeFds { targets, bounce, clock: clock_fd.flatten(), channel })
            }
            _ => None,
        };
        let doorbell = match &fds {
            Some(_) => Some(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?),
            None => None,
        };
        let targets = Targets::new(targets, pes)?;
        let counters = Counters::new(counters, pes)?;
        Ok((PeMemory { pe, channel, bounce, clock, targets, doorbell, counters, counters_fd, pes }, fds))
    }

    /// Target table, bounce region, counters, channel and clock, for a PE in this process.
    pub fn parts(&self) -> PeParts {
        PeParts {
            targets: self.targets.part(),
            bounce: Part::of(&self.bounce),
            counters: self.counters.part(),
            channel: self.channel.parts(),
            clock: self.clock.as_ref().map_or(Part::NONE, ClockPage::part),
        }
    }

    /// Descriptor of the counters.
    pub fn counters_fd(&self) -> Option<&OwnedFd> {
        self.counters_fd.as_ref()
    }

    /// Returns what this PE has counted: (target PE, class, traffic), zero rows left out. Only pages that
    /// exist are read: looking at a hole would fill it.
    pub fn counted(&self) -> Vec<(usize, Class, Traffic)> {
        let mut sums = std::collections::BTreeMap::<(usize, Class), Traffic>::new();
        let block = Counters::bytes(self.pes) / (CONTEXTS * self.pes);
        for (start, end) in self.data_extents() {
            for index in start / block..end.div_ceil(block).min(CONTEXTS * self.pes) {
                for class in Class::ALL {
                    let t = self.counters.row(index / self.pes, index % self.pes, class).read(class);
                    if t.ops != 0 {
                        sums.entry((index % self.pes, class)).or_default().add(t);
                    }
                }
            }
        }
        sums.into_iter().map(|((pe, class), t)| (pe, class, t)).collect()
    }

    /// The parts of the counters that take memory.
    fn data_extents(&self) -> Vec<(usize, usize)> {
        match &self.counters_fd {
            Some(fd) => data_of_file(fd, Counters::bytes(self.pes)),
            None => angara_abi::shm::touched(self.counters.part()),
        }
    }
}

fn data_of_file(fd: &OwnedFd, all: usize) -> Vec<(usize, usize)> {
    let seek = |from| rustix::fs::seek(fd.as_fd(), from);
    let mut extents = Vec::new();
    let mut at = 0;
    while at < all as u64 {
        let Ok(start) = seek(SeekFrom::Data(at)) else { break };
        let end = seek(SeekFrom::Hole(start)).unwrap_or(all as u64).min(all as u64);
        if end <= start {
            break;
        }
        extents.push((start as usize, end as usize));
        at = end;
    }
    extents
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use angara_abi::job::{Barrier, Collectives, Seat};
    use angara_net::torus::Shape;

    pub(crate) fn job(pes: usize) -> JobMemory {
        let shape: Shape = "2x2".parse().expect("shape");
        let geometry = Geometry {
            pes,
            shape,
            heap_stride: 8192,
            static_stride: 0,
            barrier: Barrier::Auto,
            collectives: Collectives::Auto,
            crowded: false,
            open: false,
            registered: 0,
            heterogeneous: false,
        };
        let entry = PeEntry { node: 0, coords: shape.coords(0), endpoint: 0, seat: Seat::FREE };
        let identity = Identity { id: JobId::new(1), slot: JobSlot::new(0), generation: 1, uid: 0 };
        JobMemory::create(identity, &geometry, vec![entry; pes], vec![true; pes], false, &Source::Files)
            .expect("memory")
    }

    #[test]
    fn places_outside_a_slice_are_refused() {
        let j = job(4);
        let at = |offset| Place { region: Region::Heap, offset };
        assert_eq!(j.resolve(3, at(8184), 8, None).expect("last word").1, 3 * 8192 + 8184);
        for (offset, len) in [(8185, 8), (8192, 1), (u64::MAX, 8), (0, 8193)] {
            assert!(j.resolve(0, at(offset), len, None).is_none(), "{offset} + {len}");
        }
        assert!(j.resolve(4, at(0), 8, None).is_none());
        assert!(j.resolve(0, Place { region: Region::Static, offset: 0 }, 8, None).is_none());
        assert!(j.resolve(0, Place { region: Region::Bounce, offset: 0 }, 8, None).is_none());
    }

    #[test]
    fn static_segments_are_fixed_by_the_first_pe() {
        let j = job(2);
        assert!(matches!(j.set_statics(&[4097], 1 << 30), Err(StaticsError::Malformed)));
        assert!(matches!(j.set_statics(&[!4095, 4096], 1 << 30), Err(StaticsError::Malformed)));
        j.set_statics(&[4096, 8192], 1 << 30).expect("first");
        j.set_statics(&[4096, 8192], 1 << 30).expect("same");
        assert!(matches!(j.set_statics(&[8192, 4096], 1 << 30), Err(StaticsError::Mismatch(_))));
        assert_eq!(j.region_bytes(Region::Static), 12288);
    }

    #[test]
    fn counting_reads_only_what_was_touched() {
        let j = job(3);
        let (pe, _fds) = PeMemory::create(&j, 0, None).expect("memory");
        assert!(pe.counted().is_empty() && pe.data_extents().is_empty());
        pe.counters.row(0, 2, Class::Put).count(Traffic::put(8));
        pe.counters.row(15, 2, Class::Put).count(Traffic::put(8));
        pe.counters.row(3, 0, Class::Amo).count(Traffic::amo(8, true, false));
        let counted = pe.counted();
        assert_eq!(counted.len(), 2);
        assert_eq!((counted[1].0, counted[1].2.ops, counted[1].2.out.bytes), (2, 2, 16));
    }
}
