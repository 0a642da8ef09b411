//! Programs beside `angara`, each with one or two of its subcommands: `angara sim …` becomes `angara-sim`, and so on.
//!
//! They are what a first run does not need: simulations and plans, node sets and queues, measurements, the display for
//! terminals, comparisons of many runs. `cargo demo` builds none of them. Most of the work is done by the crates
//! `angara-sim`, `angara-batch` and `angara-bench`; here command lines are read. [`top`] and [`whatif`] are whole.
#![forbid(unsafe_code)]

pub mod alloc;
pub mod bench;
pub mod help_files;
pub mod sim;
pub mod top;
pub mod whatif;

use angara_cluster::usage::helpful;
use angara_control::beside::Beside;
use angara_control::error::Failed;
use angara_launch::modes;
use angara_launch::oshrun::say_usage;
use clap::Parser;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::exit;

/// Reads the command line of a program whose subcommands are `S`, and does what it says. Never returns.
fn enter<S: Parser>(own: Beside, run: impl FnOnce(S) -> Result<u8, Failed>) -> ! {
    enter_reading(own, |args| Ok((args, ())), |read, ()| run(read))
}

/// The same, with what `before` makes of the command line, and what it found in it. If it ends the program, it says how.
fn enter_reading<S: Parser, N>(
    own: Beside,
    before: impl FnOnce(Vec<OsString>) -> Result<(Vec<OsString>, N), Result<u8, Failed>>,
    run: impl FnOnce(S, N) -> Result<u8, Failed>,
) -> ! {
    angara_cluster::signals::survive_file_size_limit();
    let args: Vec<OsString> = std::env::args_os().collect();
    // What it starts, it starts as `angara` does: by itself, in a mode of its own.
    modes::enter(&args);
    let result = before(as_angara(own, args)).map_or_else(
        |ended| ended,
        |(args, found)| {
            let mut command = S::command();
            command.build();
            match command.try_get_matches_from_mut(args).and_then(|matches| S::from_arg_matches(&matches)) {
                Ok(read) => run(read, found),
                Err(e) => say_usage(&helpful(e, &command)),
            }
        },
    );
    match result {
        Ok(code) => exit(code.into()),
        Err(e) => {
            e.print("angara");
            exit(e.code.into())
        }
    }
}

/// The arguments as `angara` has them: a program that is called by its own name has the subcommand of that name.
fn as_angara(own: Beside, mut args: Vec<OsString>) -> Vec<OsString> {
    let called = args.first().map(Path::new).and_then(Path::file_name);
    if called == Some(OsStr::new(own.program)) {
        args.splice(0..1, ["angara".into(), own.name.into()]);
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_control::beside::SIM;

    fn line(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_program_called_by_its_own_name_has_that_subcommand() {
        assert_eq!(as_angara(SIM, line(&["/x/angara-sim", "run"])), line(&["angara", "sim", "run"]));
        assert_eq!(as_angara(SIM, line(&["/x/angara", "plan", "tree"])), line(&["/x/angara", "plan", "tree"]));
    }
}
