//! `cargo xtask cost`: what building and testing take, beside `ripgrep`, a program that everybody knows.
//!
//! Processor time is what counts: it hardly depends on what else the machine does. Everything is done in a copy of the
//! sources, with a build directory of its own that is empty at first.

use crate::steps::{Temporary, cannot, run};
use angara_demo::PARTS;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The yardstick, and its version: another one would be another length.
const YARDSTICK: [&str; 2] = ["ripgrep", "15.2.0"];
/// The most that the demo's build may take, in times of the yardstick.
const DEMO_MOST: f64 = 3.0;
/// Files in which a line is changed, and what is then built and tested. All need the last package.
const CHANGES: [(&str, &str, &[&str]); 4] = [
    ("jobs/launch/src/lib.rs", "angara-launch", &["build", "test"]),
    ("shmem-shim/src/lib.rs", "shmem-shim", &["build", "test"]),
    ("network/fabric/src/lib.rs", "angara-fabric", &["build", "test"]),
    ("contract/net/src/lib.rs", "angara-net", &["check", "build"]),
];

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// The demo, beside the yardstick.
    Demo,
    /// The rest of a release.
    Release,
    /// After one changed line.
    Change,
    /// `./test`, step by step.
    Test,
}

impl Part {
    pub(crate) const ALL: [Part; 4] = [Part::Demo, Part::Release, Part::Change, Part::Test];

    pub(crate) fn named(name: &str) -> Option<Part> {
        Part::ALL.into_iter().find(|part| part.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Part::Demo => "demo",
            Part::Release => "release",
            Part::Change => "change",
            Part::Test => "test",
        }
    }
}

/// What one step took.
struct Row {
    what: String,
    processor_s: f64,
    wall_s: f64,
    /// Packages that were compiled; libraries, programs and build programs of one count once.
    packages: usize,
}

/// Measures `parts`; with `check`, fails if the demo takes too long.
pub(crate) fn cost(root: &Path, target: &Path, parts: &[Part], check: bool) -> Result<String, String> {
    let work = Temporary(target.join(format!("cost-{}", std::process::id())));
    let source = work.0.join("source");
    copy_sources(root, &source)?;
    let build = work.0.join("build");
    let has = |part| parts.contains(&part);
    let mut rows = Vec::new();
    let mut measure = |what: &str, command: &mut Command| -> Result<f64, String> {
        angara_protocol::complain!("xtask: {what}");
        let row = measured(what, command)?;
        let processor_s = row.processor_s;
        angara_protocol::complain!("xtask: {processor_s:.0} s of processor time in {:.0} s", row.wall_s);
        rows.push(row);
        Ok(processor_s)
    };
    // All packages are here before the clock runs.
    run(cargo(&source, &build).args(["fetch", "--locked"]))?;
    let mut yardstick_s = None;
    if has(Part::Demo) {
        let [name, version] = YARDSTICK;
        let install = || {
            let mut cargo = cargo(&work.0, &work.0.join("yardstick"));
            cargo
                .args(["install", name, "--version", version, "--locked", "--force", "--root"])
                .arg(work.0.join("root"));
            cargo
        };
        // The first time it may have to be fetched; only compiling is measured.
        run(&mut install())?;
        fs::remove_dir_all(work.0.join("yardstick")).map_err(|e| cannot("remove", &work.0, &e))?;
        let what = format!("cargo install {name}@{version} --locked");
        yardstick_s = Some(measure(&what, &mut install())?);
    }
    let release = |words: &[&str]| {
        let mut cargo = cargo(&source, &build);
        cargo.args(["build", "--release", "--locked"]).args(words);
        cargo
    };
    let mut demo_s = None;
    if has(Part::Demo) || has(Part::Release) {
        let packages: Vec<&str> = PARTS.iter().flat_map(|part| ["--package", part]).collect();
        demo_s = Some(measure("cargo demo, but for running it", &mut release(&packages))?);
    }
    if has(Part::Release) {
        measure("then cargo build --release", &mut release(&[]))?;
        measure("then cargo build --release --workspace", &mut release(&["--workspace"]))?;
    }
    if has(Part::Change) {
        changes(&source, &build, &mut measure)?;
    }
    let mut tests = None;
    if has(Part::Test) {
        let mut test = Command::new("./test");
        test.current_dir(&source).env("CARGO_TARGET_DIR", work.0.join("tests")).stdin(Stdio::null());
        tests = Some(run(&mut test)?);
    }
    let mut text = table(&rows, yardstick_s);
    for line in tests.iter().flat_map(|said| said.lines()).filter(|line| is_result(line)) {
        let _ = writeln!(text, "{line}");
    }
    match (check, yardstick_s, demo_s) {
        (true, Some(yardstick_s), Some(demo_s)) if demo_s > DEMO_MOST * yardstick_s => Err(format!(
            "{text}the demo takes {:.1} times as long to build as {}, and {DEMO_MOST} times is the most: see docs/results/building.md",
            demo_s / yardstick_s,
            YARDSTICK[0]
        )),
        _ => Ok(text),
    }
}

