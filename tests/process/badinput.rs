//! Mistakes people make: each gets one clear error that names the value and says what to do, the
//! documented exit code, and leaves nothing behind. (Mistakes programs make on purpose are in
//! `hostile.rs`.)

use angara_tests::daemon::{Daemon, spec};
use angara_tests::process::PATIENCE;
use angara_tests::{Finished, Test, tools};

/// Runs `angara` with `args`; it must fail with `code` and name every one of `parts`.
fn refused(args: &[&str], code: i32, parts: &[&str]) -> Finished {
    let test = Test::new("bad");
    let done = test.run(test.angara(args)).failure(parts);
    assert_eq!(done.code(), code, "{done}");
    short(&done);
    test.assert_clean();
    done
}

/// One error, not a page of them. (Wrong flags get a usage hint from the parser as well.)
fn short(done: &Finished) {
    let lines = done.stderr.lines().filter(|l| !l.trim().is_empty()).count();
    assert!((1..=8).contains(&lines), "{lines} lines of error: {done}");
}

#[test]
fn more_pes_than_fit() {
    refused(&["run", "-n", "9", "--torus", "2x2x2", "true"], 2, &["9 PEs", "2x2x2", "--ppn 2"]);
    refused(&["run", "-n", "33", "--ppn", "2", "--torus", "4x2x2", "true"], 2, &["33 PEs", "4x2x2", "--ppn 3"]);
    for pes in ["0", "many", "70000", "-1", "99999999999999999999"] {
        for (command, value) in [("run", "N"), ("whatif", "LIST")] {
            let parts = [&format!("'{pes}' for '--np <{value}>'")[..], "give a whole number from 1 to 65536", "--help"];
            refused(&[command, "-n", pes, "true"], 2, &parts);
        }
    }
    refused(&["run", "-n", "2", "--ppn", "x", "true"], 2, &["'x' for '--ppn <K>'", "from 1 to 1024"]);
    refused(&["bench", "shmem", "--pes", "4,1"], 2, &["'1' for '--pes", "from 2 to 1024"]);
    refused(&["sim", "run", "--capture", "f", "--capture-count", "x"], 2, &["from 1 to 100000000"]);
}

