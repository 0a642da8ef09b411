//! Random OpenSHMEM programs: calls of every PE, as steps for an interpreter in C, as C source, and as a script of
//! `angara sim` that posts the same to the same network.
//!
//! A program cannot deadlock: the calls of all PEs are drawn one after the other, and a call waits only for what a call
//! drawn before brings about. So the first call in this order that has not ended can always end.

use crate::Rng;
use std::fmt::Write as _;

/// Words of a PE that calls of others write, as `tests/c/virtual_time/steps_of_file.h` has them.
const WORDS: u64 = 1 << 13;
/// Bytes that a driver holds for its PE, less what is left free: calls that need more would wait for room.
const STAGING: u64 = 800 << 10;
/// Picoseconds of a look at a clock, of a look at own memory, of a call that has nothing to do at least
/// (docs/guide/virtual-time.md).
const CLOCK: u64 = 25_000;
const LOOK: u64 = 50_000;
const IDLE: u64 = 1_000;
/// Word that many add to, and words that nobody waits for.
const COUNTER: u64 = 0;
const NOBODYS: [u64; 3] = [1, 2, 3];
const FIRST_FLAG: u64 = 4;

/// A call of a PE.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Call {
    /// One word by value.
    P {
        to: usize,
        word: u64,
        value: u64,
    },
    /// Bytes of private memory into words.
    Put {
        to: usize,
        bytes: u64,
        word: u64,
        value: u64,
    },
    /// Bytes of private memory where nobody looks.
    PutData {
        to: usize,
        bytes: u64,
    },
    /// The same of symmetric memory, without waiting.
    PutLater {
        to: usize,
        bytes: u64,
    },
    /// Ones of symmetric memory into words, without waiting.
    PutOnes {
        to: usize,
        bytes: u64,
        word: u64,
    },
    /// Words that lie apart.
    PutApart {
        to: usize,
        word: u64,
        apart: u64,
        count: u64,
        value: u64,
    },
    /// One word by value again and again: more than a queue holds.
    Flood {
        to: usize,
        count: u64,
    },
    /// Bytes of private memory, then a word set or added to.
    Signal {
        to: usize,
        bytes: u64,
        word: u64,
        value: u64,
        add: bool,
    },
    /// One word.
    G {
        from: usize,
        word: u64,
    },
    /// Bytes into private or symmetric memory.
    Get {
        from: usize,
        bytes: u64,
        private: bool,
    },
    /// Bytes into symmetric memory, without waiting.
    GetLater {
        from: usize,
        bytes: u64,
    },
    /// An atomic by its name in `shmem_uint64_atomic_NAME`.
    Atomic {
        at: usize,
        word: u64,
        name: &'static str,
        value: u64,
    },
    /// Of all that the PE has written.
    Quiet,
    Fence,
    /// Of all PEs.
    Barrier,
    /// Half of it.
    Sync,
    /// Until a word, or each of several, is at least that.
    Wait {
        word: u64,
        value: u64,
    },
    WaitAll {
        word: u64,
        count: u64,
        value: u64,
    },
    /// N nanoseconds.
    Compute(u64),
    /// A fetch and a put on its own PE, and a test.
    OwnFetch,
    OwnPut,
    Test,
    /// A look at the clock.
    Clock,
}

/// Names of atomics, what the interpreter calls them, and what scripts do.
const ATOMICS: [(&str, char, &str); 12] = [
    ("add", '+', "atomic add"),
    ("xor", '^', "atomic xor"),
    ("and", '&', "atomic and"),
    ("or", '|', "atomic or"),
    ("set", '=', "atomic swap"),
    ("fetch_add", '1', "fetch add"),
    ("fetch_xor", '2', "fetch xor"),
    ("fetch_and", '3', "fetch and"),
    ("fetch_or", '4', "fetch or"),
    ("swap", '5', "fetch swap"),
    ("compare_swap", '6', "fetch cswap"),
    ("fetch", '7', "fetch read"),
];

