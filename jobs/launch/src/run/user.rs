//! Becoming a user, done by a hidden mode of this program, which a `fabricd` of root starts to run programs
//! in the name of those whose jobs they are.
//!
//! First the session, so that no terminal of root's stays within reach; then the groups, for which one must
//! still be root; then the program anew, without what root's process had open, so that nothing of that is left in it.

use rustix::process::{Gid, Uid, getegid, geteuid, getgid, getuid, setsid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, exit};

/// Whom this program is to become, and what it then is.
pub struct Becoming {
    /// The user.
    pub uid: u32,
    /// The user's group.
    pub gid: u32,
    /// All groups of the user.
    pub groups: Vec<u32>,
    /// The hidden subcommand that this program is from then on, and its arguments.
    pub rest: Vec<OsString>,
}

/// Becomes the user. This process has one thread only, so its credentials are those of the process.
pub fn main(args: &Becoming) -> ! {
    let uid = args.uid;
    if let Err(e) = become_user(uid, args.gid, &args.groups) {
        angara_protocol::complain!(
            "angara: cannot become user {uid}: {e}; fabricd needs CAP_SETUID and CAP_SETGID for that"
        );
        exit(1)
    }
    angara_protocol::trust::keep_descriptors();
    let error = Command::new("/proc/self/exe").args(&args.rest).exec();
    angara_protocol::complain!("angara: cannot start again as user {uid}: {error}");
    exit(1)
}

fn become_user(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    setsid()?;
    let groups: Vec<Gid> = groups.iter().map(|g| Gid::from_raw(*g)).collect();
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    set_thread_groups(&groups)?;
    set_thread_gid(gid)?;
    set_thread_uid(uid)?;
    let ids = [getuid(), geteuid()].iter().all(|id| *id == uid) && [getgid(), getegid()].iter().all(|id| *id == gid);
    // There must be no way back.
    match ids && (uid.is_root() || set_thread_uid(Uid::ROOT).is_err()) {
        true => Ok(()),
        false => Err(io::Error::other("the system kept something of the old user")),
    }
}