#[test]
fn more_pes_than_fit_a_running_daemon() {
    let test = Test::new("bad-shared");
    let daemon = Daemon::start(&test, &["--torus", "2x2"]);
    let done = test.run(test.angara(["run", "-n", "5", "--torus", "2x2", "true"])).failure(&["5 PEs", "--ppn 2"]);
    short(&done);
    let failure =
        daemon.control().create(spec(5, angara_protocol::msg::Path::Auto)).expect_err("five PEs on four nodes");
    assert!(failure.message.contains('5') && failure.remedy.contains("ppn"), "{failure:?}");
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn an_unknown_machine_or_shape() {
    refused(&["run", "-n", "2", "--machine", "cray", "true"], 2, &["cray", "desmos", "angara-k1"]);
    refused(&["run", "-n", "2", "--torus", "2x2x2x2x2", "true"], 2, &["2x2x2x2x2", "1 to 4"]);
    refused(&["run", "-n", "2", "--torus", "0x2", "true"], 2, &["0x2", "1 to 255"]);
    refused(&["run", "-n", "2", "--torus", "255x255x255", "true"], 2, &["255x255x255", "32768"]);
    refused(&["run", "-n", "2", "--mesh", "axb", "true"], 2, &["axb", "4x2x2"]);
}

#[test]
fn a_missing_or_impossible_program() {
    refused(&["run", "-n", "2", "./no-such-program"], 127, &["no-such-program"]);
    refused(&["run", "-n", "2", "no-such-program-in-path"], 127, &["no-such-program-in-path", "PATH"]);
    refused(&["run", "-n", "2", "/tmp"], 126, &["/tmp", "directory"]);
    refused(&["run", "-n", "2", "/etc/passwd"], 126, &["/etc/passwd", "not executable"]);
    refused(&["run", "-n", "2"], 2, &["PROG"]);
}

#[test]
fn a_command_whose_program_is_not_built_or_not_installed() {
    let test = Test::new("bad-beside");
    let (alone, built) = (test.file("alone"), test.file("target/release"));
    for dir in [&alone, &built] {
        std::fs::create_dir_all(dir).expect("ours");
        tools::copy_program(&tools::tool("angara"), &dir.join("angara"));
    }
    // As cargo leaves it beside what it has built.
    let source = tools::root().join("commands/angara/src/main.rs");
    std::fs::write(built.join("angara.d"), format!("angara: {}\n", source.display())).expect("ours");
    for (line, program, package) in [
        (&["sim", "run"][..], "angara-sim", "sim"),
        (&["plan", "--help"], "angara-sim", "sim"),
        (&["help", "top"], "angara-top", "top"),
        (&["verbs", "--", "true"], "angara-verbs", "verbs"),
        (&["whatif", "-n", "2", "true"], "angara-whatif", "whatif"),
    ] {
        let build = format!("cargo build --release -p angara-commands-{package}");
        for (dir, remedy) in [(&alone, "install the whole tree"), (&built, &build)] {
            let mut command = test.command(dir.join("angara"));
            command.args(line);
            let done = test.run(command).failure(&[program, "which is not there", remedy]);
            assert_eq!(done.code(), 1, "{done}");
            short(&done);
        }
    }
    // What it is, its own help says all the same.
    let mut help = test.command(alone.join("angara"));
    help.arg("--help");
    let done = test.run(help).success();
    assert!(done.stdout.contains("Simulate networks: one load"), "{done}");
    test.assert_clean();
}

#[test]
fn an_option_that_is_almost_right() {
    for program in ["angara", "oshrun"] {
        for (words, similar) in [
            (["-n", "4", "--tours", "2", "true"], "--torus"),
            (["--tours", "2", "-n", "4", "true"], "--torus"),
            (["-n", "4", "--time-out", "2", "true"], "--timeout"),
        ] {
            let test = Test::new("bad-similar");
            let mut command = test.command(tools::tool(program));
            command.args((program == "angara").then_some("run")).args(words);
            let done = test.run(command).failure(&["unexpected argument", &format!("'{similar}'")]);
            assert_eq!(done.code(), 2, "{done}");
            short(&done);
        }
    }
}

#[test]
fn an_option_of_the_launcher_alone() {
    refused(&["whatif", "-n", "4", "--tours", "2", "true"], 2, &["unexpected argument '--tours'", "'--torus'"]);
    refused(&["whatif", "-n", "4", "--label", "true"], 2, &["unexpected argument '--label'", "Usage: angara whatif"]);
    refused(&["whatif", "-n", "4", "-l", "true"], 2, &["unexpected argument '-l'"]);
    refused(&["whatif", "-np", "4", "--map-by", "core", "true"], 2, &["unexpected argument '--map-by'"]);
}

#[test]
fn an_option_that_resembles_none() {
    for (program, words, usage) in [
        ("fabricd", &["--bogus"][..], "fabricd [OPTIONS]"),
        ("angara", &["run", "--bogus", "-n", "2", "true"], "angara run [OPTIONS] --np <N> <PROG [ARGS]>..."),
        ("angara", &["run", "--bogus"], "angara run [OPTIONS] --np <N> <PROG [ARGS]>..."),
        ("oshrun", &["--bogus"], "oshrun [OPTIONS] --np <N> <PROG [ARGS]>..."),
        ("angara", &["verbs", "--bogus"], "angara verbs [OPTIONS] [COMMAND]..."),
        ("angara", &["whatif", "--bogus"], "angara whatif [OPTIONS] --np <LIST> <PROG [ARGS]>..."),
        ("angara", &["plan", "barrier", "--bogus"], "angara plan barrier [OPTIONS]"),
    ] {
        let test = Test::new("bad-bogus");
        let mut command = test.command(tools::tool(program));
        command.args(words);
        let done =
            test.run(command).failure(&["unexpected argument '--bogus'", &format!("Usage: {usage}\n"), "--help"]);
        assert!(done.code() == 2 && !done.stderr.contains("--torus"), "{done}");
        short(&done);
    }
}

#[test]
fn options_of_other_launchers() {
    let oshrun = |words: &str| {
        let test = Test::new("bad-foreign");
        let mut command = test.command(tools::tool("oshrun"));
        command.args(words.split(' ')).args(["sh", "-c", "echo $ANGARA_PE of $ANGARA_NPES $A"]);
        let done = test.run(command);
        test.assert_clean();
        done
    };
    // Of Open MPI, Hydra and Slurm, one dash or two.
    for words in [
        "-np 2 --oversubscribe --bind-to none --mca btl self,tcp --allow-run-as-root",
        "--np 2 -oversubscribe -mca btl ^tcp --map-by slot --report-bindings",
        "-n 2 -ppn 2 -genvall -bind-to core -iface lo",
        "-n 2 --map-by ppr:2:node --rank-by slot --use-hwthread-cpus",
        "--ntasks 2 --ntasks-per-node 1 --mpi pmi2",
    ] {
        let done = oshrun(words).success();
        assert_eq!(done.stdout.lines().count(), 2, "{words}: {done}");
        assert!(done.stdout.contains("1 of 2"), "{words}: {done}");
    }
    let done = oshrun("-np 1 -genv A 7 --mca btl self -l").success();
    assert_eq!(done.stdout, "[0] 0 of 1 7\n", "{done}");
    assert!(done.stderr.contains("--mca btl self has no effect here"), "{done}");
    assert!(!oshrun("-q -np 1 --mca btl self").success().stderr.contains("mca"));
    for (words, part) in [("-n 2 --hostfile hosts", "--cluster FILE"), ("-n 2 --wdir /tmp", "cd there first")] {
        assert_eq!(oshrun(words).failure(&[part]).code(), 2);
    }
    let test = Test::new("bad-colon");
    let mut command = test.command(tools::tool("oshrun"));
    command.args(["-n", "1", "true", ":", "-n", "1", "true"]);
    assert_eq!(test.run(command).failure(&["`:` joins several programs", "shmem_my_pe()"]).code(), 2);
}

#[test]
fn a_program_that_is_not_for_this_job() {
    // Not an OpenSHMEM program: it runs, and its exit code is the run's.
    let test = Test::new("bad-plain");
    let done = test.run(test.angara(["run", "-n", "3", "--", "sh", "-c", "exit 7"])).failure(&["PE ", "7"]);
    assert_eq!(done.code(), 7, "{done}");
    test.assert_clean();
    // An OpenSHMEM program whose PE returns without a word after init ends the job for all.
    let done =
        test.run(test.angara(["run", "-n", "2", "--", "sh", "-c", "kill -SEGV $$"])).failure(&["PE ", "SIGSEGV"]);
    assert_eq!(done.code(), 128 + 11, "{done}");
    test.assert_clean();
}

/// Compiles `source` with the system's compiler.
fn cc(test: &Test, name: &str, source: &str, options: &[&str]) -> std::path::PathBuf {
    let (file, input) = (test.file(name), test.file("source.c"));
    std::fs::write(&input, source).expect("scratch file");
    let mut command = test.command("cc");
    command.arg("-o").arg(&file).arg(&input).args(options).current_dir(test.file("."));
    test.run(command).success();
    file
}

#[test]
fn a_program_of_another_library() {
    let test = Test::new("bad-library");
    let here = test.file(".").display().to_string();
    let program = |library: &str, text: &str| {
        let source = format!("const char text[] = \"{text}\";\nconst char device[] = \"ch3:sock\";\n");
        cc(&test, library, &source, &["-shared", "-fPIC", &format!("-Wl,-soname,{library}")]);
        let options = ["-Wl,--no-as-needed", &format!("-l:{library}"), "-L.", &format!("-Wl,-rpath,{here}")];
        cc(&test, "program", "#include <stdio.h>\nint main(void) { return puts(\"started\") < 0; }\n", &options)
    };
    for (library, text, parts) in [
        ("libsma.so", "Sandia OpenSHMEM", ["another OpenSHMEM", "oshcc"]),
        ("liboshmem.so.40", "Open MPI", ["another OpenSHMEM", "oshcc"]),
        ("libmpi.so.12", "MPICH Version: %s", ["MPICH, configured as ch3:sock", "pip install mpich"]),
    ] {
        let mut command = test.angara(["run", "-n", "2"]);
        command.arg(program(library, text));
        let done = test.run(command).failure(&[&parts[..], &[library]].concat());
        assert!(done.code() == 1 && !done.stdout.contains("started"), "{done}");
        short(&done);
        test.assert_clean();
    }
    // Whoever names another way gets it.
    let mut command = test.angara(["run", "-n", "2", "-x", "FI_PROVIDER=tcp"]);
    command.arg(program("libmpi.so.12", "MPICH Version: %s"));
    assert_eq!(test.run(command).success().stdout, "started\nstarted\n");
    test.assert_clean();
}

#[test]
fn something_asked_of_the_network_by_a_program_that_does_not_use_it() {
    let test = Test::new("bad-beside");
    let file = |name: &str| test.file(name).display().to_string();
    let (report, capture, trace) = (file("report.json"), file("packets.pcapng"), file("trace.json"));
    for (option, value) in [
        ("--path ring", None),
        ("--fault", Some("link 0 +X down")),
        ("--report", Some(&report[..])),
        ("--capture", Some(&capture)),
        ("--trace", Some(&trace)),
        ("--check=races", None),
        ("--clock virtual", None),
    ] {
        let mut command = test.angara(["run", "-n", "2"]);
        command.args(option.split(' ')).args(value).arg("true");
        let done = test.run(command).failure(&["nothing has used the network", option]);
        assert!(done.code() == 1 && !done.stderr.contains("us of virtual time"), "{option}: {done}");
        test.assert_clean();
    }
    assert!(std::fs::read_to_string(report).expect("it is written all the same").contains("nothing has used"));
    // The program's own failure says more.
    let done = test.run(test.angara(["run", "-n", "2", "--path", "ring", "sh", "-c", "exit 7"]));
    assert!(done.code() == 7 && !done.stderr.contains("nothing has used"), "{done}");
    test.run(test.angara(["run", "-n", "2", "true"])).success();
    test.assert_clean();
}

#[test]
fn a_kernel_or_sandbox_that_lacks_something() {
    let test = Test::new("bad-kernel");
    let source = std::fs::read_to_string(tools::root().join("tests/c/sandbox.c")).expect("a source");
    let sandbox = cc(&test, "sandbox", &source, &[]);
    let program = tools::compile("tests/c/openshmem/collectives.c");
    let inside = |lacking: &str, command: &str, words: &[&str]| {
        let mut all = test.command(&sandbox);
        all.arg(lacking).arg(tools::tool(command)).args(words);
        if command == "angara" {
            all.arg(&program);
        }
        test.run(all)
    };
    let run = ["run", "-q", "-n", "4", "--path", "ring"];
    // Kernels before 5.1.
    let done = inside("seal", "angara", &run).success();
    assert_eq!(done.stdout.matches(" passed").count(), 1, "{done}");
    test.assert_clean();
    let dir = test.file("daemon").display().to_string();
    let words = ["--torus", "2", "--runtime-dir", &dir];
    let done = inside("seal", "fabricd", &words).failure(&["F_SEAL_FUTURE_WRITE", "Linux 5.1"]);
    short(&done);
    for (command, words) in [("angara", &run[..]), ("fabricd", &words)] {
        let done = inside("memfd", command, words).failure(&["memfd_create", "sandbox", "angara doctor"]);
        short(&done);
    }
    // Nothing can be written.
    if tools::profile_dir().starts_with("/tmp") {
        println!("skipped: the commands themselves lie in /tmp, which is to be hidden");
        return;
    }
    let mut command = test.command("unshare");
    let script = "mount -t tmpfs -o ro none /tmp && exec \"$@\"";
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]).arg(tools::tool("angara"));
    command.args(["run", "-n", "1", "true"]).env("XDG_RUNTIME_DIR", "/nonexistent");
    let done = test.run(command);
    if done.stderr.contains("unshare:") || done.stderr.contains("mount:") {
        println!("skipped: no file system may be mounted: {done}");
        return;
    }
    short(&done.failure(&["directory", "/tmp", "XDG_RUNTIME_DIR"]));
    test.assert_clean();
}

