//! One PE's clock page: in virtual time a PE *stands still* wherever it must wait, and goes on when the network's time has
//! reached what it waits for.
//!
//! The PE says at which time of its own clock each of its posts was made, and when it stands. The data plane says at
//! which time it goes on. All times are picoseconds since the program began. Standing is a hand-over: the PE bumps `STOPS`,
//! rings `BELL` and sleeps on `GOES`, the data plane bumps `GOES` and sleeps on `BELL`; whoever is awake has the right to
//! act. Whoever else has something to do for the data plane rings, too.

use crate::desc::{Place, Region};
use crate::doubts::Doubts;
use crate::queue::{DMA_SLOTS, RING_FLITS};
use crate::shm::{Access, Mapping, PageKind, Part, ShmError, Source};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Times of posts, by sequence number modulo their number: more than the queues hold.
const STAMPS: usize = (RING_FLITS / 2 + DMA_SLOTS).next_power_of_two();
/// Byte offsets. The PE writes those up to `STAMP`, the data plane the others.
const STOPS: usize = 0x080;
const WAITS_FOR: usize = 0x084;
const NOW: usize = 0x088;
/// Target of a wait: a sequence number or a region, and how a word there compares; an offset; bytes or a value.
const WHICH: usize = 0x090;
const OFFSET: usize = 0x098;
const BYTES: usize = 0x0a0;
/// Parts of the time so far: computed, and spent in the library.
const COMPUTED: usize = 0x0a8;
const SOFTWARE: usize = 0x0b0;
/// Counts what the data plane shall wake up for; both sides write it.
const BELL: usize = 0x0b8;
/// While the PE stands: when it is due in any case.
const DEADLINE: usize = 0x0c0;
/// Its part of the run has ended.
const ENDS: usize = 0x0c8;
/// Its time has not begun yet.
const LATE: usize = 0x0cc;
/// A PE that stands might go on by itself.
const UNSURE: usize = 0x0d0;
/// What makes its times doubtful: [`Doubts`] as bits, and looks in vain after which a call went on at most.
const DOUBTS: usize = 0x0d4;
const LOOKS: usize = 0x0d8;
/// Where the PE's program is, when it was asked: how often it has answered, how many addresses, and these.
const ANSWERS: usize = 0x180;
const ADDRESSES: usize = 0x184;
const ADDRESS: usize = 0x188;
const STAMP: usize = crate::PAGE;
const GOES: usize = 0x100;
const VERDICT: usize = 0x104;
const TIME: usize = 0x108;
const CALL_COST: usize = 0x110;
const AHEAD: usize = 0x118;
const SEES_UNTIL: usize = 0x120;
const OVER: usize = 0x128;
const NOTED: usize = 0x12c;

/// Bytes of a clock page.
pub const CLOCK_BYTES: usize = STAMP + 8 * STAMPS;
/// The longest that a PE runs ahead of the network, in picoseconds, or less where a machine is faster: never more than
/// anything another PE does takes to reach it.
pub const AHEAD_MAX: u64 = 500_000;
/// The latest time there is, in picoseconds: some 53 days. Sums of two times never overflow.
pub const TIME_MAX: u64 = 1 << 62;

/// Most addresses of which a PE says where it is.
pub const ADDRESSES_MAX: usize = 32;

/// The signal by which a PE is asked where it is: one that is ignored by who does not know it.
pub const WHERE_SIGNAL: i32 = libc::SIGURG;

/// The reason for the end of a stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitsFor {
    /// Whatever the adapter does for this PE.
    Adapter,
    /// Nothing but the time at which it is due in any case.
    Time,
    /// A write to its memory, or an atomic, wherever.
    Memory,
    /// The same to any of N bytes.
    Bytes(Place, u64),
    /// A write or atomic after which the integer there compares so.
    Word(Place, Comparison),
    /// A completion word.
    Completion(Place),
    /// The source of a post, and of all before it, has been copied.
    Copied(u32),
    /// Their packets are in the network.
    Injected(u32),
    /// A read, and all before it, have delivered their data.
    Delivered(u32),
    /// Something of a tree: a result, an arrival, room.
    Tree,
    /// The last packet of a message, or a word by which a mailbox is kept, from there on in its memory; or an answer to an
    /// operation of its own. The number is the one that every trailer of such a message has in the upper half of its
    /// first word.
    Message(Place, u32),
    /// Nothing: it is outside virtual time, runs, and comes back with all others who are outside. Then it is due at its
    /// deadline.
    Return,
}

