//! PMIx, which `mpirun` of Open MPI, `prterun` and `srun --mpi=pmix` offer: `libpmix` is loaded when the environment
//! says that such a launcher started this process, so nothing depends on it otherwise.
//!
//! Only those calls and types of its interface are used that are the same in versions 3, 4 and 5 of the PMIx
//! standard; all of these are `libpmix.so.2`.

use super::key_space::{KeySpace, failed};
use crate::error::Result;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// Name of the library since version 3.
const LIBRARY: &CStr = c"libpmix.so.2";
/// Number of processes of the job (`PMIX_JOB_SIZE`).
const JOB_SIZE: &CStr = c"pmix.job.size";
/// Stands for the whole job (`PMIX_RANK_WILDCARD`).
const RANK_WILDCARD: u32 = u32::MAX - 1;
const SUCCESS: c_int = 0;
/// A fence that hands what was put to every process's server (`PMIX_COLLECT_DATA`).
const COLLECT: &CStr = c"pmix.collect";
/// Types of values (`PMIX_BOOL`, `PMIX_STRING`, `PMIX_UINT32`).
const BOOL: u16 = 1;
const STRING: u16 = 3;
const UINT32: u16 = 14;
/// For processes on every host (`PMIX_GLOBAL`).
const SCOPE_GLOBAL: u8 = 3;

/// `pmix_proc_t`: a namespace (a text with its zero, at most 256 bytes) and a rank in it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Proc {
    nspace: [c_char; 256],
    rank: u32,
}

/// `pmix_value_t`: a type, and a union whose largest member (`pmix_envar_t`) has two pointers and a byte.
#[repr(C)]
struct Value {
    kind: u16,
    data: Data,
}

#[repr(C)]
union Data {
    flag: bool,
    string: *mut c_char,
    uint32: u32,
    largest: [usize; 3],
}

/// `pmix_info_t`: a key (a text with its zero, at most 512 bytes), flags, and a value.
#[repr(C)]
struct Info {
    key: [c_char; 512],
    flags: u32,
    value: Value,
}

const _: () = assert!(size_of::<Info>() == 552 && std::mem::offset_of!(Info, value) == 520);
const _: () = assert!(size_of::<Proc>() == 260 && size_of::<Value>() == 32 && std::mem::offset_of!(Value, data) == 8);

/// The calls that are used. Arrays of `pmix_info_t` that are always empty are `*const c_void` here.
struct Library {
    init: unsafe extern "C" fn(*mut Proc, *const c_void, usize) -> c_int,
    get: unsafe extern "C" fn(*const Proc, *const c_char, *const c_void, usize, *mut *mut Value) -> c_int,
    put: unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int,
    commit: unsafe extern "C" fn() -> c_int,
    fence: unsafe extern "C" fn(*const Proc, usize, *const Info, usize) -> c_int,
    finalize: unsafe extern "C" fn(*const c_void, usize) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
}

/// A symbol of the library as the function pointer `T`.
///
/// # Safety
/// `T` is the type of a C function pointer, and `name` has that type in the library.
unsafe fn symbol<T>(handle: *mut c_void, name: &CStr) -> Result<T> {
    const { assert!(size_of::<T>() == size_of::<*mut c_void>()) };
    // SAFETY: the handle is an open library, the name a C string.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    match address.is_null() {
        true => Err(failed(format!("{LIBRARY:?} has no {name:?}; install PMIx 3 or later"))),
        // SAFETY: of the same size, and the caller vouches for the type.
        false => Ok(unsafe { std::mem::transmute_copy(&address) }),
    }
}

impl Library {
    fn load() -> Result<Library> {
        // Global: its plugins look for its symbols. Never closed: its threads may outlive this.
        // SAFETY: a C string; what its constructors do is up to the launcher's installation.
        let handle = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if handle.is_null() {
            // SAFETY: called after a failed dlopen in this thread, so it is a C string or null.
            let why = unsafe { libc::dlerror() };
            // SAFETY: as above; copied before the next call.
            let why = if why.is_null() { "".into() } else { unsafe { CStr::from_ptr(why) }.to_string_lossy() };
            return Err(failed(format!(
                "a PMIx launcher started this process (PMIX_NAMESPACE is set), but its library cannot be loaded: \
                 {why}; install it (Debian: libpmix2), add its directory to LD_LIBRARY_PATH, or use `angara run`"
            )));
        }
        // SAFETY: the types are those of pmix.h.
        unsafe {
            Ok(Library {
                init: symbol(handle, c"PMIx_Init")?,
                get: symbol(handle, c"PMIx_Get")?,
                put: symbol(handle, c"PMIx_Put")?,
                commit: symbol(handle, c"PMIx_Commit")?,
                fence: symbol(handle, c"PMIx_Fence")?,
                finalize: symbol(handle, c"PMIx_Finalize")?,
                error_string: symbol(handle, c"PMIx_Error_string")?,
            })
        }
    }

