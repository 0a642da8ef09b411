//! The exported C functions: type tables × templates.
//!
//! [`api!`] takes rows that read like C prototypes and name the untyped core that does the work;
//! for each it emits `shmem_X`, `pshmem_X` (both strong: a profiling tool interposes the first and
//! calls the second) and, for the tests, the signature `shmem.h` is printed from. A template is a
//! macro that expands rows for every entry of a type table in [`tables`]. Adding routines or types
//! means adding rows here; the cores in [`crate::rt`] know bytes, never C types.

#![allow(non_snake_case)] // parameters are named as in the specification

#[macro_use]
mod tables;

/// One exported prototype, as the Rust source spells it.
#[cfg(test)]
#[derive(Clone, Copy)]
pub(crate) struct Sig {
    pub(crate) name: &'static str,
    pub(crate) deprecated: bool,
    pub(crate) args: &'static [(&'static str, &'static str)],
    pub(crate) ret: &'static str,
}

#[cfg(test)]
impl Sig {
    pub(crate) fn never_returns(&self) -> bool {
        self.ret == "!"
    }
}

/// A titled group of prototypes in the header.
#[cfg(test)]
pub(crate) struct Group {
    pub(crate) title: &'static str,
    pub(crate) sigs: Vec<Sig>,
}

/// Refuses in a heterogeneous job a routine that is not the same for all architectures. For all others it emits nothing.
macro_rules! same_for_all {
    ($name:expr, $known_by:expr) => {
        if let Some(why) = const { $crate::rt::heterogeneous::differs($known_by) } {
            $crate::rt::heterogeneous::refuse($name, why);
        }
    };
}

/// Emits exported functions from rows `status fn name(args) -> ret = core(values);`.
/// The core gets the routine's name first, for messages.
macro_rules! api {
    ($list:ident; $(
        $status:ident fn $name:ident ( $($a:ident : $t:ty),* $(,)? ) $(-> $r:ty)? = $($f:ident)::+ ( $($e:expr),* $(,)? );
    )*) => {
        ::pastey::paste! {
            $(
                #[unsafe(no_mangle)]
                #[allow(unused_unsafe)]
                unsafe extern "C" fn $name($($a: $t),*) $(-> $r)? {
                    same_for_all!(&stringify!($name), stringify!($name));
                    // SAFETY: the C caller keeps the contract of the routine's manual page: pointers
                    // are valid for the element counts given. PEs and symmetric addresses are checked.
                    unsafe { $($f)::+(&stringify!($name), $($e),*) }
                }
                #[unsafe(no_mangle)]
                #[allow(unused_unsafe)]
                unsafe extern "C" fn [<p $name>]($($a: $t),*) $(-> $r)? {
                    same_for_all!(&stringify!($name), stringify!($name));
                    // SAFETY: the C caller keeps the contract of the routine's manual page: pointers are valid for the
                    // element counts given. PEs and symmetric addresses are checked.
                    unsafe { $($f)::+(&stringify!($name), $($e),*) }
                }
            )*
        }
        #[cfg(test)]
        pub(crate) const $list: &[$crate::api::Sig] = &[$(
            $crate::api::Sig {
                name: stringify!($name),
                deprecated: $crate::api::is_deprecated(stringify!($status)),
                args: &[$((stringify!($a), stringify!($t))),*],
                ret: concat!($(stringify!($r))?),
            }
        ),*];
    };
}

