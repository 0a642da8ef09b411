//! The PEs of a job, for the data plane: made when they are let run for the first time, on the data plane's own thread.

use crate::desk::{self, Desk, Question, desk, sink};
use crate::farewell::Copies;
use crate::lines::{Lines, Which};
use crate::link::Link;
use crate::output::Output;
use crate::watch::Watched;
use angara_abi::inside::{self, Library, Parts, Segment};
use angara_abi::program_clock::{PE_SYMBOL, TURN_SYMBOL};
use angara_abi::shm::{Arena, Part};
use angara_coroutines::{Crash, Event, Hooks, Image, Layout, Names, Pes, Program, Stack, Start};
use angara_plane::{Coroutines, Resumed};
use angara_protocol::inside::StartPes;
use angara_protocol::launch::Launch;
use angara_protocol::msg::{AdapterReply, AdapterRequest};
use fabricd::inside::{Seats, Wish};
use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, OnceLock};
use tokio::sync::mpsc::UnboundedSender;

/// Bytes below each stack that cannot be written to, as many as the kernel keeps free below a process's: even where the compiler
/// does not touch every page of a large frame, most that are too large are found.
const GUARD: usize = 256 * angara_abi::PAGE;
/// Mappings that a process may have, where the system does not say: Linux's own number.
const MAPPINGS: usize = 65_530;
/// A guard takes two mappings. Half of all may be for guards; the rest is the program's, and for what else is here.
const GUARD_SHARE: usize = 4;

/// PEs that have their seats, and their programs.
pub(crate) struct Seated {
    pub(crate) start: StartPes,
    pub(crate) program: Program,
    pub(crate) seats: Seats,
    pub(crate) runtime_dir: PathBuf,
    pub(crate) arena: Arc<Arena>,
}

/// The PEs of a job.
pub(crate) struct Turns {
    /// Tells of them, once.
    pub(crate) seated: Receiver<Seated>,
    pub(crate) wishes: UnboundedSender<Wish>,
    pub(crate) link: Link,
    pub(crate) watched: Arc<Watched>,
    /// For whoever wants lines of addresses.
    pub(crate) copies: Arc<OnceLock<Copies>>,
    pub(crate) made: Option<Made>,
}

/// PEs that can run.
pub(crate) struct Made {
    pes: Pes,
    desk: &'static Desk,
    library: &'static Library,
    turn: extern "C" fn(*const c_void),
    guests: Vec<Guest>,
    /// PEs that have not ended.
    left: usize,
    /// One of them has ended the program on all.
    ends: Option<usize>,
    lines: Lines,
    /// Regions that PEs know by address alone.
    _seats: Seats,
    _arena: Arc<Arena>,
}

// SAFETY: made and used on the data plane's thread alone; it is sent there before anything is in it.
unsafe impl Send for Made {}

/// A PE.
struct Guest {
    library: *mut inside::Pe,
    clock: *const c_void,
    /// An answer that is on its way.
    answer: Option<Receiver<Vec<u8>>>,
    ended: bool,
}

impl Coroutines for Turns {
    fn resume(&mut self, pe: usize) -> Resumed {
        if self.made.is_none() {
            let Ok(seated) = self.seated.recv() else { return Resumed::Waits };
            match Made::new(seated, &self.copies) {
                Ok(made) => self.made = Some(made),
                Err((why, remedy)) => {
                    self.link.refuse(why, remedy);
                    return Resumed::Waits;
                }
            }
        }
        let Some(made) = &mut self.made else { return Resumed::Waits };
        let guest = &mut made.guests[pe];
        if guest.ended || self.watched.has_stopped() {
            return Resumed::Waits;
        }
        if let Some(answer) = &guest.answer {
            let text = match answer.try_recv() {
                Ok(text) => Some(text),
                Err(TryRecvError::Empty) => return Resumed::Waits,
                Err(TryRecvError::Disconnected) => None,
            };
            guest.answer = None;
            made.desk.answer(text);
        }
        match made.run(pe, &self.watched) {
            Event::Yielded => match made.desk.take_question() {
                None => Resumed::Stands,
                Some(Question::Daemon(text)) => self.ask(pe, text),
                Some(Question::Line(address)) => {
                    let text = made.place(address, true, Which::Outermost);
                    made.desk.answer(Some(text.into_bytes()));
                    self.resume(pe)
                }
            },
            Event::Paused => Resumed::Stands,
            Event::Ended(status) => self.has_ended(pe, status << 8),
            Event::Crashed(crash) => {
                let interrupted = self.tell(pe, &crash);
                self.has_ended(pe, if interrupted { 1 << 8 } else { crash.signal })
            }
        }
    }

