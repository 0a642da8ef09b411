//! `cargo xtask release`: all that a version is given away as, from programs that are built, with its sums and what debuggers
//! need.

use angara_tests::{Finished, Test, tools};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// To pack what a build without an optimiser has made takes long.
const LIMIT: Duration = Duration::from_secs(900);

fn release(test: &Test, out: &Path) -> Finished {
    let mut command = test.command(tools::tool("xtask"));
    command.current_dir(tools::root()).arg("release").arg("--from").arg(tools::profile_dir()).arg("--out").arg(out);
    command.env("DPKG_DEB_COMPRESSOR_TYPE", "gzip").env("DPKG_DEB_COMPRESSOR_LEVEL", "1");
    test.spawn(command).wait(LIMIT)
}

#[test]
fn a_release_has_every_artefact_and_its_sum() {
    for (tool, package) in
        [("dpkg-shlibdeps", "dpkg-dev"), ("strip", "binutils"), ("gdb", "gdb"), ("python3", "python3")]
    {
        if !tools::have(tool) {
            println!("skipped: no {tool} (Debian: apt-get install {package})");
            return;
        }
    }
    let test = Test::new("release");
    let out = test.file("artefacts");
    let said = release(&test, &out).success().stdout;
    let mut names: Vec<String> =
        fs::read_dir(&out).expect("made").flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let told: Vec<&str> = said.lines().filter_map(|line| line.rsplit('/').next()).collect();
    let kinds = [".whl", ".zip", "angara_", "libangara-dev_", "libangara1_", "libsma1_", "SHA256SUMS"];
    for kind in kinds {
        let found = names.iter().filter(|name| name.starts_with(kind) || name.ends_with(kind)).count();
        assert_eq!(found, 1, "{kind}: {names:?}");
    }
    assert_eq!((names.len(), told.len()), (kinds.len(), kinds.len()), "{names:?} {told:?}");
    let mut sums = test.command("sha256sum");
    sums.args(["--check", "--strict", "SHA256SUMS"]).current_dir(&out);
    assert_eq!(test.run(sums).success().stdout.matches(": OK").count(), kinds.len() - 1);

    // A debugger finds the lines of a program without any.
    let (lines, bare) = (test.file("lines"), test.file("bare"));
    let archive = names.iter().find(|name| name.ends_with(".zip")).expect("made");
    let mut unpack = test.command("python3");
    unpack.args(["-m", "zipfile", "-e"]).arg(out.join(archive)).arg(&lines);
    test.run(unpack).success();
    let mut strip = test.command("strip");
    strip.arg("-o").arg(&bare).arg(tools::tool("angara"));
    test.run(strip).success();
    let gdb = |folder: &Path| {
        let mut gdb = test.command("gdb");
        gdb.args(["-nx", "-batch", "-iex"]).arg(format!("set debug-file-directory {}", folder.display()));
        gdb.args(["-ex", "info line main.rs:1"]).arg(&bare);
        let done = test.run(gdb);
        done.stdout + &done.stderr
    };
    let with = gdb(&lines);
    assert!(with.contains("Line 1 of") && with.contains("commands/angara/src/main.rs"), "{with}");
    let without = gdb(&test.file("nothing"));
    assert!(!without.contains("commands/angara/src/main.rs"), "{without}");

    release(&test, &out).failure(&["is not empty", "--out"]);
    test.assert_clean();
}
