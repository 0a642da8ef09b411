//! Programs as coroutines: each PE has what a process would.

mod common;

use angara_coroutines::{Event, interrupt, pause, stand};
use common::{Job, Setup, compile, outputs};
use std::sync::atomic::{AtomicBool, Ordering};

const STAND: &str = "#define stand shmem_stand\nextern void stand(void);\n";

fn with_stand(source: &str) -> String {
    format!("{STAND}{source}")
}

#[test]
fn globals_statics_and_order() {
    let source = with_stand(
        r#"#include <stdio.h>
        int counter = 7; static long zero; int *address = &counter;
        int main(int argc, char **argv) {
            static int calls;
            for (int i = 0; i < 3; i++) { counter += i; zero++; calls += 2; stand(); }
            printf("%s %d %d %ld %d %d\n", argv[0], argc, counter, zero, calls, address == &counter);
            return 0;
        }"#,
    );
    assert_eq!(outputs("globals", &source, &[], Setup::default), ["prog 1 10 3 6 1\n"; 2]);
}

#[test]
fn pes_run_in_turn() {
    let source = with_stand(
        r#"#include <unistd.h>
        int main(void) { for (char c = 'a'; c < 'd'; c++) { write(1, &c, 1); stand(); } return 5; }"#,
    );
    let mut job = Job::new(&compile("turns", &source, &[]), Setup { count: 3, ..Setup::default() });
    assert_eq!(job.run(), vec![Event::Ended(5); 3]);
    let order: Vec<_> = job.written().iter().map(|w| (w.0, w.2[0])).collect();
    assert_eq!(order[..4], [(0, b'a'), (1, b'a'), (2, b'a'), (0, b'b')]);
    assert_eq!(order.len(), 9);
}

#[test]
fn thread_locals_survive_switches() {
    let source = with_stand(
        r#"#include <stdio.h>
        __thread int first = 41; __thread char name[100] = "abc"; __thread long zero; int here;
        __thread int *where = &here;
        int main(int argc, char **argv) {
            for (int i = 0; i < 4; i++) { first++; zero += 2; name[0]++; stand(); }
            printf("%d %s %ld %d\n", first, name, zero, where == &here);
            return 0;
        }"#,
    );
    assert_eq!(outputs("tls", &source, &[], Setup::default), ["45 ebc 8 1\n"; 2]);
}

#[test]
fn constructors_handlers_and_destructors() {
    let source = with_stand(
        r#"#include <stdio.h>
        #include <stdlib.h>
        static void say(const char *s) { printf("%s ", s); }
        __attribute__((constructor)) static void before(void) { say("constructor"); }
        __attribute__((destructor)) static void after(void) { say("destructor"); }
        static void more(void) { say("more"); }
        static void one(void) { say("one"); atexit(more); }
        static void two(void) { say("two"); }
        static void three(int status, void *arg) { printf("three:%d:%s ", status, (char *)arg); }
        static void deep(int n) { if (n) { deep(n - 1); say(""); } else { stand(); exit(0); } }
        int main(void) { atexit(one); atexit(two); on_exit(three, "x"); say("main"); deep(5); return 9; }"#,
    );
    let want = "constructor main three:0:x two one more destructor ";
    assert_eq!(outputs("order", &source, &[], Setup::default), [want; 2]);
}

#[test]
fn random_numbers_are_those_of_libc() {
    let source = with_stand(
        r#"#include <stdio.h>
        #include <stdlib.h>
        int main(int argc, char **argv) {
            for (int i = 0; i < 3; i++) { printf("%d ", rand()); stand(); }
            printf("%ld ", lrand48()); srand48(5); stand(); printf("%.6f ", drand48());
            srand(42); stand(); printf("%d ", rand());
            static char state[64]; char *old = initstate(3, state, 64); stand(); printf("%ld ", random());
            setstate(old); stand(); printf("%ld\n", random());
            return 0;
        }"#,
    );
    let alone = compile("random-alone", &source.replace("stand();", ";"), &[]);
    let alone = String::from_utf8(std::process::Command::new(alone).output().unwrap().stdout).unwrap();
    assert!(alone.starts_with("1804289383 846930886 1681692777 "), "{alone}");
    assert_eq!(outputs("random", &source, &[], Setup::default), [alone.as_str(); 2]);
}

