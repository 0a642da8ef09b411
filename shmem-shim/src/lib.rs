//! `libsma.so`: OpenSHMEM for C and C++ programs on the emulated Angara network.
//!
//! A program compiled with `oshcc` and started with `angara run` finds here every routine of
//! `shmem.h`. The library is thin: tables of types and templates of routines ([`api`]) expand to
//! the exported functions, each a one-line cast into an untyped core ([`rt`]), and the cores move
//! bytes with `libangara`, which picks the engine per target. What is exported works; a routine
//! that is not implemented does not exist.

// A vector of bytes stands for binary128, which Rust has no stable type for: both travel in one vector register (AAPCS64).
#![cfg_attr(target_arch = "aarch64", allow(improper_ctypes_definitions))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod api;
mod ctypes;
#[cfg(test)]
mod header;
mod rt;
