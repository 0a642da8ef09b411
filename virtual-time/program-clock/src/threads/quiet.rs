//! Detects if other threads of this process run. The kernel knows: a thread that computes or is about to run is `R`,
//! one that waits for a disk `D`. All others wait, for another thread, for the network or for time.
//!
//! Nothing here allocates or locks: a handler of a signal may sleep.

use super::turns;
use libc::{c_char, c_int};
use std::ffi::CStr;

const TASKS: &CStr = c"/proc/self/task";
/// Links of that directory where the process has one thread: itself, its parent, and the thread's.
const LINKS_ALONE: libc::nlink_t = 3;
/// Beginnings of the lines with a thread's state and with the count of times that it gave up its core.
const STATE: &[u8] = b"\nState:\t";
const SWITCHES: &[u8] = b"voluntary_ctxt_switches:\t";

/// Returns whether the program has one thread.
pub(crate) fn is_alone() -> bool {
    if turns::this().is_some() {
        return true;
    }
    // SAFETY: a name that ends with 0, and a place for what is said of it.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        libc::stat(TASKS.as_ptr(), &raw mut found) == 0 && found.st_nlink == LINKS_ALONE
    }
}

/// Returns whether none of the other threads runs: none is about to, twice, and none has had its core in between. So there was a moment at which
/// all of them waited.
pub(crate) fn is_quiet() -> bool {
    match (others(), others()) {
        (Seen::Wait(first), Seen::Wait(second)) => first == second,
        (Seen::Runs, _) | (_, Seen::Runs) => false,
        // Where nobody says, sleeps must end.
        _ => true,
    }
}

/// State of the other threads.
enum Seen {
    /// All wait; the number is a hash of their names and of how often each has given up its core.
    Wait(u64),
    Runs,
    Unknown,
}

/// Descriptors that stay open have numbers from this one on. Ours.
const OUT_OF_THE_WAY: c_int = 600;

/// A descriptor that is closed at its end.
struct File(c_int);

impl File {
    fn open(directory: c_int, name: *const c_char, flags: c_int) -> Option<File> {
        // SAFETY: a name that ends with 0.
        let fd = unsafe { libc::syscall(libc::SYS_openat, directory, name, flags | libc::O_CLOEXEC) } as c_int;
        (fd >= 0).then(|| File(fd))
    }
    /// The next bytes, of a file or (`SYS_getdents64`) of a directory.
    fn read<'a>(&self, how: libc::c_long, to: &'a mut [u8]) -> &'a [u8] {
        // SAFETY: as many bytes as there is room for.
        let n = unsafe { libc::syscall(how, self.0, to.as_mut_ptr(), to.len()) };
        &to[..usize::try_from(n).unwrap_or(0)]
    }
}

impl File {
    /// The same file under a number that programs do not meet, if there is one.
    fn out_of_the_way(self) -> File {
        // SAFETY: a descriptor of ours.
        let fd = unsafe { libc::fcntl(self.0, libc::F_DUPFD_CLOEXEC, OUT_OF_THE_WAY) };
        if fd < 0 { self } else { File(fd) }
    }
    /// Its beginning, as it is now.
    fn read_again<'a>(&self, to: &'a mut [u8]) -> &'a [u8] {
        // SAFETY: as many bytes as there is room for.
        let n = unsafe { libc::syscall(libc::SYS_pread64, self.0, to.as_mut_ptr(), to.len(), 0) };
        &to[..usize::try_from(n).unwrap_or(0)]
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: it was opened here.
        unsafe { libc::syscall(libc::SYS_close, self.0) };
    }
}

fn others() -> Seen {
    let Some(directory) = File::open(libc::AT_FDCWD, TASKS.as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY) else {
        return Seen::Unknown;
    };
    // SAFETY: takes nothing.
    let own = unsafe { libc::gettid() } as u64;
    let (mut entries, mut seen) = ([0; 2048], 0);
    loop {
        let mut rest = directory.read(libc::SYS_getdents64, &mut entries);
        if rest.is_empty() {
            return Seen::Wait(seen);
        }
        // Each entry has 16 bytes of numbers, its length, a byte, its name.
        while let [_, ..] = rest {
            let length = usize::from(u16::from_ne_bytes([rest[16], rest[17]]));
            let name = &rest[19..length];
            rest = &rest[length..];
            let Some(thread) = number(name).filter(|thread| *thread != own) else { continue };
            let mut path = [0; 32];
            let digits = name.iter().take_while(|b| b.is_ascii_digit()).count();
            path[..digits].copy_from_slice(&name[..digits]);
            path[digits..digits + 7].copy_from_slice(b"/status");
            match switches(directory.0, &path) {
                Some(Some(switches)) => seen = angara_abi::random::mix(seen ^ thread).wrapping_add(switches),
                Some(None) => return Seen::Runs,
                // It has ended.
                None => {}
            }
        }
    }
}

/// What the kernel says of one thread of the process. Its file stays open, since to open it takes longer than to read it.
pub(crate) struct Status(Option<File>);

impl Status {
    /// Of a thread of which nothing is known yet: it runs.
    pub(crate) const UNKNOWN: Status = Status(None);

    /// Of the calling thread.
    pub(crate) fn own() -> Status {
        // SAFETY: takes nothing.
        let (own, mut name) = (unsafe { libc::gettid() }, [0; 48]);
        // There is room for the longest one, and for the 0 that ends it.
        let _ = std::io::Write::write_fmt(&mut &mut name[..], format_args!("/proc/self/task/{own}/status"));
        let file = File::open(libc::AT_FDCWD, name.as_ptr().cast(), libc::O_RDONLY);
        Status(file.map(File::out_of_the_way))
    }
    /// How often the thread has given up its core; nothing if it runs.
    pub(crate) fn waits(&self) -> Option<u64> {
        self.0.as_ref().and_then(|file| switches_in(file.read_again(&mut [0; 4096])))
    }
}

/// How often a thread has given up its core, nothing if it runs; nothing at all if it has ended. `name` ends with 0.
fn switches(directory: c_int, name: &[u8]) -> Option<Option<u64>> {
    let file = File::open(directory, name.as_ptr().cast(), libc::O_RDONLY)?;
    Some(switches_in(file.read(libc::SYS_read, &mut [0; 4096])))
}

/// The same as a thread's status says it. One that is not understood runs.
fn switches_in(text: &[u8]) -> Option<u64> {
    let state = after(text, STATE)?.first()?;
    let mut rest = text;
    let mut switches = 0;
    while let Some(found) = after(rest, SWITCHES) {
        switches += number(found).unwrap_or(0);
        rest = found;
    }
    // Sleeping, or of no use any more.
    b"SIZX".contains(state).then_some(switches)
}

/// Returns what follows a pattern.
fn after<'a>(text: &'a [u8], pattern: &[u8]) -> Option<&'a [u8]> {
    text.windows(pattern.len()).position(|at| at == pattern).map(|at| &text[at + pattern.len()..])
}

/// The number that a text begins with.
fn number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}