    /// Names the call and its error.
    fn check(&self, call: &str, status: c_int) -> Result<()> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: takes any number and returns a constant C string.
        let text = unsafe { (self.error_string)(status) };
        // SAFETY: takes any number and returns a constant C string.
        let text = if text.is_null() { "".into() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy() };
        Err(failed(format!(
            "the launcher's {call} fails with {text} ({status}); start the program with `mpirun`, `srun --mpi=pmix` or `angara run`"
        )))
    }
}

/// A connection to the launcher.
pub(crate) struct Pmix {
    library: Library,
    me: Proc,
    pes: u32,
}

impl Pmix {
    /// The launcher the environment names.
    pub(crate) fn from_env() -> Result<Option<Pmix>> {
        if ["PMIX_NAMESPACE", "PMIX_RANK"].iter().any(|name| std::env::var_os(name).is_none()) {
            return Ok(None);
        }
        let library = Library::load()?;
        let mut me = Proc { nspace: [0; 256], rank: 0 };
        // SAFETY: `me` is written to; there are no directives.
        let status = unsafe { (library.init)(&raw mut me, std::ptr::null(), 0) };
        library.check("PMIx_Init", status)?;
        let mut pmix = Pmix { library, me, pes: 0 };
        pmix.pes = pmix.get(RANK_WILDCARD, JOB_SIZE, |value| match value.kind {
            // SAFETY: the type says which member was written.
            UINT32 => Ok(unsafe { value.data.uint32 }),
            kind => Err(failed(format!("the launcher's {JOB_SIZE:?} has type {kind} instead of {UINT32}"))),
        })?;
        Ok(Some(pmix))
    }

    /// Returns what `rank` of this job (or the launcher, for all of it) has put under `key`.
    fn get<T>(&self, rank: u32, key: &CStr, take: impl FnOnce(&Value) -> Result<T>) -> Result<T> {
        let of = Proc { nspace: self.me.nspace, rank };
        let mut value: *mut Value = std::ptr::null_mut();
        // SAFETY: all outlive the call, which writes a pointer to a value of ours.
        let status = unsafe { (self.library.get)(&raw const of, key.as_ptr(), std::ptr::null(), 0, &raw mut value) };
        self.library.check(&format!("PMIx_Get of {key:?}"), status)?;
        if value.is_null() {
            return Err(failed(format!("the launcher has no value for {key:?}")));
        }
        // SAFETY: the library wrote a whole value, and nobody else knows it.
        let taken = take(unsafe { &*value });
        // SAFETY: as PMIX_VALUE_RELEASE does: text and value come from malloc and are ours.
        unsafe {
            if (*value).kind == STRING {
                libc::free((*value).data.string.cast());
            }
            libc::free(value.cast());
        }
        taken
    }
}

impl KeySpace for Pmix {
    fn place(&self) -> (u32, u32) {
        (self.me.rank, self.pes)
    }

    fn publish(&mut self, key: &str, text: &str) -> Result<()> {
        let zero = |_| failed(format!("a zero byte in {key} or {text:?}"));
        let (key, text) = (CString::new(key).map_err(zero)?, CString::new(text).map_err(zero)?);
        let mut value = Value { kind: STRING, data: Data { largest: [0; 3] } };
        value.data.string = text.as_ptr().cast_mut();
        // SAFETY: the library copies key and value before it returns, and does not write to the text.
        let status = unsafe { (self.library.put)(SCOPE_GLOBAL, key.as_ptr(), &raw mut value) };
        self.library.check("PMIx_Put", status)?;
        // SAFETY: takes nothing.
        let status = unsafe { (self.library.commit)() };
        self.library.check("PMIx_Commit", status)
    }

    fn fence(&mut self) -> Result<()> {
        // Over all processes of the job. What was put goes along: not every launcher can fetch it from another node later
        // (Slurm 22.05 finds nothing there).
        let mut info = Info { key: [0; 512], flags: 0, value: Value { kind: BOOL, data: Data { largest: [0; 3] } } };
        info.key.iter_mut().zip(COLLECT.to_bytes()).for_each(|(to, byte)| *to = *byte as c_char);
        info.value.data.flag = true;
        // SAFETY: no array of processes, and one directive that outlives the call.
        let status = unsafe { (self.library.fence)(std::ptr::null(), 0, &raw const info, 1) };
        self.library.check("PMIx_Fence", status)
    }

    fn read(&mut self, pe: u32, key: &str) -> Result<String> {
        let key = CString::new(key).map_err(|_| failed(format!("a zero byte in {key}")))?;
        self.get(pe, &key, |value| {
            // SAFETY: the type says which member was written; the text ends with a zero.
            match unsafe { (value.kind, value.data.string) } {
                (STRING, text) if !text.is_null() => {
                    // SAFETY: the type says which member was written; the text ends with a zero.
                    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
                }
                (kind, _) => Err(failed(format!("process {pe} published a value of type {kind} instead of a text"))),
            }
        })
    }

    fn leave(&mut self) -> Result<()> {
        // Published values must stay until everybody has read them.
        self.fence()?;
        // SAFETY: no directives.
        let status = unsafe { (self.library.finalize)(std::ptr::null(), 0) };
        self.library.check("PMIx_Finalize", status)
    }
}