/// Builds everything, then for each of [`CHANGES`] what a changed line takes.
fn changes(
    source: &Path,
    build: &Path,
    measure: &mut impl FnMut(&str, &mut Command) -> Result<f64, String>,
) -> Result<(), String> {
    run(cargo(source, build).args(["build", "--locked"]))?;
    for (file, package, words) in CHANGES {
        for word in words {
            let what = match *word {
                "test" => format!("cargo test -p {package}"),
                word => format!("cargo {word}"),
            };
            let mut command = cargo(source, build);
            command.args([word, "--locked"]);
            if *word == "test" {
                command.args(["-p", package]);
            }
            // All is built before, so that only what the line changes is measured.
            run(cargo(source, build).args(command.get_args()))?;
            change_line(&source.join(file))?;
            measure(&format!("a line of {file}, then {what}"), &mut command)?;
        }
    }
    Ok(())
}

/// A line of `./test` that says how a step has ended, or all of them.
fn is_result(line: &str) -> bool {
    (line.starts_with("== ") && line.contains(" s, ")) || line.starts_with("all good") || line.starts_with("FAILED")
}

fn table(rows: &[Row], yardstick_s: Option<f64>) -> String {
    let mut text = "| what | processor | times ripgrep | wall clock | packages |\n|---|---|---|---|---|\n".to_string();
    for Row { what, processor_s, wall_s, packages } in rows {
        let times = yardstick_s.map_or_else(String::new, |yardstick| format!("{:.2}", processor_s / yardstick));
        let _ = writeln!(text, "| {what} | {processor_s:.0} s | {times} | {wall_s:.0} s | {packages} |");
    }
    text
}

/// Cargo in `dir`, building into `target`.
fn cargo(dir: &Path, target: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Every build is one from a shell; and no wrapper answers from an earlier one.
    cargo.current_dir(dir).env("CARGO_TARGET_DIR", target).env_remove("CARGO_BUILD_TARGET").env_remove("RUSTC_WRAPPER");
    cargo
}

fn measured(what: &str, command: &mut Command) -> Result<Row, String> {
    let (before_s, start) = (children_s()?, Instant::now());
    let done = command.stdin(Stdio::null()).output().map_err(|e| format!("{what}: cannot start: {e}"))?;
    let said = String::from_utf8_lossy(&done.stderr);
    if !done.status.success() {
        return Err(format!("{what} failed ({}): {}", done.status, said.trim()));
    }
    let packages = said
        .lines()
        .filter(|line| ["Compiling ", "Checking "].iter().any(|word| line.trim_start().starts_with(word)))
        .count();
    let (processor_s, wall_s) = (children_s()? - before_s, start.elapsed().as_secs_f64());
    Ok(Row { what: what.into(), processor_s, wall_s, packages })
}

/// Processor time of all programs that this one has started and waited for, and of theirs.
fn children_s() -> Result<f64, String> {
    let file = Path::new("/proc/self/stat");
    let stat = fs::read_to_string(file).map_err(|e| cannot("read", file, &e))?;
    // Fields 16 and 17; the name, which may have blanks, is field 2.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(13).take(2);
    let ticks: f64 = fields.map(|field| field.parse().unwrap_or(0.0)).sum();
    Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
}

/// Copies what git knows, as it is now.
fn copy_sources(root: &Path, to: &Path) -> Result<(), String> {
    let list = run(Command::new("git").current_dir(root).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    for name in list.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (root.join(name), to.join(name));
        // Git still lists what was deleted.
        let Ok(kind) = fs::symlink_metadata(&from).map(|m| m.file_type()) else { continue };
        let parent: PathBuf = to.parent().map(Path::to_path_buf).unwrap_or_default();
        fs::create_dir_all(&parent).map_err(|e| cannot("make", &parent, &e))?;
        let copied = match kind.is_symlink() {
            true => fs::read_link(&from).and_then(|link| std::os::unix::fs::symlink(link, &to)),
            false => fs::copy(&from, &to).map(|_| ()),
        };
        copied.map_err(|e| cannot("copy", &from, &e))?;
    }
    Ok(())
}

/// Adds a function that nobody calls, so that the library is another one.
fn change_line(file: &Path) -> Result<(), String> {
    let mut text = fs::read_to_string(file).map_err(|e| cannot("read", file, &e))?;
    let number = text.lines().count();
    let _ = writeln!(text, "#[doc(hidden)]\npub fn changed_{number}() -> u32 {{\n    {number}\n}}");
    fs::write(file, text).map_err(|e| cannot("write", file, &e))
}
