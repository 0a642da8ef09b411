//! Open jobs: domains that processes join by name, without a launcher.
//!
//! A domain belongs to a user and a daemon. It is made when the first process joins it and ends after the last has left.
//! Its PEs are *seats*, each a channel at a node: a process takes a free one, is reached by the others as any PE, and leaves
//! when it likes or is lost, which concerns nobody else. The next process at a seat is another *generation* of it
//! ([`angara_abi::job::Seat::life`]); what is meant for the one must not be given to the other. There are no barriers, no
//! trees and no static data. Memory of a seat is zero for whoever comes.
//!
//! ```no_run
//! use angara::open::Join;
//! let joined = Join::from_env(64 << 20)?.join()?;
//! println!("seat {} of {}", joined.job.my_pe(), joined.job.n_pes());
//! # Ok::<(), angara::Error>(())
//! ```

use super::connection::Connection;
use crate::driver::Adapter;
use crate::error::{Error, Result};
use crate::job::Job;
use angara_protocol::launch::{LaunchError, default_runtime_dir};
use angara_protocol::msg::{AdapterRequest, Path};
use angara_protocol::trust::is_privileged;
use std::path::PathBuf;

/// [`ENV_DOMAIN`] names the domain to join, and is also the sign that a program shall use a daemon that nobody has told it
/// of. By [`ENV_DOMAIN_PATH`] `ring` sends everything in it through the emulated network.
pub use angara_protocol::verbs::{ENV_DOMAIN, ENV_DOMAIN_PATH};

/// The domain of those who name none.
pub const DEFAULT: &str = "default";
/// Where launchers tell a process which one of several it is.
const RANKS: [&str; 4] = ["PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"];

/// A job to join, and as whom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Join {
    /// Runtime directory of the daemon.
    pub runtime_dir: PathBuf,
    /// Name of the domain: 1 to 64 letters, digits, `-`, `_` and `.`.
    pub domain: String,
    /// Which one of several processes this is: neighbours get neighbouring nodes. Without it, the emptiest node.
    pub hint: Option<u32>,
    /// Bytes of symmetric heap that every seat needs; the first process of a domain decides.
    pub heap: usize,
    /// Bytes for registered memory ([`crate::registered`]) behind it, at most; the first process decides.
    pub registered: usize,
    /// Which engines the domain may use; the first process decides.
    pub path: Path,
}

/// A seat in a domain.
pub struct Joined {
    /// The domain, as a job whose PEs are its seats.
    pub job: Job,
    /// Another one for each domain there has ever been: 32 hexadecimal digits.
    pub key: String,
}

impl Join {
    /// As the environment says: [`ENV_DOMAIN`], [`ENV_DOMAIN_PATH`], and the rank that a launcher has given.
    pub fn from_env(heap: usize) -> Result<Join> {
        if is_privileged() {
            return Err(LaunchError::Privileged(ENV_DOMAIN).into());
        }
        let text = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let path = match text(ENV_DOMAIN_PATH).as_deref() {
            None | Some("auto") => Path::Auto,
            Some("direct") => Path::Direct,
            Some("ring") => Path::Ring,
            Some(other) => {
                return Err(Error::invalid(format!("{ENV_DOMAIN_PATH}={other:?}: use auto, direct or ring")));
            }
        };
        Ok(Join {
            runtime_dir: default_runtime_dir(),
            domain: text(ENV_DOMAIN).unwrap_or_else(|| DEFAULT.into()),
            hint: RANKS.into_iter().find_map(text).and_then(|rank| rank.parse().ok()),
            heap,
            registered: 0,
            path,
        })
    }

    /// Takes a seat. The daemon must be there: none is started.
    pub fn join(&self) -> Result<Joined> {
        let request = AdapterRequest::Join {
            abi: angara_abi::ABI_VERSION,
            domain: self.domain.clone(),
            hint: self.hint,
            heap: self.heap as u64,
            registered: self.registered as u64,
            path: self.path,
        };
        let (adapter, key) = Adapter::join(Connection::open(&self.runtime_dir, 1)?, &request)?;
        Ok(Joined { job: Job::over(adapter), key })
    }
}
