//! What a build takes stays small: the demo needs no simulator, one build serves all selections of packages, and no package is
//! there twice but for a reason that stands here. Cargo tells without building anything.

use angara_tests::tools;
use std::collections::BTreeSet;
use std::process::Command;

/// What `cargo demo` has cargo build.
const DEMO: [&str; 3] = ["angara-cli", "angara-fabricd", "shmem-shim"];

/// Lines of `cargo tree` for a selection of packages.
fn tree(words: &[&str], selection: &[&str]) -> Vec<String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // The lock file names every package, and those of other platforms may not be here.
    cargo.args(["tree", "--locked", "--offline", "--prefix", "none"]).args(words).args(selection);
    let done = cargo.current_dir(tools::root()).output().expect("cargo starts");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "cargo tree {words:?} {selection:?}: {said}");
    // A package is followed by where it lies, and by a star where it was shown before.
    let bare = |line: &str| line.split(" (").next().unwrap_or_default().trim().to_string();
    String::from_utf8_lossy(&done.stdout).lines().map(bare).filter(|line| !line.is_empty()).collect()
}

/// Every package that is built for a selection, with its version and features.
fn built(edges: &str, selection: &[&str]) -> BTreeSet<String> {
    tree(&["--edges", edges, "--no-dedupe", "--format", "{f}§{p}"], selection).into_iter().collect()
}

fn packages(selection: &[&str]) -> Vec<String> {
    selection.iter().flat_map(|package| ["--package".to_string(), package.to_string()]).collect()
}

fn words(selection: &[String]) -> Vec<&str> {
    selection.iter().map(String::as_str).collect()
}

/// Names of all packages of this workspace.
fn own() -> Vec<String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"]).current_dir(tools::root());
    let done = cargo.output().expect("cargo starts");
    let all: serde_json::Value = serde_json::from_slice(&done.stdout).expect("what cargo says of the workspace");
    let name = |package: &serde_json::Value| package["name"].as_str().expect("a name").to_string();
    all["packages"].as_array().expect("packages").iter().map(name).collect()
}

/// Packages of the workspace whose build alone needs others than the whole, and what of.
const APART: [(&str, &str); 3] = [
    // The model for Python has no commands in it.
    ("angara-python", "angara-sim"),
    // Tests and tasks, which no user builds alone.
    ("angara-oracle", "num-traits"),
    ("xtask", "hashbrown"),
];

#[test]
fn one_build_serves_every_selection_of_packages() {
    let whole = built("normal,build", &["--workspace"]);
    let mut wrong = Vec::new();
    let mut compare = |what: &str, selected: BTreeSet<String>, apart: &[&str]| {
        for package in selected.difference(&whole) {
            let (features, name) = package.split_once('§').expect("as asked for");
            if !apart.contains(&name.split(' ').next().unwrap_or_default()) {
                let other = whole.iter().filter_map(|w| w.split_once('§')).find(|(_, n)| *n == name);
                wrong.push(format!("{what}: {name} [{features}], elsewhere [{}]", other.map_or("", |(f, _)| f)));
            }
        }
    };
    compare("the demo", built("normal,build", &words(&packages(&DEMO))), &[]);
    compare("cargo build", built("normal,build", &[]), &[]);
    for package in own() {
        let apart: Vec<&str> = APART.iter().filter(|(of, _)| *of == package).map(|(_, name)| *name).collect();
        compare(&package, built("normal,build", &["--package", &package]), &apart);
    }
    // What tests need more is there beside it. The model checker alone asks for other features; `./test` builds it by itself.
    let tests = built("normal,build,dev", &["--workspace", "--exclude", "angara-abi-models"]);
    for package in whole.difference(&tests).filter(|package| !package.contains("angara-abi-models")) {
        wrong.push(format!("tests have no {package}"));
    }
    assert!(wrong.is_empty(), "built once more (see \"for its features alone\" in Cargo.toml):\n{}", wrong.join("\n"));
}

#[test]
fn the_demo_is_built_without_what_it_does_not_run() {
    let built = built("normal,build", &words(&packages(&DEMO)));
    let has = |name: &str| built.iter().any(|package| package.contains(&format!("§{name} v")));
    assert!(has("angara-fabric") && has("angara-launch"), "{built:?}");
    for name in [
        "angara-batch",
        "angara-commands-alloc",
        "angara-commands-bench",
        "angara-commands-sim",
        "angara-commands-top",
        "angara-commands-verbs",
        "angara-commands-whatif",
        "angara-model",
        "angara-one-process",
        "angara-sim",
        "clap_complete",
        "clap_mangen",
        "plotters",
        "proptest",
        "pyo3",
        "ratatui",
    ] {
        assert!(
            !has(name),
            "the demo builds {name}; a feature that a first run does not need lies behind its own command"
        );
    }
}

/// Packages that are there in several versions, and who wants the others.
const TWICE: [(&str, &str); 6] = [
    ("cpufeatures", "sha2 of xtask; rand of proptest"),
    ("getrandom", "ring; rand of proptest"),
    ("object", "ours and backtrace; psm of pest, in tests alone"),
    ("syn", "the macros of most; strum and derive_more of ratatui; pcap-file, in tests alone"),
    ("thiserror", "ours; pcap-file, in tests alone"),
    ("thiserror-impl", "the same"),
];

#[test]
fn no_package_is_there_twice_without_a_reason() {
    let names = |edges: &str, selection: &[&str]| -> BTreeSet<String> {
        let lines = tree(&["--edges", edges, "--duplicates", "--depth", "0"], selection);
        lines.iter().filter_map(|line| line.split_once(" v")).map(|(name, _)| name.to_string()).collect()
    };
    assert_eq!(names("normal,build", &words(&packages(&DEMO))), BTreeSet::new(), "in the demo");
    let unexplained: Vec<String> = names("normal,build,dev", &["--workspace"])
        .into_iter()
        .filter(|name| !TWICE.iter().any(|(known, _)| known == name))
        .collect();
    assert!(
        unexplained.is_empty(),
        "{unexplained:?} in several versions; find one that serves all, or say why in TWICE"
    );
}