/// Bytes of a message's trailer, which ends the last packet of a message, and a slot.
pub const TRAILER: u64 = 16;
/// Bytes of a slot, which begins and ends at a multiple of them.
pub const SLOT: u64 = crate::PAYLOAD_MAX as u64;

impl WaitsFor {
    /// Tells whether a write of `len` bytes to `offset` of the region of a mailbox that begins at `start` ends a
    /// message for the process of this `generation`, or is a word of the mailbox itself; `word` reads one.
    pub fn is_of_message(
        (start, generation): (u64, u32),
        (offset, len): (u64, u64),
        word: impl Fn(u64) -> Option<u64>,
    ) -> bool {
        let end = offset.saturating_add(len);
        // Words have 8 bytes. What ends a slot and does not fill it is no raw part of a message.
        offset >= start
            && (len == 8
                || (TRAILER..=SLOT).contains(&len)
                    && end.is_multiple_of(SLOT)
                    && (len < SLOT || word(end - TRAILER).is_none_or(|word| word >> 32 == u64::from(generation))))
    }
}

/// How an integer compares with a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Comparison {
    /// Its bytes: 2, 4 or 8.
    pub width: u8,
    /// It has a sign.
    pub signed: bool,
    /// A number of `shmem.h`, `SHMEM_CMP_EQ` to `SHMEM_CMP_LE`: =, other than, >, at least, <, at most.
    pub relation: u8,
    /// The value to compare with; higher bytes than those of the width do not count.
    pub value: u64,
}

impl Comparison {
    /// At least `value`, of 8 bytes without a sign.
    pub fn at_least(value: u64) -> Comparison {
        Comparison { width: 8, signed: false, relation: 4, value }
    }

    /// True if the integer, in the low bytes of `word`, compares so. No relation but the six ever holds.
    pub fn holds(self, word: u64) -> bool {
        let shift = 64 - 8 * u32::from(self.width.clamp(1, 8));
        let order = match self.signed {
            true => ((word << shift) as i64).cmp(&((self.value << shift) as i64)),
            false => (word << shift).cmp(&(self.value << shift)),
        };
        match self.relation {
            1 => order.is_eq(),
            2 => order.is_ne(),
            3 => order.is_gt(),
            4 => order.is_ge(),
            5 => order.is_lt(),
            6 => order.is_le(),
            _ => false,
        }
    }

    /// All but the value, above the region in a word.
    fn encode(self) -> u32 {
        u32::from(self.width) << 8 | u32::from(self.signed) << 16 | u32::from(self.relation) << 24
    }

    fn decode(which: u32, value: u64) -> Option<Comparison> {
        let [_, width, signed, relation] = which.to_le_bytes();
        let known = matches!(width, 2 | 4 | 8) && signed < 2 && (1..=6).contains(&relation);
        known.then_some(Comparison { width, signed: signed == 1, relation, value })
    }
}

impl WaitsFor {
    /// As it is written: a code, and of what is waited for a sequence number or region, an offset, and bytes or a value.
    fn encode(self) -> (u32, u32, u64, u64) {
        use WaitsFor::*;
        match self {
            Adapter => (1, 0, 0, 0),
            Time => (2, 0, 0, 0),
            Memory => (3, 0, 0, 0),
            Bytes(place, len) => (4, place.region as u32, place.offset, len),
            Completion(place) => (5, place.region as u32, place.offset, 0),
            Copied(seq) => (6, seq, 0, 0),
            Injected(seq) => (7, seq, 0, 0),
            Delivered(seq) => (8, seq, 0, 0),
            Tree => (9, 0, 0, 0),
            Message(place, generation) => (11, place.region as u32, place.offset, generation.into()),
            Return => (12, 0, 0, 0),
            Word(place, with) => (10, place.region as u32 | with.encode(), place.offset, with.value),
        }
    }

