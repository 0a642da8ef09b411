//! Random numbers that `angara run --seed` decides: what libc and the kernel are asked for is drawn by the seed and the
//! number of the PE. So a program that seeds its own generator, or Python's and Rust's hashes, with them runs as before.

use crate::program::program;
use crate::real::{fail, real};
use crate::threads::turns;
use angara_abi::program_clock::ENV_SEED;
use angara_abi::random::{STEP, mix};
use angara_protocol::launch::ENV_PE;
use libc::{c_int, c_uint, c_void};
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static ON: AtomicBool = AtomicBool::new(false);
/// Where the streams are: that of the thread with which the program began, and that of all others.
static STREAMS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// Most bytes of `getentropy`.
const ENTROPY_MAX: usize = 256;

fn number(name: &CStr) -> Option<u64> {
    // SAFETY: a name that ends with 0; the loader runs this before there are other threads, and the text stays.
    let text = unsafe {
        let text = libc::getenv(name.as_ptr());
        (!text.is_null()).then(|| CStr::from_ptr(text))?
    };
    text.to_str().ok()?.parse().ok()
}

/// Where stream `i` of PE `pe` begins, if the environment says a seed.
pub(crate) fn start(pe: u64, i: u64) -> u64 {
    number(ENV_SEED).map_or(0, |seed| mix(mix(seed).wrapping_add(pe + 1).wrapping_mul(STEP)) ^ i)
}

/// Draws by a seed from now on, if the environment says one.
pub(crate) fn begin() {
    if number(ENV_SEED).is_none() {
        return;
    }
    let pe = std::ffi::CString::new(ENV_PE).ok().and_then(|name| number(&name)).unwrap_or(0);
    for (i, stream) in (0..).zip(&STREAMS) {
        stream.store(start(pe, i), Ordering::Relaxed);
    }
    ON.store(true, Ordering::Relaxed);
}

fn is_drawn() -> bool {
    ON.load(Ordering::Relaxed) && !program().is_real()
}

fn draw() -> u64 {
    if let Some(turn) = turns::this() {
        return mix(turn.stream.fetch_add(STEP, Ordering::Relaxed));
    }
    // SAFETY: both take nothing.
    let first = unsafe { libc::getpid() == libc::gettid() };
    mix(STREAMS[usize::from(!first)].fetch_add(STEP, Ordering::Relaxed))
}

/// # Safety
/// The caller's bytes.
unsafe fn fill(to: *mut c_void, len: usize) {
    for at in (0..len).step_by(8) {
        let bytes = draw().to_ne_bytes();
        // SAFETY: inside the caller's bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast::<u8>().add(at), (len - at).min(8)) };
    }
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn getrandom(to: *mut c_void, len: usize, flags: c_uint) -> isize {
    if !is_drawn() {
        // SAFETY: the caller promises what the callee asks for.
        return unsafe { libc::syscall(libc::SYS_getrandom, to, len, flags) as isize };
    }
    // SAFETY: the caller's.
    unsafe { fill(to, len) };
    len as isize
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn getentropy(to: *mut c_void, len: usize) -> c_int {
    if len > ENTROPY_MAX {
        return fail(libc::EIO);
    }
    // SAFETY: as the caller promises. So few bytes come at once.
    if unsafe { getrandom(to, len, 0) } == len as isize { 0 } else { -1 }
}

/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn arc4random() -> u32 {
    if is_drawn() { draw() as u32 } else { real!(arc4random: fn() -> u32)() }
}

/// # Safety
/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn arc4random_buf(to: *mut c_void, len: usize) {
    match is_drawn() {
        // SAFETY: the caller's.
        true => unsafe { fill(to, len) },
        false => real!(arc4random_buf: fn(*mut c_void, usize) -> ())(to, len),
    }
}

/// As the function of libc.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn arc4random_uniform(below: u32) -> u32 {
    match is_drawn() {
        // The high half of the product is below, and as even as 32 bits more than the numbers allow.
        true => ((u128::from(draw()) * u128::from(below)) >> 64) as u32,
        false => real!(arc4random_uniform: fn(u32) -> u32)(below),
    }
}