impl Call {
    /// True if it returns only when something has come over the network.
    fn blocks(&self) -> bool {
        match self {
            Call::G { .. } | Call::Get { .. } | Call::Quiet | Call::Barrier | Call::Sync => true,
            Call::Wait { .. } | Call::WaitAll { .. } => true,
            Call::Atomic { name, .. } => name.contains("fetch") || name.contains("swap"),
            _ => false,
        }
    }

    /// As the interpreter reads it.
    fn step(&self) -> String {
        let line = |letter: char, numbers: [u64; 4]| {
            let [a, b, c, d] = numbers;
            format!("{letter} {a} {b} {c} {d}")
        };
        match *self {
            Call::P { to, word, value } => line('P', [to as u64, word, value, 0]),
            Call::Put { to, bytes, word, value } => line('M', [to as u64, bytes, word, value]),
            Call::PutData { to, bytes } => line('D', [to as u64, bytes, 0, 0]),
            Call::PutLater { to, bytes } => line('K', [to as u64, bytes, 0, 0]),
            Call::PutOnes { to, bytes, word } => line('L', [to as u64, bytes, word, 0]),
            Call::PutApart { to, word, apart, count, value } => {
                line('I', [to as u64, word, apart << 32 | count, value])
            }
            Call::Flood { to, count } => line('X', [to as u64, NOBODYS[2], count, 0]),
            Call::Signal { to, bytes, word, value, add } => {
                line(if add { 'V' } else { 'U' }, [to as u64, bytes, word, value])
            }
            Call::G { from, word } => line('g', [from as u64, word, 0, 0]),
            Call::Get { from, bytes, private } => line(if private { 'G' } else { 'S' }, [from as u64, bytes, 0, 0]),
            Call::GetLater { from, bytes } => line('N', [from as u64, bytes, 0, 0]),
            Call::Atomic { at, word, name, value } => line(atomic(name).1, [at as u64, word, value, 0]),
            Call::Quiet => line('q', [0; 4]),
            Call::Fence => line('f', [0; 4]),
            Call::Barrier => line('b', [0; 4]),
            Call::Sync => line('y', [0; 4]),
            Call::Wait { word, value } => line('w', [word, value, 0, 0]),
            Call::WaitAll { word, count, value } => line('a', [word, count, value, 0]),
            Call::Compute(ns) => line('c', [ns, 0, 0, 0]),
            Call::OwnFetch => line('l', [0; 4]),
            Call::OwnPut => line('o', [0; 4]),
            Call::Test => line('t', [0; 4]),
            Call::Clock => line('T', [0; 4]),
        }
    }

    /// As a statement of C.
    fn statement(&self) -> String {
        match *self {
            Call::P { to, word, value } => format!("shmem_uint64_p(&words[{word}], {value}, {to});"),
            Call::Put { to, bytes, word, value } => {
                format!("shmem_putmem(&words[{word}], filled({value}), {bytes}, {to});")
            }
            Call::PutData { to, bytes } => format!("shmem_putmem(data, mine, {bytes}, {to});"),
            Call::PutLater { to, bytes } => format!("shmem_putmem_nbi(data, source, {bytes}, {to});"),
            Call::PutOnes { to, bytes, word } => format!("shmem_putmem_nbi(&words[{word}], ones(), {bytes}, {to});"),
            Call::PutApart { to, word, apart, count, value } => {
                format!("shmem_uint64_iput(&words[{word}], filled({value}), {apart}, 1, {count}, {to});")
            }
            Call::Flood { to, count } => {
                format!("for (int i = 0; i < {count}; i++) shmem_uint64_p(&words[{}], i, {to});", NOBODYS[2])
            }
            Call::Signal { to, bytes, word, value, add } => {
                let how = if add { "ADD" } else { "SET" };
                format!("shmem_putmem_signal(data, mine, {bytes}, &words[{word}], {value}, SHMEM_SIGNAL_{how}, {to});")
            }
            Call::G { from, word } => format!("(void)shmem_uint64_g(&words[{word}], {from});"),
            Call::Get { from, bytes, private } => {
                format!("shmem_getmem({}, data, {bytes}, {from});", if private { "mine" } else { "into" })
            }
            Call::GetLater { from, bytes } => format!("shmem_getmem_nbi(into, data, {bytes}, {from});"),
            Call::Atomic { at, word, name, value } => {
                let operands = match name {
                    "fetch" => String::new(),
                    "compare_swap" => format!("0, {value}, "),
                    _ => format!("{value}, "),
                };
                format!("(void)shmem_uint64_atomic_{name}(&words[{word}], {operands}{at});")
            }
            Call::Quiet => "shmem_quiet();".into(),
            Call::Fence => "shmem_fence();".into(),
            Call::Barrier => "shmem_barrier_all();".into(),
            Call::Sync => "shmem_sync_all();".into(),
            Call::Wait { word, value } => format!("shmem_uint64_wait_until(&words[{word}], SHMEM_CMP_GE, {value});"),
            Call::WaitAll { word, count, value } => {
                format!("shmem_uint64_wait_until_all(&words[{word}], {count}, NULL, SHMEM_CMP_GE, {value});")
            }
            Call::Compute(ns) => format!("shmemx_compute({ns});"),
            Call::OwnFetch => "(void)shmem_uint64_atomic_fetch(&own, me);".into(),
            Call::OwnPut => "shmem_uint64_p(&own, 1, me);".into(),
            Call::Test => "(void)shmem_uint64_test(&own, SHMEM_CMP_GT, 1);".into(),
            Call::Clock => "look();".into(),
        }
    }
}

