//! Two hosts of one network agree: a random C program in virtual time and the same as a script of `angara sim` end each
//! step at the same time. What they share is the network (`fabric`); driver, library, data plane and clocks are of the
//! one, processors and memory of the other.
//!
//! `SCRIPTS=1000 SCRIPTS_SEED=1 cargo test --release -p angara-tests virtual_scripts::` tries more of them.

use crate::coroutines::{self, COROUTINES, PROCESSES};
use angara_tests::random_calls::Program;
use angara_tests::{Test, tools};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs of an ordinary run.
const USUAL: u64 = 100;
/// Those of them whose PEs are coroutines, too.
const USUAL_COROUTINES: u64 = 40;
/// Programs that are compiled, too.
const COMPILED: u64 = 5;
/// The monotonic clock when the programs begin, nanoseconds.
const BEGIN: u64 = 1_000_000_000;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Nanoseconds of the looks of each PE at its clock.
type Looks = Vec<Vec<u64>>;

/// By the program's own clock.
fn run(test: &Test, pes_as: &str, program: &Program, places: &Path, command: &[&Path]) -> Looks {
    let mut angara = test.angara(["run", "--quiet", "--timeout", "200", "--clock", "virtual", "--heap", "1M"]);
    angara.args(["--pes-as", pes_as]).args(["-n", &program.pes().to_string(), "--ppn", "32"]);
    angara.arg("--map").arg(format!("file:{}", places.display()));
    match program.shape.strip_prefix("mesh:") {
        Some(sizes) => angara.args(["--mesh", sizes]),
        None => angara.args(["--torus", &program.shape]),
    };
    angara.args(["--call-cost", &(program.call_cost as f64 / 1000.0).to_string(), "--barrier", program.barrier]);
    if !program.tree {
        angara.args(["--collectives", "p2p"]);
    }
    if let Some(seed) = program.seed {
        angara.args(["--seed", &seed.to_string()]);
    }
    set(&mut angara, &program.machine);
    angara.arg("--").args(command);
    let done = test.run(angara).success();
    let mut looks = vec![Vec::new(); program.pes()];
    for line in done.stdout.lines() {
        let mut numbers = line.split(' ').map(|n| n.parse::<u64>().unwrap_or_else(|_| panic!("{done}")));
        let pe = numbers.next().expect("a PE") as usize;
        looks[pe] = numbers.map(|ns| ns - BEGIN).collect();
    }
    looks
}

fn set(command: &mut Command, machine: &str) {
    if !machine.is_empty() {
        command.args(["--set", machine]);
    }
}

/// By the simulator. A clock of whole nanoseconds shows those that have passed: what is left of one is cut off.
fn simulate(test: &Test, program: &Program) -> Looks {
    let (text, lines) = program.script();
    let script = test.file("script.txt");
    std::fs::write(&script, text).expect("a file");
    let topology =
        if program.shape.starts_with("mesh:") { program.shape.clone() } else { format!("torus:{}", program.shape) };
    let mut sim = test.angara(["sim", "run", "--json", "--topology", &topology, "--router", "angara", "--workload"]);
    sim.arg(format!("script:{}", script.display()));
    // As `angara run --seed` does.
    let jitter = program.seed.map(|_| "jitter=200ns".to_string());
    let machine = [program.machine.clone()].into_iter().chain(jitter).filter(|part| !part.is_empty());
    set(&mut sim, &machine.collect::<Vec<_>>().join(","));
    sim.args(["--seed", &program.seed.unwrap_or(1).to_string()]);
    let done = test.run(sim).success();
    let result: serde_json::Value = serde_json::from_str(&done.stdout).expect("JSON");
    let steps = result["steps"].as_array().expect("steps").iter();
    let field = |step: &serde_json::Value, name: &str| step[name].as_u64().expect("a number");
    let ends: BTreeMap<u64, u64> = steps.map(|step| (field(step, "line"), field(step, "end_ps"))).collect();
    lines.iter().map(|lines| lines.iter().map(|line| ends[&(*line as u64)] / 1000).collect()).collect()
}

