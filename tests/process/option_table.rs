//! The table of where each option of `angara run` acts, in `docs/reference/options.md`, run line by line.

use angara_tests::cluster::{Cluster, Hosts};
use angara_tests::daemon::Daemon;
use angara_tests::mpi::mpich;
use angara_tests::{Finished, Test, mpi, tools};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Options that are no question of the engine.
const ELSEWHERE: [&str; 3] = ["--np", "--help", "--version"];

/// A row: the words of an option, and what is said of each column.
struct Row {
    words: Vec<String>,
    cells: Vec<String>,
}

/// The rows, the columns' names first.
fn table() -> Vec<Row> {
    let text = std::fs::read_to_string(tools::root().join("docs/reference/options.md")).expect("a document");
    let (_, rest) = text.split_once("<!-- acts: angara run -->").expect("the table");
    let (table, _) = rest.split_once("<!-- end -->").expect("its end");
    let rows = table.lines().filter(|line| line.starts_with('|') && !line.starts_with("|-"));
    let row = |line: &str| {
        let mut cells: Vec<String> = line.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect();
        let option = cells.remove(0);
        Row { words: split(option.trim_matches('`')), cells }
    };
    rows.map(row).collect()
}

/// Words as a shell takes them.
fn split(text: &str) -> Vec<String> {
    let parts = text.split('\'').enumerate();
    let words = parts.flat_map(|(i, part)| match i % 2 {
        0 => part.split_whitespace().map(String::from).collect(),
        _ => vec![part.to_string()],
    });
    words.collect()
}

/// Why a cell is not as it is said to be.
fn differs(said: &str, option: &str, done: &Finished) -> Option<String> {
    let says = |part: &str| done.stderr.contains(part);
    let name = option.split('=').next().unwrap_or(option);
    let right = match said {
        "acts" => done.status.success() && !says("acts on packets, so"),
        "implies" => done.status.success() && says(name) && says("(--path ring)"),
        // What only the daemon can know is no mistake of usage, and has status 1.
        "refused" => matches!(done.status.code(), Some(1 | 2)) && says("error:") && says(name),
        other => return Some(format!("`{other}` is no word of this table")),
    };
    (!right).then(|| format!("is not `{said}`: {done}"))
}

#[test]
fn every_option_acts_or_is_implied_or_is_refused() {
    let test = Test::new("option-table");
    let mut rows = table();
    let columns = rows.remove(0).cells;
    let help = test.run(test.angara(["run", "--help"])).stdout;
    let listed: BTreeSet<&str> = rows.iter().map(|row| row.words[0].split('=').next().unwrap_or("")).collect();
    let all = help.lines().filter_map(|line| line.trim_start().strip_prefix('-').map(|_| line.trim_start()));
    let names = all.filter_map(|line| {
        let word = |word: &&str| word.starts_with("--") || *word == "-x";
        line.split([' ', ',', '[', '=']).find(word)
    });
    let missing: Vec<&str> = names
        .filter(|name| !ELSEWHERE.contains(name) && !listed.contains(name))
        .filter(|name| !rows.iter().any(|row| row.words.iter().any(|word| word == name)))
        .collect();
    assert!(missing.is_empty(), "docs/reference/options.md does not say where these act: {missing:?}");

    let program = tools::compile("tests/c/neighbours.c");
    let mpi_program = mpich().map(|venv| mpi::compile(&test, "ring", venv.join("bin/mpicc")));
    let cluster = Cluster::start(&test, "2x2", Hosts::loopback(2), &[]);
    let other = Test::new("option-table-daemon");
    let daemon = Daemon::start(&other, &["--torus", "2x2"]);
    let machine = test.file("machine.toml");
    std::fs::write(&machine, "torus = \"2x2\"\n[network]\nhop = \"200ns\"\n").expect("written");
    let tables = test.file("collectives.table");
    std::fs::write(&tables, "").expect("written");
    let file = |word: &str, option: &str| -> String {
        let path: PathBuf = match (word, option) {
            ("FILE", "--machine") => machine.clone(),
            ("FILE", "--cluster") => cluster.file(0),
            ("TABLE", _) => tables.clone(),
            ("DIR", _) => daemon.dir().into(),
            (word, _) if word.starts_with("FILE.") => test.file(&word.to_lowercase()),
            _ => return word.into(),
        };
        path.display().to_string()
    };
    let mut wrong = Vec::new();
    for row in &rows {
        let option = row.words[0].clone();
        let words: Vec<String> = row.words.iter().map(|word| file(word, &option)).collect();
        for (column, said) in columns.iter().zip(&row.cells).filter(|(_, said)| *said != "-") {
            let mut base = vec!["-n", "4"];
            let in_cluster = column == "cluster" || option == "--cluster";
            let dir = cluster.dir(0).display().to_string();
            match &column[..] {
                "direct" => base.extend(["--path", "direct"]),
                "ring" if option != "--clock" => base.extend(["--path", "ring"]),
                "virtual" if option != "--clock" => base.extend(["--clock", "virtual"]),
                "coroutines" => base.extend(["--clock", "virtual", "--pes-as", "coroutines"]),
                _ => {}
            }
            if in_cluster && option != "--runtime-dir" {
                base.extend(["--runtime-dir", &dir]);
            }
            let own_dir = in_cluster && option == "--runtime-dir";
            let words = if own_dir { vec![option.clone(), dir.clone()] } else { words.clone() };
            let file = cluster.file(0).display().to_string();
            if column == "cluster" {
                base.extend(["--cluster", &file]);
            }
            let program = match (&column[..], &mpi_program) {
                ("MPI", None) => continue,
                ("MPI", Some(program)) => program,
                _ => &program,
            };
            let mut command = test.angara(["run"]);
            command.args(base).args(&words).arg("--").arg(program).stdin(std::process::Stdio::null());
            if let Some(why) = differs(said, &option, &test.run(command)) {
                wrong.push(format!("{} in column {column} {why}", row.words.join(" ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cells are wrong:\n{}", wrong.len(), wrong.join("\n"));
    daemon.shutdown();
    cluster.shutdown();
    test.assert_clean();
}
