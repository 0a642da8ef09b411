//! Calls of MPI, wrapped so that virtual time knows of them: when it begins and ends, what waits, what looks.
//!
//! With `--trace` calls are noted, in virtual time and by the clock on the wall ([`record`]).
//!
//! Libraries that are preloaded into MPI programs, where one of the two is wanted, consist of such wrappers: `mpi` has the names
//! of MPI 3.1, `mpi-4` and `mpi-41` those that MPI 4.0 and 4.1 have added, `mpi-large` those with counts of 64 bits. Programs ask by
//! weak references which of them there are: a name must not be defined that the MPI library lacks. `MPI_` and `PMPI_` names are wrapped, because Fortran's calls come by either, and
//! each leads to the next one of its name, so that a tool of the user's sees its calls.
//!
//! Wrappers pass on integers and pointers, as many as a routine has, whatever they mean: handles differ between libraries.

mod about;
mod real;
mod record;
mod time;

pub use real::Real;
pub use time::{CallKind, begins, begins_session, ends, ends_session, makes_contact, passes, seconds};

/// `wrap! { Waits { Send(6) } }`: exported functions `MPI_Send` and `PMPI_Send` of six arguments.
#[macro_export]
macro_rules! wrap {
    ($($kind:ident { $($name:ident($count:tt))* })*) => {
        $($($crate::wrap!(@names $kind $name $count);)*)*
    };
    (@names $kind:ident $name:ident $count:tt) => {
        $crate::pastey::paste! {
            $crate::wrap!(@count $kind [<MPI_ $name>] $count);
            $crate::wrap!(@count $kind [<PMPI_ $name>] $count);
        }
    };
    (@count $kind:ident $name:ident 0) => { $crate::wrap!(@function $kind $name); };
    (@count $kind:ident $name:ident 1) => { $crate::wrap!(@function $kind $name a); };
    (@count $kind:ident $name:ident 2) => { $crate::wrap!(@function $kind $name a b); };
    (@count $kind:ident $name:ident 3) => { $crate::wrap!(@function $kind $name a b c); };
    (@count $kind:ident $name:ident 4) => { $crate::wrap!(@function $kind $name a b c d); };
    (@count $kind:ident $name:ident 5) => { $crate::wrap!(@function $kind $name a b c d e); };
    (@count $kind:ident $name:ident 6) => { $crate::wrap!(@function $kind $name a b c d e f); };
    (@count $kind:ident $name:ident 7) => { $crate::wrap!(@function $kind $name a b c d e f g); };
    (@count $kind:ident $name:ident 8) => { $crate::wrap!(@function $kind $name a b c d e f g h); };
    (@count $kind:ident $name:ident 9) => { $crate::wrap!(@function $kind $name a b c d e f g h i); };
    (@count $kind:ident $name:ident 10) => { $crate::wrap!(@function $kind $name a b c d e f g h i j); };
    (@count $kind:ident $name:ident 11) => { $crate::wrap!(@function $kind $name a b c d e f g h i j k); };
    (@count $kind:ident $name:ident 12) => { $crate::wrap!(@function $kind $name a b c d e f g h i j k l); };
    (@count $kind:ident $name:ident 13) => { $crate::wrap!(@function $kind $name a b c d e f g h i j k l m); };
    (@function $kind:ident $name:ident $($arg:ident)*) => {
        /// # Safety
        /// As the function of the MPI library.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "MPI\'s names")]
        pub unsafe extern "C-unwind" fn $name($($arg: usize),*) -> core::ffi::c_int {
            static REAL: $crate::Real = $crate::Real::new($crate::c_name!($name));
            type Function = unsafe extern "C-unwind" fn($($crate::wrap!(@word $arg)),*) -> core::ffi::c_int;
            // SAFETY: the MPI library's function of this name, which has as many arguments.
            let function = unsafe { core::mem::transmute::<*mut core::ffi::c_void, Function>(REAL.find()) };
            // SAFETY: the caller promises what the callee asks for.
            $crate::passes($crate::CallKind::$kind, &REAL, &[$($arg),*], || unsafe { function($($arg),*) })
        }
    };
    (@word $arg:ident) => { usize };
}

/// A name as C has it.
#[macro_export]
macro_rules! c_name {
    ($name:ident) => {
        match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!("it ends with 0"),
        }
    };
}

#[doc(hidden)]
pub use pastey;
