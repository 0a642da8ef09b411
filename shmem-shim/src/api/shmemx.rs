//! Extensions declared in `shmemx.h`: where a PE lies in the torus.

use crate::ctypes::*;
use crate::rt::init;

api! { TORUS;
    current fn shmemx_pe_coords(pe: int, coords: *mut int) -> int = init::coords(pe, coords);
    current fn shmemx_torus_dims(dims: *mut int) -> int = init::dims(dims);
    current fn shmemx_pe_hops(pe: int) -> int = init::hops(pe);
}

#[cfg(test)]
pub(crate) const LISTS: &[&[crate::api::Sig]] = &[TORUS];
