//! The PEs of this thread.

use crate::image::{Image, Unwinder};
use crate::libc_state::variables::Variables;
use crate::libc_state::{State, streams};
use crate::record::fault::Crash;
use crate::record::hooks::Hooks;
use crate::record::{CURRENT, HOST, Life, Record, StackRange};
use crate::{PAGE, Refusal, crash, exit, start, switch, tls};
use std::ffi::{CStr, CString, c_char, c_void};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Words at the low end of a stack that show that it was too small. Zeros: fresh memory is read, and takes none.
const CANARY: [u64; 8] = [0; 8];

/// Memory for a stack.
#[derive(Clone, Copy, Debug)]
pub struct Stack {
    /// Lowest address, of a page.
    pub low: *mut u8,
    /// Bytes.
    pub len: usize,
    /// Lowest bytes, whole pages, that are made inaccessible: an overflow is found at once, for two mappings a PE.
    /// With 0 it is found when the PE hands over.
    pub guard: usize,
}

/// What a PE begins with.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// Its number, for the sink. PE 0 has the host's standard input.
    pub number: u32,
    /// The program's name and arguments.
    pub args: &'a [&'a CStr],
    /// NAME=VALUE of this PE alone; they take the place of the common ones of the same name.
    pub env: &'a [CString],
}

/// Why [`Pes::resume`] returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Library code called [`crate::stand`].
    Yielded,
    /// The PE ended with this exit status.
    Ended(i32),
    /// It was paused in its program's own code, by [`crate::pause`], and goes on when it is resumed.
    Paused,
    /// A signal ended it, or its stack was too small.
    Crashed(Crash),
}

/// PEs of one program. Only one such set exists at a time in a process, and it stays on its thread.
pub struct Pes {
    image: Box<Image>,
    hooks: Hooks,
    env: Vec<CString>,
    // Addresses, for a PE's code reaches its record while the host holds `self`.
    records: Vec<*mut Record>,
    /// Where each begins, and its bytes.
    guards: Vec<(*mut u8, usize)>,
    buffers: streams::Buffers,
    name_before: *mut c_char,
    _name: CString,
}

static TAKEN: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    static mut program_invocation_short_name: *mut c_char;
}

impl Pes {
    /// A set without PEs. `env` is the environment that they have in common.
    pub fn new(image: Image, hooks: Hooks, env: Vec<CString>) -> Result<Pes, Refusal> {
        let path = image.program().path().to_owned();
        let refuse = |why: String| Refusal::new(&path, why);
        if image.program().tls.is_some() {
            tls::check().map_err(refuse)?;
        }
        let name = path.file_name().unwrap_or(path.as_os_str()).as_encoded_bytes();
        let name = CString::new(name).map_err(|e| refuse(e.to_string()))?;
        if TAKEN.swap(true, Ordering::Acquire) {
            return Err(refuse("PEs of another program run in this process".into()));
        }
        // SAFETY: this set is the only one; libc reads the name, which lives as long as the set.
        let name_before = unsafe {
            (*HOST.get()).thread = libc::pthread_self();
            let before = program_invocation_short_name;
            program_invocation_short_name = name.as_ptr().cast_mut();
            before
        };
        Ok(Pes {
            image: Box::new(image),
            hooks,
            env,
            records: Vec::new(),
            guards: Vec::new(),
            buffers: streams::Buffers::new(),
            name_before,
            _name: name,
        })
    }

    /// Has crashes of PEs found: SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT, on a stack of their own for the calling
    /// thread. Outside PEs they do what they did before.
    pub fn install_handlers() -> io::Result<()> {
        crash::install()
    }

    /// Places a copy of the program and makes it ready to run; its index, counted from 0.
    ///
    /// # Safety
    /// `slice` is as [`Image::place`] wants it. Slice and stack are mapped, and used by nothing else, until this set is
    /// dropped. The program's code is trusted as the host's own is.
    pub unsafe fn add(&mut self, slice: *mut u8, stack: Stack, start: &Start) -> Result<usize, Refusal> {
        let refuse = |why: String| Refusal::new(self.image.program().path(), why);
        let layout = self.image.layout();
        if !(slice as usize).is_multiple_of(layout.align) {
            return Err(refuse(format!("its memory must be aligned to {} bytes", layout.align)));
        }
        let strings = self.environment(start.env);
        let least = start::needed(start.args, strings.len()) + 4 * PAGE;
        let guard = stack.guard;
        let whole = (stack.low as usize | guard).is_multiple_of(PAGE);
        if stack.len.saturating_sub(guard) < least || !whole {
            return Err(refuse(format!("its stack must begin on a page and have at least {least} bytes")));
        }
        let low = stack.low as usize + guard;
        // SAFETY: the caller's promise.
        unsafe {
            if guard > 0 {
                if libc::mprotect(stack.low.cast(), guard, libc::PROT_NONE) != 0 {
                    return Err(refuse(format!("no guard pages below a stack: {}", io::Error::last_os_error())));
                }
                self.guards.push((stack.low, guard));
            } else {
                let canary = low as *mut [u64; CANARY.len()];
                if canary.read() != CANARY {
                    canary.write(CANARY);
                }
            }
            self.image.place(slice);
        }
        let program = self.image.program();
        let mut pe = Box::new(Record {
            sp: 0,
            number: start.number,
            life: Life::Lives,
            fresh: true,
            base: slice as usize,
            program: std::ptr::from_ref(program),
            stack: StackRange { low, top: (stack.low as usize + stack.len) & !15, guard },
            tls: Vec::new(),
            hooks: self.hooks,
            handlers: Default::default(),
            libc: State::default(),
        });
        if let Some(t) = program.tls {
            pe.tls.resize(t.size, 0);
            // SAFETY: the first values lie in the image, relocated.
            unsafe { std::ptr::copy_nonoverlapping(slice.add(t.at), pe.tls.as_mut_ptr(), t.filled) };
        }
        // SAFETY: the stack is large enough; strings live as long as the set, those of this PE in its state.
        unsafe {
            let pointers = pe.libc.keep(start.env, &strings);
            let environ = start::lay_out(&mut pe, program.entry, start.args, &pointers);
            pe.libc
                .open(start.number, self.hooks.sink, &mut self.buffers, environ, program.needs("libstdc++"))
                .map_err(refuse)?;
            pe.libc.fill_copies(slice, self.image.copies());
            if let Some(Unwinder { register, frames_at, .. }) = self.image.unwinder() {
                register(slice.add(frames_at).cast());
            }
        }
        self.records.push(Box::into_raw(pe));
        Ok(self.records.len() - 1)
    }

