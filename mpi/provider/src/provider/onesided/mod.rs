//! Writes, reads and atomics that the initiator carries out by itself: the target need not call anything.
//!
//! A process that registers memory has its pages exchanged for pages of its seat ([`angara_registered`]), where that is safe, and
//! publishes what peers may do with it ([`table`]). An initiator looks that up, and stores, loads or changes the words; where its
//! path is the ring, by puts and gets of its adapter. Memory that stays where it is, it copies by the kernel, if both processes
//! may. All else, errors too, goes by messages, which the target's progress answers.

mod memory;
mod table;

pub(crate) use memory::Remote;
pub(crate) use table::BYTES;

use super::here::Here;
use super::objects::{Exposure, Registered};
use crate::memory::{UserMemory, read_process};
use angara::mailbox::Peer;
use angara::{Place, Reach, Region};
use angara_registered::{Area, offset_in};
use std::sync::LazyLock;
use std::time::Duration;
use table::{Entry, Identity, Table};

/// How long to wait at first for a peer that uses a region, and at most, between two looks.
const NAP: Duration = Duration::from_micros(20);
const NAP_MOST: Duration = Duration::from_millis(5);
/// How long at most where nobody says that a peer has ended: in a job whose ranks do not come and go. It ends with any of them.
const PATIENCE: Duration = Duration::from_secs(2);

/// A word that nobody else has: whoever reads it at a process knows that it is this one.
static PROOF: LazyLock<u64> = LazyLock::new(|| {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => u64::from_ne_bytes(bytes) | 1,
        // Nobody takes 0 for a proof.
        _ => 0,
    }
});

/// How a peer's registered memory is reached.
#[derive(Clone, Copy)]
struct Way {
    table: Table,
    /// Its number, if the kernel copies between the two processes.
    pid: Option<i32>,
    /// Its area, in its own process: address and bytes.
    area: (u64, u64),
}

/// What this process publishes, and how it reaches others.
pub(crate) struct OneSided {
    /// Nothing where time is virtual: all is messages there.
    own: Option<Table>,
    area: Option<Area>,
    /// Where tables begin, and areas, in every heap region.
    start: u64,
    areas_at: u64,
    /// By seat: of which generation, and the way there.
    ways: Vec<Option<(u32, Option<Way>)>>,
    numbers: u64,
}

impl OneSided {
    /// Publishes who this process is. Its table begins at `start` of every heap region.
    pub(crate) fn new(here: &Here, start: u64) -> OneSided {
        let job = &here.job;
        let is_virtual = here.adapter().virtual_now().is_some();
        let own = Table::of(job, job.my_pe(), start).filter(|_| !is_virtual);
        let (place, len) = job.registered();
        let area = job.heap_fd().filter(|_| own.is_some() && len > 0).and_then(|(fd, first)| {
            let fd = fd.try_clone_to_owned().ok()?;
            // SAFETY: what of the PE's memory is for this, and for nothing else, as long as the job.
            unsafe { Area::new(job.local(place), len, fd, first + place.offset) }.ok()
        });
        if let Some(own) = own {
            own.say_who(Identity {
                // A generation of 0 would say that nobody is there.
                generation: u64::from(here.me.generation) + 1,
                pid: std::process::id().into(),
                proof: ((&raw const *PROOF) as u64, *PROOF),
                area: area.map_or((0, 0), |area| (area.base() as u64, area.len() as u64)),
            });
            // SAFETY: a number and four words. With Yama, others of this user may copy from and to this process from now on.
            unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
        }
        OneSided { own, area, start, areas_at: place.offset, ways: vec![None; job.n_pes()], numbers: 0 }
    }

    /// An endpoint is enabled, or closed.
    pub(crate) fn says_endpoint(&self, ep: u32, domain: Option<u32>) {
        if let Some(own) = &self.own {
            own.say_endpoint(ep, domain);
        }
    }

    /// Exchanges the pages of a region that peers may use, and publishes it.
    pub(crate) fn register(&mut self, domain: u32, key: u64, region: &Registered) -> Exposure {
        let (at, len) = (region.memory.address(), region.memory.len());
        let is_remote = region.access & (crate::abi::constants::REMOTE_READ | crate::abi::constants::REMOTE_WRITE) != 0;
        let mut pieces = region.memory.spans();
        if self.own.is_none() || !is_remote || len == 0 || pieces.nth(1).is_some() {
            return Exposure::default();
        }
        let reach = self.area.map(|area| {
            area.register(at, len).unwrap_or_else(|stays| {
                crate::log::info(&format!("{len} bytes at {at:#x} stay where they are: {stays}"));
                at
            })
        });
        let mut place = Exposure { reach, slot: None };
        self.publish(domain, key, region, &mut place);
        place
    }

