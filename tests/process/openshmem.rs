//! Conformance of the OpenSHMEM library: C programs that check their own results, on one PE without
//! a launcher and on several over both engines; what a mistake of the program is answered with;
//! what pkg-config and C++ users need.

use angara_tests::process::PATIENCE;
use angara_tests::{Test, tools};
use std::path::{Path, PathBuf};
use std::process::Command;

/// (path, PEs): few and many, powers of two and not, alone and crowded.
const RUNS: [(&str, &str); 6] =
    [("direct", "1"), ("direct", "2"), ("direct", "7"), ("ring", "3"), ("ring", "8"), (VIRTUAL, "5")];
/// Stands for a path: everything through the network, in virtual time.
const VIRTUAL: &str = "virtual";

fn source(name: &str) -> String {
    format!("tests/c/openshmem/{name}")
}

fn run(program: &Path, path: &str, pes: &str) {
    let test = Test::new("openshmem");
    let way = if path == VIRTUAL { ["--clock", VIRTUAL] } else { ["--path", path] };
    let mut command = test.angara(["run", "-n", pes, "--timeout", "200"]);
    command.args(way).arg("--").arg(program);
    let done = test.run(command).success();
    assert!(done.stdout.contains(" passed"), "{done}");
    test.assert_clean();
}

fn alone(program: &Path) {
    let test = Test::new("openshmem-solo");
    let done = test.run(test.command(program)).success();
    assert!(done.stdout.contains(" passed"), "{done}");
}

fn everywhere(program: &Path) {
    alone(program);
    for (path, pes) in RUNS {
        run(program, path, pes);
    }
}

macro_rules! programs {
    ($($test:ident $file:literal;)*) => {$(
        #[test]
        fn $test() {
            everywhere(&tools::compile(&source($file)));
        }
    )*};
}

programs! {
    put_and_get_of_every_type "rma.c";
    atomics_of_every_type "amo.c";
    waiting_signals_fences_and_locks "sync.c";
    what_comes_before_a_fence_is_seen_before_what_comes_after "fences.c";
    collectives_of_every_type_and_size "collectives.c";
    teams_and_contexts "teams.c";
    profiling_tools_interpose "interpose.c";
    generics_are_macros_in_c "generics.c";
    active_sets_alternate_and_take_any_stride_of_one "active_sets.c";
    minimum_and_maximum_have_the_same_bits_everywhere "order.c";
    programs_find_what_is_beside_the_standard "beside.c";
    extensions_for_the_torus "extensions.c";
}

#[test]
fn puts_and_gets_to_oneself_may_overlap() {
    let program = tools::compile(&source("overlap.c"));
    for (path, pes) in [("direct", "1"), ("direct", "2"), ("ring", "2"), (VIRTUAL, "2")] {
        run(&program, path, pes);
    }
}

#[test]
fn threads_of_a_pe_communicate_at_once() {
    let program = tools::compile_with(&source("threads.c"), &["-pthread"]);
    run(&program, "direct", "4");
    run(&program, "ring", "4");
    run(&program, VIRTUAL, "4");
}

#[test]
fn teams_in_collectives_at_once_are_not_limited_in_number() {
    let program = tools::compile_with(&source("streams.c"), &["-pthread"]);
    alone(&program);
    RUNS.iter().filter(|(path, _)| *path != VIRTUAL).for_each(|(path, pes)| run(&program, path, pes));
    // Threads that wait look again and again there: many teams would take long.
    run(&tools::compile_with(&source("streams.c"), &["-pthread", "-DLIVES=100", "-DROUNDS=2"]), VIRTUAL, "3");
    // Where a PE comes late, another may have sent ahead.
    run(&tools::compile_with(&source("streams.c"), &["-pthread", "-DLIVES=500"]), "direct", "16");
}

#[test]
fn jobs_run_under_valgrind() {
    if !tools::have("valgrind") {
        println!("skipped: no valgrind");
        return;
    }
    let program = tools::compile(&source("teams.c"));
    for path in ["direct", "ring"] {
        let test = Test::new("openshmem-valgrind");
        let mut command = test.angara(["run", "-n", "3", "--path", path, "--timeout", "200", "--"]);
        command.args(["valgrind", "--quiet", "--error-exitcode=9"]).arg(&program);
        let done = test.run(command).success();
        assert!(done.stdout.contains(" passed"), "{done}");
        test.assert_clean();
    }
}

#[test]
fn many_pes_on_few_cores_finish_in_little_memory() {
    run(&tools::compile(&source("many.c")), "direct", "256");
}

