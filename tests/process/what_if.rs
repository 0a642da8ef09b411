//! One program in virtual time under other circumstances: computing that takes time, delays that a seed draws.

use angara_tests::process::{PATIENCE, ignored, poll_until};
use angara_tests::{Finished, Test, tools};
use rustix::process::Signal;
use std::path::PathBuf;

fn program(name: &str) -> PathBuf {
    tools::compile(&format!("tests/c/virtual_time/{name}.c"))
}

fn run(test: &Test, args: &[&str], program: PathBuf, own: &[&str]) -> Finished {
    let mut command = test.angara(["run", "--quiet", "--timeout", "200", "--clock", "virtual"]);
    command.args(args).arg("--").arg(program).args(own);
    test.run(command)
}

/// Returns what [`computes.c`] says, in nanoseconds.
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
    // The one call of the library ends an interval.
    assert!((1e6..1.002e6).contains(&said) && (700.0..800.0).contains(&worked), "{said} {worked}");
    // The interval behind it ends with the first of these, which is counted as one.
    assert!((69_300.0..70_500.0).contains(&fixed), "{fixed}");
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
fn a_table_compares_every_combination_with_the_first() {
    let test = Test::new("whatif");
    let files = ["t.csv", "t.json", "t.svg"].map(|name| test.file(name));
    let name = |i: usize| files[i].to_str().expect("UTF-8").to_string();
    let line =
        ["whatif", "-n", "4", "--torus", "4,2x2", "--map", "linear,random:1..2", "--set", "hop=60ns,flight=20ns"];
    let mut command = test.angara(line);
    command.args(["--csv", &name(0), "--json", &name(1), "--svg", &name(2), "--"]).arg(program("pingpong"));
    let done = test.run(command).success();
    assert_eq!(done.stdout.lines().count(), 13, "{done}");
    let text = std::fs::read_to_string(&files[1]).expect("a file");
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).expect("JSON");
    assert_eq!(rows.len(), 12);
    let time = |i: usize| rows[i]["time_ns"].as_f64().expect("a time");
    assert!(rows[0]["speed_up"] == 1.0 && rows[1]["set"] == "hop=60ns,flight=20ns", "{text}");
    // 1,000 rounds there and back between PEs 0 and 3: neighbours on a ring of four, two hops apart on 2x2.
    assert!((time(0) - time(1) - 2000.0 * 69.0).abs() < 3000.0, "{text}");
    assert!((time(6) - time(0) - 2000.0 * 129.0).abs() < 3000.0, "{text}");
    assert!(rows[0]["waiting"].as_f64().is_some_and(|w| w > 0.9 && w < 1.0), "{text}");
    assert!(std::fs::read_to_string(&files[0]).expect("a file").lines().count() == 13);
    let drawn = std::fs::read_to_string(&files[2]).expect("a file");
    for part in ["</svg>", "hop=60ns,flight=20ns\n", "set\n", "2x2, random:1\n"] {
        assert!(drawn.contains(part), "places on the axis and its name, and names of curves: {part}\n{drawn}");
    }

    // Several numbers of PEs are the last column, and a picture's logarithmic axis.
    let mut command = test.angara(["whatif", "-n", "4,64", "--pes-as", "coroutines", "--collectives", "tree,p2p"]);
    let page = test.file("runs.html");
    command.args(["--json", &name(1), "--svg", &name(2), "--html", page.to_str().expect("UTF-8"), "--"]);
    command.arg(tools::compile("examples/c/scaling.c"));
    command.args(["1", "barrier", "reduction", "halo"]);
    test.run(command).success();
    let text = std::fs::read_to_string(&files[1]).expect("a file");
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).expect("JSON");
    let of = |i: usize| (rows[i]["collectives"].as_str(), rows[i]["n"].as_str());
    assert_eq!((of(0), of(1)), ((Some("tree"), Some("4")), (Some("tree"), Some("64"))), "{text}");
    let time = |i: usize| rows[i]["time_ns"].as_f64().expect("a time");
    assert!(rows.len() == 4 && time(0) < time(1) && time(2) < time(3) && time(1) < time(3), "{text}");
    let drawn = std::fs::read_to_string(&files[2]).expect("a file");
    assert!(drawn.contains("PEs\n") && drawn.contains("p2p\n"), "{drawn}");
    let numbers = |n: &str| drawn.lines().any(|line| line == n);
    assert!(numbers("4") && numbers("64") && !numbers("10"), "the axis has what was run: {drawn}");
    assert!(drawn.contains("in virtual time: several tori, machine default\n"), "{drawn}");
    let html = std::fs::read_to_string(&page).expect("a page");
    for part in ["angara whatif -n 4,64 ", "UTC", "networks: ", "</svg>", "<td>p2p</td>", "speed-up"] {
        assert!(html.contains(part), "{part} missing in\n{html}");
    }
    assert!(!html.contains("<script") && !html.contains("src="), "it needs something else: {html}");

    // What fails is said, and the others are shown.
    let mut command = test.angara(["whatif", "-n", "4", "--torus", "2x2,2", "--"]);
    command.arg(program("pingpong"));
    let done = test.run(command);
    assert!(done.code() == 2 && done.stderr.contains("torus 2: exit code 2"), "{done}");
    assert!(done.stdout.contains("exit code 2") && done.stdout.lines().count() == 3, "{done}");
    for (args, part) in [
        (&["--map", "random:3..1"][..], "random:3..1"),
        (&["--csv", "/nonexistent/t.csv"], "/nonexistent/t.csv"),
        (&["--html", "/nonexistent/t.html"], "--html"),
    ] {
        let mut command = test.angara([&["whatif", "-n", "2"][..], args].concat());
        command.arg("--").arg(program("pingpong"));
        let done = test.run(command);
        assert!(done.code() == 2 && done.stderr.contains(part), "{done}");
    }
    test.assert_clean();
}

