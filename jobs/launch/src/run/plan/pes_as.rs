//! What PEs are: processes, or coroutines of one process. Decided before anything is started, by the options and by the
//! program's file.

use crate::run::options::{Check, Clock, Options, PesAs};
use angara_control::error::Failed;
use angara_control::install::ENV_PRELOAD;
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
pub(super) fn decide(args: &Options, program: &Path, mpi: bool) -> Result<PesAs, Failed> {
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
fn by_options(args: &Options, mpi: bool) -> Option<Obstacle> {
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
    use crate::run::options::Change;
    use std::ffi::OsString;

    /// A job in virtual time, in which no library is preloaded, with what `change` asks for.
    fn asked(change: impl FnOnce(&mut Options)) -> Options {
        let mut options = Options {
            clock: Clock::Virtual,
            env: vec![("LD_PRELOAD".into(), OsString::new())],
            quiet: true,
            ..Options::new(2, vec!["true".into()])
        };
        change(&mut options);
        options
    }

    #[test]
    fn options_that_need_processes_are_named() {
        let cases: [(&str, Change); 11] = [
            ("time is virtual", |o| o.clock = Clock::Wall),
            ("time is virtual", |o| (o.clock, o.debug) = (Clock::Wall, Some(1))),
            ("--debug ", |o| o.debug = Some(1)),
            ("--wrap ", |o| o.wrap = vec!["0".into(), "valgrind".into()]),
            ("--virtual-tsc ", |o| o.virtual_tsc = true),
            ("--check=races ", |o| o.check = vec![Check::Races]),
            ("--check=races ", |o| o.check = vec![Check::Calls, Check::Races]),
            ("--compute measured ", |o| o.compute = Some("measured:2".parse().expect("a way"))),
            ("--compute record ", |o| o.compute = Some("record:f".parse().expect("a way"))),
            ("--compute replay ", |o| o.compute = Some("replay:f".parse().expect("a way"))),
            ("LD_PRELOAD=/x/liby.so ", |o| o.env.push(("LD_PRELOAD".into(), "/x/liby.so".into()))),
        ];
        for (named, change) in cases {
            let found = by_options(&asked(change), false).unwrap_or_else(|| panic!("{named}: nothing"));
            assert!(found.why.contains(named), "{named}: {found:?}");
            assert!(!found.remedy.is_empty());
        }
        assert!(by_options(&asked(|_| ()), true).is_some_and(|o| o.why.contains("MPI")));
    }

    #[test]
    fn other_options_are_no_obstacle() {
        let cases: [Change; 7] = [
            |_| (),
            |o| o.compute = Some("none".parse().expect("a way")),
            |o| o.compute = Some("fixed:10".parse().expect("a way")),
            |o| o.seed = Some(3),
            |o| o.check = vec![Check::Calls],
            |o| {
                (o.label, o.report, o.capture) = (true, Some("r.json".into()), Some("c.pcapng".into()));
                o.record = Some("r.atr".into());
            },
            |o| {
                (o.web, o.patience) = (Some("127.0.0.1:0".into()), Some("3".parse().expect("seconds")));
                (o.call_cost, o.timeout) = (Some(5.0), Some(std::time::Duration::from_secs(3)));
            },
        ];
        for (number, change) in cases.into_iter().enumerate() {
            assert_eq!(by_options(&asked(change), false), None, "case {number}");
        }
    }

    #[test]
    fn auto_falls_back_where_coroutines_are_refused() {
        let program = Path::new("/dev/null");
        let how = |change: Change| decide(&asked(change), program, false);
        assert_eq!(how(|_| ()).expect("the default"), PesAs::Processes);
        assert_eq!(how(|o| o.pes_as = PesAs::Auto).expect("a fallback"), PesAs::Processes);
        let on_the_wall = how(|o| (o.clock, o.pes_as) = (Clock::Wall, PesAs::Auto));
        assert_eq!(on_the_wall.expect("a fallback"), PesAs::Processes);
        let refused = how(|o| o.pes_as = PesAs::Coroutines).expect_err("no program");
        assert_eq!(refused.code, 2);
        assert!(refused.message.contains("/dev/null"), "{}", refused.message);
        assert!(refused.remedy.contains("--pes-as processes"), "{}", refused.remedy);
        let refused = how(|o| (o.pes_as, o.debug) = (PesAs::Coroutines, Some(0))).expect_err("a debugger");
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
