//! `angara new`: what it makes builds and runs by the two commands that it prints; what it refuses.

use angara_tests::process::PATIENCE;
use angara_tests::{Test, python, tools};
use std::fs;
use std::path::Path;

/// Makes a project, and does what the command says. Cargo may ask no registry.
fn build_and_run(lang: &str, path: &str, says: &[&str]) {
    let test = Test::new("new");
    let done = test.run(test.angara(["new", "my-waves_2", "--lang", lang])).success();
    let [build, run] = done.stdout.lines().collect::<Vec<_>>()[..] else { panic!("two commands: {done}") };
    let run = run.replace("angara run ", "angara run --timeout 200 ");
    let mut sh = test.command("sh");
    sh.args(["-ec", &format!("{build}\n{run}")]).current_dir(test.file(""));
    sh.env("PATH", path).env("CARGO_NET_OFFLINE", "true");
    sh.env("CARGO_TARGET_DIR", "target");
    let done = test.spawn(sh).wait(PATIENCE).success();
    for line in says {
        assert!(done.stdout.contains(line), "{lang}: no {line:?} in {done}");
    }
    test.assert_clean();
}

/// Where the commands under test are found first, or second.
fn path(first: Option<&Path>) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let first = first.map_or(String::new(), |dir| format!("{}:", dir.display()));
    format!("{first}{}:{path}", tools::profile_dir().display())
}

/// True if all these programs are here; says so if not.
fn here(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| !tools::have(program));
    missing.inspect(|program| println!("skipped: no {program}")).is_none()
}

const HEARD: [&str; 2] = ["PE 0 of 4 has heard from PE 3", "PE 3 of 4 has heard from PE 2"];

#[test]
fn c_builds_and_runs() {
    if here(&["cmake", "cc"]) {
        build_and_run("c", &path(None), &HEARD);
    }
}

#[test]
fn c_plus_plus_builds_and_runs() {
    if here(&["cmake", "c++"]) {
        build_and_run("c++", &path(None), &HEARD);
    }
}

#[test]
fn mpi_builds_and_runs() {
    if here(&["cmake", "mpicc.openmpi"]) {
        // The one of the system, whatever `mpicc` is.
        let test = Test::new("new-mpi");
        let found = std::env::var_os("PATH").and_then(|path| {
            std::env::split_paths(&path).map(|dir| dir.join("mpicc.openmpi")).find(|file| file.is_file())
        });
        std::os::unix::fs::symlink(found.expect("it answers"), test.file("mpicc")).expect("linked");
        build_and_run("mpi", &path(Some(&test.file(""))), &["rank 0 of 4 has heard from rank 3"]);
    }
}

/// Cargo would build the crate anew, which takes minutes: it reads the manifest, and the compiler takes the crate that is here.
#[test]
fn rust_builds_and_runs() {
    let test = Test::new("new-rust");
    let done = test.run(test.angara(["new", "my-waves_2", "--lang", "rust"])).success();
    assert!(done.stdout.starts_with("cd my-waves_2 && cargo build --release\n"), "{done}");
    let (manifest, program) = (test.file("my-waves_2/Cargo.toml"), test.file("waves"));
    let mut cargo = test.command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--no-deps", "--format-version", "1", "--offline", "--manifest-path"]).arg(&manifest);
    let metadata = test.run(cargo).success().stdout;
    assert!(metadata.contains(r#""name":"angara""#) && metadata.contains("libangara"), "{metadata}");
    let built =
        tools::rustc(&test.file("my-waves_2/src/main.rs"), &program).output().expect("rustc, which has built this");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut run = test.angara(["run", "-n", "4", "--timeout", "200", "--"]);
    run.arg(&program);
    let done = test.run(run).success();
    assert!(HEARD.iter().all(|line| done.stdout.contains(line)), "{done}");
    test.assert_clean();
}

/// What the project needs is not installed anew: that takes minutes, and pip's registry.
#[test]
fn python_runs() {
    let Some((python, _)) = python::environment() else { return };
    let test = Test::new("new-python");
    let done = test.run(test.angara(["new", "waves", "--lang", "python"])).success();
    assert!(done.stdout.contains("pip install .\nangara run -n 4 venv/bin/python main.py"), "{done}");
    let mut run = test.angara(["run", "-n", "4", "--timeout", "200"]);
    run.arg(python).arg(test.file("waves/main.py"));
    let done = test.run(run).success();
    assert!(HEARD.iter().all(|line| done.stdout.contains(line)), "{done}");
    test.assert_clean();
}

#[test]
fn what_cannot_be_made_is_refused_with_a_remedy() {
    let test = Test::new("new-bad");
    let refused = |words: &[&str], code: i32, parts: &[&str]| {
        let done = test.run(test.angara([&["new"], words].concat())).failure(parts);
        assert_eq!(done.code(), code, "{words:?}: {done}");
    };
    fs::create_dir(test.file("there")).expect("made");
    fs::write(test.file("there/kept"), "mine").expect("written");
    refused(&["there", "--lang", "c"], 2, &["there exists", "choose another name"]);
    assert_eq!(fs::read_dir(test.file("there")).expect("a folder").count(), 1);
    for bad in ["", "9lives", "a/b", "../up", "with space", "a;b", "-x", "grün", "end-", "tab\there"] {
        refused(&["--lang", "c", "--", bad], 2, &["is no name of a project", "try: "]);
    }
    refused(&[&"x".repeat(65), "--lang", "c"], 2, &["at most 63"]);
    for taken in ["test", "Angara", "install"] {
        refused(&[taken, "--lang", "rust"], 2, &["means something else", "my-"]);
    }
    refused(&["waves"], 2, &["--lang"]);
    refused(&["waves", "--lang", "cobol"], 2, &["cobol", "c++", "rust"]);
    refused(&["waves", "--lang", "c", "--crate", "."], 2, &["--crate is for Rust", "leave it out"]);
    refused(&["waves", "--lang", "rust", "--crate", "there"], 2, &["there is not the crate angara", "--crate DIR"]);
    let mut nowhere = test.angara(["new", "waves", "--lang", "c"]);
    nowhere.current_dir("/proc");
    test.run(nowhere).failure(&["cannot create the folder waves", "go to a folder that you can write to"]);
    assert!(!test.file("waves").exists());
    test.assert_clean();
}
