//! Imports that need a process of their own: those with a reason that is known, and all that nobody has checked.

use crate::allowed::allowed;

/// A pattern of names, and why a program that imports one of them runs as processes only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// A name; `*` at its end stands for any rest.
    pub pattern: &'static str,
    /// Why, as the end of the sentence "it calls NAME, which ...".
    pub reason: &'static str,
}

const PROCESS: &str = "starts or replaces a process";
const THREADS: &str = "starts threads";
const SIGNALS: &str = "handles signals of the whole process";
const TIMERS: &str = "sets a timer of the whole process";
const SHARED: &str = "changes what all PEs of one process share";
const LOADS: &str = "loads libraries of its own";
const STACKS: &str = "switches stacks itself";
const SANITIZER: &str = "belongs to a sanitizer build";
const WIDE: &str = "writes wide characters to a stream";
const EXITS: &str = "may end the process from inside libc";
const LOCALE: &str = "sets the locale of the whole process";
const LOCKS: &str = "locks a file for the whole process";
const SENDS: &str = "sends signals to the whole process";
const THREAD: &str = "acts on the thread that all PEs have in common";
const WAITS: &str = "waits for another thread";
const KEYS: &str = "takes one of the 1,024 keys that a process has";
const ANSWERS: &str =
    "answers in memory that all PEs would share (its twin, if there is one that ends in _r, does not)";
const VARIABLE: &str = "is a variable of the whole process";
const ANY: &str = "can reach functions of the system that nobody has checked";
const UNKNOWN: &str = "has not been checked for PEs in one process";
const TLS: &str = "registers destructors of thread-local objects";

macro_rules! refused {
    ($($reason:ident: $($pattern:literal)*;)*) => { &[$($(Refused { pattern: $pattern, reason: $reason },)*)*] };
}

/// Every pattern with its reason.
pub const REFUSED_IMPORTS: &[Refused] = refused! {
    PROCESS: "fork" "vfork" "_Fork" "__fork" "clone" "clone3" "__clone" "exec*" "fexecve" "posix_spawn*" "system" "popen"
        "daemon" "forkpty" "wordexp" "unshare" "setns";
    THREADS: "pthread_create" "thrd_create" "GOMP_*" "omp_*" "__kmpc_*" "_ZNSt6thread15_M_start_thread*"
        "_ZNSt6thread4joinEv" "_ZNSt6thread6detachEv" "_ZNSt6thread6_State*";
    SIGNALS: "sigaction" "__sigaction" "signal" "__sysv_signal" "sysv_signal" "sigset" "bsd_signal" "ssignal"
        "sigaltstack" "sigprocmask" "pthread_sigmask" "sigwait*" "sigtimedwait" "sigsuspend" "signalfd" "sigvec"
        "sigblock" "sigsetmask" "sigignore" "sighold" "sigrelse" "siginterrupt" "pause";
    TIMERS: "alarm" "ualarm" "setitimer" "timer_create";
    SHARED: "chdir" "fchdir" "chroot" "umask" "setuid" "seteuid" "setreuid" "setresuid" "setgid" "setegid" "setregid"
        "setresgid" "setgroups" "initgroups" "setfsuid" "setfsgid" "setsid" "setpgid" "setpgrp" "setrlimit*" "prlimit*"
        "prctl" "arch_prctl" "personality" "dup2" "dup3" "hcreate" "hdestroy" "mallopt" "brk" "sbrk" "mlockall" "nice"
        "setpriority" "closefrom" "close_range" "sched_setaffinity"
        "_ZNSt10filesystem12current_pathERK*" "_ZNSt3pmr20set_default_resource*";
    EXITS: "argp_*";
    LOADS: "dlopen" "dlmopen";
    STACKS: "makecontext" "swapcontext" "setcontext";
    SANITIZER: "__asan_*" "__tsan_*" "__ubsan_*" "__msan_*" "__hwasan_*" "__lsan_*";
    WIDE: "wprintf" "fwprintf" "vwprintf" "vfwprintf" "putwchar" "putwc" "fputwc" "fputws" "getwchar" "getwc" "fgetwc"
        "fgetws" "wscanf" "fwscanf" "fwide" "__wprintf_chk" "__fwprintf_chk" "__vwprintf_chk" "__vfwprintf_chk"
        "_ZSt5wcout" "_ZSt5wcerr" "_ZSt5wclog" "_ZSt4wcin";
    LOCALE: "setlocale" "uselocale" "__uselocale" "_ZNSt6locale6globalERKS_";
    LOCKS: "lockf" "lockf64";
    SENDS: "kill" "killpg" "raise" "gsignal" "sigqueue" "tgkill" "pthread_kill" "pthread_sigqueue";
    THREAD: "pthread_exit" "pthread_cancel" "pthread_setcancelstate" "pthread_setcanceltype" "pthread_testcancel"
        "pthread_getattr_np" "pthread_setaffinity_np" "pthread_setname_np" "pthread_setschedparam" "thrd_exit";
    WAITS: "pthread_join" "pthread_cond_wait" "pthread_cond_timedwait" "pthread_cond_clockwait" "pthread_barrier_wait"
        "sem_wait" "sem_timedwait" "sem_clockwait" "cnd_wait" "cnd_timedwait" "thrd_join" "_ZNSt18condition_variable4wait*";
    KEYS: "pthread_key_create" "tss_create";
    ANSWERS: "getpwuid" "getpwnam" "getpwent" "getgrgid" "getgrnam" "getgrent" "gethostbyname" "gethostbyname2"
        "gethostbyaddr" "getservbyname" "getservbyport" "getprotobyname" "getprotobynumber" "getlogin" "ttyname" "ptsname"
        "tmpnam" "ctermid" "cuserid" "getmntent" "getpass" "qecvt" "qfcvt" "hsearch" "re_comp" "ether_ntoa" "strerror_l";
    VARIABLE: "tzname" "timezone" "daylight" "__tzname" "__timezone" "__daylight" "signgam" "__signgam" "getdate_err"
        "h_errno" "error_print_progname" "error_message_count" "error_one_per_line" "obstack_alloc_failed_handler";
    ANY: "syscall" "dlsym" "dlvsym";
    TLS: "__cxa_thread_atexit" "__cxa_thread_atexit_impl";
};

