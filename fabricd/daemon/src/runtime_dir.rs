//! The directory with the daemon's sockets and its lock.
//!
//! One daemon per directory: it holds a lock on a file there as long as it lives. Sockets found
//! while holding the lock belong to a daemon that was killed and are removed. So are the directories
//! of private daemons that were killed together with their launcher.

use angara_protocol::launch::{ADAPTER_SOCKET, CONTROL_SOCKET, CONTROL_TOKEN, LOCK_FILE, PRIVATE_PREFIX, READ_TOKEN};
use angara_protocol::trust::others_write;
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, chmodat, fchmod, flock, fstat, openat, statat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::{self, DirBuilder};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A private directory that changed more recently than this may belong to a daemon that is just starting.
const SETTLED: Duration = Duration::from_secs(10);

/// A locked runtime directory; dropping it removes what the daemon made there.
pub(crate) struct RuntimeDir {
    path: PathBuf,
    fd: OwnedFd,
    made_dir: bool,
    /// The sockets are the service manager's, which made and will remove them.
    handed: bool,
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
        owner: u32,
        /// Us.
        me: u32,
    },
    /// Others could put their own sockets there.
    #[error(
        "{dir} has mode {mode:04o}, so others may write to it; run `chmod go-w {dir}` or choose another --runtime-dir"
    )]
    Open {
        /// The directory.
        dir: PathBuf,
        /// Its permission bits.
        mode: u32,
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
        error: io::Error,
    },
}

impl RuntimeDir {
    /// Creates the directory (mode 0700) if need be, locks it, and removes stale sockets unless they were
    /// `handed` over. All of it happens in the directory that was checked, whatever becomes of its path.
    pub(crate) fn claim(path: &Path, handed: bool) -> Result<RuntimeDir, DirError> {
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
        let me = geteuid().as_raw();
        let foreign = |owner| DirError::Foreign { dir: path.to_owned(), owner, me };
        // One that cannot even be opened is somebody else's, as a rule.
        let fd = open_dir(CWD, path).map_err(|e| match fs::symlink_metadata(path) {
            Ok(meta) if meta.is_dir() && meta.uid() != me => foreign(meta.uid()),
            _ => io(e.into()),
        })?;
        let stat = fstat(&fd).map_err(|e| io(e.into()))?;
        if stat.st_uid != me {
            return Err(foreign(stat.st_uid));
        }
        if made_dir {
            fchmod(&fd, Mode::RWXU).map_err(|e| io(e.into()))?;
        } else if others_write(&stat) {
            return Err(DirError::Open { dir, mode: stat.st_mode & 0o7777 });
        }
        let lock = lock(&fd).map_err(io)?.map_err(|pid| DirError::Busy { dir, pid })?;
        let claimed = RuntimeDir { path: path.to_owned(), fd, made_dir, handed, _lock: lock };
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

    /// Lets nobody but this user connect. Fails if the sockets were bound elsewhere, because somebody put another
    /// directory in place of this one.
    pub(crate) fn close_to_others(&self) -> io::Result<()> {
        for socket in [CONTROL_SOCKET, ADAPTER_SOCKET] {
            chmodat(&self.fd, socket, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
        }
        Ok(())
    }

    /// Writes a file that this user alone can read; it goes with the daemon.
    pub(crate) fn write_secret(&self, name: &str, text: &str) -> io::Result<()> {
        let _ = unlinkat(&self.fd, name, AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)?;
        fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        fs::File::from(file).write_all(text.as_bytes())
    }

    fn remove_sockets(&self) {
        for token in [READ_TOKEN, CONTROL_TOKEN] {
            // Most daemons have none.
            let _ = unlinkat(&self.fd, token, AtFlags::empty());
        }
        if self.handed {
            return;
        }
        for socket in [CONTROL_SOCKET, ADAPTER_SOCKET] {
            match unlinkat(&self.fd, socket, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => {
                    let path = self.path.join(socket);
                    tracing::warn!(path = %path.display(), %error, "cannot remove socket");
                }
            }
        }
    }
}

fn open_dir(parent: impl AsFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, path, flags, Mode::empty())
}

/// Removes what killed private daemons of this user left in `parents`.
pub(crate) fn sweep(parents: &[PathBuf]) {
    for parent in parents {
        let Ok(there) = open_dir(CWD, parent) else { continue };
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.to_string_lossy().starts_with(PRIVATE_PREFIX)
                && let Ok(dir) = open_dir(&there, Path::new(&name))
                && leftover(&dir).unwrap_or(false)
            {
                remove_leftover(&there, &dir, Path::new(&name));
            }
        }
    }
}

/// Tells whether the directory is ours, and nobody has held its lock or changed it for a while.
fn leftover(dir: &OwnedFd) -> io::Result<bool> {
    let meta = fs::File::from(dir.try_clone()?).metadata()?;
    let settled = meta.modified()?.elapsed().is_ok_and(|age| age > SETTLED);
    if meta.uid() != geteuid().as_raw() || !settled {
        return Ok(false);
    }
    match openat(dir, LOCK_FILE, OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty()) {
        Ok(fd) => Ok(flock(&fd, FlockOperation::NonBlockingLockExclusive).is_ok()),
        Err(Errno::NOENT) => Ok(true),
        Err(e) => Err(e.into()),
    }
}

