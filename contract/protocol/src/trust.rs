//! Trust of clients: the directory in which a client looks for a daemon, and its environment.
//!
//! Whoever made a directory answers from the sockets in it, and a daemon sees the memory of its jobs and may be told
//! the environment of their programs. So a client opens the directory, looks at what it has opened, and connects
//! through that: what anybody does to the path meanwhile does not matter. The credentials of the socket's other
//! end would not do instead, because they are those of whoever called `listen`, which is root for a service's.

use rustix::fs::{AtFlags, Mode, OFlags, Stat, fstat, open, statat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The account that `fabricd.service` runs as (`systemd/sysusers.conf`).
pub const SERVICE_USER: &str = "angara";
/// Through which a process reaches what it has open. Not `self`: the first thread may have ended.
const OWN_DESCRIPTORS: &str = "/proc/thread-self/fd";

/// A runtime directory whose daemon may be believed.
#[derive(Debug)]
pub struct TrustedDir {
    /// The directory, open.
    fd: OwnedFd,
}

/// Why a directory is not used.
#[derive(Debug, thiserror::Error)]
pub enum Distrust {
    /// There is none.
    #[error("there is no directory {}", dir.display())]
    Missing {
        /// Its path.
        dir: PathBuf,
    },
    /// Something else has its name.
    #[error("{} is no directory (symbolic links are not followed)", dir.display())]
    NoDirectory {
        /// Its path.
        dir: PathBuf,
    },
    /// Somebody made it who is not to be believed.
    #[error("{} belongs to user {owner}, who could read and change the jobs of user {me}; it is not used", dir.display())]
    Foreign {
        /// Its path.
        dir: PathBuf,
        /// User id of its owner.
        owner: u32,
        /// User id of this process.
        me: u32,
    },
    /// Others could put their own sockets there.
    #[error("{} has mode {mode:04o}, so others may put sockets of theirs there; it is not used", dir.display())]
    Open {
        /// Its path.
        dir: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The system said no.
    #[error("cannot look at {}: {error}", dir.display())]
    Io {
        /// Its path.
        dir: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl Distrust {
    /// Returns what to do about it.
    pub fn remedy(&self) -> String {
        match self {
            Distrust::Missing { .. } | Distrust::NoDirectory { .. } => {
                "name the directory of a daemon with ANGARA_RUNTIME_DIR".into()
            }
            Distrust::Foreign { dir, .. } => format!(
                "have {} removed, or set ANGARA_RUNTIME_DIR to a directory of your own, of root, or of the service",
                dir.display()
            ),
            Distrust::Open { dir, .. } => format!("run `chmod go-w {}`, see who has been there", dir.display()),
            Distrust::Io { .. } => {
                "check its owner and permissions (a service's belongs to the group angara), or name another directory"
                    .into()
            }
        }
    }
}

impl TrustedDir {
    /// Opens `dir` if it belongs to this process's user, to root, or to the service (which may use a directory that
    /// only root can have given it), and nobody else may write to it.
    pub fn open(dir: &Path) -> Result<TrustedDir, Distrust> {
        let why = |error: Errno| Distrust::Io { dir: dir.into(), error: error.into() };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = open(dir, flags, Mode::empty()).map_err(|e| match e {
            Errno::NOENT => Distrust::Missing { dir: dir.into() },
            Errno::NOTDIR | Errno::LOOP => Distrust::NoDirectory { dir: dir.into() },
            e => why(e),
        })?;
        let me = rustix::process::geteuid().as_raw();
        let stat = fstat(&fd).map_err(why)?;
        let owner = stat.st_uid;
        let believed = owner == me
            || owner == 0
            || (service_user() == Some(owner) && is_roots(&statat(&fd, "..", AtFlags::empty()).map_err(why)?));
        if !believed {
            return Err(Distrust::Foreign { dir: dir.into(), owner, me });
        }
        if others_write(&stat) {
            return Err(Distrust::Open { dir: dir.into(), mode: stat.st_mode & 0o7777 });
        }
        Ok(TrustedDir { fd })
    }

    /// Connects to the socket of this name.
    ///
    /// # Errors
    /// Those of `connect(2)`; one of kind `Unsupported` if `/proc` is not mounted.
    pub fn connect(&self, socket: &str, kind: SocketType, flags: SocketFlags) -> io::Result<OwnedFd> {
        let fd = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC | flags, None)?;
        // There is no `connectat`. This path is also short, however long that of the directory is.
        let way = format!("{OWN_DESCRIPTORS}/{}/{socket}", self.fd.as_raw_fd());
        match connect(&fd, &SocketAddrUnix::new(way)?) {
            Ok(()) => Ok(fd),
            Err(Errno::NOENT) if !Path::new(OWN_DESCRIPTORS).exists() => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "/proc is not mounted, and a socket in a directory that was checked is reached through it; mount it",
            )),
            Err(e) => Err(e.into()),
        }
    }
}

impl AsFd for TrustedDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Group or others may write to it.
pub fn others_write(stat: &Stat) -> bool {
    stat.st_mode & 0o022 != 0
}

/// Only root decides whose the directories in it are.
fn is_roots(stat: &Stat) -> bool {
    stat.st_uid == 0 && !others_write(stat)
}

fn service_user() -> Option<u32> {
    nix::unistd::User::from_name(SERVICE_USER).ok().flatten().map(|user| user.uid.as_raw())
}

/// True if this program has rights that whoever started it lacks (setuid, setgid, file capabilities), so that it must
/// not do what its environment asks for.
pub fn is_privileged() -> bool {
    // SAFETY: reads a word that the kernel gave this process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// A variable of the environment that decides whom this process trusts, what it starts or what it reads; `None` also
/// where it [is privileged](is_privileged).
pub fn var_os(name: &str) -> Option<OsString> {
    if is_privileged() { None } else { std::env::var_os(name) }
}

/// First descriptor after standard input, output and error.
const FIRST: libc::c_int = 3;

/// Programs that this process starts from now on inherit none of the descriptors it was itself started with, but for
/// standard input, output and error.
pub fn keep_descriptors() {
    // SAFETY: sets a flag of descriptors; memory and their state stay as they are.
    let done = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done != 0 {
        // Before Linux 5.11.
        keep_each();
    }
}

fn keep_each() {
    for entry in std::fs::read_dir(OWN_DESCRIPTORS).into_iter().flatten().flatten() {
        let number = entry.file_name().to_str().and_then(|n| n.parse::<libc::c_int>().ok());
        if let Some(fd) = number.filter(|fd| *fd >= FIRST) {
            // SAFETY: as above; a number that has been closed meanwhile gives an error.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    fn fresh(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("abi-trust-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("own")).expect("a directory");
        fs::set_permissions(dir.join("own"), Permissions::from_mode(0o700)).expect("ours");
        dir
    }

    #[test]
    fn a_directory_is_judged_by_what_is_opened() {
        let dir = fresh("judged");
        let own = dir.join("own");
        assert!(TrustedDir::open(&own).is_ok());
        fs::set_permissions(&own, Permissions::from_mode(0o770)).expect("ours");
        let open = TrustedDir::open(&own).expect_err("others may write");
        assert!(matches!(open, Distrust::Open { mode: 0o770, .. }), "{open}");
        assert!(open.remedy().contains("chmod go-w"));
        fs::set_permissions(&own, Permissions::from_mode(0o750)).expect("ours");
        std::os::unix::fs::symlink(&own, dir.join("link")).expect("a link");
        fs::write(dir.join("file"), "").expect("a file");
        for name in ["link", "file"] {
            let e = TrustedDir::open(&dir.join(name)).expect_err("no directory");
            assert!(matches!(e, Distrust::NoDirectory { .. }), "{e}");
        }
        assert!(matches!(TrustedDir::open(&dir.join("none")), Err(Distrust::Missing { .. })));
        fs::remove_dir_all(dir).expect("cleanup");
    }

    #[test]
    fn a_socket_is_reached_through_the_directory_that_was_checked() {
        let dir = fresh("reached");
        // Far longer than a socket's address may be.
        let long = dir.join("own").join("x".repeat(200));
        fs::create_dir_all(&long).expect("a directory");
        fs::set_permissions(&long, Permissions::from_mode(0o700)).expect("ours");
        let checked = TrustedDir::open(&long).expect("ours");
        let connect = || checked.connect("s", SocketType::STREAM, SocketFlags::empty());
        assert_eq!(connect().expect_err("nothing there").kind(), io::ErrorKind::NotFound);
        let listener = std::os::unix::net::UnixListener::bind(dir.join("s")).expect("a socket");
        fs::rename(dir.join("s"), long.join("s")).expect("ours");
        // Somebody puts another directory in its place.
        fs::rename(&long, dir.join("away")).expect("ours");
        fs::create_dir_all(&long).expect("a directory");
        assert!(connect().is_ok());
        assert!(listener.accept().is_ok());
        fs::remove_dir_all(dir).expect("cleanup");
    }

    #[test]
    fn descriptors_are_kept_on_kernels_old_and_new() {
        use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
        let file = fs::File::open("/dev/null").expect("every Linux has it");
        for keep in [keep_descriptors, keep_each] {
            fcntl_setfd(&file, FdFlags::empty()).expect("open");
            keep();
            assert_eq!(fcntl_getfd(&file).expect("open"), FdFlags::CLOEXEC);
        }
    }

    #[test]
    fn only_root_hands_out_directories_of_a_service() {
        let stat = |path: &str| rustix::fs::stat(path).expect("every Linux has it");
        assert!(is_roots(&stat("/")) && !is_roots(&stat("/tmp")));
    }
}
