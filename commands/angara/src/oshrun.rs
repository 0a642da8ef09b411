//! `oshrun`: `angara run` by the name that OpenSHMEM's specification recommends.

use crate::run::{RunArgs, after_help, say, say_misread, short_after_help, start};
use crate::shared::{foreign, hints, say_usage};
use angara_control::error::Failed;
use angara_launch::run::options::Options;
use clap::{Command, CommandFactory, FromArgMatches, Parser};
use std::ffi::OsString;

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
        Err(e) => say_usage(&hints::told(e, &command, "oshrun", &line)),
    }
}

/// Options of `oshrun`.
pub fn oshrun() -> Command {
    Oshrun::command().after_help(short_after_help("oshrun")).after_long_help(after_help("oshrun"))
}

/// Parses a command line of `angara run`, its name included; an error is text.
pub fn options_of(args: Vec<OsString>) -> Result<Options, String> {
    let read = foreign::read(&oshrun(), &args[1..]).map_err(|e| e.to_string())?;
    let args = args[..1].iter().cloned().chain(read.args);
    Oshrun::try_parse_from(args).map(|o| o.run.into()).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_after_the_program_belong_to_it() {
        let parsed = Oshrun::try_parse_from(["oshrun", "-n", "2", "sh", "-c", "exit 3", "--label"]).unwrap();
        let options = Options::from(parsed.run);
        assert_eq!(options.command, ["sh", "-c", "exit 3", "--label"].map(OsString::from));
        assert!(!options.label);
    }
}
