//! Command lines that start a program: `oshrun`, and the part of `angara run` and `oshrun` that is the same.

use crate::foreign::{self, Misread};
use crate::run::options::{RunArgs, after_help};
use crate::{many, run};
use angara_cluster::usage::helpful;
use angara_control::error::Failed;
use clap::{Command, CommandFactory, FromArgMatches, Parser};
use std::ffi::OsString;
use std::io::{ErrorKind, Write};

/// The same options as `angara run`.
#[derive(Parser)]
#[command(name = "oshrun", version, about = "Run an OpenSHMEM program as N processes (PEs) on a torus")]
pub struct Oshrun {
    #[command(flatten)]
    run: RunArgs,
}

/// Parses the arguments of `oshrun` and runs the program.
pub fn dispatch_oshrun(args: Vec<OsString>) -> Result<u8, Failed> {
    let mut command = oshrun();
    command.build();
    let read = match foreign::read(&command, &args[1..]) {
        Ok(read) => read,
        Err(e) => return say_misread(e),
    };
    let line: Vec<OsString> = args[..1].iter().cloned().chain(read.args).collect();
    match command.try_get_matches_from_mut(&line).and_then(|m| Oshrun::from_arg_matches(&m)) {
        Ok(oshrun) => {
            say(&read.notes, &oshrun.run);
            start(oshrun.run, &line)
        }
        Err(e) => say_usage(&helpful(e, &command)),
    }
}

/// Runs a program, once or with many seeds. `line` is the whole command line.
pub fn start(args: RunArgs, line: &[OsString]) -> Result<u8, Failed> {
    let Some(seeds) = args.seeds else { return run::main(args) };
    run::check(&args)?;
    many::seeds::main(seeds, line, args.quiet)
}

/// Shows the help or version that was asked for, or what is wrong with the arguments.
pub fn say_usage(e: &clap::Error) -> Result<u8, Failed> {
    match e.print().and_then(|()| std::io::stdout().flush()) {
        Err(failed) if !e.use_stderr() && failed.kind() != ErrorKind::BrokenPipe => Err(Failed::output(&failed)),
        _ => Ok(e.exit_code() as u8),
    }
}

/// The same for what stands before a program.
pub fn say_misread(e: Misread) -> Result<u8, Failed> {
    match e {
        Misread::Unknown(e) => say_usage(&e),
        Misread::Other(e) => Err(e),
    }
}

/// Options of `oshrun`.
pub fn oshrun() -> Command {
    Oshrun::command().after_help(after_help("oshrun"))
}

/// Says what had no effect.
pub fn say(notes: &[String], args: &RunArgs) {
    if !args.quiet {
        notes.iter().for_each(|note| angara_protocol::complain!("angara: {note}"));
    }
}

/// Parses a command line of `angara run`, its name included; an error is text.
pub fn run_args(args: Vec<OsString>) -> Result<RunArgs, String> {
    let read = foreign::read(&oshrun(), &args[1..]).map_err(|e| e.to_string())?;
    let args = args[..1].iter().cloned().chain(read.args);
    Oshrun::try_parse_from(args).map(|o| o.run).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_after_the_program_belong_to_it() {
        let parsed = Oshrun::try_parse_from(["oshrun", "-n", "2", "sh", "-c", "exit 3", "--label"]).unwrap();
        assert_eq!(parsed.run.command, ["sh", "-c", "exit 3", "--label"].map(OsString::from));
        assert!(!parsed.run.label);
    }
}