    fn note(&mut self, pe: usize) {
        let waits_for_host = |made: &Made| made.guests[pe].answer.is_some();
        if self.made.as_ref().is_some_and(|made| !waits_for_host(made)) {
            self.resume(pe);
        }
    }

    fn wanted(&self) -> Arc<AtomicBool> {
        self.watched.wanted()
    }
}

impl Turns {
    /// Passes a PE's question on to the daemon.
    fn ask(&mut self, pe: usize, text: &[u8]) -> Resumed {
        let Some(made) = &mut self.made else { return Resumed::Waits };
        let Ok(request) = serde_json::from_slice::<AdapterRequest>(text) else {
            made.desk.answer(None);
            return Resumed::Stands;
        };
        let (tell, told) = std::sync::mpsc::channel();
        let answer = move |reply: AdapterReply| {
            // Nobody listens whose PE has been given up.
            let _ = tell.send(serde_json::to_vec(&reply).expect("plain data"));
        };
        made.guests[pe].answer = Some(told);
        if let AdapterRequest::Abort { orderly: true, .. } = request {
            made.ends = Some(pe);
        }
        // A daemon that has gone drops the question, which answers it.
        let _ = self.wishes.send(Wish::Ask(pe, request, Box::new(answer)));
        Resumed::Waits
    }

    /// Notes that a PE's program has ended, as a process would with this status.
    fn has_ended(&mut self, pe: usize, raw: i32) -> Resumed {
        let Some(made) = &mut self.made else { return Resumed::Waits };
        made.guests[pe].ended = true;
        made.left -= 1;
        made.desk.finish(pe as u32);
        // The launcher hears of it when the daemon knows: it may ask for totals then.
        let link = self.link.clone();
        let _ = self.wishes.send(Wish::Gone(pe, Box::new(move || link.ended(pe, raw))));
        if made.ends == Some(pe) {
            // It has ended the program on all PEs: the others flush their streams, and are gone.
            for other in (0..made.guests.len()).filter(|other| *other != pe) {
                if !std::mem::replace(&mut made.guests[other].ended, true) {
                    made.left -= 1;
                    made.pes.flush(other);
                    made.desk.finish(other as u32);
                    self.link.ended(other, raw);
                }
            }
        }
        if made.left == 0 {
            made.desk.set_outputs(None);
            self.link.close_outputs();
        }
        Resumed::Waits
    }

    /// Says how a PE has crashed, as far as its launcher cannot know it. Returns whether it has been interrupted.
    fn tell(&mut self, pe: usize, crash: &Crash) -> bool {
        let Some(made) = &mut self.made else { return false };
        // The first is the instruction itself where that is the program's.
        let frame = crash.frames.first().map(|at| made.place(*at, *at != crash.rip, Which::Innermost));
        let (text, interrupted) = self.watched.describe(crash, pe, frame);
        made.desk.write(pe as u32, 2, text.as_bytes());
        interrupted
    }
}

type Why = (String, String);

fn refused(why: impl std::fmt::Display) -> Why {
    (why.to_string(), "run it with --pes-as processes".into())
}

/// Returns a function of a library that is loaded into this process.
fn symbol(name: &CStr) -> Result<*mut c_void, Why> {
    // SAFETY: a name that ends with 0.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() {
        return Err(refused(format!("{} is not loaded into this process", name.to_string_lossy())));
    }
    Ok(found)
}

/// Loads the library that the program calls.
fn load_library(program: &Program) -> Result<&'static Library, Why> {
    let name = program.needed().iter().find(|name| name.starts_with("libsma.so"));
    let name = name.ok_or_else(|| refused("the program does not use libsma.so"))?;
    let beside = std::env::current_exe().ok().and_then(|exe| {
        let bin = exe.parent()?.to_path_buf();
        [bin.join(name), bin.join("../lib").join(name)].into_iter().find(|file| file.exists())
    });
    let file = beside.unwrap_or_else(|| PathBuf::from(name));
    let path = CString::new(file.as_os_str().as_bytes()).map_err(refused)?;
    // SAFETY: a name that ends with 0; the library's constructors do nothing in a process that is no PE.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if handle.is_null() {
        // SAFETY: a string that ends with 0, after a failure.
        let why = unsafe { CStr::from_ptr(libc::dlerror()) }.to_string_lossy().into_owned();
        return Err(refused(format!("{} cannot be loaded: {why}", file.display())));
    }
    let found = symbol(inside::SYMBOL)?;
    // SAFETY: the library's function of this name, which takes nothing.
    let library = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> &'static Library>(found)() };
    match library.version == inside::VERSION {
        true => Ok(library),
        false => Err(refused(format!("{} is of another version", file.display()))),
    }
}

