//! Programs that need a process of their own are refused in one line, and layouts are those of PEs that are processes.

mod common;

use angara_coroutines::Program;
use common::{compile, prepare};
use std::path::Path;

fn why(path: &Path) -> String {
    let text = match Program::read(path) {
        Err(e) => e.to_string(),
        Ok(_) => prepare(path).unwrap_err().to_string(),
    };
    assert!(text.starts_with(&path.display().to_string()) && !text.contains('\n'), "{text}");
    text
}

#[test]
fn programs_that_need_processes() {
    let main = |body: &str| format!("#include <unistd.h>\n#include <stdio.h>\nint main(void) {{ {body}; return 0; }}");
    let cases: &[(&str, String, &[&str], &str)] = &[
        ("fork", main("fork()"), &[], "it calls fork, which starts or replaces a process"),
        ("dup2", main("dup2(1, 2)"), &[], "it calls dup2, which changes what all PEs of one process share"),
        ("unchecked", main("vhangup()"), &["-D_GNU_SOURCE"], "it calls vhangup, which has not been checked for PEs in one process"),
        ("variable", "#include <time.h>\nint main(void){return timezone;}".into(), &["-fPIC", "-D_GNU_SOURCE"], "it uses timezone, which is a variable of the whole process"),
        ("threads", "#include <pthread.h>\nint main(void){return pthread_create(0,0,0,0);}".into(), &[], "pthread_create"),
        ("omp", "int main(void){int s=0;\n#pragma omp parallel for reduction(+:s)\nfor(int i=0;i<9;i++)s+=i;return s;}".into(), &["-fopenmp"], "which starts threads"),
        ("cout", "#include <iostream>\nint main(){std::cout<<1;}".into(), &["-xc++", "-fPIE"], "oshcc -fPIC"),
        ("nopie", main(""), &["-no-pie"], "not position-independent"),
        ("static", main(""), &["-static"], "not position-independent"),
        ("staticpie", main(""), &["-static-pie"], "statically linked"),
        ("missing", "void shmem_nobody_has_this(void); int main(void){shmem_nobody_has_this();}".into(), &[], "no library has its symbol shmem_nobody_has_this"),
        ("tls", "__thread char big[5000]; int main(int n,char**v){big[n]=1;return big[n+1];}".into(), &[], "at most 4096"),
        ("libtls", "extern __thread int shmem_elsewhere; int main(void){return shmem_elsewhere;}".into(), &[], "shmem_elsewhere"),
        ("library", main(""), &["-Wl,--no-as-needed", "-lanl"], "libanl.so.1"),
        ("malloc", "#include <stddef.h>\nvoid*malloc(size_t n){static char b[99];return b;} int main(void){return !malloc(3);}".into(), &["-rdynamic"], "it defines malloc"),
        ("asan", main("puts(\"x\")"), &["-fsanitize=address"], "sanitizer"),
    ];
    for (name, source, options, want) in cases {
        let text = why(&compile(&format!("refused-{name}"), source, options));
        assert!(text.contains(want), "{name}: {text}");
    }
}

