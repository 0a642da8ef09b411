//! The few functions of MPI that are used, from whichever library the launcher belongs to.
//!
//! MPICH and Open MPI have other types and names for communicators, types and operations. So the functions are declared
//! for any handle type. Nothing of MPI is needed to build this.

use core::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// Handle of MPICH.
type Number = c_int;
/// Handle of Open MPI, a pointer.
type Address = usize;

/// More than any library's `MPI_Status` takes, and aligned for all.
type Status = [u64; 8];

/// Functions and constants of one MPI library whose handles are of type `H`.
pub(crate) struct Calls<H> {
    comm_rank: unsafe extern "C" fn(H, *mut c_int) -> c_int,
    comm_size: unsafe extern "C" fn(H, *mut c_int) -> c_int,
    iallreduce: unsafe extern "C" fn(*const c_void, *mut c_void, c_int, H, H, H, *mut H) -> c_int,
    isend: unsafe extern "C" fn(*const c_void, c_int, H, c_int, c_int, H, *mut H) -> c_int,
    irecv: unsafe extern "C" fn(*mut c_void, c_int, H, c_int, c_int, H, *mut H) -> c_int,
    test: unsafe extern "C" fn(*mut H, *mut c_int, *mut Status) -> c_int,
    finalize: unsafe extern "C" fn() -> c_int,
    world: H,
    byte: H,
    u64: H,
    min: H,
    sum: H,
}

/// A library that is loaded and initialised.
pub(crate) enum Loaded {
    Mpich(Calls<Number>),
    OpenMpi(Calls<Address>),
}

/// Looks this often before it yields: some microseconds.
const LOOKS: u32 = 100;
/// A yield that takes longer has run somebody else: another program has work for this core.
const SLOW_YIELD: Duration = Duration::from_micros(50);
/// Where that is so, it sleeps instead: who sleeps comes before who has computed, and who yields comes last.
const NAP: Duration = Duration::from_micros(5);

/// A message on its way. Its bytes stay where they are until [`Calls::wait`].
pub(crate) struct Sending<'a, H> {
    request: H,
    _bytes: &'a [u8],
}

/// Names of Open MPI's library, and MPICH's; those of the launcher's kind are tried first.
const OPEN_MPI: [&CStr; 2] = [c"libmpi.so.40", c"libmpi.so"];
const MPICH: [&CStr; 3] = [c"libmpich.so.12", c"libmpi.so.12", c"libmpich.so"];

struct Library(*mut c_void);

impl Library {
    fn open(name: &CStr) -> Option<Library> {
        // Global: Open MPI's plugins look for its symbols. Never closed: its threads may outlive this.
        // SAFETY: a C string; what its constructors do is up to the installation of MPI.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        (!handle.is_null()).then_some(Library(handle))
    }
    fn address(&self, name: &CStr) -> Option<usize> {
        // SAFETY: the handle is an open library, the name a C string.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) } as usize;
        (address != 0).then_some(address)
    }
    /// A function of the library as the function pointer `T`.
    ///
    /// # Safety
    /// `T` is the type of a C function pointer, and `name` has that type in the library.
    unsafe fn function<T>(&self, name: &CStr) -> Result<T, String> {
        const { assert!(size_of::<T>() == size_of::<usize>()) };
        let address = self.address(name).ok_or_else(|| format!("the MPI library has no {name:?}"))?;
        // SAFETY: of the same size, and the caller vouches for the type.
        Ok(unsafe { std::mem::transmute_copy(&address) })
    }
    /// Initialises the library and finds its functions, given its constants: communicator, bytes, 64-bit numbers, minimum
    /// and sum.
    ///
    /// # Safety
    /// `H` is the type of the library's handles, and the constants are such handles.
    unsafe fn start<H>(&self, [world, byte, u64, min, sum]: [H; 5]) -> Result<Calls<H>, String> {
        // SAFETY: the types are those of mpi.h, which are the same in all libraries but for the handles.
        let (init, calls) = unsafe {
            let init: unsafe extern "C" fn(*mut c_int, *mut c_void) -> c_int = self.function(c"MPI_Init")?;
            let calls = Calls {
                comm_rank: self.function(c"MPI_Comm_rank")?,
                comm_size: self.function(c"MPI_Comm_size")?,
                iallreduce: self.function(c"MPI_Iallreduce")?,
                isend: self.function(c"MPI_Isend")?,
                irecv: self.function(c"MPI_Irecv")?,
                test: self.function(c"MPI_Test")?,
                finalize: self.function(c"MPI_Finalize")?,
                world,
                byte,
                u64,
                min,
                sum,
            };
            (init, calls)
        };
        // SAFETY: both pointers may be null. Called once, by the only thread.
        match unsafe { init(std::ptr::null_mut(), std::ptr::null_mut()) } {
            0 => Ok(calls),
            code => Err(format!("MPI_Init failed with code {code}")),
        }
    }
}

