//! Who stands in virtual time, and who is due.

use super::gates::{Gate, Gates};
use super::links::LinkHistory;
use super::log::{Log, Stood};
use super::patience::{Doubt, Impatience};
use super::record::{Event, Record};
use super::spent::Spent;
use super::touch::{By, Touch};
use crate::channels::lanes::Lanes;
use crate::config::VirtualTime;
use crate::jobs::seats::Seats;
use angara_abi::channel::Channel;
use angara_abi::clock::{TIME_MAX, WaitsFor};
use angara_abi::desc::Place;
use angara_fabric::{Cause, Port, Tick};
use angara_net::fault::{Clear, Fault};
use angara_protocol::doubts::Doubted;
use angara_protocol::msg::{Routine, Why};
use std::collections::{BTreeSet, VecDeque};
use std::time::Instant;

/// Posts that the network takes from a PE: more than its queues hold, so that none has to wait for the network's time.
pub(crate) const OPS_PER_PORT: u16 = 8192;

/// Whose doing it is that a PE stands no more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) why: Why,
    pub(super) whom: usize,
    /// When that was posted.
    pub(super) posted: Tick,
    /// The same for a recording.
    pub(super) event: Option<Event>,
}

/// One PE that stands.
#[derive(Clone, Copy, Debug)]
struct Stand {
    pe: usize,
    since: Tick,
    waits_for: WaitsFor,
    due: Option<(Tick, Ended)>,
    /// It is due because its time has come, unless something else makes it so before.
    by_time: bool,
    /// Of the run before it, what went for computing and for calls of the library; nothing if the PE's part of the run has
    /// ended: what it does then does not count.
    spent: Option<(Tick, Tick)>,
}

/// Waits of PEs for each other, and loads of links by time.
#[derive(Default)]
pub(super) struct Notes {
    /// How stands ended.
    pub(super) log: Log,
    pub(super) gates: Gates,
    pub(super) links: LinkHistory,
}

/// PEs that stand, and PEs that are due.
#[derive(Default)]
pub(crate) struct VirtualRun {
    /// Lanes whose PEs run, mostly one.
    pub(super) running: Vec<usize>,
    /// PEs that stand, by lane.
    standing: Vec<Option<Stand>>,
    /// Some PE has been outside virtual time.
    goes_outside: bool,
    /// Those of them that shall go on: when, PE, lane.
    due: BTreeSet<(Tick, usize, usize)>,
    /// All PEs have come, and when that was by the clock on the wall.
    pub(super) begun: Option<Instant>,
    /// When a PE left last, by the same.
    pub(super) left: Option<Instant>,
    /// PEs that have left, as far as their times are doubtful.
    pub(super) doubted: Vec<Doubted>,
    /// How often PEs have stood.
    pub(super) stops: u64,
    /// Picoseconds that a call of the library takes.
    pub(super) call_cost: u64,
    /// Use of time, by PE.
    pub(super) spent: Vec<Spent>,
    /// Where it went, if somebody will ask.
    pub(super) notes: Option<Notes>,
    /// The recording that is being written.
    pub(crate) record: Option<Record>,
    /// Faults to come, by their time and in the order given.
    faults: VecDeque<(Tick, Fault)>,
    /// How often PEs that stand had changed their deadlines when that was looked at last.
    pub(super) deadlines: u32,
    /// Since when nothing has been due or on its way, by the clock on the wall, while threads of PEs still run.
    pub(super) in_doubt: Option<Doubt>,
    /// Nothing can happen any more, and everybody has been told.
    pub(super) stuck: bool,
    /// The job has ended: nobody is let go any more.
    pub(crate) over: bool,
    /// The latest time at which a PE was let go: without events the network's own is behind.
    pub(super) present: Tick,
    /// With PEs that do not come back.
    pub(super) patience: Impatience,
}

