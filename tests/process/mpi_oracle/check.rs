//! What a random program must have observed: MPI's rules of matching, what collectives and windows hold, and the order
//! of time.

use super::program::{Access, COUNTERS, Ends, FETCHED, Op, Program, add, comm_rank, data};
use std::collections::BTreeMap;

/// What a look at the clock takes, which is read before and after each step, nanoseconds.
const CLOCK: i64 = 25;
/// Half a round trip without any flit: injection, a hop and ejection without what their overlap saves, picoseconds.
const EMPTY: u64 = 728_000;
/// Each link more.
const HOP: u64 = 129_000;
/// What the sender's own credit may take in front of a message: it goes once in 64 slots that the sender has read. That
/// this is what delays about one of 20 trips with MPICH by 2 ns has not been looked into.
const CREDIT: i64 = 8;
/// Above it a message is offered first.
pub(super) const EAGER: usize = 16_352;

/// What was fetched and added to, by window and rank: old value, what was added, step.
type Fetched = BTreeMap<(usize, usize), Vec<(u64, u64, usize)>>;

/// A line of a log, times in nanoseconds.
pub(super) struct Seen {
    pub(super) begin: i64,
    pub(super) end: i64,
    words: Vec<String>,
}

/// Lines of one program by step.
pub(super) type Log = BTreeMap<usize, Seen>;

/// Logs by program.
pub(super) fn read(texts: &[String]) -> Result<BTreeMap<u64, Log>, String> {
    let mut logs: BTreeMap<u64, Log> = BTreeMap::new();
    for line in texts.iter().flat_map(|text| text.lines()) {
        let mut words = line.split_whitespace();
        let mut number = || words.next().and_then(|word| word.parse::<i64>().ok()).ok_or(format!("log: {line}"));
        let (program, step, begin, end) = (number()?, number()?, number()? / 1000, number()? / 1000);
        let seen = Seen { begin, end, words: words.map(str::to_string).collect() };
        logs.entry(program as u64).or_default().insert(step as usize, seen);
    }
    Ok(logs)
}

fn sum(bytes: &[u8]) -> String {
    let all = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |s, b| (s ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
    format!("{all:x}")
}

/// Flits of an eager message: a head of 32 bytes and the data end in a slot that holds 240 bytes and a trailer; what
/// does
/// not fit goes before it, 256 bytes a packet. A packet has a header and a tail.
fn flits(bytes: usize) -> u64 {
    let message = 32 + bytes;
    let before = message.saturating_sub(240);
    let packet = |bytes: usize| if bytes == 0 { 0 } else { bytes.div_ceil(16) + 2 };
    (before / 256 * 18 + packet(before % 256) + packet(message.min(240) + 16)) as u64
}

/// Nanoseconds, rounded down, that an eager message takes on an idle ring of N ranks, from the call of the send
/// to
/// the return of a receive that waits. A flit takes 6400/3 ps on a link.
fn trip(ranks: usize, from: usize, to: usize, bytes: usize) -> i64 {
    let apart = from.abs_diff(to);
    let hops = apart.min(ranks - apart) as u64;
    ((EMPTY + (hops - 1) * HOP + flits(bytes) * 6400 / 3) / 1000) as i64
}

/// A message as a rank received it.
struct Got<'a> {
    source: usize,
    words: &'a [String],
}

pub(super) struct Checker<'a> {
    pub(super) program: &'a Program,
    pub(super) log: &'a Log,
}

