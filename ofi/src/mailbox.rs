//! A stand-in for `angara::mailbox` until that is there: one byte ring per pair of PEs, written by puts.

use angara::{Class, Job, Place, Region};
use angara_abi::copy::{load, peek};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

const RING: usize = 64 << 10;
const LINE: usize = 128;
const SKIP: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Peer {
    pub(crate) seat: u32,
    pub(crate) generation: u32,
}

#[allow(dead_code)]
pub(crate) enum SendError {
    Full,
    Gone,
    TooLong { len: usize, max: usize },
    Job(angara::Error),
}

pub(crate) struct Message<'a> {
    at: *const u8,
    len: usize,
    _of: std::marker::PhantomData<&'a ()>,
}

impl Message<'_> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }
    pub(crate) fn copy(&self, from: usize, to: &mut [u8]) {
        assert!(from + to.len() <= self.len);
        // SAFETY: inside the message, which is inside the ring.
        unsafe { load(to.as_mut_ptr(), self.at.add(from), to.len()) };
    }
    /// # Safety
    /// `dst` is writable for `len` bytes.
    pub(crate) unsafe fn copy_to(&self, from: usize, dst: *mut u8, len: usize) {
        assert!(from + len <= self.len);
        // SAFETY: inside the message; the caller vouches for `dst`.
        unsafe { load(dst, self.at.add(from), len) };
    }
}

#[derive(Clone, Copy, Default)]
struct Lane {
    sent: u64,
    seen: u64,
    taken: u64,
    told: u64,
}

pub(crate) struct Mailbox {
    job: Arc<Job>,
    at: u64,
    lanes: Vec<Lane>,
    stage: Vec<u8>,
}

impl Mailbox {
    pub(crate) fn bytes(pes: usize) -> usize {
        pes * (2 * LINE + RING)
    }
    pub(crate) fn open(job: Arc<Job>, at: Place) -> angara::Result<Mailbox> {
        let pes = job.n_pes();
        Ok(Mailbox { job, at: at.offset, lanes: vec![Lane::default(); pes], stage: Vec::new() })
    }
    pub(crate) fn me(&self) -> Peer {
        let pe = self.job.my_pe();
        Peer { seat: pe as u32, generation: self.job.pe_entry(pe).seat.life() }
    }
    pub(crate) fn is_there(&self, peer: Peer) -> bool {
        let seat = self.job.pe_entry(peer.seat as usize).seat;
        seat.taken() && seat.life() == peer.generation
    }
    pub(crate) fn message_max(&self) -> usize {
        16 << 10
    }
    fn place(&self, offset: usize) -> Place {
        Place { region: Region::Heap, offset: self.at + offset as u64 }
    }
    /// `to`'s ring that `from` writes.
    fn ring(&self, from: usize) -> usize {
        self.lanes.len() * 2 * LINE + from * RING
    }
    fn put(&self, pe: usize, offset: usize, bytes: &[u8]) -> Result<(), SendError> {
        // SAFETY: a slice is readable.
        unsafe { self.job.ctx().put(Class::Put, pe, self.place(offset), bytes.as_ptr(), bytes.len()) }
            .map_err(SendError::Job)
    }
    pub(crate) fn try_send(&mut self, to: Peer, parts: &[IoSlice<'_>]) -> Result<(), SendError> {
        let (me, pe) = (self.job.my_pe(), to.seat as usize);
        if !self.is_there(to) {
            return Err(SendError::Gone);
        }
        let len: usize = parts.iter().map(|p| p.len()).sum();
        if len > self.message_max() {
            return Err(SendError::TooLong { len, max: self.message_max() });
        }
        let whole = (8 + len).next_multiple_of(8);
        let mut sent = self.lanes[pe].sent;
        let at = (sent % RING as u64) as usize;
        let skip = if at + whole > RING { RING - at } else { 0 };
        if sent + (skip + whole) as u64 > self.lanes[pe].seen + RING as u64 {
            // SAFETY: a word of my own heap.
            self.lanes[pe].seen = unsafe { peek::<u64>(self.job.local(self.place(pe * 2 * LINE + LINE))) };
            if sent + (skip + whole) as u64 > self.lanes[pe].seen + RING as u64 {
                return Err(SendError::Full);
            }
        }
        let base = self.ring(me);
        if skip > 0 {
            self.put(pe, base + at, &SKIP.to_le_bytes())?;
            sent += skip as u64;
        }
        let mut stage = std::mem::take(&mut self.stage);
        stage.clear();
        stage.extend_from_slice(&(len as u64).to_le_bytes());
        parts.iter().for_each(|p| stage.extend_from_slice(p));
        let out = self.put(pe, base + (sent % RING as u64) as usize, &stage);
        self.stage = stage;
        out?;
        sent += whole as u64;
        self.job.ctx().fence().map_err(SendError::Job)?;
        self.put(pe, me * 2 * LINE, &sent.to_le_bytes())?;
        self.lanes[pe].sent = sent;
        Ok(())
    }
    pub(crate) fn receive(
        &mut self,
        most: usize,
        take: &mut dyn FnMut(Peer, &Message<'_>),
    ) -> angara::Result<usize> {
        let mut count = 0;
        for pe in 0..self.lanes.len() {
            // SAFETY: a word of my own heap.
            let sent = unsafe { peek::<u64>(self.job.local(self.place(pe * 2 * LINE))) };
            let mut lane = self.lanes[pe];
            while lane.taken < sent && count < most {
                let at = self.job.local(self.place(self.ring(pe) + (lane.taken % RING as u64) as usize)).cast_const();
                // SAFETY: a word of my own heap.
                let len = unsafe { peek::<u32>(at) };
                if len == SKIP {
                    lane.taken = (lane.taken / RING as u64 + 1) * RING as u64;
                    continue;
                }
                let len = len as usize;
                let peer = Peer { seat: pe as u32, generation: self.job.pe_entry(pe).seat.life() };
                take(peer, &Message { at: at.wrapping_add(8), len, _of: std::marker::PhantomData });
                lane.taken += (8 + len).next_multiple_of(8) as u64;
                count += 1;
            }
            if lane.taken - lane.told > RING as u64 / 4 {
                lane.told = lane.taken;
                let offset = self.job.my_pe() * 2 * LINE + LINE;
                let _ = self.put(pe, offset, &lane.taken.to_le_bytes());
            }
            self.lanes[pe] = lane;
        }
        Ok(count)
    }
    pub(crate) fn wait(&mut self, limit: Duration) -> angara::Result<bool> {
        std::thread::sleep(limit.min(Duration::from_micros(50)));
        Ok(true)
    }
    #[allow(dead_code)]
    pub(crate) fn contacts(&self) -> impl Iterator<Item = Peer> {
        std::iter::empty()
    }
}
