//! Key files: 32 bytes in hexadecimal, which nobody but their owner may read.

use rustix::fs::{Mode, OFlags, fstat, open};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Length of a key.
pub const KEY_BYTES: usize = 32;
/// Longest key file: the digits, and blanks or a line end around them.
const FILE_MAX: u64 = 256;

/// The keys of a cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// The one to seal with.
    pub current: u8,
    /// Every one that is accepted, the current one among them.
    pub all: BTreeMap<u8, [u8; KEY_BYTES]>,
}

/// Never the keys themselves: what is printed ends up in logs.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys {{ current: {}, ids: {:?} }}", self.current, self.all.keys())
    }
}

/// Why a key file is not used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The system said no.
    #[error(
        "cannot read the key file {path}: {error}; copy it from the host where the cluster file was made, \
         readable for the user of fabricd"
    )]
    Io {
        /// The file.
        path: PathBuf,
        error: io::Error,
    },
    /// Others may read or write it.
    #[error("the key file {path} has mode {mode:04o}, so others may use it; run `chmod 600 {path}`")]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Somebody else could replace it.
    #[error("the key file {path} belongs to user {owner}; it must belong to user {me} or root: `chown {me} {path}`")]
    Owner {
        /// The file.
        path: PathBuf,
        owner: u32,
        /// Who asks.
        me: u32,
    },
    /// It holds something else.
    #[error(
        "the key file {path} does not hold 64 hexadecimal digits; copy it again, or make a new one \
         with `angara cluster init` for all hosts"
    )]
    Content {
        /// The file.
        path: PathBuf,
    },
}

/// Reads a key file after checking owner and mode on the open file.
pub fn read(path: &Path) -> Result<[u8; KEY_BYTES], KeyError> {
    let path = path.to_owned();
    let io = |error: io::Error| KeyError::Io { path: path.clone(), error };
    // Not blocking: a name that turns out to be a pipe must not hang the daemon.
    let fd =
        open(&path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty()).map_err(|e| io(e.into()))?;
    let stat = fstat(&fd).map_err(|e| io(e.into()))?;
    if stat.st_mode & 0o170_000 != 0o100_000 {
        return Err(io(io::Error::other("it is not a regular file")));
    }
    let me = rustix::process::geteuid().as_raw();
    if stat.st_uid != me && stat.st_uid != 0 {
        return Err(KeyError::Owner { path, owner: stat.st_uid, me });
    }
    let mode = stat.st_mode & 0o7777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Mode { path, mode });
    }
    let mut text = String::new();
    let got = File::from(fd).take(FILE_MAX).read_to_string(&mut text);
    match got {
        Ok(_) => decode(text.trim()).ok_or(KeyError::Content { path }),
        Err(e) if e.kind() == io::ErrorKind::InvalidData => Err(KeyError::Content { path }),
        Err(e) => Err(io(e)),
    }
}

/// Writes a new random key to `path` with mode 0600; `false` if there is a file already, which stays.
pub fn create(path: &Path) -> io::Result<bool> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let fd = match open(path, flags, Mode::RUSR | Mode::WUSR) {
        Ok(fd) => fd,
        Err(rustix::io::Errno::EXIST) => return Ok(false),
        Err(e) => return Err(e.into()),
    };
    let key = random::<KEY_BYTES>()?;
    let mut file = File::from(fd);
    writeln!(file, "{}", encode(&key))?;
    file.sync_all()?;
    Ok(true)
}

/// Random bytes of the system.
pub(super) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut at = 0;
    while at < N {
        at += rustix::rand::getrandom(&mut bytes[at..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

pub(super) fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// `N` bytes from exactly twice as many hexadecimal digits.
pub(super) fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("fabricd-keys-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).expect("a scratch directory");
        dir
    }

    #[test]
    fn a_key_that_others_may_read_is_refused_with_the_command_that_helps() {
        let dir = scratch("mode");
        let path = dir.join("k");
        assert!(create(&path).expect("written") && !create(&path).expect("kept"));
        let key = read(&path).expect("mode 0600 is fine");
        assert_ne!(key, [0; KEY_BYTES]);
        for mode in [0o640, 0o604, 0o620, 0o610] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("ours");
            let e = read(&path).expect_err("others may use it").to_string();
            assert!(e.contains(&format!("mode {mode:04o}")) && e.contains("chmod 600"), "{e}");
        }
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o400)).expect("ours");
        assert_eq!(read(&path).expect("read-only is fine"), key);
        std::fs::remove_dir_all(dir).expect("cleanup");
    }

    #[test]
    fn a_key_of_another_user_is_refused() {
        let dir = scratch("owner");
        let path = dir.join("k");
        create(&path).expect("written");
        // Only root can give files away; others cannot get into this situation by themselves.
        if chown(&path, Some(12345), None).is_ok() {
            let e = read(&path).expect_err("of user 12345").to_string();
            assert!(e.contains("belongs to user 12345") && e.contains("chown"), "{e}");
        }
        std::fs::remove_dir_all(dir).expect("cleanup");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let dir = scratch("content");
        let path = dir.join("k");
        let digits = "ab".repeat(KEY_BYTES);
        for text in ["", "00", &digits[1..], &format!("{digits}0"), &digits.replace('a', "+"), "\u{fffd}"] {
            let _ = std::fs::remove_file(&path);
            std::fs::write(&path, text).expect("written");
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("ours");
            assert!(matches!(read(&path), Err(KeyError::Content { .. })), "{text:?}");
        }
        std::fs::write(&path, format!("  {digits}\n")).expect("written");
        assert_eq!(read(&path).expect("blanks around do not matter"), [0xab; KEY_BYTES]);
        assert!(read(&dir.join("none")).expect_err("absent").to_string().contains("copy it"));
        assert!(read(&dir).expect_err("a directory").to_string().contains("regular file"));
        let keys = Keys { current: 1, all: [(1, [0xab; KEY_BYTES])].into() };
        assert!(!format!("{keys:?}").contains("ab") && !format!("{keys:?}").contains("171"), "{keys:?}");
        std::fs::remove_dir_all(dir).expect("cleanup");
    }
}
