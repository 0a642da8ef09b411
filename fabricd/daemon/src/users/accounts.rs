//! Users of this machine, for programs that are started in their name.

use crate::aside::aside;
use crate::failure::failure;
use angara_protocol::msg::Failure;
use nix::unistd::{Uid, User, getgrouplist};
use std::ffi::CString;

/// Whom the launcher's other half becomes before it starts anything.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// All groups, the first one among them.
    pub(crate) groups: Vec<u32>,
}

/// Name of a user here; `None` if the number is nobody's.
pub(crate) async fn name(uid: u32) -> Option<String> {
    look_up(uid).await.ok().flatten().map(|user| user.name)
}

/// Users may live in a directory service, which takes its time.
async fn look_up(uid: u32) -> Result<Option<User>, String> {
    match aside(move || User::from_uid(Uid::from_raw(uid))).await? {
        Ok(user) => Ok(user),
        Err(e) => Err(e.to_string()),
    }
}

/// Refuses a job whose user is somebody else here: user ids of all hosts must mean the same people.
pub(crate) fn check_same(uid: u32, name: Option<&str>, here: Option<&str>) -> Result<(), Failure> {
    match (name, here) {
        (Some(there), Some(here)) if there != here => Err(failure(
            format!("user {uid} is {here} here, but {there} where the job was started"),
            "give every user the same number on all hosts",
        )),
        _ => Ok(()),
    }
}

/// Returns who must be become to run programs of user `uid`, called `name` where the job was started; `None`: this
/// daemon is that user.
pub(crate) async fn identity(uid: u32, name: Option<&str>) -> Result<Option<Identity>, Failure> {
    check_same(uid, name, self::name(uid).await.as_deref())?;
    let me = rustix::process::geteuid();
    if uid == me.as_raw() {
        return Ok(None);
    }
    if !me.is_root() {
        return Err(failure(
            format!(
                "the job belongs to user {uid}, fabricd here runs as user {} and starts programs of nobody else",
                me.as_raw()
            ),
            "run fabricd as root on every host (systemd: fabricd-cluster), or one of your own (fabricd@USER)",
        ));
    }
    let user = look_up(uid).await.map_err(|e| {
        failure(format!("user {uid} cannot be looked up: {e}"), "see `getent passwd` and /etc/nsswitch.conf")
    })?;
    let nobody = || {
        let shown = name.map_or(String::new(), |name| format!(" ({name} where the job was started)"));
        failure(format!("there is no user {uid} here{shown}"), "give every user the same number on all hosts")
    };
    let user = user.ok_or_else(nobody)?;
    if name.is_none() {
        return Err(failure(
            format!("user {uid} is {} here, but has no name where the job was started", user.name),
            "give every user the same name and number on all hosts",
        ));
    }
    let gid = user.gid;
    let asked = aside(move || getgrouplist(&CString::new(user.name).unwrap_or_default(), gid));
    let groups = match asked.await {
        Ok(Ok(groups)) => groups.into_iter().map(|g| g.as_raw()).collect(),
        _ => {
            return Err(failure(
                format!("the groups of user {uid} cannot be looked up"),
                "see `id` and /etc/nsswitch.conf",
            ));
        }
    };
    Ok(Some(Identity { uid, gid: gid.as_raw(), groups }))
}

impl Identity {
    /// As the launcher takes it: user, group, all groups.
    pub(crate) fn words(&self) -> [String; 3] {
        let groups: Vec<String> = self.groups.iter().map(u32::to_string).collect();
        [self.uid.to_string(), self.gid.to_string(), groups.join(",")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block<T>(f: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(f)
    }

    #[test]
    fn the_daemons_own_user_needs_no_change() {
        let me = rustix::process::geteuid().as_raw();
        let own = block(name(me));
        assert_eq!(block(identity(me, own.as_deref())), Ok(None));
        if own.is_some() {
            let e = block(identity(me, Some("somebody-else"))).expect_err("another name");
            assert!(e.message.contains("but somebody-else where the job was started"), "{e:?}");
        }
    }

    #[test]
    fn others_are_known_by_number_and_name_or_refused() {
        // Nobody is 65534 wherever this runs; 4000000001 is no one.
        let Some(nobody) = block(name(65_534)) else { return eprintln!("skipped: no user 65534 here") };
        let got = block(identity(65_534, Some(&nobody)));
        if !rustix::process::geteuid().is_root() {
            let e = got.expect_err("only root may");
            return assert!(e.message.contains("starts programs of nobody else"), "{e:?}");
        }
        let found = got.expect("root may").expect("another user");
        assert!(found.uid == 65_534 && found.gid != 0 && !found.groups.contains(&0), "{found:?}");
        assert_eq!(found.words()[0], "65534");
        let e = block(identity(65_534, None)).expect_err("nameless there");
        assert!(e.message.contains("has no name"), "{e:?}");
        let e = block(identity(4_000_000_001, Some("x"))).expect_err("no such user");
        assert!(e.message.contains("no user 4000000001 here (x where"), "{e:?}");
    }
}
