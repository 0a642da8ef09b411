//! What PEs of a simulated job do: operations of every kind through their channels, a quiet, a barrier, and a look at what
//! has arrived. Everything that arrives is compared with what was posted.

use super::random::Random;
use super::schedule::JobPlan;
use crate::daemon::Daemon;
use crate::jobs::job::{Attached, Program};
use angara_abi::account::Class;
use angara_abi::desc::{AmoOp, Counted, Descriptor, Op, Place, Region};
use angara_abi::job::JobState;
use angara_abi::queue::Producer;
use angara_abi::{Architecture, JobId};
use angara_plane::{JobMemory, PeMemory};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use tokio::task::LocalSet;

/// Where things lie in each PE's heap: the latest value of each PE, what all add to, results of fetching adds, completion
/// words, blocks of each PE, blocks to send, a block that never changes, and where that of another PE is read to.
const CELLS: u64 = 4096;
const SUM: u64 = 8192;
const RESULTS: u64 = 12 << 10;
const COMPLETIONS: u64 = 16 << 10;
const BLOCKS: u64 = 64 << 10;
const SOURCES: u64 = 320 << 10;
const FIXED: u64 = 576 << 10;
const READ_TO: u64 = 640 << 10;
/// Room for a block.
const BLOCK: u64 = 32 << 10;
/// A PE that waits says for what after so long, and looks again every so often (milliseconds).
const NOTE_AFTER: u64 = 20;
const LOOK: u64 = 200;
/// User of all jobs: may have any number.
pub(super) const USER: u32 = 0;

/// What the PEs of a job have posted, by source and target.
#[derive(Default)]
pub(super) struct Board {
    /// Values put, with their round.
    puts: BTreeMap<(usize, usize), Vec<(u32, u64)>>,
    /// Adds to a PE's word, by round.
    adds: BTreeMap<(usize, u32), u64>,
    /// What fetching adds have found there.
    found: BTreeSet<(usize, u64)>,
    /// Latest block: round, length, content.
    blocks: BTreeMap<(usize, usize), (u32, usize, u8)>,
    pub(super) ops: u64,
}

impl Board {
    fn adds_to(&self, pe: usize, upto: u32) -> u64 {
        self.adds.range((pe, 0)..=(pe, upto)).map(|(_, n)| n).sum()
    }
}

fn heap(offset: u64) -> Place {
    Place { region: Region::Heap, offset }
}

/// Bytes of a PE's memory, as its process sees them.
fn look(job: &JobMemory, pe: usize, offset: u64, len: usize) -> Vec<u8> {
    let (map, at) = job.resolve(pe, heap(offset), len, None).expect("inside the heap");
    map.read_vec(at, len).expect("inside the heap")
}

fn word(job: &JobMemory, pe: usize, offset: u64) -> u64 {
    u64::from_le_bytes(look(job, pe, offset, 8).try_into().expect("eight bytes"))
}

fn fixed(pe: usize, at: usize) -> u8 {
    (at * 7 + (at >> 8) + pe * 31 + 1) as u8
}

#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub(super) enum Phase {
    /// The process starts.
    Coming,
    Attaching,
    /// Waits for what it has posted.
    Quiet,
    Barrier,
    /// Between two rounds.
    Thinks,
    /// It has done everything and said goodbye.
    Done,
    /// It has ended otherwise.
    Gone,
}

type Claimed = Result<(Arc<JobMemory>, Arc<PeMemory>), String>;

/// A process.
pub(super) struct Pe {
    pub(super) pe: usize,
    pub(super) host: usize,
    /// Which of the host's daemons it belongs to.
    pub(super) life: u64,
    /// When it does something next.
    pub(super) at: u64,
    pub(super) phase: Phase,
    round: u32,
    claimed: Rc<RefCell<Option<Claimed>>>,
    /// Its daemon has closed the connection.
    closed: Rc<Cell<bool>>,
    memory: Option<(Arc<JobMemory>, Arc<PeMemory>)>,
    producer: Producer,
    /// Completion words awaited, and the numbers they will have.
    awaited: Vec<(u64, u64)>,
    /// Results of fetching adds in this round: where, and of which PE's word.
    fetches: Vec<(u64, usize)>,
    /// The block read in this round, of which PE, and its length.
    read: Option<(usize, usize)>,
    since: u64,
    looks: u32,
    /// Killed or exited before its time.
    pub(super) doomed: Option<bool>,
    random: Random,
}

