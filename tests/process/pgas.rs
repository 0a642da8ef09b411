//! The safe interface for Rust: all that `libangara/examples/pgas_check.rs` looks at, on every engine; its mistakes; the examples
//! for Rust; and programs that the compiler has to refuse.

use angara_tests::{Finished, Test, tools};
use std::path::{Path, PathBuf};

/// `angara run` options, one job each.
const JOBS: [&str; 9] = [
    "-n 1 --path direct",
    "-n 2 --path direct",
    "-n 7 --path direct --barrier dissemination",
    "-n 1 --path ring",
    "-n 8 --path ring",
    "-n 5 --path ring --barrier counter",
    "-n 16 --ppn 4 --path ring",
    "-n 12 --torus 4x2x2x2 --path ring --map random:3",
    "-n 4 --clock virtual",
];

fn run(name: &str, options: &str, program: &Path, arguments: &[&str]) -> Finished {
    let test = Test::new(name);
    let mut run = test.angara(["run", "--timeout", "200"]);
    run.args(options.split(' ')).arg("--").arg(program).args(arguments);
    let done = test.run(run);
    test.assert_clean();
    done
}

#[test]
fn every_promise_holds_in_every_kind_of_job() {
    let check = tools::example("pgas_check");
    for job in JOBS {
        let done = run("pgas", job, &check, &[]).success();
        let pes: usize = job.split(' ').nth(1).and_then(|n| n.parse().ok()).expect("a number");
        assert_eq!(done.stdout.matches(": ok").count(), pes, "{job}: {done}");
    }
}

#[test]
fn promises_hold_over_a_lossy_and_a_dead_link() {
    let check = tools::example("pgas_check");
    for fault in ["link 0,0,0 +X corrupt=1%", "link 0,0,0 +X down"] {
        let test = Test::new("pgas-faults");
        let mut run = test.angara(["run", "-n", "8", "--path", "ring", "--timeout", "200", "--fault", fault, "--"]);
        run.arg(&check);
        let done = test.run(run).success();
        assert_eq!(done.stdout.matches(": ok").count(), 8, "{fault}: {done}");
    }
}

/// A mistake, what somebody says, and the status of the job.
const MISTAKES: [(&str, &[&str], i32); 9] = [
    ("length", &["array: PE 2 has array 0 of 11 elements of 8 bytes, this PE array 0 of 10 elements"], 1),
    ("type", &["array 0 of 10 elements of 4 bytes", "elements of 8 bytes"], 1),
    ("mismatch", &["PE 0 is in broadcast", "this PE in collect"], 1),
    ("arrays", &["local: PE 1 has array 1, this PE array 0"], 1),
    ("values", &["all_reduce: PE 1 has 8 bytes where 1 elements of 4 bytes are due"], 1),
    ("leave", &["PE 0 has left"], 1),
    ("exit", &["PE 0 on node", "code 3"], 3),
    ("panic", &["PE 0 on node", "status 101: panicked at ", "pgas_check.rs", "a mistake of PE 0"], 101),
    ("deadlock", &["deadlock at", "element 0 == 1 (it is 0)"], 1),
];

#[test]
fn a_mistake_ends_the_job_and_says_what_it_was() {
    let check = tools::example("pgas_check");
    for (mistake, says, status) in MISTAKES {
        let jobs: &[&str] = match mistake {
            "deadlock" => &["-n 3 --clock virtual"],
            _ => &["-n 3 --path direct", "-n 3 --path ring"],
        };
        for job in jobs {
            let done = run("pgas-mistake", job, &check, &[mistake]);
            assert_eq!(done.code(), status, "{mistake}, {job}: {done}");
            assert!(says.iter().all(|text| done.stderr.contains(text)), "{mistake}, {job}: {done}");
        }
    }
}

#[test]
fn the_arrays_of_a_pe_that_has_left_are_still_there() {
    for job in ["-n 3 --path direct", "-n 3 --path ring"] {
        run("pgas-early", job, &tools::example("pgas_check"), &["early"]).success();
    }
}

/// Examples, and arguments that keep them small.
const EXAMPLES: [(&str, &[&str], &str); 6] = [
    ("hello", &[], "greeted by PE"),
    ("heat", &["16", "16"], "ok"),
    ("hash_table", &["4000"], "ok"),
    ("sample_sort", &["3000"], "ok"),
    ("work_queue", &["200"], "ok"),
    ("matmul_3d", &["8"], "ok"),
];

#[test]
fn examples_for_rust_run_on_every_engine() {
    for (name, arguments, says) in EXAMPLES {
        for job in ["-n 8 --path direct", "-n 8 --path ring", "-n 8 --torus 2x2x2 --clock virtual", "-n 1"] {
            let done = run("pgas-example", job, &tools::tool(name), arguments).success();
            assert!(done.stdout.contains(says), "{name}, {job}: {done}");
        }
    }
}

#[test]
fn what_only_openshmem_programs_have_is_not_promised() {
    let hello = tools::tool("hello");
    let done = run("pgas-races", "-n 2 --check=races", &hello, &[]);
    done.failure(&["races were not looked for: no PE has noted a call", "oshcc --check-races"]);
    let test = Test::new("pgas-trace");
    let mut command = test.angara(["run", "-n", "2", "--timeout", "200", "--trace"]);
    command.arg(test.file("trace.json")).arg("--").arg(&hello);
    let done = test.run(command).success();
    assert!(done.stderr.contains("no PE has noted a call; only programs for OpenSHMEM and MPI do"), "{done}");
}

/// Compiles a program of `tests/rust` with the library of this build. Returns the codes of its errors.
fn compile(test: &Test, source: &Path) -> Vec<String> {
    let done = tools::rustc(source, &test.file("program")).output().expect("rustc, which has built this");
    let errors = String::from_utf8_lossy(&done.stderr);
    let codes = errors.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        (message["level"] == "error").then(|| message["code"]["code"].as_str().map(String::from)).flatten()
    });
    let codes: Vec<String> = codes.collect();
    assert_eq!(done.status.success(), codes.is_empty(), "{}: {errors}", source.display());
    codes
}

fn sources(folder: &str) -> Vec<PathBuf> {
    let folder = tools::root().join("tests/rust").join(folder);
    let entries = std::fs::read_dir(&folder).expect("a folder of programs");
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    all.sort();
    all
}

#[test]
fn the_compiler_refuses_what_would_not_be_sound() {
    let test = Test::new("pgas-types");
    for source in sources("accepted") {
        assert_eq!(compile(&test, &source), [""; 0], "{}", source.display());
    }
    let refused = sources("refused");
    assert!(refused.len() >= 16, "{refused:?}");
    for source in refused {
        let text = std::fs::read_to_string(&source).expect("a program");
        let code = text.lines().next().and_then(|line| line.strip_prefix("// error: ")).expect("its error's code");
        let codes = compile(&test, &source);
        assert!(!codes.is_empty() && codes.iter().all(|c| c == code), "{}: {codes:?}", source.display());
    }
}
