//! Processes that mpiexec starts come to the result of one, where there is an mpiexec.

use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_angara-sim-mpi");

/// Members of a result that a second run has otherwise.
const OTHERWISE: [&str; 5] = ["wall_s", "packet_hops_per_s", "flit_hops_per_s", "peak_rss_bytes", "model_bytes"];

/// Runs the program by N processes; 0: without mpiexec.
fn run(processes: usize, options: &str) -> Output {
    let mut command = match processes {
        0 => Command::new(PROGRAM),
        n => {
            let mut mpiexec = Command::new("mpiexec");
            mpiexec.args(["-n", &n.to_string(), PROGRAM]);
            mpiexec
        }
    };
    // Open MPI refuses root and more processes than cores unless told otherwise. Both kinds know the time limit.
    let told = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"];
    command.envs(told.map(|name| (name, "1"))).env("MPIEXEC_TIMEOUT", "100");
    // As Open MPI 5 wants to be told.
    command.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    command.args(["run", "--json"]).args(options.split(' ')).stdin(std::process::Stdio::null());
    command.output().expect("a program that is there")
}

/// The result, line by line, without what a second run has otherwise.
fn result(processes: usize, options: &str) -> Vec<String> {
    let output = run(processes, options);
    let text = String::from_utf8(output.stdout).expect("JSON");
    assert!(output.status.success(), "{processes} processes, {options}: {}", String::from_utf8_lossy(&output.stderr));
    let kept = text.lines().filter(|line| !OTHERWISE.iter().any(|key| line.contains(&format!("\"{key}\""))));
    kept.map(String::from).collect()
}

fn has_mpiexec() -> bool {
    let has = Command::new("mpiexec").arg("--version").output().is_ok_and(|output| output.status.success());
    if !has {
        eprintln!("skipped: no mpiexec");
    }
    has
}

#[test]
fn the_number_of_processes_changes_nothing() {
    if !has_mpiexec() {
        return;
    }
    for options in [
        "--topology torus:4x4 --router generic --load 0.1 --warmup 300 --cycles 600",
        "--topology torus:4x4 --router generic --load 0.9 --pattern hotspot:5,0.5 --warmup 300 --cycles 600",
        "--topology mesh:4x4 --router generic --switching wormhole --length 4 --load 0.2 --warmup 300 --cycles 600",
        "--topology torus:4x4 --router angara --load 0.2 --pattern hotspot:5,0.5 --warmup 300 --cycles 2000",
        // Messages of a window that are longer than a first piece.
        "--topology torus:24x24x2 --router generic --load 0.9 --warmup 20 --cycles 40",
    ] {
        let alone = result(0, options);
        assert!(alone.len() > 40, "{options}: {alone:?}");
        for processes in [1, 2, 3] {
            assert_eq!(result(processes, options), alone, "{options}, {processes} processes");
        }
    }
}

#[test]
fn mistakes_are_said_once() {
    if !has_mpiexec() {
        return;
    }
    for (options, part) in [
        ("--load 99.0", "load"),
        ("--topology torus:4x4 --workload all-to-all:64", "open-loop traffic only"),
        ("--topology torus:2 --router generic --load 0.1", "processes = 3: the network can be cut into 2 parts"),
        ("--no-such-option", "unexpected argument"),
    ] {
        let output = run(3, options);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.matches(part).count() >= 1, "{options}: {said}");
        assert_eq!(said.matches("error:").count(), 1, "{options}: {said}");
    }
}