impl Pe {
    pub(super) fn new(pe: usize, host: usize, life: u64, at: u64, seed: u64) -> Pe {
        Pe {
            pe,
            host,
            life,
            at,
            phase: Phase::Coming,
            round: 0,
            claimed: Rc::default(),
            closed: Rc::default(),
            memory: None,
            producer: Producer::default(),
            awaited: Vec::new(),
            fetches: Vec::new(),
            read: None,
            since: 0,
            looks: 0,
            doomed: None,
            random: Random::new(seed),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done | Phase::Gone)
    }

    pub(super) fn describe(&self) -> String {
        let error = self.memory.as_ref().and_then(|(_, m)| m.channel.error());
        format!(
            "PE {} on h{} {:?} round {} awaits {:?} {error:?}",
            self.pe, self.host, self.phase, self.round, self.awaited
        )
    }

    /// Its daemon is no more.
    pub(super) fn orphan(&mut self) {
        self.phase = Phase::Gone;
        self.memory = None;
    }

    /// Does the next thing, and says when it wants to go on. Wrong data is an error.
    pub(super) fn step(
        &mut self,
        now: u64,
        daemon: &Rc<Daemon>,
        tasks: &LocalSet,
        job: &mut JobView<'_>,
    ) -> Result<(), String> {
        self.at = now + 1;
        match self.phase {
            Phase::Coming => self.come(daemon, tasks, job),
            Phase::Attaching => {
                let claimed = self.claimed.borrow_mut().take();
                match claimed {
                    None if self.closed.get() => self.phase = Phase::Gone,
                    None => {}
                    Some(Err(_)) => self.phase = Phase::Gone,
                    Some(Ok((shared, own))) => self.begin(shared, own),
                }
            }
            Phase::Done | Phase::Gone => self.at = u64::MAX,
            _ => return self.go_on(now, daemon, tasks, job),
        }
        Ok(())
    }

    fn come(&mut self, daemon: &Rc<Daemon>, tasks: &LocalSet, job: &JobView<'_>) {
        self.phase = Phase::Attaching;
        let (daemon, result, closed, id, key, pe) =
            (daemon.clone(), self.claimed.clone(), self.closed.clone(), job.id, job.key.to_string(), self.pe);
        tasks.spawn_local(async move {
            let claim = async {
                let program = Program { architecture: Architecture::HERE, statics: &[] };
                let (shared, own, _) = daemon.claim(USER, (angara_abi::ABI_VERSION, id, &key, pe as u32), program)?;
                let close = Box::new(move || closed.set(true));
                daemon.attach(&shared, &own, Attached { close, process: None, pid: 0 }).await?;
                Ok((shared, own))
            };
            let claimed = claim.await.map_err(|f: angara_protocol::msg::Failure| f.message);
            *result.borrow_mut() = Some(claimed);
        });
    }

    fn begin(&mut self, shared: Arc<JobMemory>, own: Arc<PeMemory>) {
        let bytes: Vec<u8> = (0..BLOCK as usize).map(|at| fixed(self.pe, at)).collect();
        let (map, at) = shared.resolve(self.pe, heap(FIXED), bytes.len(), None).expect("inside the heap");
        map.write(at, &bytes).expect("inside the heap");
        self.memory = Some((shared, own));
        self.enter_barrier();
    }

    fn post(&mut self, d: Descriptor) -> u64 {
        let (_, own) = self.memory.as_ref().expect("attached");
        self.producer.post(&own.channel, d.encode()).expect("few posts are on their way").into()
    }

    fn await_post(&mut self, d: Descriptor) {
        let place = COMPLETIONS + 8 * self.awaited.len() as u64;
        let seq = self.post(Descriptor { completion: Some(heap(place)), ..d });
        self.awaited.push((place, seq));
    }

    fn enter_barrier(&mut self) {
        self.await_post(Descriptor::new(Op::Barrier));
        self.phase = Phase::Barrier;
    }