/// Rows that exist with and without a leading context: `put(...)` becomes `shmem_put(...)` on the
/// default context and `shmem_ctx_put(shmem_ctx_t ctx, ...)`. `$ctx` names the context in the values.
macro_rules! api_ctx {
    ($list:ident, $ctx:ident; $(
        $status:ident fn $stem:ident ( $($a:ident : $t:ty),* $(,)? ) $(-> $r:ty)? = $($f:ident)::+ ( $($e:expr),* $(,)? );
    )*) => {
        ::pastey::paste! {
            $(
                #[unsafe(no_mangle)]
                #[allow(unused_unsafe)]
                unsafe extern "C" fn [<shmem_ $stem>]($($a: $t),*) $(-> $r)? {
                    same_for_all!(&concat!("shmem_", stringify!($stem)), stringify!($stem));
                    let $ctx = $crate::rt::handles::CTX_DEFAULT;
                    // SAFETY: see `api!`.
                    unsafe { $($f)::+(&concat!("shmem_", stringify!($stem)), $($e),*) }
                }
                #[unsafe(no_mangle)]
                #[allow(unused_unsafe)]
                unsafe extern "C" fn [<pshmem_ $stem>]($($a: $t),*) $(-> $r)? {
                    same_for_all!(&concat!("shmem_", stringify!($stem)), stringify!($stem));
                    let $ctx = $crate::rt::handles::CTX_DEFAULT;
                    // SAFETY: see `api!`.
                    unsafe { $($f)::+(&concat!("shmem_", stringify!($stem)), $($e),*) }
                }
                #[unsafe(no_mangle)]
                #[allow(unused_unsafe)]
                unsafe extern "C" fn [<shmem_ctx_ $stem>]($ctx: shmem_ctx_t, $($a: $t),*) $(-> $r)? {
                    same_for_all!(&concat!("shmem_ctx_", stringify!($stem)), stringify!($stem));
                    // SAFETY: see `api!`.
                    unsafe { $($f)::+(&concat!("shmem_ctx_", stringify!($stem)), $($e),*) }
                }
                #[unsafe(no_mangle)]
                #[allow(unused_unsafe)]
                unsafe extern "C" fn [<pshmem_ctx_ $stem>]($ctx: shmem_ctx_t, $($a: $t),*) $(-> $r)? {
                    same_for_all!(&concat!("shmem_ctx_", stringify!($stem)), stringify!($stem));
                    // SAFETY: see `api!`.
                    unsafe { $($f)::+(&concat!("shmem_ctx_", stringify!($stem)), $($e),*) }
                }
            )*
            #[cfg(test)]
            pub(crate) const $list: &[$crate::api::Sig] = &[$(
                $crate::api::Sig {
                    name: concat!("shmem_", stringify!($stem)),
                    deprecated: $crate::api::is_deprecated(stringify!($status)),
                    args: &[$((stringify!($a), stringify!($t))),*],
                    ret: concat!($(stringify!($r))?),
                },
                $crate::api::Sig {
                    name: concat!("shmem_ctx_", stringify!($stem)),
                    deprecated: $crate::api::is_deprecated(stringify!($status)),
                    args: &[("ctx", "shmem_ctx_t"), $((stringify!($a), stringify!($t))),*],
                    ret: concat!($(stringify!($r))?),
                },
            )*];
        }
    };
}
// Macros reach only modules declared after them.
mod accesses;
mod active_set;
mod amo;
mod collective;
mod memory;
mod reduce;
mod rma;
mod setup;
mod shmemx;
mod signal;
mod sync;
mod team;

/// `current` or `deprecated`, the first word of a row.
#[cfg(test)]
pub(crate) const fn is_deprecated(status: &str) -> bool {
    match status.as_bytes()[0] {
        b'c' => false,
        b'd' => true,
        _ => panic!("a row starts with `current` or `deprecated`"),
    }
}

/// Everything exported, in header order.
#[cfg(test)]
pub(crate) fn groups() -> Vec<Group> {
    let group = |title, lists: &[&[&[Sig]]]| Group {
        title,
        sigs: lists.iter().flat_map(|l| l.iter()).flat_map(|s| s.iter().copied()).collect(),
    };
    vec![
        group("Setup, exit, queries", setup::LISTS),
        group("Symmetric memory", memory::LISTS),
        group("Teams and contexts", team::LISTS),
        group("Remote memory access", rma::LISTS),
        group("Atomics", amo::LISTS),
        group("Signals", signal::LISTS),
        group("Point-to-point synchronisation, ordering, locks", sync::LISTS),
        group("Collectives", collective::LISTS),
        group("Reductions and scans", reduce::LISTS),
        group("Active-set collectives", active_set::LISTS),
    ]
}

/// The extensions, for `shmemx.h`.
#[cfg(test)]
pub(crate) fn extensions() -> Vec<Group> {
    vec![Group { title: "Extensions", sigs: shmemx::LISTS.iter().flat_map(|l| l.iter().copied()).collect() }]
}
