//! The C header: it compiles as C and C++, agrees with the library, and the C driver runs.

use crate::fake::Fake;
use angara_abi::job::{Barrier, Reach};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Where cargo put libangara.so: the directory above that of the test binary.
fn library_dir() -> PathBuf {
    let test = std::env::current_exe().expect("path of the test");
    test.ancestors().nth(2).expect("target/PROFILE/deps/TEST").to_path_buf()
}

fn compile(source: &Path, out: &Path, language: &str) {
    let lib = library_dir();
    // A test build leaves the cdylib in deps only; `cargo build` also puts it one level up.
    let dirs = [lib.join("deps"), lib];
    let dir = dirs.iter().find(|d| d.join("libangara.so").exists()).expect("libangara.so is built with the tests");
    let r = Command::new(std::env::var("CC").unwrap_or("cc".into()))
        .args(["-x", language, "-Wall", "-Wextra", "-Werror", "-O1", "-I"])
        .arg(root().join("libangara/include"))
        .arg(source)
        .args(["-x", "none", "-o"])
        .arg(out)
        .arg("-L")
        .arg(dir)
        .arg("-langara")
        .arg(format!("-Wl,-rpath,{}", dir.display()))
        .output()
        .expect("a C compiler (set CC)");
    assert!(r.status.success(), "{}", String::from_utf8_lossy(&r.stderr));
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("angara-{name}-{}", std::process::id()))
}

fn text(o: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&o.stdout), String::from_utf8_lossy(&o.stderr))
}

#[test]
fn the_c_driver_posts_a_packet_and_polls_for_it() {
    let program = scratch("driver");
    compile(&root().join("examples/c/driver.c"), &program, "c");
    let alone = Command::new(&program).env_remove("ANGARA_JOB").output().expect("run");
    assert!(!alone.status.success() && text(&alone).contains("angara run"), "{}", text(&alone));
    let fake = Fake::start(2, 1 << 16, Barrier::Auto, Reach::Ring);
    let start = |pe| {
        let mut command = Command::new(&program);
        command.envs(fake.launch(pe).to_env());
        std::thread::spawn(move || command.output().expect("run"))
    };
    let runs: Vec<_> = (0..2).map(start).collect();
    for (pe, run) in runs.into_iter().enumerate() {
        let out = run.join().expect("thread");
        let want = format!("PE {pe} at node 0 got \"hello, PE {pe}\" from PE {}: ok", 1 - pe);
        assert!(out.status.success() && text(&out).contains(&want), "{}", text(&out));
    }
    fake.finish();
    let _ = std::fs::remove_file(program);
}

/// Every C function once on a job of one PE, as C and as C++.
#[test]
fn every_function_links_and_refuses_nonsense() {
    for language in ["c", "c++"] {
        if language == "c++" && Command::new("c++").arg("--version").output().is_err() {
            continue; // a C compiler is all the project needs
        }
        let program = scratch(if language == "c" { "api-c" } else { "api-cxx" });
        compile(&root().join("libangara/tests/it/api.c"), &program, language);
        let out = Command::new(&program).output().expect("run");
        assert!(out.status.success(), "as {language}: {}", text(&out));
        let _ = std::fs::remove_file(program);
    }
}
