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
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// Arguments of this mode.
#[derive(clap::Args)]
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
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub argv: Vec<OsString>,
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
