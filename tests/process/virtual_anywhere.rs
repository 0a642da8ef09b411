//! Virtual time repeats to the byte: what a program prints and what is reported of it do not depend on cores, priorities,
//! load, addresses, the size of the environment, or on who was stopped for a while.

use angara_tests::{Test, tools};
use std::process::{Command, Stdio};

const RUNS: usize = 20;
/// A network that is not as shipped, in which a link breaks on the way.
const ARGS: [&str; 10] = [
    "-n",
    "12",
    "--torus",
    "3x2x2",
    "--map",
    "random:3",
    "--set",
    "hop=60ns,flight=20ns,link=15GB/s",
    "--fault",
    "link 0,0,0 +X down @25us",
];

/// Returns what a run prints and reports, and how it ends.
fn result(test: &Test, run: usize, before: &str, args: &[&str], more: &[(&str, String)]) -> (i32, String, String) {
    let report = test.file(&format!("report-{run}.json"));
    let mut command = test.after(before, tools::profile_dir().join("angara"));
    command.args(["run", "--quiet", "--timeout", "200", "--clock", "virtual", "--report"]).arg(&report).args(args);
    command.args(["--", "./busy"]).envs(more.iter().map(|(name, value)| (name, value)));
    let done = test.run(command).success();
    assert_eq!(done.stderr, "", "{done}");
    (done.code(), done.stdout, std::fs::read_to_string(&report).expect("a report"))
}

/// True if a command of the system does `args`.
fn can(command: &str, args: &[&str]) -> bool {
    let status = Command::new(command).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn twenty_runs_are_equal_to_the_byte_wherever_they_are() {
    let test = Test::new("virtual-anywhere");
    std::fs::copy(tools::compile("tests/c/virtual_time/busy.c"), test.file("busy")).expect("a copy");
    let here = rustix::thread::sched_getaffinity(None).expect("an affinity");
    let cores: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| here.is_set(*core)).collect();
    let (pin, fixed) = (can("taskset", &["-c", &cores[0].to_string(), "true"]), can("setarch", &["-R", "true"]));
    let first = result(&test, 0, "true", &ARGS, &[]);
    assert_eq!(first.1.lines().count(), 12, "{}", first.1);
    assert_ne!(first.1, result(&test, 0, "true", &ARGS[..8], &[]).1, "the fault does something");
    for run in 1..RUNS {
        let mut hog = (run % 4 == 1).then(|| {
            test.command("sh").args(["-c", "while :; do :; done"]).stdout(Stdio::null()).spawn().expect("sh runs")
        });
        let mut before = vec![format!("renice -n {} $$ >/dev/null", run % 3 * 9)];
        if pin && run % 2 == 0 {
            before.push(format!("taskset -cp {} $$ >/dev/null", cores[run / 2 % cores.len()]));
        }
        if fixed && run % 5 == 0 {
            before.push("exec setarch -R \"$0\" \"$@\"".into());
        }
        let mut more = vec![("PADDING", "x".repeat(run * 997))];
        more.extend((run % 3 == 0).then(|| ("STOPPED_PE", (run % 12).to_string())));
        let again = result(&test, run, &before.join("; "), &ARGS, &more);
        if let Some(hog) = &mut hog {
            hog.kill().expect("it runs");
            hog.wait().expect("it was ours");
        }
        assert!(again == first, "run {run}, {before:?}: {again:?}, not {first:?}");
    }
    test.assert_clean();
}

#[test]
fn output_comes_in_the_order_of_pes_also_what_is_flushed_at_exit() {
    let test = Test::new("virtual-order");
    let program = tools::compile("tests/c/virtual_time/last.c");
    let mut first = None;
    for run in 0..6 {
        let mut command = test.angara(["run", "--quiet", "--timeout", "200", "--clock", "virtual", "-n", "32", "--"]);
        command.arg(&program).stdin(Stdio::null());
        let done = test.run(command).success();
        assert_eq!(done.stdout.lines().count(), 64, "{done}");
        // Who is at the same time comes by number: before the end, and behind it.
        for when in ["writes", "ends"] {
            let lines = done.stdout.lines().filter(|line| line.contains(when));
            let at: Vec<(u64, u32)> = lines
                .map(|line| {
                    let mut words = line.split(' ');
                    let mut number = || words.nth(1).and_then(|word| word.parse::<u64>().ok()).expect(line);
                    let pe = number() as u32;
                    (number(), pe)
                })
                .collect();
            assert!(at.is_sorted(), "run {run}, {when}: {at:?}");
        }
        assert_eq!(*first.get_or_insert_with(|| done.stdout.clone()), done.stdout, "run {run}");
    }
    test.assert_clean();
}
