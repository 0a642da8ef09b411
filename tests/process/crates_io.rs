//! Crates for other people's programs: what crates.io asks for is said, and a crate builds from what its package has alone.
//! `cargo publish --workspace --dry-run` tries the same, with the registry and minutes of building.

use angara_tests::tools;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// Libraries that make sense alone.
const ALONE: [&str; 6] = ["angara", "angara-abi", "angara-fabric", "angara-machine", "angara-model", "angara-sim"];

/// Names that others have on crates.io.
const TAKEN: [&str; 1] = ["fabricd"];

/// How a file of a crate names another at build time.
const READS: [&str; 4] = ["include_str!(\"", "include_bytes!(\"", "include!(\"", "#[path = \""];

/// Returns what `cargo` prints.
fn cargo(words: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let done =
        Command::new(cargo).args(words).arg("--offline").current_dir(tools::root()).output().expect("cargo starts");
    assert!(done.status.success(), "cargo {words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("utf-8")
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// All packages of the workspace, and the names of those that may be published.
fn packages() -> (Vec<Value>, BTreeSet<String>) {
    let all: Value = serde_json::from_str(&cargo(&["metadata", "--no-deps", "--format-version", "1"])).expect("JSON");
    let packages = list(&all, "packages").to_vec();
    // Null is every registry, an empty list none.
    let ready = packages.iter().filter(|p| p["publish"].is_null()).map(|p| text(p, "name").to_string()).collect();
    (packages, ready)
}

/// Why crates.io would refuse `package`, or its readers would miss something.
fn lacks(package: &Value, ready: &BTreeSet<String>, versions: &BTreeMap<&str, &str>) -> Vec<String> {
    let mut why = Vec::new();
    for field in ["description", "license", "readme", "rust_version", "documentation"] {
        if text(package, field).is_empty() {
            why.push(format!("no {field}"));
        }
    }
    for field in ["keywords", "categories"] {
        // Crates.io takes five of each.
        if !(1..=5).contains(&list(package, field).len()) {
            why.push(format!("{} {field}", list(package, field).len()));
        }
    }
    for dep in list(package, "dependencies").iter().filter(|dep| !dep["path"].is_null()) {
        let (name, wanted) = (text(dep, "name"), text(dep, "req"));
        // Cargo leaves out of a package what only tests need, if no version is given.
        if dep["kind"] == "dev" && wanted == "*" {
            continue;
        }
        if wanted.trim_start_matches('^') != versions[name] {
            why.push(format!("{name} is wanted as `{wanted}` and has the version {}", versions[name]));
        }
        if !ready.contains(name) {
            why.push(format!("{name} may not be published"));
        }
    }
    why
}

/// `path` without `..`.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::ParentDir if plain.file_name().is_some_and(|name| name != "..") => drop(plain.pop()),
            part => plain.push(part),
        }
        plain
    })
}

/// Files that `source`, at `file` in its package, takes in when it is compiled.
fn reads(file: &Path, source: &str) -> Vec<PathBuf> {
    let after = |start: &&str| source.split(*start).skip(1).map(String::from).collect::<Vec<_>>();
    let names = READS.iter().flat_map(after).filter_map(|rest| rest.split('"').next().map(String::from));
    names.map(|name| plain(&file.parent().unwrap_or(Path::new("")).join(name))).collect()
}

#[test]
fn libraries_are_ready_for_crates_io() {
    let (packages, ready) = packages();
    let versions = packages.iter().map(|p| (text(p, "name"), text(p, "version"))).collect();
    let missing: Vec<&&str> = ALONE.iter().filter(|name| !ready.contains(**name)).collect();
    assert!(missing.is_empty(), "may not be published: {missing:?}");
    let all: Vec<&str> = packages.iter().map(|p| text(p, "name")).filter(|name| TAKEN.contains(name)).collect();
    assert!(all.is_empty(), "crates.io has other packages of these names: {all:?}");
    let mut mistakes = Vec::new();
    for package in packages.iter().filter(|p| ready.contains(text(p, "name"))) {
        let name = text(package, "name");
        mistakes.extend(lacks(package, &ready, &versions).into_iter().map(|why| format!("{name}: {why}")));
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn their_packages_have_all_that_they_are_built_of() {
    let (packages, ready) = packages();
    let mut mistakes = Vec::new();
    let mut read = 0;
    for package in packages.iter().filter(|p| ready.contains(text(p, "name"))) {
        let name = text(package, "name");
        let folder = Path::new(text(package, "manifest_path")).parent().expect("a folder");
        let files = cargo(&["package", "--list", "--allow-dirty", "--package", name]);
        let files: BTreeSet<PathBuf> = files.lines().map(PathBuf::from).collect();
        for file in ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "Cargo.toml", "src/lib.rs"] {
            if !files.contains(Path::new(file)) {
                mistakes.push(format!("{name} has no {file}"));
            }
        }
        let sources = files.iter().filter(|file| file.extension().is_some_and(|e| e == "rs"));
        for file in sources {
            let source =
                std::fs::read_to_string(folder.join(file)).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            if file == Path::new("build.rs") && source.contains("../") {
                mistakes.push(format!("{name}: build.rs leaves the folder of its crate"));
            }
            for wanted in reads(file, &source) {
                read += 1;
                if !files.contains(&wanted) {
                    mistakes.push(format!("{name}: {} reads {}", file.display(), wanted.display()));
                }
            }
        }
    }
    assert!(mistakes.is_empty(), "not in the packages:\n{}", mistakes.join("\n"));
    assert!(read > ready.len(), "{read} files are read: this test does not look at the sources");
}
