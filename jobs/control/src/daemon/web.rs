//! The token that opens a daemon's page.

use crate::error::Failed;
use angara_protocol::launch::{CONTROL_TOKEN, READ_TOKEN};
use std::path::Path;

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
