//! The terminal while a PE has it (`--debug`).
//!
//! The PE's process group is in the foreground, as a shell's jobs are: it reads what is typed, and Ctrl-C and Ctrl-Z
//! go to it alone. When it stops, the terminal comes back to the launcher, which stops as well, so that the
//! user's shell goes on; after `fg` the PE has it again.

use super::forward::Input;
use crate::run::own;
use angara_control::error::Failed;
use angara_control::exec::foreground;
use rustix::process::{Pid, Signal, getpgid, getpgrp, getpid, getppid, getsid};
use rustix::termios::{Termios, tcgetattr, tcgetpgrp};
use std::fs::File;
use std::os::fd::AsFd;

/// A terminal that is for a PE.
pub struct Terminal {
    tty: File,
    pub pe: u32,
    /// Its process group, once it has started.
    group: Option<Pid>,
    /// It has the terminal now.
    given: bool,
    /// Settings (echo, lines) before it had the terminal.
    modes: Termios,
    /// Its own, while it is stopped.
    stopped: Option<Termios>,
}

impl Terminal {
    /// The terminal, for `pe`; `None` if standard input is none, which `pe` then reads.
    ///
    /// # Errors
    /// When this process is in the background.
    pub fn new(pe: u32) -> Result<Option<Terminal>, Failed> {
        if Input::here() == Input::Nothing {
            return Err(Failed::usage(
                format!("--debug {pe} needs the terminal, and this process is in the background"),
                "start it in the foreground, or give it another standard input",
            ));
        }
        let Ok(modes) = tcgetattr(std::io::stdin()) else { return Ok(None) };
        Ok(Some(Terminal { tty: own(std::io::stdin().as_fd())?, pe, group: None, given: false, modes, stopped: None }))
    }

    /// The PE has started, and put its `group` into the foreground.
    pub fn started(&mut self, group: Pid) {
        (self.group, self.given) = (Some(group), true);
    }

    /// The PE's process group, which it leads.
    pub fn group(&self) -> Option<Pid> {
        self.group
    }

    /// Takes it back while the PE is stopped.
    pub fn take(&mut self) {
        if std::mem::take(&mut self.given) {
            self.stopped = tcgetattr(&self.tty).ok();
            foreground(self.tty.as_fd(), getpgrp(), Some(&self.modes));
        }
    }

    /// Gives it back, if this process may: after `fg`, not after `bg`.
    pub fn give(&mut self) {
        if let (Some(group), true) = (self.group, tcgetpgrp(&self.tty) == Ok(getpgrp())) {
            foreground(self.tty.as_fd(), group, self.stopped.take().as_ref());
            self.given = true;
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.take();
    }
}

/// Stops this process, or with `all` its whole group, until somebody continues it. Does nothing where nobody could: a process group
/// without a parent in its session, as in a container.
pub(super) fn stop_here(all: bool) {
    if !has_keeper() {
        return;
    }
    let _ = match all {
        true => rustix::process::kill_current_process_group(Signal::STOP),
        false => rustix::process::kill_process(getpid(), Signal::STOP),
    };
}

/// True if an ancestor outside of this process group is in its session, such as a shell.
fn has_keeper() -> bool {
    let (group, session) = (getpgrp(), getsid(None).ok());
    let mut ancestor = getppid();
    while let Some(pid) = ancestor {
        if getsid(Some(pid)).ok() != session {
            return false;
        }
        if getpgid(Some(pid)) != Ok(group) {
            return true;
        }
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default();
        ancestor = fields.split_whitespace().nth(1).and_then(|p| p.parse().ok()).and_then(Pid::from_raw);
    }
    false
}
