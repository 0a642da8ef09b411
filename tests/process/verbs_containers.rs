//! RDMA programs in namespaces as containers have them: processes of their own, an ordinary user, no privileges, and a filter
//! of system calls.

use angara_tests::daemon::Daemon;
use angara_tests::process::{PATIENCE, Running};
use angara_tests::users::set_mode;
use angara_tests::{Test, tools};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Starts a shell with processes, files and shared memory of its own, as a container of this user.
const CONTAINER: [&str; 7] = ["unshare", "--map-root-user", "--mount", "--pid", "--fork", "--ipc", "--mount-proc"];
/// What an engine does then, and a user without rights in the end.
const SET_UP: &str = "mount -t tmpfs -o size=64k shm /dev/shm && mount -t tmpfs -o size=4m,mode=1777 small /mnt \
    && unset HOME && export TMPDIR=/mnt && exec unshare --user --map-user=1000 --map-group=1000 \"$@\"";
/// Who is root becomes an ordinary user by these words.
const ORDINARY: [&str; 6] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", "--"];

/// The filter, and where it can be used.
struct Containers<'t> {
    test: &'t Test,
    filter: PathBuf,
}

impl<'t> Containers<'t> {
    fn new(test: &'t Test) -> Option<Containers<'t>> {
        let (source, filter) = (tools::root().join("tests/c/verbs/forbid.c"), test.file("forbid"));
        let mut cc = test.command("cc");
        cc.args(["-Wall", "-o"]).arg(&filter).arg(source);
        test.run(cc).success();
        let containers = Containers { test, filter };
        let done = test.run(containers.inside(&[], &["true".into()]));
        if done.code() != 0 {
            println!("-- skipped: no namespaces, or no filter of system calls: {done}");
            return None;
        }
        Some(containers)
    }

    /// A command in a container of its own.
    fn inside(&self, before: &[&str], words: &[String]) -> Command {
        let start = [before, &CONTAINER].concat();
        let mut command = self.test.command(start[0]);
        command.args(&start[1..]).args(["sh", "-c", SET_UP, "sh"]).arg(&self.filter).args(words);
        command
    }

    /// One of two, at a daemon outside.
    fn peer(&self, daemon: &Daemon, options: &[&str], (place, number): (&PathBuf, u32), strict: bool) -> Running {
        let mut words: Vec<String> = if strict { vec!["-p".into()] } else { Vec::new() };
        let at = |path: PathBuf| path.display().to_string();
        words.extend([at(tools::tool("angara")), "verbs".into(), "--runtime-dir".into(), at(daemon.dir().into())]);
        words.extend(options.iter().map(|option| option.to_string()));
        words.extend([
            "--".into(),
            at(tools::example("verbs_peer")),
            at(place.clone()),
            number.to_string(),
            "15".into(),
        ]);
        self.test.spawn(self.inside(&[], &words))
    }
}

#[test]
fn containers_that_share_a_daemon_find_every_byte_of_each_other() {
    let test = Test::new("verbs-containers");
    let Some(containers) = Containers::new(&test) else { return };
    // Each case has a domain of its own, and each takes half of the channels that are free.
    let daemon = Daemon::start(&test, &["--torus", "2x2", "--channels", "128"]);
    let ways: [&[&str]; 4] = [&[], &["--memory", "agent"], &["--path", "ring"], &["--nodes", "1,2"]];
    for (turn, way) in ways.iter().enumerate() {
        for strict in [[false, false], [true, false], [true, true]] {
            let name = format!("{turn}-{}-{}", strict[0], strict[1]);
            let options = [&["--domain", &name], *way].concat();
            let place = test.file(&name);
            fs::create_dir_all(&place).expect("made");
            let both = [0, 1].map(|n| containers.peer(&daemon, &options, (&place, n as u32), strict[n]));
            // What the one says is of use where the other one fails.
            let both = both.map(|one| one.wait(PATIENCE));
            assert!(both.iter().all(|one| one.code() == 0), "{}\n{}", both[0], both[1]);
        }
    }
    daemon.shutdown();
    test.assert_clean();
}

#[test]
fn a_container_without_privileges_has_a_daemon_of_its_own() {
    let test = Test::new("verbs-ci");
    let Some(containers) = Containers::new(&test) else { return };
    let at = |path: PathBuf| path.display().to_string();
    let place = test.file("pair");
    fs::create_dir(&place).expect("made");
    set_mode(&place, 0o777);
    let before: &[&str] = if rustix::process::geteuid().is_root() { &ORDINARY } else { &[] };
    let script = "rm -f $1/? && { $0 $1 0 15 & $0 $1 1 15 && wait $!; }";
    for strict in [false, true] {
        for way in [&[][..], &["--path", "ring"], &["--memory", "agent"]] {
            let mut words: Vec<String> = if strict { vec!["-p".into()] } else { Vec::new() };
            words.extend([at(tools::tool("angara")), "verbs".into()]);
            words.extend(way.iter().map(|word| word.to_string()));
            words.extend(["--", "sh", "-c", script].map(String::from));
            words.extend([at(tools::example("verbs_peer")), at(place.clone())]);
            let mut command = containers.inside(before, &words);
            command.env_remove("XDG_RUNTIME_DIR");
            test.run(command).success();
        }
    }
    test.assert_clean();
}

#[test]
fn the_script_of_the_guide_runs_in_such_a_container() {
    let test = Test::new("verbs-guide");
    let Some(containers) = Containers::new(&test) else { return };
    if !tools::have("ibv_devinfo") && !PathBuf::from("/usr/bin/ibv_rc_pingpong").exists() {
        println!("-- skipped: no ibv_rc_pingpong (Debian: ibverbs-utils, libibverbs-dev)");
        return;
    }
    let page = fs::read_to_string(tools::root().join("docs/guide/rdma-in-ci.md")).expect("a page");
    let script = page.split("<!-- file: rdma-test.sh -->\n```sh\n").nth(1).expect("the script");
    let script = script.split("```").next().expect("it ends");
    let here = test.file("checkout");
    fs::create_dir(&here).expect("made");
    set_mode(&here, 0o777);
    fs::write(here.join("rdma-test.sh"), script).expect("written");
    std::os::unix::fs::symlink(tools::root().join("examples"), here.join("examples")).expect("linked");
    let before: &[&str] = if rustix::process::geteuid().is_root() { &ORDINARY } else { &[] };
    let mut command = containers.inside(before, &["sh", "rdma-test.sh"].map(String::from));
    let path = std::env::var("PATH").unwrap_or_default();
    command.current_dir(&here).env("PATH", format!("{}:{path}", tools::profile_dir().display()));
    command.env_remove("XDG_RUNTIME_DIR");
    test.run(command).success();
    test.assert_clean();
}
