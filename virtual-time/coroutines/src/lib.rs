//! Unmodified programs as coroutines of one thread.
//!
//! A dynamically linked, position-independent program for x86-64 Linux with glibc is loaded many times into memory that
//! the host gives: once per processing element (PE). Each PE has its own variables, stack, standard streams, environment
//! and the state that libc hides (`rand`, `strtok`, `getopt`, `errno`). A PE runs until library code on its stack calls
//! [`stand`]; the host then runs another.
//!
//! * [`Program`] reads the file and says in one line why it cannot run this way.
//! * [`Image`] is the program with its symbols resolved, ready to be placed.
//! * [`Pes`] holds the PEs and runs them.
//!
//! # The rule for code that runs on a PE's stack
//! Where a program has thread-local variables, they take the place of the host executable's own while a PE runs.
//! Functions of the host that a PE calls must not touch Rust's thread-locals: no panic, no `std::thread::current`, no
//! lock of `std`. Memory from malloc, plain libc calls and data behind pointers are fine.
//!
//! # Limits
//! One thread of a process hosts PEs, for `environ`, `stdout` and their like exist once in libc. A PE that crashes while
//! it holds one of libc's locks leaves it locked: after [`Event::Crashed`] end the job.

// Elsewhere there are none: who would use them asks for the same.
#![cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]

mod allowed;
mod crash;
mod elf;
mod exit;
mod host;
mod image;
mod libc_functions;
mod libc_state;
mod pes;
mod program;
mod record;
mod refusals;
mod start;
mod switch;
mod tls;

pub use host::{exit, flush, interrupt, leave, pause, position};
pub use image::{Image, Names};
pub use pes::{Event, Pes, Stack, Start};
pub use program::{Layout, Program, Refusal, Segment};
pub use record::current_pe;
pub use record::fault::Crash;
pub use record::hooks::{Hooks, Sink};
pub use refusals::{REFUSED_IMPORTS, Refused};
pub use switch::stand;
pub use tls::TLS_MAX;

/// Bytes of a page.
pub const PAGE: usize = 4096;