/// What programs of OpenSHMEM commonly call.
const COMMON_C: &str = r#"
    #include <assert.h>
    #include <complex.h>
    #include <ctype.h>
    #include <dirent.h>
    #include <err.h>
    #include <errno.h>
    #include <fcntl.h>
    #include <fenv.h>
    #include <getopt.h>
    #include <inttypes.h>
    #include <limits.h>
    #include <math.h>
    #include <pthread.h>
    #include <sched.h>
    #include <setjmp.h>
    #include <stdarg.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <sys/resource.h>
    #include <sys/stat.h>
    #include <sys/time.h>
    #include <sys/times.h>
    #include <time.h>
    #include <unistd.h>
    #include <wchar.h>
    void *all[] = {
        printf, fprintf, sprintf, snprintf, vprintf, vfprintf, vsnprintf, asprintf, puts, putchar, fputs, fputc, perror,
        scanf, sscanf, fscanf, fgets, fgetc, getline, fopen, fclose, fread, fwrite, fseek, fseeko, ftell, rewind, fflush,
        feof, ferror, setvbuf, setbuf, fdopen, freopen, tmpfile, remove, rename, unlink, mkdir, rmdir, opendir, readdir,
        closedir, open, read, write, close, lseek, pread, pwrite, stat, fstat, access, ftruncate, fsync, getcwd, realpath,
        readlink, mkstemp, isatty, malloc, calloc, realloc, free, posix_memalign, aligned_alloc, mmap, munmap, mprotect,
        madvise, atoi, atol, atoll, atof, strtol, strtoll, strtoul, strtoull, strtod, strtof, strtold, abs, labs, div,
        qsort, bsearch, rand, srand, rand_r, random, srandom, drand48, srand48, lrand48, erand48, nrand48, getenv, setenv,
        putenv, exit, _exit, abort, atexit, memcpy, memmove, memset, memcmp, memchr, strcpy, strncpy, strcat, strncat,
        strlen, strcmp, strncmp, strcasecmp, strncasecmp, strchr, strrchr, strstr, strtok, strtok_r, strdup, strndup,
        strerror, strspn, strcspn, strpbrk, strsep, toupper, tolower, isalpha, isspace, time, ctime, gmtime, localtime,
        strftime, mktime, difftime, clock, clock_gettime, clock_getres, gettimeofday, times, getrusage, usleep, sleep,
        nanosleep, sched_yield, sched_getcpu, getopt, getopt_long, getopt_long_only, gethostname, getpid, getppid, getuid,
        sysconf, getpagesize, err, errx, warn, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_unlock,
        pthread_mutex_destroy, pthread_self, sin, cos, tan, asin, acos, atan, atan2, sinh, cosh, tanh, exp, exp2, log,
        log2, log10, log1p, expm1, pow, sqrt, cbrt, hypot, fabs, floor, ceil, round, lround, llround, rint, lrint, trunc,
        fmod, remainder, fmin, fmax, fma, ldexp, frexp, modf, erf, erfc, lgamma, tgamma, j0, j1, jn, nextafter, copysign,
        sinf, cosf, sqrtf, powf, expf, sqrtl, powl, cexp, cpow, csqrt, cabs, carg, conj, creal, cimag, cexpf, feenableexcept,
        fesetround, fetestexcept, wcslen, mbstowcs, wcstombs, longjmp, sincos, sched_getaffinity,
    };
    jmp_buf jump;
    int main(int argc, char **argv) {
        char text[9]; struct flock lock = {0};
        assert(argc < 9); fcntl(0, F_GETLK, &lock); snprintf(text, argc, "%s", argv[0]); memcpy(text, argv[0], argc);
        return all[argc] == 0 || isnan(atof(argv[0])) || signbit(atof(argv[0])) || setjmp(jump) || errno;
    }"#;

