//! Options that contradict each other, or what the job is: refused before anything is started.

use super::engine::fault_without_packets;
use crate::mpi::library::LibraryKind;
use crate::run::options::{Check, Clock, Options, PesAs};
use angara_abi::job::{Barrier, Collectives};
use angara_control::error::Failed;
use angara_fabric::BALANCED_NODES;
use angara_machine::{MPI_TABLE, Machine};
use angara_net::fault::{Command, Target};
use angara_net::torus::Shape;
use angara_protocol::msg::Path as EnginePath;

/// `--history` is a part of a report.
pub(super) fn history(args: &Options) -> Result<(), Failed> {
    match args.history && args.report.is_none() {
        true => {
            Err(Failed::usage("--history is written into a report", "add --report FILE.json, or leave --history out"))
        }
        false => Ok(()),
    }
}

/// Tells whether packets can be captured as the options want it.
pub(super) fn capture(args: &Options) -> Result<(), Failed> {
    let Some(file) = &args.capture else { return Ok(()) };
    if file.as_os_str() == "-" {
        let what = "--capture -: the program's own output goes to standard output";
        return Err(Failed::usage(what, "give a file, or a pipe that `mkfifo` made"));
    }
    if args.seeds.is_some() {
        return Err(Failed::usage("--capture is for one run, and --seeds makes many", "give --seed"));
    }
    Ok(())
}

/// Tells whether PEs can be of several architectures as the options want it.
pub(super) fn heterogeneous(args: &Options, mpi: bool) -> Result<(), Failed> {
    let contradicts = [
        (mpi, "an MPI program", "MPI libraries agree among themselves on what data looks like; start it without"),
        (args.virtual_tsc, "--virtual-tsc", "only x86-64 has that counter; leave one of them out"),
        (
            args.pes_as == PesAs::Coroutines,
            "--pes-as coroutines",
            "one process has one architecture; leave one of them out",
        ),
    ];
    match contradicts.into_iter().find(|(given, ..)| args.heterogeneous && *given) {
        Some((_, what, why)) => Err(Failed::usage(format!("--heterogeneous cannot be had with {what}"), why)),
        None => Ok(()),
    }
}

/// Checks that faults can be read, for a network that is known before any daemon is asked.
pub(super) fn faults(args: &Options, shape: Shape) -> Result<(), Failed> {
    args.faults.iter().try_for_each(|text| match Command::parse(text, &shape) {
        Ok(Command { target: Target::Trunk { .. }, .. }) => Err(Failed::usage(
            format!("--fault '{text}': trunks are between hosts, and this job has one"),
            "add --cluster FILE, or name a link or a node",
        )),
        Ok(command) if command.acts_on_packets() && args.path == EnginePath::Direct => Err(fault_without_packets(text)),
        Ok(_) => Ok(()),
        Err(mistake) => Err(Failed::usage(mistake.brief(), mistake.remedy())),
    })
}

/// Checks that the machine's routes can be found on a network of `shape`.
pub(super) fn routes(machine: &Machine, shape: Shape) -> Result<(), Failed> {
    if machine.params().is_ok_and(|params| params.balanced) && shape.nodes() > BALANCED_NODES {
        let why = format!("routes=balanced on {shape}: balanced routes are found for up to {BALANCED_NODES} nodes");
        return Err(Failed::usage(why, "give a smaller --torus, or leave routes=balanced out"));
    }
    Ok(())
}

/// Checks that nothing is asked of a library that the program does not use.
pub(super) fn library(args: &Options, mpi: Option<LibraryKind>) -> Result<(), Failed> {
    let of_mpi = Machine::plain().with(&args.set).map(|m| m.changes_in(|table| table == MPI_TABLE)).unwrap_or_default();
    if !of_mpi.is_empty() && args.clock == Clock::Wall {
        let why = format!("--set {of_mpi}: what an MPI library costs is for virtual time");
        return Err(Failed::usage(why, "add --clock virtual, or leave it out"));
    }
    let Some(kind) = mpi else {
        return match of_mpi.is_empty() {
            true => Ok(()),
            false => {
                let why = format!("--set {of_mpi}: it is what an MPI library costs, and the program uses none");
                Err(Failed::usage(why, "leave it out; --call-cost is what a call of OpenSHMEM costs"))
            }
        };
    };
    let given = [
        (args.collectives != Collectives::Auto, "--collectives", "has collectives of its own"),
        (args.collectives_table.is_some(), "--collectives-table", "has collectives of its own"),
        (args.barrier != Barrier::Auto, "--barrier", "has a barrier of its own"),
        (args.check.contains(&Check::Calls), "--check=calls", "is not looked into; it looks at calls of OpenSHMEM"),
        (args.check.contains(&Check::Races), "--check=races", "is not looked into; it looks at calls of OpenSHMEM"),
    ];
    match given.into_iter().find(|(given, ..)| *given) {
        Some((_, option, why)) => {
            Err(Failed::usage(format!("{option}: the program uses {kind}, which {why}"), format!("leave {option} out")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::options::Change;
    use angara_abi::job::{Barrier, Collectives};

    #[test]
    fn options_of_one_library_are_refused_to_the_other() {
        let asked = |change: Change| {
            let mut options = Options::new(2, vec!["true".into()]);
            change(&mut options);
            options
        };
        let mpi = Some(LibraryKind::Mpich);
        let cases: [(&str, Change); 5] = [
            ("--collectives", |o| o.collectives = Collectives::Tree),
            ("--collectives-table", |o| o.collectives_table = Some("t".into())),
            ("--barrier", |o| o.barrier = Barrier::Master),
            ("--check", |o| o.check = vec![Check::Calls]),
            ("--check=races", |o| o.check = vec![Check::Races]),
        ];
        for (option, change) in cases {
            let options = asked(change);
            assert!(library(&options, None).is_ok(), "{option}");
            let refused = library(&options, mpi).expect_err(option);
            assert!(refused.message.contains(option) && refused.message.contains("MPICH"), "{}", refused.message);
        }
        let wall = asked(|o| o.set = vec!["look=1us".into()]);
        let costs = Options { clock: Clock::Virtual, ..wall.clone() };
        assert!(library(&costs, mpi).is_ok());
        assert!(library(&costs, None).expect_err("no MPI").message.contains("look="));
        assert!(library(&wall, mpi).expect_err("no virtual time").remedy.contains("--clock virtual"));
    }
}
