//! Jobs over several hosts as their user sees them: input and output, signals, ends and failures of processes on other
//! hosts, and what is missing or different there. Two daemons, h0 with the left half of a 4x2 torus and h1 with the right.

use angara_protocol::launch::{ENV_JOB, ENV_RUNTIME_DIR};
use angara_tests::cluster::{Cluster, Hosts};
use angara_tests::process::{PATIENCE, Running, poll_until};
use angara_tests::{Finished, Test, tools};
use rustix::process::Signal;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// PE 0 on h1 and PE 1 on h0, and so on.
const SWAPPED: &str = "2\n0\n3\n1\n";

fn two(test: &Test) -> Cluster<'_> {
    Cluster::start(test, "4x2", Hosts::loopback(2), &[])
}

fn shell(cluster: &Cluster<'_>, args: &[&str], script: &str) -> Command {
    let mut command = cluster.run(args, Path::new("/bin/sh"));
    command.args(["-c", script]);
    command
}

/// Waits until N processes called `name` of this test run.
fn running(test: &Test, name: &str, count: usize, job: &Running) {
    let all = || test.named(name).len() == count;
    assert!(poll_until(all), "{} of {count} `{name}` run\n{}", test.named(name).len(), job.so_far());
}

/// Nothing is left of a job: only the daemons run.
fn only_daemons(test: &Test) {
    let left = || test.processes().iter().all(|p| p.comm == "fabricd");
    assert!(poll_until(left), "left: {:?}", test.processes());
}

