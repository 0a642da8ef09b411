//! Finding out what a job does: single PEs under a debugger or another tool, what PEs wait for, core dumps.

use angara_tests::process::{PATIENCE, Running, ignored, poll_until};
use angara_tests::terminal::Terminal;
use angara_tests::{Test, tools};
use rustix::process::Signal;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// True if `tool` is there; says so if not.
fn have(tool: &str) -> bool {
    let found = tools::have(tool);
    if !found {
        eprintln!("note: no {tool} here, so nothing is tried under it");
    }
    found
}

/// PE 2 of 3 waits for a value that never comes, the others in a barrier.
fn hanging() -> PathBuf {
    tools::compile_with("tests/c/openshmem/errors.c", &["-g"])
}

/// `angara run -q` with `options`, then `sh -c script`.
fn shell(test: &Test, options: &[&str], script: &str) -> Command {
    test.angara([&["run", "-q"], options, &["--", "sh", "-c", script]].concat())
}

/// Waits until all PEs of the hanging job wait, and returns what `angara status --waits` says.
fn waits(test: &Test) -> String {
    let mut text = String::new();
    let all = poll_until(|| {
        text = test.run(test.angara(["status", "--waits"])).stdout;
        text.contains("PEs 0-1 waited for") && text.contains("PE 2 waited for")
    });
    assert!(all, "{text}");
    text
}

fn hang(test: &Test) -> Running {
    let mut command = test.angara(["run", "-q", "-n", "3", "--heap", "1M", "--"]);
    command.arg(hanging()).arg("hang");
    test.spawn(command)
}

#[test]
fn a_debugger_has_the_terminal_while_its_pe_runs() {
    if !have("gdb") {
        return;
    }
    let test = Test::new("debug-gdb");
    let mut user = Terminal::new(&test);
    let program = hanging();
    user.line(&format!("angara run -q -n 4 --heap 1M --debug 2 {} hang", program.display()), "(gdb) ");
    user.line("set confirm off", "(gdb) ");
    // Ctrl-Z stops the whole job, and the shell has the terminal; `fg` brings the debugger back.
    user.keys("\x1a");
    user.expect("Stopped");
    user.expect("ready> ");
    user.line("echo $((40+2))", "42");
    user.line("fg", "angara run");
    // The others are in `shmem_init` and wait for the one that has not even begun.
    user.line("break shmem_barrier_all", "Breakpoint 1");
    user.line("run", "Breakpoint 1, ");
    user.line("backtrace", "errors.c:");
    user.line("continue", "Continuing.");
    // Ctrl-C is for the program under the debugger, not for the job.
    poll_until(|| {
        let text = test.run(test.angara(["status", "--waits"])).stdout;
        text.contains("PEs 0-2 waited for")
    });
    user.keys("\x03");
    user.expect("SIGINT");
    user.line("frame function main", "errors.c");
    user.line("print global", "= 0");
    user.line("show environment ANGARA_PE", "ANGARA_PE = 2");
    user.line("quit", "PE 2 on node (0,1) left the job without shmem_finalize");
    user.expect("ready> ");
    user.line("echo code $?", "code 1");
    user.leave();
    test.assert_clean();
}

#[test]
fn a_debugger_that_dies_leaves_a_terminal_that_works() {
    if !have("gdb") {
        return;
    }
    let test = Test::new("debug-killed");
    let mut user = Terminal::new(&test);
    user.line("angara run -q -n 2 --debug 0 sh -c 'sleep 1000'", "(gdb) ");
    // Its line editing has switched the terminal's own off.
    test.named("gdb")[0].signal(Signal::KILL);
    user.expect("PE 0 on node (0) was killed by signal 9");
    user.expect("ready> ");
    let modes = user.line("stty -a", "ready> ");
    assert!(modes.contains(" icanon") && modes.contains(" echo "), "{modes}");
    user.line("angara run -q -n 2 --debug 0 true & wait", "in the background");
    user.leave();
    test.assert_clean();
}

