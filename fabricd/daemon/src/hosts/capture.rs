//! Capturing here for somebody who asked the daemon of another host.

use super::protocol::{Answer, Ask, Tell};
use crate::daemon::Daemon;
use crate::users::accounts;
use angara_net::HostId;
use angara_protocol::msg::{CaptureSpec, Failure};
use std::rc::Rc;
use std::time::Duration;

/// How long the end of a capture may take. Whoever has gone takes nothing more.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// How long a look at another host's clock may take. One that takes so long says little.
const LOOK: Duration = Duration::from_secs(2);

impl Daemon {
    /// Captures for a user, by number and name, what she may hear of here. What the stream does not take waits in the
    /// capture's own buffer, and is dropped and counted when that is full.
    pub(super) async fn capture_for(
        self: &Rc<Self>,
        from: HostId,
        (uid, user): (u32, Option<String>),
        spec: &CaptureSpec,
        stream: u64,
    ) -> Result<(), Failure> {
        let here = self.machine.user(uid).await;
        accounts::check_same(uid, user.as_deref(), here.as_deref())?;
        let capture = self.capture(uid, spec).await?;
        let mut incoming = self.cluster.streams.open(stream, from);
        let daemon = self.clone();
        tokio::task::spawn_local(async move {
            let Some(messages) = &daemon.cluster.messages else { return };
            let hand_out = async {
                while let Some(bytes) = capture.take().await {
                    if !daemon.cluster.streams.send(messages, stream, &bytes).await {
                        return;
                    }
                }
            };
            let ended = async {
                while incoming.recv().await.is_some() {}
                capture.end();
                tokio::time::sleep(LAST_WORDS).await;
            };
            tokio::select! {
                () = hand_out => {}
                () = ended => {}
            }
            messages.tell(&[from], &Tell::StreamEnd(stream));
            daemon.cluster.streams.close(stream);
        });
        Ok(())
    }

    /// Returns what the clock shows by which another host captures, or this one.
    pub(crate) async fn clock(&self, host: Option<HostId>) -> Result<u64, Failure> {
        let (Some(messages), Some(host)) = (&self.cluster.messages, host) else { return Ok(self.machine.wall()) };
        match messages.ask_within(host, Ask::Clock, LOOK).await? {
            Answer::Clock(ns) => Ok(ns),
            _ => Err(messages.unreachable(host, "it answers something else")),
        }
    }
}
