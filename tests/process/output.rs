//! Outputs that nobody reads or that have no room, and limits of the shell under which things are started: every
//! command ends with a message and a code, and no daemon ends because of them.

use angara_protocol::msg::{JobSpec, Path};
use angara_tests::cluster::{Cluster, Hosts};
use angara_tests::daemon::{Daemon, spec};
use angara_tests::hostile::Victim;
use angara_tests::process::{PATIENCE, poll_until};
use angara_tests::users::only_root_can;
use angara_tests::{Finished, Test, tools};
use std::os::unix::fs::{PermissionsExt, chown};

/// A user of no other test: whose processes are counted.
const ALICE: u32 = 65_004;

/// What a shell does to standard output before it becomes the command, and how the command then ends.
const FULL: &str = "exec >/dev/full";
const SMALL: &str = "exec >file; ulimit -f 0";
/// A pipe whose reader has gone.
const CLOSED: &str = "rm -f fifo; mkfifo fifo; exec 3<>fifo 4>fifo 3>&-; exec >&4";
/// Standard error, too.
const DEAF: &str = "exec >/dev/full 2>/dev/full";

/// Runs a command that prints a result with every such output.
fn tries(test: &Test, program: &str, args: &[&str]) {
    let run = |before: &str| {
        let mut command = test.after(before, tools::tool(program));
        command.args(args);
        test.spawn(command).wait(PATIENCE)
    };
    for before in [FULL, SMALL] {
        // Without a daemon that runs, a job has one under the same limit, which then is its first problem.
        if before == SMALL && args[0] == "run" && !args.contains(&"--runtime-dir") && args[1] == "-n" {
            continue;
        }
        let done = run(before);
        assert!(done.code() != 0 && done.code() < 100, "{program} {args:?} with `{before}`: {done}");
        let reason = if before == FULL { "No space left" } else { "File too large" };
        done.failure(&["standard output", reason]);
    }
    let done = run(CLOSED);
    // A program that writes on ends as it would in a shell.
    let fine = done.code() < 100 || args[0] == "run" && done.code() == 128 + 13;
    assert!(!done.stderr.contains("panicked") && fine, "{program} {args:?} with a closed pipe: {done}");
    assert!(!done.stderr.contains("error:"), "a reader who has seen enough is no error: {done}");
    let done = run(DEAF);
    assert!(done.code() != 0 && done.code() < 100, "{program} {args:?} without any output: {done}");
}

#[test]
fn commands_that_need_no_daemon() {
    let test = Test::new("output");
    let report = test.file("report.json");
    let report = report.to_str().expect("utf-8");
    let mut command = test.angara(["run", "-n", "2", "--report", report]);
    command.arg(tools::compile("tests/c/openshmem/environment.c"));
    test.run(command).success();
    std::fs::write(
        test.file("sweep.toml"),
        "topology = \"torus:2x2\"\nwarmup = 10\ncycles = 20\n[sweep]\nload = [0.1]\n",
    )
    .expect("scratch file");
    test.run(test.angara(["sim", "sweep", "sweep.toml", "--out", "merged"])).success();
    std::fs::write(test.file("traffic.txt"), "0 1 5\n1 0 5\n").expect("scratch file");
    let commands: [(&str, &[&str]); 37] = [
        ("angara", &["--help"]),
        ("angara", &["--version"]),
        ("angara", &["run", "--help"]),
        ("angara", &["run", "-n", "2", "--", "echo", "hello"]),
        ("angara", &["run", "-n", "1", "--", "seq", "100000"]),
        ("angara", &["status"]),
        ("angara", &["status", "--json"]),
        ("angara", &["report", report]),
        ("angara", &["report", "--heat", report]),
        ("angara", &["doctor"]),
        ("angara", &["doctor", "--json"]),
        ("angara", &["plan", "barrier"]),
        ("angara", &["plan", "barrier", "--json"]),
        ("angara", &["plan", "matmul"]),
        ("angara", &["plan", "routes"]),
        ("angara", &["plan", "tree"]),
        ("angara", &["alloc", "set", "--torus", "4x4", "-n", "3"]),
        ("angara", &["alloc", "check", "--torus", "4x4", "--nodes", "0-3"]),
        ("angara", &["alloc", "simulate", "--torus", "4x4", "--lublin", "20"]),
        ("angara", &["alloc", "simulate", "--torus", "4x4", "--lublin", "20", "--write-swf", "-"]),
        ("angara", &["alloc", "map", "--torus", "2x2", "-n", "2", "--traffic", "traffic.txt"]),
        ("angara", &["sim", "run", "--topology", "torus:2x2", "--cycles", "20", "--warmup", "10"]),
        ("angara", &["sim", "run", "--topology", "torus:2x2", "--cycles", "20", "--warmup", "10", "--json"]),
        ("angara", &["sim", "sweep", "sweep.toml"]),
        ("angara", &["sim", "merge", "merged"]),
        ("angara", &["sim", "reproduce", "--quick", "spmv"]),
        ("angara", &["sim", "presets"]),
        ("angara", &["sim", "presets", "desmos"]),
        ("angara", &["sim", "workloads"]),
        ("fabricd", &["--help"]),
        ("fabricd", &["--version"]),
        ("fabricd", &["--torus", "2x2", "--check-config"]),
        ("oshrun", &["--help"]),
        ("oshcc", &["--help"]),
        ("oshcc", &["-show", "a.c"]),
        ("oshcc", &["-showme:compile"]),
        ("oshcc", &["-showme:link"]),
    ];
    for (program, args) in commands {
        // These write files, which a file size limit is about.
        if args.contains(&"sweep") || args.contains(&"merge") {
            let mut command = test.after(FULL, tools::tool(program));
            command.args(args);
            test.run(command).failure(&["standard output", "No space left"]);
            continue;
        }
        tries(&test, program, args);
    }
}