#[test]
fn without_a_terminal_the_debugged_pe_reads_standard_input() {
    let test = Test::new("debug-pipe");
    let mut command =
        shell(&test, &["-n", "3", "--label", "--debug", "1", "--wrap", "1", "env A=b"], "echo $A$(wc -c)");
    command.stdin(Stdio::piped());
    let mut run = test.spawn(command);
    run.take_stdin().write_all(&[7; 1000]).expect("PE 1 reads it");
    let done = run.wait(PATIENCE).success();
    let mut lines: Vec<&str> = done.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] 0", "[2] 0", "b1000"], "{done}");
    test.assert_clean();
}

#[test]
fn commands_stand_before_the_program_on_their_pes_only() {
    let test = Test::new("debug-wrap");
    let options =
        ["-n", "4", "--wrap", "all", "env ALL=yes", "--wrap", "1,3", "sh -c '\"$@\"; echo tool of $ANGARA_PE' sh"];
    let done = test.run(shell(&test, &options, "echo $ALL $ANGARA_PE")).success();
    let mut lines: Vec<&str> = done.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["tool of 1", "tool of 3", "yes 0", "yes 1", "yes 2", "yes 3"], "{done}");
    test.assert_clean();
}

#[test]
fn what_cannot_be_put_before_a_program_is_said_before_anything_starts() {
    let cases: [(&[&str], i32, &[&str]); 9] = [
        (&["--wrap", "4", "env"], 2, &["--wrap: there is no PE 4; PEs of this job are 0 to 3"]),
        (&["--wrap", "2-7", "env"], 2, &["no PE 7"]),
        (&["--debug", "4"], 2, &["--debug: there is no PE 4"]),
        (&["--wrap", "two", "env"], 2, &["`two` names no PEs", "0,4-7"]),
        (&["--wrap", "1", ""], 2, &["the command is empty"]),
        (&["--wrap", "1"], 2, &["--wrap"]),
        (&["--wrap", "1", "no-such-tool -q"], 127, &["no-such-tool -q", "install no-such-tool"]),
        (&["--wrap", "1", "/etc/passwd"], 126, &["/etc/passwd is not executable"]),
        // Only the shell can tell that this is nothing.
        (&["--wrap", "1", "$NOTHING/no-such-tool"], 127, &["no-such-tool", "PE 1 on node (1,0) exited with code 127"]),
    ];
    for (options, code, words) in cases {
        let test = Test::new("debug-refused");
        let done = test.run(test.angara([&["run", "-q", "-n", "4"], options, &["--", "true"]].concat())).failure(words);
        assert_eq!(done.code(), code, "{options:?}: {done}");
        test.assert_clean();
    }
}

#[test]
fn options_that_start_pes_are_refused_where_another_launcher_does() {
    let cases = [
        ("--debug 1", "mpiexec -n 8 valgrind ./program"),
        ("--wrap 1 valgrind", "mpiexec -n 8 valgrind ./program"),
        ("--trace t.json", "start the program with `angara run`"),
        ("--check=races", "start the program with `angara run`"),
        ("--clock virtual", "start the program with `angara run`"),
        ("--check", "set SHMEM_DEBUG=1 for the program"),
        ("--timeout 5", "set ANGARA_TIMEOUT=SECONDS for the program"),
        ("--collectives-table t", "set ANGARA_COLLECTIVES_TABLE=FILE for the program"),
        ("--env A=1", "use what your launcher has for variables"),
        ("--label", "mpiexec -l"),
    ];
    for (options, remedy) in cases {
        let test = Test::new("debug-launcher");
        let mut command = test.command(tools::tool("angara"));
        let host = command.arg("__host").args(["2", ""]).env("ANGARA_OPTIONS", options).output();
        let host = host.expect("angara starts");
        let said = String::from_utf8_lossy(&host.stderr);
        let option = options.split(' ').next().expect("an option");
        assert!(said.contains(option) && said.contains(remedy), "{options}: {host:?}");
        assert!(host.stdout.is_empty(), "{options}: {host:?}");
        test.assert_clean();
    }
}