impl Loaded {
    /// Loads and initialises the library of the launcher.
    pub(crate) fn new() -> Result<Loaded, String> {
        let by_open_mpi = std::env::var_os("OMPI_COMM_WORLD_SIZE").is_some();
        let names: Vec<&CStr> = match by_open_mpi {
            true => OPEN_MPI.into_iter().chain(MPICH).collect(),
            false => MPICH.into_iter().chain(OPEN_MPI).collect(),
        };
        let library = names.iter().find_map(|name| Library::open(name)).ok_or(
            "no MPI library can be loaded; install that of mpiexec (Debian: libmpich12 or libopenmpi3), or add its \
             directory to LD_LIBRARY_PATH",
        )?;
        let Some(world) = library.address(c"ompi_mpi_comm_world") else {
            // Of MPICH's common ABI: MPI_COMM_WORLD, MPI_BYTE, MPI_UNSIGNED_LONG, MPI_MIN, MPI_SUM.
            let constants = [0x4400_0000, 0x4c00_010d, 0x4c00_0808, 0x5800_0002, 0x5800_0003];
            // SAFETY: a library without Open MPI's symbols and of these names has the common ABI of MPICH.
            return unsafe { library.start(constants) }.map(Loaded::Mpich);
        };
        let find = |name: &CStr| library.address(name).ok_or_else(|| format!("Open MPI has no {name:?}"));
        let (byte, u64) = (find(c"ompi_mpi_byte")?, find(c"ompi_mpi_unsigned_long")?);
        let (min, sum) = (find(c"ompi_mpi_op_min")?, find(c"ompi_mpi_op_sum")?);
        // SAFETY: handles of Open MPI are the addresses of these objects.
        unsafe { library.start([world, byte, u64, min, sum]) }.map(Loaded::OpenMpi)
    }
}

/// Nothing can be done about a failed call: MPI ends all processes by itself unless told otherwise.
fn check(what: &str, code: c_int) {
    assert!(code == 0, "{what} failed with code {code}");
}

fn count(length: usize) -> c_int {
    c_int::try_from(length).expect("messages are cut into pieces")
}

impl<H: Copy> Calls<H> {
    pub(crate) fn rank(&self) -> usize {
        let mut rank = 0;
        // SAFETY: initialised; the number is written by the time it returns.
        check("MPI_Comm_rank", unsafe { (self.comm_rank)(self.world, &mut rank) });
        rank as usize
    }
    pub(crate) fn size(&self) -> usize {
        let mut size = 0;
        // SAFETY: as above.
        check("MPI_Comm_size", unsafe { (self.comm_size)(self.world, &mut size) });
        size as usize
    }
    /// Writes the minima or sums of all processes' `values` to `all`, which is as long.
    pub(crate) fn reduce(&self, values: &[u64], all: &mut [u64], least: bool) {
        assert_eq!(values.len(), all.len());
        let op = if least { self.min } else { self.sum };
        let (from, to) = (values.as_ptr().cast(), all.as_mut_ptr().cast());
        let mut request = MaybeUninit::uninit();
        let length = count(values.len());
        // SAFETY: both have as many numbers as is said, do not overlap, and stay until `complete` returns.
        let code = unsafe { (self.iallreduce)(from, to, length, self.u64, op, self.world, request.as_mut_ptr()) };
        check("MPI_Iallreduce", code);
        // SAFETY: written, since the call succeeded.
        self.complete(unsafe { request.assume_init() });
    }
    /// Begins to send `bytes` to process `to`.
    pub(crate) fn send<'a>(&self, to: usize, bytes: &'a [u8]) -> Sending<'a, H> {
        let mut request = MaybeUninit::uninit();
        let (from, length, to) = (bytes.as_ptr().cast(), count(bytes.len()), count(to));
        // SAFETY: the bytes are borrowed until `wait`, which every caller calls; the request is written by the time it
        // returns.
        let code = unsafe { (self.isend)(from, length, self.byte, to, 0, self.world, request.as_mut_ptr()) };
        check("MPI_Isend", code);
        // SAFETY: written, since the call succeeded.
        Sending { request: unsafe { request.assume_init() }, _bytes: bytes }
    }
    /// Waits until the message has been sent.
    pub(crate) fn wait(&self, sending: Sending<'_, H>) {
        self.complete(sending.request);
    }
    /// Receives the next message of process `from`, of `into.len()` bytes at most.
    pub(crate) fn receive(&self, from: usize, into: &mut [u8]) {
        let mut request = MaybeUninit::uninit();
        let (to, length) = (into.as_mut_ptr().cast(), count(into.len()));
        // SAFETY: as many bytes may be written there until `complete` returns.
        let code = unsafe { (self.irecv)(to, length, self.byte, count(from), 0, self.world, request.as_mut_ptr()) };
        check("MPI_Irecv", code);
        // SAFETY: written, since the call succeeded.
        self.complete(unsafe { request.assume_init() });
    }
    /// Waits until `request` has been served. MPI's own waits keep the core, which another process may need to serve it.
    fn complete(&self, mut request: H) {
        let (mut looks, mut done, mut crowded) = (0, 0, false);
        while done == 0 {
            let mut status = Status::default();
            // SAFETY: a request that has not been found served; the status has room for any library's.
            check("MPI_Test", unsafe { (self.test)(&mut request, &mut done, &mut status) });
            looks += 1;
            if crowded {
                std::thread::sleep(NAP);
            } else if looks > LOOKS {
                let before = Instant::now();
                std::thread::yield_now();
                crowded = before.elapsed() > SLOW_YIELD;
            }
        }
    }
    /// Ends MPI; nothing else may be called then.
    pub(crate) fn finish(&self) {
        // SAFETY: initialised, and every message has been waited for.
        check("MPI_Finalize", unsafe { (self.finalize)() });
    }
}