/// Definitions that must serve libc and the libraries, too, and as part of a coroutine could not.
pub(crate) const REFUSED_EXPORTS: &[&str] =
    &["malloc", "free", "calloc", "realloc", "memalign", "posix_memalign", "aligned_alloc", "_Znwm", "_Znam", "_ZdlPv"];

impl Refused {
    fn fits(&self, name: &str) -> bool {
        match self.pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == self.pattern,
        }
    }
}

/// Why a program with these imports cannot run. Of several reasons the table's first is said, for who starts threads also
/// waits for them, and last what is not known.
pub(crate) fn why_not(imports: &[&str]) -> Option<String> {
    let entry = |r: &'static Refused| Some((imports.iter().find(|name| r.fits(name))?, r.reason));
    let known = REFUSED_IMPORTS.iter().find_map(entry);
    let (name, reason) = known.or_else(|| Some((imports.iter().find(|name| !allowed(name))?, UNKNOWN)))?;
    let verb = if reason == VARIABLE { "uses" } else { "calls" };
    Some(format!("it {verb} {name}, which {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_prefixes_are_told_apart() {
        for name in ["fork", "execvp", "GOMP_parallel", "__asan_init", "pthread_create", "sigaction", "setrlimit64"] {
            assert!(REFUSED_IMPORTS.iter().any(|r| r.fits(name)), "{name}");
        }
        for name in ["forkful", "longjmp", "setjmp", "signalling", "printf", "pthread_self", "dup", "cloned"] {
            assert!(!REFUSED_IMPORTS.iter().any(|r| r.fits(name)), "{name}");
        }
    }

    #[test]
    fn the_reason_that_explains_most_is_said() {
        let why = |names: &[&str]| why_not(names).unwrap_or_default();
        assert_eq!(why(&["printf", "shmem_init", "__isoc99_sscanf"]), "");
        assert_eq!(why(&["nobody", "pthread_join", "pthread_create"]), "it calls pthread_create, which starts threads");
        assert_eq!(why(&["printf", "nobody"]), "it calls nobody, which has not been checked for PEs in one process");
        assert_eq!(why(&["timezone"]), "it uses timezone, which is a variable of the whole process");
    }
}
