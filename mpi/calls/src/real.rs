//! The functions that ours come before.

use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the MPI library, looked up once.
pub struct Real {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Real {
    /// The next function of this name behind ours.
    pub const fn new(name: &'static CStr) -> Real {
        Real { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }
    /// Its name in reports: without the P.
    pub(crate) fn plain_name(&self) -> &'static CStr {
        let bytes = self.name.to_bytes_with_nul();
        CStr::from_bytes_with_nul(bytes.strip_prefix(b"P").unwrap_or(bytes)).unwrap_or(self.name)
    }
    /// Where it is. A program that has called ours has it.
    #[inline]
    pub fn find(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() { self.look_up() } else { found }
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        let Some(found) = next(self.name).or_else(|| in_library(self.name)) else {
            angara_protocol::complain!("angara: no MPI library of this process has {}", self.name.to_string_lossy());
            std::process::abort();
        };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

fn some(found: *mut c_void) -> Option<*mut c_void> {
    (!found.is_null()).then_some(found)
}

/// The first one that the loader knows.
pub(crate) fn first(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a name that ends with 0.
    some(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}

/// The next one that the loader knows behind this library.
fn next(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a name that ends with 0.
    some(unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) })
}

/// In a library that was loaded for some other one alone, as Python loads its modules and what they need.
pub(crate) fn in_library(name: &CStr) -> Option<*mut c_void> {
    struct Search<'a>(&'a CStr, Option<*mut c_void>);
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: what `dl_iterate_phdr` hands over, and what was given to it below.
        let (file, search) = unsafe { ((*info).dlpi_name, &mut *search.cast::<Search<'_>>()) };
        search.1 = search_in(file, search.0);
        c_int::from(search.1.is_some())
    }
    let mut search = Search(name, None);
    // SAFETY: the function has its type, and `search` lives as long as the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.1
}

fn search_in(file: *const c_char, name: &CStr) -> Option<*mut c_void> {
    if file.is_null() {
        return None;
    }
    // SAFETY: the loader's name of a file.
    let text = unsafe { CStr::from_ptr(file) }.to_bytes();
    let base = text.rsplit(|b| *b == b'/').next()?;
    // Ours begins otherwise: libangara_mpi.
    if !base.starts_with(b"libmpi") && !base.starts_with(b"libpmpi") {
        return None;
    }
    // SAFETY: a name of a file that is loaded already, so that nothing of it is run.
    let library = unsafe { libc::dlopen(file, libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
    // SAFETY: a library, and a name that ends with 0.
    some(library).and_then(|library| some(unsafe { libc::dlsym(library, name.as_ptr()) }))
}

/// The name of the file that a function or variable is in.
fn file_of(at: *mut c_void) -> Option<&'static CStr> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: a place of our own for what is known of an address.
    let known = unsafe { libc::dladdr(at, info.as_mut_ptr()) } != 0;
    // SAFETY: zeros are a value of it, or it was filled.
    let name = unsafe { info.assume_init() }.dli_fname;
    // SAFETY: the loader's name of a file that stays loaded.
    (known && !name.is_null()).then(|| unsafe { CStr::from_ptr(name) })
}

/// Returns `MPI_COMM_WORLD` of the library that has this function.
pub(crate) fn world(function: *mut c_void) -> usize {
    /// Of MPICH and its kin.
    const MPICH: usize = 0x4400_0000;
    /// Of MPI 5's binary interface.
    const STANDARD: usize = 0x101;
    // Programs may have a copy of the library's variable, which is the one then.
    let open_mpi = first(c"ompi_mpi_comm_world").or_else(|| in_library(c"ompi_mpi_comm_world"));
    let is_standard = || file_of(function).is_some_and(|file| file.to_string_lossy().contains("libmpi_abi"));
    match open_mpi {
        Some(world) => world as usize,
        None if is_standard() => STANDARD,
        None => MPICH,
    }
}
