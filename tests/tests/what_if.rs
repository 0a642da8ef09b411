//! One program in virtual time under other circumstances: computing that takes time, delays that a seed draws.

use angara_tests::{Finished, Test, tools};
use std::path::PathBuf;

fn program(name: &str) -> PathBuf {
    tools::compile(&format!("tests/c/virtual_time/{name}.c"))
}

fn run(test: &Test, args: &[&str], program: PathBuf, own: &[&str]) -> Finished {
    let mut command = test.angara(["run", "--quiet", "--timeout", "200", "--clock", "virtual"]);
    command.args(args).arg("--").arg(program).args(own);
    test.run(command)
}

/// What [`computes.c`] says, in nanoseconds.
fn computes(test: &Test, how: &[&str]) -> [f64; 3] {
    let done = run(test, &[&["-n", "2"], how].concat(), program("computes"), &[]).success();
    let numbers: Vec<f64> = done.stdout.split_whitespace().map(|n| n.parse().expect("a number")).collect();
    numbers.try_into().expect("three numbers")
}

#[test]
fn computing_takes_what_it_is_said_to_take() {
    let test = Test::new("computing");
    let [said, worked, calls] = computes(&test, &[]);
    assert!((1e6..1.001e6).contains(&said) && worked < 100.0 && calls < 500.0, "{said} {worked} {calls}");
    let [said, worked, fixed] = computes(&test, &["--compute", "fixed:700"]);
    assert!((1e6..1.002e6).contains(&said) && worked < 100.0, "{said} {worked}");
    assert!((70_000.0..71_000.0).contains(&fixed), "{fixed}");
    assert_eq!(computes(&test, &["--compute", "fixed:0.7us"]), [said, worked, fixed]);

    // Five million multiplications, one after the other, take 4 cycles each and more beside others.
    let [_, measured, _] = computes(&test, &["--compute", "measured"]);
    assert!(measured > 1e6, "{measured}");
    let [_, tenth, _] = computes(&test, &["--compute", "measured:0.001"]);
    assert!(tenth < measured / 50.0, "{tenth} of {measured}");

    let file = test.file("intervals");
    let file = file.to_str().expect("UTF-8");
    let recorded = computes(&test, &["--compute", &format!("record:{file}")]);
    assert!(recorded[1] > 1e6, "{recorded:?}");
    for _ in 0..2 {
        assert_eq!(computes(&test, &["--compute", &format!("replay:{file}")]), recorded, "a replay is the same run");
    }
    // Another program calls more often.
    let done = run(&test, &["-n", "2", "--compute", &format!("replay:{file}")], program("pingpong"), &[]);
    assert!(done.code() != 0 && done.stderr.contains("more often than when"), "{done}");
    test.assert_clean();
}

#[test]
fn mistakes_about_computing_are_named() {
    let test = Test::new("computing-mistakes");
    let text = test.file("text");
    std::fs::write(&text, "hello\n").expect("a file");
    let replay = format!("replay:{}", text.display());
    for (how, part) in [
        ("much", "`much`: use none, fixed:NS"),
        ("measured:-1", "`-1`: give a factor above 0"),
        ("record:/nonexistent/file", "/nonexistent/file: No such file"),
        ("replay:/nonexistent/file", "write it first"),
        (&replay, "no file of intervals"),
    ] {
        let done = run(&test, &["-n", "2", "--compute", how], program("pingpong"), &[]);
        assert!(done.code() == 2 && done.stderr.contains(part), "{how}: {done}");
    }
    let done = test.run(test.angara(["run", "-n", "2", "--compute", "none", "true"]));
    assert!(done.code() == 2 && done.stderr.contains("--compute is for virtual time"), "{done}");
    test.assert_clean();
}

#[test]
fn a_race_shows_under_some_seed_which_repeats_it() {
    let test = Test::new("seeds");
    // PEs 1 and 2 are both neighbours of PE 0.
    let place = ["-n", "3", "--torus", "3"];
    run(&test, &place, program("race"), &[]).success();
    let found = run(&test, &[&place[..], &["--seeds", "1..200"]].concat(), program("race"), &[]);
    assert_eq!(found.code(), 3, "{found}");
    assert!(found.stdout.contains("PE 2 was late"), "{found}");
    let said = found.stdout.lines().last().expect("it says which");
    let seed = said.strip_prefix("seed ").and_then(|s| s.split(':').next()).expect("a seed");
    assert!(
        said.contains(&format!("angara run --quiet --timeout 200 --clock virtual -n 3 --torus 3 --seed {seed} --")),
        "{said}"
    );
    for _ in 0..2 {
        let again = run(&test, &[&place[..], &["--seed", seed]].concat(), program("race"), &[]);
        assert_eq!(again.code(), 3, "seed {seed}: {again}");
    }
    let fixed = run(&test, &[&place[..], &["--seeds", "1..20"]].concat(), program("race"), &["fixed"]).success();
    assert!(fixed.stdout.contains("seeds 1..20: no run failed"), "{fixed}");
    for (args, part) in [
        (&["--seeds", "2..1"][..], "such as 1..200"),
        (&["--seeds", "1..2", "--seed", "1"], "cannot be used with"),
        (&["--seeds", "1..2", "--set", "speed=1"], "unknown key `speed`"),
    ] {
        let done = run(&test, &[&place[..], args].concat(), program("race"), &[]);
        assert!(done.code() == 2 && done.stderr.contains(part), "{done}");
    }
    test.assert_clean();
}
