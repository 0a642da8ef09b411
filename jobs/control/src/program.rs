//! The program's file.

use crate::error::Failed;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Finds the program as a shell would. Exit codes 127 (not found) and 126 (not executable).
pub fn find_program(name: &OsString, path: Option<OsString>) -> Result<PathBuf, Failed> {
    let shown = Path::new(name).display();
    if name.is_empty() {
        return Err(Failed::usage("the program's name is empty", "name a program after the options"));
    }
    if name.as_encoded_bytes().contains(&b'/') {
        return executable(Path::new(name));
    }
    let mut found = None;
    for dir in std::env::split_paths(&path.unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())) {
        let file = if dir.as_os_str().is_empty() { Path::new(".").join(name) } else { dir.join(name) };
        match executable(&file) {
            Ok(file) => return Ok(file),
            Err(e) if e.code == 126 && file.is_file() => found = found.or(Some(e)),
            Err(_) => {}
        }
    }
    if let Some(e) = found {
        return Err(e);
    }
    let here = Path::new(".").join(name);
    let remedy = if here.is_file() {
        format!("there is one in this directory: write ./{shown}")
    } else if here.with_extension("c").is_file() {
        format!("compile it first: oshcc {shown}.c -o {shown}, then run ./{shown}")
    } else {
        "check the spelling, or give the path to it".into()
    };
    Err(Failed::runtime(format!("no program `{shown}` in PATH"), remedy).with_code(127))
}

/// Returns where a command would be found.
pub fn in_path(name: &OsStr) -> Option<PathBuf> {
    find_program(&name.to_owned(), std::env::var_os("PATH")).ok()
}

fn executable(file: &Path) -> Result<PathBuf, Failed> {
    let shown = file.display();
    let not = |what: String, remedy: String| Failed::runtime(what, remedy).with_code(126);
    match std::fs::metadata(file) {
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(not(format!("no permission to reach {shown}"), "check the permissions of its directories".into()))
        }
        Err(_) => Err(Failed::runtime(format!("no program {shown}"), "check the path; compile C programs with oshcc")
            .with_code(127)),
        Ok(m) if m.is_dir() => Err(not(format!("{shown} is a directory"), "name a program in it".into())),
        Ok(_) => match rustix::fs::access(file, rustix::fs::Access::EXEC_OK) {
            Ok(()) => match missing_interpreter(file) {
                Some(missing) => Err(not(
                    format!("{shown} names the interpreter {missing} in its first line, which is not there"),
                    format!("install it, or name another: angara run … sh {shown}"),
                )),
                None => Ok(file.to_path_buf()),
            },
            Err(_) => Err(not(
                format!("{shown} is not executable"),
                if file.extension().is_some_and(|e| e == "c" || e == "cpp") {
                    format!("it looks like source: compile it with oshcc {shown}")
                } else {
                    format!("chmod +x {shown}, or name its interpreter: angara run … python3 {shown}")
                },
            )),
        },
    }
}

/// The program that a script is for, if there is none at the place that its first line names.
fn missing_interpreter(file: &Path) -> Option<String> {
    let mut begin = [0; 256];
    let read = std::fs::File::open(file).and_then(|mut file| file.read(&mut begin)).ok()?;
    let line = begin[..read].strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let path = std::str::from_utf8(line).ok()?.split_whitespace().next()?;
    (path.starts_with('/') && !Path::new(path).exists()).then(|| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_in_a_shell() {
        let path = Some(OsString::from("/nonexistent:/bin:/usr/bin"));
        assert!(find_program(&"sh".into(), path.clone()).is_ok());
        assert_eq!(find_program(&"/nonexistent/x".into(), path.clone()).unwrap_err().code, 127);
        assert_eq!(find_program(&"no-such-program-here".into(), path.clone()).unwrap_err().code, 127);
        assert_eq!(find_program(&"/etc/passwd".into(), path.clone()).unwrap_err().code, 126);
        assert_eq!(find_program(&"/tmp".into(), path).unwrap_err().code, 126);
    }
}