    /// Takes its leave, in order or not.
    fn leave(&mut self, daemon: &Rc<Daemon>, tasks: &LocalSet, phase: Phase, lost: bool) {
        self.phase = phase;
        let Some((shared, _)) = self.memory.take() else { return };
        let (daemon, pe) = (daemon.clone(), self.pe);
        tasks.spawn_local(async move { daemon.unseat(USER, (&shared, pe), lost).await });
    }

    fn go_on(&mut self, now: u64, daemon: &Rc<Daemon>, tasks: &LocalSet, job: &mut JobView<'_>) -> Result<(), String> {
        let (shared, own) = self.memory.clone().expect("attached");
        if shared.page.state() == JobState::Ended || self.closed.get() {
            self.leave(daemon, tasks, Phase::Gone, true);
            return Ok(());
        }
        if let Some(lost) = self.doomed {
            self.leave(daemon, tasks, Phase::Gone, lost);
            return Ok(());
        }
        if let Some((fault, _)) = own.channel.error() {
            // As the library does.
            daemon.abort(USER, (&shared, self.pe), 1, fault.describe().into(), false);
            self.leave(daemon, tasks, Phase::Gone, true);
            return Ok(());
        }
        self.check_bounds(&shared, job.board)?;
        if self.phase == Phase::Thinks {
            self.post_round(&shared, job);
            self.since = now;
            return Ok(());
        }
        self.awaited.retain(|(place, seq)| word(&shared, self.pe, *place) != *seq);
        if !self.awaited.is_empty() {
            self.note(now, &shared);
            return Ok(());
        }
        (self.since, self.looks) = (now, 0);
        shared.sync.note(self.pe).clear();
        if self.phase == Phase::Quiet {
            self.check_answers(&shared, job.board)?;
            self.enter_barrier();
            return Ok(());
        }
        self.check_round(&shared, job.board)?;
        if self.round == job.plan.rounds {
            self.leave(daemon, tasks, Phase::Done, false);
            return Ok(());
        }
        self.round += 1;
        self.phase = Phase::Thinks;
        self.at = now + 1 + self.random.below(job.plan.think);
        Ok(())
    }

    /// Says for what it waits, as the library does.
    fn note(&mut self, now: u64, shared: &JobMemory) {
        let waited = now - self.since;
        if waited >= NOTE_AFTER + LOOK * u64::from(self.looks) {
            shared.sync.note(self.pe).write(1, "others", self.looks);
            self.looks += 1;
        }
        // Often at first, then seldom: its time is not what is simulated.
        self.at = now + 1 + waited / 16;
    }

    fn post_round(&mut self, shared: &JobMemory, job: &mut JobView<'_>) {
        let pes = job.plan.nodes.len();
        let mut touched = BTreeSet::new();
        for i in 0..job.plan.ops {
            let to = self.random.below(pes as u64) as usize;
            touched.insert(to);
            job.board.ops += 1;
            self.post_one(i, to, shared, job.board);
        }
        for to in touched {
            let d = Descriptor {
                len: 8,
                local: Some(heap(RESULTS + 2048)),
                remote: Some(heap(SUM)),
                ..self.to(shared, to, Op::Get)
            };
            self.await_post(d);
        }
        self.phase = Phase::Quiet;
    }

    fn to(&self, shared: &JobMemory, to: usize, op: Op) -> Descriptor {
        let entry = shared.entries[to];
        let class = op.facts().counted.map_or(Class::Sync, Counted::class);
        Descriptor { class, dst: entry.coords, endpoint: entry.endpoint, ..Descriptor::new(op) }
    }

