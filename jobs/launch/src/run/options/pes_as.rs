//! What PEs are: processes, or coroutines of one process. Decided before anything is started, by the options and by the
//! program's file.

use super::{Check, Clock, ENV_PRELOAD, PesAs, RunArgs};
use angara_control::error::Failed;
use angara_protocol::compute::Compute;
use std::path::Path;

/// Why PEs cannot be coroutines.
#[derive(Debug, PartialEq, Eq)]
struct Obstacle {
    /// The whole sentence.
    why: String,
    /// What the user can do to have coroutines; empty where the reason says it.
    remedy: String,
}

impl Obstacle {
    fn option(option: &str, why: &str) -> Obstacle {
        Obstacle { why: format!("{option} {why}"), remedy: format!("leave {option} out") }
    }
}

/// What the PEs of `program` will be; never [`PesAs::Auto`]. Whoever left it open is told why PEs are processes after all.
pub(super) fn decide(args: &RunArgs, program: &Path, mpi: bool) -> Result<PesAs, Failed> {
    if args.pes_as == PesAs::Processes {
        return Ok(PesAs::Processes);
    }
    match (by_options(args, mpi).or_else(|| by_program(program)), args.pes_as) {
        (None, _) => Ok(PesAs::Coroutines),
        (Some(Obstacle { why, .. }), PesAs::Auto) => {
            if !args.quiet {
                angara_protocol::complain!("angara: PEs are processes: {why}");
            }
            Ok(PesAs::Processes)
        }
        (Some(Obstacle { why, remedy }), _) => {
            let either = if remedy.is_empty() { String::new() } else { format!("{remedy}, or ") };
            Err(Failed::usage(format!("--pes-as coroutines: {why}"), format!("{either}use --pes-as processes")))
        }
    }
}

/// The first option that needs a process for each PE.
fn by_options(args: &RunArgs, mpi: bool) -> Option<Obstacle> {
    if args.clock == Clock::Wall {
        return Some(Obstacle {
            why: "PEs run side by side unless time is virtual".into(),
            remedy: "add --clock virtual".into(),
        });
    }
    if !cfg!(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")) {
        return Some(Obstacle {
            why: format!("coroutines are for x86-64 Linux with glibc, and this is {}", std::env::consts::ARCH),
            remedy: "run it on such a machine".into(),
        });
    }
    if mpi {
        return Some(Obstacle {
            why: "an MPI library has one state for each process".into(),
            remedy: "give --mpi none if this is no MPI program".into(),
        });
    }
    let measured = match args.compute {
        Some(Compute::Measured(_)) => Some("--compute measured"),
        Some(Compute::Record(_)) => Some("--compute record"),
        Some(Compute::Replay(_)) => Some("--compute replay"),
        Some(Compute::None | Compute::Fixed(_)) | None => None,
    };
    let options = [
        (args.debug.is_some().then_some("--debug"), "starts a PE in a debugger, which needs a process"),
        ((!args.wrap.is_empty()).then_some("--wrap"), "starts PEs in another command, which needs a process for each"),
        (args.virtual_tsc.then_some("--virtual-tsc"), "is switched on for a whole process"),
        (args.check.contains(&Check::Races).then_some("--check=races"), "notes calls in files of each process"),
        (measured, "goes by the processor time of each process"),
    ];
    let mut given = options.into_iter().filter_map(|(option, why)| Some(Obstacle::option(option?, why)));
    given.next().or_else(|| {
        let others = args.variable(ENV_PRELOAD).filter(|others| !others.is_empty())?;
        Some(Obstacle {
            why: format!("{ENV_PRELOAD}={} would act on all PEs and the network at once", others.display()),
            remedy: format!("unset {ENV_PRELOAD}"),
        })
    })
}

