//! The command's program, and whether its loader will put our library before its own.

use angara_control::error::Failed;
use angara_control::program::find_program;
use angara_launch::mpi::elf;
use rustix::process::{getegid, geteuid};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A program about to be started.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) file: PathBuf,
    /// Its `argv`, from `argv[0]` on.
    pub(super) argv: Vec<OsString>,
    /// It is a shell that the user did not name.
    pub(super) shell: bool,
}

/// The program of `command`; a shell if that is empty.
pub(super) fn find(command: &[OsString]) -> Result<Program, Failed> {
    let shell = command.is_empty();
    let argv = match shell {
        true => vec![std::env::var_os("SHELL").filter(|s| !s.is_empty()).unwrap_or_else(|| "/bin/sh".into())],
        false => command.to_vec(),
    };
    let file = find_program(&argv[0], std::env::var_os("PATH")).map_err(|e| match shell {
        true => Failed { remedy: format!("set SHELL to a shell that is there, or name a command ({})", e.remedy), ..e },
        false => e,
    })?;
    if let Some(rights) = rights(&file) {
        return Err(Failed::usage(
            format!(
                "{} has {rights}, so its loader takes no library from its environment, nor do programs that it starts",
                file.display()
            ),
            "start a copy without these rights, or have the whole of `angara verbs` started with the rights that are needed",
        ));
    }
    if is_static(&file) {
        angara_protocol::complain!(
            "angara: {} is linked statically, so no library is put before its own, and it finds no emulated adapter. Try: \
             link it dynamically; programs that it starts are not concerned",
            file.display()
        );
    }
    Ok(Program { file, argv, shell })
}

/// Rights that the program has and this process lacks: the loader ignores the environment then.
fn rights(file: &Path) -> Option<&'static str> {
    let meta = file.metadata().ok()?;
    if meta.mode() & 0o4000 != 0 && meta.uid() != geteuid().as_raw() {
        return Some("the rights of another user (setuid)");
    }
    if meta.mode() & 0o2000 != 0 && meta.gid() != getegid().as_raw() {
        return Some("the rights of another group (setgid)");
    }
    let capabilities = rustix::fs::getxattr(file, "security.capability", &mut [0u8; 64][..]);
    // The administrator has them all.
    (!geteuid().is_root() && capabilities.is_ok_and(|bytes| bytes > 0)).then_some("capabilities of its own")
}

/// True for a program that has no loader. A script has one, that of its interpreter.
fn is_static(file: &Path) -> bool {
    let mut magic = [0; 4];
    // What cannot be read will be told when it is executed; what is no ELF file of 64 bits, too.
    let is_elf = File::open(file).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && &magic == b"\x7fELF";
    is_elf && elf::read(file).is_some_and(|elf| elf.loader.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    #[test]
    fn programs_that_ignore_the_environment_are_told_apart() {
        let dir = std::env::temp_dir().join(format!("angara-verbs-program-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (source, dynamic, fixed) = (dir.join("a.c"), dir.join("dynamic"), dir.join("static"));
        std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        for (file, option) in [(&dynamic, "-O0"), (&fixed, "-static")] {
            assert!(Command::new("cc").arg(option).arg(&source).arg("-o").arg(file).status().unwrap().success());
        }
        assert!(is_static(&fixed) && !is_static(&dynamic) && !is_static(&source));
        let set = |file: &Path, mode| std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
        set(&dynamic, 0o4755);
        assert_eq!(rights(&dynamic), None, "the rights that its user has anyway");
        if geteuid().is_root() {
            std::os::unix::fs::chown(&dynamic, Some(1), Some(1)).unwrap();
            set(&dynamic, 0o4755);
            assert!(rights(&dynamic).is_some_and(|rights| rights.contains("setuid")));
            set(&dynamic, 0o2755);
            assert!(rights(&dynamic).is_some_and(|rights| rights.contains("setgid")));
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_missing_program_is_told() {
        let e = find(&["no-such-program-here".into()]).unwrap_err();
        assert_eq!(e.code, 127);
        assert!(!find(&["sh".into(), "-c".into()]).unwrap().shell);
    }
}