impl Made {
    fn new(seated: Seated, copies: &Arc<OnceLock<Copies>>) -> Result<Made, Why> {
        let Seated { start, program, seats, runtime_dir, arena } = seated;
        let file = program.path().to_path_buf();
        let library = load_library(&program)?;
        let clock = symbol(PE_SYMBOL)?;
        // SAFETY: the preloaded library's functions of these names.
        let (clock, turn) = unsafe {
            (
                std::mem::transmute::<*mut c_void, extern "C" fn(u32) -> *const c_void>(clock),
                std::mem::transmute::<*mut c_void, extern "C" fn(*const c_void)>(symbol(TURN_SYMBOL)?),
            )
        };
        let segments = program.segments().to_vec();
        let image = Image::prepare(program, &Names::new()).map_err(refused)?;
        let layout = image.layout();
        let images = seats.job.images();
        prepare_code(images).map_err(|e| refused(format!("memory for copies of the program cannot be code: {e}")))?;
        Pes::install_handlers().map_err(refused)?;
        let desk = open_desk(start.label);
        let name: &'static CStr =
            Box::leak(CString::new(file.as_os_str().as_bytes()).map_err(refused)?.into_boxed_c_str());
        let (first, bytes, count) = (images.at as usize, layout.slice_bytes, start.pes as usize);
        // Nobody has set it before: PEs are made once.
        let _ = copies.set(Copies { first, bytes, count, file: file.clone() });
        desk.knows(copies.clone(), name);
        let hooks = Hooks { sink, at_exit: Some(library.ended) };
        let mut pes = Pes::new(image, hooks, environment()).map_err(refused)?;
        let guard = if start.pes as usize <= mappings() / GUARD_SHARE { GUARD } else { 0 };
        let stack = start.stack as usize + guard;
        let stacks = arena.cut(stack * start.pes as usize, angara_abi::PAGE).map_err(|e| no_stacks(&start, &e))?;
        let args: Vec<CString> =
            start.argv.iter().map(|word| CString::new(word.clone()).map_err(refused)).collect::<Result<_, _>>()?;
        let args: Vec<&CStr> = args.iter().map(CString::as_c_str).collect();
        let mut guests = Vec::with_capacity(start.pes as usize);
        for pe in 0..start.pes as usize {
            let slice = images.at.wrapping_add(pe * layout.slice_bytes);
            let low = stacks.as_ptr().wrapping_add(pe * stack);
            let launch = Launch {
                runtime_dir: runtime_dir.clone(),
                job: start.job,
                key: start.key.clone(),
                pe: pe as u32,
                pes: start.pes,
            };
            let env = variables(&launch);
            let memory = Stack { low, len: stack, guard };
            let begin = Start { number: pe as u32, args: &args, env: &env };
            // SAFETY: slices and stacks are this PE's alone, and stay with the arena, which `Made` keeps.
            unsafe { pes.add(slice, memory, &begin) }.map_err(refused)?;
            let own = segments_of(&segments, slice as usize);
            let parts = parts(&seats, pe, &own, images, layout);
            let clock = clock(pe as u32);
            turn(clock);
            let mut why: *const c_char = std::ptr::null();
            // SAFETY: regions of the job, which stay as long as the process.
            let guest = unsafe { (library.join)(&desk::HOST, &parts, &mut why) };
            turn(std::ptr::null());
            if guest.is_null() {
                // SAFETY: a string that the library leaves there.
                let why = unsafe { CStr::from_ptr(why) }.to_string_lossy().into_owned();
                return Err(refused(format!("PE {pe} cannot join its job: {why}")));
            }
            guests.push(Guest { library: guest, clock, answer: None, ended: false });
        }
        let left = guests.len();
        Ok(Made {
            pes,
            desk,
            library,
            turn,
            guests,
            left,
            ends: None,
            lines: Lines::of(&file),
            _seats: seats,
            _arena: arena,
        })
    }

