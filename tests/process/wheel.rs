//! `cargo xtask wheel`: the wheel has all that is installed, is the same whenever it is made, and works where `pip` puts it.

use angara_tests::{Finished, Test, tools};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Packing what a build without an optimiser has made takes longest.
const LIMIT: Duration = Duration::from_secs(600);

/// What another reader finds wrong with a wheel; else a line for each file: its mode, and its path.
const READ: &str = r#"
import base64, csv, hashlib, io, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
assert wheel.testzip() is None
names = wheel.namelist()
assert len(set(names)) == len(names), "a name is there twice"
record = [name for name in names if name.endswith(".dist-info/RECORD")]
assert record == names[-1:] and names[:-1] == sorted(names[:-1]), "the order"
rows = list(csv.reader(io.StringIO(wheel.read(record[0]).decode())))
assert [row[0] for row in rows] == names, "the list has other files"
for name, hash, size in rows[:-1]:
    data = wheel.read(name)
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    assert (hash, size) == (f"sha256={digest}", str(len(data))), name
assert rows[-1] == record + ["", ""], rows[-1]
for info in wheel.infolist():
    assert info.date_time == (1980, 1, 1, 0, 0, 0), info
    print(format(info.external_attr >> 16, "o"), info.filename)
"#;

/// Runs `cargo xtask` with `words`.
fn xtask(test: &Test, words: &[&str]) -> Finished {
    let mut command = test.command(tools::tool("xtask"));
    command.current_dir(tools::root()).args(words);
    test.spawn(command).wait(LIMIT)
}

/// Makes a wheel in `out`.
fn wheel(test: &Test, out: &Path) -> PathBuf {
    let from = tools::profile_dir().to_str().expect("utf-8");
    let done = xtask(test, &["wheel", "--from", from, "--out", out.to_str().expect("utf-8")]).success();
    let made = PathBuf::from(done.stdout.trim());
    let found: Vec<PathBuf> = fs::read_dir(out).expect("there").flatten().map(|entry| entry.path()).collect();
    assert_eq!(found, std::slice::from_ref(&made), "something else is in {}", out.display());
    made
}

/// Runs a command with the environment `venv`, as a user who has activated it.
fn inside(test: &Test, venv: &Path, line: &str) -> Finished {
    let mut bash = test.command("bash");
    let path = format!("{}/bin:/usr/bin:/bin", venv.display());
    bash.args(["-ec", line]).env("PATH", path).current_dir(test.file(""));
    test.spawn(bash).wait(LIMIT)
}

fn programs(version: &str) -> Vec<String> {
    let beside = ["alloc", "bench", "pes", "sim", "top", "verbs", "whatif"].map(|name| format!("angara-{name}"));
    let mut all: Vec<String> =
        beside.into_iter().chain(["angara", "fabricd", "oshcc", "oshrun"].map(String::from)).collect();
    all.sort();
    all.iter().map(|name| format!("angara-{version}.data/scripts/{name}")).collect()
}

/// The newest symbols of glibc that any file below `dir` wants, as another reader of ELF files finds them.
fn newest_glibc(test: &Test, dir: &Path) -> u32 {
    let find = r#"find "$0" -type f \( -name '*.so*' -o -path '*/bin/*' \) -print0 | xargs -0 readelf --version-info --wide 2>/dev/null"#;
    let mut bash = test.command("bash");
    bash.args(["-c", find]).arg(dir);
    let said = test.run(bash).stdout;
    let minors = said.split("Name: GLIBC_2.").skip(1).filter_map(|rest| {
        rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|minor| minor.parse::<u32>().ok())
    });
    minors.max().expect("some file uses glibc")
}

/// What another reader says of the archive.
fn check_archive(test: &Test, made: &Path, version: &str) {
    let script = test.file("read.py");
    fs::write(&script, READ).expect("written");
    let mut python = test.command("python3");
    python.arg(&script).arg(made);
    let listed = test.spawn(python).wait(LIMIT).success().stdout;
    let files: Vec<(&str, &str)> = listed.lines().filter_map(|line| line.split_once(' ')).collect();
    let runs: Vec<&str> = files.iter().filter(|(mode, _)| *mode == "100755").map(|(_, path)| *path).collect();
    assert_eq!(runs, programs(version), "others, or not all, may be run");
    assert!(files.iter().all(|(mode, _)| ["100755", "100644"].contains(mode)), "{listed}");
    for name in ["METADATA", "WHEEL", "entry_points.txt", "licenses/LICENSE-MIT", "licenses/THIRD-PARTY.txt"] {
        let path = format!("angara-{version}.dist-info/{name}");
        assert!(files.iter().any(|(_, file)| *file == path), "no {path}");
    }
}