    /// Returns the common strings that are not replaced by `own`.
    fn environment(&self, own: &[CString]) -> Vec<*const c_char> {
        let name = |s: &CString| s.as_bytes().split(|b| *b == b'=').next().unwrap_or_default().to_vec();
        let own: Vec<_> = own.iter().map(name).collect();
        self.env.iter().filter(|e| own.is_empty() || !own.contains(&name(e))).map(|e| e.as_ptr()).collect()
    }

    /// Runs a PE until it yields or ends. One that ended is not run; the same event comes again, a crash as
    /// `Ended(128 + signal)`.
    pub fn resume(&mut self, index: usize) -> Event {
        let pe = self.records[index];
        // SAFETY: the record lives until the set is dropped. While the PE runs, nothing of the host does; from the
        // exchange of the thread-local bytes until they are back, no code here uses any.
        unsafe {
            match (*pe).life {
                Life::Lives if std::mem::take(&mut (*pe).fresh) => exit::catch_exits_of_libc(),
                Life::Lives => {}
                Life::Ended(status) => return Event::Ended(status),
                Life::Crashed(signal) => return Event::Ended(128 + signal),
            }
            let (size, bytes) = ((*pe).tls.len(), (*pe).tls.as_mut_ptr());
            let aside = (&raw mut (*HOST.get()).tls).cast::<u8>();
            let host = Variables::read();
            (*pe).libc.enter();
            CURRENT.store(pe, Ordering::Relaxed);
            if size == 0 {
                switch::to_pe(pe);
            } else {
                tls::exchange(aside, bytes, size);
                switch::to_pe(pe);
                tls::exchange(bytes, aside, size);
            }
            CURRENT.store(std::ptr::null_mut(), Ordering::Relaxed);
            (*pe).libc.leave();
            host.write();
            match (*pe).life {
                Life::Lives if std::mem::take(&mut (*HOST.get()).paused) => Event::Paused,
                Life::Crashed(_) => Event::Crashed((*HOST.get()).fault.crash()),
                life if overflowed(&*pe) => {
                    (*pe).life = if life == Life::Lives { Life::Crashed(libc::SIGSEGV) } else { life };
                    Event::Crashed(overflow())
                }
                Life::Ended(status) => Event::Ended(status),
                Life::Lives => Event::Yielded,
            }
        }
    }

    /// Number of PEs.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns whether there is no PE yet.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The program that the PEs run.
    pub fn image(&self) -> &Image {
        &self.image
    }

    pub(crate) fn record(&self, index: usize) -> *mut Record {
        self.records[index]
    }
}

/// Returns whether the stack pointer left the stack, or the words at its end were written over.
fn overflowed(pe: &Record) -> bool {
    if !(pe.stack.low..pe.stack.top).contains(&pe.sp) {
        return true;
    }
    // SAFETY: the low end of a stack that is mapped while its PE's record lives.
    pe.stack.guard == 0
        && unsafe { &*(pe.stack.low as *const [u64; CANARY.len()]) }.iter().fold(0, |all, word| all | word) != 0
}

fn overflow() -> Crash {
    Crash { signal: libc::SIGSEGV, address: 0, rip: 0, stack_overflow: true, frames: Vec::new() }
}

impl Drop for Pes {
    fn drop(&mut self) {
        // SAFETY: no PE runs, and none will; what was made for them is undone in reverse order.
        unsafe {
            for pe in self.records.drain(..).rev() {
                let mut pe = Box::from_raw(pe);
                pe.libc.close();
                if let Some(Unwinder { deregister, frames_at, .. }) = self.image.unwinder() {
                    deregister((pe.base + frames_at) as *const c_void);
                }
            }
            for (low, guard) in self.guards.drain(..) {
                libc::mprotect(low.cast(), guard, libc::PROT_READ | libc::PROT_WRITE);
            }
            program_invocation_short_name = self.name_before;
        }
        TAKEN.store(false, Ordering::Release);
    }
}
