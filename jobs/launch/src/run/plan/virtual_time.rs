//! What the options say of virtual time.

use crate::run::options::{Clock, Options, PesAs};
use angara_abi::program_clock::{ENV_SEED, ENV_TSC};
use angara_control::cores::{Bind, Cores};
use angara_control::error::Failed;
use angara_protocol::absence::Patience;
use angara_protocol::msg::Path as EnginePath;
use angara_protocol::recording;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// What Python's hashes of texts begin with.
const ENV_HASHES: &str = "PYTHONHASHSEED";

/// How a job runs in virtual time.
pub struct VirtualPlan {
    /// The core of everything: PEs and the daemon take turns.
    pub core: Option<usize>,
    /// Nanoseconds of a call of the library.
    call_cost: Option<f64>,
    /// Of delays.
    seed: Option<u64>,
    /// With PEs that do not come back.
    patience: Option<Patience>,
    /// What it goes for is noted, for a report or for tracks of links.
    noted: bool,
    /// File of a recording.
    record: Option<PathBuf>,
}

impl VirtualPlan {
    /// Of the options, if they ask for it and nothing contradicts.
    pub(super) fn new(args: &Options) -> Result<Option<VirtualPlan>, Failed> {
        check_record(args)?;
        if args.clock == Clock::Wall {
            let given = [
                (args.call_cost.is_some(), "--call-cost"),
                (args.compute.is_some(), "--compute"),
                (args.seed.is_some(), "--seed"),
                (args.seeds.is_some(), "--seeds"),
                (args.patience.is_some(), "--patience"),
                (args.strict, "--strict"),
                (args.virtual_tsc, "--virtual-tsc"),
                (args.pes_as == PesAs::Coroutines, "--pes-as coroutines"),
            ];
            return match given.iter().find(|given| given.0) {
                Some((_, option)) => {
                    let why = format!("{option} is for virtual time");
                    Err(Failed::usage(why, "add --clock virtual, or leave it out"))
                }
                None => Ok(None),
            };
        }
        let contradicts = [
            (args.cluster.is_some(), "--cluster"),
            (args.runtime_dir.is_some(), "--runtime-dir"),
            (args.path == EnginePath::Direct, "--path direct"),
        ];
        if let Some((_, option)) = contradicts.iter().find(|c| c.0) {
            let why = format!("{option} cannot be had in virtual time: a daemon of this run's own carries everything");
            return Err(Failed::usage(why, format!("leave {option} out, or --clock virtual")));
        }
        if args.virtual_tsc && !cfg!(target_arch = "x86_64") {
            let why = format!("--virtual-tsc is for x86-64 processors, and this is {}", std::env::consts::ARCH);
            return Err(Failed::usage(why, "leave it out, and have the program read clock_gettime"));
        }
        if args.bind == Bind::Core && args.pes > 1 {
            let why = "--bind core: in virtual time PEs take turns, all on one core";
            return Err(Failed::usage(why, "leave it out, or give --bind none to let them wander"));
        }
        let core = Cores::here().allowed.last().copied().filter(|_| args.bind != Bind::None);
        let (call_cost, noted) = (args.call_cost, args.report.is_some() || args.trace_links.is_some());
        // The daemon may be somewhere else.
        let record = args.record.as_deref().map(|file| std::path::absolute(file).unwrap_or_else(|_| file.into()));
        Ok(Some(VirtualPlan { core, call_cost, seed: args.seed, patience: args.patience, noted, record }))
    }

    /// Options of the daemon.
    pub(super) fn daemon_options(&self) -> Vec<OsString> {
        let mut options: Vec<OsString> = vec!["--clock".into(), "virtual".into()];
        if let Some(ns) = self.call_cost {
            options.extend(["--call-cost".into(), ns.to_string().into()]);
        }
        if let Some(seed) = self.seed {
            options.extend(["--seed".into(), seed.to_string().into()]);
        }
        if let Some(patience) = self.patience {
            options.extend(["--patience".into(), patience.to_string().into()]);
        }
        if self.noted {
            options.push("--times".into());
        }
        if let Some(file) = &self.record {
            options.extend(["--record".into(), file.into()]);
        }
        if let Some(core) = self.core {
            options.extend(["--cores".into(), core.to_string().into()]);
        }
        options
    }
}

/// Tells whether a run can be recorded as the options want it.
fn check_record(args: &Options) -> Result<(), Failed> {
    let Some(file) = &args.record else { return Ok(()) };
    if args.clock == Clock::Wall {
        let why = format!(
            "--record {}: with --clock wall the times of posts are those of this host's processors, and no replay could \
             be equal to the run",
            file.display()
        );
        return Err(Failed::usage(why, "add --clock virtual, or leave --record out"));
    }
    if args.seeds.is_some() {
        return Err(Failed::usage("--record is for one run, and --seeds makes many", "give --seed"));
    }
    Ok(())
}

/// Checks that a recording is whole: whoever wrote it has ended.
pub fn check_recorded(file: &Path) -> Result<(), Failed> {
    let end = || {
        let mut from = File::open(file)?;
        let mut end = [0; recording::END.len()];
        from.seek(SeekFrom::End(-(end.len() as i64)))?;
        from.read_exact(&mut end)?;
        std::io::Result::Ok(end == recording::END)
    };
    match end() {
        Ok(true) => Ok(()),
        Ok(false) | Err(_) => {
            let why = format!("the recording in {} is not complete", file.display());
            Err(Failed::runtime(why, "the disk may be full, or the daemon was ended: record the program again"))
        }
    }
}

/// Variables of what a program reads beside its clocks.
pub(super) fn what_else_is_virtual(args: &Options) -> Vec<(OsString, OsString)> {
    let mut env = Vec::new();
    let name = |name: &std::ffi::CStr| OsString::from(name.to_string_lossy().into_owned());
    if args.virtual_tsc {
        env.push((name(ENV_TSC), "1".into()));
    }
    if let Some(seed) = args.seed {
        env.push((name(ENV_SEED), seed.to_string().into()));
        if args.variable(ENV_HASHES).is_none() {
            env.push((ENV_HASHES.into(), (seed as u32).to_string().into()));
        }
    }
    env
}