#[test]
fn words_environment_and_errno() {
    let source = with_stand(
        r#"#include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <errno.h>
        #include <unistd.h>
        extern char **environ;
        int main(void) {
            char text[20]; sprintf(text, "a,b%s,c", getenv("PE"));
            for (char *w = strtok(text, ","); w; w = strtok(NULL, ",")) { printf("%s ", w); stand(); }
            printf("%s %s ", getenv("COMMON"), getenv("NOT") ? "?" : "-");
            setenv("NOT", getenv("PE"), 1); setenv("COMMON", "mine", 0); stand();
            printf("%s %s ", getenv("COMMON"), getenv("NOT"));
            setenv("COMMON", "new", 1); unsetenv("PE"); putenv("PUT=1"); stand();
            int n = 0; for (char **e = environ; *e; e++) n++;
            printf("%s %s %s %d ", getenv("COMMON"), getenv("PE") ? "?" : "-", getenv("PUT"), n);
            clearenv(); stand(); printf("%d ", getenv("PUT") == NULL);
            close(-1); stand(); printf("%d\n", errno == EBADF);
            return 0;
        }"#,
    );
    let want = |pe| format!("a b{pe} c c - c {pe} new - 1 3 1 1\n");
    assert_eq!(outputs("words", &source, &["-D_GNU_SOURCE"], Setup::default), [want(0), want(1)]);
}

#[test]
fn options_of_each_pe() {
    let source = with_stand(
        r#"#include <stdio.h>
        #include <unistd.h>
        int main(int argc, char **argv) {
            int c;
            while ((c = getopt(argc, argv, "ab:c")) != -1) { printf("%c%s ", c, c == 'b' ? optarg : ""); stand(); }
            printf("%d %s\n", optind, argv[optind]);
            optind = 1; int n = 0;
            while (getopt(argc, argv, "ab:c") != -1) n++;
            printf("%d\n", n);
            return 0;
        }"#,
    );
    let setup = || Setup { args: &[c"prog", c"-a", c"-b", c"7", c"-c", c"rest"], ..Setup::default() };
    assert_eq!(outputs("options", &source, &[], setup), ["a b7 c 5 rest\n3\n"; 2]);
}

#[test]
fn cxx_exceptions_and_streams() {
    let source = r#"#include <iostream>
        #include <iomanip>
        #include <stdexcept>
        #include <string>
        #include <cstdio>
        #include <cstdlib>
        #include <vector>
        #define stand shmem_stand
        extern "C" void stand();
        struct Said { const char *s; Said(const char *s) : s(s) { printf("+%s ", s); } ~Said() { printf("-%s ", s); } };
        static Said global("global");
        int main() {
            Said local("local");
            std::cout << "cout "; printf("printf ");
            if (getenv("PE")[0] == '0') std::cout << std::setprecision(3);
            stand();
            std::cout << 3.14159265 << " ";
            try { Said inner("inner"); stand(); throw std::runtime_error("thrown"); }
            catch (const std::exception &e) { std::cout << e.what() << " "; }
            try { std::vector<int> v; stand(); v.at(3); } catch (const std::out_of_range &) { printf("range "); }
            std::cout << std::endl;
            std::cerr << "error";
            return 0;
        }"#;
    let want = |pi| format!("+global +local cout printf {pi} +inner -inner thrown range \n-local -global ");
    assert_eq!(outputs("cxx", source, &["-xc++"], Setup::default), [want("3.14"), want("3.14159")]);
}

