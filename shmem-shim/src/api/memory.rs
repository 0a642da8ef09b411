//! The symmetric heap and address queries.

use crate::ctypes::*;
use crate::rt::memory;

api! { MEMORY;
    current fn shmem_malloc(size: size_t) -> *mut void = memory::malloc(size);
    current fn shmem_malloc_with_hints(size: size_t, hints: long) -> *mut void = memory::malloc_with_hints(size, hints);
    current fn shmem_calloc(count: size_t, size: size_t) -> *mut void = memory::calloc(count, size);
    current fn shmem_align(alignment: size_t, size: size_t) -> *mut void = memory::align(alignment, size);
    current fn shmem_realloc(ptr: *mut void, size: size_t) -> *mut void = memory::realloc(ptr, size);
    current fn shmem_free(ptr: *mut void) = memory::free(ptr);
    deprecated fn shmalloc(size: size_t) -> *mut void = memory::malloc(size);
    deprecated fn shmemalign(alignment: size_t, size: size_t) -> *mut void = memory::align(alignment, size);
    deprecated fn shrealloc(ptr: *mut void, size: size_t) -> *mut void = memory::realloc(ptr, size);
    deprecated fn shfree(ptr: *mut void) = memory::free(ptr);
    current fn shmem_ptr(dest: *const void, pe: int) -> *mut void = memory::ptr(dest.cast(), pe);
    current fn shmem_addr_accessible(addr: *const void, pe: int) -> int = memory::addr_accessible(addr.cast(), pe);
    current fn shmem_pe_accessible(pe: int) -> int = memory::pe_accessible(pe);
}

#[cfg(test)]
pub(crate) const LISTS: &[&[&[crate::api::Sig]]] = &[&[MEMORY]];
