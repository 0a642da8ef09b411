//! RDMA programs in C on adapters of a daemon, where headers of libibverbs are to be had.

use angara_tests::{Test, tools};
use std::path::Path;
use std::process::Command;

/// Ways that data goes.
const WAYS: [&[&str]; 5] =
    [&[], &["--memory", "agent"], &["--memory", "direct"], &["--memory", "remap"], &["--path", "ring"]];

/// Runs a program of `tests/c/verbs` on adapters of its own, each way.
fn each_way(name: &str) {
    let test = Test::new(&format!("verbs-{name}"));
    if !Path::new("/usr/include/infiniband/verbs.h").exists() {
        println!("-- skipped: there are no headers of libibverbs (libibverbs-dev)");
        return;
    }
    let (source, program) = (tools::root().join(format!("tests/c/verbs/{name}.c")), test.file(name));
    let mut cc = test.command("cc");
    cc.args(["-Wall", "-o"]).arg(&program).arg(source).arg("-libverbs");
    test.run(cc).success();
    for way in WAYS {
        let mut command: Command = test.command(tools::tool("angara"));
        command.arg("verbs").args(way).arg("--").arg(&program);
        let done = test.run(command);
        assert!(done.code() == 0, "{way:?}: {done}");
    }
}

#[test]
fn two_queue_pairs_of_a_process_talk_to_each_other() {
    each_way("loop");
}

#[test]
fn files_of_adapters_are_where_programs_look() {
    each_way("files");
}

#[test]
fn too_much_of_anything_and_memory_that_goes_are_errors() {
    each_way("limits");
}

#[test]
fn registered_memory_is_the_programs_all_the_while() {
    each_way("memory");
}

#[test]
fn an_adapter_answers_while_much_memory_is_registered() {
    each_way("busy");
}
