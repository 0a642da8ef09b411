//! The socket to the launcher: lines from it, on a thread of their own, and lines to it from anywhere.

use angara_protocol::inside::{ENV_DESCRIPTORS, FromPes, ToPes};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

/// The way to the launcher.
#[derive(Clone)]
pub(crate) struct Link(Arc<Mutex<UnixStream>>);

/// What this process was started with: the socket, and where the daemon's log goes.
pub(crate) fn inherited() -> Result<(UnixStream, File), String> {
    let text = std::env::var(ENV_DESCRIPTORS).map_err(|_| "this program is started by `angara run`".to_string())?;
    let wrong = || format!("{ENV_DESCRIPTORS}={text}: not two descriptors; this program is started by `angara run`");
    let numbers: Vec<RawFd> = text.split(',').filter_map(|n| n.parse().ok()).collect();
    let &[socket, log] = &numbers[..] else { return Err(wrong()) };
    let own = |fd: RawFd| {
        // SAFETY: a descriptor that the launcher made for this process alone, taken once; one that is none is refused.
        let fd = (fd > 2).then(|| unsafe { OwnedFd::from_raw_fd(fd) }).ok_or_else(wrong)?;
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC).map_err(|e| format!("{}: {e}", wrong()))?;
        Ok::<OwnedFd, String>(fd)
    };
    Ok((UnixStream::from(own(socket)?), File::from(own(log)?)))
}

impl Link {
    /// Of a socket.
    pub(crate) fn new(stream: &UnixStream) -> io::Result<Link> {
        Ok(Link(Arc::new(Mutex::new(stream.try_clone()?))))
    }

    /// Says something. A launcher that has gone ends this process by its daemon's other connection.
    pub(crate) fn say(&self, word: &FromPes) {
        let mut line = serde_json::to_vec(word).expect("plain data");
        line.push(b'\n');
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line);
    }
}

impl Link {
    /// Says why there will be no PEs, and what helps.
    pub(crate) fn refuse(&self, why: String, remedy: String) {
        self.say(&FromPes::Refused(why, remedy));
        close_outputs();
    }
}

/// Nothing will be written any more: the launcher sees the end of both outputs.
pub(crate) fn close_outputs() {
    let nowhere = rustix::fs::open("/dev/null", rustix::fs::OFlags::WRONLY, rustix::fs::Mode::empty());
    if let Ok(nowhere) = nowhere {
        // Where that fails they close with the process.
        let _ = rustix::stdio::dup2_stdout(&nowhere).and_then(|()| rustix::stdio::dup2_stderr(&nowhere));
    }
}

/// Hears the launcher until it goes.
pub(crate) fn hear(stream: UnixStream, mut each: impl FnMut(ToPes)) {
    let mut lines = BufReader::new(stream);
    let mut line = Vec::new();
    while let Ok(1..) = lines.read_until(b'\n', &mut line) {
        match serde_json::from_slice(&line) {
            Ok(word) => each(word),
            Err(e) => tracing::error!(error = %e, "the launcher is of another version"),
        }
        line.clear();
    }
}
