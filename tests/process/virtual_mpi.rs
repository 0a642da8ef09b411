//! MPI programs in virtual time: MPICH as its wheel brings it, and Open MPI where it is installed.

use angara_tests::mpi::{compile, mpich};
use angara_tests::{Finished, Test, tools};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// `tests/c/mpi/virtual.c`, built for every MPI library that is at hand.
fn programs(test: &Test) -> Vec<(&'static str, PathBuf)> {
    built(test, "virtual")
}

/// A program of `tests/c/mpi`, built for every MPI library that is at hand.
fn built(test: &Test, source: &str) -> Vec<(&'static str, PathBuf)> {
    let mut all = Vec::new();
    if let Some(venv) = mpich() {
        all.push(("MPICH", venv.join("bin/mpicc")));
        all.push(("MPICH by MPI's own ABI", venv.join("bin/mpicc_abi")));
    }
    match tools::have("mpicc.openmpi") {
        true => all.push(("Open MPI", "mpicc.openmpi".into())),
        false => println!("skipped: no mpicc.openmpi"),
    }
    let built = all.into_iter().enumerate().map(|(i, (name, wrapper))| {
        let (program, own) = (compile(test, source, wrapper), test.file(&format!("{source}-{i}")));
        std::fs::rename(program, &own).expect("a new name");
        (name, own)
    });
    built.collect()
}

fn run(test: &Test, options: &[&str], program: &Path, words: &[&str]) -> Finished {
    let fixed = ["run", "--quiet", "--timeout", "200", "--clock", "virtual"];
    let mut command = test.angara([&fixed[..], options, &["--"]].concat());
    command.arg(program).args(words);
    test.run(command)
}

/// Half a round trip in nanoseconds.
fn trip(test: &Test, options: &[&str], program: &Path, words: &[&str]) -> f64 {
    let done = run(test, options, program, &[&["trips"], words].concat()).success();
    done.stdout.trim().parse().unwrap_or_else(|_| panic!("no time: {done}"))
}

#[test]
fn a_message_takes_what_the_network_takes_and_what_the_library_costs() {
    let test = Test::new("virtual-mpi-trips");
    for (name, program) in programs(&test) {
        let of = |options: &[&str], words: &[&str]| trip(&test, options, &program, words);
        let ring = ["-n", "8", "--torus", "8"];
        let near = of(&ring, &["16"]);
        assert!((700.0..800.0).contains(&near), "{name}: {near} ns");
        let is = |time: f64, wanted: f64, what: &str| {
            assert!(
                (time - wanted).abs() < 0.5,
                "{name}, {what}: {time} ns, not {wanted}, where the nearest has {near}"
            );
        };
        // Injection, ejection and one hop, of which the last router's share is a part of the ejection.
        for (peer, hops) in [("2", 2.0), ("4", 4.0), ("7", 1.0)] {
            is(of(&ring, &["16", peer]), near + (hops - 1.0) * 129.0, peer);
        }
        for hop in [60.0, 300.0] {
            let set = format!("hop={hop}ns");
            // The ejection of 300 ns contains what the last router takes, which is a share of a hop.
            let time = of(&["-n", "2", "--set", &set], &["16"]);
            is(time, near + hop - 129.0, &set);
        }
        is(of(&["-n", "2", "--set", "send-overhead=100ns"], &["16"]), near + 100.0, "send-overhead");
        is(of(&["-n", "2", "--set", "receive-overhead=30ns"], &["16"]), near + 30.0, "receive-overhead");
        is(of(&["-n", "2", "--set", "copy=1024ns"], &["100"]), of(&["-n", "2"], &["100"]) + 200.0, "copy");
        is(of(&["-n", "2", "--machine", "desmos"], &["16"]), 850.0, "desmos");
        // A large message takes one way to be offered and two to be got, and what its bytes take on the link.
        let (large, bytes) = (of(&["-n", "2"], &["20000"]), 20_000.0);
        assert!(large < 4.5 * near + bytes / 7.5, "{name}: {large} ns for {bytes} bytes");
        // Two on one node go by its adapter, too.
        let one_node = of(&["-n", "2", "--ppn", "2"], &["16"]);
        assert!((500.0..near).contains(&one_node), "{name}: {one_node} ns on one node");
    }
    test.assert_clean();
}