impl Checker<'_> {
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(step) = (0..self.program.steps.len()).find(|step| !self.log.contains_key(step)) {
            return Err(format!("step {step}: nothing was observed"));
        }
        self.clocks()?;
        self.messages()?;
        self.collectives()?;
        self.windows()?;
        self.trips()
    }

    fn times(&self, step: usize) -> (i64, i64) {
        (self.log[&step].begin, self.log[&step].end)
    }

    /// `later` does not end before `ns` after `earlier` began.
    fn after(&self, later: usize, earlier: usize, ns: i64, why: &str) -> Result<(), String> {
        let ((begin, _), (_, end)) = (self.times(earlier), self.times(later));
        if end >= begin + ns {
            return Ok(());
        }
        Err(format!("step {later} ends at {end} ns, {ns} ns after step {earlier} begins at {begin} ns at least: {why}"))
    }

    /// No clock goes back, and sleeping takes what was asked for.
    fn clocks(&self) -> Result<(), String> {
        let mut last = vec![0; self.program.ranks];
        for (i, step) in self.program.steps.iter().enumerate() {
            let (begin, end) = self.times(i);
            if begin < last[step.rank] || end < begin {
                return Err(format!("step {i}: from {begin} to {end} ns, after {}", last[step.rank]));
            }
            last[step.rank] = end;
            if let Op::Sleep(ns) = step.op
                && (end - begin - CLOCK).abs_diff(ns as i64) > 1
            {
                return Err(format!("step {i}: a sleep of {ns} ns took {} ns", end - begin - CLOCK));
            }
        }
        Ok(())
    }

    /// What a slot said in the wait that ended it.
    fn slot(&self, step: usize, slot: usize) -> Result<&[String], String> {
        let words = &self.log[&step].words;
        let mut parts = words.split(|word| word == "|");
        let said = parts.find(|part| part.first() == Some(&slot.to_string()));
        said.map(|part| &part[1..]).ok_or(format!("step {step}: slot {slot} did not end"))
    }

    /// What each receive got.
    fn got(&self) -> Result<BTreeMap<usize, Got<'_>>, String> {
        let mut all = BTreeMap::new();
        for (i, step) in self.program.steps.iter().enumerate() {
            let found: Vec<(usize, &[String])> = match &step.op {
                Op::Recv(r) | Op::Ask(_, r) | Op::Sendrecv(_, r) => vec![(*r, &self.log[&i].words[..])],
                Op::Wait(_, slots) => {
                    let mut found = Vec::new();
                    for (slot, ends) in slots {
                        let words = self.slot(i, *slot)?;
                        if let Ends::Receive(r) = ends {
                            found.push((*r, words));
                        }
                    }
                    found
                }
                _ => continue,
            };
            for (r, words) in found {
                let source = words.first().and_then(|word| word.parse::<usize>().ok());
                let Some(source) = source.filter(|s| *s < self.program.ranks && words.len() >= 4) else {
                    return Err(format!("step {i}: received {words:?}"));
                };
                let comm = self.program.receives[r].comm;
                all.insert(r, Got { source: comm_rank(self.program.ranks, comm, source), words });
            }
        }
        Ok(all)
    }

    /// In the order in which receives are posted, each gets of the source that it says the first message that fits and
    /// that none before it got.
    fn messages(&self) -> Result<(), String> {
        let Program { ranks, messages, receives, .. } = self.program;
        let got = self.got()?;
        let mut order: Vec<usize> = (0..receives.len()).collect();
        order.sort_by_key(|r| receives[*r].posted);
        let mut sent: Vec<usize> = (0..messages.len()).collect();
        sent.sort_by_key(|m| messages[*m].started);
        let mut taken = vec![false; messages.len()];
        for r in order {
            let (receive, Got { source, words }) = (&receives[r], &got[&r]);
            let (posted, ended) = (receive.posted.expect("posted"), receive.ended.expect("ended"));
            let fits = |m: &&usize| !taken[**m] && messages[**m].from == *source && receive.fits(&messages[**m]);
            let Some(&m) = sent.iter().find(fits) else {
                return Err(format!("step {ended}: a message of rank {source} that there is not: {words:?}"));
            };
            taken[m] = true;
            let message = &messages[m];
            let rank = comm_rank(*ranks, message.comm, message.from).to_string();
            let bytes = data(self.program.message_data(m), message.bytes);
            let mut wanted = vec![rank.clone(), message.tag.to_string(), message.bytes.to_string(), sum(&bytes)];
            if words.len() > 4 {
                wanted.extend([rank, message.tag.to_string(), message.bytes.to_string()]);
            }
            if wanted != *words {
                return Err(format!("step {ended}: received {words:?}, message {m} is {wanted:?}"));
            }
            let started = message.started.expect("started");
            let way = match message.from == message.to {
                true => 0,
                false => trip(*ranks, message.from, message.to, message.bytes.min(EAGER)),
            };
            self.after(ended, started, way, "a message takes the time of the network")?;
            // A blocking send that has to wait for its receive.
            let back = if way == 0 { 0 } else { (EMPTY / 1000) as i64 };
            if let (true, Some(sent)) = (message.mode == 's', message.ended) {
                self.after(sent, posted, back, "a synchronous send waits for its receive")?;
            }
        }
        Ok(())
    }

    /// The contribution of each rank, and what a rank gets.
    fn result(&self, c: usize, rank: usize) -> Vec<u8> {
        let collective = &self.program.collectives[c];
        let ranks = self.program.ranks;
        let (me, root) = (comm_rank(ranks, collective.comm, rank), comm_rank(ranks, collective.comm, collective.root));
        let bytes = 8 * collective.words;
        let of = |rank: usize| data(self.program.part(c, rank), bytes);
        let block =
            |of: usize, which: usize| data(self.program.part(c, of), bytes * ranks)[which * bytes..][..bytes].to_vec();
        let sums = |last: usize| {
            let mut all = vec![0; bytes];
            (0..=last).for_each(|rank| add(&mut all, &of(rank)));
            all
        };
        let at_root = |result: Vec<u8>| if me == root { result } else { Vec::new() };
        match collective.name {
            "barrier" => Vec::new(),
            "bcast" => of(root),
            "reduce" => at_root(sums(ranks - 1)),
            "allreduce" => sums(ranks - 1),
            "scan" => sums(me),
            "gather" => at_root((0..ranks).flat_map(of).collect()),
            "allgather" => (0..ranks).flat_map(of).collect(),
            "scatter" => block(root, me),
            _ => (0..ranks).flat_map(|from| block(from, me)).collect(),
        }
    }

    fn collectives(&self) -> Result<(), String> {
        let ranks = self.program.ranks;
        for (c, collective) in self.program.collectives.iter().enumerate() {
            for rank in 0..ranks {
                let (started, ended) =
                    (collective.started[rank].expect("begun"), collective.ended[rank].expect("ended"));
                let words = match &self.program.steps[ended].op {
                    Op::Wait(_, slots) => {
                        let is = |(_, ends): &&(usize, Ends)| matches!(ends, Ends::Collective(which) if *which == c);
                        self.slot(ended, slots.iter().find(is).expect("a slot").0)?
                    }
                    _ => &self.log[&started].words[..],
                };
                let (said, wanted) = (words.first().cloned().unwrap_or_default(), sum(&self.result(c, rank)));
                if said != wanted {
                    return Err(format!("step {ended}: {} gave {said}, not {wanted}", collective.name));
                }
                // Whoever needs the part of another rank does not end before that rank began.
                let me = comm_rank(ranks, collective.comm, rank);
                for other in (0..ranks).filter(|other| *other != rank) {
                    let root = |rank: usize| rank == collective.root;
                    let needs = match collective.name {
                        "bcast" | "scatter" => root(other),
                        "reduce" | "gather" => root(rank),
                        "scan" => comm_rank(ranks, collective.comm, other) < me,
                        _ => true,
                    };
                    if needs {
                        let begun = collective.started[other].expect("begun");
                        self.after(ended, begun, (EMPTY / 1000) as i64, "a collective needs what the other has")?;
                    }
                }
            }
        }
        Ok(())
    }

    fn windows(&self) -> Result<(), String> {
        // What was fetched from a word and added to it, by window and rank: old value, what was added, step.
        let mut fetched = Fetched::new();
        for (i, step) in self.program.steps.iter().enumerate() {
            match &step.op {
                Op::Window(window, bytes) => {
                    let wanted = sum(&self.program.memory[&(*window, step.rank)][..*bytes]);
                    if self.log[&i].words != [wanted.clone()] {
                        return Err(format!("step {i}: the window has {:?}, not {wanted}", self.log[&i].words));
                    }
                }
                Op::Epoch { how, window, accesses, .. } => {
                    self.epoch(i, *window, accesses, &mut fetched)?;
                    // Only these end after what they did has come to the other rank.
                    if ["shared", "exclusive", "all"].contains(how) {
                        self.there(i, *window, accesses)?;
                    }
                }
                _ => {}
            }
        }
        for ((window, rank), mut all) in fetched {
            let (mut value, mut latest) = (0, None::<usize>);
            while !all.is_empty() {
                let Some(next) = all.iter().position(|(old, ..)| *old == value) else {
                    return Err(format!("window {window} of rank {rank}: {value:x} was fetched by none of {all:x?}"));
                };
                let (_, added, step) = all.remove(next);
                // One that ended before another began was first.
                if let Some(before) = latest
                    && self.times(step).1 < self.times(before).0
                {
                    return Err(format!("step {step} fetched after step {before}, which began when it had ended"));
                }
                (value, latest) = (value.wrapping_add(added), Some(step));
            }
        }
        Ok(())
    }

    fn epoch(&self, i: usize, window: usize, accesses: &[Access], fetched: &mut Fetched) -> Result<(), String> {
        let rank = self.program.steps[i].rank;
        let mut words = self.log[&i].words.chunks(2);
        for access in accesses.iter().filter(|access| ['g', 'o'].contains(&access.what)) {
            let Some([sums, first]) = words.next() else {
                return Err(format!("step {i}: less was got than asked for"));
            };
            if access.what == 'g' {
                let wanted = sum(&data(access.data, access.bytes));
                if *sums != wanted {
                    return Err(format!("step {i}: got {sums} from {} on, not {wanted}", access.offset));
                }
            } else {
                assert_eq!((access.offset, access.bytes), (FETCHED, COUNTERS - FETCHED));
                let added = u64::from_le_bytes(data(access.data, 8).try_into().expect("eight bytes"));
                let held = if window == 2 { rank } else { access.target };
                let old = u64::from_str_radix(first, 16).map_err(|e| format!("step {i}: {first}: {e}"))?;
                fetched.entry((window, held)).or_default().push((old, added, i));
            }
        }
        Ok(())
    }

    /// An epoch at another rank takes the way to it.
    fn there(&self, i: usize, window: usize, accesses: &[Access]) -> Result<(), String> {
        let rank = self.program.steps[i].rank;
        let away = |a: &Access| window != 2 && a.target != rank && a.bytes > 0;
        let (begin, end) = self.times(i);
        if accesses.iter().any(away) && end - begin < (EMPTY / 1000) as i64 {
            return Err(format!("step {i}: an epoch with another rank took {} ns", end - begin));
        }
        Ok(())
    }

    /// A message that travels alone takes what the model of the network says.
    fn trips(&self) -> Result<(), String> {
        for m in &self.program.trips {
            let message = &self.program.messages[*m];
            let (sent, received) = (message.started.expect("started"), message.started.expect("started") + 1);
            if message.bytes > EAGER {
                continue;
            }
            let wanted = trip(self.program.ranks, message.from, message.to, message.bytes) + CLOCK;
            let took = self.times(received).1 - self.times(sent).0;
            // Both times are cut off to whole nanoseconds.
            if !(wanted - 1..=wanted + 1 + CREDIT).contains(&took) {
                return Err(format!("step {received}: {} bytes took {took} ns, not {wanted}", message.bytes));
            }
        }
        Ok(())
    }
}
