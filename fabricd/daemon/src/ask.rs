//! Questions to the data plane, for tasks of the control plane.

use crate::failure::failure;
use angara_plane::{Command, Dead, Handle, Reply};
use angara_protocol::msg::Failure;
use tokio::sync::oneshot;

/// Has the data plane do something, and waits for the outcome.
pub(crate) async fn ask<T: Send + 'static>(
    data: &Handle,
    command: impl FnOnce(Reply<T>) -> Command,
) -> Result<T, Dead> {
    let (outcome, done) = oneshot::channel();
    // Whoever asks may have given up; the work is done all the same.
    data.send(command(Reply::new(move |value| drop(outcome.send(value)))))?;
    done.await.map_err(|_| Dead)
}

/// Has the data plane do something, some time.
pub(crate) fn tell(data: &Handle, command: Command) {
    // Fails only while the daemon ends.
    let _ = data.send(command);
}

/// Returns what whoever asked for something is told if the data plane has ended.
pub(crate) fn dead(dead: Dead) -> Failure {
    failure(dead.to_string(), "restart the daemon")
}
