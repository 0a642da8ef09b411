//! Hidden subcommands of `angara`: what it does when a part of this project has started it. None returns.

use crate::oshrun::options_of;
use angara_control::exec;
use angara_launch::mpi::{rank, survey};
use angara_launch::run::processes::remote;
use angara_launch::run::{host, user};
use angara_protocol::modes;
use clap::{Args, Parser, Subcommand};
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
    Rank(RankArgs),
    #[command(name = modes::PEEK, hide = true, disable_help_flag = true)]
    Peek(PeekArgs),
    #[command(name = modes::HOST, hide = true, disable_help_flag = true)]
    Host(HostArgs),
    #[command(name = modes::USER, hide = true, disable_help_flag = true)]
    User(UserArgs),
    #[command(name = modes::AGENT, hide = true, disable_help_flag = true)]
    Agent,
}

/// A rank that `mpirun` has started.
#[derive(Args)]
struct RankArgs {
    /// The [`rank::Rank`], as JSON.
    rank: String,
    /// The program's `argv`, from `argv[0]` on.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    argv: Vec<OsString>,
}

/// A process that tries to read its parent's memory.
#[derive(Args)]
struct PeekArgs {
    /// Process id of the parent.
    process: i32,
    /// Address there.
    address: usize,
}

/// A job whose PEs another launcher starts.
#[derive(Args)]
struct HostArgs {
    /// Number of PEs.
    pes: String,
    /// Hosts of all PEs, with commas; nothing for a job on one host.
    hosts: String,
    /// Given to the process that stays.
    #[arg(value_parser = [host::STAY])]
    stay: Option<String>,
}

/// A process that becomes another user's.
#[derive(Args)]
struct UserArgs {
    #[arg(value_parser = number)]
    uid: u32,
    #[arg(value_parser = number)]
    gid: u32,
    /// All groups of the user, with commas.
    #[arg(value_parser = groups)]
    groups: Groups,
    /// The hidden subcommand that this program is to be from then on, and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

/// Reads the number of a user or group. The highest means "leave it as it is" to the kernel.
fn number(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|n| *n != u32::MAX).ok_or_else(|| format!("`{text}` is no user and no group"))
}

/// The groups of a user.
#[derive(Clone)]
struct Groups(Vec<u32>);

fn groups(text: &str) -> Result<Groups, String> {
    text.split(',').map(number).collect::<Result<_, _>>().map(Groups)
}

/// Enters the mode that a command line asks for, if it asks for one.
pub(crate) fn enter(args: &[OsString]) {
    let Some(name) = args.get(1).and_then(|name| name.to_str()) else { return };
    if name == modes::EXEC {
        exec::main(&exec::ExecArgs::read(&args[2..]).unwrap_or_else(|| misused(name)));
    }
    if !Mode::has_subcommand(name) {
        return;
    }
    let Ok(hidden) = Hidden::try_parse_from(args) else { misused(name) };
    match hidden.mode {
        Mode::Rank(args) => rank::main(&args.rank, &args.argv),
        Mode::Peek(args) => survey::peek(args.process, args.address),
        Mode::Host(args) => {
            let hosted = host::Hosted { pes: args.pes, hosts: args.hosts, stays: args.stay.is_some() };
            host::main(&hosted, options_of)
        }
        Mode::User(args) => {
            let UserArgs { uid, gid, groups, rest } = args;
            user::main(&user::Becoming { uid, gid, groups: groups.0, rest })
        }
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