fn atomic(name: &str) -> (&'static str, char, &'static str) {
    *ATOMICS.iter().find(|row| row.0 == name).expect("one of the table")
}

/// A program and what it runs on.
#[derive(Clone, Debug)]
pub struct Program {
    /// Calls of each PE.
    calls: Vec<Vec<Call>>,
    /// `2x3` or `mesh:4x4`.
    pub shape: String,
    /// Node of each PE.
    pub nodes: Vec<u64>,
    /// Changes of the machine, for `--set`.
    pub machine: String,
    /// Picoseconds of a call.
    pub call_cost: u64,
    /// How barriers are done.
    pub barrier: &'static str,
    /// True if the library has a tree of all PEs that it does not use.
    pub tree: bool,
    /// Draws delays, if there are any.
    pub seed: Option<u64>,
}

/// What has been drawn.
struct Draw {
    dice: Rng,
    calls: Vec<Vec<Call>>,
    /// By PE: what it may wait for, a word or more in a row and their value.
    signals: Vec<Vec<(u64, u64, u64)>>,
    /// By PE: the next word that nobody has written.
    flags: Vec<u64>,
    /// By PE: what its counter comes to.
    counted: Vec<u64>,
    /// By PE: bytes that its driver has held.
    staged: Vec<u64>,
}

impl Program {
    /// The program of a seed.
    pub fn of(seed: u64) -> Program {
        let mut dice = Rng::new(seed);
        let (shape, count) = shape(&mut dice);
        let (pes, nodes) = places(&mut dice, count);
        let machine = machine(&mut dice);
        let call_cost = dice.pick(&[1_000, 1_000, 5_000, 50_000, 12_500, 0]);
        let barrier = dice.pick(&["multiphase", "all-to-all", "tree", "hypercube", "master", "counting"]);
        let (tree, seed) = (dice.one_in(2), if dice.one_in(6) { Some(dice.below(1000)) } else { None });
        let calls = Draw::all(dice, pes);
        Program { calls, shape, nodes, machine, call_cost, barrier, tree, seed }
    }

    pub fn pes(&self) -> usize {
        self.calls.len()
    }

    /// The calls before a PE's look at its clock of this number, from 0.
    pub fn before(&self, pe: usize, look: usize) -> String {
        let calls = &self.calls[pe];
        let mut looks = calls.iter().enumerate().filter(|(_, call)| **call == Call::Clock);
        let at = looks.nth(look).map_or(calls.len(), |(at, _)| at);
        format!("{:?}", &calls[at.saturating_sub(6)..at])
    }

