//! What must happen in a PE's process between fork and exec, done by a hidden mode of this program.
//!
//! Rust's standard library can only run code there through an `unsafe` hook, and code between fork
//! and exec may not allocate. So the launcher starts itself again in this mode; it asks to be killed
//! when the launcher dies, sets the affinity, and becomes the program. One extra exec costs about a
//! millisecond.

use angara_protocol::modes::EXEC;
use nix::sys::signal::{SigSet, SigmaskHow, Signal as Nix};
use rustix::process::{Pid, Signal, getpgrp, getppid, set_parent_process_death_signal};
use rustix::termios::{OptionalActions, Termios, tcsetattr, tcsetpgrp};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// Arguments of this mode.
#[derive(Debug, PartialEq, Eq)]
pub struct ExecArgs {
    /// Signal that this process gets when the launcher dies.
    death: i32,
    /// Process id of the launcher.
    launcher: i32,
    /// Cores to run on, with commas; `-` leaves the affinity alone.
    cores: String,
    /// `terminal` puts this process's group into the foreground; `-` does not.
    foreground: String,
    file: PathBuf,
    /// The program's `argv`, from `argv[0]` on.
    argv: Vec<OsString>,
}

impl ExecArgs {
    /// Reads what [`Exec::command`] writes after the mode's name. By hand: every PE passes here, and a parser would be made
    /// for each.
    pub fn read(words: &[OsString]) -> Option<ExecArgs> {
        let [death, launcher, cores, foreground, file, argv @ ..] = words else { return None };
        let number = |word: &OsString| word.to_str()?.parse().ok();
        Some(ExecArgs {
            death: number(death)?,
            launcher: number(launcher)?,
            cores: cores.to_str()?.into(),
            foreground: foreground.to_str()?.into(),
            file: file.into(),
            argv: argv.to_vec(),
        })
    }
}

/// A program to become, and how.
pub struct Exec<'a> {
    /// Sent when the launcher dies.
    pub death: Signal,
    /// Cores to run on; `None` leaves the affinity alone.
    pub cores: Option<&'a [usize]>,
    /// Put its process group into the foreground of the terminal.
    pub foreground: bool,
    /// File to execute.
    pub file: &'a Path,
    /// Its `argv`, from `argv[0]` on.
    pub argv: &'a [OsString],
}

impl Exec<'_> {
    /// A command that does it. The caller must be the process whose death counts.
    pub fn command(&self) -> Command {
        let cores = match self.cores {
            Some(cores) => cores.iter().map(usize::to_string).collect::<Vec<_>>().join(","),
            None => "-".into(),
        };
        // Not the path of our executable, which may have been replaced by a newer build meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command
            .arg(EXEC)
            .arg(self.death.as_raw().to_string())
            .arg(std::process::id().to_string())
            .arg(cores)
            .arg(if self.foreground { "terminal" } else { "-" })
            .arg(self.file)
            .args(self.argv);
        command
    }
}

/// Becomes the program.
pub fn main(args: &ExecArgs) -> ! {
    if let Err(e) = set_parent_process_death_signal(Signal::from_named_raw(args.death)) {
        angara_protocol::complain!("angara: cannot tie this process to its launcher: {e}");
    }
    // The launcher may have died before the line above: then nobody is going to send the signal.
    if getppid().map(Pid::as_raw_pid) != Some(args.launcher) {
        exit(1)
    }
    if args.cores != "-" {
        bind(&args.cores.split(',').filter_map(|c| c.parse().ok()).collect::<Vec<_>>());
    }
    if args.foreground == "terminal" {
        enter_foreground();
    }
    become_program(&args.file, &args.argv, &[], [None, None])
}

/// Has this process run on `cores`.
pub fn bind(cores: &[usize]) {
    let mut set = CpuSet::new();
    cores.iter().filter(|&&c| c < CpuSet::MAX_CPU).for_each(|&c| set.set(c));
    // A core that went offline since is no reason to fail.
    let _ = sched_setaffinity(None, &set);
}