    /// Returns the line of an address of the program.
    fn place(&mut self, address: usize, returns: bool, which: Which) -> String {
        match self.desk.copy_at(address) {
            Some(base) => self.lines.place(address - base, returns, which),
            None => format!("{address:#x}"),
        }
    }

    /// Lets a PE run until it has something to say.
    fn run(&mut self, pe: usize, watched: &Watched) -> Event {
        let guest = &self.guests[pe];
        (self.turn)(guest.clock);
        // SAFETY: what the library has made for this PE, on the one thread of all PEs.
        unsafe { (self.library.enter)(guest.library) };
        watched.begins(pe);
        let event = self.pes.resume(pe);
        watched.ends(pe, event == Event::Paused);
        // SAFETY: as above.
        unsafe { (self.library.leave)(guest.library) };
        (self.turn)(std::ptr::null());
        event
    }
}

/// Returns the desk, with the process's own outputs for those of the PEs, which this thread makes.
fn open_desk(label: bool) -> &'static Desk {
    // SAFETY: the process's own outputs, which stay open.
    let own = |fd| unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    // SAFETY: PEs are made on the thread on which they run.
    let desk = unsafe { desk() };
    desk.set_outputs(Some([1, 2].map(|fd| Output::new(own(fd), label))));
    desk
}

/// Returns the number of mappings that this process may have.
fn mappings() -> usize {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(MAPPINGS)
}

fn no_stacks(start: &StartPes, e: &std::io::Error) -> Why {
    let why = format!("stacks of {} bytes for {} PEs: {e}", start.stack, start.pes);
    (why, "start fewer PEs, or give them smaller stacks (ulimit -s)".into())
}

/// Lets copies of a program be code as well as data.
fn prepare_code(images: Part) -> std::io::Result<()> {
    use rustix::mm::{MprotectFlags, mprotect};
    let all = MprotectFlags::READ | MprotectFlags::WRITE | MprotectFlags::EXEC;
    // SAFETY: whole pages of the arena that are for copies of the program, before there are any.
    unsafe { mprotect(images.at.cast(), images.len.next_multiple_of(angara_abi::PAGE), all)? };
    Ok(())
}

/// Returns the variables that all PEs have: those of this process without what is for itself alone. What is preloaded is this process's
/// clock.
fn environment() -> Vec<CString> {
    let own = [angara_protocol::inside::ENV_DESCRIPTORS, "LD_PRELOAD"];
    let all = std::env::vars_os().filter(|(name, _)| own.iter().all(|own| name != own));
    all.filter_map(|(name, value)| variable(&name, &value)).collect()
}

fn variable(name: &OsStr, value: &OsStr) -> Option<CString> {
    CString::new([name.as_bytes(), value.as_bytes()].join(&b'=')).ok()
}

/// Returns the variables that one PE has.
fn variables(launch: &Launch) -> Vec<CString> {
    launch.to_env().into_iter().filter_map(|(name, value)| variable(OsStr::new(name), &value)).collect()
}

/// Returns the program's segments as they lie in one copy. The constants' copies for others stand behind the variables.
fn segments_of(segments: &[angara_coroutines::Segment], slice: usize) -> Vec<Segment> {
    let one =
        |s: &angara_coroutines::Segment| Segment { start: slice + s.offset_in_image, len: s.len, writable: s.writable };
    segments.iter().map(one).collect()
}

fn parts(seats: &Seats, pe: usize, segments: &[Segment], images: Part, layout: Layout) -> Parts {
    let (own, csr) = &seats.pes[pe];
    let [job, sync, heap] = seats.job.parts();
    let of_pe = own.parts();
    let at = images.at.wrapping_add(layout.variables_at);
    Parts {
        pe: pe as u32,
        pes: seats.pes.len() as u32,
        job,
        targets: of_pe.targets,
        sync,
        heap,
        heap_step: seats.job.heap_step(),
        statics: Part { at, len: images.len - layout.variables_at },
        bounce: of_pe.bounce,
        counters: of_pe.counters,
        csr: *csr,
        channel: of_pe.channel,
        clock: of_pe.clock,
        segments: segments.as_ptr(),
        segment_count: segments.len(),
    }
}

/// Reads the program that is to be started.
pub(crate) fn read(start: &StartPes) -> Result<Program, Why> {
    Program::read(Path::new(OsStr::from_bytes(&start.file))).map_err(refused)
}