impl VirtualRun {
    /// Nobody has come yet.
    pub(crate) fn new(time: &VirtualTime, record: Option<Record>) -> VirtualRun {
        let notes = time.noted.then(Notes::default);
        let patience = Impatience::new(time.patience);
        VirtualRun { call_cost: time.call_cost, notes, record, patience, ..VirtualRun::default() }
    }
    /// The PE of a lane runs.
    pub(crate) fn runs(&mut self, lane: usize) {
        self.running.push(lane);
    }
    /// The PE of a lane stands. If it counts: it has run for so long and says what its time went for.
    pub(super) fn stands(
        &mut self,
        (lane, pe): (usize, usize),
        (since, deadline): (Tick, Tick),
        waits_for: WaitsFor,
        ran: Option<(Tick, (Tick, Tick))>,
    ) {
        if self.standing.len() <= lane {
            self.standing.resize(lane + 1, None);
        }
        let spent = ran.map(|(ran, said)| {
            self.stops += 1;
            let spent = self.spent_of(pe);
            spent.times.end = since;
            spent.ran(ran, said)
        });
        // Who was told that nothing can happen may have done something all the same.
        self.stuck = false;
        self.goes_outside |= waits_for == WaitsFor::Return;
        self.standing[lane] = Some(Stand { pe, since, waits_for, due: None, by_time: false, spent });
        self.is_due_at(lane, deadline, since);
    }
    /// The PE of a lane stands, and is due at `deadline` whatever it stands for; not before `now`.
    pub(super) fn is_due_at(&mut self, lane: usize, deadline: Tick, now: Tick) {
        let Some(stand) = self.standing.get_mut(lane).and_then(Option::as_mut) else { return };
        if deadline >= TIME_MAX && stand.waits_for != WaitsFor::Time || stand.waits_for == WaitsFor::Return {
            return;
        }
        let at = deadline.min(TIME_MAX).max(stand.since).max(now);
        if stand.due.is_some_and(|(before, _)| before <= at) {
            return;
        }
        let own = Ended { why: Why::Run, whom: stand.pe, posted: at, event: None };
        stand.by_time = true;
        if let Some((before, _)) = stand.due.replace((at, own)) {
            self.due.remove(&(before, stand.pe, lane));
        }
        self.due.insert((at, stand.pe, lane));
    }
    /// Something happened to the PE of a lane, now and by somebody's doing: if it stands for that, it is due. `word` reads an
    /// integer of its memory.
    pub(super) fn touched(
        &mut self,
        (lane, channel): (usize, &Channel),
        now: Tick,
        what: Touch,
        word: impl Fn(Place, u8) -> Option<u64>,
        by: Ended,
    ) {
        let Some(stand) = self.standing.get_mut(lane).and_then(Option::as_mut) else { return };
        if (stand.due.is_none() || stand.by_time) && what.concerns(stand.waits_for, channel, word) {
            let at = now.max(stand.since);
            stand.by_time = false;
            if let Some((before, _)) = stand.due.replace((at, by)) {
                self.due.remove(&(before, stand.pe, lane));
            }
            self.due.insert((at, stand.pe, lane));
        }
    }
    /// Something happened at a port at a time, by somebody's doing: whoever waits there for it is due. Bytes are written already.
    pub(crate) fn touched_at(&mut self, (at, now): (Port, Tick), what: Touch, by: By, seats: &Seats, lanes: &Lanes) {
        let Some(index) = seats.lane_at(at) else { return };
        let Some(lane) = lanes.get(index) else { return };
        let event = self.record.as_ref().and_then(|record| record.event);
        let own = |port: Option<Port>| {
            let whom = port.and_then(|port| seats.pe_at(port)).unwrap_or(lane.pe);
            Ended { why: Why::Answer, whom, posted: now, event }
        };
        let last = |why, last: Option<(usize, Tick)>| {
            last.map_or(own(None), |(whom, posted)| Ended { why, whom, posted, event })
        };
        let by = match (by, &mut self.notes) {
            (_, None) => own(None),
            (By::Own(port), _) => own(port),
            (By::Other(Some(Cause { from, posted })), _) if from != at => {
                Ended { why: Why::Data, whom: seats.pe_at(from).unwrap_or(lane.pe), posted, event }
            }
            (By::Other(_), _) => own(None),
            (By::Barrier, Some(notes)) => last(Why::Barrier, notes.gates.leave(Gate::Barrier, lane.pe)),
            (By::Tree(gate, count), Some(notes)) => {
                last(Why::Tree, count.checked_sub(1).and_then(|n| notes.gates.last(gate, n)))
            }
        };
        let word = |place, width: u8| {
            let (map, offset) = lane.job.resolve(lane.pe, place, width.into(), Some(&lane.memory.bounce))?;
            let mut bytes = [0; 8];
            map.read(offset, bytes.get_mut(..width.into())?).ok()?;
            Some(u64::from_le_bytes(bytes))
        };
        self.touched((index, &lane.memory.channel), now, what, word, by);
    }

    /// A PE enters what several take part in.
    pub(crate) fn enters(&mut self, gate: Gate, pe: usize, at: Tick) {
        if let Some(notes) = &mut self.notes {
            notes.gates.enter(gate, pe, at);
        }
    }

    pub(crate) fn forget_tree(&mut self, tree: u8) {
        if let Some(notes) = &mut self.notes {
            notes.gates.forget(tree);
        }
    }

    /// What the program of a PE does from now on does not count.
    pub(super) fn has_ended(&mut self, pe: usize) {
        let end = self.spent_of(pe).times.end;
        if let Some(record) = &mut self.record {
            record.has_ended(pe, end);
        }
    }

