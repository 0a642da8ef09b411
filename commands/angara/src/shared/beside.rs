//! Subcommands of `angara` that are programs of their own, beside it: what a first run does not need and takes long to
//! build. `angara sim …` becomes `angara-sim` with the same arguments, as `git` does with its own.

use angara_control::error::Failed;
use angara_control::install;
use clap::Args;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A subcommand that is elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beside {
    /// Its name after `angara`.
    pub name: &'static str,
    /// The program that has it.
    pub program: &'static str,
    /// The package that has this program.
    pub package: &'static str,
    /// One line of what it does.
    pub about: &'static str,
}

/// `angara alloc`
pub const ALLOC: Beside = Beside {
    name: "alloc",
    program: "angara-alloc",
    package: "angara-commands-alloc",
    about: "Choose the nodes of a job in a torus with dead and busy parts",
};
/// `angara bench`
pub const BENCH: Beside = Beside {
    name: "bench",
    program: "angara-bench",
    package: "angara-commands-bench",
    about: "Measure latency, bandwidth and collectives, next to floors and to other libraries",
};
/// `angara plan`
pub const PLAN: Beside = Beside {
    name: "plan",
    program: "angara-sim",
    package: "angara-commands-sim",
    about: "Plan without running: barrier and matrix costs, route tables, collective trees",
};
/// `angara sim`
pub const SIM: Beside = Beside {
    name: "sim",
    program: "angara-sim",
    package: "angara-commands-sim",
    about: "Simulate networks: one load, sweeps, prepared machines",
};
/// `angara top`
pub const TOP: Beside = Beside {
    name: "top",
    program: "angara-top",
    package: "angara-commands-top",
    about: "Watch a daemon at work: jobs, trunks, the hottest links",
};
/// `angara verbs`
pub const VERBS: Beside = Beside {
    name: "verbs",
    program: "angara-verbs",
    package: "angara-commands-verbs",
    about: "Run RDMA programs, unmodified, on emulated adapters of a torus (libibverbs)",
};
/// `angara whatif`
pub const WHATIF: Beside = Beside {
    name: "whatif",
    program: "angara-whatif",
    package: "angara-commands-whatif",
    about: "Run a program in virtual time under every combination of networks, placements and values",
};

pub const ALL: [Beside; 7] = [ALLOC, BENCH, PLAN, SIM, TOP, VERBS, WHATIF];

/// Stands for the arguments of such a subcommand where only its name and its line of help are needed.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct Elsewhere {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// The one that a command line of `angara` asks for, or asks the help of.
pub fn asked_for(args: &[OsString]) -> Option<Beside> {
    let at = if args.get(1)? == "help" { 2 } else { 1 };
    let name = args.get(at)?;
    ALL.into_iter().find(|beside| name == beside.name)
}

/// Becomes the program that has the subcommand; `args` is the command line of `angara`. Returns only if it cannot.
pub fn become_program(beside: Beside, args: &[OsString]) -> Failed {
    let bin = match install::bin_dir() {
        Ok(bin) => bin,
        Err(e) => return e,
    };
    let file = bin.join(beside.program);
    let e = Command::new(&file).arg0(&args[0]).args(&args[1..]).exec();
    let what = match e.kind() {
        ErrorKind::NotFound => {
            format!("`angara {}` is a program of its own, {}, which is not there", beside.name, file.display())
        }
        _ => format!("cannot start {}: {e}", file.display()),
    };
    Failed::runtime(what, install::build_hint_for(&bin, beside.package))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_command_line_tells_which_program_has_its_subcommand() {
        assert_eq!(asked_for(&line(&["angara", "plan", "tree"])), Some(PLAN));
        assert_eq!(asked_for(&line(&["angara", "help", "sim", "run"])), Some(SIM));
        for other in [&["angara"][..], &["angara", "run", "sim"], &["angara", "help"], &["angara", "--help", "sim"]] {
            assert_eq!(asked_for(&line(other)), None, "{other:?}");
        }
    }
}
