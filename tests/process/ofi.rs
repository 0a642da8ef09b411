//! The libfabric provider under libfabric's own programs. Where these are not installed, nothing is tried.

use angara_tests::{Test, tools};
use std::process::Command;

/// A job of two PEs of which the first is `fi_pingpong`'s server and the second its client. Each test has a port of its own.
fn pingpong(test: &Test, options: &str, port: u16, arguments: &str) -> Command {
    let words = format!("fi_pingpong -p angara -e rdm {arguments}");
    // The client asks for the server at once: it tries until that listens.
    let script = format!(
        "if [ $ANGARA_PE = 0 ]; then exec {words} -B {port}; else \
         for i in $(seq 50); do {words} -P {port} 127.0.0.1 2> err.$ANGARA_PE && exit 0; \
         grep -q refused err.$ANGARA_PE || break; sleep 0.2; done; cat err.$ANGARA_PE >&2; exit 1; fi"
    );
    let mut run = test.angara(["run", "-n", "2", "--heap", "64M", "--timeout", "100"]);
    run.args(options.split(' ')).args(["--", "sh", "-c"]).arg(script);
    run.env("FI_PROVIDER_PATH", tools::profile_dir().join("lib/libfabric")).current_dir(test.file("."));
    run
}

/// True if libfabric's programs are there.
fn have() -> bool {
    let have = tools::have("fi_info");
    if !have {
        println!("-- skipped: fi_pingpong and fi_info (package libfabric-bin) are not installed");
    }
    have
}

#[test]
fn messages_of_every_size_arrive_whole_on_both_paths() {
    if !have() {
        return;
    }
    for (options, port) in [("--path direct", 47611), ("--path ring", 47612)] {
        let test = Test::new("ofi-pingpong");
        // `-c` compares every byte.
        let done = test.run(pingpong(&test, options, port, "-c -I 20 -S all")).success();
        assert!(done.stdout.contains("6m"), "{options}: {done}");
        test.assert_clean();
    }
}

#[test]
fn the_provider_describes_itself_and_answers_only_when_it_is_meant() {
    if !have() {
        return;
    }
    let test = Test::new("ofi-info");
    let info = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut info = test.command("fi_info");
        info.args(arguments).env("FI_PROVIDER_PATH", tools::profile_dir().join("lib/libfabric"));
        info.envs(variables.iter().copied());
        test.run(info)
    };
    let named = info(&["-p", "angara", "-v"], &[]).success();
    for part in ["FI_TAGGED", "FI_ATOMIC", "FI_MULTI_RECV", "FI_EP_RDM", "prov_name: angara"] {
        assert!(named.stdout.contains(part), "{part}: {named}");
    }
    assert!(!info(&[], &[]).stdout.contains("angara"), "nobody has named it");
    assert!(info(&[], &[("FI_PROVIDER", "angara")]).success().stdout.contains("provider: angara"));
    let refused = info(&["-p", "angara", "-t", "FI_EP_MSG"], &[("FI_LOG_LEVEL", "info")]);
    assert!(refused.stderr.contains("there is FI_EP_RDM"), "{refused}");
}
