//! MPI programs on the emulated torus: MPICH as its wheel brings it and Open MPI where it is installed, started by `angara run`
//! or by MPICH's own launcher; and our own client of PMI-1.

use angara_abi::{FLIT_BYTES, PAYLOAD_MAX};
use angara_protocol::msg::{Reply, Request};
use angara_tests::cluster::{Cluster, Hosts};
use angara_tests::daemon::Daemon;
use angara_tests::mpi::{compile, in_domain, mpich};
use angara_tests::process::{PATIENCE, poll_until};
use angara_tests::rng::Rng;
use angara_tests::{Finished, Test, tools};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// Compiles `tests/c/mpi/ring.c` with a wrapper of an MPI library.
fn ring(test: &Test, wrapper: impl AsRef<Path>) -> PathBuf {
    compile(test, "ring", wrapper)
}

/// Runs a program as a job.
fn run(test: &Test, options: &[&str], program: &Path, arguments: &[&str]) -> Finished {
    test.run(command(test, options, program, arguments))
}

fn command(test: &Test, options: &[&str], program: &Path, arguments: &[&str]) -> Command {
    let mut command = test.angara([&["run"], &limit(options)[..], options, &["--"]].concat());
    command.arg(program).args(arguments).stdin(Stdio::null());
    command
}

/// A time limit, unless the options have one.
fn limit(options: &[&str]) -> Vec<&'static str> {
    if options.contains(&"--timeout") { Vec::new() } else { vec!["--timeout", "200"] }
}

