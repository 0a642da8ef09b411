//! Entries of the programs: command lines are read, and an error becomes a message and an exit code.

use crate::shared::beside::Beside;
use crate::shared::modes;
use angara_cluster::usage::helpful;
use angara_control::error::Failed;
use clap::Parser;
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::exit;

/// Reads the command line of a program whose subcommands are `S`, and does what it says. Never returns.
pub fn enter<S: Parser>(own: Beside, run: impl FnOnce(S) -> Result<u8, Failed>) -> ! {
    enter_reading(own, |args| Ok((args, ())), |read, ()| run(read))
}

/// The same, with what `before` makes of the command line, and what it found in it. If it ends the program, it says how.
pub fn enter_reading<S: Parser, N>(
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
    finish("angara", result)
}

/// Leaves with the exit code of `result`, after saying what failed and what to do about it.
pub(crate) fn finish(name: &str, result: Result<u8, Failed>) -> ! {
    match result {
        Ok(code) => exit(code.into()),
        Err(e) => {
            e.print(name);
            exit(e.code.into())
        }
    }
}

/// Shows the help or version that was asked for, or what is wrong with the arguments.
pub fn say_usage(e: &clap::Error) -> Result<u8, Failed> {
    match e.print().and_then(|()| std::io::stdout().flush()) {
        Err(failed) if !e.use_stderr() && failed.kind() != ErrorKind::BrokenPipe => Err(Failed::output(&failed)),
        _ => Ok(e.exit_code() as u8),
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
    use crate::shared::beside::SIM;

    fn line(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_program_called_by_its_own_name_has_that_subcommand() {
        assert_eq!(as_angara(SIM, line(&["/x/angara-sim", "run"])), line(&["angara", "sim", "run"]));
        assert_eq!(as_angara(SIM, line(&["/x/angara", "plan", "tree"])), line(&["/x/angara", "plan", "tree"]));
    }
}