#[test]
fn valgrind_on_one_pe_sees_its_mistakes_alone() {
    if !have("valgrind") {
        return;
    }
    let program = tools::compile("tests/c/openshmem/rma.c");
    for path in ["direct", "ring"] {
        let test = Test::new("debug-valgrind");
        let wrap = "valgrind -q --error-exitcode=9 --log-file=vg.$ANGARA_PE";
        let mut command = test.angara(["run", "-n", "3", "--heap", "16M", "--path", path, "--wrap", "1", wrap, "--"]);
        command.arg(&program);
        let done = test.run(command).success();
        assert!(done.stdout.contains(" passed"), "{done}");
        let said = |pe: u32| std::fs::read_to_string(test.file(&format!("vg.{pe}")));
        assert!(said(0).is_err() && said(2).is_err(), "tools of other PEs");
        // A mapping of the heaps of all PEs is large, which valgrind mentions.
        let said = said(1).expect("valgrind writes it");
        assert!(said.lines().all(|l| l.contains("set address range perms")), "{said}");
        test.assert_clean();
    }
}

#[test]
fn a_status_tells_what_the_pes_of_a_job_wait_for() {
    let test = Test::new("debug-status");
    let job = hang(&test);
    let text = waits(&test);
    let waited = |who: &str, what: &str| text.lines().any(|l| l.contains(who) && l.contains(what));
    assert!(waited("PE 2 waited for ", "s: shmem_long_wait_until: the variable at 0x"), "{text}");
    assert!(waited("PEs 0-1 waited for ", "s: shmem_barrier_all: all PEs to enter the barrier"), "{text}");
    let done = test.run(test.angara(["status", "--waits", "1", "--json"])).success();
    assert!(done.stdout.contains("\"what\": \"shmem_barrier_all"), "{done}");
    let done = test.run(test.angara(["status", "--json"])).success();
    assert!(!done.stdout.contains("\"waits\""), "nobody asked: {done}");
    let done = test.run(test.angara(["status", "--waits", "77"])).failure(&["there is no job 77", "angara status"]);
    assert_eq!(done.code(), 1);
    job.signal(Signal::TERM);
    job.wait(PATIENCE);
    test.assert_clean();
}

#[test]
fn a_signal_ends_a_job_that_hangs_and_says_what_its_pes_waited_for() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        if ignored(signal) {
            eprintln!(
                "note: {signal:?} is ignored here (nohup, or a shell's background), as it then is by the launcher"
            );
            continue;
        }
        let test = Test::new("debug-signal");
        let job = hang(&test);
        waits(&test);
        job.signal(signal);
        let done = job.wait(PATIENCE).failure(&[
            "ended by signal",
            "angara: PE 2 waited for ",
            "s: shmem_long_wait_until: the variable at 0x",
            "angara: PEs 0-1 waited for ",
            "s: shmem_barrier_all: all PEs to enter the barrier",
        ]);
        assert_eq!(done.code(), code, "{done}");
        test.assert_clean();
    }
}

#[test]
fn a_signal_ends_a_job_also_beside_a_daemon_that_does_not_answer() {
    let test = Test::new("debug-deaf");
    let job = hang(&test);
    waits(&test);
    let daemon = test.named("fabricd").into_iter().next().expect("a private one");
    daemon.stop();
    job.signal(Signal::TERM);
    // The PEs end; then the daemon is asked for the traffic, and may answer again.
    assert!(poll_until(|| test.named("errorsg").is_empty()), "{}", job.so_far());
    daemon.signal(Signal::CONT);
    let done = job.wait(PATIENCE).failure(&["ended by signal 15"]);
    assert!(!done.stderr.contains("waited for"), "{done}");
    test.assert_clean();
}
