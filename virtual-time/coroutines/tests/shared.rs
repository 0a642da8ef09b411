//! What libc and libstdc++ have once in a process is each PE's own.

mod common;

use common::{Setup, outputs};

const C: &str = "#define stand shmem_stand\nextern void stand(void);\n#include <stdio.h>\n#include <stdlib.h>\n\
                 #define PE (getenv(\"PE\")[0] - '0')\n";
const CXX: &str = "#define stand shmem_stand\nextern \"C\" void stand();\n#include <cstdio>\n#include <cstdlib>\n\
                   #define PE (getenv(\"PE\")[0] - '0')\n";

/// What two PEs of a C program write.
fn c(name: &str, source: &str) -> Vec<String> {
    outputs(name, &format!("{C}{source}"), &["-D_GNU_SOURCE", "-Wl,--no-as-needed", "-lm"], Setup::default)
}

/// What two PEs of a C++ program write.
fn cxx(name: &str, source: &str) -> Vec<String> {
    outputs(name, &format!("{CXX}{source}"), &["-xc++"], Setup::default)
}

/// That each PE writes `want` of its number.
fn assert_each(said: &[String], want: impl Fn(u32) -> String) {
    for (pe, text) in said.iter().enumerate() {
        assert_eq!(*text, want(pe as u32), "PE {pe}");
    }
}

#[test]
fn handlers_of_exceptions_overlap() {
    let source = r#"
        #include <string>
        struct Message { std::string text; ~Message() { text.assign(text.size(), '#'); } };
        int main() {
            try { throw Message{"of PE " + std::to_string(PE) + std::string(40, '.')}; }
            catch (const Message &m) { stand(); if (PE) stand(); printf("%.8s\n", m.text.c_str()); }
            stand();
        }"#;
    assert_each(&cxx("handlers", source), |pe| format!("of PE {pe}.\n"));
}

#[test]
fn exceptions_are_thrown_again_and_kept() {
    let source = r#"
        #include <exception>
        #include <stdexcept>
        #include <string>
        struct Counts { ~Counts() { stand(); printf("%d ", std::uncaught_exceptions()); } };
        int main() {
            std::exception_ptr kept;
            try {
                try { Counts counts; throw std::runtime_error("PE " + std::to_string(PE)); }
                catch (...) { stand(); kept = std::current_exception(); stand(); throw; }
            } catch (const std::exception &e) { stand(); printf("%s ", e.what()); }
            stand();
            printf("%d ", std::uncaught_exceptions());
            try { std::rethrow_exception(kept); }
            catch (const std::exception &e) {
                stand();
                try { throw PE + 5; } catch (int n) { stand(); printf("%d ", n); }
                printf("%s\n", e.what());
            }
        }"#;
    assert_each(&cxx("rethrown", source), |pe| format!("1 PE {pe} 0 {} PE {pe}\n", pe + 5));
}

#[test]
fn formats_of_streams() {
    let source = r#"
        #include <iomanip>
        #include <iostream>
        #include <locale>
        #include <sstream>
        struct Commas : std::numpunct<char> {
            char do_thousands_sep() const override { return ','; }
            std::string do_grouping() const override { return "\3"; }
        };
        int main() {
            int index = std::ios_base::xalloc();
            if (PE == 0) {
                std::cout << std::setfill('*') << std::hex << std::setprecision(2) << std::setw(6);
                std::cout.iword(index) = 7;
                stand();
                std::cout << 255 << " " << 3.14159 << " " << std::setw(4) << 1 << " " << std::cout.iword(index);
                std::cout << std::dec; std::cout.imbue(std::locale(std::locale::classic(), new Commas)); stand();
                std::cout << " " << 1234567;
                std::ostringstream aside; auto before = std::cout.rdbuf(aside.rdbuf());
                std::cout << "aside"; stand(); std::cout << "!"; std::cout.rdbuf(before);
                std::cout << " " << aside.str() << std::endl;
            } else {
                stand();
                std::cout << std::setw(4) << 255 << " " << 3.14159 << " " << std::cout.iword(index); stand();
                std::cout << " " << 1234567; stand();
                std::cout << " here"; stand(); std::cout << std::endl;
            }
        }"#;
    assert_eq!(
        cxx("formats", source),
        ["**ff".replace("**", "****") + " 3.1 ***1 7 1,234,567 aside!\n", " 255 3.14159 0 1234567 here\n".into()]
    );
}

#[test]
fn many_locales_of_streams() {
    let source = format!(
        "{CXX}{}",
        r#"
        #include <iostream>
        #include <locale>
        struct Point : std::numpunct<char> { char do_decimal_point() const override { return ','; } };
        int main() {
            std::cout.imbue(std::locale(std::locale::classic(), new Point)); stand();
            std::cout << 1.5 << std::locale().name() << std::endl;
            std::cout.imbue(std::locale::classic()); std::cout.imbue(std::locale(std::locale::classic(), new Point));
            stand();
        }"#
    );
    let said = outputs("locales", &source, &["-xc++"], || Setup { count: 300, ..Setup::default() });
    assert!(said.iter().all(|s| s == "1,5C\n"), "{said:?}");
}