    /// The job has ended, and its recording with it.
    pub(crate) fn end_record(&mut self) {
        if let Some(record) = self.record.take() {
            record.finish();
        }
    }

    /// Nothing of the network is the cause of what comes next.
    pub(super) fn nothing_happens(&mut self) {
        if let Some(record) = &mut self.record {
            record.event = None;
        }
    }

    /// When the first PE is due.
    pub(super) fn next_due(&self) -> Option<Tick> {
        self.due.first().map(|due| due.0)
    }
    /// The first that is due, which does not stand any more: when, and its lane.
    pub(super) fn take_due(&mut self) -> Option<(Tick, usize)> {
        let (at, pe, lane) = self.due.pop_first()?;
        if let Some(Stand { since, waits_for, due: Some((_, ended)), spent, .. }) = self.standing[lane].take() {
            if let Some(record) = &mut self.record {
                record.waited(pe, (since, at), waits_for, ended.event);
            }
            // What it slept is a part of its run.
            let since = if waits_for == WaitsFor::Time { at } else { since };
            if let Some(spent) = spent {
                self.went_by(pe, (since, at), waits_for, ended, spent);
            }
        }
        Some((at, lane))
    }
    /// A stand of a PE has ended.
    fn went_by(
        &mut self,
        pe: usize,
        (since, until): (Tick, Tick),
        waits_for: WaitsFor,
        Ended { why, whom, posted, .. }: Ended,
        (computed, software): (Tick, Tick),
    ) {
        let went = until.saturating_sub(since);
        let spent = self.spent_of(pe);
        spent.times.end = until;
        match waits_for {
            WaitsFor::Time | WaitsFor::Return => {}
            WaitsFor::Memory | WaitsFor::Bytes(..) | WaitsFor::Word(..) | WaitsFor::Message(..) | WaitsFor::Tree => {
                spent.times.for_data += went
            }
            _ => spent.times.for_network += went,
        }
        let Some(notes) = &mut self.notes else { return };
        if waits_for != WaitsFor::Time && went > 0 {
            self.spent[pe].waited(whom as u32, went);
        }
        notes.log.add(Stood { pe: pe as u32, whom: whom as u32, why, since, until, posted, computed, software });
    }
    /// Returns what the time of a PE went for.
    pub(super) fn spent_of(&mut self, pe: usize) -> &mut Spent {
        if self.spent.len() <= pe {
            self.spent.resize_with(pe + 1, Spent::default);
        }
        &mut self.spent[pe]
    }
    /// The network has taken N posts of a PE.
    pub(crate) fn posted(&mut self, pe: usize, posts: u64) {
        self.spent_of(pe).times.posts += posts;
    }
    /// Costs of routines of a PE, as it reports them.
    pub(crate) fn called(&mut self, pe: usize, routines: Vec<Routine>) {
        self.spent_of(pe).called(routines);
    }
    /// All PEs have come.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.is_some()
    }
    /// Every lane whose PE stands, and since when.
    pub(super) fn waiting(&self) -> Vec<(usize, Tick)> {
        self.standing.iter().enumerate().filter_map(|(lane, stand)| Some((lane, (*stand)?.since))).collect()
    }
    /// Lanes whose PEs are outside virtual time.
    pub(super) fn outside(&self) -> impl Iterator<Item = usize> {
        // Few programs ever go there, and there may be many lanes.
        let all = self.standing[..if self.goes_outside { self.standing.len() } else { 0 }].iter().enumerate();
        all.filter(|(_, stand)| stand.is_some_and(|stand| stand.waits_for == WaitsFor::Return)).map(|(lane, _)| lane)
    }
    /// The PEs of these lanes, which were outside, are back: all at the latest time of any.
    pub(super) fn come_back(&mut self, lanes: &[usize], now: Tick) {
        let since = lanes.iter().filter_map(|lane| Some(self.standing[*lane]?.since)).max().unwrap_or(0);
        for lane in lanes {
            if let Some(stand) = &mut self.standing[*lane] {
                stand.waits_for = WaitsFor::Time;
            }
            self.is_due_at(*lane, since, now);
        }
    }

    /// The PE of a lane neither runs nor stands.
    pub(super) fn forget(&mut self, lane: usize) {
        self.running.retain(|other| *other != lane);
        self.patience.forget(lane);
        if let Some(Stand { pe, due: Some((at, _)), .. }) = self.standing.get_mut(lane).and_then(Option::take) {
            self.due.remove(&(at, pe, lane));
        }
    }

    /// A fault that comes at a time of the job in picoseconds, counted from the beginning of its programs.
    pub(crate) fn plan(&mut self, at: Tick, fault: Fault) {
        let at = at.min(TIME_MAX);
        let behind = self.faults.partition_point(|(other, _)| *other <= at);
        self.faults.insert(behind, (at, fault.now()));
    }
    /// When the next fault comes.
    pub(super) fn next_fault(&self) -> Option<Tick> {
        self.faults.front().map(|(at, _)| *at)
    }
    /// The next fault.
    pub(super) fn take_fault(&mut self) -> Option<Fault> {
        self.faults.pop_front().map(|(_, fault)| fault)
    }
    /// Takes back faults to come. Returns whether there were any.
    pub(crate) fn forget_faults(&mut self, what: Clear) -> bool {
        let before = self.faults.len();
        self.faults.retain(|(_, fault)| !what.concerns(fault));
        self.faults.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_abi::clock::Comparison;
    use angara_abi::desc::Region;

    #[test]
    fn who_is_due_is_due_once_at_the_first_time() {
        let (_fds, channel) =
            Channel::create(&angara_abi::shm::Source::Files, "angara-test-standing").expect("a channel");
        let mut run = VirtualRun { notes: Some(Notes::default()), ..VirtualRun::default() };
        let ended = Ended { why: Why::Data, whom: 5, posted: 60, event: None };
        run.stands((3, 0), (50, TIME_MAX), WaitsFor::Memory, Some((50, (30, 10))));
        let word = Place { region: Region::Heap, offset: 8 };
        let value = |n| move |_, _| Some(n);
        run.touched((3, &channel), 70, Touch::Post(None), value(0), Ended { whom: 4, ..ended });
        assert_eq!(run.next_due(), None);
        run.touched((3, &channel), 80, Touch::Memory(word, 8), value(0), ended);
        run.touched((3, &channel), 90, Touch::Memory(word, 8), value(0), Ended { whom: 4, ..ended });
        assert_eq!((run.take_due(), run.take_due()), (Some((80, 3)), None));
        assert_eq!(run.spent[0].waits(0).collect::<Vec<_>>(), [(0, Some(5), 1, 30)]);
        let times = run.spent[0].times;
        assert_eq!((times.end, times.for_data, times.compute, times.software), (80, 30, 30, 10));
        run.stands((3, 0), (100, TIME_MAX), WaitsFor::Word(word, Comparison::at_least(2)), Some((20, (30, 10))));
        run.touched((3, &channel), 110, Touch::Memory(word, 8), value(1), ended);
        assert_eq!(run.next_due(), None, "1 is not enough");
        run.touched((3, &channel), 120, Touch::Memory(word, 8), value(2), ended);
        assert_eq!(run.take_due(), Some((120, 3)));
        run.stands((3, 0), (130, 130), WaitsFor::Time, Some((10, (30, 10))));
        run.forget(3);
        assert_eq!((run.next_due(), run.stops), (None, 3));
    }

    #[test]
    fn who_is_outside_comes_back_with_the_others_at_the_latest_time() {
        let mut run = VirtualRun::default();
        run.stands((3, 0), (50, TIME_MAX), WaitsFor::Return, None);
        run.stands((4, 1), (90, TIME_MAX), WaitsFor::Return, None);
        run.is_due_at(3, 60, 60);
        assert_eq!((run.next_due(), run.outside().collect::<Vec<_>>(), run.stops), (None, vec![3, 4], 0));
        run.come_back(&[3, 4], 70);
        assert_eq!([run.take_due(), run.take_due(), run.take_due()], [Some((90, 3)), Some((90, 4)), None]);
        assert!(run.spent.is_empty(), "what is done outside does not count");
    }

    #[test]
    fn who_waits_is_due_at_the_first_deadline_of_its_threads_or_before() {
        let (_fds, channel) =
            Channel::create(&angara_abi::shm::Source::Files, "angara-test-deadlines").expect("a channel");
        let mut run = VirtualRun::default();
        let ended = Ended { why: Why::Data, whom: 5, posted: 60, event: None };
        let none = |_, _| None;
        run.stands((3, 0), (50, 900), WaitsFor::Memory, Some((50, (0, 0))));
        assert_eq!(run.next_due(), Some(900));
        run.is_due_at(3, 400, 60);
        run.is_due_at(3, 800, 60);
        assert_eq!((run.next_due(), run.due.len()), (Some(400), 1));
        let word = Place { region: Region::Heap, offset: 8 };
        run.touched((3, &channel), 70, Touch::Memory(word, 8), none, ended);
        assert_eq!((run.take_due(), run.take_due()), (Some((70, 3)), None), "what it waited for came first");
        run.stands((3, 0), (80, TIME_MAX), WaitsFor::Memory, Some((10, (0, 0))));
        assert_eq!(run.next_due(), None);
        run.is_due_at(3, 0, 95);
        assert_eq!(run.take_due(), Some((95, 3)), "a deadline that comes late is not before the present");
    }
}
