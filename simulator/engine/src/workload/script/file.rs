//! Scripts as files: a line per step, under the number of the PE that does it.

use super::{Operation, Stage, Step, Store};
use crate::Error;
use angara_abi::desc::AmoOp;
use angara_fabric::{BarrierFamily, Tick};
use angara_net::torus::{NodeId, Shape};
use angara_net::units;
use std::path::{Path, PathBuf};

/// Most PEs of a script.
const PES_MAX: NodeId = 1 << 15;
/// Words of a PE that steps may name.
const WORDS: u32 = 1 << 16;
/// Bytes of a word.
const WORD: u64 = 8;
/// Processor time of a post unless the file says otherwise, ps: the default of `angara run --call-cost`.
const OVERHEAD: Tick = 1_000;

/// The steps, and how they are written.
const FORMS: [(&str, &str); 13] = [
    ("compute", "compute TIME"),
    ("put", "put PE BYTES [WORD VALUE]"),
    ("get", "get PE BYTES"),
    ("start-get", "start-get PE BYTES"),
    ("gets", "gets"),
    ("atomic", "atomic PE WORD add|xor|and|or|swap VALUE, or atomic PE WORD cswap VALUE IF"),
    ("fetch", "fetch PE WORD read, or fetch PE WORD add|xor|and|or|swap VALUE, or fetch PE WORD cswap VALUE IF"),
    ("fence", "fence"),
    ("quiet", "quiet"),
    ("wait", "wait WORD VALUE"),
    ("barrier", "barrier"),
    ("sync", "sync"),
    ("pe", "pe NUMBER"),
];

/// A step as it is written.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Written {
    Step(Step),
    Operation(Operation),
}

/// A line of a PE's program.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// Its number in the file, from 1.
    pub number: usize,
    /// Its words, with one space between them.
    pub text: String,
    what: Written,
}

impl Line {
    /// True if it waits for the network or another PE.
    pub fn waits(&self) -> bool {
        match self.what {
            Written::Step(Step::Compute(_) | Step::Fence) => false,
            Written::Step(_) => true,
            Written::Operation(Operation::Get { wait, .. }) => wait,
            Written::Operation(Operation::Atomic { fetch, .. }) => fetch,
            Written::Operation(Operation::Put { .. }) => false,
        }
    }
}

/// A script as its file says it.
#[derive(Clone, PartialEq, Debug)]
pub struct Script {
    path: PathBuf,
    /// Processor time of a post, ps.
    pub overhead: Tick,
    /// How barriers are done.
    pub barrier: BarrierFamily,
    /// The node of each PE as it is written, and in which line; without it PE i is on node i.
    nodes: Option<(usize, Vec<String>)>,
    /// Lines of each PE.
    pub programs: Vec<Vec<Line>>,
}

/// Reads the words of a line; errors name the word at fault.
struct Words<'a> {
    all: std::str::SplitWhitespace<'a>,
    form: &'static str,
}

type Read<T> = Result<T, String>;

impl<'a> Words<'a> {
    fn next(&mut self) -> Read<&'a str> {
        self.all.next().ok_or_else(|| format!("something is missing; write {}", self.form))
    }

    fn number<T: TryFrom<u64>>(&mut self, what: &str, range: std::ops::RangeInclusive<u64>) -> Read<T> {
        let text = self.next()?;
        let number = text.parse().ok().filter(|n| range.contains(n)).and_then(|n| T::try_from(n).ok());
        let (first, last) = (range.start(), range.end());
        number.ok_or_else(|| format!("`{text}` is no {what}: give a number from {first} to {last}"))
    }

    fn pe(&mut self) -> Read<NodeId> {
        self.number("PE", 0..=u64::from(PES_MAX) - 1)
    }

    fn word(&mut self) -> Read<u32> {
        self.number("word", 0..=u64::from(WORDS) - 1)
    }

    fn value(&mut self) -> Read<u64> {
        self.number("value", 0..=u64::MAX)
    }

    fn bytes(&mut self) -> Read<u32> {
        let text = self.next()?;
        let bytes = units::bytes(text).and_then(|b| u32::try_from(b).ok()).filter(|b| *b > 0);
        bytes.ok_or_else(|| format!("`{text}` is no size: give bytes below 4G, such as 64 or 4K"))
    }

    fn time(&mut self) -> Read<Tick> {
        let text = self.next()?;
        units::time(text).ok_or_else(|| format!("`{text}` is no time: write it as 300ns or 1.5us"))
    }

    /// There may be no more.
    fn end(&mut self) -> Read<()> {
        match self.all.next() {
            Some(more) => Err(format!("`{more}` is too much; write {}", self.form)),
            None => Ok(()),
        }
    }
}

