//! Several users in one test, which only root can be.

use rustix::process::Uid;
use std::path::Path;

/// True if this test cannot be: says so then.
pub fn only_root_can() -> bool {
    let skipped = !rustix::process::geteuid().is_root();
    if skipped {
        println!("skipped: this takes root");
    }
    skipped
}

/// Runs `f` in a thread of that user: what it makes is hers, and what it connects to sees her id.
pub fn as_user<T: Send>(user: u32, f: impl FnOnce() -> T + Send) -> T {
    let body = move || {
        rustix::thread::set_thread_uid(Uid::from_raw(user)).expect("we are root");
        f()
    };
    std::thread::scope(|s| s.spawn(body).join()).unwrap_or_else(|e| std::panic::resume_unwind(e))
}

/// Changes the mode of a file or directory.
pub fn set_mode(path: &Path, mode: u32) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(path, mode).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}
