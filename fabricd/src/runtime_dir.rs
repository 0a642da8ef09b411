//! The directory with the daemon's sockets and its lock.
//!
//! One daemon per directory: it holds a lock on a file there as long as it lives. Sockets found
//! while holding the lock belong to a daemon that was killed and are removed.

use abi::launch::{ADAPTER_SOCKET, CONTROL_SOCKET, LOCK_FILE};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open};
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A locked runtime directory; dropping it removes what the daemon made there.
pub(crate) struct RuntimeDir {
    path: PathBuf,
    made_dir: bool,
    _lock: fs::File,
}

/// Why the directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirError {
    /// Someone else serves it.
    #[error(
        "another daemon (pid {pid}) already serves {dir}; use that one, end it with `kill {pid}`, \
         or choose another --runtime-dir"
    )]
    Busy {
        /// The directory.
        dir: PathBuf,
        /// What the lock file says.
        pid: String,
    },
    /// It belongs to another user.
    #[error("{dir} belongs to user {owner}, not to {me}; choose another --runtime-dir")]
    Foreign {
        /// The directory.
        dir: PathBuf,
        /// Its owner.
        owner: u32,
        /// Us.
        me: u32,
    },
    /// Socket paths are limited to 107 bytes.
    #[error("{dir} is too long for a socket path ({len} bytes, at most 107); choose a shorter --runtime-dir")]
    TooLong {
        /// The directory.
        dir: PathBuf,
        /// Bytes of the longest socket path.
        len: usize,
    },
    /// The system said no.
    #[error("cannot use {dir} as runtime directory: {error}; choose another --runtime-dir")]
    Io {
        /// The directory.
        dir: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl RuntimeDir {
    /// Creates the directory (mode 0700) if need be, locks it, and removes stale sockets.
    pub(crate) fn claim(path: &Path) -> Result<RuntimeDir, DirError> {
        let dir = path.to_owned();
        let io = |error: io::Error| DirError::Io { dir: path.to_owned(), error };
        let len = path.join(ADAPTER_SOCKET).as_os_str().len();
        if len > 107 {
            return Err(DirError::TooLong { dir, len });
        }
        let made_dir = !path.exists();
        if made_dir {
            DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io)?;
        }
        let meta = fs::symlink_metadata(path).map_err(io)?;
        let me = rustix::process::geteuid().as_raw();
        if meta.uid() != me {
            return Err(DirError::Foreign { dir, owner: meta.uid(), me });
        }
        if !meta.is_dir() {
            return Err(io(io::Error::other("it is not a directory")));
        }
        if made_dir {
            fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(io)?;
        }
        let lock = lock(path).map_err(io)?.map_err(|pid| DirError::Busy { dir, pid })?;
        let claimed = RuntimeDir { path: path.to_owned(), made_dir, _lock: lock };
        claimed.remove_sockets();
        Ok(claimed)
    }

    /// Path of the control socket.
    pub(crate) fn control(&self) -> PathBuf {
        self.path.join(CONTROL_SOCKET)
    }
    /// Path of the adapter socket.
    pub(crate) fn adapter(&self) -> PathBuf {
        self.path.join(ADAPTER_SOCKET)
    }

    fn remove_sockets(&self) {
        for path in [self.control(), self.adapter()] {
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(path = %path.display(), error = %e, "cannot remove socket");
                }
                _ => {}
            }
        }
    }
}

/// Locks the lock file and writes our pid into it. The inner error is the pid of the holder.
fn lock(dir: &Path) -> io::Result<Result<fs::File, String>> {
    let path = dir.join(LOCK_FILE);
    loop {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = open(&path, flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = fs::File::from(fd);
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                file.read_to_string(&mut pid)?;
                return Ok(Err(pid.trim().to_string()));
            }
            Err(e) => return Err(e.into()),
        }
        // A daemon that just ended may have removed the file between our open and our lock.
        let ours = fstat(&file)?;
        match fs::metadata(&path) {
            Ok(there) if there.ino() == ours.st_ino => {}
            _ => continue,
        }
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        return Ok(Ok(file));
    }
}

impl Drop for RuntimeDir {
    fn drop(&mut self) {
        self.remove_sockets();
        let _ = fs::remove_file(self.path.join(LOCK_FILE));
        if self.made_dir {
            // Fails if someone else keeps files there; those are not ours to remove.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("fabricd-dir-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        dir
    }

    #[test]
    fn a_second_daemon_is_told_who_is_there() {
        let dir = fresh("second");
        let first = RuntimeDir::claim(&dir).expect("first claim");
        let mode = fs::metadata(&dir).expect("made").mode() & 0o777;
        assert_eq!(mode, 0o700);
        let text = RuntimeDir::claim(&dir).err().expect("second claim refused").to_string();
        assert!(text.contains(&std::process::id().to_string()), "{text}");
        drop(first);
        assert!(!dir.exists());
    }

    #[test]
    fn sockets_of_a_killed_daemon_are_removed() {
        let dir = fresh("stale");
        fs::create_dir_all(&dir).expect("directory");
        for name in [CONTROL_SOCKET, ADAPTER_SOCKET, LOCK_FILE] {
            fs::write(dir.join(name), "1").expect("leftover");
        }
        let claimed = RuntimeDir::claim(&dir).expect("lock is free");
        assert!(!claimed.control().exists() && !claimed.adapter().exists());
        drop(claimed);
        assert!(dir.exists(), "a directory we did not make stays");
        fs::remove_dir_all(dir).expect("cleanup");
    }

    #[test]
    fn long_paths_are_refused_with_their_length() {
        let text = RuntimeDir::claim(&fresh(&"x".repeat(120))).err().expect("too long").to_string();
        assert!(text.contains("at most 107"), "{text}");
    }
}