#[test]
fn commands_that_ask_a_daemon() {
    let test = Test::new("output-daemon");
    let cluster = Cluster::start(&test, "2x2", Hosts::loopback(2), &[]);
    cluster.wait_up();
    let dir = cluster.dir(0);
    let dir = dir.to_str().expect("utf-8");
    let file = cluster.file(0);
    let commands: [&[&str]; 9] = [
        &["status", "--runtime-dir", dir],
        &["status", "--runtime-dir", dir, "--json"],
        &["status", "--runtime-dir", dir, "--nodes", "--heat"],
        &["fault", "list", "--runtime-dir", dir],
        &["cluster", "status", "--interval", "0.1", "--runtime-dir", dir],
        &["cluster", "status", "--interval", "0.1", "--json", "--runtime-dir", dir],
        &[
            "cluster",
            "status",
            "--interval",
            "0.1",
            "--links",
            "--cluster",
            file.to_str().expect("utf-8"),
            "--runtime-dir",
            dir,
        ],
        &["cluster", "keys", "reload", "--runtime-dir", dir],
        &["run", "-n", "2", "--runtime-dir", dir, "--", "echo", "hello"],
    ];
    for args in commands {
        tries(&test, "angara", args);
    }
    cluster.shutdown();
    // These do what they say although they cannot tell so.
    for (before, reason) in [(FULL, "No space left"), (SMALL, "File too large")] {
        let daemon = Daemon::start(&test, &["--torus", "2"]);
        let mut shutdown = test.after(before, tools::tool("angara"));
        shutdown.args(["shutdown", "--runtime-dir"]).arg(daemon.dir());
        test.run(shutdown).failure(&["standard output", reason]);
        daemon.process.wait(PATIENCE).success();
    }
    let mut init = test.after(FULL, tools::tool("angara"));
    init.args(["cluster", "init", "--torus", "2x2", "--hosts", "a,b", "--out", "c.toml"]);
    test.run(init).failure(&["standard output"]);
    test.assert_clean();
}

#[test]
fn commands_that_take_a_while() {
    let test = Test::new("output-long");
    let commands: [&[&str]; 3] = [
        &["demo", "--no-build"],
        &["bench", "shmem", "--pes", "2", "--path", "direct", "--repeat", "1", "--time", "1", "--only", "put"],
        &["bench", "sim", "--runs", "1", "--only", "no such row"],
    ];
    for args in commands {
        for before in [FULL, CLOSED] {
            let mut command = test.after(before, tools::tool("angara"));
            // Everything is built: nothing is to be learned from cargo here.
            command.args(args).env("CARGO", "true");
            let done = test.run(command);
            assert!(!done.stderr.contains("panicked") && done.code() < 100, "{args:?} with `{before}`: {done}");
            assert!(before == CLOSED || done.code() != 0, "{args:?} with `{before}`: {done}");
        }
    }
    test.assert_clean();
}