/// Starts a command whose runs hang, one excepted, and ends it by Ctrl-C when that one is done. `runs` is their number,
/// which must be more than there are cores.
fn interrupted(test: &Test, args: &[&str], runs: &dyn Fn(usize) -> Vec<String>) -> Finished {
    let cores = std::thread::available_parallelism().expect("a number").get();
    let out = test.file(if args[0] == "whatif" { "first" } else { "second" });
    std::fs::create_dir(&out).expect("a directory");
    // In virtual time a sleep is soon over; a pipe that nobody writes is not.
    let script = "mkdir once 2>/dev/null && exec $0; mkfifo hung.$$ && : < hung.$$";
    let mut command = test.angara(args);
    command.args(["-n", "1", "--torus", "2x2"]).args(runs(cores + 1)).args(["--", "sh", "-c", script]);
    command.arg(program("pingpong")).current_dir(&out);
    let running = test.spawn(command);
    let hung = || {
        let files = std::fs::read_dir(&out).expect("a directory").flatten();
        files.filter(|file| file.file_name().to_string_lossy().starts_with("hung")).count() == cores
    };
    assert!(poll_until(hung), "one run ends and {cores} hang: {}", running.so_far());
    // Tests in the background of a shell are started so that they, and what they start, ignore Ctrl-C.
    let (signal, code) = if ignored(Signal::INT) { (Signal::TERM, 143) } else { (Signal::INT, 130) };
    running.signal(signal);
    let done = running.wait(PATIENCE);
    assert_eq!(done.code(), code, "{done}");
    done
}

#[test]
fn runs_that_are_done_are_kept_when_others_are_ended() {
    let test = Test::new("whatif-ended");
    let csv = test.file("t.csv");
    let args = ["whatif", "--csv", csv.to_str().expect("UTF-8")];
    let done = interrupted(&test, &args, &|runs| vec!["--map".into(), format!("random:1..{runs}")]);
    assert!(done.stderr.contains("ended by a signal: 1 of "), "{done}");
    assert_eq!(done.stdout.lines().count(), 2, "a head and the run that is done: {done}");
    assert_eq!(std::fs::read_to_string(&csv).expect("a file").lines().count(), 2);

    let args = ["run", "--clock", "virtual"];
    let done = interrupted(&test, &args, &|runs| vec!["--seeds".into(), format!("1..{runs}")]);
    assert!(done.stdout.contains("ended by a signal after 1 of ") && done.stdout.contains("none failed"), "{done}");
    test.assert_clean();
}

#[test]
fn reports_tell_where_time_went_and_are_equal_to_the_byte() {
    let test = Test::new("virtual-report");
    let report = |name: &str| {
        let file = test.file(name);
        let args = ["-n", "4", "--torus", "4", "--report", file.to_str().expect("UTF-8")];
        run(&test, &args, program("pingpong"), &[]).success();
        file
    };
    let (one, two) = (report("one.json"), report("two.json"));
    let text = std::fs::read_to_string(&one).expect("a report");
    assert_eq!(text, std::fs::read_to_string(&two).expect("a report"));
    let times: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let pes = times["virtual_time"]["pes"].as_array().expect("times of PEs");
    let of = |pe: usize, what: &str| pes[pe][what].as_u64().expect("a number");
    // PE 0 waits for the answers of PE 3, PEs 1 and 2 in a barrier.
    for (pe, waits, other) in [(0, "for_data", "for_network"), (1, "for_network", "for_data")] {
        assert!(of(pe, waits) > 9 * of(pe, other) && of(pe, waits) > of(pe, "end") * 9 / 10, "{text}");
        assert!(of(pe, waits) + of(pe, other) <= of(pe, "end"), "{text}");
    }
    assert!(of(0, "posts") >= 1000 && of(1, "posts") < 100, "{text}");
    let shown = test.run(test.angara(["report", one.to_str().expect("UTF-8")])).success();
    assert!(shown.stdout.contains("Virtual time") && shown.stdout.contains("for data, %"), "{shown}");
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

#[test]
fn what_real_programs_measure_is_what_the_document_says() {
    let test = Test::new("bench-machine");
    let page = test.file("programs.md");
    let mut command = test.angara(["bench", "machine", "--out", page.to_str().expect("UTF-8")]);
    // Everything is built.
    command.env("CARGO", "true");
    test.run(command).success();
    let kept = "docs/results/programs.md";
    let (now, kept_text) = (std::fs::read_to_string(&page), std::fs::read_to_string(tools::root().join(kept)));
    let (now, kept_text) = (now.expect("it was written"), kept_text.expect("it is there"));
    for row in ["put", "hop", "link"] {
        assert!(now.lines().any(|l| l.starts_with(&format!("| `5.{row}` |")) && l.ends_with("| met |")), "{now}");
    }
    assert_eq!(now, kept_text, "write it again: angara bench machine --out {kept}");
    test.assert_clean();
}