/// Reads one step of PE `me`.
fn step(me: NodeId, name: &str, words: &mut Words<'_>) -> Read<Written> {
    let other = |pe: NodeId| match pe == me {
        true => Err(format!("PE {me} names itself: its own memory needs no network; use compute")),
        false => Ok(pe),
    };
    Ok(match name {
        "compute" => Written::Step(Step::Compute(words.time()?)),
        "put" => {
            let (to, bytes) = (other(words.pe()?)?, words.bytes()?);
            let store = match words.all.clone().next() {
                Some(_) => Some(Store { word: words.word()?, value: words.value()? }),
                None => None,
            };
            check_store(bytes, store)?;
            Written::Operation(Operation::Put { to, bytes, store })
        }
        "get" | "start-get" => {
            let (from, bytes) = (other(words.pe()?)?, words.bytes()?);
            Written::Operation(Operation::Get { from, bytes, wait: name == "get" })
        }
        "atomic" | "fetch" => {
            let (at, word, fetch) = (other(words.pe()?)?, words.word()?, name == "fetch");
            let op = match words.next()? {
                "add" => AmoOp::Add,
                "xor" => AmoOp::Xor,
                "and" => AmoOp::And,
                "or" => AmoOp::Or,
                "swap" => AmoOp::Swap,
                "cswap" => AmoOp::CompareSwap,
                "read" if fetch => AmoOp::Fetch,
                unknown => return Err(format!("`{unknown}` is no operation; write {}", words.form)),
            };
            let operand = if op == AmoOp::Fetch { 0 } else { words.value()? };
            let comparand = if op == AmoOp::CompareSwap { words.value()? } else { 0 };
            Written::Operation(Operation::Atomic { at, word, op, operand, comparand, fetch })
        }
        "wait" => Written::Step(Step::Wait { word: words.word()?, value: words.value()? }),
        "gets" => Written::Step(Step::Gets),
        "fence" => Written::Step(Step::Fence),
        "quiet" => Written::Step(Step::Quiet),
        "sync" => Written::Step(Step::Barrier { half: true }),
        "barrier" => Written::Step(Step::Barrier { half: false }),
        _ => {
            let names: Vec<&str> = FORMS.iter().map(|form| form.0).collect();
            return Err(format!("`{name}` is no step; there are {}", names.join(", ")));
        }
    })
}

fn check_store(bytes: u32, store: Option<Store>) -> Read<()> {
    match store {
        Some(_) if !u64::from(bytes).is_multiple_of(WORD) => {
            Err(format!("{bytes} bytes are no whole words of {WORD}; leave WORD and VALUE out"))
        }
        Some(store) if u64::from(store.word) + u64::from(bytes) / WORD > u64::from(WORDS) => {
            Err(format!("{bytes} bytes from word {} on go beyond word {}", store.word, WORDS - 1))
        }
        _ => Ok(()),
    }
}

