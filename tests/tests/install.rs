//! `cargo xtask install`: the installed tree compiles and runs a program by itself, its units are valid,
//! and `uninstall` leaves nothing.

use angara_tests::{Finished, Test, tools};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const UNITS: [&str; 5] =
    ["fabricd.service", "fabricd@root.service", "fabricd.socket", "fabricd-cluster.service", "fabricd-cluster.socket"];

const HELLO: &str = r#"
#include <shmem.h>
#include <stdio.h>
static long seen;
int main(void) {
    shmem_init();
    shmem_long_atomic_add(&seen, shmem_my_pe() + 1, 0);
    shmem_barrier_all();
    if (shmem_my_pe() == 0) printf("hello from %d PEs, sum %ld\n", shmem_n_pes(), seen);
    shmem_finalize();
    return 0;
}
"#;

/// `cargo xtask` with `words`, on the programs under test.
fn xtask(test: &Test, words: &[&str]) -> Finished {
    let built = tools::profile_dir();
    let target = built.parent().expect("a profile lies in the target directory");
    let mut command = test.command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(tools::root()).args(["run", "--quiet", "--package", "xtask", "--target-dir"]).arg(target);
    // Where rustup and cargo keep what they need; the test has a home of its own.
    for name in ["HOME", "CARGO_HOME", "RUSTUP_HOME"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.arg("--").args(words);
    if words[0] == "install" {
        command.arg("--from").arg(built);
    }
    test.run(command)
}

fn all_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type().expect("a file").is_dir() {
            true => found.extend(all_files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

#[test]
fn an_installed_tree_works_by_itself_and_goes_away_again() {
    let test = Test::new("install");
    let prefix = test.file("opt/angara");
    let shown = prefix.to_str().expect("utf-8");
    xtask(&test, &["install", "--prefix", shown]).success();
    let source = test.file("hello.c");
    std::fs::write(&source, HELLO).expect("written");
    let program = test.file("hello");
    let mut oshcc = test.command(prefix.join("bin/oshcc"));
    oshcc.arg(&source).arg("-o").arg(&program);
    test.run(oshcc).success();
    let mut oshrun = test.command(prefix.join("bin/oshrun"));
    oshrun.args(["-n", "4", "--timeout", "60"]).arg(&program);
    let done = test.run(oshrun).success();
    assert!(done.stdout.contains("hello from 4 PEs, sum 10"), "{done}");
    // It is the installed library that the program found.
    let text = std::fs::read(&program).expect("compiled");
    let runpath = format!("{shown}/lib");
    assert!(text.windows(runpath.len()).any(|w| w == runpath.as_bytes()), "no {runpath} in the program");
    let page = std::fs::read_to_string(prefix.join("share/man/man1/angara-run.1")).expect("a manual page");
    assert!(page.starts_with(".TH ANGARA-RUN 1") && page.contains("\\-\\-torus"), "{page}");

    // What others put there stays; installing again changes nothing.
    std::fs::write(prefix.join("share/mine"), "").expect("written");
    let before = all_files(&prefix);
    xtask(&test, &["install", "--prefix", shown]).success();
    assert_eq!(all_files(&prefix), before);
    let done = xtask(&test, &["uninstall", "--prefix", shown]).success();
    assert!(done.stdout.contains(&format!("kept {shown}/share: it is not empty")), "{done}");
    assert_eq!(all_files(&prefix), [prefix.join("share/mine")]);
    assert!(!prefix.join("bin").exists());
    xtask(&test, &["uninstall", "--prefix", shown]).failure(&["cannot read", "--prefix"]);
    test.assert_clean();
}

#[test]
fn units_name_the_prefix_and_are_valid() {
    let test = Test::new("units");
    let stage = test.file("stage");
    let shown = stage.to_str().expect("utf-8");
    let done = xtask(&test, &["install", "--systemd", "--prefix", "/usr", "--destdir", shown]).success();
    assert!(done.stdout.contains("systemd-sysusers /usr/lib/sysusers.d/angara.conf"), "{done}");
    let units = stage.join("usr/lib/systemd/system");
    let unit = std::fs::read_to_string(units.join("fabricd.service")).expect("installed");
    assert!(unit.contains("ExecStart=/usr/bin/fabricd --config /etc/angara/fabricd.toml"), "{unit}");
    for file in all_files(&stage) {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read(&file).expect("readable");
        assert!(!text.windows(8).any(|w| w == b"@bindir@"), "{name} is not filled in");
        let mode = std::fs::metadata(&file).expect("there").permissions().mode();
        assert_eq!(mode & 0o022, 0, "{name} may be written by others");
    }
    // The options it ships with are valid, and an administrator's own are kept.
    let config = stage.join("etc/angara/fabricd.toml");
    let mut check = test.command(tools::tool("fabricd"));
    check.arg("--check-config").arg("--config").arg(&config);
    test.run(check).success();
    std::fs::write(&config, "torus = \"4\"\n").expect("written");
    xtask(&test, &["install", "--systemd", "--prefix", "/usr", "--destdir", shown]).success();
    assert_eq!(std::fs::read_to_string(&config).expect("kept"), "torus = \"4\"\n");
    xtask(&test, &["uninstall", "--prefix", "/usr", "--destdir", shown]).success();
    assert_eq!(all_files(&stage), [config]);
    test.assert_clean();
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    if !tools::have("systemd-analyze") {
        println!("skipped: no systemd-analyze (Debian: apt-get install systemd)");
        return;
    }
    let test = Test::new("verify");
    // Unit files must lie where their programs do: verify looks for those.
    let prefix = test.file("usr");
    let shown = prefix.to_str().expect("utf-8");
    xtask(&test, &["install", "--systemd", "--prefix", shown]).success();
    let units = prefix.join("lib/systemd/system");
    std::fs::copy(units.join("fabricd@.service"), units.join("fabricd@root.service")).expect("an instance");
    for unit in UNITS {
        let mut verify = test.command("systemd-analyze");
        verify
            .args(["verify", "--man=no"])
            .arg(units.join(unit))
            .env("SYSTEMD_UNIT_PATH", format!("{}:", units.display()));
        let done = test.run(verify);
        let ours: Vec<&str> = done.stderr.lines().filter(|l| l.contains("fabricd") || l.contains(shown)).collect();
        assert!(done.code() == 0 && ours.is_empty(), "{unit}: {ours:?}\n{done}");
    }
    let mut security = test.command("systemd-analyze");
    security.args(["security", "--offline=yes", "--threshold=30"]).arg(units.join("fabricd.service"));
    let done = test.run(security);
    assert_eq!(done.code(), 0, "an exposure above 3.0: {done}");
    test.assert_clean();
}