/// Becomes the program in `file` with this `argv`, these variables and, where given, these outputs.
pub fn become_program(
    file: &Path,
    argv: &[OsString],
    variables: &[(&str, OsString)],
    [out, err]: [Option<File>; 2],
) -> ! {
    match foreign(file, Path::new("/proc/sys/fs/binfmt_misc")) {
        Foreign::No => {}
        Foreign::Perhaps(why) => angara_protocol::complain!("angara: {}: {why}", file.display()),
        Foreign::Yes(why) => {
            angara_protocol::complain!("angara: cannot execute {}: {why}", file.display());
            exit(126)
        }
    }
    let mut command = Command::new(file);
    if let [argv0, rest @ ..] = argv {
        command.arg0(argv0).args(rest);
    }
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    if let Some(out) = out {
        command.stdout(out);
    }
    if let Some(err) = err {
        command.stderr(err);
    }
    let error = command.exec();
    let shown = file.display();
    // ENOENT for a file that was there a moment ago means its interpreter is missing.
    angara_protocol::complain!("angara: cannot execute {shown}: {error}{}", hint(&error, file));
    exit(if error.kind() == std::io::ErrorKind::NotFound && !file.exists() { 127 } else { 126 })
}

/// Whether a program is for another processor, and what to say then.
#[derive(Debug, PartialEq, Eq)]
enum Foreign {
    No,
    /// It is, and nobody knows whether the kernel has an emulator for it.
    Perhaps(String),
    /// It is, and the kernel has none.
    Yes(String),
}

/// Looks at a program. What the kernel does not run, the C library takes for a script, and its shell says of each line of it that
/// it is no command. `emulators` is where the kernel says which other programs it runs.
fn foreign(file: &Path, emulators: &Path) -> Foreign {
    let mut start = Vec::new();
    // What cannot be read will be told when it is executed.
    if File::open(file).and_then(|file| file.take(EMULATOR_LOOKS).read_to_end(&mut start)).is_err() {
        return Foreign::No;
    }
    let &[0x7f, b'E', b'L', b'F', .., low, high, _, _] = start.get(..22).unwrap_or_default() else {
        return Foreign::No;
    };
    let machine = |number| match number {
        3 => "x86 of 32 bits".into(),
        40 => "ARM of 32 bits".into(),
        62 => "x86-64".into(),
        183 => "aarch64".into(),
        243 => "RISC-V".into(),
        _ => format!("processor {number} of ELF's list"),
    };
    let (own, others) = (if cfg!(target_arch = "aarch64") { 183 } else { 62 }, u16::from_le_bytes([low, high]));
    // The older sibling of each runs on it.
    if others == own || (own, others) == (62, 3) || (own, others) == (183, 40) {
        return Foreign::No;
    }
    let (own, others): (String, String) = (machine(own), machine(others));
    let what = format!("it is a program for {others}, and this machine is {own}; compile it for this one");
    let all = std::fs::read_dir(emulators).into_iter().flatten().flatten();
    let known: Vec<String> = all.flat_map(|entry| std::fs::read_to_string(entry.path())).collect();
    match known.iter().any(|emulator| takes(emulator, &start)) {
        true => Foreign::No,
        // An empty directory is one where nothing is mounted.
        false if known.is_empty() => Foreign::Perhaps(format!("{what}, unless the kernel has an emulator for it")),
        false => Foreign::Yes(format!("{what}, or have the kernel run it (apt-get install qemu-user-binfmt)")),
    }
}

/// How many bytes of a file the kernel shows to emulators.
const EMULATOR_LOOKS: u64 = 256;

