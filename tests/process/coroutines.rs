//! All PEs of a job as coroutines of one process (`angara run --pes-as coroutines`), beside the same job as processes: what a
//! program prints, how it ends and when are the same.

mod ends;
mod looks;
mod refusals;
mod stuck;
mod verdicts;

use angara_tests::{Finished, Test, tools};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A value of `--pes-as`.
pub(crate) const COROUTINES: &str = "coroutines";
pub(crate) const PROCESSES: &str = "processes";

/// Compiles a program so that both can run it.
pub(crate) fn compile(source: &str) -> PathBuf {
    tools::compile_with(source, &["-fPIC", "-g"])
}

/// `angara run` in virtual time with PEs as `pes_as` says.
pub(crate) fn angara(test: &Test, pes_as: &str, options: &[&str]) -> Command {
    let mut command = test.angara(["run", "--timeout", "200", "--clock", "virtual", "--pes-as", pes_as]);
    command.args(options).arg("--");
    command
}

/// A run of `program`, a path and its arguments.
pub(crate) fn run(test: &Test, pes_as: &str, options: &[&str], program: &Path, args: &[&str]) -> Finished {
    let mut command = angara(test, pes_as, options);
    command.arg(program).args(args);
    test.run(command)
}

/// What a run came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Result {
    pub(crate) code: i32,
    /// Lines, sorted: where PEs are processes they come in any order.
    pub(crate) stdout: Vec<String>,
    pub(crate) stderr: Vec<String>,
    /// Virtual time, stops of PEs, events of the network.
    pub(crate) totals: Option<(String, u64, u64)>,
}

impl Result {
    pub(crate) fn of(done: &Finished) -> Result {
        let totals = done.stderr.lines().find_map(totals);
        let mine = |line: &&str| !line.contains(" started a private fabricd ") && self::totals(line).is_none();
        let mut stdout: Vec<String> = done.stdout.lines().map(String::from).collect();
        let mut stderr: Vec<String> = done.stderr.lines().filter(mine).map(without_addresses).collect();
        stdout.sort_unstable();
        stderr.sort_unstable();
        Result { code: done.code(), stdout, stderr, totals }
    }

    /// Without the name of the PE that has ended the job: where all do, whose end is heard first is the system's choice.
    pub(crate) fn without_first(mut self) -> Result {
        self.stderr
            .retain(|line| !line.contains("; the job was ended") && !line.contains(" ended the job with status "));
        self
    }
}

/// The numbers of `angara: 3.194 us of virtual time in 0.109 s: PEs have stopped 13 times, 8401.9 us each; 312 events ...`.
fn totals(line: &str) -> Option<(String, u64, u64)> {
    let (time, rest) = line.strip_prefix("angara: ")?.split_once(" of virtual time in ")?;
    let (_, rest) = rest.split_once(": PEs have stopped ")?;
    let (stops, rest) = rest.split_once(" times, ")?;
    let (_, events) = rest.split_once("; ")?;
    Some((time.into(), stops.parse().ok()?, events.split(' ').next()?.parse().ok()?))
}

/// A line in which each address is `0x…`: they lie where the system puts them.
fn without_addresses(line: &str) -> String {
    let mut parts = line.split("0x");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "0x…" + part.trim_start_matches(|c: char| c.is_ascii_hexdigit()))
}

/// That both ways come to the same; returns it.
fn assert_equal(options: &[&str], program: &Path, args: &[&str]) -> Result {
    let [process, coroutine] = [PROCESSES, COROUTINES].map(|pes_as| {
        let test = Test::new("coroutines");
        let done = run(&test, pes_as, options, program, args);
        test.assert_clean();
        done
    });
    let result = Result::of(&coroutine);
    assert_eq!(Result::of(&process), result, "as processes: {process}\nas coroutines: {coroutine}");
    result
}

/// As [`assert_equal`] of a program that ends well and stops now and then.
fn assert_equal_and_well(options: &[&str], program: &Path, args: &[&str]) {
    let result = assert_equal(options, program, args);
    assert_eq!(result.code, 0, "{}: {result:?}", program.display());
    assert!(result.totals.is_some(), "{}: {result:?}", program.display());
}

/// Examples, options and arguments.
const EXAMPLES: [(&str, &[&str], &[&str]); 14] = [
    ("hello", &["-n", "1"], &[]),
    ("hello", &["-n", "7", "--torus", "4x2"], &[]),
    ("hello", &["-n", "64", "--ppn", "2", "--torus", "4x2x2x2"], &[]),
    ("ring", &["-n", "8", "--barrier", "dissemination"], &[]),
    ("fft", &["-n", "4", "--heap", "64M"], &["64"]),
    ("gups", &["-n", "6", "--mesh", "3x2"], &["300"]),
    ("heat2d", &["-n", "8", "--ppn", "2", "--torus", "2x2", "--set", "link=5GB/s"], &["64", "20"]),
    ("heat2d", &["-n", "16", "--collectives", "p2p", "--barrier", "tree"], &["64", "10"]),
    ("heat2d", &["-n", "9", "--seed", "3"], &["48", "10"]),
    ("isort", &["-n", "5", "--map", "random:2"], &["2000"]),
    ("isort", &["-n", "8", "--call-cost", "50"], &["1000"]),
    ("matmul", &["-n", "4", "--collectives", "tree"], &["48"]),
    ("matmul", &["-n", "6", "--compute", "fixed:150"], &["32"]),
    ("measure", &["-n", "4"], &["20"]),
];

#[test]
fn examples_are_the_same_both_ways() {
    for (name, options, args) in EXAMPLES {
        assert_equal_and_well(options, &compile(&format!("examples/c/{name}.c")), args);
    }
}

