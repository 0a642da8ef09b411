//! `angara web`: where a daemon's page is, and the token that opens it.

use crate::shared::WhereArgs;
use angara_control::daemon::web::with_token;
use angara_control::daemon::{Control, block_on, runtime_dir};
use angara_control::error::{Failed, say};
use clap::Args;

/// Arguments of `angara web`.
#[derive(Args)]
pub(crate) struct WebArgs {
    /// A URL for observers, who cannot set faults; the default
    #[arg(long)]
    read: bool,
    /// A URL for who may also cut and mend links and nodes
    #[arg(long, conflicts_with = "read")]
    faults: bool,
    #[command(flatten)]
    at: WhereArgs,
}

/// Prints it.
pub(crate) fn main(args: WebArgs) -> Result<u8, Failed> {
    let dir = runtime_dir(&args.at.runtime_dir);
    block_on(async {
        let status = Control::connect(&dir)?.status().await?;
        let url = status.web.ok_or_else(|| {
            Failed::runtime(
                format!("the daemon in {} (pid {}) has no page", dir.display(), status.pid),
                "start it with one: fabricd --torus 2x2x2 --web 127.0.0.1:8290, or run a job with `angara run --web`",
            )
        })?;
        say!("{}", with_token(&url, &dir, args.read || !args.faults)?)?;
        Ok(0)
    })
}