#[test]
fn a_pe_is_paused_even_if_the_end_of_one_before_was_wanted_too_late() {
    let source = with_stand("int main(void) { volatile long n = 0; stand(); for (;;) n++; }");
    let mut job = Job::new(&compile("pause", &source, &[]), Setup { count: 1, ..Setup::default() });
    assert_eq!(job.pes.resume(0), Event::Yielded);
    interrupt();
    let over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                pause();
                std::thread::yield_now();
            }
        });
        let events = [job.pes.resume(0), job.pes.resume(0)];
        over.store(true, Ordering::Relaxed);
        assert_eq!(events, [Event::Paused, Event::Paused]);
    });
}

#[test]
fn a_crash_leaves_others_alone() {
    let source = with_stand(
        r#"#include <assert.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <unistd.h>
        __attribute__((noinline)) static void wrong(int *p) { *p = 1; printf("x"); }
        int main(void) {
            stand();
            int pe = atoi(getenv("PE"));
            assert(pe != 1);
            if (pe == 2) { wrong((int *)(long)(16 * pe)); puts("not here"); }
            if (pe == 3) { fprintf(stderr, "last words"); abort(); }
            stand(); printf("alive"); _exit(pe == 4 ? 77 : (fflush(stdout), 0));
        }"#,
    );
    let program = compile("crash", &source, &[]);
    let mut job = Job::new(&program, Setup { count: 5, ..Setup::default() });
    let ends = job.run();
    assert_eq!((&ends[0], &ends[4]), (&Event::Ended(0), &Event::Ended(77)));
    let crash = |pe: usize| match &ends[pe] {
        Event::Crashed(c) => c,
        other => panic!("{other:?}"),
    };
    assert_eq!((crash(1).signal, crash(2).signal, crash(3).signal), (libc::SIGABRT, libc::SIGSEGV, libc::SIGABRT));
    assert_eq!((crash(2).address, crash(2).stack_overflow), (32, false));
    assert!(job.text(1, 2).contains("Assertion `pe != 1' failed"), "{}", job.text(1, 2));
    assert_eq!(
        (job.text(3, 2).as_str(), job.text(0, 1).as_str(), job.text(4, 1).as_str()),
        ("last words", "alive", "")
    );
    let copy = job.slices[2]..job.slices[2] + job.pes.image().layout().image_bytes;
    assert!(copy.contains(&crash(2).rip) && crash(2).frames[0] == crash(2).rip);
    assert!(crash(2).frames.len() >= 2, "main called it");
}

#[test]
fn stacks_that_are_too_small() {
    let source = with_stand(
        r#"#include <stdlib.h>
        #include <string.h>
        static int deep(int n) { volatile char room[1000]; room[n % 1000] = n; stand(); return n ? deep(n - 1) + room[3] : 0; }
        int main(void) { return getenv("PE")[0] == '1' ? deep(100) : deep(3) & 0; }"#,
    );
    let program = compile("deep", &source, &["-fno-optimize-sibling-calls"]);
    for guard in [false, true] {
        let mut job = Job::new(&program, Setup { guard, ..Setup::default() });
        let ends = job.run();
        assert_eq!(ends[0], Event::Ended(0), "guard {guard}");
        match &ends[1] {
            Event::Crashed(c) => assert!(c.stack_overflow, "guard {guard}: {c:?}"),
            other => panic!("guard {guard}: {other:?}"),
        }
    }
}

extern "C" fn goodbye(_: i32) {
    stand();
}

#[test]
fn the_hosts_goodbye_comes_last() {
    let source = "#include <stdio.h>\n#include <stdlib.h>\nstatic void last(void) { printf(\"last\"); }\n\
                  int main(void) { atexit(last); printf(\"first \"); return 3; }";
    let mut job = Job::new(&compile("goodbye", source, &[]), Setup { at_exit: Some(goodbye), ..Setup::default() });
    assert_eq!(job.pes.resume(0), Event::Yielded, "the goodbye stands");
    assert_eq!(job.text(0, 1), "first last");
    assert_eq!(job.run(), [Event::Ended(3), Event::Ended(3)]);
}

