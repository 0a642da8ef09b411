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
            build(&dir);
        }
        dir
    })
}

/// As `./test` builds, so that the same features of dependencies are asked for, and nothing is built again.
fn build(dir: &Path) {
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
        .args(["--workspace", "--bins", "--lib", "--examples"])
        .current_dir(root())
        // Else cargo would put one more directory between.
        .env_remove("CARGO_BUILD_TARGET")
        .stdin(Stdio::null())
        .output()
        .expect("cargo starts");
    assert!(
        done.status.success(),
        "`cargo build --profile {profile}` failed, so there is nothing to test:\n{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// Copies a program that will be run. By a process of its own: while this one has a file open for writing, a program that
/// another thread starts meanwhile has it open, too, and the system refuses to run such a file.
pub fn copy_program(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("--").args([from, to]).output().expect("every system has cp");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Path of a command or library under test, such as `angara` or `libsma.so`.
pub fn tool(name: &str) -> PathBuf {
    let path = profile_dir().join(name);
    assert!(path.exists(), "{} does not exist; run `cargo build` first", path.display());
    path
}

/// True if a command can be found in `PATH` and answers `--version`.
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
    // Sources of one name lie in different folders, and so do their programs.
    let folder = Path::new(source).parent().expect("a path of the project");
    let dir = profile_dir().join("angara-tests").join(folder);
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

/// The example of a driver in C.
pub fn driver() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| c_example("driver")).clone()
}

/// Compiles `examples/c/NAME.c` as its first lines say.
pub fn c_example(name: &str) -> PathBuf {
    let output = profile_dir().join("angara-tests").join(name);
    std::fs::create_dir_all(output.parent().expect("a directory")).expect("target directory is writable");
    let aside = output.with_file_name(format!(".{name}.{}", std::process::id()));
    let [_, compile, _] = commands_of(name, "In a checkout");
    let command = compile
        .replace(&format!("-o {name}"), &format!("-o {}", aside.display()))
        .replace("$PWD/$B", "$B")
        .replace("$B", &profile_dir().display().to_string());
    let done = Command::new("sh").args(["-c", &command]).current_dir(root()).stdin(Stdio::null()).output();
    let done = done.expect("a shell");
    assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
    std::fs::rename(&aside, &output).expect("same directory");
    output
}

/// [`commands_of`] the driver.
pub fn driver_commands(heading: &str) -> [String; 3] {
    commands_of("driver", heading)
}

/// The three commands that the first lines of `examples/c/NAME.c` give below `heading`: where things are, how to compile,
/// how to run.
fn commands_of(name: &str, heading: &str) -> [String; 3] {
    let source = std::fs::read_to_string(root().join(format!("examples/c/{name}.c"))).expect("the example is there");
    let lines = source.lines().skip_while(|l| !l.starts_with(&format!(" * {heading}"))).skip(1);
    let commands: Vec<String> = lines.map_while(|l| l.strip_prefix(" *   ")).map(String::from).collect();
    commands.try_into().expect("three commands below each heading")
}

/// A Rust example of the workspace.
pub fn example(name: &str) -> PathBuf {
    tool(&format!("examples/{name}"))
}

/// Compiles a program in Rust with the crate `angara` of this build. What cargo does takes minutes, since it builds that again.
pub fn rustc(source: &Path, output: &Path) -> Command {
    let built = profile_dir();
    let mut compiler = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    compiler.args(["--edition", "2024", "--error-format", "json", "--crate-type", "bin", "--cap-lints", "allow", "-L"]);
    compiler.arg(format!("dependency={}", built.join("deps").display())).arg("--extern");
    compiler.arg(format!("angara={}", built.join("libangara.rlib").display())).arg("-o").arg(output).arg(source);
    compiler
}