#[test]
fn patterns_of_large_messages_get_what_the_network_carries() {
    let test = Test::new("virtual-mpi-patterns");
    for (i, (name, program)) in built(&test, "patterns").into_iter().enumerate() {
        let of = |options: &[&str], words: [&str; 3]| -> f64 {
            let done = run(&test, options, &program, &words).success();
            let rate = done.stdout.split_whitespace().nth(2).and_then(|word| word.parse().ok());
            rate.unwrap_or_else(|| panic!("no rate: {done}"))
        };
        // 16 of 18 flits of a packet carry data: 6.67 of 7.5 GB/s.
        for (options, pattern, least) in [
            (&["-n", "2"][..], "stream", 6.3),
            (&["-n", "8", "--torus", "8"], "incast", 6.2),
            (&["-n", "8", "--torus", "8"], "shift", 6.0),
        ] {
            let rate = of(options, [pattern, "1048576", "3"]);
            assert!((least..6.67).contains(&rate), "{name}, {pattern}: {rate} GB/s");
        }
        if i > 0 {
            continue; // what tables do is the network's
        }
        let [parity, balanced] = ["routes=parity", "routes=balanced"]
            .map(|routes| of(&["-n", "32", "--machine", "desmos", "--set", routes], ["alltoall", "1024", "2"]));
        assert!(balanced > 1.05 * parity, "{name}: {balanced} and {parity} GB/s");
    }
    test.assert_clean();
}

