//! `cargo xtask deb --check`: what lintian says of the packages, and a life of theirs in a Debian made for it.

use super::Packages;
use crate::steps::{Temporary, make_dir, require, run};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Programs this takes, and the package of Debian that has each.
const TOOLS: [(&str, &str); 4] =
    [("lintian", "lintian"), ("mmdebstrap", "mmdebstrap"), ("chroot", "coreutils"), ("unshare", "util-linux")];

/// What the walk needs beside the packages and what they need: another OpenSHMEM and MPI, compilers, and services.
const BESIDE: &str =
    "openmpi-bin,libopenmpi-dev,gcc,g++,libc6-dev,pkg-config,cmake,make,systemd,libfabric-bin,tshark,man-db";

/// Makes the packages, and others of a higher version to upgrade to, and has both tried.
pub(crate) fn check(packages: Packages) -> Result<String, String> {
    require(&TOOLS)?;
    if run(Command::new("id").arg("-u"))?.trim() != "0" {
        return Err("--check makes a root directory and changes into it, which only root may; run it with sudo".into());
    }
    let made = packages.build()?;
    // Below a directory that is not in /tmp, which a namespace may have of its own.
    let room = Temporary(packages.out.join(format!(".check-{}", std::process::id())));
    make_dir(&room.0)?;
    let script = packages.root.join("packaging/debian/walk.sh");
    let higher = Packages { version: format!("{}+1", packages.version), out: room.0.join("higher"), ..packages };
    let upgrade = higher.build()?;
    step(
        "lintian",
        Command::new("lintian").args(["--fail-on", "error,warning", "--tag-display-limit", "0"]).args(&made),
    )?;
    let root = room.0.join("root");
    let suite = suite()?;
    let mut bootstrap = Command::new("mmdebstrap");
    // Its own user for downloads may not read every directory.
    bootstrap.args(["--quiet", "--mode=root", "--variant=minbase", "--aptopt=APT::Sandbox::User \"root\""]);
    step("a clean root", bootstrap.arg(format!("--include={BESIDE}")).arg(suite).arg(&root))?;
    for (dir, files) in [("old", &made), ("new", &upgrade)] {
        let dir = root.join("packages").join(dir);
        make_dir(&dir)?;
        for file in files {
            let to = dir.join(file.file_name().unwrap_or_default());
            fs::copy(file, &to).map_err(|e| super::cannot("copy to", &to, &e))?;
        }
    }
    fs::copy(&script, root.join("packages/walk.sh")).map_err(|e| super::cannot("copy", &script, &e))?;
    step("the walk", &mut walk(&root))?;
    Ok(format!("{}\n", made.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join("\n")))
}

/// The walk in its own namespaces: what it mounts and starts ends with it.
fn walk(root: &Path) -> Command {
    let enter = "mount -t proc proc \"$0/proc\" && mount -t sysfs -o ro sysfs \"$0/sys\" && exec chroot \"$0\" timeout -k 10 900 sh /packages/walk.sh";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", enter]).arg(root);
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C.UTF-8");
    command
}

/// Runs one step, which prints for itself.
fn step(what: &str, command: &mut Command) -> Result<(), String> {
    angara_protocol::complain!("xtask: {what}");
    let name = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{what}: {name} failed ({status}); see what it said above")),
        Err(e) => Err(format!("{what}: cannot start {name}: {e}")),
    }
}

/// The Debian that this machine runs: what was built here needs its libraries.
fn suite() -> Result<String, String> {
    let text = fs::read_to_string("/etc/os-release").map_err(|e| format!("cannot read /etc/os-release: {e}"))?;
    let value = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)).map(|v| v.trim_matches('"').to_string());
    match (value("ID="), value("VERSION_CODENAME=")) {
        (Some(id), Some(suite)) if id == "debian" => Ok(suite),
        (id, _) => Err(format!("--check needs a Debian, and /etc/os-release names `{}`", id.unwrap_or_default())),
    }
}
