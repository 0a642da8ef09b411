//! PEs that do not come back from a function of libc, and those that are rude to the process in which all are: the run ends,
//! says which PE it was and where, and leaves nothing.

use super::{COROUTINES, angara, compile, run};
use angara_tests::process::PATIENCE;
use angara_tests::{Finished, Running, Test};
use rustix::process::Signal;
use std::path::PathBuf;

fn program() -> PathBuf {
    compile("tests/c/coroutines/stuck.c")
}

/// Ways to be blocked in libc, and the function of the program in which that is.
const BLOCKED: [(&str, &str); 3] = [("pipe", "pipe_of_nobody"), ("mutex", "locked_twice"), ("fifo", "fifo_between")];

fn assert_place(done: &Finished, function: &str) {
    let line = done.stderr.lines().find(|line| line.starts_with("angara: PE 1 at stuck.c:")).unwrap_or_default();
    assert!(line.contains(&format!("({function}) ")), "no place in {function}: {done}");
    assert!(!done.stderr.contains("went away") && !done.stderr.contains("control connection"), "{done}");
}

#[test]
fn a_pe_blocked_in_libc_ends_the_job_after_patience() {
    for (how, function) in BLOCKED {
        let test = Test::new("coroutines-blocked");
        let fifo = test.file("fifo");
        let args = [how, fifo.to_str().expect("text")];
        let done = run(&test, COROUTINES, &["-n", "2", "--patience", "1"], &program(), &args);
        assert_eq!(done.code(), 1, "{done}");
        assert_place(&done, function);
        for part in ["did not come back to the library for 1 s", "PE 1 on node (1) exited with code 1"] {
            assert!(done.stderr.contains(part), "no `{part}` in {done}");
        }
        test.assert_clean();
    }
}

#[test]
fn a_time_limit_ends_a_job_with_a_blocked_pe() {
    let test = Test::new("coroutines-blocked-limit");
    let limits = ["run", "-n", "2", "--clock", "virtual", "--timeout", "2", "--pes-as", COROUTINES, "--"];
    let mut command = test.angara(limits);
    command.arg(program()).arg("pipe");
    let done = test.run(command);
    assert_eq!(done.code(), 124, "{done}");
    assert_place(&done, "pipe_of_nobody");
    test.assert_clean();
}

/// A run with a blocked PE that `kill` ends.
fn ended(kill: impl FnOnce(&Test, &Running)) -> Finished {
    let test = Test::new("coroutines-blocked-killed");
    let mut command = angara(&test, COROUTINES, &["-n", "2"]);
    command.arg(program()).arg("pipe");
    let running = test.spawn(command);
    running.expect_line("PE 1 begins");
    kill(&test, &running);
    let done = running.wait(PATIENCE);
    test.assert_clean();
    done
}

#[test]
fn signals_end_a_job_with_a_blocked_pe() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let done = ended(|_, running| running.signal(signal));
        assert_eq!(done.code(), code, "{done}");
        assert_place(&done, "pipe_of_nobody");
    }
}

#[test]
fn nothing_is_left_of_a_blocked_pe_whose_launcher_is_killed() {
    let done = ended(|_, running| running.signal(Signal::KILL));
    assert_eq!(done.code(), 137, "{done}");
}

#[test]
fn a_signal_to_the_process_of_all_pes_is_told() {
    let done = ended(|test, _| test.named("angara-pes").iter().for_each(|pes| pes.signal(Signal::TERM)));
    assert_eq!(done.code(), 1, "{done}");
    assert!(done.stderr.contains("was shut down; the job was ended"), "{done}");
}

/// Also where a PE has made the output non-blocking.
#[test]
fn a_slow_reader_takes_no_patience_and_gets_all() {
    for how in [&["much"][..], &["much", "at once"]] {
        slow_reader(how);
    }
}

fn slow_reader(how: &[&str]) {
    let test = Test::new("coroutines-slow-reader");
    let mut command = angara(&test, COROUTINES, &["-n", "2", "--patience", "1"]);
    command.arg(program()).args(how);
    let words: Vec<_> = command.get_args().map(|word| word.to_owned()).collect();
    let mut shell = test.command("bash");
    shell.args(["-c", r#"set -o pipefail; "$0" "$@" | (sleep 4; wc -l)"#]).arg(command.get_program()).args(words);
    let done = test.run(shell).success();
    assert_eq!(done.stdout, "200002\n", "{done}");
    test.assert_clean();
}

#[test]
fn outputs_that_a_pe_has_duplicated_end_with_the_job() {
    let test = Test::new("coroutines-dup");
    let done = run(&test, COROUTINES, &["-n", "2"], &program(), &["dup"]).success();
    assert!(done.stdout.contains("past the library"), "{done}");
    test.assert_clean();
    // With no descriptor to spare.
    let mut command = angara(&test, COROUTINES, &["-n", "2"]);
    command.arg(program()).arg("leak");
    let words: Vec<_> = command.get_args().map(|word| word.to_owned()).collect();
    let mut limited = test.after("ulimit -n 200", command.get_program());
    limited.args(words);
    test.run(limited).success();
    test.assert_clean();
}

#[test]
fn a_run_without_enough_descriptors_ends_with_a_message() {
    for limit in [24, 28, 32, 36] {
        let test = Test::new("coroutines-descriptors");
        let command = angara(&test, COROUTINES, &["-n", "2"]);
        let words: Vec<_> = command.get_args().map(|word| word.to_owned()).collect();
        let mut limited = test.after(&format!("ulimit -n {limit}"), command.get_program());
        limited.args(words).arg(program());
        let done = test.run(limited);
        assert!(done.code() == 0 || done.stderr.contains("angara: try: "), "{limit}: {done}");
        test.assert_clean();
    }
}

#[test]
fn a_pe_closes_its_own_descriptors_and_no_others() {
    let test = Test::new("coroutines-close");
    let done = run(&test, COROUTINES, &["-n", "2"], &program(), &["close"]).success();
    for line in ["PE 1: all 1, twice 0, directory 0", "PE 1 closed 1 of its own: 1, others: 1", "PE 1: 0 0"] {
        assert!(done.stdout.lines().any(|said| said == line), "no `{line}` in {done}");
    }
    assert!(!done.stdout.contains("another's"), "{done}");
    test.assert_clean();
}

/// With as many PEs as have always had guards, and more.
#[test]
fn a_stack_that_jumps_over_its_guard_is_found() {
    let test = Test::new("coroutines-jump");
    for pes in ["2", "100"] {
        let done = run(&test, COROUTINES, &["-n", pes], &program(), &["jump"]);
        assert_eq!(done.code(), 139, "{done}");
        assert!(done.stderr.contains("(jumps): its stack was too small; give it more by `ulimit -s`"), "{done}");
        assert!(!done.stdout.contains("its stack has changed"), "{done}");
    }
    test.assert_clean();
}