/// What about the program's file needs a process for each PE.
#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
fn by_program(file: &Path) -> Option<Obstacle> {
    const LIBRARY: &str = "libsma.so";
    let refusal = match angara_coroutines::Program::read(file) {
        Ok(program) if program.needs(LIBRARY) => return None,
        Ok(_) => None,
        // Any program has something that nobody has checked; of one for OpenSHMEM that is the reason.
        Err(refusal) => Some(refusal).filter(|_| {
            let libraries = angara_coroutines::Program::libraries(file);
            libraries.is_none_or(|all| all.iter().any(|l| l.starts_with(LIBRARY)))
        }),
    };
    Some(match refusal {
        Some(refusal) => Obstacle { why: refusal.to_string(), remedy: String::new() },
        None => Obstacle {
            why: format!("{}: it is not linked with {LIBRARY}", file.display()),
            remedy: "compile it with oshcc".into(),
        },
    })
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
fn by_program(_: &Path) -> Option<Obstacle> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn args(options: &str) -> RunArgs {
        let words = format!("angara -n 2 -x LD_PRELOAD= {options} true");
        crate::oshrun::run_args(words.split_whitespace().map(OsString::from).collect()).expect("valid")
    }

    #[test]
    fn options_that_need_processes_are_named() {
        for (options, named) in [
            ("", "time is virtual"),
            ("--clock wall --debug 1", "time is virtual"),
            ("--clock virtual --debug 1", "--debug "),
            ("--clock virtual --wrap 0 valgrind", "--wrap "),
            ("--clock virtual --virtual-tsc", "--virtual-tsc "),
            ("--clock virtual --check=races", "--check=races "),
            ("--clock virtual --check=calls,races", "--check=races "),
            ("--clock virtual --compute measured:2", "--compute measured "),
            ("--clock virtual --compute record:f", "--compute record "),
            ("--clock virtual --compute replay:f", "--compute replay "),
            ("--clock virtual -x LD_PRELOAD=/x/liby.so", "LD_PRELOAD=/x/liby.so "),
        ] {
            let found = by_options(&args(options), false).unwrap_or_else(|| panic!("{options}: nothing"));
            assert!(found.why.contains(named), "{options}: {found:?}");
            assert!(!found.remedy.is_empty());
        }
        assert!(by_options(&args("--clock virtual"), true).is_some_and(|o| o.why.contains("MPI")));
    }

    #[test]
    fn other_options_are_no_obstacle() {
        for options in [
            "",
            "--compute none",
            "--compute fixed:10",
            "--seed 3",
            "--check=calls",
            "--label --report r.json --capture c.pcapng --record r.atr",
            "--web --patience 3 --call-cost 5 --timeout 3",
        ] {
            assert_eq!(by_options(&args(&format!("--clock virtual {options}")), false), None, "{options}");
        }
    }

    #[test]
    fn auto_falls_back_where_coroutines_are_refused() {
        let program = Path::new("/dev/null");
        let how = |options: &str| decide(&args(&format!("--quiet {options}")), program, false);
        assert_eq!(how("--clock virtual").expect("the default"), PesAs::Processes);
        assert_eq!(how("--clock virtual --pes-as auto").expect("a fallback"), PesAs::Processes);
        assert_eq!(how("--pes-as auto").expect("a fallback"), PesAs::Processes);
        let refused = how("--clock virtual --pes-as coroutines").expect_err("no program");
        assert_eq!(refused.code, 2);
        assert!(refused.message.contains("/dev/null"), "{}", refused.message);
        assert!(refused.remedy.contains("--pes-as processes"), "{}", refused.remedy);
        let refused = how("--clock virtual --pes-as coroutines --debug 0").expect_err("a debugger");
        assert!(refused.message.contains("--debug") && refused.remedy.contains("leave --debug out"));
    }

    #[test]
    fn a_program_of_another_library_is_named() {
        // This test: dynamic, position-independent, with threads.
        let own = std::env::current_exe().expect("a file");
        let why = by_program(&own).expect("it is no OpenSHMEM program").why;
        assert!(why.contains(&own.display().to_string()), "{why}");
    }
}