    /// For the interpreter.
    pub fn steps(&self) -> String {
        let mut all = String::new();
        for (pe, calls) in self.calls.iter().enumerate() {
            calls.iter().for_each(|call| writeln!(all, "{pe} {}", call.step()).expect("a string"));
        }
        all
    }

    /// As straight-line C.
    pub fn source(&self) -> String {
        let mut all = String::from("#include <shmem.h>\n#include <shmemx.h>\n#include \"steps_of_file.h\"\n");
        all.push_str("int main(void) {\n    shmem_init();\n    prepare();\n    int me = shmem_my_pe();\n");
        all.push_str("    switch (me) {\n");
        for (pe, calls) in self.calls.iter().enumerate() {
            writeln!(all, "    case {pe}:").expect("a string");
            calls.iter().for_each(|call| writeln!(all, "        {}", call.statement()).expect("a string"));
            all.push_str("        break;\n");
        }
        all.push_str("    }\n    tell(me);\n    shmem_finalize();\n    return 0;\n}\n");
        all
    }

    /// As a script of `angara sim`, and by PE the lines that end when the program looks at its clock.
    pub fn script(&self) -> (String, Vec<Vec<usize>>) {
        let nodes: Vec<String> = self.nodes.iter().map(u64::to_string).collect();
        let mut script = Script { text: String::new(), lines: 0, looks: Vec::new(), call_cost: self.call_cost };
        script.line(&format!("overhead {}ps", self.call_cost));
        script.line(&format!("barriers {}", self.barrier));
        script.line(&format!("nodes {}", nodes.join(" ")));
        for (pe, calls) in self.calls.iter().enumerate() {
            script.line(&format!("pe {pe}"));
            script.looks.push(Vec::new());
            script.program(pe, self.pes(), calls);
        }
        (script.text, script.looks)
    }
}

/// A script that is being written.
struct Script {
    text: String,
    lines: usize,
    looks: Vec<Vec<usize>>,
    call_cost: u64,
}

/// What a PE's driver knows of its posts.
#[derive(Default)]
struct Posted {
    /// Puts and atomics on their way that no quiet has flushed.
    touched: bool,
    /// Posts since the last fence.
    unfenced: bool,
    /// Gets that nobody has waited for.
    gets: bool,
}

