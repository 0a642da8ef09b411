//! The Rust and C levels of `libangara` on the real network: everything `libangara/examples/check.rs`
//! looks at, in jobs of different sizes, shapes, engines and barrier families.

use angara_tests::{Test, tools};

/// `angara run` options, one job each.
const JOBS: [&str; 9] = [
    "-n 2 --path direct",
    "-n 7 --path direct --barrier dissemination",
    "-n 1 --path ring",
    "-n 8 --path ring",
    "-n 16 --ppn 4 --path ring",
    "-n 5 --path direct --barrier multiphase",
    "-n 8 --path ring --barrier dissemination",
    "-n 9 --mesh 3x3 --path ring --barrier counter",
    "-n 12 --torus 4x2x2x2 --path ring --map random:3",
];

#[test]
fn every_promise_of_the_library_holds_in_every_kind_of_job() {
    let check = tools::example("check");
    for job in JOBS {
        let test = Test::new("driver-check");
        let mut run = test.angara(["run", "--heap", "8M", "--timeout", "200"]);
        run.args(job.split(' ')).arg("--").arg(&check);
        let done = test.run(run).success();
        assert!(done.stdout.contains("ok"), "{job}: {done}");
    }
}

#[test]
fn promises_hold_over_a_lossy_and_a_dead_link() {
    let check = tools::example("check");
    for fault in ["link 0,0,0 +X corrupt=1%", "link 0,0,0 +X down"] {
        let test = Test::new("driver-faults");
        let mut run = test.angara(["run", "-n", "8", "--path", "ring", "--heap", "8M", "--timeout", "200"]);
        run.args(["--fault", fault, "--"]).arg(&check);
        let done = test.run(run).success();
        assert!(done.stdout.contains("ok"), "{fault}: {done}");
    }
}

#[test]
fn the_c_driver_of_sixty_lines_sends_a_packet_round_the_ring() {
    let test = Test::new("driver-c");
    let mut run = test.angara(["run", "-n", "3", "--timeout", "200", "--"]);
    run.arg(tools::driver());
    let done = test.run(run).success();
    for pe in 0..3 {
        let want = format!("PE {pe} at node {pe} got \"hello, PE {pe}\" from PE {}: ok", (pe + 2) % 3);
        assert!(done.stdout.contains(&want), "{done}");
    }
}
