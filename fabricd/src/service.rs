//! What a service manager such as systemd hands over and wants to know: listening sockets, readiness,
//! and signs of life. Without one, all of this does nothing.

use crate::dataplane::Handle;
use rustix::net::{AddressFamily, SocketType};
use sd_notify::NotifyState;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::time::Duration;

/// Sockets made by the service manager, which keeps them while the daemon restarts.
pub(crate) struct Sockets {
    /// Where the `angara` command connects.
    pub(crate) control: UnixListener,
    /// Where programs connect.
    pub(crate) adapter: OwnedFd,
}

/// Takes over what `LISTEN_FDS` names: a stream and a SEQPACKET socket, in any order.
pub(crate) fn sockets() -> io::Result<Option<Sockets>> {
    let mut given = listenfd::ListenFd::from_env();
    let (family, kind) = (i32::from(AddressFamily::UNIX.as_raw()), SocketType::SEQPACKET.as_raw() as i32);
    let (mut control, mut adapter) = (None, None);
    for index in 0..given.len() {
        match given.take_unix_listener(index) {
            Ok(listener) => control = listener.or(control),
            Err(_) => adapter = given.take_custom(index, family, kind, "unix stream or SEQPACKET socket")?.or(adapter),
        }
    }
    match (given.len(), control, adapter) {
        (0, ..) => Ok(None),
        (2, Some(control), Some(adapter)) => {
            control.set_nonblocking(true)?;
            rustix::io::ioctl_fionbio(&adapter, true)?;
            Ok(Some(Sockets { control, adapter }))
        }
        (n, ..) => Err(io::Error::other(format!(
            "the service manager passed {n} sockets; a ListenStream= and a ListenSequentialPacket= are due, \
             as in fabricd.socket"
        ))),
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot reach the service manager");
    }
}

/// Requests are served from now on.
pub(crate) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Jobs are being ended.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Reports life as often as the service manager wants (`WATCHDOG_USEC`), each time after the data plane
/// has answered: a control plane that runs while nothing is carried is no life.
pub(crate) async fn watchdog(data: Handle) {
    let Some(limit) = sd_notify::watchdog_enabled().filter(|limit| *limit > Duration::ZERO) else { return };
    let mut turn = tokio::time::interval(limit / 3);
    // After a standstill the turns missed are not made up for: nobody may be reading.
    turn.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        turn.tick().await;
        if data.call(|_| ()).await.is_err() {
            return;
        }
        tell(&[NotifyState::Watchdog]);
    }
}
