//! What is seen of jobs whose PEs are coroutines, and what others do to them: as of processes.

use super::{COROUTINES, PROCESSES, angara, compile, run};
use angara_tests::process::{PATIENCE, poll_until};
use angara_tests::{Finished, Test};
use rustix::process::Signal;
use std::path::PathBuf;

const ENDINGS: &str = "tests/c/virtual_time/endings.c";

/// A run of a program that writes a file, and the file.
fn written(test: &Test, pes_as: &str, (option, name): (&str, &str), more: &[&str]) -> (Finished, Vec<u8>) {
    let file = test.file(&format!("{pes_as}-{name}"));
    let options = [&["-n", "4", "--ppn", "2", option, file.to_str().expect("text")], more].concat();
    let program = compile("examples/c/heat2d.c");
    let done = run(test, pes_as, &options, &program, &["32", "5"]).success();
    (done, std::fs::read(&file).expect("the file has been written"))
}

#[test]
fn files_are_the_same_to_the_byte() {
    let test = Test::new("coroutines-files");
    for (file, more) in [
        (("--report", "report.json"), &[][..]),
        (("--report", "seeded.json"), &["--seed", "7", "--fault", "link 0 +X down @2us"]),
        (("--record", "recording.atr"), &[]),
        (("--trace", "timeline.json"), &[]),
    ] {
        let (by_processes, wanted) = written(&test, PROCESSES, file, more);
        let (by_coroutines, found) = written(&test, COROUTINES, file, more);
        assert!(!wanted.is_empty(), "{by_processes}");
        let difference = wanted.iter().zip(&found).position(|(a, b)| a != b);
        assert!(wanted == found, "{file:?} {more:?} differ from byte {difference:?} on: {by_coroutines}");
        assert!(!by_coroutines.stderr.contains("not complete"), "{by_coroutines}");
    }
    test.assert_clean();
}

#[test]
fn captures_of_two_runs_are_the_same_to_the_byte() {
    let test = Test::new("coroutines-capture");
    let [first, again] = [(); 2].map(|()| written(&test, COROUTINES, ("--capture", "packets.pcapng"), &[]).1);
    assert!(first == again, "{} and {} bytes", first.len(), again.len());
    // Those of processes differ from run to run: some packets have 0 or 1 in one byte.
    assert_eq!(written(&test, PROCESSES, ("--capture", "packets.pcapng"), &[]).1.len(), first.len());
    test.assert_clean();
}

#[test]
fn lines_are_labelled_and_two_runs_are_equal_to_the_byte() {
    let test = Test::new("coroutines-label");
    let program = compile("tests/c/virtual_time/last.c");
    let said = |pes_as| run(&test, pes_as, &["-n", "16", "--label"], &program, &[]).success().stdout;
    let first = said(COROUTINES);
    assert_eq!(first.lines().filter(|line| line.starts_with("[11] ")).count(), 2, "{first}");
    assert_eq!(first, said(COROUTINES));
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(String::from).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(&first), sorted(&said(PROCESSES)));
    test.assert_clean();
}

#[test]
fn a_page_that_does_not_stay_goes_with_the_job() {
    let test = Test::new("coroutines-web");
    let program = compile("examples/c/hello.c");
    let done = run(&test, COROUTINES, &["-n", "3", "--web=127.0.0.1:0", "--web-stay", "no"], &program, &[]).success();
    assert!(done.stderr.contains("angara: page at http://127.0.0.1:"), "{done}");
    test.assert_clean();
}

#[test]
fn a_time_limit_names_those_that_still_run() {
    for how in ["for-ever", "spin"] {
        let test = Test::new("coroutines-timeout");
        let mut command =
            test.angara(["run", "-n", "2", "--clock", "virtual", "--pes-as", COROUTINES, "--timeout", "2"]);
        command.arg("--").arg(compile(ENDINGS)).arg(how);
        let done = test.run(command);
        assert_eq!(done.code(), 124, "{how}: {done}");
        assert!(done.stderr.contains("--timeout 2 s is over; still running: PEs 0-1"), "{how}: {done}");
        test.assert_clean();
    }
}

/// Lines about waits, without how long they were.
fn waits(done: &Finished) -> Vec<String> {
    let without_time = |line: &str| match line.split_once(" waited for ") {
        Some((who, rest)) => format!("{who} waited: {}", rest.split_once(": ").map_or("", |(_, what)| what)),
        None => line.into(),
    };
    let is_of_waits = |line: &&str| line.contains(" waited for ") || line.contains(" did not wait in ");
    done.stderr.lines().filter(is_of_waits).map(without_time).collect()
}

#[test]
fn pes_that_wait_say_what_for_at_a_time_limit() {
    let program = compile(ENDINGS);
    let [process, coroutine] = [PROCESSES, COROUTINES].map(|pes_as| {
        let test = Test::new("coroutines-waits");
        let limits = ["run", "-n", "3", "--clock", "virtual", "--timeout", "3", "--pes-as", pes_as, "--"];
        let mut command = test.angara(limits);
        command.arg(&program).arg("spin");
        let done = test.run(command);
        assert_eq!(done.code(), 124, "{done}");
        test.assert_clean();
        waits(&done)
    });
    assert!(coroutine[0].starts_with("angara: PEs 0-1 waited: shmem_barrier_all"), "{coroutine:?}");
    assert_eq!(coroutine[1], "angara: PE 2 did not wait in the library");
    assert_eq!(process, coroutine);
}

#[test]
fn a_job_is_seen_while_a_pe_computes_and_goes_on() {
    let done = ended("spin", |test, running| {
        // A wait is one after a moment. Then it is seen as often as it is asked for.
        let waits = || test.run(test.angara(["status", "--waits"])).success().stdout.contains("shmem_barrier_all");
        assert!(poll_until(waits) && waits() && waits());
        running.signal(Signal::INT);
    });
    assert_eq!(done.code(), 130, "{done}");
    let waits = waits(&done);
    assert!(waits[0].starts_with("angara: PEs 0-1 waited: shmem_barrier_all"), "{waits:?}");
    assert_eq!(waits[1..], ["angara: PE 2 did not wait in the library"]);
}

/// Ends a job that would run for ever: `kill` gets it when all of its PEs are there.
fn ended(how: &str, kill: impl FnOnce(&Test, &angara_tests::Running)) -> Finished {
    let test = Test::new("coroutines-killed");
    let program: PathBuf = compile(ENDINGS);
    let mut command = angara(&test, COROUTINES, &["-n", "3"]);
    command.arg(&program).arg(how);
    let running = test.spawn(command);
    running.expect_line("PE 2 begins");
    kill(&test, &running);
    let done = running.wait(PATIENCE);
    test.assert_clean();
    done
}

#[test]
fn signals_to_the_launcher_end_the_job() {
    for how in ["for-ever", "spin"] {
        for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            let done = ended(how, |_, running| running.signal(signal));
            assert_eq!(done.code(), code, "{how}: {done}");
        }
    }
}

#[test]
fn nothing_is_left_of_a_launcher_or_a_host_that_is_killed() {
    for how in ["for-ever", "spin"] {
        let done = ended(how, |_, running| running.signal(Signal::KILL));
        assert_eq!(done.code(), 137, "{how}: {done}");
        let done = ended(how, |test, _| test.named("angara-pes").iter().for_each(|pes| pes.signal(Signal::KILL)));
        assert_eq!(done.code(), 1, "{how}: {done}");
        assert!(done.stderr.contains("went away (signal: 9 (SIGKILL)); the job was ended"), "{how}: {done}");
    }
}