struct Tried {
    program: Program,
    places: PathBuf,
    looks: Looks,
}

/// Runs the program of a seed, with PEs as `pes_as` says, and its script.
fn try_one(test: &Test, pes_as: &str, seed: u64) -> Tried {
    println!("SCRIPTS_SEED={seed} SCRIPTS=1 cargo test --release -p angara-tests virtual_scripts:: repeats this");
    let program = Program::of(seed);
    let places = test.file("places.txt");
    let nodes: Vec<String> = program.nodes.iter().map(|node| format!("{node}\n")).collect();
    std::fs::write(&places, nodes.concat()).expect("a file");
    let steps = test.file("steps.txt");
    std::fs::write(&steps, program.steps()).expect("a file");
    let interpreter = coroutines::compile("tests/c/virtual_time/steps_of_file.c");
    let looks = run(test, pes_as, &program, &places, &[&interpreter, &steps]);
    let simulated = simulate(test, &program);
    if looks != simulated {
        panic!("seed {seed}, PEs as {pes_as}: {}", difference(&program, &looks, &simulated));
    }
    Tried { program, places, looks }
}

/// Where two of them differ first, by the clock.
fn difference(program: &Program, looks: &Looks, simulated: &Looks) -> String {
    let pairs = looks.iter().zip(simulated).enumerate();
    let first = pairs
        .flat_map(|(pe, (ran, sim))| ran.iter().zip(sim).enumerate().map(move |(i, both)| (both, pe, i)))
        .filter(|((ran, sim), ..)| ran != sim)
        .min();
    let Some(((ran, sim), pe, look)) = first else { return "not as many looks".into() };
    let before = program.before(pe, look);
    let Program { shape, nodes, machine, call_cost, barrier, seed, .. } = program;
    format!(
        "look {look} of PE {pe} at its clock: it says {ran} ns, in the script {sim} ns; before it {before}; on {shape}, \
         nodes {nodes:?}, {machine}, a call takes {call_cost} ps, barriers {barrier}, seed {seed:?}"
    )
}

/// That programs end each step when their scripts do.
fn compare(pes_as: &str, usual: u64) {
    let test = Test::new("virtual-scripts");
    let first = number("SCRIPTS_SEED", 1);
    let mut looks = 0;
    for seed in first..first + number("SCRIPTS", usual) {
        looks += try_one(&test, pes_as, seed).looks.iter().map(Vec::len).sum::<usize>();
    }
    println!("{looks} times are equal");
    assert!(looks > 0);
    test.assert_clean();
}

#[test]
fn programs_and_their_scripts_end_each_step_at_the_same_time() {
    compare(PROCESSES, USUAL);
}

#[test]
fn programs_whose_pes_are_coroutines_and_their_scripts_end_each_step_at_the_same_time() {
    compare(COROUTINES, USUAL_COROUTINES);
}

#[test]
fn straight_line_programs_do_as_the_interpreter() {
    let test = Test::new("virtual-straight");
    let first = number("SCRIPTS_SEED", 1);
    for seed in first..first + COMPILED.min(number("SCRIPTS", COMPILED)) {
        let Tried { program, places, looks } = try_one(&test, PROCESSES, seed);
        let (source, compiled) = (test.file("program.c"), test.file("program"));
        std::fs::write(&source, program.source()).expect("a file");
        let mut oshcc = test.command(tools::tool("oshcc"));
        oshcc.args(["-O2", "-Wall", "-fPIC", "-I"]).arg(tools::root().join("tests/c/virtual_time"));
        oshcc.arg(&source).arg("-o").arg(&compiled);
        test.run(oshcc).success();
        for pes_as in [PROCESSES, COROUTINES] {
            let straight = run(&test, pes_as, &program, &places, &[&compiled]);
            assert_eq!(straight, looks, "seed {seed}, PEs as {pes_as}");
        }
    }
    test.assert_clean();
}
