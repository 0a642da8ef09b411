//! Programs compiled for a test, and a host that runs copies of them.

#![allow(dead_code)] // Each test program uses a part.

use angara_coroutines::{Event, Hooks, Image, Names, PAGE, Pes, Program, Refusal, Stack, Start, stand};
use std::cell::UnsafeCell;
use std::ffi::{CStr, CString, c_int};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What PEs wrote, in order: number, descriptor, text.
struct Written(UnsafeCell<Vec<(u32, c_int, Vec<u8>)>>);

// SAFETY: a test holds the lock above while it runs PEs.
unsafe impl Sync for Written {}

static WRITTEN: Written = Written(UnsafeCell::new(Vec::new()));

extern "C" fn sink(pe: u32, fd: c_int, bytes: *const u8, len: usize) {
    // SAFETY: the stream's bytes; one thread runs PEs.
    unsafe { (*WRITTEN.0.get()).push((pe, fd, std::slice::from_raw_parts(bytes, len).to_vec())) }
}

/// Compiles a program; files of a test lie in a folder of its own.
pub(crate) fn compile(name: &str, source: &str, options: &[&str]) -> PathBuf {
    // A compiler started while a PE runs would get that PE's environment.
    let _lock = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
    std::fs::create_dir_all(&folder).unwrap();
    let needs: &[&str] =
        if options.iter().any(|o| o.starts_with("-static")) { &[] } else { &["-Wl,--as-needed", "-lsma"] };
    let cxx = options.contains(&"-xc++");
    let (file, program) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&file, source).unwrap();
    // What the host gives by name, or nobody does, is linked from a library that is never loaded. Its names are of the
    // class that programs may call.
    let (stub, library) = (folder.join(format!("{name}-stub.c")), folder.join(format!("lib-{name}")));
    std::fs::create_dir_all(&library).unwrap();
    std::fs::write(
        &stub,
        "void shmem_stand(void){} void shmem_exit_of_libc(int s){} void shmem_nobody_has_this(void){} \
         __thread int shmem_elsewhere;",
    )
    .unwrap();
    let link = ["-shared", "-fPIC", "-Wl,-soname,libsma.so.0", "-o"];
    assert!(Command::new("cc").args(link).arg(library.join("libsma.so")).arg(&stub).status().unwrap().success());
    let mut command = Command::new(if cxx { "c++" } else { "cc" });
    let status = command
        .args(["-O2", "-w"])
        .args(options)
        .arg(&file)
        .arg("-o")
        .arg(&program)
        .arg("-xnone")
        .arg("-L")
        .arg(&library)
        .args(needs)
        .status()
        .unwrap();
    assert!(status.success(), "{name} compiles");
    program
}

/// Zeros that can be executed, aligned to 64 KiB.
pub(crate) fn memory(bytes: usize) -> *mut u8 {
    let prot = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping, kept until the process ends.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes + (64 << 10), prot, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    (at as usize).next_multiple_of(64 << 10) as *mut u8
}

pub(crate) const STACK: usize = 64 << 10;

/// PEs of one program on this thread.
pub(crate) struct Job {
    pub(crate) pes: Pes,
    pub(crate) slices: Vec<usize>,
    _lock: MutexGuard<'static, ()>,
}

pub(crate) struct Setup<'a> {
    pub(crate) count: u32,
    pub(crate) args: &'a [&'a CStr],
    pub(crate) guard: bool,
    pub(crate) at_exit: Option<extern "C" fn(c_int)>,
}

impl Default for Setup<'_> {
    fn default() -> Self {
        Setup { count: 2, args: &[c"prog"], guard: false, at_exit: None }
    }
}

pub(crate) fn prepare(program: &Path) -> Result<Image, Refusal> {
    let exit = libc::exit as *const () as usize;
    let names = Names::from([("shmem_stand".into(), stand as *const () as usize), ("shmem_exit_of_libc".into(), exit)]);
    Image::prepare(Program::read(program)?, &names)
}

impl Job {
    pub(crate) fn new(program: &Path, setup: Setup) -> Job {
        let lock = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: no PE runs.
        unsafe { (*WRITTEN.0.get()).clear() };
        let image = prepare(program).unwrap();
        Pes::install_handlers().unwrap();
        let env = vec![CString::new("COMMON=c").unwrap(), CString::new("PE=none").unwrap()];
        let mut pes = Pes::new(image, Hooks { sink, at_exit: setup.at_exit }, env).unwrap();
        let mut slices = Vec::new();
        let bytes = pes.image().layout().slice_bytes.next_multiple_of(pes.image().layout().align);
        let (slice, stacks) = (memory(bytes * setup.count as usize), memory(STACK * setup.count as usize));
        for number in 0..setup.count {
            let i = number as usize;
            let own = [CString::new(format!("PE={number}")).unwrap()];
            let stack =
                Stack { low: stacks.wrapping_add(STACK * i), len: STACK, guard: if setup.guard { PAGE } else { 0 } };
            let start = Start { number, args: setup.args, env: &own };
            // SAFETY: fresh memory that outlives the job.
            unsafe { pes.add(slice.wrapping_add(bytes * i), stack, &start) }.unwrap();
            slices.push(slice as usize + bytes * i);
        }
        Job { pes, slices, _lock: lock }
    }

    /// Runs all in turn until all ended; how each did.
    pub(crate) fn run(&mut self) -> Vec<Event> {
        let mut ends: Vec<Option<Event>> = vec![None; self.pes.len()];
        for _ in 0..10_000 {
            for pe in 0..ends.len() {
                if ends[pe].is_none() {
                    ends[pe] = Some(self.pes.resume(pe)).filter(|e| *e != Event::Yielded);
                }
            }
            if ends.iter().all(Option::is_some) {
                return ends.into_iter().flatten().collect();
            }
        }
        panic!("not all end: {ends:?}");
    }

    /// What a PE wrote to a descriptor.
    pub(crate) fn text(&self, pe: u32, fd: c_int) -> String {
        let all: Vec<u8> = self.written().iter().filter(|w| (w.0, w.1) == (pe, fd)).flat_map(|w| w.2.clone()).collect();
        String::from_utf8(all).unwrap()
    }

    pub(crate) fn written(&self) -> &[(u32, c_int, Vec<u8>)] {
        // SAFETY: no PE runs.
        unsafe { &*WRITTEN.0.get() }
    }
}

/// Runs two PEs of a source with default options and with -fPIC; what each wrote to its standard output.
pub(crate) fn outputs(name: &str, source: &str, options: &[&str], setup: impl Fn() -> Setup<'static>) -> Vec<String> {
    let mut all: Vec<Vec<String>> = Vec::new();
    for (kind, option) in [("plain", "-fPIE"), ("pic", "-fPIC")] {
        let mut with = options.to_vec();
        with.push(option);
        if kind == "plain" && options.contains(&"-xc++") {
            continue; // Copies of std::cout: refused, which a test of its own shows.
        }
        let mut job = Job::new(&compile(&format!("{name}-{kind}"), source, &with), setup());
        let ends = job.run();
        assert!(ends.iter().all(|e| *e == Event::Ended(0)), "{name} {kind}: {ends:?}");
        all.push((0..ends.len() as u32).map(|pe| job.text(pe, 1)).collect());
    }
    assert!(all.iter().all(|a| *a == all[0]), "{name}: -fPIC changes nothing: {all:?}");
    all.swap_remove(0)
}
