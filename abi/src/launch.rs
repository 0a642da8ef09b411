//! What a launcher tells the processes it starts, through the environment.

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

/// SEQPACKET socket clients attach through: one JSON message per datagram, descriptors beside it.
pub const ADAPTER_SOCKET: &str = "adapter.sock";
/// Stream socket of the JSON-lines control protocol.
pub const CONTROL_SOCKET: &str = "control.sock";
/// File in the runtime directory that a live daemon holds locked; contains its pid.
pub const LOCK_FILE: &str = "fabricd.lock";

/// Where a daemon of this user listens unless told otherwise: `$ANGARA_RUNTIME_DIR`,
/// `$XDG_RUNTIME_DIR/angara`, or `/tmp/angara-UID`.
pub fn default_runtime_dir() -> PathBuf {
    if let Some(dir) = std::env::var_os(ENV_RUNTIME_DIR).filter(|d| !d.is_empty()) {
        return PathBuf::from(dir);
    }
    if let Some(dir) = std::env::var_os("XDG_RUNTIME_DIR").filter(|d| !d.is_empty()) {
        return PathBuf::from(dir).join("angara");
    }
    PathBuf::from(format!("/tmp/angara-{}", rustix::process::getuid().as_raw()))
}

/// A place in a job, as the environment gives it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    /// Runtime directory of the daemon.
    pub runtime_dir: PathBuf,
    /// Job id.
    pub job: u32,
    /// Job key.
    pub key: String,
    /// This process's PE.
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
}

impl Launch {
    /// Reads the environment of this process.
    pub fn from_env() -> Result<Launch, LaunchError> {
        if std::env::var_os(ENV_JOB).is_none() {
            return Err(LaunchError::NoLauncher);
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