#[test]
fn no_c_compiler() {
    let test = Test::new("bad-cc");
    std::fs::write(test.file("a.c"), "int main(void) { return 0; }\n").expect("scratch file");
    let mut command = test.command(tools::tool("oshcc"));
    command.env("PATH", "/nonexistent").env_remove("CC").args(["a.c", "-o", "a"]);
    let done = test.run(command).failure(&["cc", "install"]);
    short(&done);
    let mut command = test.command(tools::tool("oshcc"));
    command.env("CC", "no-such-cc").args(["a.c", "-o", "a"]);
    test.run(command).failure(&["no-such-cc"]);
}

#[test]
fn an_unreadable_or_wrong_config_file() {
    let test = Test::new("bad-config");
    let fabricd = |args: &[&str]| {
        let mut command = test.command(tools::tool("fabricd"));
        command.args(args);
        test.run(command)
    };
    let done = fabricd(&["--config", "/nonexistent/fabricd.toml"]).failure(&["/nonexistent/fabricd.toml", "--config"]);
    assert_eq!(done.code(), 2, "{done}");
    let path = test.file("f.toml");
    let name = path.to_str().expect("a plain path");
    for (text, parts) in [
        ("torus = \"2x2\"\nheap = 1\n", &["f.toml:2", "heap"][..]),
        ("torus = 2x2\n", &["f.toml:1"]),
        ("machine = \"cray\"\n", &["cray", "desmos"]),
        ("torus = \"2x2\"\nfault = [\"link 9,9 +X down\"]\n", &["9,9"]),
        ("torus = \"2x2\"\nchannels = 5000\n", &["5000", "1024"]),
    ] {
        std::fs::write(&path, text).expect("scratch file");
        for extra in [&["--check-config"][..], &[]] {
            let done = fabricd(&[&["--config", name], extra].concat()).failure(parts);
            assert_eq!(done.code(), 2, "{done}");
            short(&done);
        }
    }
    let good = "torus = \"2x2\"\ncores = \"0\"\nmemory-limit = \"1G\"\n";
    std::fs::write(&path, good).expect("scratch file");
    fabricd(&["--config", name, "--check-config"]).success();
    test.assert_clean();
}