    fn decode(code: u32, which: u32, offset: u64, len: u64) -> Option<WaitsFor> {
        use WaitsFor::*;
        let place = || Some(Place { region: Region::from_bits(u8::try_from(which).ok()?)?, offset });
        Some(match code {
            1 => Adapter,
            2 => Time,
            3 => Memory,
            4 => Bytes(place()?, len),
            5 => Completion(place()?),
            6 => Copied(which),
            7 => Injected(which),
            8 => Delivered(which),
            9 => Tree,
            11 => Message(place()?, u32::try_from(len).ok()?),
            12 => Return,
            10 => {
                let region = Region::from_bits(which as u8)?;
                Word(Place { region, offset }, Comparison::decode(which, len)?)
            }
            _ => return None,
        })
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
    /// The same, unless this PE goes on by itself, as it has said it might ([`ClockPage::might_go_on`]).
    Doubt = 2,
}

/// The page, from either side.
pub struct ClockPage(Mapping);

impl ClockPage {
    /// Makes a page whose PE pays `call_cost` picoseconds per library call and runs at most `ahead` picoseconds ahead of the
    /// network; what its routines cost is `noted` if somebody will ask. The daemon's side.
    pub fn create(
        source: &Source,
        name: &str,
        call_cost: u64,
        ahead: u64,
        noted: bool,
    ) -> io::Result<(Option<OwnedFd>, ClockPage)> {
        let (fd, map) = source.create(name, CLOCK_BYTES, Access::Shared)?;
        map.stamp_page(PageKind::Clock, CLOCK_BYTES)?;
        let page = ClockPage(map);
        page.word64(CALL_COST).store(call_cost, Ordering::Relaxed);
        page.word64(AHEAD).store(ahead, Ordering::Relaxed);
        page.word(NOTED).store(noted.into(), Ordering::Relaxed);
        Ok((fd, page))
    }
    /// The client's side.
    pub fn open(map: Mapping) -> Result<ClockPage, ShmError> {
        map.require(CLOCK_BYTES)?;
        map.expect_page(PageKind::Clock)?;
        Ok(ClockPage(map))
    }