impl Script {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
        self.lines += 1;
    }

    fn compute(&mut self, ps: u64) {
        self.line(&format!("compute {ps}ps"));
    }

    /// What `shmem_init` posts, the calls, and what `shmem_finalize` posts.
    fn program(&mut self, pe: usize, pes: usize, calls: &[Call]) {
        let mut posted = Posted::default();
        self.line("barrier");
        if pe == 0 {
            (1..pes).for_each(|to| self.line(&format!("put {to} 8")));
            self.line("fence");
            posted.touched = true;
        }
        self.line("sync");
        for call in calls {
            self.call(&mut posted, call);
        }
        self.line("barrier");
    }

    fn call(&mut self, posted: &mut Posted, call: &Call) {
        let idle = self.call_cost.max(IDLE);
        match *call {
            Call::P { to, word, value } => self.put(posted, to, 8, Some((word, value))),
            Call::Put { to, bytes, word, value } => self.put(posted, to, bytes, Some((word, value))),
            Call::PutOnes { to, bytes, word } => self.put(posted, to, bytes, Some((word, 1))),
            Call::PutData { to, bytes } | Call::PutLater { to, bytes } => self.put(posted, to, bytes, None),
            Call::PutApart { to, word, apart, count, value } => {
                (0..count).for_each(|i| self.put(posted, to, 8, Some((word + i * apart, value))));
            }
            Call::Flood { to, count } => (0..count).for_each(|_| self.put(posted, to, 8, None)),
            Call::Signal { to, bytes, word, value, add } => {
                self.put(posted, to, bytes, None);
                self.line("fence");
                match add {
                    true => self.line(&format!("atomic {to} {word} add {value}")),
                    false => self.line(&format!("put {to} 8 {word} {value}")),
                }
            }
            Call::G { from, .. } => self.line(&format!("get {from} 8")),
            // Of up to 8 bytes, only that get is waited for, of more all.
            Call::Get { from, bytes, .. } if bytes <= 8 => self.line(&format!("get {from} {bytes}")),
            Call::Get { from, bytes, .. } => {
                self.line(&format!("start-get {from} {bytes}"));
                self.line("gets");
                posted.gets = false;
            }
            Call::GetLater { from, bytes } => {
                self.line(&format!("start-get {from} {bytes}"));
                posted.gets = true;
            }
            Call::Atomic { at, word, name, value } => {
                let (verb, op) = atomic(name).2.split_once(' ').expect("two words");
                let operands = match name {
                    "fetch" => String::new(),
                    "compare_swap" => format!(" {value} 0"),
                    _ => format!(" {value}"),
                };
                self.line(&format!("{verb} {at} {word} {op}{operands}"));
                if verb == "atomic" {
                    (posted.touched, posted.unfenced) = (true, true);
                }
            }
            Call::Quiet if posted.touched || posted.gets => {
                self.line("quiet");
                (posted.touched, posted.gets) = (false, false);
            }
            Call::Fence if std::mem::take(&mut posted.unfenced) => self.line("fence"),
            Call::Quiet | Call::Fence | Call::OwnPut => self.compute(idle),
            Call::Barrier => {
                self.line("barrier");
                self.line("gets");
                (posted.touched, posted.gets) = (false, false);
            }
            Call::Sync => self.line("sync"),
            Call::Wait { word, value } => self.line(&format!("wait {word} {value}")),
            Call::WaitAll { word, count, value } => {
                (word..word + count).for_each(|word| self.line(&format!("wait {word} {value}")));
            }
            Call::Compute(ns) => self.compute(ns * 1000),
            Call::OwnFetch | Call::Test => self.compute(self.call_cost.max(LOOK)),
            Call::Clock => {
                self.compute(CLOCK);
                let line = self.lines;
                self.looks.last_mut().expect("a PE").push(line);
            }
        }
    }

    fn put(&mut self, posted: &mut Posted, to: usize, bytes: u64, store: Option<(u64, u64)>) {
        let store = store.map_or(String::new(), |(word, value)| format!(" {word} {value}"));
        self.line(&format!("put {to} {bytes}{store}"));
        (posted.touched, posted.unfenced) = (true, true);
    }
}

fn shape(dice: &mut Rng) -> (String, u64) {
    loop {
        let most = dice.pick(&[3, 5, 9]);
        let dims: Vec<u64> = (0..1 + dice.below(4)).map(|_| 2 + dice.below(most)).collect();
        let count: u64 = dims.iter().product();
        if count <= 32 {
            let text = dims.iter().map(u64::to_string).collect::<Vec<_>>().join("x");
            let mesh = dice.one_in(5);
            return (if mesh { format!("mesh:{text}") } else { text }, count);
        }
    }
}

/// PEs and their nodes.
fn places(dice: &mut Rng, count: u64) -> (usize, Vec<u64>) {
    let most = if dice.one_in(8) { 32 } else { 8 };
    let ppn = dice.pick(&[1, 1, 1, 2, 3]);
    let pes = 2 + dice.below(most.min(count * ppn) - 1);
    let mut free: Vec<u64> = (0..count).flat_map(|node| std::iter::repeat_n(node, ppn as usize)).collect();
    let nodes = (0..pes).map(|_| free.swap_remove(dice.below(free.len() as u64) as usize)).collect();
    (pes as usize, nodes)
}

