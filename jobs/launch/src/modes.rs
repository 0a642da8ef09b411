//! Hidden subcommands of `angara`: what it does when a part of this project has started it. None returns.

use crate::mpi::{rank, survey};
use crate::run::{host, remote, user};
use angara_control::exec;
use angara_protocol::modes;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::process::exit;

/// A parser of their own, and a small one: that of all of `angara` takes longer to build than a PE's process to start.
#[derive(Parser)]
#[command(disable_help_flag = true, disable_help_subcommand = true)]
struct Hidden {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Subcommand)]
enum Mode {
    #[command(name = modes::RANK, hide = true, disable_help_flag = true)]
    Rank(rank::RankArgs),
    #[command(name = modes::PEEK, hide = true, disable_help_flag = true)]
    Peek(survey::PeekArgs),
    #[command(name = modes::HOST, hide = true, disable_help_flag = true)]
    Host(host::HostArgs),
    #[command(name = modes::USER, hide = true, disable_help_flag = true)]
    User(user::UserArgs),
    #[command(name = modes::AGENT, hide = true, disable_help_flag = true)]
    Agent,
}

/// Enters the mode that a command line asks for, if it asks for one.
pub fn enter(args: &[OsString]) {
    let Some(name) = args.get(1).and_then(|name| name.to_str()) else { return };
    if name == modes::EXEC {
        exec::main(&exec::ExecArgs::read(&args[2..]).unwrap_or_else(|| misused(name)));
    }
    if !Mode::has_subcommand(name) {
        return;
    }
    let Ok(hidden) = Hidden::try_parse_from(args) else { misused(name) };
    match hidden.mode {
        Mode::Rank(args) => rank::main(&args),
        Mode::Peek(args) => survey::peek(&args),
        Mode::Host(args) => host::main(&args),
        Mode::User(args) => user::main(&args),
        Mode::Agent => remote::main(),
    }
}

fn misused(mode: &str) -> ! {
    angara_protocol::complain!("angara: `{mode}` is internal, and its arguments are wrong; use `angara run`");
    exit(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str]) -> Result<Mode, String> {
        let line = std::iter::once("angara").chain(args.iter().copied());
        Hidden::try_parse_from(line).map(|hidden| hidden.mode).map_err(|e| e.to_string())
    }

    #[test]
    fn arguments_of_a_program_are_passed_on_as_they_are() {
        let argv = ["-bash", "--help", "--", "-x", "", "__exec"];
        let Ok(Mode::Rank(rank)) = read(&[&["__rank", "{}"], &argv[..]].concat()) else { panic!("not read") };
        assert_eq!(rank.argv, argv);
        let Ok(Mode::User(user)) = read(&["__as", "1", "2", "3,4", "__agent"]) else { panic!("not read") };
        assert_eq!((user.uid, user.rest), (1, vec!["__agent".into()]));
    }

    #[test]
    fn a_program_may_have_any_other_name() {
        for name in ["__exec2", "__EXEC", "exec", "--exec", ""] {
            enter(&["oshrun".into(), name.into()]);
        }
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for args in [
            &["__as", "4294967295", "0", "0"][..],
            &["__as", "me", "0", "0"],
            &["__host", "2"],
            &["__host", "2", "", "go"],
            &["__agent", "more"],
        ] {
            assert!(read(args).is_err(), "{args:?}");
        }
    }
}