#[test]
fn a_heap_beyond_the_machine() {
    refused(&["run", "-n", "8", "--heap", "4T", "true"], 1, &["32", "MemAvailable", "--heap"]);
    refused(&["run", "-n", "2", "--heap", "lots", "true"], 2, &["lots", "64M"]);
    let mut command_test = Test::new("bad-heap");
    let mut command = command_test.angara(["run", "-n", "2", "true"]);
    command.env("SHMEM_SYMMETRIC_SIZE", "many");
    command_test.run(command).failure(&["SHMEM_SYMMETRIC_SIZE", "many"]);
    command_test = Test::new("bad-limit");
    let daemon = Daemon::start(&command_test, &["--torus", "2x2", "--memory-limit", "64M"]);
    let done = command_test.run(command_test.angara(["run", "-n", "4", "--heap", "64M", "--torus", "2x2", "true"]));
    short(&done.failure(&["--memory-limit", "64M", "heap"]));
    daemon.shutdown();
    command_test.assert_clean();
}

#[test]
fn a_second_daemon_on_the_same_socket() {
    let test = Test::new("bad-second");
    let daemon = Daemon::start(&test, &["--torus", "2"]);
    let mut command = test.command(tools::tool("fabricd"));
    command.arg("--runtime-dir").arg(daemon.dir()).args(["--torus", "2"]);
    let pid = daemon.status().pid.to_string();
    let done = test.run(command).failure(&[&pid, "--runtime-dir"]);
    assert_eq!(done.code(), 3, "{done}");
    short(&done);
    assert_eq!(daemon.status().pid.to_string(), pid, "the first daemon still serves");
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn a_runtime_directory_that_cannot_be_used() {
    let test = Test::new("bad-dir");
    let file = test.file("occupied");
    std::fs::write(&file, "a file").expect("scratch file");
    let mut command = test.command(tools::tool("fabricd"));
    command.arg("--runtime-dir").arg(&file).args(["--torus", "2"]);
    test.run(command).failure(&["occupied"]);
    let mut command = test.angara(["run", "-n", "2", "--runtime-dir"]);
    command.arg(test.file("nobody-there")).arg("true");
    test.run(command).failure(&["nobody-there", "fabricd"]);
    test.assert_clean();
}

#[test]
fn wrong_faults_and_options() {
    refused(&["run", "-n", "2", "--fault", "link 0 +Q down", "true"], 2, &["+Q"]);
    refused(&["run", "-n", "2", "--torus", "2x2", "--fault", "link 7,7 +X down", "true"], 2, &["7,7"]);
    refused(&["run", "-n", "2", "--fault", "link 0 +X corrupt=200%", "true"], 2, &["200"]);
    refused(&["run", "-n", "2", "--fault", "the moon is full", "true"], 2, &["the moon is full"]);
    let corrupt = "did you mean `corrupt=1%`?";
    refused(&["run", "-n", "2", "--fault", "link 0 +X corupt=1%", "true"], 2, &["`corupt=1%` is not", corrupt]);
    refused(&["sim", "run", "--fault", "corupt=1%"], 2, &["`corupt=1%` is not", corrupt]);
    refused(&["plan", "routes", "--torus", "4x2x2", "--fault", "link 0,0,0 +X dwon"], 2, &["did you mean `down`?"]);
    refused(
        &["alloc", "set", "--torus", "4x4", "-n", "3", "--fault", "link 0,0 +X dwon"],
        2,
        &["did you mean `down`?"],
    );
    refused(&["alloc", "set", "--torus", "4x4", "-n", "3", "--policy", "tetris"], 2, &["tetris", "utilisation"]);
    refused(&["alloc", "set", "--torus", "4x4", "-n", "3", "--dead-nodes", "2"], 2, &["fraction below 1"]);
    refused(&["alloc", "check", "--torus", "8x8", "--nodes", "0,2"], 1, &["cut off", "joins them"]);
    for (words, meant) in [("trnk all down", "trunk"), ("every lnik corrupt=1%", "link"), ("trunk all dwn", "down")] {
        refused(&["plan", "routes", "--torus", "4x2x2", "--fault", words], 2, &[&format!("did you mean `{meant}`?")]);
    }
    refused(&["sim", "sep"], 2, &["unrecognized subcommand 'sep'", "Usage: angara sim <COMMAND>"]);
    for (more, named) in [
        (&["--clock", "virtual", "--virtual-tsc"][..], "--virtual-tsc"),
        (&["--clock", "virtual", "--pes-as", "coroutines"], "--pes-as coroutines"),
    ] {
        let words = [&["run", "-n", "2", "--heterogeneous"], more, &["true"]].concat();
        refused(&words, 2, &[&format!("--heterogeneous cannot be had with {named}"), "leave one of them out"]);
    }
    refused(&["run", "-n", "2", "--path", "teleport", "true"], 2, &["teleport", "direct"]);
    refused(&["run", "-n", "2", "--barrier", "fast", "true"], 2, &["fast", "multiphase"]);
    refused(&["run", "-n", "2", "--map", "random", "true"], 2, &["random:1"]);
    refused(&["run", "-n", "2", "--map", "file:/nonexistent", "true"], 2, &["/nonexistent"]);
    refused(&["run", "-n", "2", "--timeout", "never", "true"], 2, &["never"]);
    refused(&["report", "/nonexistent.json"], 2, &["/nonexistent.json"]);
}

#[test]
fn a_program_that_runs_too_long() {
    let test = Test::new("bad-timeout");
    let mut command = test.angara(["run", "-n", "2", "--timeout", "1", "--"]);
    command.arg(tools::compile("tests/c/churn.c")).arg("100");
    let done = test.run(command).failure(&["--timeout", "1"]);
    assert_eq!(done.code(), 124, "{done}");
    test.assert_clean();
}

#[test]
fn a_program_outside_a_launcher_runs_as_one_pe() {
    let test = Test::new("bad-solo");
    let mut command = test.command(tools::compile("tests/c/churn.c"));
    command.arg("0.1");
    let done = test.spawn(command).wait(PATIENCE).success();
    assert!(done.stdout.contains("churned"), "{done}");
    let mut command = test.command(tools::compile("tests/c/churn.c"));
    command.env("ANGARA_JOB", "7").arg("0.1");
    test.run(command).failure(&["ANGARA_", "angara run"]);
    test.assert_clean();
}

#[test]
fn a_program_for_another_processor_is_told() {
    let test = Test::new("foreign");
    let program = test.file("program");
    let mut bytes = std::fs::read("/proc/self/exe").expect("this program");
    bytes.truncate(4096);
    // RISC-V's number.
    bytes[18..20].copy_from_slice(&[243, 0]);
    std::fs::write(&program, bytes).expect("written");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("ours");
    // It fails with or without an emulator.
    let done = test.run(test.angara(["run", "-n", "1", program.to_str().expect("utf-8")]));
    done.failure(&["a program for RISC-V", "compile it for this one"]);
}
