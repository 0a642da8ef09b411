//! The commands and libraries under test, and programs compiled with them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the repository")
}

/// `target/PROFILE`, where this test program's own profile put the commands.
///
/// `cargo test` builds only the test programs of a package and the libraries they use, not the
/// commands of other packages, so the first caller runs `cargo build` for the same profile (a
/// second or less when everything is fresh). `ANGARA_TEST_NO_BUILD=1` skips that.
pub fn profile_dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let exe = std::env::current_exe().expect("this test program has a path");
        let dir = exe.ancestors().nth(2).expect("test programs lie in target/PROFILE/deps").to_owned();
        if std::env::var_os("ANGARA_TEST_NO_BUILD").is_none() {
            build(&dir, &[]);
        }
        dir
    })
}

fn build(dir: &Path, what: &[&str]) {
    let profile = match dir.file_name().and_then(|n| n.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => panic!("{} is no profile directory", dir.display()),
    };
    let target = dir.parent().expect("a profile lies in the target directory");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let done = Command::new(cargo)
        .args(["build", "--quiet", "--profile", profile, "--target-dir"])
        .arg(target)
        .args(what)
        .current_dir(root())
        .stdin(Stdio::null())
        .output()
        .expect("cargo starts");
    assert!(
        done.status.success(),
        "`cargo build --profile {profile}` failed, so there is nothing to test:\n{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// Path of a command or library under test, such as `angara` or `libsma.so`.
pub fn tool(name: &str) -> PathBuf {
    let path = profile_dir().join(name);
    assert!(path.exists(), "{} does not exist; run `cargo build` first", path.display());
    path
}

/// Whether a command can be found in `PATH` and answers `--version`.
pub fn have(command: &str) -> bool {
    let answer = Command::new(command).arg("--version").stdin(Stdio::null()).output();
    answer.is_ok_and(|o| o.status.success())
}

/// Compiles the C program `source` (a path in the repository) with `oshcc` and returns the
/// executable. Test programs of one `cargo test` share it; it is rebuilt when source or `oshcc`
/// or library are newer.
pub fn compile(source: &str) -> PathBuf {
    compile_with(source, &[])
}

/// As [`compile`], with more compiler flags.
pub fn compile_with(source: &str, flags: &[&str]) -> PathBuf {
    let input = root().join(source);
    let stem = input.file_stem().and_then(|s| s.to_str()).expect("a file name");
    let dir = profile_dir().join("angara-tests");
    std::fs::create_dir_all(&dir).expect("target directory is writable");
    let label: String = flags.iter().flat_map(|f| f.chars()).filter(char::is_ascii_alphanumeric).collect();
    let output = dir.join(format!("{stem}{label}"));
    let (oshcc, library) = (tool("oshcc"), tool("libsma.so"));
    let modified = |p: &Path| p.metadata().and_then(|m| m.modified()).ok();
    let built = modified(&output);
    if built.is_some() && [&input, &oshcc, &library].iter().all(|p| modified(p) < built) {
        return output;
    }
    // Tests run in parallel: compile aside, then move into place.
    let aside = dir.join(format!(".{stem}{label}.{}.{:?}", std::process::id(), std::thread::current().id()));
    let done = Command::new(&oshcc)
        .args(["-O2", "-Wall"])
        .args(flags)
        .arg(&input)
        .arg("-o")
        .arg(&aside)
        .args(["-lm", "-pthread"])
        .stdin(Stdio::null())
        .output()
        .expect("oshcc starts");
    assert!(
        done.status.success(),
        "{} does not compile {}:\n{}{}",
        oshcc.display(),
        input.display(),
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    std::fs::rename(&aside, &output).expect("same directory");
    output
}

/// The example of a driver in C, compiled as its first lines say.
pub fn driver() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let (dir, library) = (profile_dir().join("angara-tests"), tool("libangara.so"));
        std::fs::create_dir_all(&dir).expect("target directory is writable");
        let (output, lib) = (dir.join("driver"), library.parent().expect("a directory"));
        let mut cc = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        cc.arg(root().join("examples/c/driver.c")).arg("-I").arg(root().join("libangara/include"));
        cc.arg("-L").arg(lib).arg("-langara").arg(format!("-Wl,-rpath,{}", lib.display())).arg("-o").arg(&output);
        let done = cc.stdin(Stdio::null()).output().expect("a C compiler (set CC)");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        output
    };
    BUILT.get_or_init(build).clone()
}

/// A Rust example of the workspace, built by `cargo build --examples`.
pub fn example(name: &str) -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    let dir = profile_dir();
    BUILT.get_or_init(|| {
        if std::env::var_os("ANGARA_TEST_NO_BUILD").is_none() {
            build(dir, &["--examples"]);
        }
    });
    tool(&format!("examples/{name}"))
}
