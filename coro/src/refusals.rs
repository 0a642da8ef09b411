//! Imports that need a process of their own.

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
const TLS: &str = "registers destructors of thread-local objects";

macro_rules! refused {
    ($($reason:ident: $($pattern:literal)*;)*) => { &[$($(Refused { pattern: $pattern, reason: $reason },)*)*] };
}

/// Every pattern with its reason.
pub const REFUSED_IMPORTS: &[Refused] = refused! {
    PROCESS: "fork" "vfork" "_Fork" "__fork" "clone" "clone3" "__clone" "exec*" "fexecve" "posix_spawn*" "system" "popen"
        "daemon" "forkpty" "wordexp" "unshare" "setns";
    THREADS: "pthread_create" "thrd_create" "GOMP_*" "omp_*" "__kmpc_*" "_ZNSt6thread*";
    SIGNALS: "sigaction" "__sigaction" "signal" "__sysv_signal" "sysv_signal" "sigset" "bsd_signal" "ssignal"
        "sigaltstack" "sigprocmask" "pthread_sigmask" "sigwait*" "sigtimedwait" "sigsuspend" "signalfd" "sigvec"
        "sigblock" "sigsetmask" "sigignore" "sighold" "sigrelse" "siginterrupt" "pause";
    TIMERS: "alarm" "ualarm" "setitimer" "timer_create";
    SHARED: "chdir" "fchdir" "chroot" "umask" "setuid" "seteuid" "setreuid" "setresuid" "setgid" "setegid" "setregid"
        "setresgid" "setgroups" "initgroups" "setfsuid" "setfsgid" "setsid" "setpgid" "setpgrp" "setrlimit*" "prlimit*"
        "prctl" "arch_prctl" "personality" "dup2" "dup3" "hcreate" "hdestroy" "mallopt" "brk" "sbrk" "mlockall" "nice"
        "setpriority" "closefrom" "close_range" "uselocale" "sched_setaffinity";
    EXITS: "argp_*";
    LOADS: "dlopen" "dlmopen";
    STACKS: "makecontext" "swapcontext" "setcontext";
    SANITIZER: "__asan_*" "__tsan_*" "__ubsan_*" "__msan_*" "__hwasan_*" "__lsan_*";
    WIDE: "wprintf" "fwprintf" "vwprintf" "vfwprintf" "putwchar" "putwc" "fputwc" "fputws" "getwchar" "getwc" "fgetwc"
        "fgetws" "wscanf" "fwscanf" "fwide" "__wprintf_chk" "__fwprintf_chk" "__vwprintf_chk" "__vfwprintf_chk"
        "_ZSt5wcout" "_ZSt5wcerr" "_ZSt5wclog" "_ZSt4wcin";
    TLS: "__cxa_thread_atexit" "__cxa_thread_atexit_impl";
};

/// Definitions that must serve libc and the libraries, too, and as part of a coroutine could not.
pub(crate) const REFUSED_EXPORTS: &[&str] =
    &["malloc", "free", "calloc", "realloc", "memalign", "posix_memalign", "aligned_alloc", "_Znwm", "_Znam", "_ZdlPv"];

/// The entry of the table that `name` falls under.
pub(crate) fn refused(name: &str) -> Option<&'static Refused> {
    REFUSED_IMPORTS.iter().find(|r| match r.pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == r.pattern,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_prefixes_are_told_apart() {
        for name in ["fork", "execvp", "GOMP_parallel", "__asan_init", "pthread_create", "sigaction", "setrlimit64"] {
            assert!(refused(name).is_some(), "{name}");
        }
        for name in ["forkful", "longjmp", "setjmp", "signalling", "printf", "pthread_self", "dup", "cloned"] {
            assert!(refused(name).is_none(), "{name}");
        }
    }
}