/// All that `cargo xtask install` puts below a prefix is below that of the environment.
fn check_complete(test: &Test, venv: &Path) {
    let stage = test.file("stage");
    let from = tools::profile_dir().to_str().expect("utf-8");
    let words = ["install", "--prefix", "/p", "--destdir", stage.to_str().expect("utf-8"), "--from", from];
    xtask(test, &words).success();
    let list = fs::read_to_string(stage.join("p/share/angara/manifest")).expect("installed");
    let files = list.lines().filter_map(|line| line.strip_prefix("file /p/"));
    // These are where wheels have them, and the last is replaced by Python's own list.
    let elsewhere = ["LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY.txt", "sbom.cdx.json", "manifest"];
    let here = |path: &&str| !elsewhere.iter().any(|name| path.ends_with(&format!("/{name}")));
    let files: Vec<&str> = files.filter(here).collect();
    let lost: Vec<&&str> = files.iter().filter(|path| !venv.join(path).exists()).collect();
    assert!(lost.is_empty() && files.len() > 100, "not in the wheel: {lost:?}");
}

/// The commands work and find each other.
fn check_use(test: &Test, venv: &Path, version: &str) {
    for command in ["angara", "python -m angara"] {
        let said = inside(test, venv, &format!("{command} --version")).success().stdout;
        assert_eq!(said.trim(), format!("angara {version}"), "{command}");
    }
    let examples = venv.join("share/angara/examples");
    fs::copy(examples.join("c/hello.c"), test.file("hello.c")).expect("an example");
    fs::copy(examples.join("c/hello.c"), test.file("hello.cc")).expect("an example");
    inside(test, venv, "oshcc hello.c -o hello").success();
    for options in ["-n 4", "-n 4 --path ring", "-n 4 --clock virtual", "-n 4 --clock virtual --pes-as coroutines"] {
        let said = inside(test, venv, &format!("angara run --timeout 200 {options} ./hello")).success();
        assert_eq!(said.stdout.matches("of 4").count(), 4, "{options}: {said}");
    }
    let ldd = inside(test, venv, "ldd ./hello").success().stdout;
    let library = fs::canonicalize(venv.join("lib/libsma.so.1")).expect("installed");
    assert!(ldd.contains(&format!("libsma.so.1 => {}", library.display())), "{ldd}");
    // As a program that is told the root of an Open MPI links.
    let root = venv.join("lib/angara").display().to_string();
    let link = format!("cc hello.c -I {root}/include -L {root}/lib -loshmem -Wl,-rpath,{root}/lib -o other");
    let said = inside(test, venv, &format!("{link}; oshrun -n 2 --timeout 200 ./other")).success();
    assert_eq!(said.stdout.matches("of 2").count(), 2, "{said}");
    let demo = inside(test, venv, "angara demo").success().stdout;
    assert!(demo.contains("Both runs report the same packets"), "{demo}");
    let mut bare = test.command(venv.join("bin/angara"));
    bare.arg("demo").env("PATH", venv.join("bin"));
    test.run(bare).failure(&["no compiler", "apt-get install gcc"]);
    if tools::have("c++") {
        // `make CXX=oshc++` exports what it was given; there the name leads to a script.
        for before in ["", "export CXX=oshc++;"] {
            let line =
                format!("{before} timeout -k 1 100 oshc++ hello.cc -o hellocc; oshrun -n 2 --timeout 200 ./hellocc");
            let said = inside(test, venv, &line).success();
            assert_eq!(said.stdout.matches("of 2").count(), 2, "{said}");
        }
    } else {
        println!("skipped: no c++ (Debian: apt-get install g++)");
    }
}

