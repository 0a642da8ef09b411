//! A rank that Open MPI's `mpirun` starts, done by a hidden mode of this program: it takes the place in the job that the rank
//! has in MPI, writes where the launcher reads, and becomes the program.

use crate::run::processes::wrap::{self, Wrap};
use angara_control::exec::{become_program, bind};
use angara_control::install::ENV_PRELOAD;
use angara_protocol::launch::ENV_PE;
use angara_protocol::modes::RANK;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::exit;

/// Where `mpirun` says which rank a process is, the first one that is set.
const NUMBERS: [&str; 2] = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK"];

/// What all ranks are told.
#[derive(Serialize, Deserialize)]
pub struct Rank {
    /// Process id of the launcher.
    pub launcher: u32,
    /// Descriptors of the launcher into which each rank writes its output and its errors.
    pub outputs: Vec<[i32; 2]>,
    /// Cores of each rank, if they are bound.
    pub cores: Option<Vec<Vec<usize>>>,
    /// The program.
    file: Vec<u8>,
    /// Commands that start it on some ranks.
    pub wraps: Vec<Wrap>,
    /// Libraries that the loader puts before its own, and before nobody else's: `mpirun` is no PE.
    preload: Option<Vec<u8>>,
}

impl Rank {
    /// The arguments that select this mode.
    pub fn arguments(
        file: &Path,
        outputs: Vec<[i32; 2]>,
        cores: Option<Vec<Vec<usize>>>,
        wraps: &[Wrap],
        preload: Option<&OsStr>,
    ) -> [OsString; 2] {
        let file = file.as_os_str().as_bytes().to_vec();
        let preload = preload.map(|all| all.as_bytes().to_vec());
        let rank = Rank { launcher: std::process::id(), outputs, cores, file, wraps: wraps.to_vec(), preload };
        [RANK.into(), serde_json::to_string(&rank).expect("plain data").into()]
    }
}

/// Becomes the program of `rank`, a [`Rank`] as JSON, with this `argv`.
pub fn main(rank: &str, argv: &[OsString]) -> ! {
    let Ok(told) = serde_json::from_str::<Rank>(rank) else {
        angara_protocol::complain!("angara: `{RANK}` is internal, and its arguments are wrong; use `angara run`");
        exit(2)
    };
    let number = NUMBERS.iter().find_map(|name| std::env::var(name).ok()?.parse::<u32>().ok());
    let Some(pe) = number.filter(|pe| (*pe as usize) < told.outputs.len()) else {
        angara_protocol::complain!("angara: mpirun does not say which rank this is ({})", NUMBERS.join(", "));
        exit(1)
    };
    // A launcher that is killed takes mpirun with it, and that its ranks.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if getppid().map(Pid::as_raw_pid) == Some(told.launcher as i32) {
        // Inherited already.
        exit(1)
    }
    if let Some(cores) = told.cores.as_ref().and_then(|all| all.get(pe as usize)) {
        bind(cores);
    }
    let outputs = told.outputs[pe as usize].map(|fd| open(told.launcher, fd));
    let file = OsString::from_vec(told.file);
    let (file, argv) = wrap::command(&told.wraps, pe, Path::new(&file), argv);
    let preload = told.preload.map(|all| (ENV_PRELOAD, OsString::from_vec(all)));
    let variables: Vec<_> = preload.into_iter().chain([(ENV_PE, pe.to_string().into())]).collect();
    become_program(&file, &argv, &variables, outputs)
}

/// A pipe of the launcher; without it mpirun passes on what the rank writes, as it does by itself.
fn open(launcher: u32, fd: i32) -> Option<File> {
    OpenOptions::new().write(true).open(format!("/proc/{launcher}/fd/{fd}")).ok()
}
