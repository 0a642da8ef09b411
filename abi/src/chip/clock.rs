//! One PE's clock page: in virtual time a PE *stands still* wherever it must wait, and goes on when the network's time has
//! reached what it waits for.
//!
//! The PE says at which time of its own clock each of its posts was made, and when it stands. The data plane says at
//! which time it goes on. All times are picoseconds since the program began. Standing is a hand-over: the PE bumps `STOPS`
//! and sleeps on `GOES`, the data plane bumps `GOES` and sleeps on `STOPS`; whoever is awake has the right to act.

use crate::queue::{DMA_SLOTS, RING_FLITS};
use crate::shm::{Access, Mapping, PageKind, ShmError};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Times of posts, by sequence number modulo their number: more than the queues hold.
const STAMPS: usize = (RING_FLITS / 2 + DMA_SLOTS).next_power_of_two();
/// Byte offsets. The PE writes the first four, the data plane the others.
const STOPS: usize = 0x080;
const WAITS_FOR: usize = 0x084;
const NOW: usize = 0x088;
const STAMP: usize = crate::PAGE;
const GOES: usize = 0x100;
const VERDICT: usize = 0x104;
const TIME: usize = 0x108;
const CALL_COST: usize = 0x110;
const AHEAD: usize = 0x118;

/// Bytes of a clock page.
pub const CLOCK_BYTES: usize = STAMP + 8 * STAMPS;
/// The longest that a PE runs ahead of the network, in picoseconds, or less where a machine is faster: never more than
/// anything another PE does takes to reach it.
pub const AHEAD_MAX: u64 = 500_000;
/// The latest time there is, in picoseconds: some 53 days. Sums of two times never overflow.
pub const TIME_MAX: u64 = 1 << 62;

/// What ends a stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum WaitsFor {
    /// Whatever the adapter does for this PE.
    Adapter = 1,
    /// The time of its clock.
    Time = 2,
    /// A write to its memory, or an atomic.
    Memory = 3,
    /// A completion word.
    Completion = 4,
}

impl WaitsFor {
    fn from_code(code: u32) -> Option<WaitsFor> {
        use WaitsFor::*;
        [Adapter, Time, Memory, Completion].into_iter().find(|w| *w as u32 == code)
    }
}

/// How a stand ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Verdict {
    /// Go on at this time, in picoseconds.
    Go = 0,
    /// Nothing can ever happen: every PE stands, and nothing is on its way.
    Deadlock = 1,
}

/// The page, from either side.
pub struct ClockPage(Mapping);

impl ClockPage {
    /// Makes a page whose PE pays `call_cost` picoseconds per library call and runs at most `ahead` picoseconds ahead of the
    /// network. The daemon's side.
    pub fn create(name: &str, call_cost: u64, ahead: u64) -> io::Result<(OwnedFd, ClockPage)> {
        let (fd, map) = Mapping::create(name, CLOCK_BYTES, Access::Shared)?;
        map.stamp_page(PageKind::Clock, CLOCK_BYTES)?;
        let page = ClockPage(map);
        page.word64(CALL_COST).store(call_cost, Ordering::Relaxed);
        page.word64(AHEAD).store(ahead, Ordering::Relaxed);
        Ok((fd, page))
    }
    /// The client's side.
    pub fn open(map: Mapping) -> Result<ClockPage, ShmError> {
        map.require(CLOCK_BYTES)?;
        map.expect_page(PageKind::Clock)?;
        Ok(ClockPage(map))
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        self.0.at(at).expect("the page was made or checked to have its size")
    }
    fn word64(&self, at: usize) -> &AtomicU64 {
        self.0.at(at).expect("the page was made or checked to have its size")
    }

    /// Picoseconds a library call takes.
    pub fn call_cost(&self) -> u64 {
        self.word64(CALL_COST).load(Ordering::Relaxed)
    }

    /// Picoseconds that the PE may run ahead of the network.
    pub fn ahead(&self) -> u64 {
        self.word64(AHEAD).load(Ordering::Relaxed)
    }

    /// The PE makes post `seq` at `time`.
    #[inline]
    pub fn stamp(&self, seq: u32, time: u64) {
        self.word64(STAMP + 8 * (seq as usize % STAMPS)).store(time, Ordering::Relaxed);
    }
    /// When post `seq` was made, as the PE says.
    pub fn stamped(&self, seq: u32) -> u64 {
        self.word64(STAMP + 8 * (seq as usize % STAMPS)).load(Ordering::Relaxed)
    }

    /// The PE stands from `now` on; the number of its stand.
    pub fn stand(&self, now: u64, waits_for: WaitsFor) -> u32 {
        self.word64(NOW).store(now, Ordering::Relaxed);
        self.word(WAITS_FOR).store(waits_for as u32, Ordering::Relaxed);
        self.word(STOPS).fetch_add(1, Ordering::SeqCst).wrapping_add(1)
    }
    /// How stand `number` ended, if it has.
    pub fn ended(&self, number: u32) -> Option<(u64, Verdict)> {
        (self.goes().load(Ordering::Acquire) == number).then(|| {
            let deadlock = self.word(VERDICT).load(Ordering::Relaxed) == Verdict::Deadlock as u32;
            let verdict = if deadlock { Verdict::Deadlock } else { Verdict::Go };
            (self.word64(TIME).load(Ordering::Relaxed), verdict)
        })
    }
    /// Counts stands that have ended: the futex a standing PE sleeps on.
    pub fn goes(&self) -> &AtomicU32 {
        self.word(GOES)
    }

    /// Counts stands: the futex the data plane sleeps on while the PE runs.
    pub fn stops(&self) -> &AtomicU32 {
        self.word(STOPS)
    }
    /// Since when the PE stands, and for what; `None` while it runs. What it waits for is not to be believed.
    pub fn stands(&self) -> Option<(u64, Option<WaitsFor>)> {
        (self.stops().load(Ordering::Acquire) != self.goes().load(Ordering::Relaxed)).then(|| {
            let waits_for = WaitsFor::from_code(self.word(WAITS_FOR).load(Ordering::Relaxed));
            (self.word64(NOW).load(Ordering::Relaxed), waits_for)
        })
    }
    /// Ends the PE's stand at `time`.
    pub fn go(&self, time: u64, verdict: Verdict) {
        self.word64(TIME).store(time, Ordering::Relaxed);
        self.word(VERDICT).store(verdict as u32, Ordering::Relaxed);
        self.goes().store(self.stops().load(Ordering::Relaxed), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stand_is_handed_over_and_back() {
        let (fd, daemon) = ClockPage::create("angara-test-clock", 1_000, AHEAD_MAX).expect("a page");
        let pe = ClockPage::open(Mapping::map(&fd, CLOCK_BYTES).expect("a mapping")).expect("the same");
        assert_eq!((pe.call_cost(), pe.ahead(), daemon.stands()), (1_000, AHEAD_MAX, None));
        pe.stamp(7, 123);
        assert_eq!(daemon.stamped(7), 123);
        let number = pe.stand(500, WaitsFor::Memory);
        assert_eq!((daemon.stands(), pe.ended(number)), (Some((500, Some(WaitsFor::Memory))), None));
        daemon.go(900, Verdict::Go);
        assert_eq!((daemon.stands(), pe.ended(number)), (None, Some((900, Verdict::Go))));
        let next = pe.stand(900, WaitsFor::Time);
        assert_eq!(pe.ended(next), None, "the verdict of the stand before is not for this one");
        daemon.go(900, Verdict::Deadlock);
        assert_eq!(pe.ended(next), Some((900, Verdict::Deadlock)));
    }
}