#[test]
fn two_runs_are_the_same_to_the_byte() {
    let test = Test::new("virtual-mpi-same");
    for (name, program) in programs(&test) {
        for (words, options) in [
            ("all", &["-n", "8"][..]),
            ("all", &["-n", "6", "--ppn", "2", "--map", "random:3"]),
            ("all", &["-n", "4", "--seed", "7"]),
            ("asks", &["-n", "3"]),
        ] {
            let once = || {
                let [report, trace] = ["report.json", "trace.json"].map(|name| test.file(name));
                let [to, traced] = [&report, &trace].map(|file| file.to_str().expect("a name"));
                let options = [options, &["--report", to, "--trace", traced, "--trace-links=4"]].concat();
                let done = run(&test, &options, &program, &[words]).success();
                let [report, trace] = [&report, &trace].map(|file| std::fs::read_to_string(file).expect("a file"));
                (done.stdout.clone(), report, trace)
            };
            let (said, report, trace) = once();
            assert!(trace.contains("MPI_") && trace.contains(r#""ph":"C""#), "{name}: {trace}");
            assert!(said.contains("rank 2 has"), "{name}: {said}");
            let routine = if words == "all" { "MPI_Alltoall" } else { "MPI_Mprobe" };
            assert!(report.contains(routine) && !report.contains("MPI_Finalize"), "{name}: {report}");
            for _ in 0..2 {
                assert_eq!(once(), (said.clone(), report.clone(), trace.clone()), "{name} {words} {options:?}");
            }
        }
    }
    test.assert_clean();
}

#[test]
fn a_deadlock_is_known_at_once_with_the_call_and_the_message() {
    let test = Test::new("virtual-mpi-dead");
    for (name, program) in programs(&test) {
        let done = run(&test, &["-n", "3"], &program, &["dead"]);
        assert_eq!(done.code(), 1, "{name}: {done}");
        let said = "PE 0 (node 0): MPI_Recv: deadlock at 0 ns";
        let what = "receive from PE 1, tag 5";
        assert!(done.stderr.contains(said) && done.stderr.contains(what), "{name}: {done}");
        assert!(done.stderr.contains("up to 4 bytes"), "{name}: {done}");
        test.assert_clean();
    }
}

#[test]
fn a_timeline_has_calls_with_their_peers_and_who_was_late() {
    let test = Test::new("virtual-mpi-timeline");
    for (name, program) in built(&test, "timeline") {
        for options in [&["--clock", "virtual"][..], &["--path", "ring"], &[]] {
            let trace = test.file("trace.json");
            let mut command = test.angara(["run", "--quiet", "--timeout", "200", "-n", "3", "--trace"]);
            command.arg(&trace).args(options).arg("--").arg(&program);
            test.run(command).success();
            let text = std::fs::read_to_string(&trace).expect("a timeline");
            let events: Vec<Value> = serde_json::from_str(&text).expect("a list of events");
            let calls = |pe: u64, routine: &str| -> Vec<&Value> {
                let is = |event: &&Value| event["ph"] == "X" && event["pid"] == pe && event["name"] == routine;
                events.iter().filter(is).map(|event| &event["args"]).collect()
            };
            let what = format!("{name} {options:?}");
            let late = |args: &Value, by: u64, least: f64| {
                assert_eq!(args["woken_by"], by, "{what}: {args}");
                assert!(args["late"].as_f64().is_some_and(|late| late >= least), "{what}: {args}");
            };
            let [small, large] = calls(1, "MPI_Recv")[..] else { panic!("{what}: not two receives: {text}") };
            // What a wildcard has received is known.
            assert_eq!((&small["from"], &small["bytes"]), (&json!(0), &json!(8)), "{what}");
            // The second PE may begin to wait some milliseconds after the first begins to sleep.
            late(small, 0, 10_000.0);
            assert_eq!((&large["tag"], &large["bytes"]), (&json!(6), &json!(1 << 20)), "{what}");
            let [_, send] = calls(0, "MPI_Send")[..] else { panic!("{what}: not two sends: {text}") };
            assert_eq!((&send["to"], &send["bytes"], &send["pes"]), (&json!(1), &json!(1 << 20), &json!(3)), "{what}");
            late(send, 1, 20_000.0);
            // In the other communicator ranks are turned round, and peers are PEs all the same.
            for (pe, to, from) in [(0, 2, 1), (1, 0, 2), (2, 1, 0)] {
                let is = |routine: &str| calls(pe, routine)[0];
                assert_eq!((&is("MPI_Isend")["to"], &is("MPI_Irecv")["from"]), (&json!(to), &json!(from)), "{what}");
                assert_eq!((&is("MPI_Isend")["tag"], &is("MPI_Isend")["bytes"]), (&json!(7), &json!(8)), "{what}");
                assert_eq!(&is("MPI_Allreduce")["bytes"], &json!(8), "{what}");
            }
            let arrows = events.iter().filter(|event| event["ph"] == "f" && event["name"] == "message").count();
            assert!(arrows >= 5, "{what}: {arrows} messages");
            let mut summary = test.angara(["trace", "summary"]);
            let done = test.run({
                summary.arg(&trace);
                summary
            });
            let said = &done.success().stdout;
            assert!(said.contains("MPI_Waitall") && said.contains("Late senders"), "{what}: {said}");
        }
    }
    test.assert_clean();
}

#[test]
fn a_tool_that_wraps_calls_sees_all_of_them() {
    let Some(venv) = mpich() else { return };
    let test = Test::new("virtual-mpi-tool");
    let (wrapper, source) = (venv.join("bin/mpicc"), tools::root().join("tests/c/mpi"));
    let build = |to: &Path, options: &[&str], sources: &[&str]| {
        let sources = sources.iter().map(|name| source.join(name));
        let done = Command::new(&wrapper).args(options).args(sources).arg("-o").arg(to).output();
        let done = done.expect("the wrapper starts");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    let [plain, linked, tool] = ["plain", "linked", "tool.so"].map(|name| test.file(name));
    build(&plain, &["-pthread"], &["virtual.c"]);
    build(&linked, &["-pthread"], &["virtual.c", "tool.c"]);
    build(&tool, &["-shared", "-fPIC"], &["tool.c"]);
    let alone = run(&test, &["-n", "2"], &plain, &["trips", "16"]).success().stdout.clone();
    // Two of each hundred and two trips were not timed.
    let wanted = format!("{alone}204 sends\n");
    let preloaded = format!("LD_PRELOAD={}", tool.display());
    for (options, program) in [(&["-n", "2"][..], &linked), (&["-n", "2", "-x", &preloaded], &plain)] {
        let done = run(&test, options, program, &["trips", "16"]).success();
        assert_eq!(done.stdout, wanted, "{done}");
        assert!(!done.stderr.contains("patience"), "{done}");
    }
    test.assert_clean();
}

/// Lines of `tests/c/mpi/threads.c`: rank, thread, and nanoseconds of its clock.
fn thread_times(done: &Finished) -> Vec<(&str, u64)> {
    let time = |line: &'_ str| line.rsplit(' ').next().and_then(|ns| ns.parse().ok());
    done.stdout.lines().map(|line| (line, time(line).unwrap_or_else(|| panic!("no time: {done}")))).collect()
}

#[test]
fn threads_that_communicate_at_once_are_the_same_to_the_byte() {
    let test = Test::new("virtual-mpi-threads-order");
    for (name, program) in built(&test, "threads") {
        if name == "Open MPI" {
            // Its messages by libfabric are not for several threads.
            continue;
        }
        for (ranks, threads) in [("2", "2"), ("3", "4"), ("2", "8")] {
            let once = || run(&test, &["-n", ranks], &program, &["exchange", threads, "20"]).success();
            let first = once();
            assert!(!first.stderr.contains("doubtful"), "{name}: {first}");
            for _ in 0..3 {
                assert_eq!(once().stdout, first.stdout, "{name}, {threads} threads");
            }
        }
    }
    test.assert_clean();
}

#[test]
fn a_thread_hears_of_its_own_rank_when_that_happens() {
    let Some(venv) = mpich() else { return };
    let test = Test::new("virtual-mpi-threads-own");
    let program = compile(&test, "threads", venv.join("bin/mpicc"));
    // A thread sends 3 ms after the other one has begun to wait, which costs less than 100 ns, or to test, with a look of 50 ns and
    // at most 500 ns between two turns.
    for (mode, ns) in [("own", 100), ("poll", 1200)] {
        for ranks in ["1", "2"] {
            let done = run(&test, &["-n", ranks], &program, &[mode]).success();
            for (line, at) in thread_times(&done) {
                let late = (at % 1_000_000_000).checked_sub(3_000_000);
                assert!(late.is_some_and(|late| late < ns), "{mode}: {line}: {done}");
            }
            assert!(!done.stderr.contains("doubtful"), "{done}");
        }
    }
    // What a thread computes until it sends takes no time, however long it runs.
    let done = run(&test, &["-n", "2"], &program, &["computes"]).success();
    assert!(thread_times(&done).iter().all(|(_, at)| at % 1_000_000_000 < 1_000), "{done}");
    assert!(!done.stderr.contains("doubtful"), "{done}");
    // One that runs without end is not waited for, and that is said.
    let done = run(&test, &["-n", "2"], &program, &["spins"]).success();
    assert!(done.stdout.contains("0.0 has 5") && done.stderr.contains("several threads run at once"), "{done}");
    test.assert_clean();
}

#[test]
fn threads_that_communicate_at_once_end_and_keep_their_calendar() {
    let test = Test::new("virtual-mpi-threads");
    for (name, program) in programs(&test) {
        if name == "Open MPI" {
            // Its messages by libfabric are not for several threads.
            continue;
        }
        for _ in 0..3 {
            let done = run(&test, &["-n", "2"], &program, &["threads"]).success();
            let mut lines: Vec<&str> = done.stdout.lines().collect();
            lines.sort_unstable();
            assert_eq!(lines, ["rank 0 has joined", "rank 1 has joined"], "{name}: {done}");
        }
    }
    test.assert_clean();
}

#[test]
fn python_is_the_same_to_the_byte_and_its_pools_end() {
    let Some(venv) = mpich() else { return };
    let test = Test::new("virtual-mpi-python");
    let python = venv.join("bin/python3");
    let text = "from mpi4py import MPI\nc = MPI.COMM_WORLD\nme, n = c.rank, c.size\nt = MPI.Wtime()\n\
                for i in range(10):\n    s = c.allreduce(me + i)\n    c.bcast(list(range(me * 10)))\n    \
                y = c.sendrecv(bytes(100 * i), dest=(me + 1) % n, source=(me - 1) % n)\n\
                print(me, s, len(y), round((MPI.Wtime() - t) * 1e9), flush=True)\n";
    let once = || run(&test, &["-n", "4"], &python, &["-c", text]).success().stdout.clone();
    let said = once();
    assert!(said.contains("0 42 900 "), "{said}");
    assert!((0..3).all(|_| once() == said), "{said}");
    let pool = test.file("pool.py");
    let text = "from mpi4py import MPI\nfrom mpi4py.futures import MPICommExecutor\n\n\
                def square(x):\n    return x * x\n\nif __name__ == '__main__':\n    \
                with MPICommExecutor(MPI.COMM_WORLD, root=0) as pool:\n        \
                if pool is not None:\n            print(sum(pool.map(square, range(50))))\n";
    std::fs::write(&pool, text).expect("a file");
    for ranks in ["3", "4"] {
        let done = run(&test, &["-n", ranks], &python, &[pool.to_str().expect("a name")]).success();
        assert_eq!(done.stdout, "40425\n", "{done}");
    }
    test.assert_clean();
}

#[test]
fn what_a_rank_does_by_itself_takes_no_time() {
    let test = Test::new("virtual-mpi-local");
    for (name, program) in built(&test, "local") {
        let time = |options: &[&str], words: &[&str]| {
            let done = run(&test, options, &program, words).success();
            done.stdout
                .trim()
                .strip_suffix(" us")
                .and_then(|us| us.parse().ok())
                .unwrap_or_else(|| panic!("{name}: {done}"))
        };
        // Alone it was told of a deadlock; beside a sleeper it took as long as that one slept.
        let alone: f64 = time(&["-n", "1"], &["window", "300", "0"]);
        assert!(alone < 50.0, "{name}: {alone} us");
        let beside: f64 = time(&["-n", "2"], &["window", "5", "1000"]);
        assert!(beside < 10.0, "{name}: {beside} us");
        // From 256 on the sender span until the others lost patience.
        let bursts = [256, 256, 1500].map(|count| time(&["-n", "2"], &["burst", &count.to_string()]));
        assert!(bursts[0] == bursts[1] && bursts[0] < bursts[2], "{name}: {bursts:?}");
    }
    test.assert_clean();
}

#[test]
fn what_takes_a_library_many_looks_is_done_and_told() {
    let test = Test::new("virtual-mpi-self");
    for (name, program) in built(&test, "local") {
        // Beside a rank in a barrier it was told of a deadlock.
        for options in [&["-n", "1"][..], &["-n", "2"]] {
            let done = run(&test, options, &program, &["self", "100"]).success();
            assert_eq!(done.stdout, "100\n", "{name}: {done}");
            let strict = run(&test, &[options, &["--strict"]].concat(), &program, &["self", "100"]);
            let told =
                done.stderr.contains("doubtful: times of PE 0 rest on a guess: the MPI library went on by itself");
            assert_eq!(strict.code(), i32::from(told), "{name}: {strict}");
            assert!(told || !name.starts_with("MPICH"), "{name}: {done}");
        }
        run(&test, &["-n", "2", "--strict"], &program, &["burst", "300"]).success();
    }
    test.assert_clean();
}

#[test]
fn whoever_looks_alone_does_not_stop_and_looks_as_often() {
    let Some(venv) = mpich() else { return };
    let test = Test::new("virtual-mpi-polls");
    let program = compile(&test, "polls", venv.join("bin/mpicc"));
    for (way, looks) in [("clock", "39999 looks"), ("test", "10129 looks")] {
        let mut command = test.angara(["run", "--timeout", "200", "--clock", "virtual", "-n", "2", "--"]);
        command.arg(&program).args([way, "1000"]);
        let done = test.run(command).success();
        assert!(done.stdout.contains(looks), "{way}: {done}");
        let stops =
            done.stderr.split_once("PEs have stopped ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        // A stop every 500 ns makes 2,000.
        assert!(stops.is_some_and(|stops: u32| stops < 200), "{way}: {done}");
    }
    test.assert_clean();
}

#[test]
fn a_message_up_to_the_eager_limit_is_sent_whatever_its_receiver_does() {
    let test = Test::new("virtual-mpi-late");
    for (name, program) in built(&test, "local") {
        let time = |options: &[&str], bytes: u32| -> f64 {
            let done = run(&test, options, &program, &["late", &bytes.to_string()]).success();
            let us = done.stdout.trim().strip_suffix(" us").and_then(|us| us.parse().ok());
            us.unwrap_or_else(|| panic!("{name}: {done}"))
        };
        // From 2,049 bytes on MPICH's took as long as the receiver slept.
        for bytes in [0, 2048, 2049, 16_352] {
            let sent = time(&["-n", "2"], bytes);
            assert!(sent < 1.0, "{name}: {bytes} bytes in {sent} us");
        }
        let limit = ["-n", "2", "--set", "eager-limit=1000"];
        for (options, bytes) in [(&["-n", "2"][..], 16_353), (&limit, 1001)] {
            let sent = time(options, bytes);
            assert!(sent > 199_000.0, "{name} {options:?}: {bytes} bytes in {sent} us");
        }
        assert!(time(&limit, 1000) < 1.0, "{name}");
        assert!(time(&["-n", "2", "--set", "eager-limit=64"], 64) < 1.0, "{name}");
    }
    test.assert_clean();
}

#[test]
fn what_a_library_calls_of_itself_is_part_of_the_call() {
    let Some(venv) = mpich() else { return };
    let test = Test::new("virtual-mpi-inner-calls");
    let program = compile(&test, "local", venv.join("bin/mpicc"));
    let path = test.file("written");
    let once = || run(&test, &["-n", "3"], &program, &["file", &path.display().to_string()]).success();
    let first = once();
    // The end of an inner call ended the outer one, whose waits were polls outside of all calls then.
    assert!(!first.stderr.contains("doubtful"), "{first}");
    assert_eq!(first.stdout.lines().count(), 3, "{first}");
    assert_eq!(once().stdout, first.stdout);
    test.assert_clean();
}

#[test]
fn sessions_and_parts_have_their_times() {
    let Some(venv) = mpich() else { return };
    let test = Test::new("virtual-mpi-sessions");
    let program = compile(&test, "sessions", venv.join("bin/mpicc"));
    for (what, sessions) in [("alone", 2), ("beside", 1)] {
        // Time began when the library was loaded, and the processes met by other means: they hung.
        let once = || {
            let done = run(&test, &["-n", "3"], &program, &[what]).success();
            // Whoever opened a second session counted as a second thread, and polled.
            assert!(!done.stderr.contains("doubtful"), "{what}: {done}");
            done.stdout.clone()
        };
        let said = once();
        let times: Vec<f64> = said
            .lines()
            .filter(|line| line.contains("rank 1 of 3, sum 3, "))
            .filter_map(|line| line.strip_suffix(" ns")?.rsplit_once(' ')?.1.parse().ok())
            .collect();
        assert_eq!(times.len(), sessions, "{what}: {said}");
        assert!(times.iter().all(|ns| (1450.0..1600.0).contains(ns)), "{what}: {said}");
        assert_eq!(once(), said, "{what}");
    }
    let once = || run(&test, &["-n", "2"], &program, &["parts"]).success().stdout.clone();
    let said = once();
    let at = said.trim().strip_suffix(" us").and_then(|said| said.rsplit_once(' ')?.1.parse::<f64>().ok());
    assert!(at.is_some_and(|us| (1_000_400.0..1_000_420.0).contains(&us)), "{said}");
    assert_eq!(once(), said);
    test.assert_clean();
}

#[test]
fn an_abort_inside_finalize_ends_the_job() {
    let Some(venv) = mpich() else { return };
    let test = Test::new("virtual-mpi-leak");
    let program = compile(&test, "local", venv.join("bin/mpicc"));
    // It hung in one of six runs.
    for _ in 0..12 {
        let done = run(&test, &["-n", "4"], &program, &["leak"]).failure(&["MPI_Finalize failed"]);
        assert_eq!(done.code(), 15, "{done}");
    }
    test.assert_clean();
}

#[test]
fn who_frees_a_window_stands_until_all_do() {
    let test = Test::new("virtual-mpi-free");
    for (name, program) in built(&test, "local") {
        let mut command = test.angara(["run", "--timeout", "200", "--clock", "virtual", "-n", "2", "--"]);
        command.arg(program).arg("free");
        let done = test.run(command).success();
        let said = done.stderr.split_once("PEs have stopped ").and_then(|(_, rest)| rest.split(' ').next());
        let stops: u64 = said.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{name}: {done}"));
        // It looked every half a microsecond: 200,000 stops in 100 ms.
        assert!(stops < 1000, "{name}: {stops} stops");
    }
    test.assert_clean();
}