/// Many more than the machine has cores: those that wait for the last one must leave it a core to start on.
#[test]
fn a_thousand_pes_start_meet_and_end() {
    let program = tools::compile("tests/c/barriers.c");
    for way in [["--path", "direct"], ["--clock", "virtual"]] {
        let test = Test::new("openshmem-thousand");
        let mut command = test.angara(["run", "-n", "1024", "--ppn", "4", "--torus", "16x16", "--heap", "1M"]);
        command.args(way).args(["--timeout", "200", "--"]).arg(&program).arg("3");
        test.run(command).success();
        test.assert_clean();
    }
}

#[test]
fn generics_are_overloads_in_cxx() {
    if !tools::have("c++") {
        println!("skipped: no C++ compiler");
        return;
    }
    let out = tools::profile_dir().join("angara-tests/generics-cxx");
    std::fs::create_dir_all(out.parent().expect("a directory")).expect("target directory is writable");
    let mut command = Command::new(tools::tool("oshc++"));
    command.args(["-x", "c++", "-O1"]).arg(tools::root().join(source("generics.c"))).arg("-o").arg(&out);
    let done = command.output().expect("oshc++ starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    run(&out, "direct", "4");
}

/// The program and a shared library of it; both have globals.
fn with_library() -> PathBuf {
    let dir = tools::profile_dir().join("angara-tests");
    std::fs::create_dir_all(&dir).expect("target directory is writable");
    let library = dir.join("libstatics.so");
    let lib_source = tools::root().join(source("statics_lib.c"));
    let mut command = Command::new(tools::tool("oshcc"));
    command.args(["-shared", "-fPIC"]).arg(lib_source).arg("-o").arg(&library);
    let done = command.output().expect("oshcc starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    dir
}

#[test]
fn globals_of_executables_and_their_libraries_are_symmetric() {
    let dir = with_library();
    let (search, run) = (format!("-L{}", dir.display()), format!("-Wl,-rpath,{}", dir.display()));
    // Position-independent or not, and with lazy binding, whose tables are writable data too.
    for kind in ["-pie", "-no-pie", "-Wl,-z,lazy"] {
        let position = if kind == "-no-pie" { "-fno-pie" } else { "-fPIE" };
        let all = ["-Wl,--no-as-needed", search.as_str(), "-lstatics", run.as_str(), kind, position];
        everywhere(&tools::compile_with(&source("memory.c"), &all));
    }
}

#[test]
fn constants_are_symmetric_for_those_who_read() {
    // Beside the code, among what the loader relocates, in segments of their own.
    for kind in [&["-pie", "-fPIE"][..], &["-no-pie", "-fno-pie"], &["-Wl,-z,noseparate-code"], &["-Wl,-z,norelro"]] {
        everywhere(&tools::compile_with(&source("constants.c"), kind));
    }
}

#[test]
fn nobody_writes_a_constant() {
    let program = tools::compile(&source("errors.c"));
    for path in ["direct", "ring"] {
        for mistake in [
            "put-constant",
            "put-constants",
            "add-constant",
            "signal-constant",
            "iput-constant",
            "lock-constant",
            "all-broadcast-constant",
            "all-reduce-constant",
            "all-collect-constant",
        ] {
            let test = Test::new("openshmem-constants");
            let mut command = test.angara(["run", "-n", "3", "--path", path, "--timeout", "200", "--"]);
            command.arg(&program).arg(mistake);
            let done = test.run(command);
            assert_eq!(done.code(), 1, "{path} {mistake}: {done}");
            assert!(done.stderr.contains("is a constant of the program"), "{path} {mistake}: {done}");
            test.assert_clean();
        }
    }
}

#[test]
fn mistakes_end_the_job_with_one_clear_message() {
    let program = tools::compile(&source("errors.c"));
    let cases = [
        ("before-init", "shmem_my_pe: called before shmem_init"),
        ("no-such-pe", "shmem_long_p: PE 3 does not exist: the job has PEs 0 to 2"),
        ("negative-pe", "shmem_long_get: PE -1 does not exist"),
        ("not-symmetric", "is not symmetric: it lies neither in the symmetric heap nor in a global variable"),
        ("nothing-to-nowhere", "shmem_long_put: the address 0x0 (8 bytes) is not symmetric"),
        ("nothing-from-nowhere", "shmem_int_get: the address 0x0 (4 bytes) is not symmetric"),
        ("past-the-heap", "it runs over the end of the symmetric heap"),
        ("misaligned", "is not aligned to the 8 bytes of its type"),
        ("wait-on-local", "shmem_long_wait_until: the address"),
        ("bad-comparison", "comparison 77 is not one of"),
        ("bad-free", "is not the start of a block of the symmetric heap"),
        ("bad-stride", "the destination stride is 0"),
        ("bad-root", "root PE 3 does not exist"),
        ("bad-team", "0x63 is not a team of this PE"),
        ("bad-context", "0x63 is not a context of this PE"),
        ("not-held", "the lock is not held"),
    ];
    for (mistake, message) in cases {
        let test = Test::new("openshmem-errors");
        let mut command = test.angara(["run", "-n", "3", "--timeout", "200", "--"]);
        command.arg(&program).arg(mistake);
        let done = test.run(command);
        assert_eq!(done.code(), 1, "{mistake}: {done}");
        assert!(done.stderr.contains(message), "{mistake}: expected {message:?}\n{done}");
        assert!(!done.stderr.contains("nothing happened"), "{mistake}: {done}");
        test.assert_clean();
    }
}

/// All PEs are of this machine's architecture here; `cargo xtask cross --check` has those of two.
#[test]
fn a_heterogeneous_job_refuses_what_architectures_do_not_have_in_common() {
    let program = tools::compile(&source("heterogeneous.c"));
    let run = |option: &[&str], path: &str, mistake: &[&str]| {
        let test = Test::new("openshmem-heterogeneous");
        let mut command = test.angara(["run", "-n", "4", "--path", path, "--timeout", "200"]);
        command.args(option).arg("--").arg(&program).args(mistake);
        let done = test.run(command);
        test.assert_clean();
        done
    };
    let declared: &[&str] = &["--heterogeneous"];
    for (option, path) in [(declared, "direct"), (declared, "ring"), (&[], "direct")] {
        let done = run(option, path, &[]).success();
        assert!(done.stdout.contains("heterogeneous passed"), "{option:?} {path}: {done}");
    }
    let variable = "it is a global or static variable of the program, and in a job of several architectures";
    let extended = "(--heterogeneous) this is refused: long double";
    let order = "(--heterogeneous) this is refused: plain char";
    for (mistake, routine, why) in [
        ("static", "shmem_long_p: ", variable),
        ("static-add", "shmem_long_atomic_add: ", variable),
        ("static-get", "shmem_getmem: ", variable),
        ("constant", "shmem_long_get: ", "it is a constant of the program, and in a job of several"),
        ("stack", "shmem_long_p: ", "it does not lie in the symmetric heap, and in a job of several"),
        ("long-double-put", "shmem_longdouble_put: ", extended),
        ("long-double-p", "shmem_longdouble_p: ", extended),
        ("long-double-g", "shmem_longdouble_g: ", extended),
        ("all-long-double-sum", "shmem_longdouble_sum_reduce: ", extended),
        ("all-long-double-collect", "shmem_longdouble_fcollect: ", extended),
        ("all-char-max", "shmem_char_max_reduce: ", order),
        ("all-char-min", "shmem_char_min_reduce: ", order),
    ] {
        let done = run(declared, "direct", &[mistake]);
        assert_eq!(done.code(), 1, "{mistake}: {done}");
        assert!(done.stderr.contains(routine) && done.stderr.contains(why), "{mistake}: expected {why:?}\n{done}");
        assert!(!done.stderr.contains("nothing happened"), "{mistake}: {done}");
    }
}

#[test]
fn a_closer_look_finds_more_mistakes_and_their_lines() {
    let program = tools::compile_with(&source("errors.c"), &["-g"]);
    let cases = [
        ("overrun", "run 32 bytes over the end of their block, 64 bytes from heap+"),
        ("freed", "are not allocated: freed before, or never"),
        ("overlap", "shmem_putmem: the destination (16 bytes at "),
        ("reduce-overlap", "shmem_long_sum_reduce: the destination (16 bytes at "),
        ("other-routine", "PE 2 calls shmem_sync_all() at errors.c:"),
        ("other-arguments", "nelems 2, PE_root 0) at errors.c:"),
        ("no-such-pe", "shmem_long_p: PE 3 does not exist"),
        ("all-teams-same-pes", " of team 0.2 (PEs 0 to 2) at errors.c:"),
        ("all-teams-other-pes", " of team 0.2 (PEs 1, 2) at errors.c:"),
    ];
    for (mistake, message) in cases {
        let test = Test::new("openshmem-check");
        let mut command = test.angara(["run", "-n", "3", "--check", "--timeout", "200", "--"]);
        command.arg(&program).arg(mistake);
        let done = test.run(command);
        assert_eq!(done.code(), 1, "{mistake}: {done}");
        assert!(done.stderr.contains(message), "{mistake}: expected {message:?}\n{done}");
        assert!(done.stderr.contains("[called at errors.c:"), "{mistake}: no line of the program\n{done}");
        test.assert_clean();
    }
}

#[test]
fn programs_without_mistakes_pass_the_closer_look() {
    for file in ["collectives.c", "teams.c", "sync.c", "amo.c", "rma.c", "active_sets.c", "constants.c"] {
        let test = Test::new("openshmem-check");
        let mut command = test.angara(["run", "-n", "4", "--check", "--timeout", "200", "--"]);
        command.arg(tools::compile(&source(file)));
        let done = test.run(command).success();
        assert!(done.stdout.contains(" passed"), "{file}: {done}");
        test.assert_clean();
    }
}

#[test]
fn a_job_that_hangs_says_what_its_pes_wait_for() {
    let program = tools::compile(&source("errors.c"));
    let run = |mistake: &str, limit: &str| {
        let test = Test::new("openshmem-hang");
        let mut command = test.angara(["run", "-n", "3", "--timeout", limit, "--"]);
        command.arg(&program).arg(mistake);
        let done = test.run(command);
        assert_eq!(done.code(), 124, "{mistake}: {done}");
        test.assert_clean();
        done.stderr.clone()
    };
    for (mistake, message) in [("hang", "shmem_long_wait_until: the variable at 0x"), ("loop", "PE 2 did not wait")] {
        let wanted = ["PEs 0-1 waited for ", "s: shmem_barrier_all: all PEs to enter the barrier", message];
        // On a busy machine PEs may need longer than the limit to come to where they hang.
        let mut said = String::new();
        let found = ["2", "10", "50"].into_iter().any(|limit| {
            said = run(mistake, limit);
            wanted.iter().all(|part| said.contains(part))
        });
        assert!(found, "{mistake}: expected {wanted:?}\n{said}");
    }
}

#[test]
fn global_exit_ends_everybody_with_its_status() {
    let program = tools::compile(&source("errors.c"));
    let test = Test::new("openshmem-global-exit");
    let mut command = test.angara(["run", "-n", "4", "--timeout", "200", "--"]);
    command.arg(&program).arg("global-exit");
    let done = test.run(command);
    assert_eq!(done.code(), 23, "{done}");
    test.assert_clean();
}

#[test]
fn an_init_that_fails_says_why() {
    let program = tools::compile(&source("interpose.c"));
    let test = Test::new("openshmem-init");
    let mut command = test.command(&program);
    command.env("ANGARA_JOB", "1").env("ANGARA_KEY", "00").env("ANGARA_PE", "0").env("ANGARA_NPES", "1");
    let done = test.run(command);
    assert_eq!(done.code(), 1, "{done}");
    assert!(done.stderr.contains("shmem_init") && done.stderr.contains("angara run"), "{done}");
}

#[test]
fn the_compiler_wrapper_does_not_wrap_itself() {
    // `make CC=oshcc` exports what it was given, and so do scripts.
    let test = Test::new("openshmem-make");
    for (wrapper, variables) in [("oshcc", ["CC", "OSHCC_CC"]), ("oshc++", ["CXX", "OSHCXX_CXX"])] {
        let wrapper = tools::tool(wrapper);
        for variable in variables {
            let mut command = test.command(&wrapper);
            command.arg("-show").env(variable, format!("{} -g", wrapper.display()));
            let done = test.run(command).success();
            assert!(!done.stdout.contains("oshc"), "{variable}: {done}");
        }
    }
}

#[test]
fn pkg_config_knows_how_to_compile() {
    if !tools::have("pkg-config") {
        println!("skipped: no pkg-config");
        return;
    }
    let dir = tools::profile_dir();
    let mut ask = Command::new("pkg-config");
    ask.args(["--cflags", "--libs", "sma"]).env("PKG_CONFIG_PATH", dir.join("lib/pkgconfig"));
    let answer = ask.output().expect("pkg-config starts");
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    let flags = String::from_utf8(answer.stdout).expect("flags are text");
    let out = dir.join("angara-tests/pkgconfig");
    std::fs::create_dir_all(out.parent().expect("a directory")).expect("target directory is writable");
    let mut compile = Command::new("cc");
    compile.arg(tools::root().join(source("interpose.c"))).args(flags.split_whitespace()).arg("-o").arg(&out);
    let done = compile.output().expect("cc starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let test = Test::new("openshmem-pkgconfig");
    test.spawn(test.command(&out)).wait(PATIENCE).success();
}
