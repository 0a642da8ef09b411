//! Python: the shmem4py package builds with our compiler wrapper, its own tests pass, the example runs.

use angara_tests::{Test, python, tools};
use std::time::Duration;

/// 110 tests in Python on every PE take seconds, and minutes on a machine that does much else.
const LIMIT: Duration = Duration::from_secs(240);

#[test]
fn shmem4py_builds_passes_its_tests_and_runs_the_example() {
    let Some((python, tests)) = python::environment() else { return };
    for (path, pes) in [("direct", "2"), ("ring", "2")] {
        let test = Test::new("shmem4py");
        let mut command = test.angara(["run", "-n", pes, "--path", path, "--timeout", "200", "--"]);
        command.arg(python).args(["-m", "unittest", "discover", "-s"]).arg(tests);
        let done = test.spawn(command).wait(LIMIT).success();
        let ran = done.stderr.lines().filter(|l| l.starts_with("Ran ")).count();
        assert_eq!(ran.to_string(), pes, "every PE reports: {done}");
        test.assert_clean();
    }
    let test = Test::new("python-example");
    let mut command = test.angara(["run", "-n", "3", "--timeout", "200", "--"]);
    command.arg(python).arg(tools::root().join("examples/python/jacobi.py")).arg("4");
    let done = test.run(command).success();
    assert!(done.stdout.contains("12 cells") && done.stdout.contains("a straight line"), "{done}");
    test.assert_clean();
}