#[test]
fn handlers_of_the_language() {
    let source = r#"
        #include <exception>
        #include <new>
        static void ends() { printf("ended by PE %d\n", PE); fflush(stdout); _Exit(0); }
        static void none() { printf("none left "); std::set_new_handler(nullptr); }
        volatile size_t much = ~(size_t)0 >> 1;
        int main() {
            auto before = std::get_terminate();
            if (PE == 0) { std::set_terminate(ends); std::set_new_handler(none); stand(); }
            stand();
            try { printf("%p ", ::operator new(much)); } catch (const std::bad_alloc &) { printf("bad "); }
            auto now = std::get_terminate();
            printf("%s ", now == ends ? "own" : now == before && before == __gnu_cxx::__verbose_terminate_handler ? "first" : "?");
            if (PE == 1) { printf("\n"); return 0; }
            stand();
            std::terminate();
        }"#;
    assert_eq!(cxx("terminate", source), ["none left bad own ended by PE 0\n", "bad first \n"]);
}

#[test]
fn results_in_memory_of_libc() {
    for (name, call, wants) in [
        ("gmtime", "struct tm *t = gmtime(&when); stand(); printf(\"%d\", t->tm_mday);", ["1", "2"]),
        ("localtime", "struct tm *t = localtime(&when); stand(); printf(\"%d\", t->tm_mday);", ["1", "2"]),
        (
            "asctime",
            "struct tm t; gmtime_r(&when, &t); char *s = asctime(&t); stand(); printf(\"%s\", s);",
            ["Thu Jan  1 12:00:00 1970\n", "Fri Jan  2 12:00:00 1970\n"],
        ),
        ("ctime", "char *s = ctime(&when); stand(); printf(\"%.10s\", s);", ["Thu Jan  1", "Fri Jan  2"]),
        (
            "inet_ntoa",
            "struct in_addr a = {PE + 1}; char *s = inet_ntoa(a); stand(); printf(\"%s\", s);",
            ["1.0.0.0", "2.0.0.0"],
        ),
        (
            "strerror",
            "char *s = strerror(1000 + PE); stand(); printf(\"%s\", s);",
            ["Unknown error 1000", "Unknown error 1001"],
        ),
        (
            "strsignal",
            "char *s = strsignal(1000 + PE); stand(); printf(\"%s\", s);",
            ["Unknown signal 1000", "Unknown signal 1001"],
        ),
        ("ecvt", "int d, n; char *s = ecvt(PE + 1.5, 3, &d, &n); stand(); printf(\"%s\", s);", ["150", "250"]),
        ("fcvt", "int d, n; char *s = fcvt(PE + 1.5, 3, &d, &n); stand(); printf(\"%s\", s);", ["1500", "2500"]),
        ("l64a", "char *s = l64a(PE + 5); stand(); printf(\"%s\", s);", ["3", "4"]),
    ] {
        let source = format!(
            "#include <arpa/inet.h>\n#include <string.h>\n#include <time.h>\n\
             int main(void) {{ time_t when = 86400 * PE + 43200; {call} return 0; }}"
        );
        assert_eq!(c(&format!("result-{name}"), &source), wants, "{name}");
    }
}

#[test]
fn time_zones() {
    let source = r#"
        #include <time.h>
        int main(void) {
            setenv("TZ", PE ? "XXX-3" : "YYY-5", 1); tzset(); stand();
            time_t when = 0; struct tm t; localtime_r(&when, &t); char text[9]; strftime(text, 9, "%Z", &t); stand();
            printf("%d %s", localtime(&when)->tm_hour, text); stand();
            printf(" %d\n", t.tm_hour);
            return 0;
        }"#;
    assert_eq!(c("zones", source), ["5 YYY 5\n", "3 XXX 3\n"]);
}

#[test]
fn floating_point_exceptions() {
    let source = r#"
        #include <fenv.h>
        volatile long double a = 1, b = 0; volatile double c = 1, d = 0;
        int main(void) {
            if (PE == 0) { a = a / b; fesetround(FE_UPWARD); } else c = c / 3;
            stand();
            printf("%d %d %d\n", !!fetestexcept(FE_DIVBYZERO), !!fetestexcept(FE_INEXACT), fegetround() == FE_UPWARD);
            return 0;
        }"#;
    assert_eq!(c("fenv", source), ["1 0 1\n", "0 1 0\n"]);
}

#[test]
fn locks_of_files() {
    let source = r#"
        #include <fcntl.h>
        #include <unistd.h>
        int main(void) {
            char name[200]; snprintf(name, 200, "/tmp/angara-coro-lock-%d", getpid());
            int fd = open(name, O_RDWR | O_CREAT, 0600);
            struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1}, asked = lock;
            int got = fcntl(fd, F_SETLK, &lock); stand();
            fcntl(fd, F_GETLK, &asked); stand();
            printf("%d %d\n", got, asked.l_type == F_UNLCK); unlink(name);
            return 0;
        }"#;
    assert_eq!(c("locks", source), ["0 1\n", "-1 0\n"]);
}

#[test]
fn names_of_the_program() {
    let source = r#"
        #include <errno.h>
        int main(void) { printf("%s %d\n", program_invocation_name, program_invocation_short_name[0] != 0); return 0; }"#;
    assert_eq!(c("invocation", source), ["prog 1\n"; 2]);
}

#[test]
fn streams_of_standard_descriptors() {
    let source = r#"
        #include <unistd.h>
        int main(void) { FILE *f = fdopen(1, "w"); fprintf(f, "of PE %d\n", PE); stand(); fclose(f); return 0; }"#;
    assert_each(&c("fdopen", source), |pe| format!("of PE {pe}\n"));
}