#[test]
fn messages_that_end_the_program() {
    let source = with_stand(
        r#"#include <err.h>
        #include <errno.h>
        #include <error.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <unistd.h>
        int main(void) {
            dprintf(1, "%s %d %.1f;", "to", 1, 2.5); stand();
            errno = ENOENT;
            switch (getenv("PE")[0]) {
            case '0': err(3, "%s %d", "zero", 10);
            case '1': errx(4, "one %.1f %d %d %d %d %d", 1.5, 1, 2, 3, 4, 5);
            case '2': warnx("a warning"); error(5, EINVAL, "two %s", "words");
            }
            error(0, 0, "goes on"); return 6;
        }"#,
    );
    let mut job = Job::new(&compile("messages", &source, &[]), Setup { count: 4, ..Setup::default() });
    assert_eq!(job.run(), [3, 4, 5, 6].map(Event::Ended));
    assert_eq!(job.text(0, 1), "to 1 2.5;");
    let said: Vec<_> = (0..4).map(|pe| job.text(pe, 2)).collect();
    assert_eq!(said[0], "messages: zero 10: No such file or directory\n");
    assert_eq!(said[1], "messages: one 1.5 1 2 3 4 5\n");
    assert_eq!(said[2], "messages: a warning\nprog: two words: Invalid argument\n");
    assert_eq!(said[3], "prog: goes on\n");
}

#[test]
fn an_exit_inside_libc_ends_the_pe_alone() {
    let source = "#include <stdio.h>\nvoid shmem_exit_of_libc(int);\nint main(void) { printf(\"flushed\"); shmem_exit_of_libc(3); return 4; }";
    let program = compile("exit-of-libc", source, &[]);
    let mut job = Job::new(&program, Setup::default());
    assert_eq!(job.run(), [Event::Ended(1), Event::Ended(1)]);
    assert_eq!((job.text(1, 1).as_str(), job.text(1, 2).contains("ended this program")), ("flushed", true));
}

#[test]
fn ten_thousand_images() {
    const PES: usize = 10_000;
    let source = with_stand("int n = 3; int main(void) { for (int i = 0; i < 20; i++) { n++; stand(); } return n; }");
    let program = compile("many", &source, &[]);
    let (rss, begin) = (resident(), std::time::Instant::now());
    let mut job = Job::new(&program, Setup { count: PES as u32, ..Setup::default() });
    let (made, grown) = (begin.elapsed(), resident() - rss);
    let round = |job: &mut Job| {
        let begin = std::time::Instant::now();
        assert!((0..PES).all(|pe| job.pes.resume(pe) == Event::Yielded));
        begin.elapsed().as_secs_f64() * 1e9 / PES as f64
    };
    let first = round(&mut job);
    let later = round(&mut job);
    println!(
        "{PES} PEs: {:.1} us and {} B each to make, {} B when run; ns a turn: {first:.0} first, {later:.0} then",
        made.as_secs_f64() * 1e6 / PES as f64,
        grown / PES,
        (resident() - rss) / PES,
    );
    assert_eq!(job.run(), vec![Event::Ended(23); PES]);
}

#[test]
fn a_million_turns() {
    const TURNS: u32 = 1_000_000;
    for (kind, variable) in [("plain", ""), ("tls", "__thread ")] {
        let source = with_stand(&format!(
            "{variable}int n; int main(void) {{ for (;;) {{ n++; stand(); if (n == {TURNS}) return 9; }} }}"
        ));
        let mut job =
            Job::new(&compile(&format!("turns-{kind}"), &source, &[]), Setup { count: 1, ..Setup::default() });
        let begin = std::time::Instant::now();
        assert!((0..TURNS).all(|_| job.pes.resume(0) == Event::Yielded));
        println!("{kind}: {:.1} ns there and back", begin.elapsed().as_secs_f64() * 1e9 / f64::from(TURNS));
        assert_eq!(job.pes.resume(0), Event::Ended(9));
    }
}

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}