/// True if Python makes environments with `pip` here.
fn environment(venv: &Path) -> bool {
    let done = Command::new("python3").args(["-m", "venv"]).arg(venv).output();
    match done {
        Ok(done) if done.status.success() => true,
        Ok(done) => {
            let why = String::from_utf8_lossy(&done.stdout).trim().to_string();
            println!("skipped: no environments of Python (Debian: apt-get install python3-venv): {why}");
            false
        }
        Err(e) => {
            println!("skipped: no python3 (Debian: apt-get install python3-venv): {e}");
            false
        }
    }
}

#[test]
fn a_wheel_is_the_same_twice_and_works_in_an_environment() {
    let test = Test::new("wheel");
    let venv = test.file("venv");
    if !tools::have("strip") || !environment(&venv) {
        println!("skipped: the wheel needs strip (Debian: apt-get install binutils) and python3-venv");
        return;
    }
    let version = env!("CARGO_PKG_VERSION");
    let made = wheel(&test, &test.file("first"));
    let again = wheel(&test, &test.file("second"));
    assert_eq!(made.file_name(), again.file_name());
    assert!(fs::read(&made).expect("made") == fs::read(&again).expect("made"), "two builds differ");
    check_archive(&test, &made, version);
    // `pip` leaves directories that are empty then.
    let files = || inside(&test, &venv, "cd venv; find . -not -type d -not -name '*.pyc'").stdout;
    let before = files();
    let pip = "pip --disable-pip-version-check --no-cache-dir";
    inside(&test, &venv, &format!("{pip} install --no-index {}", made.display())).success();
    let name = made.file_name().expect("a name").to_string_lossy().into_owned();
    let tag = format!("-cp39-abi3-manylinux_2_{}_{}.whl", newest_glibc(&test, &venv), std::env::consts::ARCH);
    assert_eq!(name, format!("angara-{version}{tag}"));
    check_complete(&test, &venv);
    check_use(&test, &venv, version);
    let job = "python -c 'import angara; print(angara.command(), angara.run(\"./hello\", n=4).output)'";
    let said = inside(&test, &venv, job).success().stdout;
    assert!(said.contains("venv/bin/angara") && said.matches("of 4").count() == 4, "{said}");
    let copied = inside(&test, &venv, "python -m angara examples notebooks").success().stdout;
    assert!(copied.contains("notebooks/predict.ipynb") && test.file("notebooks/halo.c").is_file(), "{copied}");
    // The simulator says what it lacks; with NumPy it is tried by `python_package`.
    let simulate = "python -c 'import angara; print(angara.presets()[\"desmos\"]); angara.simulate(preset=\"desmos\")'";
    inside(&test, &venv, simulate).failure(&["ModuleNotFoundError", "pip install numpy"]);
    inside(&test, &venv, &format!("{pip} uninstall --yes angara")).success();
    let after = files();
    let left: Vec<&str> = after.lines().filter(|line| !before.lines().any(|other| other == *line)).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    test.assert_clean();
}

#[test]
fn what_cannot_be_a_wheel_is_named() {
    let test = Test::new("wheel-bad");
    let out = test.file("out");
    let shown = out.to_str().expect("utf-8");
    xtask(&test, &["wheel", "--check"]).failure(&["unknown option --check of wheel"]);
    xtask(&test, &["wheel", "--out", ""]).failure(&["--out needs a directory"]);
    let empty = test.file("empty");
    fs::create_dir(&empty).expect("made");
    let from = empty.to_str().expect("utf-8");
    xtask(&test, &["wheel", "--out", shown, "--from", from]).failure(&["empty/angara", "build it first"]);
    fs::write(empty.join("angara"), "#!/bin/sh\n").expect("written");
    xtask(&test, &["wheel", "--out", shown, "--from", from]).failure(&["empty/angara is no program"]);
    // A program, and nothing else.
    fs::copy(tools::tool("angara"), empty.join("angara")).expect("copied");
    xtask(&test, &["wheel", "--out", shown, "--from", from]).failure(&["empty", "build it first"]);
    xtask(&test, &["wheel", "--machine", "sparc"]).failure(&["no processor `sparc`", "x86_64 or aarch64"]);
    xtask(&test, &["wheel", "--machine", "x86_64", "--from", from]).failure(&["--from is for programs that are built"]);
    assert_eq!(fs::read_dir(&out).map_or(0, Iterator::count), 0, "something is left after a failure");
    test.assert_clean();
}