#[test]
fn cargo_is_called_where_somebody_asks_for_it() {
    let test = Test::new("output-cargo");
    let (stubs, mark) = (test.file("stubs"), test.file("mark"));
    std::fs::create_dir(&stubs).expect("ours");
    let cargo = stubs.join("cargo");
    std::fs::write(&cargo, format!("#!/bin/sh\necho \"$*\" >>'{}'\nexit 1\n", mark.display())).expect("ours");
    std::fs::set_permissions(&cargo, std::fs::Permissions::from_mode(0o755)).expect("ours");
    let path = format!("{}:{}", stubs.display(), std::env::var("PATH").expect("a PATH"));
    let angara = |args: &[&str]| {
        let mut command = test.angara(args);
        command.env_remove("CARGO").env("PATH", &path);
        test.run(command)
    };
    let measure = ["--pes", "2", "--path", "direct", "--repeat", "1", "--time", "1", "--only", "put"];
    let bench = |more: &[&'static str]| [&["bench", "shmem"], &measure[..], more].concat();
    angara(&bench(&[])).success();
    assert!(!mark.exists(), "`angara bench` has built unasked: {:?}", std::fs::read_to_string(&mark));
    for args in [&bench(&["--build"])[..], &["bench", "mpi", "--build"], &["bench", "machine", "--build"]] {
        let done = angara(args).failure(&["cargo build failed"]);
        assert_eq!(done.code(), 1, "{done}");
        let called = std::fs::read_to_string(&mark).unwrap_or_else(|e| panic!("{args:?} has not called cargo: {e}"));
        assert!(called.starts_with("build ") && called.lines().count() == 1, "{args:?}: {called}");
        std::fs::remove_file(&mark).expect("ours");
    }
    for args in [&["demo"][..], &["demo", "--no-build"]] {
        angara(args).success();
        assert!(!mark.exists(), "all is there, and {args:?} has built: {:?}", std::fs::read_to_string(&mark));
    }
    test.assert_clean();
}

#[test]
fn a_file_size_limit_kills_no_daemon_and_no_bystander() {
    let test = Test::new("output-fsize");
    // 8 MiB: enough for small jobs. Memory that is shared is a file to the kernel.
    let daemon = Daemon::start_after(&test, "ulimit -f 8192", &["--torus", "2x2x2"]);
    let mut victim = Victim::start(&daemon);
    let mut control = daemon.control();
    let large = |heap| JobSpec { heap, ..spec(1, Path::Auto) };
    let failure = control.create(large(64 << 20)).expect_err("more than the limit");
    assert!(failure.message.contains("ulimit -f") && failure.message.contains("8M"), "{failure:?}");
    victim.check("beside a job beyond the file size limit");
    // Globals are memory of the same kind.
    let job = control.create(spec(1, Path::Auto)).expect("a small job");
    let request = angara_protocol::msg::AdapterRequest::Attach {
        abi: angara_abi::ABI_VERSION,
        job: job.id,
        key: job.key.clone(),
        pe: 0,
        architecture: angara_abi::Architecture::HERE,
        statics: vec![16 << 20],
    };
    match angara_tests::client::Socket::connect(daemon.dir()).ask(&request) {
        Some((angara_protocol::msg::AdapterReply::Error(f), _)) => assert!(f.message.contains("ulimit -f"), "{f:?}"),
        other => panic!("{:?}", other.map(|o| o.0)),
    }
    victim.check("beside globals beyond the file size limit");
    victim.end();
    drop(control);
    assert!(poll_until(|| daemon.status().jobs.is_empty()));
    daemon.shutdown();

    // A private daemon has its launcher's limit.
    for limit in ["0", "64", "8192"] {
        let mut run = test.after(&format!("ulimit -f {limit}"), tools::tool("angara"));
        run.args(["run", "-n", "2", "--heap", "64M", "true"]);
        let done = test.run(run).failure(&["ulimit -f"]);
        assert_eq!(done.code(), 1, "{done}");
    }
    // A report that does not fit is an error, too.
    let mut run = test.after("ulimit -f 65", tools::tool("angara"));
    run.args(["run", "-n", "2", "--heap", "4K", "true"]);
    test.run(run);
    // The programs of a job have the default: nobody changed what the shell gave them.
    let mut run = test.angara(["run", "-n", "1", "--", "sh", "-c"]);
    run.arg("ulimit -f 0; exec head -c 1000 /dev/zero >file");
    let done = test.run(run).failure(&["killed by signal 25"]);
    assert_eq!(done.code(), 128 + 25, "{done}");
    test.assert_clean();
}

#[test]
fn a_log_without_room_kills_no_daemon() {
    let test = Test::new("output-log");
    let daemon = Daemon::start_after(&test, "exec 2>/dev/full", &["--torus", "2x2x2", "--log", "debug"]);
    let mut victim = Victim::start(&daemon);
    victim.check("beside a full log");
    victim.end();
    daemon.shutdown();
    test.assert_clean();
}

/// Every number of processes that is too small for something is tried.
fn with_few_processes(test: &Test, words: &str, enough: impl Fn(&Finished) -> bool) {
    for most in 1..=24 {
        let mut command = test.after(&format!("ulimit -u {most}"), "bash");
        // Root is bound by no number of processes.
        command.args(["-c", &format!("exec {words}")]).env("HOME", "/nonexistent");
        std::os::unix::process::CommandExt::uid(&mut command, ALICE);
        std::os::unix::process::CommandExt::gid(&mut command, ALICE);
        let done = test.spawn(command).wait(PATIENCE);
        assert!(!done.stderr.contains("panicked"), "{most} processes: {done}");
        assert!(done.code() < 100, "{most} processes: {done}");
        if enough(&done) {
            println!("`{words}` needs {most} processes");
            return;
        }
        assert!(!done.stderr.is_empty(), "{most} processes, and not a word: {done}");
    }
    panic!("`{words}` needs more than 24 processes");
}

#[test]
fn where_nothing_more_can_be_started_commands_say_so() {
    if only_root_can() {
        return;
    }
    let test = Test::new("output-nproc");
    for name in ["angara", "angara-sim", "fabricd"] {
        tools::copy_program(&tools::tool(name), &test.file(name));
    }
    let run = test.file("..").join("run");
    chown(&run, Some(ALICE), Some(ALICE)).expect("we are root");
    std::fs::write(
        test.file("sweep.toml"),
        "topology = \"torus:4x4\"\nwarmup = 10\ncycles = 20\n[sweep]\nload = [0.1, 0.2]\n",
    )
    .expect("scratch file");
    chown(test.file(""), Some(ALICE), Some(ALICE)).expect("we are root");
    let well = |done: &Finished| done.code() == 0 && done.stderr.is_empty();
    with_few_processes(&test, "./angara run -q -n 2 -- sleep 0", well);
    with_few_processes(&test, "./angara sim run --topology torus:4x4 --cycles 20 --warmup 10 --threads 4", well);
    let generic = "./angara sim run --topology torus:4x4 --router generic --cycles 20 --warmup 10 --threads 4";
    with_few_processes(&test, generic, well);
    with_few_processes(&test, "./angara sim sweep sweep.toml", well);
    test.assert_clean();
}

#[test]
fn an_output_that_cannot_be_written_has_one_status_whatever_it_is() {
    let test = Test::new("unwritten");
    let full = test.file("full");
    std::os::unix::fs::symlink("/dev/full", &full).expect("a link");
    let full = full.to_str().expect("utf-8");
    let program = tools::compile("tests/c/openshmem/environment.c");
    let program = program.to_str().expect("utf-8");
    let report = test.file("report.json");
    let report = report.to_str().expect("utf-8");
    test.run(test.angara(["run", "-n", "2", "--report", report, program])).success();
    for words in [
        &["run", "-n", "2", "--report", full, program][..],
        &["run", "-n", "2", "--trace", full, program],
        &["run", "-n", "2", "--capture", full, program],
        &["whatif", "-n", "2", "--csv", full, "--", program],
        &["whatif", "-n", "2", "--json", full, "--", program],
        &["report", report, "--html", full],
    ] {
        let done = test.run(test.angara(words)).failure(&["cannot write", "full"]);
        assert_eq!(done.code(), 1, "{words:?}: {done}");
        test.assert_clean();
    }
    // The job's own failure says more.
    let done = test.run(test.angara(["run", "-n", "2", "--report", full, "sh", "-c", "exit 7"]));
    assert!(done.code() == 7 && done.stderr.contains("cannot write"), "{done}");
    test.assert_clean();
}

#[test]
fn a_full_disk_leaves_the_earlier_report_and_nothing_else() {
    let test = Test::new("full-disk");
    let disk = test.file("disk");
    std::fs::create_dir(&disk).expect("a directory");
    let script = "mount -t tmpfs -o size=64k none \"$0\" && cd \"$0\" || exit 99\n\
                  echo earlier > out.json; head -c 100000 /dev/zero > fill 2> /dev/null\n\
                  \"$@\"; echo \"status $?, $(cat out.json), $(ls -A | tr '\\n' ' ')\"";
    let mut command = test.command("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]).arg(&disk);
    command.arg(tools::tool("angara")).args(["run", "-q", "-n", "2", "--report", "out.json"]);
    command.arg(tools::compile("tests/c/openshmem/environment.c"));
    let done = test.run(command);
    if done.code() != 0 {
        println!("skipped: no file system may be mounted: {done}");
        return;
    }
    assert!(done.stdout.ends_with("status 1, earlier, fill out.json \n"), "{done}");
    assert!(done.stderr.contains("cannot write the report out.json"), "{done}");
    test.assert_clean();
}
