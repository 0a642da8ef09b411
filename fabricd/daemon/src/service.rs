//! What a service manager such as systemd hands over and wants to know: listening sockets, readiness,
//! and signs of life. Without one, all of this does nothing.

use crate::ask::ask;
use angara_plane::{Command, Handle};
use rustix::net::{AddressFamily, SocketType};
use sd_notify::NotifyState;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::time::Duration;

/// Words kept for a service manager that does not read.
const WORDS_MAX: usize = 4;
/// How long the last word may take.
const LAST_WORD: Duration = Duration::from_secs(1);

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

enum Word {
    Ready(String),
    Alive,
    Stopping,
}

impl Word {
    fn say(&self) -> io::Result<()> {
        match self {
            Word::Ready(status) => sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(status)]),
            Word::Alive => sd_notify::notify(&[NotifyState::Watchdog]),
            Word::Stopping => sd_notify::notify(&[NotifyState::Stopping]),
        }
    }
}

/// What tells the service manager. Its socket takes only so much while it does not read, and then whoever sends waits: a
/// thread of its own, and nobody else.
pub(crate) struct Notifier {
    /// `None`: nobody wants to be told.
    words: Option<SyncSender<Word>>,
    /// Closed when the thread has said its last word.
    done: Receiver<()>,
}

impl Notifier {
    pub(crate) fn new() -> io::Result<Notifier> {
        let (words, heard) = sync_channel::<Word>(WORDS_MAX);
        let (ended, done) = channel::<()>();
        if std::env::var_os("NOTIFY_SOCKET").is_none() {
            return Ok(Notifier { words: None, done });
        }
        let body = move || {
            let _ended = ended;
            for word in heard {
                if let Err(error) = word.say() {
                    tracing::warn!(%error, "cannot reach the service manager");
                }
                if matches!(word, Word::Stopping) {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("notifier".into()).spawn(body)?;
        Ok(Notifier { words: Some(words), done })
    }

    /// A word for which there is no room is left out: there are others the manager has not read yet.
    fn tell(&self, word: Word) {
        if let Some(words) = &self.words {
            let _ = words.try_send(word);
        }
    }

    /// Requests are served from now on.
    pub(crate) fn ready(&self, status: String) {
        self.tell(Word::Ready(status));
    }

    /// Jobs are being ended.
    pub(crate) fn stopping(&self) {
        self.tell(Word::Stopping);
    }

    /// Waits until all of that is said, if the manager reads it soon.
    pub(crate) fn finish(&self) {
        // Either way the daemon ends now.
        let _ = self.done.recv_timeout(LAST_WORD);
    }

    /// Reports life as often as the service manager wants (`WATCHDOG_USEC`), each time after the data plane
    /// has answered: a control plane that runs while nothing is carried is no life.
    pub(crate) async fn watchdog(self: Rc<Self>, data: Handle) {
        let Some(limit) = sd_notify::watchdog_enabled().filter(|limit| *limit > Duration::ZERO) else { return };
        let mut turn = tokio::time::interval(limit / 3);
        // After a standstill the turns missed are not made up for.
        turn.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            turn.tick().await;
            if ask(&data, Command::Ping).await.is_err() {
                return;
            }
            self.tell(Word::Alive);
        }
    }
}
