//! The commands a user types: `angara` with its subcommands, `oshrun`, `oshcc` and `oshc++`.
//!
//! Here command lines are read. What they ask for is done by the crates beside this one: jobs by `launch`, talking to a
//! daemon and reports by `control`, timelines, races and captures by `recordings`. Only what needs several of them stands here:
//! `demo`, `doctor`. Subcommands that a first run does not need are programs of their own, in `commands/beside`.
#![forbid(unsafe_code)]

mod args;
mod demo;
mod doctor;

pub use args::angara;

use angara_control::error::Failed;
use angara_launch::{modes, oshcc, oshrun};
use std::ffi::OsString;
use std::process::exit;

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

/// Leaves with the exit code of `result`, after saying what failed and what to do about it.
fn finish(name: &str, result: Result<u8, Failed>) -> ! {
    match result {
        Ok(code) => exit(code.into()),
        Err(e) => {
            e.print(name);
            exit(e.code.into())
        }
    }
}
