//! One thread of a process that stands still while the others run on: how a thread that hangs looks to them.

use crate::process::Process;
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::fs;
use std::marker::PhantomData;

/// A thread held by ptrace. It runs on when this is dropped, or when the thread that holds it ends.
pub struct Frozen {
    thread: Pid,
    /// Only the thread that holds it may let go.
    here: PhantomData<*const ()>,
}

impl Frozen {
    /// Stops the thread called `name`; returns once it stands still. An error where ptrace is not allowed.
    pub fn new(process: &Process, name: &str) -> Result<Frozen, String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", process.pid)).map_err(|e| e.to_string())?;
        let found = tasks.flatten().find(|t| fs::read_to_string(t.path().join("comm")).is_ok_and(|c| c.trim() == name));
        let number = found.and_then(|t| t.file_name().to_str()?.parse().ok());
        let thread = Pid::from_raw(number.unwrap_or_else(|| panic!("process {} has no thread {name}", process.pid)));
        ptrace::seize(thread, ptrace::Options::empty()).map_err(|e| format!("ptrace of thread {thread}: {e}"))?;
        let frozen = Frozen { thread, here: PhantomData };
        ptrace::interrupt(thread).expect("it is ours");
        waitpid(thread, Some(WaitPidFlag::__WALL)).expect("it is ours");
        Ok(frozen)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // Fails only if it was killed meanwhile.
        let _ = ptrace::detach(self.thread, None);
    }
}
