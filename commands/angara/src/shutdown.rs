//! `angara shutdown`: ends a daemon and every job on it.

use crate::shared::WhereArgs;
use angara_control::daemon::{Control, block_on, runtime_dir, unexpected};
use angara_control::error::{Failed, say};
use angara_protocol::msg::{Reply, Request};

/// Ends a daemon.
pub(crate) fn main(args: WhereArgs) -> Result<u8, Failed> {
    let dir = runtime_dir(&args.runtime_dir);
    block_on(async {
        let mut control = Control::connect(&dir)?;
        let status = control.status().await?;
        match control.request(&Request::Shutdown).await? {
            Reply::Ok => {}
            other => return Err(unexpected(&other)),
        }
        // It closes the connection when it has cleaned up.
        while control.event().await.is_some() {}
        say!("ended the daemon in {} (pid {})", dir.display(), status.pid)?;
        Ok(0)
    })
}
