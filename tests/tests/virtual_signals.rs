//! What programs read and are sent in virtual time beside their clocks: signals of timers.

use angara_tests::{Finished, Test, tools};
use std::process::Command;

/// Runs a program of `tests/c/virtual_time` on `pes` PEs.
fn run(args: &[&str], program: &str) -> Finished {
    let test = Test::new("virtual-signals");
    let mut command = test.angara(["run", "--quiet", "--timeout", "200", "--clock", "virtual"]);
    command.args(args).arg("--").arg(tools::compile(&format!("tests/c/virtual_time/{program}.c")));
    let done = test.run(command);
    test.assert_clean();
    done
}

/// Runs a script of `tests/python`, where Python is.
fn python(args: &[&str], script: &str) -> Option<Finished> {
    let found = Command::new("python3").arg("--version").output();
    if found.is_err() {
        eprintln!("not tried: no python3 here");
        return None;
    }
    let test = Test::new("virtual-python");
    let mut command = test.angara(["run", "--quiet", "--timeout", "200", "--clock", "virtual"]);
    command.args(args).args(["--", "python3"]).arg(tools::root().join("tests/python").join(script));
    let done = test.run(command);
    test.assert_clean();
    Some(done)
}

#[test]
fn timers_send_their_signals_at_virtual_times() {
    let first = run(&["-n", "2"], "timers").success();
    let (said, end) = first.stdout.rsplit_once("end: ").expect("an end");
    assert_eq!(
        said,
        "alarm: -1, rung 1, 1 at 2000, left 2\n\
         sleep: 0, alarm left 6\n\
         pause: -1, 1, rung 2\n\
         select: -1, 1, rung 3\n\
         poll: -1, 1, rung 4\n\
         interval: 3500 us\n\
         left: 1 of 1000\n\
         loop: 1\n\
         gettime: 1 of 1000000\n\
         timer: 1, value 77, 1\n\
         taken: 1, rung 1, overrun 4\n\
         deleted: 0, 0, again -1\n\
         nothing: -1, 1, 3 s\n\
         absolute: 2, 2000 ms\n\
         there: 1\n"
    );
    let ns: f64 = end.trim().parse().expect("a number");
    assert!((13.0..13.1).contains(&(ns / 1e9)), "{ns} ns");
    assert_eq!(run(&["-n", "2"], "timers").stdout, first.stdout);
}

#[test]
fn timers_of_python_interrupt_it_at_virtual_times() {
    let Some(first) = python(&["-n", "1"], "timers.py") else { return };
    let first = first.success();
    assert_eq!(first.stdout, "sleep 1.5 [0.25, 0.75, 1.25]\npause 4.5\nlate\n", "{first}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn the_time_stamp_counter_tells_virtual_time_where_it_is_asked_for() {
    let done = run(&["-n", "2", "--virtual-tsc"], "tsc").success();
    for line in ["25 25 25 0", "1", "kept: 1", "faults: 2, still 1", "child: 1"] {
        assert_eq!(done.stdout.lines().filter(|l| *l == line).count(), 2, "`{line}`: {done}");
    }
    // Looks of other sizes where the counter is the processor's.
    let real = run(&["-n", "1"], "tsc").success();
    assert!(!real.stdout.contains("25 25 25 0\n"), "{real}");
    let test = Test::new("virtual-crash");
    let mut command =
        test.angara(["run", "--quiet", "--timeout", "200", "--clock", "virtual", "--virtual-tsc", "-n", "1"]);
    command.arg("--").arg(tools::compile("tests/c/virtual_time/tsc.c")).arg("crash");
    let done = test.run(command);
    assert!(done.code() == 139 && done.stdout.contains("child: 1"), "a fault ends a program: {done}");
    let done = test.run(test.angara(["run", "-n", "1", "--virtual-tsc", "true"]));
    assert!(done.code() == 2 && done.stderr.contains("--virtual-tsc is for virtual time"), "{done}");
    test.assert_clean();
}

#[test]
fn a_seed_decides_the_random_numbers_of_the_system() {
    let drawn = |args: &[&str]| run(&[&["-n", "2"], args].concat(), "random").success().stdout;
    let first = drawn(&["--seed", "5"]);
    assert_eq!(first, drawn(&["--seed", "5"]));
    assert_ne!(first, drawn(&["--seed", "6"]));
    assert_ne!(drawn(&[]), drawn(&[]), "without a seed they are the system's");
    let numbers: Vec<&str> = first.split_whitespace().collect();
    let different: std::collections::BTreeSet<_> = numbers.iter().collect();
    assert_eq!((numbers.len(), different.len()), (6, 6), "PEs draw different ones: {first}");
}

#[test]
fn a_seed_decides_the_random_numbers_and_hashes_of_python() {
    let drawn = |args: &[&str]| python(&[&["-n", "1"], args].concat(), "random_numbers.py").map(|d| d.success().stdout);
    let Some(first) = drawn(&["--seed", "5"]) else { return };
    assert_eq!(Some(&first), drawn(&["--seed", "5"]).as_ref());
    assert_ne!(Some(&first), drawn(&["--seed", "6"]).as_ref());
}
