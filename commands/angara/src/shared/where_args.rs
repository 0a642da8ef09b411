//! The option that says which daemon a command talks to.

use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// Which daemon a command talks to.
#[derive(Args, Clone, Default)]
pub struct WhereArgs {
    /// Runtime directory of the daemon [default: $ANGARA_RUNTIME_DIR, $XDG_RUNTIME_DIR/angara or /tmp/angara-UID]
    #[arg(long, value_name = "DIR")]
    pub runtime_dir: Option<PathBuf>,
}

impl WhereArgs {
    /// The same for an `angara run` that is started.
    pub fn to_args(&self) -> Vec<OsString> {
        self.runtime_dir.iter().flat_map(|dir| ["--runtime-dir".into(), dir.into()]).collect()
    }
}
