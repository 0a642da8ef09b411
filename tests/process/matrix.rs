//! Every example × both paths × 1 to 64 PEs, over all shapes, collectives and barriers: the rows of
//! `tests/matrix.txt`. Each example checks its own result; here we check that it says so, that the
//! run ends with exit code 0, and that nothing is left behind.

use angara_tests::{Test, tools};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

const TABLE: &str = include_str!("../matrix.txt");
const EXAMPLES: [&str; 7] = ["hello", "ring", "heat2d", "isort", "gups", "matmul", "rust-heat"];
const PATHS: [&str; 2] = ["direct", "ring"];
const SIZES: [&str; 6] = ["1", "2", "7", "8", "16", "64"];
/// Longest a single row may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

/// One row: example, path, PEs, PEs per node, network, collectives, barrier.
#[derive(Clone, Copy)]
struct Row([&'static str; 7]);

fn rows() -> Vec<Row> {
    TABLE
        .lines()
        .filter(|l| !l.starts_with('#') && !l.trim().is_empty())
        .map(|l| {
            let cells: Vec<&str> = l.split_whitespace().collect();
            Row(cells.try_into().unwrap_or_else(|_| panic!("`{l}` has not seven columns")))
        })
        .collect()
}

/// The executable of an example and the arguments that keep it small.
fn program(example: &str) -> (PathBuf, &'static [&'static str]) {
    match example {
        "rust-heat" => (tools::tool("heat"), &["4", "16"]),
        name => (tools::compile(&format!("examples/c/{name}.c")), &[]),
    }
}

impl Row {
    fn arguments(&self) -> Vec<String> {
        let Row([_, path, pes, ppn, network, collectives, barrier]) = *self;
        let mut args: Vec<String> = ["run", "-n", pes, "--ppn", ppn, "--path", path].map(String::from).into();
        match network.split_once(':') {
            Some((kind, sizes)) => args.extend([format!("--{kind}"), sizes.into()]),
            None => args.extend(["--machine".into(), network.into()]),
        }
        args.extend(["--collectives", collectives, "--barrier", barrier, "--heap", "16M"].map(String::from));
        args
    }
}

fn run_all(example: &str) {
    let (program, extra) = program(example);
    let mut failures = Vec::new();
    for row in rows().into_iter().filter(|r| r.0[0] == example) {
        let test = Test::new(&format!("matrix-{example}"));
        let mut command = test.angara(row.arguments());
        command.arg("--timeout").arg("200").arg("--").arg(&program).args(extra);
        match test.spawn(command).try_wait(LIMIT) {
            Ok(done) if done.code() == 0 => test.assert_clean(),
            Ok(done) => failures.push(done.to_string()),
            Err(still) => failures.push(format!("{} hangs\n{}", row.arguments().join(" "), still.so_far())),
        }
    }
    assert!(failures.is_empty(), "{} rows failed:\n\n{}", failures.len(), failures.join("\n\n"));
}

macro_rules! examples {
    ($($test:ident $name:literal),* $(,)?) => {$(
        #[test]
        fn $test() {
            run_all($name);
        }
    )*};
}

examples! {
    hello "hello",
    ring "ring",
    heat2d "heat2d",
    isort "isort",
    gups "gups",
    matmul "matmul",
    rust_heat "rust-heat",
}

#[test]
fn the_table_has_every_example_on_every_path_and_size() {
    let have: BTreeSet<_> = rows().iter().map(|r| (r.0[0], r.0[1], r.0[2])).collect();
    for example in EXAMPLES {
        for path in PATHS {
            for pes in SIZES {
                assert!(have.contains(&(example, path, pes)), "no row for {example} {path} {pes}");
            }
        }
    }
}

#[test]
fn every_two_options_meet_in_some_row() {
    // Columns: example, path, PEs, network, collectives, barrier (PEs per node follow from two of them).
    let columns = [0, 1, 2, 4, 5, 6];
    let values = |c: usize| rows().iter().map(|r| r.0[c]).collect::<BTreeSet<_>>();
    for (i, &a) in columns.iter().enumerate() {
        for &b in &columns[i + 1..] {
            let met: BTreeSet<_> = rows().iter().map(|r| (r.0[a], r.0[b])).collect();
            for x in values(a) {
                for y in values(b) {
                    assert!(met.contains(&(x, y)), "{x} and {y} never meet");
                }
            }
        }
    }
    let networks = values(4);
    for shape in ["torus:8", "torus:4x2", "torus:2x2x2", "torus:4x2x2x2", "desmos", "angara-k1"] {
        assert!(networks.contains(shape), "{shape} is not in the table");
    }
    assert_eq!(values(5).len() * values(6).len(), 3 * 4, "three kinds of collectives, four of barriers");
}
