//! What programs read, wait for and are sent in virtual time beside their clocks: signals of timers, deadlines, sleeps of
//! threads.

use angara_tests::{Finished, Test, tools};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Runs a program of `tests/c/virtual_time` on `pes` PEs.
fn run(args: &[&str], program: &str) -> Finished {
    start(args, tools::compile(&format!("tests/c/virtual_time/{program}.c")))
}

fn start(args: &[&str], program: PathBuf) -> Finished {
    let test = Test::new("virtual-signals");
    let mut command = test.angara(["run", "--quiet", "--timeout", "200", "--clock", "virtual"]);
    command.args(args).arg("--").arg(program);
    let done = test.run(command);
    test.assert_clean();
    done
}

/// Has a script take part in the job.
const IN_A_JOB: &str = "import ctypes, runpy, sys\nlibrary = ctypes.CDLL(sys.argv[1])\nlibrary.shmem_init()\n\
                        runpy.run_path(sys.argv[2])\nlibrary.shmem_finalize()";

/// Runs a script of `tests/python`, where Python is.
fn python(args: &[&str], script: &str) -> Option<Finished> {
    let found = Command::new("python3").arg("--version").output();
    if found.is_err() {
        eprintln!("not tried: no python3 here");
        return None;
    }
    let test = Test::new("virtual-python");
    let mut command = test.angara(["run", "--quiet", "--timeout", "200", "--clock", "virtual"]);
    command.args(args).args(["--", "python3", "-c", IN_A_JOB]).arg(tools::tool("libsma.so"));
    command.arg(tools::root().join("tests/python").join(script));
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
    for line in ["25 25 25 0", "1", "kept: 1", "faults: 2, still 1", "halt: 1", "child: 1"] {
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

#[test]
fn sets_of_descriptors_have_the_size_that_the_caller_says() {
    let done = run(&["-n", "1"], "sets").success();
    assert_eq!(
        done.stdout,
        "short: 0, set 0, 1500 us, left 0\n\
         long: 1, set 1, 500 ms, left 1.500\n\
         pselect: 0, 2500 ms\n"
    );
}

/// Each of `ways` has been answered by a thread that computed, which takes no time, and then timed out at its deadline.
fn assert_deadlines(done: &Finished, ways: &[&str], timed_out: &str) {
    for way in ways {
        for line in [format!("{way}: answered after 0 ms"), format!("{way}: timed out after {timed_out} ms")] {
            assert!(done.stdout.lines().any(|l| l == line), "no `{line}` in {done}");
        }
    }
}

#[test]
fn deadlines_come_when_nothing_else_can() {
    let done = run(&["-n", "1"], "deadlines").success();
    let lines: Vec<&str> = done.stdout.lines().collect();
    let ways: Vec<&str> = lines.iter().filter_map(|l| l.split_once(':')).map(|(way, _)| way).collect();
    let ways: Vec<&str> = BTreeSet::from_iter(ways).into_iter().filter(|way| *way != "thrd_sleep").collect();
    assert_eq!((ways.len(), lines.len()), (26, 53), "{done}");
    assert_deadlines(&done, &ways, "1500");
    assert_eq!(lines[52], "thrd_sleep: answered after 1500 ms", "{done}");
}

#[test]
fn who_answers_after_the_last_look_is_in_time() {
    let library = tools::profile_dir().join("angara-tests/libanswers.so");
    let mut compile = Command::new("cc");
    compile.args(["-O1", "-shared", "-fPIC", "-DLIBRARY", "-o"]).arg(&library);
    let made = compile.arg(tools::root().join("tests/c/virtual_time/answers.c")).output().expect("cc starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let preload = format!("LD_PRELOAD={}", library.display());
    let done = run(&["-n", "1", "-x", &preload], "answers").success();
    assert_eq!(done.stdout, "0 after 0 s\n", "{done}");
}

#[test]
fn deadlines_of_cpp_come_when_nothing_else_can() {
    let program = tools::profile_dir().join("angara-tests/deadlines_cc");
    let mut compile = Command::new(tools::tool("oshc++"));
    compile.args(["-O1", "-pthread", "-o"]).arg(&program).arg(tools::root().join("tests/c/virtual_time/deadlines.cc"));
    let made = compile.output().expect("oshc++ starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let done = start(&["-n", "1"], program).success();
    assert_deadlines(&done, &["condition_variable", "future", "timed_mutex"], "1500");
}

#[test]
fn deadlines_of_python_come_when_nothing_else_can() {
    let Some(done) = python(&["-n", "1"], "deadlines.py") else { return };
    let done = done.success();
    let lines =
        ["event", "queue", "lock"].map(|way| (format!("{way} answered after 0"), format!("{way} timed out after 15")));
    for line in lines.iter().flat_map(|(one, two)| [one, two]) {
        assert!(done.stdout.lines().any(|l| l == line), "no `{line}` in {done}");
    }
}

#[test]
fn threads_sleep_at_once_and_one_that_computes_comes_first() {
    let done = run(&["-n", "2"], "sleepers").success();
    for line in ["2000 ms: 6000 ms, computed 1", "500 ms: 1500 ms, computed 1", "1000 ms: 3000 ms, computed 1"] {
        assert_eq!(done.stdout.lines().filter(|l| *l == line).count(), 2, "`{line}`: {done}");
    }
    assert_eq!(done.stdout.lines().filter(|l| *l == "all: 6000 ms").count(), 2, "{done}");
}

#[test]
fn a_thread_reads_virtual_clocks_while_another_waits_in_the_library() {
    assert_eq!(run(&["-n", "2"], "inside").success().stdout, "0\n");
}

/// Names in the tables of a section of the guide.
fn functions(guide: &str, from: &str, to: &str) -> BTreeSet<String> {
    let section = guide.split_once(from).and_then(|(_, rest)| rest.split_once(to)).expect("a section of the guide").0;
    let is_name = |s: &&str| s.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    section
        .lines()
        .filter(|l| l.starts_with('|'))
        .flat_map(|l| l.split('`').skip(1).step_by(2))
        .filter(is_name)
        .map(str::to_owned)
        .collect()
}

/// Functions that a library offers to the loader.
fn exported(library: &std::path::Path) -> Option<BTreeSet<String>> {
    let said = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().ok()?;
    let text = String::from_utf8(said.stdout).expect("ASCII");
    Some(text.lines().filter_map(|l| Some(l.split(' ').next_back()?.split('@').next()?.to_owned())).collect())
}

/// Functions of libc that take or return times, as its headers declare them.
fn timed() -> BTreeSet<String> {
    const HEADERS: &str = "aio mqueue netdb poll pthread sched semaphore signal stdlib sys/epoll sys/msg sys/resource \
        sys/select sys/sem sys/socket sys/stat sys/time sys/timerfd sys/times sys/timex sys/wait threads time unistd \
        utime";
    const TIMES: [&str; 13] = [
        "timespec",
        "timeval",
        "itimerval",
        "itimerspec",
        "__timeout",
        "__seconds",
        "useconds_t",
        "__useconds_t",
        "clockid_t",
        "time_t",
        "clock_t",
        "timer_t",
        "tms",
    ];
    let source: String = HEADERS.split_whitespace().map(|name| format!("#include <{name}.h>\n")).collect();
    let test = Test::new("virtual-headers");
    let file = test.file("all.c");
    std::fs::write(&file, source).expect("a file");
    let mut compile = Command::new("cc");
    compile.args(["-E", "-P", "-O2", "-D_GNU_SOURCE", "-D_FORTIFY_SOURCE=2"]).arg(&file).stdin(Stdio::null());
    let said = compile.output().expect("a C compiler");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let text = String::from_utf8(said.stdout).expect("ASCII");
    let words = |text: &str| -> Vec<String> {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty()).map(str::to_owned).collect()
    };
    let declared = text.split([';', '{', '}']).filter_map(|declaration| {
        let (before, rest) = declaration.split_once('(')?;
        let times = words(declaration).iter().any(|word| TIMES.contains(&word.as_str()) || word == "rusage");
        times.then(|| words(before).pop()).flatten().filter(|_| !rest.is_empty())
    });
    declared.collect()
}

#[test]
fn the_guide_names_every_function_of_libc_that_takes_a_time() {
    let guide = std::fs::read_to_string(tools::root().join("docs/guide/virtual-time.md")).expect("the guide");
    let ours = functions(&guide, "These follow virtual time:", "These are the system's");
    let others = functions(&guide, "These are the system's", "## Faults");
    assert!(ours.len() > 50 && others.len() > 20, "{ours:?} {others:?}");
    assert_eq!(ours.intersection(&others).count(), 0);
    let Some(here) = exported(&tools::tool("libangara_clock.so")) else {
        eprintln!("not tried: no nm here");
        return;
    };
    assert_eq!(ours.difference(&here).collect::<Vec<_>>(), [] as [&String; 0], "said to be virtual, and are not");
    assert_eq!(others.intersection(&here).collect::<Vec<_>>(), [] as [&String; 0], "said to be real, and are not");
    let libc = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6"];
    let Some(libc) = libc.iter().map(PathBuf::from).find(|file| file.exists()).and_then(|file| exported(&file)) else {
        eprintln!("not tried: no libc.so.6 where it is on known systems");
        return;
    };
    let timed: BTreeSet<String> = timed().intersection(&libc).cloned().collect();
    for name in ["poll", "pthread_cond_clockwait", "__ppoll_chk", "sched_rr_get_interval"] {
        assert!(timed.contains(name), "the headers are not understood: no {name} in {timed:?}");
    }
    let unknown = timed.iter().filter(|name| !ours.contains(*name) && !others.contains(*name)).collect::<Vec<_>>();
    assert_eq!(unknown, [] as [&String; 0], "functions of libc take times, and the guide does not say whose");
}
