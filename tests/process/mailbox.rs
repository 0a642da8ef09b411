//! Mailboxes on the real network: everything `libangara/examples/mailbox_check.rs` looks at, in jobs of different sizes and
//! engines, and the example in C.

use angara_tests::{Test, tools};

fn check(options: &str, messages: &str) {
    let test = Test::new("mailbox");
    let mut run = test.angara(["run", "--heap", "64M", "--timeout", "200"]);
    run.args(options.split(' ')).arg("--").arg(tools::example("mailbox_check")).arg(messages);
    let done = test.run(run).success();
    assert!(done.stdout.contains("PE 0: ok"), "{options}: {done}");
    test.assert_clean();
}

#[test]
fn every_promise_holds_in_every_kind_of_job() {
    for job in ["-n 1 --path direct", "-n 1 --path ring", "-n 2", "-n 7 --path direct", "-n 8 --path ring"] {
        check(job, "20000");
    }
    check("-n 12 --torus 4x2x2x2 --path ring --map random:3", "2000");
    check("-n 300 --path direct", "300");
}

#[test]
fn a_million_messages_pass_a_ring_of_256_slots() {
    check("-n 2 --path direct", "1000000");
    check("-n 2 --path ring", "1000000");
}

#[test]
fn a_lossy_and_a_dead_link_lose_nothing() {
    for fault in ["corrupt=1%", "down"] {
        let test = Test::new("mailbox-faults");
        let mut run = test.angara(["run", "-n", "8", "--path", "ring", "--heap", "64M", "--timeout", "200", "--fault"]);
        run.arg(format!("link 0,0,0 +X {fault}")).arg("--").arg(tools::example("mailbox_check")).arg("3000");
        let done = test.run(run).success();
        assert_eq!(done.stdout.matches(": ok").count(), 8, "{fault}: {done}");
    }
}

#[test]
fn the_c_example_sends_and_receives_everywhere() {
    let program = tools::c_example("mailbox");
    for (job, pes) in [("-n 2", 2), ("-n 3 --path ring", 3), ("-n 2 --clock virtual", 2)] {
        let test = Test::new("mailbox-c");
        let mut run = test.angara(["run", "--timeout", "200"]);
        run.args(job.split(' ')).arg("--").arg(&program);
        let done = test.run(run).success();
        assert_eq!(done.stdout.matches("in order: ok").count(), pes, "{job}: {done}");
    }
}

/// One PE writes nonsense where its own words and messages go, and messages of random bytes. The others' messages arrive, in order
/// and whole, and impossible credit ends that pair.
#[test]
fn nonsense_of_one_peer_concerns_nobody_else() {
    for job in ["-n 4 --path direct", "-n 4 --path ring", "-n 3 --ppn 3 --path auto"] {
        let test = Test::new("mailbox-hostile");
        let mut run = test.angara(["run", "--heap", "64M", "--timeout", "200"]);
        run.args(job.split(' ')).arg("--").arg(tools::example("mailbox_hostile")).arg("20000");
        let done = test.run(run).success();
        let pes = if job.contains("-n 4") { 4 } else { 3 };
        assert_eq!(done.stdout.matches(": ok").count(), pes, "{job}: {done}");
        test.assert_clean();
    }
}

/// Virtual time is the same in every run: mailboxes look and wait by the PE's clock.
#[test]
fn in_virtual_time_two_runs_take_as_long() {
    let program = tools::c_example("mailbox");
    let times = [1, 2].map(|_| {
        let test = Test::new("mailbox-virtual");
        let mut run = test.angara(["run", "-n", "2", "--clock", "virtual", "--timeout", "200", "--"]);
        run.arg(&program);
        let done = test.run(run).success();
        let line = done.stderr.lines().find(|line| line.contains("of virtual time")).map(String::from);
        line.and_then(|line| line.split(" of virtual time").next().map(String::from)).expect("a time")
    });
    assert_eq!(times[0], times[1]);
}
