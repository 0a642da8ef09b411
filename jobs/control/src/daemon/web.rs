//! `angara web`: where a daemon's page is, and the token that opens it.

use super::{Control, WhereArgs, block_on, runtime_dir};
use crate::error::{Failed, say};
use angara_protocol::launch::{CONTROL_TOKEN, READ_TOKEN};
use clap::Args;
use std::path::Path;

/// Arguments of `angara web`.
#[derive(Args)]
pub struct WebArgs {
    /// A URL for observers, who cannot set faults
    #[arg(long)]
    read: bool,
    #[command(flatten)]
    at: WhereArgs,
}

/// Prints it.
pub fn main(args: WebArgs) -> Result<u8, Failed> {
    let dir = runtime_dir(&args.at.runtime_dir);
    block_on(async {
        let status = Control::connect(&dir)?.status().await?;
        let url = status.web.ok_or_else(|| {
            Failed::runtime(
                format!("the daemon in {} (pid {}) has no page", dir.display(), status.pid),
                "start it with one: fabricd --torus 2x2x2 --web 127.0.0.1:8290, or run a job with `angara run --web`",
            )
        })?;
        say!("{}", with_token(&url, &dir, args.read)?)?;
        Ok(0)
    })
}

/// The URL of a page with a token of the daemon in `dir`.
pub fn with_token(url: &str, dir: &Path, read: bool) -> Result<String, Failed> {
    let file = dir.join(if read { READ_TOKEN } else { CONTROL_TOKEN });
    let token = std::fs::read_to_string(&file).map_err(|e| {
        Failed::runtime(
            format!("cannot read the token of the page in {}: {e}", file.display()),
            "ask as the user who runs the daemon; nobody else may read it",
        )
    })?;
    Ok(format!("{url}#token={}", token.trim()))
}
