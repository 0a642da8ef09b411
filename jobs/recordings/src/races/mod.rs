//! Races between calls: `angara run --check=races`.
//!
//! PEs note their calls ([`crate::notes`]), each with the line of the program it comes from. When the job has ended,
//! [`steps`] puts them in order, [`order`] finds what each PE could know of the others, through [`words`] that tell it,
//! and [`shadow`] finds accesses to the same bytes of which at least one writes and none is known to be over before the
//! other begins.

mod order;
mod shadow;
mod steps;
mod words;

use crate::notes::Notes;
use angara_abi::desc::Region;
use angara_abi::job::INTERNAL_BYTES;
use angara_control::error::Failed;
use angara_protocol::calls::Memory;
use indicatif::{ProgressBar, ProgressStyle};
use shadow::{AccessKind, At, Of, Op};
use std::collections::HashMap;
use std::rc::Rc;
use steps::Log;

/// Most races that are printed; each is a pair of lines of the program.
const SHOWN: usize = 20;
/// From this many calls on a look at them shows how far it is.
const MANY: u64 = 1_000_000;

/// A place in memory of a PE.
fn at(memory: Memory) -> At {
    match memory {
        Memory::Symmetric(place) if place.region == Region::Static => At { of: Of::Static, offset: place.offset },
        Memory::Symmetric(place) => At { of: Of::Heap, offset: place.offset },
        Memory::Private(address) => At { of: Of::Private, offset: address },
    }
}

/// One side of a race: a line of the program, and what it does there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Side {
    routine: u32,
    site: u32,
    kind: AccessKind,
}

/// A race, as often as it was found between the same lines.
#[derive(Debug)]
struct Race {
    sides: [(Side, u32); 2],
    /// Place of the first occurrence: whose memory, and where; `None` for arrays that collectives work with.
    place: Option<(u32, At, u64)>,
    times: u64,
}

/// All races that were found.
#[derive(Default, Debug)]
struct Found {
    races: Vec<Race>,
    known: HashMap<[Side; 2], usize>,
}

impl Found {
    fn add(&mut self, log: &Log, (first, second): (&Rc<Op>, &Rc<Op>), place: Option<(u32, At, u64)>) {
        let side = |op: &Op| {
            let call = &log.calls[op.pe as usize][op.call as usize];
            Side { routine: call.routine, site: call.site, kind: op.kind }
        };
        let sides = [side(first), side(second)];
        // The same two lines in the other order are the same race.
        let known = self.known.get(&sides).or_else(|| self.known.get(&[sides[1], sides[0]]));
        if let Some(known) = known {
            self.races[*known].times += 1;
            return;
        }
        self.known.insert(sides, self.races.len());
        let [a, b] = sides;
        self.races.push(Race { sides: [(a, first.pe), (b, second.pe)], place, times: 1 });
    }
}

impl Race {
    /// In words.
    fn shown(&self, log: &Log) -> String {
        let side = |(side, pe): (Side, u32)| {
            let does = match (self.place, side.kind) {
                (None, _) => "",
                (_, AccessKind::Read) => " reads",
                (_, AccessKind::Write) => " writes",
                (_, AccessKind::Atomic) => " (an atomic)",
            };
            let what = match log.text(side.routine) {
                "" => String::new(),
                routine => format!("{routine} "),
            };
            let at = match log.text(side.site) {
                "" => String::new(),
                site => format!("at {site}"),
            };
            format!("PE {pe} {}{}{does}", what, at)
        };
        let [first, second] = self.sides.map(side);
        let times = if self.times == 1 { String::new() } else { format!(", {} times", self.times) };
        let Some((pe, at, len)) = self.place else {
            return format!("race: {second} with a work array that {first} may still use{times}");
        };
        let place = match at.of {
            // As messages of the library count: from where the program's part begins.
            Of::Heap => format!("heap+{:#x} of PE {pe}", at.offset.saturating_sub(INTERNAL_BYTES as u64)),
            Of::Static => format!("static+{:#x} of PE {pe}", at.offset),
            Of::Private => format!("private memory of PE {pe} at {:#x}", at.offset),
        };
        let (bytes, s) = (len, if len == 1 { "" } else { "s" });
        format!("race: {first} and {second} the same {bytes} byte{s}, {place}{times}")
    }

    /// Returns what would put them in order.
    fn remedy(&self) -> &'static str {
        let [(_, first), (_, second)] = self.sides;
        match self.place {
            None => "a barrier between the two collectives would help, or an array of its own for each",
            Some(_) if first == second => "shmem_quiet between them would put them in order",
            Some(_) => {
                "nothing puts one before the other: a barrier would, a lock that both take, or shmem_quiet (to the same PE: \
                 shmem_fence) and then a flag that the other waits for"
            }
        }
    }
}

/// Looks for races in what `pes` PEs have noted, and prints them. Returns how many pairs of lines there were. Unless `quiet`, says also
/// that there were none, and among how many calls.
pub fn check(notes: &Notes, pes: u32, quiet: bool) -> Result<usize, Failed> {
    let failed = |e: std::io::Error| {
        Failed::runtime(format!("cannot look for races: {e}"), "make room for temporary files (`df`), or set TMPDIR")
    };
    let log = Log::read(notes, pes).map_err(failed)?;
    let calls: u64 = log.calls.iter().map(|calls| calls.len() as u64).sum();
    if calls == 0 {
        return Err(Failed::runtime(
            "races were not looked for: no PE has noted a call",
            "only calls of OpenSHMEM are noted; compile the program with oshcc --check-races",
        ));
    }
    let progress = progress(2 * calls);
    let found = order::races(&log, || progress.inc(1));
    progress.finish_and_clear();
    if log.incomplete > 0 {
        angara_protocol::complain!(
            "angara: {} PEs have not noted all of their calls: races may be missing",
            log.incomplete
        );
    }
    if found.races.is_empty() && !quiet {
        let plural = |n: u64| if n == 1 { "" } else { "s" };
        let (s, of) = (plural(calls), plural(pes.into()));
        angara_protocol::complain!("angara: no races: {calls} call{s} of {pes} PE{of} looked at");
    }
    for race in found.races.iter().take(SHOWN) {
        angara_protocol::complain!("angara: {}\nangara:   {}", race.shown(&log), race.remedy());
    }
    if found.races.len() > SHOWN {
        angara_protocol::complain!("angara: and {} races between other lines", found.races.len() - SHOWN);
    }
    Ok(found.races.len())
}

/// Shows on a terminal how many of `steps` are done, where there are so many that it takes a while.
fn progress(steps: u64) -> ProgressBar {
    if steps < 2 * MANY {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("races: {percent} %, {eta} left").expect("it is well formed");
    ProgressBar::new(steps).with_style(style)
}
