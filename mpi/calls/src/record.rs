//! Notes of calls, for timelines: from the end of `MPI_Init` to the beginning of `MPI_Finalize`. The provider begins them, and has
//! messages noted among the calls ([`angara_protocol::calls::mpi`]).

use crate::about::about;
use crate::real::Real;
use angara_protocol::calls::mpi::{Hooks, MpiNotes, Noted, preloaded};
use angara_protocol::calls::{Action, Call, CallFile, ENV_CALLS, Head, Step, file_name, wall_now};
use libc::{c_char, c_int};
use std::cell::Cell;
use std::ffi::CStr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Of this process: used in the library that was preloaded first, whichever wraps a call.
static RECORDER: OnceLock<Recorder> = OnceLock::new();
/// Threads that have made calls.
static THREADS: AtomicU16 = AtomicU16::new(0);

thread_local! {
    /// Number of this thread among those.
    static THREAD: Cell<Option<u16>> = const { Cell::new(None) };
    /// This thread is in a call that is noted.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Returns what this library offers the provider, and the other library that wraps calls.
#[unsafe(no_mangle)]
extern "C" fn angara_mpi_notes() -> &'static MpiNotes {
    static NOTES: MpiNotes = MpiNotes::new(Hooks { begin, message, turn, now, call });
    &NOTES
}

/// The file of this process.
struct Recorder {
    pe: u32,
    /// Nothing where clocks are real.
    virtual_now: Option<extern "C" fn() -> u64>,
    is_on: AtomicBool,
    file: Mutex<CallFile>,
}

extern "C" fn begin(noted: &Noted) -> bool {
    let Some(directory) = angara_protocol::trust::var_os(ENV_CALLS).filter(|directory| !directory.is_empty()) else {
        return false;
    };
    let Noted { pe, pes, node, virtual_now } = *noted;
    let is_virtual = angara_abi::program_clock::preloaded().is_some();
    let head = Head { pe, pes, node, pid: std::process::id(), virtual_time: is_virtual };
    let path = Path::new(&directory).join(file_name(pe));
    match CallFile::start(&path, &head) {
        Ok(file) => {
            let virtual_now = is_virtual.then_some(virtual_now);
            RECORDER.set(Recorder { pe, virtual_now, is_on: AtomicBool::new(false), file: Mutex::new(file) }).is_ok()
        }
        Err(e) => {
            angara_protocol::complain!("angara: PE {pe}: cannot note calls in {}: {e}", path.display());
            false
        }
    }
}

extern "C" fn turn(is_on: bool) {
    if let Some(recorder) = RECORDER.get() {
        recorder.is_on.store(is_on, Ordering::Release);
    }
}

extern "C" fn now() -> u64 {
    match RECORDER.get().filter(|recorder| recorder.is_on.load(Ordering::Acquire)) {
        Some(recorder) => recorder.now(),
        None => u64::MAX,
    }
}

extern "C" fn message(step: Step, pe: u32, number: u64, bytes: u64) {
    let now = now();
    if let Some(recorder) = RECORDER.get().filter(|_| now != u64::MAX) {
        recorder.note(None, (now, now), Action::Message { step, pe, number, bytes });
    }
}

extern "C" fn call(routine: *const c_char, action: &Action, start: u64, end: u64) {
    // SAFETY: a name of a routine, as it is promised.
    let routine = unsafe { CStr::from_ptr(routine) };
    if let Some(recorder) = RECORDER.get() {
        recorder.note(Some(routine), (start, end), *action);
    }
}

impl Recorder {
    fn now(&self) -> u64 {
        match self.virtual_now {
            Some(now) => match now() {
                u64::MAX => u64::MAX,
                ps => ps / 1000,
            },
            None => wall_now(),
        }
    }

    fn note(&self, routine: Option<&'static CStr>, (start, end): (u64, u64), action: Action) {
        let thread = THREAD.get().unwrap_or_else(|| {
            let number = THREADS.fetch_add(1, Ordering::Relaxed);
            THREAD.set(Some(number));
            number
        });
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let name = |file: &mut CallFile| match routine {
            Some(routine) => file.text(routine.as_ptr() as usize, || routine.to_string_lossy().into_owned()),
            None => Ok(0),
        };
        let noted = name(&mut file)
            .and_then(|routine| file.call(&Call { routine, site: 0, thread, depth: 0, start, end, action }));
        if let Err(e) = noted {
            angara_protocol::complain!("angara: PE {}: calls are no longer noted: {e}", self.pe);
        }
    }
}

/// While it lives this thread is in a call that is noted, also if the call unwinds.
struct Inside;

impl Inside {
    fn begin() -> Inside {
        INSIDE.set(true);
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}

/// Where calls of this process are noted, if they are.
fn hooks() -> Option<&'static Hooks> {
    static FOUND: OnceLock<Option<&'static Hooks>> = OnceLock::new();
    *FOUND.get_or_init(preloaded)
}

/// From now on calls are noted, if they are to be, or no more.
pub(crate) fn turns(is_on: bool) {
    if let Some(hooks) = hooks() {
        (hooks.turn)(is_on);
    }
}

/// Makes a call of a routine, and notes it if calls are noted and it is in none that is. One that fails is not noted: what its
/// arguments mean is not known then.
pub(crate) fn around(routine: &Real, args: &[usize], call: impl FnOnce() -> c_int) -> c_int {
    let hooks = hooks().map(|hooks| (hooks, (hooks.now)())).filter(|(_, start)| *start != u64::MAX && !INSIDE.get());
    let Some((hooks, start)) = hooks else { return call() };
    let result = {
        let _inside = Inside::begin();
        call()
    };
    let end = (hooks.now)();
    if result == 0 && end != u64::MAX {
        (hooks.call)(routine.plain_name().as_ptr(), &about(routine.plain_name(), args), start, end);
    }
    result
}
