//! The commands a user types: `angara` with its subcommands, `oshrun`, `oshcc` and `oshc++`.
//!
//! `angara run` is the centre. It looks for a daemon whose torus fits (or starts a private one),
//! asks it for a job over the control socket, starts one process per PE with the job's place in
//! the environment, forwards their input and output, and takes everything down again whatever
//! happens. The other subcommands look at a daemon (`status`, `capture`, `fault`, `shutdown`), at the traffic
//! of a finished job (`report`) or at this machine (`doctor`), or show the whole (`demo`, `bench`).
//!
//! No `unsafe` here: what must happen between fork and exec is done by a hidden mode of this same
//! program, see [`mod@run`].
#![forbid(unsafe_code)]

mod args;
mod bench;
mod capture;
mod code;
mod daemon;
mod demo;
mod doctor;
mod error;
mod example;
mod foreign;
mod help;
mod install;
mod machine;
mod many;
mod mpi;
mod notes;
mod oshcc;
mod races;
mod report;
mod run;
mod top;
mod trace;
mod whatif;

use error::Failed;
use std::ffi::OsString;
use std::process::exit;

/// Entry of the `angara` command. Never returns.
pub fn main_angara() -> ! {
    angara_cluster::signals::survive_file_size_limit();
    let args: Vec<OsString> = std::env::args_os().collect();
    if args.get(1).is_some_and(|a| a == run::exec::MODE) {
        run::exec::main(&args[2..]);
    }
    if args.get(1).is_some_and(|a| a == mpi::rank::MODE) {
        mpi::rank::main(&args[2..]);
    }
    if args.get(1).is_some_and(|a| a == mpi::survey::PEEK) {
        mpi::survey::peek(&args[2..]);
    }
    if args.get(1).is_some_and(|a| a == run::host::MODE) {
        run::host::main(&args[2..]);
    }
    if args.get(1).is_some_and(|a| a == run::user::MODE) {
        run::user::main(&args[2..]);
    }
    if args.get(1).is_some_and(|a| a == run::remote::MODE) {
        run::remote::main();
    }
    if args.get(1).is_some_and(|a| a == help::MODE) {
        finish("angara", help::main(&args[2..]));
    }
    finish("angara", args::dispatch(args))
}

/// Entry of the `oshrun` command: `angara run`. Never returns.
pub fn main_oshrun() -> ! {
    angara_cluster::signals::survive_file_size_limit();
    let mut args: Vec<OsString> = std::env::args_os().collect();
    if args.get(1).is_some_and(|a| a == run::exec::MODE) {
        run::exec::main(&args[2..]);
    }
    if args.get(1).is_some_and(|a| a == mpi::rank::MODE) {
        mpi::rank::main(&args[2..]);
    }
    args.splice(0..1, ["oshrun".into()]);
    finish("oshrun", args::dispatch_oshrun(args))
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
