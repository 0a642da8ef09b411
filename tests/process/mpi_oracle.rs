//! Random MPI programs in virtual time, against a model of what MPI promises: which message a receive gets, what
//! collectives and windows hold, and that nothing is known before it can be.
//!
//! Beginning MPI is what takes time, so a hundred programs run in one start. `tests/c/mpi/oracle.c` carries them out.
//!
//! `MPI_ORACLE=100 MPI_ORACLE_SEED=1 cargo test --release -p angara-tests mpi_oracle::` tries as many starts.
//! `MPI_ORACLE_SEED=1 MPI_ORACLE_ONLY=7` tries one program of a start by itself.

mod check;
mod program;

use angara_tests::mpi::{compile, mpich};
use angara_tests::{Rng, Test, tools};
use check::Checker;
use program::{Mix, Program};
use std::path::{Path, PathBuf};

/// Programs of one start.
const PROGRAMS: u64 = 100;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|n| n.parse().ok())
}

/// All but the number of ranks comes from the seed of the start and the number of the program.
fn programs(seed: u64, ranks: usize, mix: Mix) -> Vec<Program> {
    let mut rng = Rng::new(seed);
    let all = (0..PROGRAMS).map(|number| (number, rng.split()));
    let only = self::number("MPI_ORACLE_ONLY");
    let all = all.filter(|(number, _)| only.is_none_or(|only| only == *number));
    all.map(|(number, rng)| Program::of(number, ranks, rng, mix)).collect()
}

/// What a start of these programs wrote: to its output, and each rank to its log.
fn run(test: &Test, oracle: &Path, ranks: usize, text: &str, what: &str) -> (String, Vec<String>) {
    let (steps, log) = (test.file("programs.txt"), test.file("log"));
    std::fs::write(&steps, text).expect("a file");
    let mut angara = test.angara(["run", "--quiet", "--timeout", "200", "--clock", "virtual"]);
    angara.args(["-n", &ranks.to_string(), "--torus", &ranks.to_string()]);
    angara.arg("--").arg(oracle).arg(steps).arg(&log);
    let done = test.run(angara);
    let logs = (0..ranks).map(|rank| std::fs::read_to_string(log.with_extension(rank.to_string())).unwrap_or_default());
    let logs: Vec<String> = logs.collect();
    let bad = ["patience", "deadlock", "oracle:"].iter().find(|word| done.stderr.contains(**word));
    if done.code() != 0 || bad.is_some() {
        let last: Vec<_> = logs.iter().map(|log| log.lines().next_back().unwrap_or("nothing")).collect();
        panic!("{what}: {done}\nthe last steps of the ranks' logs (program, step, begin, end): {last:#?}");
    }
    (done.stdout.clone(), logs)
}

/// Runs the programs of a seed twice.
fn compare(test: &Test, library: &str, oracle: &Path, seed: u64) {
    let ranks = 2 + (seed % 5) as usize;
    println!("MPI_ORACLE_SEED={seed} cargo test --release -p angara-tests mpi_oracle:: repeats this");
    let what = format!("{library}, MPI_ORACLE_SEED={seed}, {ranks} ranks");
    let sound = library != OPEN_MPI;
    let mix = Mix {
        one_sided: true,
        mrecv_answers: sound || OPEN_MPI_MRECV_ANSWERS,
        sends_serve: sound || OPEN_MPI_SENDS_SERVE,
    };
    let programs = programs(seed, ranks, mix);
    let text: String = programs.iter().map(Program::text).collect();
    let first = run(test, oracle, ranks, &text, &what);
    let logs = check::read(&first.1).unwrap_or_else(|why| panic!("{what}: {why}"));
    let mut wrong = Vec::new();
    for program in &programs {
        let log = logs.get(&program.number).unwrap_or_else(|| panic!("{what}: no program {}", program.number));
        let checker = Checker { program, log };
        if let Err(why) = checker.check() {
            wrong.push((program, why));
        }
    }
    if let Some((program, why)) = wrong.first() {
        let others: Vec<String> = wrong.iter().map(|(p, why)| format!("{}: {why}", p.number)).collect();
        let seen: String = first
            .1
            .iter()
            .flat_map(|log| log.lines())
            .filter(|l| l.starts_with(&format!("{} ", program.number)))
            .map(|l| format!("{l}\n"))
            .collect();
        panic!(
            "{what} MPI_ORACLE_ONLY={}: {why}\nits steps, as rank, step, what:\n{}what was seen:\n{seen}\nall that failed: {others:#?}",
            program.number,
            program.text()
        );
    }
    let again = run(test, oracle, ranks, &text, &what);
    for (rank, (first, again)) in first.1.iter().zip(&again.1).enumerate() {
        if let Some((one, other)) = first.lines().zip(again.lines()).find(|(one, other)| one != other) {
            panic!("{what}: two runs differ at rank {rank}: {one} and {other}");
        }
    }
    assert_eq!(first, again, "{what}");
}

const OPEN_MPI: &str = "Open MPI";
/// Over libfabric Open MPI 4.1 forgets to answer a synchronous send that Mrecv receives, with any provider: it never
/// ends.
const OPEN_MPI_MRECV_ANSWERS: bool = false;
/// Over libfabric Open MPI 4.1 does nothing for windows (`osc/pt2pt`) while a rank waits in a blocking send, with any
/// provider: who locks a window there waits until the send is received.
const OPEN_MPI_SENDS_SERVE: bool = false;

fn compare_all(library: &str, wrapper: PathBuf) {
    let test = Test::new("mpi-oracle");
    let oracle = compile(&test, "oracle", wrapper);
    let first = number("MPI_ORACLE_SEED").unwrap_or(3);
    for seed in first..first + number("MPI_ORACLE").unwrap_or(1) {
        compare(&test, library, &oracle, seed);
    }
    test.assert_clean();
}

#[test]
fn random_programs_of_mpich_do_what_mpi_promises() {
    let Some(venv) = mpich() else { return };
    compare_all("MPICH", venv.join("bin/mpicc"));
}

#[test]
fn random_programs_of_open_mpi_do_what_mpi_promises() {
    match tools::have("mpicc.openmpi") {
        true => compare_all(OPEN_MPI, "mpicc.openmpi".into()),
        false => println!("skipped: no mpicc.openmpi"),
    }
}
