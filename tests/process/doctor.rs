//! `angara doctor` says which copy of each part is used, and which is in its way.

use angara_tests::{Finished, Test, tools};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A script in the place of a program.
fn script(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().expect("below a directory")).expect("made");
    fs::write(file, format!("#!/bin/sh\n{text}\n")).expect("written");
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("ours");
}

/// Runs the `angara doctor` of `bin` with `PATH` of these directories, before those of the system.
fn doctor(test: &Test, bin: &Path, path: &[&Path], libraries: Option<&Path>) -> Finished {
    let mut command = test.command(bin.join("angara"));
    let system = ["/usr/bin", "/bin"].map(PathBuf::from);
    let path = path.iter().map(|dir| dir.to_path_buf()).chain(system);
    command.arg("doctor").env("PATH", std::env::join_paths(path).expect("no colons"));
    match libraries {
        Some(dir) => command.env("LD_LIBRARY_PATH", dir),
        None => command.env_remove("LD_LIBRARY_PATH"),
    };
    test.run(command)
}

/// The line on `what`, and what is to be done about it.
fn found(done: &Finished, what: &str) -> String {
    let mut lines = done.stdout.lines().skip_while(|line| !line.get(10..).is_some_and(|rest| rest.starts_with(what)));
    let line = lines.next().unwrap_or_else(|| panic!("nothing on {what}: {done}"));
    let remedy = lines.next().filter(|next| next.trim_start().starts_with("->")).unwrap_or_default();
    format!("{line}\n{remedy}")
}

#[test]
fn each_part_is_named_and_other_copies_are_told() {
    let test = Test::new("doctor-copies");
    let bin = tools::profile_dir();
    let done = doctor(&test, bin, &[bin], None).success();
    for (what, part) in [("angara ", "angara ("), ("fabricd", "fabricd ("), ("libsma.so", "libsma.so"), ("shmem.h", "")]
    {
        let line = found(&done, what);
        assert!(line.starts_with("ok ") && line.contains(&bin.join(part).display().to_string()), "{line}");
    }
    let line = found(&done, "other programs");
    assert!(
        line.starts_with("ok ") && line.contains("for angara alloc, bench, plan, sim, top, verbs, whatif"),
        "{line}"
    );
    let line = found(&done, "commands in PATH");
    assert!(line.starts_with("ok ") && line.contains("angara, oshcc, oshc++, oshrun, fabricd of this"), "{line}");
    assert!(found(&done, "libraries in the way").starts_with("ok "), "{done}");

    // A link from a directory for all programs is no other copy.
    let (linked, other) = (test.file("linked"), test.file("other"));
    fs::create_dir_all(&linked).expect("made");
    std::os::unix::fs::symlink(bin.join("oshrun"), linked.join("oshrun")).expect("linked");
    let line = found(&doctor(&test, bin, &[&linked, bin], None).success(), "commands in PATH");
    assert!(line.starts_with("ok "), "{line}");

    script(&other.join("oshcc"), "exit 1");
    fs::write(other.join("libsma.so.1"), "").expect("written");
    let done = doctor(&test, bin, &[&other, bin], Some(&other)).success();
    let line = found(&done, "commands in PATH");
    assert!(line.starts_with("fallback") && line.contains("other/oshcc of another"), "{line}");
    assert!(line.contains("-> ") && line.contains("first in PATH"), "{line}");
    let line = found(&done, "libraries in the way");
    assert!(line.starts_with("fallback") && line.contains("other/libsma.so.1"), "{line}");
    test.assert_clean();
}

#[test]
fn half_an_installation_is_told() {
    let test = Test::new("doctor-half");
    let bin = test.file("half/bin");
    fs::create_dir_all(&bin).expect("made");
    tools::copy_program(&tools::profile_dir().join("angara"), &bin.join("angara"));
    let done = doctor(&test, &bin, &[], None);
    assert_eq!(done.status.code(), Some(1), "{done}");
    for what in ["fabricd", "libsma.so", "shmem.h"] {
        let line = found(&done, what);
        assert!(line.starts_with("MISSING") && line.contains("install the whole tree"), "{line}");
    }
    // A daemon that was left by another version, and one that this system cannot run.
    for (text, why) in
        [("echo fabricd 99.0.0", "is version 99.0.0"), ("echo 'no GLIBC_2.99' >&2; exit 1", "GLIBC_2.99")]
    {
        script(&bin.join("fabricd"), text);
        let line = found(&doctor(&test, &bin, &[], None), "fabricd");
        assert!(line.starts_with("MISSING") && line.contains(why), "{line}");
    }
    test.assert_clean();
}

#[test]
fn what_rdma_programs_find_is_told() {
    let test = Test::new("doctor-verbs");
    let bin = tools::profile_dir();
    let done = doctor(&test, bin, &[bin], None).success();
    let line = found(&done, "RDMA library");
    assert!(line.starts_with("ok ") && line.contains(&bin.join("libangara-verbs").display().to_string()), "{line}");
    // Whether it is permitted is the machine's business. Either way the line names the call.
    let line = found(&done, "direct RDMA copies");
    assert!(line.contains("process_vm_readv"), "{line}");
    assert!(
        line.starts_with("ok ") && line.contains("process_vm_writev") || line.contains("-> RDMA programs run"),
        "{line}"
    );

    // Tools are looked for in PATH, the system's directories here.
    let programs = test.file("programs");
    ["ibv_devinfo", "ib_write_lat"].into_iter().for_each(|name| script(&programs.join(name), "exit 0"));
    let line = found(&doctor(&test, bin, &[&programs, bin], None).success(), "RDMA programs");
    assert!(line.starts_with("ok ") && line.contains("ibv_devinfo, ib_write_lat in PATH"), "{line}");

    // A copy without the library says what is refused, and how to get it.
    let alone = test.file("alone/bin");
    fs::create_dir_all(&alone).expect("made");
    tools::copy_program(&bin.join("angara"), &alone.join("angara"));
    let line = found(&doctor(&test, &alone, &[], None), "RDMA library");
    assert!(line.starts_with("fallback") && line.contains("`angara verbs` is refused"), "{line}");
    test.assert_clean();
}