    /// The page, for a client in the same process.
    pub fn part(&self) -> Part {
        Part::of(&self.0)
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

    /// Somebody will ask what the PE's routines cost.
    pub fn is_noted(&self) -> bool {
        self.word(NOTED).load(Ordering::Relaxed) != 0
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

    /// Stores how much of the PE's time so far the program computed, and how much calls of the library took, in
    /// picoseconds.
    pub fn spent(&self, computed: u64, software: u64) {
        self.word64(COMPUTED).store(computed, Ordering::Relaxed);
        self.word64(SOFTWARE).store(software, Ordering::Relaxed);
    }
    /// Returns the times that the PE stored with `spent`.
    pub fn spending(&self) -> (u64, u64) {
        (self.word64(COMPUTED).load(Ordering::Relaxed), self.word64(SOFTWARE).load(Ordering::Relaxed))
    }

    /// The PE's time begins when it says so, not when it attaches; it may take long until then.
    pub fn begins_late(&self, late: bool) {
        self.word(LATE).store(late.into(), Ordering::Relaxed);
    }
    /// True if it has still to begin, as the PE says.
    pub fn is_late(&self) -> bool {
        self.word(LATE).load(Ordering::Relaxed) != 0
    }
    /// Ends the PE's part of the run: later events do not belong to it.
    pub fn ends(&self) {
        self.word(ENDS).store(1, Ordering::Relaxed);
    }
    /// True if the PE's part of the run has ended, as it says.
    pub fn has_ended(&self) -> bool {
        self.word(ENDS).load(Ordering::Relaxed) != 0
    }

    /// The PE, in its stands from now on, might go on by itself where nothing else can happen, or does not.
    pub fn might_go_on(&self, might: bool) {
        self.word(UNSURE).store(might.into(), Ordering::Relaxed);
    }
    /// True if it might, as it says.
    pub fn is_unsure(&self) -> bool {
        self.word(UNSURE).load(Ordering::Relaxed) != 0
    }
    /// What has made the PE's times doubtful so far.
    pub fn doubts(&self, doubts: Doubts) {
        self.word(DOUBTS).store(doubts.bits(), Ordering::Relaxed);
    }
    /// As the PE says.
    pub fn doubted(&self) -> Doubts {
        Doubts::from_bits(self.word(DOUBTS).load(Ordering::Relaxed))
    }
    /// A call of the PE went on by itself after N looks in vain.
    pub fn went_on_after(&self, looks: u32) {
        self.word(LOOKS).fetch_max(looks, Ordering::Relaxed);
    }
    /// Most looks in vain after which a call went on by itself.
    pub fn looks_most(&self) -> u32 {
        self.word(LOOKS).load(Ordering::Relaxed)
    }
    /// The PE stands from `now` on, until `deadline` at the latest; the number of its stand.
    pub fn stand(&self, now: u64, waits_for: WaitsFor, deadline: u64) -> u32 {
        let (code, which, offset, bytes) = waits_for.encode();
        self.word64(NOW).store(now, Ordering::Relaxed);
        self.word64(DEADLINE).store(deadline, Ordering::Relaxed);
        self.word(WAITS_FOR).store(code, Ordering::Relaxed);
        self.word(WHICH).store(which, Ordering::Relaxed);
        self.word64(OFFSET).store(offset, Ordering::Relaxed);
        self.word64(BYTES).store(bytes, Ordering::Relaxed);
        let number = self.word(STOPS).fetch_add(1, Ordering::SeqCst).wrapping_add(1);
        self.bell().fetch_add(1, Ordering::SeqCst);
        number
    }
    /// The PE, which stands, is due at this time in any case: another of its threads is. Whoever says so tells the data
    /// plane that deadlines have changed ([`crate::job::SyncPage::deadlines`]).
    pub fn set_deadline(&self, deadline: u64) {
        self.word64(DEADLINE).store(deadline, Ordering::SeqCst);
    }
    /// When the PE, which stands, is due in any case, as it says.
    pub fn deadline(&self) -> u64 {
        self.word64(DEADLINE).load(Ordering::SeqCst)
    }
    /// How stand `number` ended, if it has.
    pub fn ended(&self, number: u32) -> Option<(u64, Verdict)> {
        (self.goes().load(Ordering::Acquire) == number).then(|| {
            let verdict = match self.word(VERDICT).load(Ordering::Relaxed) {
                verdict if verdict == Verdict::Deadlock as u32 => Verdict::Deadlock,
                verdict if verdict == Verdict::Doubt as u32 => Verdict::Doubt,
                _ => Verdict::Go,
            };
            (self.word64(TIME).load(Ordering::Relaxed), verdict)
        })
    }
    /// Counts stands that have ended: the futex a standing PE sleeps on.
    pub fn goes(&self) -> &AtomicU32 {
        self.word(GOES)
    }

    /// Nobody lets the PE go any more: its channel is in error. The data plane's side.
    pub fn end(&self) {
        self.word(OVER).store(1, Ordering::Release);
    }
    /// The same, for the PE.
    pub fn is_over(&self) -> bool {
        self.word(OVER).load(Ordering::Acquire) != 0
    }

    /// The PE's program is here: what was called last comes first. Takes no lock and no memory.
    pub fn is_at(&self, addresses: impl Iterator<Item = u64>) {
        let mut count = 0;
        for (i, address) in addresses.take(ADDRESSES_MAX).enumerate() {
            self.word64(ADDRESS + 8 * i).store(address, Ordering::Relaxed);
            count = i as u32 + 1;
        }
        self.word(ADDRESSES).store(count, Ordering::Relaxed);
        self.word(ANSWERS).fetch_add(1, Ordering::Release);
    }
    /// How often the PE has answered.
    pub fn answers(&self) -> u32 {
        self.word(ANSWERS).load(Ordering::Acquire)
    }
    /// Returns what it answered last.
    pub fn addresses(&self) -> Vec<u64> {
        let count = self.word(ADDRESSES).load(Ordering::Relaxed) as usize;
        (0..count.min(ADDRESSES_MAX)).map(|i| self.word64(ADDRESS + 8 * i).load(Ordering::Relaxed)).collect()
    }

    /// The futex the data plane sleeps on while the PE runs.
    pub fn bell(&self) -> &AtomicU32 {
        self.word(BELL)
    }
    /// Counts stands.
    pub fn stops(&self) -> &AtomicU32 {
        self.word(STOPS)
    }
    /// Since when the PE stands, and for what; `None` while it runs. What it waits for is not to be believed.
    pub fn stands(&self) -> Option<(u64, Option<WaitsFor>)> {
        (self.stops().load(Ordering::Acquire) != self.goes().load(Ordering::Relaxed)).then(|| {
            let word = |at| self.word(at).load(Ordering::Relaxed);
            let word64 = |at| self.word64(at).load(Ordering::Relaxed);
            (word64(NOW), WaitsFor::decode(word(WAITS_FOR), word(WHICH), word64(OFFSET), word64(BYTES)))
        })
    }
    /// Before this time nothing changes that the PE can see, unless by what it posts from now on. It was told when it
    /// went on.
    pub fn sees_until(&self) -> u64 {
        self.word64(SEES_UNTIL).load(Ordering::Relaxed)
    }
    /// Ends the PE's stand at `time`; before `sees_until` nothing changes that it can see.
    pub fn go(&self, time: u64, sees_until: u64, verdict: Verdict) {
        self.word64(TIME).store(time, Ordering::Relaxed);
        self.word64(SEES_UNTIL).store(sees_until, Ordering::Relaxed);
        self.word(VERDICT).store(verdict as u32, Ordering::Relaxed);
        self.goes().store(self.stops().load(Ordering::Relaxed), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stand_is_handed_over_and_back() {
        let (fd, daemon) =
            ClockPage::create(&Source::Files, "angara-test-clock", 1_000, AHEAD_MAX, true).expect("a page");
        let pe = ClockPage::open(Mapping::map(fd.as_ref().expect("a file"), CLOCK_BYTES).expect("a mapping"))
            .expect("the same");
        assert_eq!((pe.call_cost(), pe.ahead(), pe.is_noted(), daemon.stands()), (1_000, AHEAD_MAX, true, None));
        pe.stamp(7, 123);
        assert_eq!(daemon.stamped(7), 123);
        pe.spent(300, 200);
        let rung = daemon.bell().load(Ordering::SeqCst);
        let number = pe.stand(500, WaitsFor::Memory, 700);
        assert_ne!(daemon.bell().load(Ordering::SeqCst), rung, "the data plane must not sleep any more");
        assert_eq!((daemon.spending(), daemon.deadline()), ((300, 200), 700));
        pe.set_deadline(600);
        assert_eq!(daemon.deadline(), 600);
        assert_eq!((daemon.stands(), pe.ended(number)), (Some((500, Some(WaitsFor::Memory))), None));
        daemon.go(900, 950, Verdict::Go);
        assert_eq!(pe.sees_until(), 950);
        assert_eq!((daemon.stands(), pe.ended(number)), (None, Some((900, Verdict::Go))));
        assert_eq!((daemon.answers(), daemon.addresses()), (0, vec![]));
        pe.is_at(0..100);
        assert_eq!((daemon.answers(), daemon.addresses()), (1, (0..ADDRESSES_MAX as u64).collect::<Vec<_>>()));
        let next = pe.stand(900, WaitsFor::Time, 900);
        assert_eq!(pe.ended(next), None, "the verdict of the stand before is not for this one");
        daemon.go(900, 900, Verdict::Deadlock);
        assert_eq!(pe.ended(next), Some((900, Verdict::Deadlock)));
        pe.might_go_on(true);
        let next = pe.stand(900, WaitsFor::Memory, TIME_MAX);
        assert!(daemon.is_unsure());
        daemon.go(900, 900, Verdict::Doubt);
        assert_eq!(pe.ended(next), Some((900, Verdict::Doubt)));
    }

    #[test]
    fn integers_compare_by_their_width_and_sign() {
        let holds = |width, signed, relation, word: i64, value: i64| {
            Comparison { width, signed, relation, value: value as u64 }.holds(word as u64)
        };
        for (relation, less, equal, more) in
            [(1, false, true, false), (2, true, false, true), (3, false, false, true), (4, false, true, true)]
                .into_iter()
                .chain([(5, true, false, false), (6, true, true, false)])
        {
            for (width, signed) in [(2, false), (4, true), (8, false), (8, true)] {
                let of = |word| holds(width, signed, relation, word, 5);
                assert_eq!([of(4), of(5), of(6)], [less, equal, more], "relation {relation} of {width} bytes");
            }
        }
        assert!(holds(4, true, 5, -1, 0) && !holds(4, false, 5, -1, 0), "with a sign -1 is below 0");
        assert!(holds(4, true, 1, 0x7_0000_0001, 1), "what lies beside the word does not count");
        assert!(!holds(8, false, 7, 1, 1));
    }

    #[test]
    fn what_is_waited_for_is_written_and_read_and_codes_that_mean_nothing_are_none() {
        use WaitsFor::*;
        let place = |region| Place { region, offset: 1 << 40 };
        let regions = [Region::Heap, Region::Static, Region::Bounce];
        let places = regions.into_iter().flat_map(|r| [Bytes(place(r), 24), Completion(place(r))]);
        let with = Comparison { width: 4, signed: true, relation: 6, value: u64::MAX };
        assert!(Word(place(Region::Static), with).encode().1 > 0xff_ffff, "the relation is in there");
        let word = Word(place(Region::Static), with);
        let message = Message(place(Region::Heap), u32::MAX);
        let others = [word, Adapter, Time, Memory, Copied(7), Injected(u32::MAX), Delivered(0), Tree, message, Return];
        for waits_for in others.into_iter().chain(places) {
            let (code, which, offset, len) = waits_for.encode();
            assert_eq!(WaitsFor::decode(code, which, offset, len), Some(waits_for));
        }
        let odd_width = Comparison { width: 3, ..with };
        let no_relation = Comparison { relation: 7, ..with };
        for (code, which) in [
            (0, 0),
            (10, 0),
            (10, odd_width.encode()),
            (10, no_relation.encode()),
            (13, 0),
            (11, 7),
            (4, 3),
            (5, 256),
            (4, u32::MAX),
        ] {
            assert_eq!(WaitsFor::decode(code, which, 0, 8), None, "code {code}, region {which}");
        }
    }
}