/// Some values of the machine, changed.
fn machine(dice: &mut Rng) -> String {
    let mut set = Vec::new();
    let mut some = |dice: &mut Rng, text: String| {
        if dice.one_in(4) {
            set.push(text);
        }
    };
    let (hop, flight, link, core) = (60 + dice.below(240), 5 + dice.below(50), 2 + dice.below(20), 4 + dice.below(12));
    some(dice, format!("hop={hop}ns,flight={flight}ns"));
    some(dice, format!("link={link}GB/s"));
    some(dice, format!("core={core}GB/s"));
    for (key, least, most) in [
        ("injection", 20, 900),
        ("ejection", 300, 900),
        ("credit", 10, 200),
        ("barrier-phase", 0, 100),
        ("injection-gap", 0, 200),
        ("dma-start", 0, 2000),
        ("descriptor-fetch", 0, 400),
        ("host-read", 0, 600),
        ("host-write", 0, 600),
    ] {
        let ns = least + dice.below(most - least);
        some(dice, format!("{key}={ns}ns"));
    }
    for (key, least, most) in [("slots", 2, 16), ("age-limit", 1, 64), ("packets", 1, 32), ("reads", 1, 8)] {
        let count = least + dice.below(most - least + 1);
        some(dice, format!("{key}={count}"));
    }
    some(dice, "quiet=delivered".into());
    some(dice, "routing=adaptive".into());
    let (latency, rate) = (50 + dice.below(300), 1 + dice.below(20));
    some(dice, format!("same-node=memory,memory-latency={latency}ns,memory-rate={rate}GB/s"));
    set.join(",")
}

impl Draw {
    fn all(dice: Rng, pes: usize) -> Vec<Vec<Call>> {
        let none = vec![Vec::new(); pes];
        let mut draw = Draw {
            dice,
            calls: none,
            signals: vec![Vec::new(); pes],
            flags: vec![FIRST_FLAG; pes],
            counted: vec![0; pes],
            staged: vec![0; pes],
        };
        for _ in 0..pes * (3 + draw.dice.below(25) as usize) {
            if draw.dice.one_in(12 * pes as u64) {
                let call = draw.dice.pick(&[Call::Barrier, Call::Barrier, Call::Sync]);
                (0..pes).for_each(|pe| draw.make(pe, call));
            } else {
                let me = draw.dice.below(pes as u64) as usize;
                let call = draw.call(me, pes);
                draw.make(me, call);
            }
        }
        (0..pes).for_each(|pe| draw.make(pe, Call::Barrier));
        draw.calls
    }

    /// A PE makes a call, and often looks at its clock then; always if the call has waited.
    fn make(&mut self, pe: usize, call: Call) {
        self.calls[pe].push(call);
        if call.blocks() || self.dice.one_in(6) {
            self.calls[pe].push(Call::Clock);
        }
    }

    /// From one byte to many: inside a descriptor, a packet, several of them.
    fn bytes(&mut self) -> u64 {
        match self.dice.below(8) {
            0 | 1 => 1 + self.dice.below(8),
            2 | 3 => 9 + self.dice.below(248),
            4..=6 => 257 + self.dice.below(4000),
            _ => 4096 + self.dice.below(28 << 10),
        }
    }

    /// New words of a PE.
    fn flags(&mut self, pe: usize, bytes: u64) -> Option<u64> {
        let first = self.flags[pe];
        let next = first + bytes / 8;
        (next <= WORDS).then(|| {
            self.flags[pe] = next;
            first
        })
    }

    /// One that is not `me`.
    fn other(&mut self, me: usize, pes: usize) -> usize {
        (me + 1 + self.dice.below(pes as u64 - 1) as usize) % pes
    }

    fn call(&mut self, me: usize, pes: usize) -> Call {
        let other = self.other(me, pes);
        match self.dice.below(20) {
            0..=3 => self.put_words(me, other),
            4..=6 => self.put_data(me, other),
            7 => match self.dice.below(8) {
                0 => self.put_apart(other),
                1 if self.dice.one_in(8) => Call::Flood { to: other, count: 1 + self.dice.below(1500) },
                _ => self.signal(me, other),
            },
            8 => Call::G { from: other, word: NOBODYS[0] },
            9 => Call::Get { from: other, bytes: self.bytes(), private: false },
            10 => match self.staging(me) {
                Some(bytes) => Call::Get { from: other, bytes, private: true },
                None => Call::Quiet,
            },
            11 => Call::GetLater { from: other, bytes: self.bytes() },
            12 | 13 => self.atomic(other),
            14 => Call::Quiet,
            15 => self.dice.pick(&[Call::Fence, Call::OwnFetch, Call::OwnPut, Call::Test]),
            16 => Call::Compute(self.dice.below(3000)),
            _ if self.signals[me].is_empty() => Call::Quiet,
            _ => {
                let one = self.dice.below(self.signals[me].len() as u64) as usize;
                match self.signals[me].swap_remove(one) {
                    (word, 1, value) => Call::Wait { word, value },
                    (word, count, value) => Call::WaitAll { word, count, value },
                }
            }
        }
    }

