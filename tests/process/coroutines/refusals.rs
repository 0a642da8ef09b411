//! Programs that cannot be coroutines: the reason and the remedy are said, and nothing is left.

use super::{COROUTINES, compile, run};
use angara_tests::{Test, tools};
use std::path::{Path, PathBuf};

fn refused(program: &Path, wanted: &[&str]) {
    let test = Test::new("coroutines-refused");
    let done = run(&test, COROUTINES, &["-n", "2"], program, &[]);
    assert_eq!(done.code(), 2, "{done}");
    assert_eq!(done.stdout, "", "{done}");
    for part in wanted.iter().chain(&["--pes-as processes"]) {
        assert!(done.stderr.contains(part), "no `{part}` in {done}");
    }
    test.assert_clean();
}

#[test]
fn programs_that_need_processes_are_refused_with_the_reason() {
    for (source, call, why) in [
        ("openshmem/threads.c", "pthread_create", "starts threads"),
        ("virtual_time/busy.c", "fork", "starts or replaces a process"),
        ("virtual_time/sleep.c", "system", "starts or replaces a process"),
        ("virtual_time/ends_early.c", "alarm", "sets a timer of the whole process"),
        ("virtual_time/sets.c", "pthread_create", "starts threads"),
    ] {
        let program = compile(&format!("tests/c/{source}"));
        refused(&program, &[&program.display().to_string(), &format!("it calls {call}, which {why}")]);
    }
}

/// Compiles a program with `oshcc` or `oshc++` and flags, if the compiler can.
fn built(test: &Test, compiler: &str, flags: &[&str], (name, source): (&str, &str)) -> Option<PathBuf> {
    let (file, program) = (test.file(name), test.file("program"));
    std::fs::write(&file, source).expect("a file");
    let mut command = test.command(tools::tool(compiler));
    command.args(flags).arg(&file).arg("-o").arg(&program);
    let done = test.run(command);
    if done.code() != 0 {
        println!("skipped: {done}");
    }
    (done.code() == 0).then_some(program)
}

const SMALL: (&str, &str) =
    ("small.c", "#include <shmem.h>\nint main(void) { shmem_init(); shmem_finalize(); return 0; }\n");
const STREAM: (&str, &str) = (
    "stream.cc",
    "#include <iostream>\n#include <shmem.h>\nint main() { shmem_init(); std::cout << 1; shmem_finalize(); }\n",
);

#[test]
fn programs_built_otherwise_are_refused_with_the_remedy() {
    let test = Test::new("coroutines-built");
    let program = built(&test, "oshcc", &["-no-pie"], SMALL).expect("every compiler can");
    refused(&program, &["it is not position-independent", "-pie"]);
    if let Some(program) = built(&test, "oshcc", &["-fPIC", "-fsanitize=address"], SMALL) {
        refused(&program, &["it calls __asan_", "belongs to a sanitizer build"]);
    }
    if !tools::have("c++") {
        println!("skipped: no c++");
        return;
    }
    let program = built(&test, "oshc++", &["-fPIE", "-pie"], STREAM).expect("every compiler can");
    refused(&program, &["it has a copy of _ZSt4cout", "compile with -fPIC (oshcc -fPIC)"]);
}

#[test]
fn what_nobody_has_checked_is_refused_and_auto_takes_processes() {
    let test = Test::new("coroutines-unchecked");
    let source = "#include <shmem.h>\n#include <syslog.h>\n\
                  int main(void) { shmem_init(); setlogmask(255); shmem_finalize(); return 0; }\n";
    let program = built(&test, "oshcc", &[], ("unchecked.c", source)).expect("every compiler can");
    let why = "it calls setlogmask, which has not been checked for PEs in one process";
    refused(&program, &[why]);
    let done = run(&test, "auto", &["-n", "2"], &program, &[]);
    assert!(done.code() == 0 && done.stderr.contains("PEs are processes: ") && done.stderr.contains(why), "{done}");
    test.assert_clean();
}

#[test]
fn programs_that_end_their_process_otherwise_are_refused_and_auto_takes_processes() {
    let (sends, thread) = ("sends signals to the whole process", "acts on the thread that all PEs have in common");
    for (call, name, why, code) in [
        ("raise(SIGTERM)", "raise", sends, 143),
        ("raise(SIGINT)", "raise", sends, 130),
        ("kill(getpid(), SIGTERM)", "kill", sends, 143),
        ("pthread_exit(0)", "pthread_exit", thread, 0),
    ] {
        let test = Test::new("coroutines-otherwise");
        let source = format!(
            "#include <pthread.h>\n#include <shmem.h>\n#include <signal.h>\n#include <unistd.h>\n\
             int main(void) {{ shmem_init(); shmem_barrier_all(); shmem_finalize(); {call}; return 0; }}\n"
        );
        let program = built(&test, "oshcc", &["-pthread"], ("otherwise.c", &source)).expect("every compiler can");
        let why = format!("it calls {name}, which {why}");
        refused(&program, &[&why]);
        let done = run(&test, "auto", &["-n", "2"], &program, &[]);
        assert!(done.code() == code && done.stderr.contains(&why), "{call}: {done}");
        test.assert_clean();
    }
}

#[test]
fn what_is_no_program_of_the_library_is_refused() {
    let test = Test::new("coroutines-none");
    let done = run(&test, COROUTINES, &["-n", "2"], Path::new("./missing"), &[]);
    assert!(done.code() == 127 && done.stderr.contains("no program ./missing"), "{done}");
    let done = run(&test, COROUTINES, &["-n", "2"], Path::new("/bin/true"), &[]);
    assert!(done.code() == 2 && done.stderr.contains("/bin/true: it is not linked with libsma.so"), "{done}");
    let script = test.file("script.sh");
    std::fs::write(&script, "#!/bin/sh\nexit 0\n").expect("a file");
    let mut chmod = test.command("chmod");
    chmod.arg("+x").arg(&script);
    test.run(chmod).success();
    let done = run(&test, COROUTINES, &["-n", "2"], &script, &[]);
    assert!(done.code() == 2 && done.stderr.contains("--pes-as processes"), "{done}");
    test.assert_clean();
}