    fn post_one(&mut self, i: u64, to: usize, shared: &JobMemory, board: &mut Board) {
        let (me, round) = (self.pe, self.round);
        let add = |d: Descriptor| Descriptor { amo: AmoOp::Add, width: 8, operand: 1, remote: Some(heap(SUM)), ..d };
        match self.random.below(8) {
            0 => {
                *board.adds.entry((to, round)).or_default() += 1;
                self.post(add(self.to(shared, to, Op::Amo)));
            }
            1 | 2 => {
                *board.adds.entry((to, round)).or_default() += 1;
                let place = RESULTS + 8 * i;
                self.fetches.push((place, to));
                self.await_post(Descriptor { local: Some(heap(place)), ..add(self.to(shared, to, Op::Amo)) });
            }
            3 if board.blocks.get(&(me, to)).is_none_or(|b| b.0 < round) => {
                let len = self.random.of(&[300, 2000, 20_000]);
                let fill = (round as u8).wrapping_mul(17) ^ (me as u8) << 4 ^ to as u8;
                board.blocks.insert((me, to), (round, len, fill));
                let source = SOURCES + to as u64 * BLOCK;
                let (map, at) = shared.resolve(me, heap(source), len, None).expect("inside the heap");
                map.write(at, &vec![fill; len]).expect("inside the heap");
                let (local, remote) = (Some(heap(source)), Some(heap(BLOCKS + me as u64 * BLOCK)));
                self.post(Descriptor { len: len as u32, local, remote, ..self.to(shared, to, Op::Put) });
            }
            4 if self.read.is_none() => {
                let len = self.random.of(&[64, 3000, 30_000]);
                self.read = Some((to, len));
                let (local, remote) = (Some(heap(READ_TO)), Some(heap(FIXED)));
                self.await_post(Descriptor { len: len as u32, local, remote, ..self.to(shared, to, Op::Get) });
            }
            _ => {
                let value = u64::from(round) << 32 | (i + 1);
                board.puts.entry((me, to)).or_default().push((round, value));
                let remote = Some(heap(CELLS + 8 * me as u64));
                self.post(Descriptor { len: 8, operand: value, remote, ..self.to(shared, to, Op::PutInline) });
            }
        }
    }

    /// Nothing came twice or from nowhere.
    fn check_bounds(&self, shared: &JobMemory, board: &Board) -> Result<(), String> {
        let (sum, posted) = (word(shared, self.pe, SUM), board.adds_to(self.pe, u32::MAX));
        if sum > posted {
            return Err(format!("PE {} of job {}: {sum} adds executed, {posted} posted", self.pe, shared.id));
        }
        Ok(())
    }

    fn check_answers(&mut self, shared: &JobMemory, board: &mut Board) -> Result<(), String> {
        for (place, of) in std::mem::take(&mut self.fetches) {
            let old = word(shared, self.pe, place);
            if !board.found.insert((of, old)) {
                return Err(format!("job {}: two adds to PE {of} have found {old}", shared.id));
            }
        }
        if let Some((of, len)) = self.read.take() {
            // A PE that has not come yet has not written its block.
            let got = look(shared, self.pe, READ_TO, len);
            if let Some(at) = (0..len).find(|at| got[*at] != fixed(of, *at)) {
                return Err(format!(
                    "PE {} of job {} read {len} bytes of PE {of}, byte {at} is wrong",
                    self.pe, shared.id
                ));
            }
        }
        Ok(())
    }

    /// Behind the barrier of a round everything of that round is here.
    fn check_round(&self, shared: &JobMemory, board: &Board) -> Result<(), String> {
        let (me, round, id) = (self.pe, self.round, shared.id);
        let (sum, least) = (word(shared, me, SUM), board.adds_to(me, round));
        if sum < least {
            return Err(format!("PE {me} of job {id}, round {round}: {sum} adds have come, of {least}"));
        }
        for (&(from, _), puts) in board.puts.range(..).filter(|((_, to), _)| *to == me) {
            let value = word(shared, me, CELLS + 8 * from as u64);
            let least = puts.iter().rev().find(|(r, _)| *r <= round).map_or(0, |(_, v)| *v);
            let most = puts.last().map_or(0, |(_, v)| *v);
            if value < least || value > most {
                return Err(format!(
                    "PE {me} of job {id}, round {round}: {value:#x} from PE {from}, not {least:#x} to {most:#x}"
                ));
            }
        }
        for (&(from, _), &(of, len, fill)) in board.blocks.iter().filter(|((_, to), b)| *to == me && b.0 <= round) {
            let got = look(shared, me, BLOCKS + from as u64 * BLOCK, len);
            if let Some(at) = got.iter().position(|b| *b != fill) {
                return Err(format!("PE {me} of job {id}: byte {at} of {len} from PE {from} in round {of} is wrong"));
            }
        }
        Ok(())
    }
}

/// What a PE knows of its job.
pub(super) struct JobView<'a> {
    pub(super) id: JobId,
    pub(super) key: &'a str,
    pub(super) plan: &'a JobPlan,
    pub(super) board: &'a mut Board,
}