impl Script {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or a line of it is wrong.
    pub fn read(path: &Path) -> Result<Script, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::File { path: path.into(), source })?;
        Script::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Script, Error> {
        let (path, programs) = (PathBuf::from(path), Vec::new());
        let mut script = Script { path, overhead: OVERHEAD, barrier: BarrierFamily::default(), nodes: None, programs };
        let mut pe = None;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            script.line(&mut pe, number, line).map_err(|message| script.wrong(number, message))?;
        }
        script.add_silent_pes();
        match script.programs.iter().all(Vec::is_empty) {
            true => Err(script.wrong(1, "no PE does anything; write pe 0 and its steps below".into())),
            false => Ok(script),
        }
    }

    fn line(&mut self, pe: &mut Option<NodeId>, number: usize, line: &str) -> Read<()> {
        let mut all = line.split_whitespace();
        let Some(name) = all.next() else { return Ok(()) };
        let head = |form| Words { all: all.clone(), form };
        match name {
            "overhead" | "barriers" | "nodes" if pe.is_some() => {
                return Err(format!("`{name}` goes before the first pe"));
            }
            "overhead" => {
                let mut words = head("overhead TIME");
                self.overhead = words.time()?;
                return words.end();
            }
            "barriers" => {
                let mut words = head("barriers FAMILY");
                self.barrier = words.next()?.parse()?;
                return words.end();
            }
            "nodes" => {
                self.nodes = Some((number, all.map(String::from).collect()));
                return Ok(());
            }
            "pe" => {
                let mut words = head("pe NUMBER");
                let me = words.pe()?;
                self.reach(me);
                *pe = Some(me);
                return words.end();
            }
            _ => {}
        }
        let me = pe.ok_or_else(|| format!("`{name}` belongs to no PE; write pe 0 above it"))?;
        let form = FORMS.iter().find(|form| form.0 == name).map_or("", |form| form.1);
        let mut words = head(form);
        let what = step(me, name, &mut words)?;
        words.end()?;
        let text = line.split_whitespace().collect::<Vec<_>>().join(" ");
        self.programs[me as usize].push(Line { number, text, what });
        Ok(())
    }

    /// There is a PE `pe`.
    fn reach(&mut self, pe: NodeId) {
        if self.programs.len() <= pe as usize {
            self.programs.resize(pe as usize + 1, Vec::new());
        }
    }

    /// Those that are only named by others, or have a node, exist, too.
    fn add_silent_pes(&mut self) {
        let target = |line: &Line| match line.what {
            Written::Operation(Operation::Put { to: pe, .. })
            | Written::Operation(Operation::Get { from: pe, .. })
            | Written::Operation(Operation::Atomic { at: pe, .. }) => Some(pe),
            Written::Step(_) => None,
        };
        let last = self.programs.iter().flatten().filter_map(target).max();
        let placed = self.nodes.as_ref().and_then(|(_, nodes)| (nodes.len() as NodeId).checked_sub(1));
        last.into_iter().chain(placed).for_each(|pe| self.reach(pe));
    }

    /// An error in a line.
    pub fn wrong(&self, line: usize, message: String) -> Error {
        Error::Setting { path: self.path.clone(), line, message }
    }

    /// The node of each PE.
    ///
    /// # Errors
    /// A node that `shape` does not have, or fewer nodes than PEs.
    pub fn places(&self, shape: &Shape) -> Result<Vec<NodeId>, Error> {
        let (pes, count) = (self.programs.len(), shape.nodes());
        let Some((line, written)) = &self.nodes else {
            if pes > count {
                let message = format!("{pes} PEs, but {shape} has {count} nodes; say with nodes where each is");
                return Err(self.wrong(1, message));
            }
            return Ok((0..pes as NodeId).collect());
        };
        if written.len() < pes {
            let message = format!("{} nodes for {pes} PEs; give the node of each", written.len());
            return Err(self.wrong(*line, message));
        }
        let node = |text: &String| {
            let number = text.parse().ok().or_else(|| shape.parse_coords(text).ok().and_then(|at| shape.id(at)));
            let number = number.filter(|node| (*node as usize) < count);
            let message = || format!("`{text}` is no node of {shape}: give 0 to {}, or coordinates", count - 1);
            number.ok_or_else(|| self.wrong(*line, message()))
        };
        written.iter().map(node).collect()
    }

    /// Puts the programs on a stage.
    pub(super) fn give(&self, stage: &mut Stage) {
        for (pe, lines) in (0..).zip(&self.programs) {
            let step = |line: &Line| match line.what {
                Written::Step(step) => step,
                Written::Operation(operation) => stage.operation(operation),
            };
            let program = lines.iter().map(step).collect();
            stage.set(pe, program);
        }
    }
}