    /// Bytes that a driver has room for.
    fn staging(&mut self, me: usize) -> Option<u64> {
        let bytes = self.bytes();
        self.staged[me] += bytes;
        (self.staged[me] < STAGING).then_some(bytes)
    }

    fn put_data(&mut self, me: usize, to: usize) -> Call {
        if self.dice.one_in(3) {
            let bytes = if self.dice.one_in(4) { 1 + self.dice.below(100 << 10) } else { self.bytes() };
            return Call::PutLater { to, bytes };
        }
        self.staging(me).map_or(Call::Fence, |bytes| Call::PutData { to, bytes })
    }

    /// Words that their PE may wait for: any of them, which need not be of the last packet.
    fn put_words(&mut self, me: usize, to: usize) -> Call {
        let bytes = if self.dice.one_in(2) { 8 } else { self.bytes().next_multiple_of(8) };
        let (later, value) = (self.dice.one_in(3), 1 + self.dice.below(9));
        let value = if later { 1 } else { value };
        let room = later || self.staging(me).is_some();
        let Some(word) = self.flags(to, bytes).filter(|_| room) else { return Call::Fence };
        let waited = self.dice.below(bytes / 8);
        let count = if self.dice.one_in(3) { (bytes / 8 - waited).min(100) } else { 1 };
        self.signals[to].push((word + waited, count, 1 + self.dice.below(value)));
        match (later, bytes) {
            (true, _) => Call::PutOnes { to, bytes, word },
            (false, 8) => Call::P { to, word, value },
            (false, _) => Call::Put { to, bytes, word, value },
        }
    }

    fn put_apart(&mut self, to: usize) -> Call {
        let (count, apart, value) = (1 + self.dice.below(20), 1 + self.dice.below(5), 1 + self.dice.below(9));
        let Some(word) = self.flags(to, 8 * count * apart) else { return Call::Fence };
        self.signals[to].push((word + apart * self.dice.below(count), 1, value));
        Call::PutApart { to, word, apart, count, value }
    }

    fn signal(&mut self, me: usize, to: usize) -> Call {
        let Some(bytes) = self.staging(me) else { return Call::Fence };
        let (add, value) = (self.dice.one_in(2), 1 + self.dice.below(5));
        let word = if add { COUNTER } else { self.flags(to, 8).unwrap_or(NOBODYS[1]) };
        self.will_be(to, word, value);
        Call::Signal { to, bytes, word, value, add }
    }

    /// A word comes to a value, or more by it.
    fn will_be(&mut self, at: usize, word: u64, value: u64) {
        if word == COUNTER {
            self.counted[at] += value;
            let sum = self.counted[at];
            self.signals[at].push((word, 1, sum));
        } else if !NOBODYS.contains(&word) {
            self.signals[at].push((word, 1, value));
        }
    }

    fn atomic(&mut self, at: usize) -> Call {
        let (name, ..) = self.dice.pick(&ATOMICS);
        let value = 1 + self.dice.below(5);
        let word = match name {
            "add" | "fetch_add" if !self.dice.one_in(3) => COUNTER,
            "set" | "swap" | "compare_swap" | "or" if !self.dice.one_in(3) => self.flags(at, 8).unwrap_or(NOBODYS[2]),
            _ => self.dice.pick(&NOBODYS),
        };
        self.will_be(at, word, value);
        Call::Atomic { at, word, name, value }
    }
}