/// Returns what each rank has printed, in order.
fn said(done: &Finished) -> Vec<&str> {
    let mut lines: Vec<&str> = done.stdout.lines().filter(|l| l.contains("rank ")).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn mpich_programs_are_jobs_whose_nodes_are_those_of_the_torus() {
    let Some(venv) = mpich() else { return };
    let test = Test::new("mpich");
    let all = |local: u32, pe: &dyn Fn(u32) -> u32| -> Vec<String> {
        (0..4).map(|r| format!("rank {r} of 4 is PE {}, {local} on its node", pe(r))).collect()
    };
    for wrapper in ["mpicc", "mpicc_abi"] {
        let program = ring(&test, venv.join("bin").join(wrapper));
        let done = run(&test, &["-n", "4"], &program, &[]).success();
        assert_eq!(said(&done), all(1, &|r| r), "{wrapper}: {done}");
        let done = run(&test, &["-n", "4", "--ppn", "2", "--map", "random:3"], &program, &[]).success();
        assert_eq!(said(&done), all(2, &|r| r), "{wrapper}: {done}");
    }
    let program = ring(&test, venv.join("bin/mpicc"));
    let report = test.file("report.json");
    let options = ["-n", "2", "--label", "--path", "ring", "--fault", "link 0 +X delay=1us", "--report"];
    let done = run(&test, &[&options[..], &[report.to_str().unwrap()]].concat(), &program, &[]).success();
    assert!(said(&done)[1].starts_with("[1] rank 1 of 2"), "{done}");
    assert!(std::fs::read_to_string(report).unwrap().contains("\"pes\": 2"));
    test.assert_clean();
}

#[test]
fn no_mpi_program_runs_beside_the_network_without_a_word() {
    let test = Test::new("mpi-beside");
    if let Some(venv) = mpich() {
        let program = ring(&test, venv.join("bin/mpicc"));
        // The launcher does not see what a shell sets.
        let script = ["-c", "MPIR_CVAR_CH4_NETMOD=ucx \"$0\"", program.to_str().expect("a name")];
        let done = run(&test, &["-n", "2", "--mpi", "mpich"], Path::new("sh"), &script);
        let done = done.failure(&["MPICH", "another way", "MPIR_CVAR_CH4_NETMOD"]);
        assert_eq!((done.code(), said(&done).len()), (1, 2), "{done}");
        test.assert_clean();
    }
}

#[test]
fn two_ranks_may_both_send_before_they_receive_what_a_mailbox_takes() {
    let Some(venv) = mpich() else { return };
    let test = Test::new("mpich-heads");
    let program = compile(&test, "heads", venv.join("bin/mpicc"));
    for path in ["direct", "ring"] {
        for len in ["128", "129", "2048", "16000"] {
            let options = ["-n", "2", "--path", path, "--timeout", "60"];
            let done = run(&test, &options, &program, &[len]).success();
            assert_eq!(said(&done), [0, 1].map(|r| format!("rank {r} has sent and received")), "{path}, {len}: {done}");
        }
    }
    test.assert_clean();
}

/// Returns what the links of a report have carried, in bytes, all classes together.
fn carried(report: &Path) -> u64 {
    let text = std::fs::read_to_string(report).expect("the report has been written");
    let report: serde_json::Value = serde_json::from_str(&text).expect("a report is JSON");
    let links = report["links"].as_array().expect("links").iter();
    let loads = links.flat_map(|link| link["load"].as_object().expect("loads by class").values());
    loads.map(|load| load["bytes"].as_u64().expect("bytes")).sum()
}

#[test]
fn on_the_ring_path_nothing_bypasses_the_network() {
    let Some(venv) = mpich() else { return };
    let test = Test::new("mpich-links");
    let program = compile(&test, "pairs", venv.join("bin/mpicc"));
    // Without the start of the library: what N messages more put on the links.
    let with = |kib: &str, messages: &str| {
        let report = test.file(&format!("{kib}-{messages}.json"));
        let options = ["-n", "2", "--torus", "2", "--path", "ring", "--report", report.to_str().unwrap()];
        run(&test, &options, &program, &[kib, messages]).success();
        carried(&report)
    };
    for (kib, few, many) in [("64", "4", "68"), ("1024", "1", "9")] {
        let (few_bytes, many_bytes) = (with(kib, few), with(kib, many));
        let sent = kib.parse::<u64>().unwrap() * 1024 * (many.parse::<u64>().unwrap() - few.parse::<u64>().unwrap());
        let on_links = many_bytes - few_bytes;
        let share = on_links as f64 / sent as f64;
        assert!((1.0..1.02).contains(&share), "{kib} KiB: {on_links} bytes on links for {sent} of payload");
    }
    test.assert_clean();
}

/// In the network's time, which in virtual time is the program's, too, a link of that rate is busy all the time. On the wall
/// it is never faster.
#[test]
fn no_program_is_faster_than_a_link_whose_rate_is_limited() {
    let Some(venv) = mpich() else { return };
    let test = Test::new("mpich-rate");
    let program = compile(&test, "pairs", venv.join("bin/mpicc"));
    let seconds = |clock: &str, rate: u32| {
        let fault = format!("rate={rate}M");
        let options = ["-n", "2", "--torus", "2", "--path", "ring", "--clock", clock, "--fault", &fault];
        let done = run(&test, &options, &program, &["64", "33"]).success();
        let line = done.stdout.lines().find_map(|line| line.strip_suffix(" s"));
        line.and_then(|seconds| seconds.parse::<f64>().ok()).unwrap_or_else(|| panic!("no time: {done}"))
    };
    // Messages after the first one. A full packet has a header and a tail of a flit each.
    let packets = 32 * 64 * 1024 / PAYLOAD_MAX;
    let bytes = packets * (PAYLOAD_MAX + 2 * FLIT_BYTES);
    for (clock, rate) in [("virtual", 10), ("virtual", 40), ("wall", 10)] {
        let least = bytes as f64 / f64::from(rate << 20);
        let took = seconds(clock, rate) / least;
        // Requests for pieces, and the way there, are the rest.
        assert!(took > 0.99 && (clock == "wall" || took < 1.03), "{clock}, {rate}M: {took} of {least} s");
        println!("{clock}, {rate}M: {took} of {least} s");
    }
    test.assert_clean();
}

/// Held by a test that looks for shared memory which MPICH has left, and by one whose processes leave some.
static LEAVING: Mutex<()> = Mutex::new(());

/// Files of MPICH's shared memory that no process has mapped.
fn unused_shared_memory() -> Vec<PathBuf> {
    let all = std::fs::read_dir("/dev/shm").expect("a directory of shared memory").flatten().map(|entry| entry.path());
    let all: Vec<PathBuf> = all.filter(|path| path.to_string_lossy().contains("/mpich_shm_")).collect();
    // A process that ends meanwhile has no maps.
    let processes = std::fs::read_dir("/proc").expect("there are processes").flatten();
    let maps: Vec<String> = processes.filter_map(|p| std::fs::read_to_string(p.path().join("maps")).ok()).collect();
    all.into_iter().filter(|path| !maps.iter().any(|text| text.contains(&*path.to_string_lossy()))).collect()
}

#[test]
fn an_mpi_job_ends_as_every_job_does() {
    let Some(venv) = mpich() else { return };
    let test = Test::new("mpich-ends");
    let program = ring(&test, venv.join("bin/mpicc"));
    let _alone = LEAVING.lock().unwrap_or_else(|e| e.into_inner());
    let before = unused_shared_memory();
    for (how, code, why) in [
        ("aborts", 7, "PE 1 on node (1,0) ended the job with status 7"),
        ("fails", 9, "PE 1 on node (1,0) exited with code 9"),
        ("leaves", 1, "PE 1 on node (1,0) ended without MPI_Finalize"),
        ("dies", 137, "PE 1 on node (1,0) was killed by signal 9"),
    ] {
        let done = run(&test, &["-n", "4", "--torus", "2x2"], &program, &[how]).failure(&[why]);
        assert_eq!(done.code(), code, "{how}: {done}");
        test.assert_clean();
    }
    let done = run(&test, &["-n", "2", "--timeout", "3"], &program, &["waits"]).failure(&["still running: PEs 0-1"]);
    assert_eq!(done.code(), 124, "{done}");
    let job = test.spawn(command(&test, &["-n", "2"], &program, &["waits"]));
    job.expect_line("rank 1 of 2");
    job.signal(Signal::TERM);
    assert_eq!(job.wait(PATIENCE).code(), 143);
    test.assert_clean();
    // Others may be about to map theirs, so that only what stays counts.
    let stays = || unused_shared_memory().into_iter().filter(|file| !before.contains(file)).collect::<Vec<_>>();
    assert!(poll_until(|| stays().is_empty()), "left: {:?}", stays());
}

/// What ranks wait for is said by which PE, which of its operations, with whom, how much and with which tag.
fn a_hang_is_explained(test: &Test, program: &Path) {
    for (how, said) in [
        (
            "receive",
            &["PE 0 waited", "receive from PE 1, tag 7 (", "up to 4 bytes; no receive takes 4 bytes from PE 1, tag 8 ("]
                as &[&str],
        ),
        ("any", &["receive from anybody, any tag (", "PE 1 waited", "receive from PE 0, tag 71 ("]),
        ("send", &["send to PE 1, tag 9 (", ", 1048576 bytes", "receive from PE 0, tag 71 ("]),
        ("get", &["receive from PE 1, tag 70 (", "PE 1 did not wait in the library"]),
    ] {
        let mut last = String::new();
        // On a busy machine ranks may not have come so far.
        let found = ["6", "30", "100"].into_iter().any(|limit| {
            let done = run(test, &["-n", "2", "--timeout", limit], program, &[how]);
            assert_eq!(done.code(), 124, "{how}: {done}");
            last = done.stderr;
            said.iter().all(|part| last.contains(part))
        });
        assert!(found, "{how}: not all of {said:?} in {last}");
    }
    test.assert_clean();
}

#[test]
fn a_job_that_hangs_says_what_each_rank_waits_for() {
    let Some(venv) = mpich() else { return };
    let test = Test::new("mpich-waits");
    a_hang_is_explained(&test, &compile(&test, "waits", venv.join("bin/mpicc")));
}

#[test]
fn any_number_of_sends_may_wait_whatever_the_order_of_receives() {
    let Some(venv) = mpich() else { return };
    let test = Test::new("mpich-unmatched");
    let program = compile(&test, "unmatched", venv.join("bin/mpicc"));
    let mut rng = Rng::for_test("mpi", 1);
    // More than the 128 MiB that a receiver keeps, in messages that come with their payload as long as it takes that.
    for path in ["direct", "ring"] {
        let seed = rng.u64().to_string();
        println!("-- {path}");
        let done = run(&test, &["-n", "2", "--path", path], &program, &["24000", "12000", &seed]).success();
        assert!(done.stdout.contains("rank 0 has received 24000 messages"), "{done}");
    }
    test.assert_clean();
}

#[test]
fn mpi4py_finds_the_launcher() {
    let Some(venv) = mpich() else { return };
    let test = Test::new("mpi4py");
    let script = test.file("sum.py");
    let text = "from mpi4py import MPI\nimport numpy\nc = MPI.COMM_WORLD\nx = numpy.full(9, c.rank + 1.0)\n\
                c.Allreduce(MPI.IN_PLACE, x)\nprint('rank', c.rank, 'of', c.size, c.allgather(c.rank), x[8])\n";
    std::fs::write(&script, text).unwrap();
    let done = run(&test, &["-n", "3"], &venv.join("bin/python3"), &[script.to_str().unwrap()]).success();
    let all: Vec<String> = (0..3).map(|r| format!("rank {r} of 3 [0, 1, 2] 6.0")).collect();
    assert_eq!(said(&done), all, "{done}");
    test.assert_clean();
}

#[test]
fn our_own_client_of_pmi_finds_its_job_by_the_server() {
    let test = Test::new("pmi-server");
    let program = tools::compile("tests/c/openshmem/collectives.c");
    // Without our variables the library asks the launcher of MPI that it finds. The inner job is on the outer one's daemon.
    let script = "unset ANGARA_JOB ANGARA_KEY ANGARA_PE ANGARA_NPES; exec \"$0\"";
    let mut command = test.angara(["run", "-n", "5", "--timeout", "200", "--", "sh", "-c", script]);
    command.arg(&program);
    let done = test.run(command).success();
    assert_eq!(done.stdout.matches(" passed").count(), 1, "{done}");
    test.assert_clean();
}

#[test]
fn a_launcher_of_mpi_is_offered_to_whom_it_may_concern() {
    let test = Test::new("mpi-offer");
    let shell = |options: &[&str]| {
        let script = "echo ${PMI_RANK-none} ${PMI_SIZE-none}";
        let done = test.run(test.angara([&["run", "-q", "-n", "1"], options, &["sh", "-c", script]].concat()));
        done.success().stdout.trim().to_string()
    };
    assert_eq!(shell(&[]), "0 1");
    assert_eq!(shell(&["--mpi", "none"]), "none none");
    assert_eq!(shell(&["--mpi", "mpich"]), "0 1");
    let environment = tools::compile("tests/c/openshmem/environment.c");
    let mut command = test.angara(["run", "-q", "-n", "1", "--mpi", "auto"]);
    command.arg(&environment);
    let done = test.run(command).success();
    assert!(done.stdout.contains("heap "), "{done}");
    test.assert_clean();
}

/// MPICH's own launcher, which knows nothing of us, with ranks that find the daemon in `dir`.
fn mpiexec(test: &Test, venv: &Path, dir: &Path) -> Command {
    in_domain(test, venv.join("bin/mpiexec"), dir)
}

/// Messages that links have carried, all together.
fn packets(daemon: &Daemon) -> u64 {
    match daemon.control().ask(&Request::Counters).expect("always answered") {
        Reply::Counters { links } => links.iter().flat_map(|l| l.load.values()).map(|load| load.packets).sum(),
        other => panic!("unexpected {other:?}"),
    }
}

#[test]
fn another_launcher_needs_no_more_than_a_daemon() {
    let Some(venv) = mpich() else { return };
    let test = Test::new("mpi-domain");
    let daemon = Daemon::start(&test, &["--torus", "2x2"]);
    let program = ring(&test, venv.join("bin/mpicc"));
    let run = |path: &str, how: &str| {
        let mut command = mpiexec(&test, venv, daemon.dir());
        command.env("ANGARA_DOMAIN", path).env("ANGARA_DOMAIN_PATH", path).args(["-n", "4"]).arg(&program).arg(how);
        test.spawn(command).wait(PATIENCE)
    };
    let all: Vec<String> = (0..4).map(|r| format!("rank {r} of 4 is PE -, 1 on its node")).collect();
    assert_eq!(said(&run("auto", "ends").success()), all);
    assert_eq!(packets(&daemon), 0, "between processes of one host");
    assert_eq!(said(&run("ring", "ends").success()), all);
    assert!(packets(&daemon) > 10_000, "{} packets", packets(&daemon));
    // Whoever is killed leaves nothing with us but a free seat, and those after him are not disturbed.
    let _alone = LEAVING.lock().unwrap_or_else(|e| e.into_inner());
    let before = unused_shared_memory();
    for _ in 0..3 {
        assert_ne!(run("ring", "dies").code(), 0);
        let seats = || daemon.status().jobs.iter().map(|job| job.attached).sum::<u32>();
        assert!(poll_until(|| seats() == 0), "{} seats are taken by nobody", seats());
        assert_eq!(said(&run("ring", "ends").success()), all);
    }
    assert!(poll_until(|| daemon.status().jobs.is_empty()), "a domain stays without anybody in it");
    let left = unused_shared_memory();
    daemon.shutdown();
    // MPICH's own launcher leaves what killed ranks had; a file that is not used twice is not about to be mapped, either.
    let left = unused_shared_memory().into_iter().filter(|file| left.contains(file) && !before.contains(file));
    left.for_each(|file| drop(std::fs::remove_file(file)));
    test.assert_clean();
}

#[test]
fn ranks_of_several_hosts_meet_in_one_domain() {
    let Some(venv) = mpich() else { return };
    let test = Test::new("mpi-hosts");
    let cluster = Cluster::start(&test, "2x2", Hosts::loopback(2), &[]);
    let program = ring(&test, venv.join("bin/mpicc"));
    let mut command = mpiexec(&test, venv, &cluster.dir(0));
    for host in 0..2 {
        if host > 0 {
            command.arg(":");
        }
        command.args(["-n", "2", "-env", "ANGARA_RUNTIME_DIR"]).arg(cluster.dir(host)).arg(&program);
    }
    let done = test.spawn(command).wait(PATIENCE).success();
    let all: Vec<String> = (0..4).map(|r| format!("rank {r} of 4 is PE -, 1 on its node")).collect();
    assert_eq!(said(&done), all);
    let crossed = |host: usize| cluster.status(host).peers[0].sent.datagrams;
    assert!(crossed(0) > 100 && crossed(1) > 100, "{} and {} datagrams", crossed(0), crossed(1));
    cluster.shutdown();
    test.assert_clean();
}

#[test]
fn a_job_over_several_hosts_is_like_one_on_one_host() {
    let Some(venv) = mpich() else { return };
    let test = Test::new("mpi-cluster");
    let cluster = Cluster::start(&test, "4x2", Hosts::loopback(2), &[]);
    let program = ring(&test, venv.join("bin/mpicc"));
    let run = |options: &[&str], program: &Path, how: &str| {
        let mut command = cluster.run(&[&["-n", "8", "--timeout", "200"], options].concat(), program);
        command.arg(how).stdin(Stdio::null());
        test.spawn(command).wait(PATIENCE)
    };
    for (local, options) in [(1, &[] as &[&str]), (1, &["--map", "random:5"]), (2, &["--ppn", "2"])] {
        let before = cluster.status(0).peers[0].sent.datagrams;
        let all: Vec<String> = (0..8).map(|r| format!("rank {r} of 8 is PE {r}, {local} on its node")).collect();
        let done = run(options, &program, "ends").success();
        assert_eq!(said(&done), all, "{options:?}: {done}");
        let crossed = cluster.status(0).peers[0].sent.datagrams - before;
        assert!(crossed > 100, "{options:?}: {crossed} datagrams");
    }
    // Rank 1 on the host of the launcher, and on the other one.
    std::fs::write(test.file("far"), "0\n2\n1\n3\n4\n6\n5\n7\n").expect("written");
    let far = format!("file:{}", test.file("far").display());
    let _alone = LEAVING.lock().unwrap_or_else(|e| e.into_inner());
    let before = unused_shared_memory();
    for map in ["linear", &far] {
        for (how, code, why) in [
            ("aborts", 7, "ended the job with status 7"),
            ("fails", 9, "exited with code 9"),
            ("leaves", 1, "ended without MPI_Finalize"),
            ("dies", 137, "was killed by signal 9"),
        ] {
            let done = run(&["--map", map], &program, how).failure(&["PE 1 on node", why]);
            assert_eq!(done.code(), code, "{how}: {done}");
            let left = || test.processes().iter().all(|p| p.comm == "fabricd");
            assert!(poll_until(left), "{how}: left: {:?}", test.processes());
        }
    }
    let stays = || unused_shared_memory().into_iter().filter(|file| !before.contains(file)).collect::<Vec<_>>();
    assert!(poll_until(|| stays().is_empty()), "left: {:?}", stays());
    cluster.shutdown();
    test.assert_clean();
}

/// Open MPI, installed here.
fn open_mpi() -> bool {
    let found = tools::have("mpicc.openmpi") && tools::have("mpirun.openmpi");
    if !found {
        println!("skipped: no mpicc.openmpi (Debian: apt-get install libopenmpi-dev)");
    }
    found
}

#[test]
fn open_mpi_programs_are_started_by_their_own_mpirun() {
    if !open_mpi() {
        return;
    }
    let test = Test::new("open-mpi");
    let program = ring(&test, "mpicc.openmpi");
    let done = run(&test, &["-n", "3", "--label"], &program, &[]).success();
    for rank in 0..3 {
        let line = format!("[{rank}] rank {rank} of 3 is PE {rank}, 3 on its node");
        assert!(done.stdout.lines().any(|l| l == line), "{done}");
    }
    for (how, code) in [("aborts", 7), ("fails", 9), ("dies", 137)] {
        let done = run(&test, &["-n", "3"], &program, &[how]).failure(&["mpirun ended"]);
        assert_eq!(done.code(), code, "{how}: {done}");
        test.assert_clean();
    }
    let done = run(&test, &["-n", "3", "--timeout", "5"], &program, &["waits"]).failure(&["running: PEs 0-2"]);
    assert_eq!(done.code(), 124, "{done}");
    // A program that knows nothing of MPI, with the user's word that it does.
    let wrap = ["-n", "2", "--mpi", "openmpi", "--wrap", "1", "env WRAPPED=$ANGARA_PE"];
    let done = run(&test, &wrap, Path::new("sh"), &["-c", "echo \"$ANGARA_PE/$ANGARA_NPES $WRAPPED\""]).success();
    let mut lines: Vec<&str> = done.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0/2 ", "1/2 1"], "{done}");
    test.assert_clean();
}

#[test]
fn what_cannot_be_started_is_named_before_anything_starts() {
    let test = Test::new("mpi-lacking");
    let cc = |name: &str, source: &str, options: &[&str]| {
        let (c, file) = (test.file("source.c"), test.file(name));
        std::fs::write(&c, source).expect("the test's directory is writable");
        let mut cc = Command::new("cc");
        cc.current_dir(c.parent().unwrap()).arg("-o").arg(&file).arg(&c).args(options);
        let done = cc.output().expect("a C compiler");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        file
    };
    let library = |name: &str, text: &str| {
        let source = format!("const char text[] = \"{text}\"; int there;");
        cc(name, &source, &["-shared", "-fPIC", &format!("-Wl,-soname,{name}")]);
    };
    let program = |name: &str, more: &[&str]| {
        let source = "extern int there; int main(void) { return there; }";
        cc("program", source, &[&[&format!("-l:{name}"), "-L."], more].concat())
    };
    let refused = |options: &[&str], program: &Path, code: i32, why: &[&str]| {
        let mut command = test.angara([&["run", "-n", "2"], options].concat());
        command.arg(program).env("PATH", "/nonexistent");
        let done = test.run(command).failure(why);
        assert_eq!(done.code(), code, "{done}");
    };
    library("libmpi.so.40", "Open MPI v%d.%d.%d");
    let open = program("libmpi.so.40", &["-Wl,-rpath,$ORIGIN"]);
    refused(&[], &open, 127, &["the mpirun of Open MPI", "openmpi-bin"]);
    let file = test.file("cluster.toml");
    refused(&["--cluster", file.to_str().unwrap()], &open, 2, &["uses Open MPI", "ssh", "leave --cluster out"]);
    library("libmpi.so.0", "of somebody else");
    refused(&[], &program("libmpi.so.0", &["-Wl,-rpath,$ORIGIN"]), 1, &["an MPI library that is not known", "--mpi"]);
    library("libmpi.so.12", "MPICH Version: %s");
    refused(&[], &program("libmpi.so.12", &[]), 127, &["libmpi.so.12", "the loader does not find", "LD_LIBRARY_PATH"]);
    test.assert_clean();
}