/// Programs of the conformance tests. The others start threads (`threads.c`, `streams.c`), make mistakes or end early
/// (`errors.c`, `ends.c`: see `ends`), or read how much memory their process has (`lives.c`, `many.c`), which is that of all PEs.
const CONFORMANCE: [&str; 14] = [
    "active_sets",
    "amo",
    "beside",
    "collectives",
    "constants",
    "environment",
    "extensions",
    "fences",
    "generics",
    "interpose",
    "order",
    "rma",
    "sync",
    "teams",
];

#[test]
fn conformance_programs_are_the_same_both_ways() {
    for name in CONFORMANCE {
        for pes in ["1", "5"] {
            assert_equal_and_well(&["-n", pes], &compile(&format!("tests/c/openshmem/{name}.c")), &[]);
        }
    }
    assert_equal_and_well(&["-n", "2"], &compile("tests/c/openshmem/overlap.c"), &[]);
}

/// Programs that look at their clocks, with options and arguments. The others start threads (`deadlines.c`, `inside.c`,
/// `patient.c` by its level, `sleepers.c`, `watchdog.c`) or processes (`busy.c`, `sleep.c`, `tsc.c`), set timers (`timers.c`,
/// `ends_early.c`), close descriptors of the process (`sets.c`), or wait outside the library (`absent.c`, `endless.c`).
const CLOCKS: [(&str, &[&str], &[&str]); 14] = [
    ("computes", &["-n", "3"], &[]),
    ("costs", &["-n", "3", "--torus", "8"], &[]),
    ("far", &["-n", "16", "--torus", "4x4"], &[]),
    ("flood", &["-n", "2"], &[]),
    ("last", &["-n", "32"], &[]),
    ("late", &["-n", "4"], &[]),
    ("pingpong", &["-n", "5", "--torus", "8", "--call-cost", "0"], &[]),
    ("pingpong", &["-n", "2", "--torus", "8", "--fault", "link 0 +X down @730us"], &[]),
    ("pingpong", &["-n", "2", "--torus", "8", "--fault", "link 0 +X corrupt=5%"], &[]),
    ("race", &["-n", "3", "--seed", "5"], &[]),
    ("race", &["-n", "3"], &["fixed"]),
    ("random", &["-n", "3", "--seed", "9"], &[]),
    ("relay", &["-n", "6", "--torus", "8"], &[]),
    ("patterns", &["-n", "24", "--torus", "4x3x2"], &["halo", "20"]),
];

#[test]
fn programs_that_look_at_clocks_are_the_same_both_ways() {
    for (name, options, args) in CLOCKS {
        assert_equal_and_well(options, &compile(&format!("tests/c/virtual_time/{name}.c")), args);
    }
    for way in 0..16 {
        assert_equal_and_well(&["-n", "2"], &compile("tests/c/virtual_time/spin.c"), &[&way.to_string()]);
    }
}

#[test]
fn patterns_are_the_same_both_ways() {
    let program = compile("tests/c/virtual_time/patterns.c");
    for pattern in ["pingpong", "put_quiet", "get", "halo", "barrier", "allreduce", "gather"] {
        for pes in ["2", "8"] {
            assert_equal_and_well(&["-n", pes], &program, &[pattern, "50"]);
        }
    }
}

#[test]
fn objects_and_exceptions_of_cpp_are_the_same_both_ways() {
    if !tools::have("c++") {
        println!("skipped: no c++");
        return;
    }
    let flags = ["-fPIC", "-g", "-Wl,--no-as-needed", "-lstdc++"];
    let program = tools::compile_with("tests/c/virtual_time/objects.cc", &flags);
    let result = assert_equal(&["-n", "4"], &program, &[]);
    assert_eq!(result.code, 0, "{result:?}");
    for line in ["0 caught odd: 11", "3 caught odd: 13", "unmade made 0 2", "unmade made 3 2"] {
        assert!(result.stdout.iter().any(|said| said == line), "no `{line}` in {result:?}");
    }
}

#[test]
fn handlers_streams_and_results_of_cpp_are_the_same_both_ways() {
    if !tools::have("c++") {
        println!("skipped: no c++");
        return;
    }
    let flags = ["-fPIC", "-g", "-Wl,--no-as-needed", "-lstdc++"];
    let result = assert_equal(&["-n", "2"], &tools::compile_with("tests/c/coroutines/handlers.cc", &flags), &[]);
    assert_eq!(result.code, 0, "{result:?}");
    for line in ["PE 0: day 1, ****ff", "PE 1: day 2,    255"] {
        assert!(result.stdout.iter().any(|said| said == line), "no `{line}` in {result:?}");
    }
    assert!(result.stdout.iter().any(|said| said.starts_with("the message of PE 1....")), "{result:?}");
}

#[test]
fn input_of_cpp_is_the_same_both_ways() {
    if !tools::have("c++") {
        println!("skipped: no c++");
        return;
    }
    let flags = ["-fPIC", "-g", "-Wl,--no-as-needed", "-lstdc++"];
    let program = tools::compile_with("tests/c/coroutines/input.cc", &flags);
    let [process, coroutine] = [PROCESSES, COROUTINES].map(|pes_as| {
        let test = Test::new("coroutines-input");
        std::fs::write(test.file("input"), "12 34 56").expect("a file");
        let mut command = angara(&test, pes_as, &["-n", "2"]);
        command.arg(&program).stdin(std::fs::File::open(test.file("input")).expect("a file"));
        Result::of(&test.run(command)).stdout
    });
    assert_eq!(process, coroutine);
    assert_eq!(coroutine, ["0: 12 2 0", "1: -1 -1 1"]);
}
