//! Files that are there as a whole, or as they were before.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A file that is written beside its place, and takes it when it is complete. If that does not come about, what stood there
/// stays, and nothing else is left.
///
/// A path that is no regular file, such as a pipe or a device, is written in place. So is a file in a directory where
/// no other one can be made.
#[derive(Debug)]
pub struct WholeFile {
    file: File,
    /// Where it is, and where it belongs.
    beside: Option<(PathBuf, PathBuf)>,
}

impl WholeFile {
    /// Begins one, empty.
    pub fn create(path: &Path) -> io::Result<WholeFile> {
        // A link stays one.
        let place = fs::canonicalize(path).unwrap_or_else(|_| path.into());
        let before = match fs::metadata(&place) {
            Ok(meta) if !meta.is_file() => return WholeFile::in_place(&place),
            // The file itself, not its directory, decides if it may be written.
            Ok(meta) => {
                OpenOptions::new().write(true).open(&place)?;
                Some(meta)
            }
            Err(_) => None,
        };
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let beside = place.with_file_name(format!(".angara-{}-{number}", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).open(&beside) {
            Ok(file) => {
                let whole = WholeFile { file, beside: Some((beside, place)) };
                if let Some(meta) = before {
                    whole.file.set_permissions(meta.permissions())?;
                }
                Ok(whole)
            }
            Err(_) if before.is_some() => WholeFile::in_place(&place),
            Err(e) => Err(e),
        }
    }

    fn in_place(place: &Path) -> io::Result<WholeFile> {
        Ok(WholeFile { file: File::create(place)?, beside: None })
    }

    /// Puts it in its place.
    pub fn finish(mut self) -> io::Result<()> {
        match self.beside.take() {
            Some((beside, place)) => fs::rename(&beside, place).inspect_err(|_| drop(fs::remove_file(&beside))),
            None => Ok(()),
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some((beside, _)) = self.beside.take() {
            // Nobody else knows its name.
            let _ = fs::remove_file(beside);
        }
    }
}

/// Writes a file as a whole.
pub fn write_whole(path: &Path, text: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write_all(text.as_ref())?;
    file.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    fn names(dir: &Path) -> Vec<String> {
        let all = fs::read_dir(dir).unwrap().flatten();
        let mut names: Vec<String> = all.map(|e| e.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_not_finished_leaves_everything_as_it_was() {
        let dir = std::env::temp_dir().join(format!("angara-whole-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (file, link) = (dir.join("out"), dir.join("link"));
        write_whole(&file, "first").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        let mut other = WholeFile::create(&link).unwrap();
        other.write_all(b"sec").unwrap();
        assert_eq!((names(&dir).len(), &fs::read(&file).unwrap()[..]), (3, &b"first"[..]));
        drop(other);
        assert_eq!((names(&dir), &fs::read(&file).unwrap()[..]), (vec!["link".into(), "out".into()], &b"first"[..]));
        write_whole(&link, "second").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(
            (&fs::read(&file).unwrap()[..], fs::metadata(&file).unwrap().mode() & 0o777),
            (&b"second"[..], 0o640)
        );
        write_whole(Path::new("/dev/null"), "third").unwrap();
        assert_eq!(write_whole(Path::new("/dev/full"), "x").unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(write_whole(&dir, "x").is_err() && write_whole(&dir.join("no/such"), "x").is_err());
        assert_eq!(names(&dir), ["link", "out"]);
        fs::remove_dir_all(dir).unwrap();
    }
}