/// An emulator, as the kernel describes it, takes a file that begins like this.
fn takes(emulator: &str, start: &[u8]) -> bool {
    let of = |key: &str| emulator.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let bytes = |text: &str| -> Option<Vec<u8>> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
    };
    let Some(magic) = of("magic").and_then(bytes) else { return false };
    let mask = of("mask").and_then(bytes).unwrap_or_else(|| vec![0xff; magic.len()]);
    let offset: usize = of("offset").and_then(|text| text.parse().ok()).unwrap_or(0);
    let Some(here) = start.get(offset..offset + magic.len()) else { return false };
    emulator.starts_with("enabled")
        && here.iter().zip(&magic).zip(&mask).all(|((here, magic), mask)| here & mask == magic & mask)
}

fn hint(error: &std::io::Error, file: &Path) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotFound if file.exists() => "; the interpreter it names does not exist",
        _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
            "; it is no program for this machine, or a script without `#!` line"
        }
        _ => "",
    }
}

/// Puts the calling process's own group into the foreground of its standard input.
fn enter_foreground() {
    foreground(std::io::stdin().as_fd(), getpgrp(), None);
}

/// Puts `group` into the foreground. Who is in the background is stopped for that, unless the signal is held back.
pub fn foreground(tty: BorrowedFd<'_>, group: Pid, modes: Option<&Termios>) {
    let mut held = SigSet::empty();
    held.add(Nix::SIGTTOU);
    let Ok(before) = held.thread_swap_mask(SigmaskHow::SIG_BLOCK) else { return };
    // A terminal that was hung up meanwhile belongs to nobody.
    let _ = tcsetpgrp(tty, group);
    if let Some(modes) = modes {
        let _ = tcsetattr(tty, OptionalActions::Drain, modes);
    }
    let _ = before.thread_set_mask();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_a_program_are_passed_on_as_they_are() {
        let argv = ["-bash", "--help", "--", "-x", "", "__exec"].map(OsString::from);
        let exec =
            Exec { death: Signal::TERM, cores: Some(&[0, 3]), foreground: true, file: Path::new("/b"), argv: &argv };
        let words: Vec<OsString> = exec.command().get_args().skip(1).map(OsString::from).collect();
        let (launcher, death) = (std::process::id() as i32, Signal::TERM.as_raw());
        let (cores, foreground) = ("0,3".into(), "terminal".into());
        let wanted = ExecArgs { death, launcher, cores, foreground, file: "/b".into(), argv: argv.to_vec() };
        assert_eq!(ExecArgs::read(&words), Some(wanted));
        for wrong in [&words[..4], &[&words[4..5], &words[1..]].concat()] {
            assert_eq!(ExecArgs::read(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn programs_of_other_processors_need_an_emulator() {
        let dir = std::env::temp_dir().join(format!("angara-foreign-{}", std::process::id()));
        let (file, emulators) = (dir.join("program"), dir.join("emulators"));
        std::fs::create_dir_all(&emulators).unwrap();
        let mut start = std::fs::read("/proc/self/exe").unwrap()[..64].to_vec();
        let why = |start: &[u8]| {
            std::fs::write(&file, start).unwrap();
            foreign(&file, &emulators)
        };
        let own = start.clone();
        start[18] = 243;
        assert!(matches!(why(&start), Foreign::Perhaps(why) if why.contains("a program for RISC-V")));
        std::fs::write(emulators.join("status"), "enabled\n").unwrap();
        assert!(matches!(why(&start), Foreign::Yes(why) if why.contains("qemu-user-binfmt")));
        for ours in [&own[..], b"#!/bin/sh\n", b"\x7fELF"] {
            assert_eq!(why(ours), Foreign::No);
        }
        // As the kernel shows that of Debian.
        let magic = "7f454c460201010000000000000000000200f300";
        let mask = "ffffffffffffff00fffffffffffffffffeffffff";
        for (state, magic, runs) in
            [("enabled", magic, true), ("disabled", magic, false), ("enabled", &magic.replace("f300", "b700"), false)]
        {
            let text = format!("{state}\ninterpreter /usr/bin/qemu\nflags: \noffset 0\nmagic {magic}\nmask {mask}\n");
            std::fs::write(emulators.join("qemu"), text).unwrap();
            assert_eq!(why(&start) == Foreign::No, runs, "{state} {magic}");
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
}
