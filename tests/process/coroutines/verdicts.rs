//! Which programs of the repository can be coroutines, and why others cannot. What is refused newly shows here.

use angara_coroutines::Program;
use angara_tests::tools;

/// Folders of programs for OpenSHMEM.
const FOLDERS: [&str; 6] =
    ["examples/c", "tests/c", "tests/c/coroutines", "tests/c/openshmem", "tests/c/races", "tests/c/virtual_time"];

/// Programs for other libraries, and parts of programs.
const OTHERS: [&str; 6] = [
    "examples/c/driver.c",
    "examples/c/mailbox.c",
    "examples/c/scenes.c",
    "examples/c/verbs.c",
    "tests/c/openshmem/memory.c",
    "tests/c/openshmem/statics_lib.c",
];

/// Programs that are refused: what they call, or how its name begins, and why. All others are none.
const REFUSED: [(&str, &str, &str); 22] = [
    ("tests/c/forks.c", "fork", "starts or replaces a process"),
    ("tests/c/peers.c", "fork", "starts or replaces a process"),
    ("tests/c/sandbox.c", "execv", "starts or replaces a process"),
    ("tests/c/steps.c", "pause", "handles signals of the whole process"),
    ("tests/c/timeline.c", "raise", "sends signals to the whole process"),
    ("tests/c/openshmem/ends.c", "pthread_create", "starts threads"),
    ("tests/c/openshmem/streams.c", "pthread_create", "starts threads"),
    ("tests/c/openshmem/threads.c", "pthread_create", "starts threads"),
    ("tests/c/virtual_time/absent.c", "fork", "starts or replaces a process"),
    ("tests/c/virtual_time/answers.c", "sem_timedwait", "waits for another thread"),
    ("tests/c/virtual_time/busy.c", "fork", "starts or replaces a process"),
    ("tests/c/virtual_time/deadlines.c", "pthread_create", "starts threads"),
    ("tests/c/virtual_time/deadlines.cc", "_ZNSt6thread15_M_start_thread", "starts threads"),
    ("tests/c/virtual_time/ends_early.c", "alarm", "sets a timer of the whole process"),
    ("tests/c/virtual_time/far_sleep.c", "pthread_create", "starts threads"),
    ("tests/c/virtual_time/inside.c", "pthread_create", "starts threads"),
    ("tests/c/virtual_time/sets.c", "pthread_create", "starts threads"),
    ("tests/c/virtual_time/sleep.c", "system", "starts or replaces a process"),
    ("tests/c/virtual_time/sleepers.c", "pthread_create", "starts threads"),
    ("tests/c/virtual_time/timers.c", "sigaction", "handles signals of the whole process"),
    ("tests/c/virtual_time/tsc.c", "system", "starts or replaces a process"),
    ("tests/c/virtual_time/watchdog.c", "pthread_create", "starts threads"),
];

#[test]
fn programs_of_the_repository_have_the_known_verdict() {
    let mut seen = Vec::new();
    for folder in FOLDERS {
        for entry in std::fs::read_dir(tools::root().join(folder)).expect("a folder") {
            let name = entry.expect("an entry").file_name().into_string().expect("a name");
            let path = format!("{folder}/{name}");
            let is_source = [".c", ".cc"].iter().any(|end| name.ends_with(end));
            if !is_source || OTHERS.contains(&path.as_str()) || name.ends_with(".cc") && !tools::have("c++") {
                continue;
            }
            let cxx: &[&str] = if name.ends_with(".cc") { &["-Wl,--no-as-needed", "-lstdc++"] } else { &[] };
            let program = tools::compile_with(&path, &[&["-fPIC", "-g"], cxx].concat());
            let verdict = match Program::read(&program) {
                Ok(_) => String::new(),
                Err(refusal) => refusal.to_string().split_once(": ").expect("a path").1.into(),
            };
            seen.push((path, verdict));
        }
    }
    let right = |(path, verdict): &(String, String)| match REFUSED.iter().find(|r| r.0 == path) {
        Some((_, call, why)) => verdict.starts_with(&format!("it calls {call}")) && verdict.ends_with(why),
        None => verdict.is_empty(),
    };
    let wrong: Vec<_> = seen.iter().filter(|s| !right(s)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen.len() > 2 * REFUSED.len(), "{} programs", seen.len());
}