/// What programs in C++ commonly use.
const COMMON_CXX: &str = r#"
    #include <algorithm>
    #include <chrono>
    #include <complex>
    #include <deque>
    #include <exception>
    #include <filesystem>
    #include <fstream>
    #include <functional>
    #include <iomanip>
    #include <iostream>
    #include <list>
    #include <map>
    #include <memory>
    #include <mutex>
    #include <new>
    #include <numeric>
    #include <optional>
    #include <random>
    #include <regex>
    #include <set>
    #include <sstream>
    #include <stdexcept>
    #include <string>
    #include <thread>
    #include <tuple>
    #include <unordered_map>
    #include <valarray>
    #include <vector>
    struct Base { virtual ~Base() {} virtual int number() = 0; };
    struct Derived : Base { int number() override { return 1; } };
    std::mutex mutex;
    int main(int argc, char **argv) {
        std::map<std::string, int> map; std::unordered_map<std::string, double> hashed; std::set<int> set{argc};
        std::list<int> list{1, 2}; std::deque<int> deque{3}; std::vector<double> vector(argc); list.sort();
        map[argv[0]] = 1; hashed["a"] = 2; std::sort(vector.begin(), vector.end());
        std::valarray<double> values(3); std::complex<double> z(1, 2); std::cout << std::exp(z) << values.sum();
        std::ostringstream out; out << std::setw(3) << std::setfill('0') << std::fixed << 1.5; std::cout << out.str();
        std::istringstream in("1 2"); int n; in >> n; std::string line; std::getline(std::cin, line);
        std::ifstream input("none"); std::ofstream output("/dev/null"); output << n << std::endl;
        std::mt19937_64 random(std::random_device{}()); std::normal_distribution<> normal; std::cout << normal(random);
        auto begin = std::chrono::steady_clock::now(); std::chrono::high_resolution_clock::now();
        std::this_thread::sleep_for(std::chrono::nanoseconds(1)); std::cout << (std::chrono::steady_clock::now() - begin).count();
        std::cout << std::thread::hardware_concurrency() << std::stoi("3") << std::to_string(2.5) << std::hex << 255;
        std::shared_ptr<Base> shared = std::make_shared<Derived>(); std::unique_ptr<Base> own(new Derived);
        std::function<int(int)> twice = [](int i) { return 2 * i; }; std::lock_guard<std::mutex> guard(mutex);
        std::cout << twice(2) << (dynamic_cast<Derived *>(shared.get()) != nullptr) << typeid(*shared).name();
        std::cout << std::regex_match("ab", std::regex("a.")) << std::filesystem::exists("none");
        try { throw std::runtime_error("x"); } catch (const std::exception &e) { std::cerr << e.what(); std::clog << '.'; }
        try { std::rethrow_exception(std::make_exception_ptr(3)); } catch (...) { static std::string kept = line; }
        return vector.at(0) == std::accumulate(list.begin(), list.end(), 0) && std::optional<int>(n).value() == 4;
    }"#;

#[test]
fn common_programs_are_allowed() {
    for (name, source, language) in [("c", COMMON_C, "-xc"), ("cxx", COMMON_CXX, "-xc++")] {
        for (how, options) in [("plain", "-O0"), ("fortified", "-D_FORTIFY_SOURCE=2"), ("fast", "-ffast-math")] {
            let options = [language, "-fPIC", "-D_GNU_SOURCE", "-Wl,--no-as-needed", "-lm", options];
            let program = Program::read(&compile(&format!("common-{name}-{how}"), source, &options));
            assert!(program.is_ok(), "{how}: {}", program.unwrap_err());
        }
    }
}

#[test]
fn files_that_are_no_programs() {
    let script = compile("refused-base", "int main(void){return 0;}", &[]).with_extension("sh");
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    assert!(why(&script).contains("script"));
    std::fs::write(&script, "text").unwrap();
    assert!(why(&script).contains("not an ELF file"));
    assert!(why(Path::new("/nowhere/prog")).contains("No such file"));
}

#[test]
fn layouts_are_those_of_processes() {
    let source = "#include <stdio.h>\nint big[10000]; int some = 3; const int constant[2000] = {1}; int main(void){printf(\"%d\", constant[some]);return big[some];}";
    let program = Program::read(&compile("layout", source, &[])).unwrap();
    let (layout, segments) = (program.layout(), program.segments());
    assert!(segments[0].writable && segments[1..].iter().all(|s| !s.writable));
    assert_eq!((segments[0].offset_in_image, segments[0].len), (layout.variables_at, layout.variables_bytes));
    assert_eq!(layout.variables_at + layout.variables_bytes, layout.image_bytes);
    assert_eq!(layout.slice_bytes - layout.variables_at, segments.iter().map(|s| s.len).sum::<usize>());
    assert!(segments[0].len >= 40_000 && segments.iter().any(|s| !s.writable && s.len >= 8192), "{segments:?}");
    assert!(program.needs("libc.so") && !program.needs("libsma") && program.imports("printf"));
}