    /// Publishes a region, anew if its counters are others.
    pub(crate) fn publish(&mut self, domain: u32, key: u64, region: &Registered, place: &mut Exposure) {
        let Some(own) = self.own else { return };
        if let Some(slot) = place.slot.take() {
            own.take_region(slot);
        }
        self.numbers += 1;
        let at = region.memory.address();
        let entry = Entry {
            domain,
            key,
            base: if region.by_address { at as u64 } else { 0 },
            len: region.memory.len() as u64,
            access: region.access,
            reach: place.reach.unwrap_or(at) as u64,
            is_counted: !region.counters.is_empty(),
        };
        place.slot = own.say_region(self.numbers, &entry);
    }

    /// The region is gone when this returns: no peer writes there by itself any more.
    pub(crate) fn deregister(&mut self, here: &Here, region: &Registered, place: Exposure) {
        let Some(own) = self.own else { return };
        if let Some(slot) = place.slot {
            own.take_region(slot);
            self.wait_for_users(here, slot);
        }
        if let (Some(area), Some(reach)) = (self.area, place.reach) {
            area.deregister(region.memory.address(), region.memory.len(), reach);
        }
    }

    /// Returns when no peer uses a region that was there, or whoever does has ended.
    fn wait_for_users(&self, here: &Here, slot: u64) {
        let is_open = here.job.geometry().open;
        for pe in (0..here.job.n_pes()).filter(|pe| *pe != here.job.my_pe()) {
            let (mut nap, mut left) = (NAP, PATIENCE);
            let is_used = || {
                let is_there = !is_open || here.job.pe_entry(pe).seat.taken();
                let table = Table::of(&here.job, pe, self.start).filter(|_| is_there);
                table.is_some_and(|table| table.is_using(here.me.seat, slot))
            };
            while !left.is_zero() && is_used() {
                std::thread::sleep(nap);
                if !is_open {
                    left = left.saturating_sub(nap);
                }
                nap = (2 * nap).min(NAP_MOST);
            }
        }
    }

    fn way_to(&mut self, here: &Here, peer: Peer) -> Option<Way> {
        let seat = peer.seat as usize;
        match self.ways.get(seat)? {
            Some((generation, way)) if *generation == peer.generation => return *way,
            _ => {}
        }
        self.own?;
        let table = Table::of(&here.job, seat, self.start)?;
        // It has not said yet, or is on another host.
        let who = table.who(u64::from(peer.generation) + 1)?;
        let by_kernel = || {
            let pid = i32::try_from(who.pid).ok()?;
            let word = read_process(pid, [].into_iter(), &UserMemory::nothing(), who.proof.0).ok()?;
            (word == who.proof.1 && word != 0).then_some(pid)
        };
        // What has to go through the network does not go past it.
        let pid = if here.is_direct(peer) { by_kernel() } else { None };
        let way = (pid.is_some() || who.area.1 > 0).then_some(Way { table, pid, area: who.area });
        self.ways[seat] = Some((peer.generation, way));
        way
    }

    /// Lets `carry` use a range of a peer's registered memory, if that may be used so and this process reaches it: what comes of
    /// that, or nothing.
    pub(crate) fn with<T>(
        &mut self,
        here: &Here,
        (peer, ep): (Peer, u32),
        (at, len, key): (u64, u64, u64),
        access: u64,
        carry: impl FnOnce(Remote<'_>) -> Option<T>,
    ) -> Option<T> {
        let (own, way) = (self.own?, self.way_to(here, peer)?);
        // Whoever sits there now has regions of his own.
        let is_there = || here.job.pe_entry(peer.seat as usize).seat.life() == peer.generation;
        let (domain, slot) = way.table.slot(ep, key)?;
        own.uses(peer.seat, slot);
        let carried = (|| {
            let entry = way.table.region(domain, key, slot)?;
            let place = entry.find(at, len, access).filter(|_| !entry.is_counted && is_there())?;
            let (job, seat) = (&*here.job, peer.seat as usize);
            let remote = match (offset_in(way.area, place, len), job.ctx().reach(seat)) {
                (Some(offset), Reach::Direct) => {
                    Remote::Mapped { job, seat, at: job.mapped(self.place(offset), seat)?, len: len as usize }
                }
                (Some(offset), Reach::Ring) => Remote::Adapter { job, seat, place: self.place(offset) },
                (None, Reach::Direct) => Remote::Process { job, seat, pid: way.pid?, at: place, len: len as usize },
                _ => return None,
            };
            carry(remote)
        })();
        own.uses_nothing();
        carried
    }

    fn place(&self, offset: u64) -> Place {
        Place { region: Region::Heap, offset: self.areas_at + offset }
    }
}