#[test]
fn signals_to_the_launcher_end_everything_everywhere() {
    let test = Test::new("cluster-signals");
    let cluster = two(&test);
    // Also a grandchild that ignores what it may ignore, in a session of its own. Beside a launcher that is killed without
    // a word it would stay: the kernel then ends the PEs of that host, and nobody what they had started.
    let stubborn = "trap '' TERM INT HUP; setsid sleep 1000 & exec sleep 1000";
    let there = format!("[ ${} -ge 2 ] && setsid sleep 1000 & exec sleep 1000", angara_protocol::launch::ENV_PE);
    let cases = [
        (Signal::INT, 130, stubborn, 8),
        (Signal::TERM, 143, stubborn, 8),
        (Signal::HUP, 129, stubborn, 8),
        (Signal::KILL, 137, &there, 6),
    ];
    for (signal, code, script, processes) in cases {
        let job = test.spawn(shell(&cluster, &["-n", "4"], script));
        running(&test, "sleep", processes, &job);
        job.signal(signal);
        let done = job.wait(PATIENCE);
        assert_eq!(done.code(), code, "{signal:?}: {done}");
        only_daemons(&test);
        let empty = |host| poll_until(|| cluster.control(host).status().jobs.is_empty());
        assert!(empty(0) && empty(1), "{signal:?}: jobs are left");
    }
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn input_reaches_pe_0_wherever_it_is() {
    let test = Test::new("cluster-stdin");
    let cluster = two(&test);
    let text: String = (0..20_000).map(|i| format!("line {i} of what goes in\n")).collect();
    std::fs::write(test.file("input"), &text).expect("written");
    std::fs::write(test.file("swapped"), SWAPPED).expect("written");
    let map = format!("file:{}", test.file("swapped").display());
    // The others have none: their `cat` ends at once.
    for (place, map) in [("here", "linear"), ("there", &map)] {
        for kind in ["file", "pipe"] {
            let mut command = cluster.run(&["-n", "4", "--map", map], Path::new("/bin/cat"));
            let piped = kind == "pipe";
            command.stdin(match piped {
                true => Stdio::piped(),
                false => std::fs::File::open(test.file("input")).expect("written").into(),
            });
            let mut job = test.spawn(command);
            if piped {
                let (mut pipe, text) = (job.take_stdin(), text.clone());
                // Fails only if the job does, which says more.
                std::thread::spawn(move || drop(pipe.write_all(text.as_bytes())));
            }
            let done = job.wait(PATIENCE).success();
            assert!(done.stdout == text, "PE 0 {place}, {kind}: {} of {} bytes", done.stdout.len(), text.len());
        }
    }
    // A PE 0 that reads nothing holds up nobody, though more is sent than fits on the way.
    let mut command = shell(&cluster, &["-n", "4", "--map", &map], "exit 0");
    command.stdin(Stdio::piped());
    let mut job = test.spawn(command);
    let mut pipe = job.take_stdin();
    let writer = std::thread::spawn(move || pipe.write_all(&vec![b'x'; 4 << 20]));
    job.wait(PATIENCE).success();
    assert!(writer.join().expect("no panic").is_err(), "somebody took 4 MiB that nobody read");
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn much_output_of_all_hosts_arrives_whole_and_in_order() {
    let test = Test::new("cluster-output");
    let cluster = two(&test);
    // 4 MB of numbered lines on each output from every PE: many times what is under way at once.
    let script = format!(
        "i=0; while [ $i -lt 20 ]; do seq -f \"${0} $i %06.0f {1}\" 10000; seq -f \"${0} $i %06.0f err\" 1000 >&2; i=$((i+1)); done",
        angara_protocol::launch::ENV_PE,
        "x".repeat(20)
    );
    let done = test.run(shell(&cluster, &["-n", "4"], &script)).success();
    for (what, text, each) in [("stdout", &done.stdout, 200_000), ("stderr", &done.stderr, 20_000)] {
        for pe in 0..4 {
            let begin = format!("{pe} ");
            let own: Vec<&str> = text.lines().filter(|l| l.starts_with(&begin)).collect();
            assert_eq!(own.len(), each, "{what} of PE {pe}");
            let mut sorted = own.clone();
            sorted.sort_by_key(|l| {
                l.split(' ').skip(1).take(2).map(|n| n.parse::<u32>().expect("a number")).collect::<Vec<_>>()
            });
            assert!(own == sorted, "{what} of PE {pe} is out of order");
        }
        assert_eq!(text.lines().count(), 4 * each, "{what}");
    }
    // Nobody reads for a while: the PEs wait and nothing is kept beyond the pipes on the way.
    let mut command = test.command("sh");
    let angara = shell(&cluster, &["-n", "4"], "exec seq 3000000");
    let words = std::iter::once(angara.get_program()).chain(angara.get_args());
    let quoted: Vec<String> = words.map(|w| format!("'{}'", w.to_string_lossy())).collect();
    command.args(["-c", &format!("{} | {{ sleep 2; exec wc -l; }}", quoted.join(" "))]);
    let done = test.run(command).success();
    assert_eq!(done.stdout.trim(), "12000000");
    cluster.shutdown();
    test.assert_clean();
}

fn code_of(test: &Test, cluster: &Cluster<'_>, script: &str) -> Finished {
    test.run(shell(cluster, &["-n", "4"], script))
}

#[test]
fn ends_of_processes_on_other_hosts_are_told() {
    let test = Test::new("cluster-ends");
    let cluster = two(&test);
    let pe = angara_protocol::launch::ENV_PE;
    // PEs 2 and 3 are on h1.
    let done = code_of(&test, &cluster, &format!("[ ${pe} = 2 ] && exit 42; exec sleep 1000"));
    assert!(done.code() == 42 && done.stderr.contains("PE 2"), "{done}");
    let done = code_of(&test, &cluster, &format!("[ ${pe} = 3 ] && kill -SEGV $$; exec sleep 1000"));
    assert!(done.code() == 139 && done.stderr.contains("PE 3") && done.stderr.contains("signal 11"), "{done}");
    only_daemons(&test);
    // A PE ends the whole job from there, with its own status.
    let source = test.file("end.c");
    let text = "#include <shmem.h>\nint main(void) { shmem_init(); shmem_barrier_all();\n\
                if (shmem_my_pe() == 3) shmem_global_exit(7);\nfor (;;) shmem_barrier_all(); }\n";
    std::fs::write(&source, text).expect("written");
    let program = test.file("end");
    let mut oshcc = test.command(tools::tool("oshcc"));
    oshcc.arg(&source).arg("-o").arg(&program);
    test.run(oshcc).success();
    let done = test.run(cluster.run(&["-n", "4", "--heap", "16M"], &program));
    assert_eq!(done.code(), 7, "{done}");
    // A last line without an end, and a process that leaves a child behind with its output open.
    let done = code_of(&test, &cluster, &format!("[ ${pe} = 2 ] && {{ sleep 1000 & }}; printf last-${pe}")).success();
    let mut said: Vec<&str> = done.stdout.lines().collect();
    said.sort();
    assert_eq!(said, ["last-0", "last-1", "last-2", "last-3"], "{done}");
    only_daemons(&test);
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn environment_directory_and_place_are_the_launchers() {
    let test = Test::new("cluster-environment");
    let cluster = two(&test);
    let directory = test.file("a directory");
    std::fs::create_dir(&directory).expect("made");
    let script = format!(
        "umask; pwd; echo \"$WORD\"; echo \"${{HOSTNAME-none}}\"; echo \"${ENV_RUNTIME_DIR}\"; test -n \"${ENV_JOB}\" && echo job"
    );
    let mut command = shell(&cluster, &["-n", "4", "--label"], &script);
    command.current_dir(&directory).env("WORD", "two words, \"quoted\"").env("HOSTNAME", "here");
    let done = test.run(command).success();
    for pe in 2..4 {
        let begin = format!("[{pe}] ");
        let said: Vec<&str> = done.stdout.lines().filter_map(|l| l.strip_prefix(&begin)).collect();
        let there = cluster.dir(1);
        let wanted = [
            "0022",
            directory.to_str().expect("utf-8"),
            "two words, \"quoted\"",
            "none",
            there.to_str().expect("utf-8"),
            "job",
        ];
        assert_eq!(said, wanted, "{done}");
    }
    cluster.shutdown();
    test.assert_clean();
}

/// A cluster whose second host sees other files: `script` changes its view, in a mount namespace.
fn other_view<'t>(test: &'t Test, script: &str) -> Option<Cluster<'t>> {
    let mut probe = test.command("unshare");
    probe.args(["--mount", "sh", "-c", &format!("{script} && true")]);
    if !tools::have("unshare") || test.run(probe).code() != 0 {
        println!("skipped: no mount namespaces here, or not root");
        return None;
    }
    let mut cluster = Cluster::prepare(test, "4x2", Hosts::loopback(2), "dead-after = \"10s\"", &[]);
    cluster.spawn(0);
    cluster.spawn_inside(1, &["unshare", "--mount", "sh", "-c", &format!("{script} && exec \"$0\" \"$@\"")]);
    cluster.wait_up();
    Some(cluster)
}

#[test]
fn what_is_missing_or_different_on_a_host_is_named() {
    let test = Test::new("cluster-missing");
    let (programs, directory) = (test.file("programs"), test.file("directory"));
    let make = |d: &PathBuf| std::fs::create_dir_all(d).expect("made");
    [&programs, &directory].into_iter().for_each(make);
    let (rma, amo) = (tools::compile("tests/c/openshmem/rma.c"), tools::compile("tests/c/openshmem/amo.c"));
    for name in ["absent", "different"] {
        tools::copy_program(&rma, &programs.join(name));
    }
    tools::copy_program(&amo, &test.file("other"));
    // Host h1 has another program under the second name, none under the first, and an empty directory.
    std::fs::create_dir(test.file("there")).expect("made");
    std::fs::rename(test.file("other"), test.file("there/different")).expect("same file system");
    let script = format!(
        "mount --bind {} {} && mount -t tmpfs none {}",
        test.file("there").display(),
        programs.display(),
        directory.display()
    );
    let Some(cluster) = other_view(&test, &script) else { return };
    std::fs::create_dir_all(directory.join("deep")).expect("made");
    let run = |name: &str| cluster.run(&["-n", "4", "--heap", "16M", "--timeout", "200"], &programs.join(name));
    test.run(run("absent")).failure(&["host h1: ", "absent", "put the program at the same path there"]);
    only_daemons(&test);
    test.run(run("different")).failure(&["different executable"]);
    only_daemons(&test);
    let mut command = shell(&cluster, &["-n", "4"], "exec sleep 1000");
    command.current_dir(directory.join("deep"));
    test.run(command).failure(&[&format!("host h1: there is no directory {}", directory.join("deep").display())]);
    only_daemons(&test);
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn commands_before_a_program_stand_there_on_all_hosts() {
    let test = Test::new("cluster-wrap");
    let cluster = two(&test);
    let options = ["-n", "4", "--wrap", "0,3", "env TOOL=of.$ANGARA_PE"];
    let done = test.run(shell(&cluster, &options, "echo $ANGARA_PE $TOOL")).success();
    let mut lines: Vec<&str> = done.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 of.0", "1", "2", "3 of.3"]);
    // A terminal is on one host only.
    test.run(shell(&cluster, &["-n", "4", "--debug", "3", "--wrap", "3", "env"], "sleep 1000"))
        .failure(&["cannot start PE 3", "it runs on host h1; --debug is for PEs of this host"]);
    only_daemons(&test);
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn a_daemon_that_ends_takes_all_programs_of_its_jobs_along() {
    let test = Test::new("cluster-daemons");
    let mut cluster = two(&test);
    let there = format!("[ ${} -ge 2 ] && setsid sleep 1000 & exec sleep 1000", angara_protocol::launch::ENV_PE);
    // The launcher's own daemon, and the one that only starts programs for it.
    let cases = [
        (0, Signal::KILL, "went away"),
        (1, Signal::KILL, "host h1 was lost"),
        (0, Signal::TERM, "was shut down"),
        (1, Signal::TERM, "host h1 was lost: its daemon was shut down"),
    ];
    for (host, signal, told) in cases {
        let job = test.spawn(shell(&cluster, &["-n", "4"], &there));
        running(&test, "sleep", 6, &job);
        let daemon = cluster.take(host);
        daemon.signal(signal);
        daemon.wait(PATIENCE);
        // Another one takes its place at once: what the first one left is no obstacle.
        cluster.spawn(host);
        let done = job.wait(PATIENCE);
        assert!(done.code() == 1 && done.stderr.contains(told), "h{host} {signal:?}: {done}");
        only_daemons(&test);
        cluster.wait_up();
        let empty = |host| poll_until(|| cluster.control(host).status().jobs.is_empty());
        assert!(empty(0) && empty(1), "jobs are left");
        test.run(shell(&cluster, &["-n", "4"], "exit 0")).success();
    }
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn what_does_not_answer_when_it_is_to_end_is_not_waited_for_for_ever() {
    let test = Test::new("cluster-mute");
    // A silent host is not taken for dead before the launcher gives up.
    let mut cluster = Cluster::prepare(&test, "4x2", Hosts::loopback(2), "dead-after = \"60s\"", &[]);
    (0..2).for_each(|host| cluster.spawn(host));
    cluster.wait_up();
    // A launcher's other half that was stopped goes on when it is to end.
    let job = test.spawn(shell(&cluster, &["-n", "4"], "exec sleep 1000"));
    running(&test, "sleep", 4, &job);
    let agents: Vec<_> = test.processes().into_iter().filter(|p| p.args.iter().any(|a| a == "__agent")).collect();
    assert_eq!(agents.len(), 1, "the other half on h1: {:?}", test.processes());
    agents[0].stop();
    job.signal(Signal::INT);
    assert_eq!(job.wait(PATIENCE).code(), 130);
    only_daemons(&test);
    // A daemon that was stopped does not.
    let job = test.spawn(shell(&cluster, &["-n", "4"], "exec sleep 1000"));
    running(&test, "sleep", 4, &job);
    let daemon = cluster.daemon(1).expect("runs");
    daemon.process().stop();
    job.signal(Signal::INT);
    let done = job.wait(2 * PATIENCE);
    assert!(done.code() == 130 && done.stderr.contains("PEs 2-3 on host h1 did not end"), "{done}");
    daemon.signal(Signal::CONT);
    only_daemons(&test);
    cluster.shutdown();
    test.assert_clean();
}
