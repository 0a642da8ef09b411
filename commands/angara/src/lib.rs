//! The commands a user types first: `angara` with its subcommands, `oshrun`, `oshcc` and `oshc++`.
//!
//! A file here has a subcommand: its options, its help, and its call of a library that knows no command line: jobs are
//! started by `launch`, daemons and reports are read by `control`, timelines, races and captures by `recordings`. Subcommands
//! that a first run does not need are programs of their own in the folders beside this one; [`shared::enter`] is how they begin.
#![forbid(unsafe_code)]

mod args;
mod capture;
mod cluster;
mod demo;
mod doctor;
mod fault;
mod machine;
mod new;
pub mod oshcc;
pub mod oshrun;
mod report;
pub mod run;
pub mod shared;
mod shutdown;
mod status;
mod trace;
mod web;

pub use args::angara;

use shared::{entry::finish, modes};
use std::ffi::OsString;

/// Entry of the `angara` command. Never returns.
pub fn main_angara() -> ! {
    angara_cluster::signals::survive_file_size_limit();
    let args: Vec<OsString> = std::env::args_os().collect();
    modes::enter(&args);
    finish("angara", args::dispatch(args))
}

/// Entry of the `oshrun` command: `angara run`. Never returns.
pub fn main_oshrun() -> ! {
    angara_cluster::signals::survive_file_size_limit();
    let mut args: Vec<OsString> = std::env::args_os().collect();
    modes::enter(&args);
    args.splice(0..1, ["oshrun".into()]);
    finish("oshrun", oshrun::dispatch_oshrun(args))
}

/// Entry of the `oshcc` and `oshc++` commands. Never returns.
pub fn main_oshcc() -> ! {
    angara_cluster::signals::survive_file_size_limit();
    let args: Vec<OsString> = std::env::args_os().collect();
    let name = oshcc::name(&args);
    finish(name, oshcc::main(&args))
}
