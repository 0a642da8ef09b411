//! `libibverbs.so.1` for programs on the emulated Angara network: preloaded, it takes the place of rdma-core's.
//!
//! [`abi`] has the structs of `infiniband/verbs.h`. [`entry`] has the functions: each turns pointers of a C program into
//! checked values and hands these to an [`angara_hca::Hca`], which does the work. [`cm`] is the device below librdmacm,
//! [`paths`] has functions of libc on files and descriptors of adapters, [`advice`] one on memory, [`process`] has the adapters of this process. The
//! binary beside this library gives the functions their names.

#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod abi;
pub mod advice;
mod cm;
pub mod entry;
pub mod paths;
mod process;
