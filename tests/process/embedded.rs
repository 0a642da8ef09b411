//! A data plane without a daemon: the example that embeds one.

use angara_tests::{Test, tools};

#[test]
fn a_program_runs_a_network_of_its_own() {
    let test = Test::new("embedded");
    let done = test.run(test.command(tools::example("two_pes"))).success();
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(lines, ["PE 1 has: hello over one link", "link 0 +X carried 19 bytes"], "{done}");
    test.assert_clean();
}
