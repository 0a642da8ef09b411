//! Variables through which a launcher tells processes about their job.

use crate::trust;
use angara_abi::JobId;
use std::ffi::OsString;
use std::path::PathBuf;

/// Runtime directory of the daemon: holds [`ADAPTER_SOCKET`] and [`CONTROL_SOCKET`].
pub const ENV_RUNTIME_DIR: &str = "ANGARA_RUNTIME_DIR";
/// Job id.
pub const ENV_JOB: &str = "ANGARA_JOB";
/// Job key, 32 hexadecimal digits.
pub const ENV_KEY: &str = "ANGARA_KEY";
/// This process's PE.
pub const ENV_PE: &str = "ANGARA_PE";
/// Number of PEs.
pub const ENV_PES: &str = "ANGARA_NPES";
/// Seconds a wait may last without progress before it is reported as stuck; 0 or unset: for ever.
pub const ENV_TIMEOUT: &str = "ANGARA_TIMEOUT";

/// Exit status of a PE that ends because its job has ended, as if SIGTERM had killed it: never why a job ends.
pub const ENDED_WITH_JOB: i32 = 128 + 15;
/// SEQPACKET socket clients attach through: one JSON message per datagram, descriptors beside it.
pub const ADAPTER_SOCKET: &str = "adapter.sock";
/// Stream socket of the JSON-lines control protocol.
pub const CONTROL_SOCKET: &str = "control.sock";
/// File in the runtime directory that a live daemon holds locked; contains its pid.
pub const LOCK_FILE: &str = "fabricd.lock";
/// File in the runtime directory with the token by which a page or a scraper may read.
pub const READ_TOKEN: &str = "read.token";
/// File in the runtime directory with the token by which a page may also set and clear faults.
pub const CONTROL_TOKEN: &str = "control.token";
/// Start of the names of private daemons' directories, which `angara run` chooses.
pub const PRIVATE_PREFIX: &str = "angara-run-";

/// Where a daemon of this user listens unless told otherwise: `$ANGARA_RUNTIME_DIR`,
/// `$XDG_RUNTIME_DIR/angara`, or `/tmp/angara-UID`. Who connects there checks whose it is, see [`trust`].
pub fn default_runtime_dir() -> PathBuf {
    if let Some(dir) = trust::var_os(ENV_RUNTIME_DIR).filter(|d| !d.is_empty()) {
        return PathBuf::from(dir);
    }
    if let Some(dir) = trust::var_os("XDG_RUNTIME_DIR").filter(|d| !d.is_empty()) {
        return PathBuf::from(dir).join("angara");
    }
    PathBuf::from(format!("/tmp/angara-{}", rustix::process::geteuid().as_raw()))
}

/// Where private daemons put their directories, and may have left some: a directory of this user alone, and one where
/// nobody can move what is another user's.
pub fn private_parents() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    // After `su` it may be that of somebody else, who could put something of his own in place of what is made there.
    let mine = |dir: &PathBuf| {
        rustix::fs::stat(dir).is_ok_and(|s| s.st_uid == rustix::process::geteuid().as_raw() && !trust::others_write(&s))
    };
    own.into_iter().filter(|d| d.is_absolute()).filter(mine).chain([PathBuf::from("/tmp")]).collect()
}

/// A place in a job, as the environment gives it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    /// Runtime directory of the daemon.
    pub runtime_dir: PathBuf,
    /// Job id.
    pub job: JobId,
    /// Job key, 32 hexadecimal digits.
    pub key: String,
    /// This process's PE, from 0.
    pub pe: u32,
    /// Number of PEs.
    pub pes: u32,
}

/// Why the environment does not name a place in a job.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LaunchError {
    /// Not started by a launcher.
    #[error("not started by a launcher ({ENV_JOB} is not set); start the program with `angara run -n N PROGRAM`")]
    NoLauncher,
    /// Half a launch environment.
    #[error("environment variable {0} is missing or malformed: {1:?}; start the program with `angara run`")]
    Bad(&'static str, Option<OsString>),
    /// Whoever set the environment has fewer rights than this program.
    #[error(
        "{0} is set, but this program has rights that whoever started it lacks (setuid, setgid or file capabilities), so \
         it joins no job at the wish of its environment; start a copy without these rights"
    )]
    Privileged(&'static str),
}

impl Launch {
    /// Reads the environment of this process.
    pub fn from_env() -> Result<Launch, LaunchError> {
        if std::env::var_os(ENV_JOB).is_none() {
            return Err(LaunchError::NoLauncher);
        }
        if trust::is_privileged() {
            return Err(LaunchError::Privileged(ENV_JOB));
        }
        fn parse<T: std::str::FromStr>(name: &'static str) -> Result<T, LaunchError> {
            let value = std::env::var_os(name);
            value.as_ref().and_then(|v| v.to_str()).and_then(|v| v.parse().ok()).ok_or(LaunchError::Bad(name, value))
        }
        Ok(Launch {
            runtime_dir: default_runtime_dir(),
            job: parse(ENV_JOB)?,
            key: parse(ENV_KEY)?,
            pe: parse(ENV_PE)?,
            pes: parse(ENV_PES)?,
        })
    }

    /// The variables to set for a process.
    pub fn to_env(&self) -> [(&'static str, OsString); 5] {
        [
            (ENV_RUNTIME_DIR, self.runtime_dir.clone().into_os_string()),
            (ENV_JOB, self.job.to_string().into()),
            (ENV_KEY, self.key.clone().into()),
            (ENV_PE, self.pe.to_string().into()),
            (ENV_PES, self.pes.to_string().into()),
        ]
    }
}
