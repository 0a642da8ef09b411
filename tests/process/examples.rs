//! Examples in C++ and Fortran, and with MPI: each is built and run by the line in its head, on both paths, and checks its own
//! result. Those in C are tried by `matrix.rs`, the one in Python by `python.rs`.

use angara_tests::process::PATIENCE;
use angara_tests::{Test, tools};

/// The line in the head of an example that says how to build and run it, without what is optional.
fn line(example: &str) -> String {
    let text = std::fs::read_to_string(tools::root().join("examples").join(example)).expect("the example");
    let line = text.lines().find(|line| line.contains(" && angara run ")).expect("how it is built and run");
    line.split(" [").next().unwrap_or_default().trim_start_matches(['!', '*', ' ']).into()
}

/// Does what the line says, with `compiler` in place of the one it names. The example must say `says`.
fn build_and_run(example: &str, compiler: &str, says: &str) {
    let test = Test::new("examples");
    let name = example.rsplit('/').next().expect("a file");
    std::fs::copy(tools::root().join("examples").join(example), test.file(name)).expect("copied");
    let line = line(example);
    let (named, _) = line.split_once(' ').expect("a compiler and its arguments");
    let path = std::env::var("PATH").unwrap_or_default();
    // Coarrays of MPICH keep looking for messages, through UCX, with every thread: beside other tests the ring takes minutes.
    let ways: &[&str] = if compiler == "caf.mpich" { &["direct"] } else { &["direct", "ring"] };
    for way in ways {
        let run = format!("&& angara run --path {way} --timeout 200 ");
        let script = line.replacen(named, compiler, 1).replace("&& angara run ", &run);
        let mut sh = test.command("sh");
        sh.args(["-ec", &format!("cd {}\n{script}", test.file("").display())]);
        sh.env("PATH", format!("{}:{path}", tools::profile_dir().display()));
        let done = test.spawn(sh).wait(PATIENCE).success();
        assert!(done.stdout.contains(says), "{example}, {script}: {done}");
    }
    test.assert_clean();
}

/// With every compiler of these that is here.
fn with_each(example: &str, compilers: &[(&str, &str)], says: &str) {
    for (compiler, package) in compilers {
        match tools::have(compiler) {
            true => build_and_run(example, compiler, says),
            false => println!("skipped: no {compiler} (Debian: apt-get install {package})"),
        }
    }
}

#[test]
fn c_plus_plus() {
    match tools::have("c++") {
        true => build_and_run("c++/heat.cpp", "oshc++", "72 x 48 cells on 3 x 2 PEs, 200 steps"),
        false => println!("skipped: no c++ (Debian: apt-get install g++)"),
    }
}

#[test]
fn mpi() {
    let compilers = [("mpicc.openmpi", "libopenmpi-dev"), ("mpicc.mpich", "libmpich-dev")];
    with_each("mpi/sort.c", &compilers, "400000 keys on 4 ranks sorted");
}

#[test]
fn fortran_with_mpi() {
    let compilers = [("mpifort.openmpi", "gfortran libopenmpi-dev"), ("mpifort.mpich", "gfortran libmpich-dev")];
    with_each("fortran/heat_mpi.f90", &compilers, "48 x 64 cells on 4 ranks, 300 steps");
}

#[test]
fn fortran_with_coarrays() {
    let compilers = [("caf.openmpi", "libcoarrays-openmpi-dev"), ("caf.mpich", "libcoarrays-mpich-dev")];
    with_each("fortran/heat_coarray.f90", &compilers, "48 x 64 cells on 4 images, 300 steps");
}
