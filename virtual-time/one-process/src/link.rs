//! The socket to the launcher: lines from it, on a thread of their own, and lines to it from anywhere.

use angara_protocol::inside::{ENV_DESCRIPTORS, FromPes, ToPes};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The way to the launcher.
#[derive(Clone)]
pub(crate) struct Link(Arc<Mutex<Said>>);

struct Said {
    stream: UnixStream,
    /// For each PE, if its end has been said.
    ended: Vec<bool>,
    /// What outputs become: opened while there are descriptors.
    nowhere: Option<File>,
}

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
    pub(crate) fn new(stream: &UnixStream) -> io::Result<Link> {
        let nowhere = Some(File::options().write(true).open("/dev/null")?);
        Ok(Link(Arc::new(Mutex::new(Said { stream: stream.try_clone()?, ended: Vec::new(), nowhere }))))
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that the daemon listens.
    pub(crate) fn ready(&self) {
        self.said().say(&FromPes::Ready);
    }

    /// Notes that there are `pes` PEs.
    pub(crate) fn starts(&self, pes: u32) {
        self.said().ended = vec![false; pes as usize];
    }

    /// Says how a PE has ended, once; as a process would with this status.
    pub(crate) fn ended(&self, pe: usize, raw: i32) {
        self.said().end(pe, raw);
    }

    /// Says of all PEs that have not ended that a signal has ended them. Returns which.
    pub(crate) fn all_end(&self, signal: i32) -> Vec<usize> {
        let mut said = self.said();
        let left: Vec<usize> = (0..said.ended.len()).filter(|pe| !said.ended[*pe]).collect();
        left.iter().for_each(|pe| said.end(*pe, signal));
        said.close_outputs();
        left
    }

    /// Says why there will be no PEs, and what helps.
    pub(crate) fn refuse(&self, why: String, remedy: String) {
        let mut said = self.said();
        said.say(&FromPes::Refused(why, remedy));
        said.close_outputs();
    }

    /// Lets the launcher see the end of both outputs: all PEs have ended.
    pub(crate) fn close_outputs(&self) {
        self.said().close_outputs();
    }
}

impl Said {
    /// Nothing will be written any more: the launcher sees the end of both outputs. PEs may have duplicated their descriptors.
    fn close_outputs(&mut self) {
        let Some(nowhere) = self.nowhere.take() else { return };
        let file = |fd: RawFd| -> Option<(u64, u64)> {
            // SAFETY: looked at only.
            let found = rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(fd) }).ok()?;
            Some((found.st_dev, found.st_ino))
        };
        let outputs = [file(1), file(2)];
        // SAFETY: PEs, whose outputs they are, do not run any more; the number stays in use, as whoever has it expects.
        let close = |fd: RawFd| unsafe { libc::dup2(1, fd) };
        // SAFETY: as above.
        unsafe { libc::dup2(nowhere.as_raw_fd(), 1) };
        close(2);
        // Its number is for reading the directory, if PEs have used up all others.
        drop(nowhere);
        let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let numbers: Vec<RawFd> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        let same = |fd: &RawFd| *fd > 2 && file(*fd).is_some_and(|file| outputs.contains(&Some(file)));
        numbers.into_iter().filter(same).for_each(|fd| {
            close(fd);
        });
    }

    fn end(&mut self, pe: usize, raw: i32) {
        if self.ended.get_mut(pe).is_some_and(|ended| !std::mem::replace(ended, true)) {
            self.say(&FromPes::Ended(pe as u32, raw));
        }
    }

    /// Says something. A launcher that has gone ends this process by its daemon's other connection.
    fn say(&mut self, word: &FromPes) {
        let mut line = serde_json::to_vec(word).expect("plain data");
        line.push(b'\n');
        let _ = self.stream.write_all(&line);
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