/// Removes what a daemon makes, and nothing else: a directory with more in it stays.
fn remove_leftover(parent: &OwnedFd, dir: &OwnedFd, name: &Path) {
    for file in [CONTROL_SOCKET, ADAPTER_SOCKET, READ_TOKEN, CONTROL_TOKEN, LOCK_FILE] {
        let _ = unlinkat(dir, file, AtFlags::empty());
    }
    match unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) => tracing::info!(dir = %name.display(), "removed what a killed private daemon left"),
        Err(error) => tracing::warn!(dir = %name.display(), %error, "cannot remove what a killed private daemon left"),
    }
}

/// Locks the lock file and writes our pid into it. The inner error is the pid of the holder.
fn lock(dir: &OwnedFd) -> io::Result<Result<fs::File, String>> {
    loop {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = openat(dir, LOCK_FILE, flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = fs::File::from(fd);
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                file.read_to_string(&mut pid)?;
                return Ok(Err(pid.trim().to_string()));
            }
            Err(e) => return Err(e.into()),
        }
        // A daemon that just ended may have removed the file between our open and our lock.
        let ours = fstat(&file)?;
        match statat(dir, LOCK_FILE, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) if there.st_ino == ours.st_ino => {}
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
        let _ = unlinkat(&self.fd, LOCK_FILE, AtFlags::empty());
        if self.made_dir {
            // Fails if someone else keeps files there; those are not ours to remove.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn fresh(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("fabricd-dir-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        dir
    }

    #[test]
    fn a_second_daemon_is_told_who_is_there() {
        let dir = fresh("second");
        let first = RuntimeDir::claim(&dir, false).expect("first claim");
        let mode = fs::metadata(&dir).expect("made").mode() & 0o777;
        assert_eq!(mode, 0o700);
        let text = RuntimeDir::claim(&dir, false).err().expect("second claim refused").to_string();
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
        let claimed = RuntimeDir::claim(&dir, false).expect("lock is free");
        assert!(!claimed.control().exists() && !claimed.adapter().exists());
        drop(claimed);
        assert!(dir.exists(), "a directory we did not make stays");
        fs::remove_dir_all(dir).expect("cleanup");
    }

    #[test]
    fn long_paths_are_refused_with_their_length() {
        let text = RuntimeDir::claim(&fresh(&"x".repeat(120)), false).err().expect("too long").to_string();
        assert!(text.contains("at most 107"), "{text}");
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_refused() {
        let dir = fresh("open");
        fs::create_dir_all(&dir).expect("directory");
        fs::set_permissions(&dir, Permissions::from_mode(0o770)).expect("ours");
        let text = RuntimeDir::claim(&dir, false).err().expect("refused").to_string();
        assert!(text.contains("mode 0770") && text.contains("chmod go-w"), "{text}");
        // A group that may only look is what a shared service needs.
        fs::set_permissions(&dir, Permissions::from_mode(0o750)).expect("ours");
        drop(RuntimeDir::claim(&dir, false).expect("fine"));
        fs::remove_dir_all(dir).expect("cleanup");
    }

    #[test]
    fn sockets_of_a_service_manager_stay() {
        let dir = fresh("handed");
        fs::create_dir_all(&dir).expect("directory");
        fs::write(dir.join(CONTROL_SOCKET), "").expect("stands for a socket");
        drop(RuntimeDir::claim(&dir, true).expect("free"));
        assert!(dir.join(CONTROL_SOCKET).exists() && !dir.join(LOCK_FILE).exists());
        fs::remove_dir_all(dir).expect("cleanup");
    }

    #[test]
    fn only_what_killed_private_daemons_left_is_swept() {
        let parent = fresh("sweep");
        let long_ago = fs::FileTimes::new().set_modified(std::time::SystemTime::now() - 2 * SETTLED);
        let make = |name: &str, files: &[&str], old: bool| {
            let dir = parent.join(name);
            fs::create_dir_all(&dir).expect("directory");
            files.iter().for_each(|f| fs::write(dir.join(f), "1").expect("leftover"));
            if old {
                fs::File::open(&dir).and_then(|d| d.set_times(long_ago)).expect("ours");
            }
            dir
        };
        let all = [CONTROL_SOCKET, ADAPTER_SOCKET, LOCK_FILE];
        let dead = make("angara-run-dead", &all, true);
        let unborn = make("angara-run-unborn", &[], true);
        let new = make("angara-run-new", &all, false);
        let other = make("other", &all, true);
        let full = make("angara-run-full", &["mine.txt", LOCK_FILE], true);
        let alive = make("angara-run-alive", &all, true);
        let held = fs::OpenOptions::new().write(true).open(alive.join(LOCK_FILE)).expect("there");
        flock(&held, FlockOperation::LockExclusive).expect("free");
        let link = parent.join("angara-run-link");
        std::os::unix::fs::symlink(&other, &link).expect("a link");
        sweep(&[parent.clone(), parent.join("none")]);
        let stays = |p: &PathBuf| p.symlink_metadata().is_ok();
        assert_eq!([&dead, &unborn].map(stays), [false; 2]);
        assert_eq!([&new, &other, &full, &alive, &link].map(stays), [true; 5]);
        assert!(full.join("mine.txt").exists() && alive.join(CONTROL_SOCKET).exists());
        fs::remove_dir_all(parent).expect("cleanup");
    }
}
