//! Rules of CONTRIBUTING about the sources hold: sizes, circles, names of packages, and where `unsafe` may be. The numbers are
//! those of `cargo xtask structure`.

use angara_tests::{Test, tools};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// What is still above a limit, with its size. It may not grow, and what is within the limit leaves the list.
const LONG_FUNCTIONS: &[(&str, u64)] = &[];
const LONG_FILES: &[(&str, u64)] = &[];
const FULL_FOLDERS: &[(&str, u64)] = &[];

/// The most circles of files within crates, of all and of peers. Whoever unties one lowers the number.
const CIRCLES_MAX: usize = 39;
const CIRCLES_OF_PEERS_MAX: usize = 17;

/// What `cargo xtask structure --json` prints.
fn structure() -> &'static Value {
    static STRUCTURE: OnceLock<Value> = OnceLock::new();
    STRUCTURE.get_or_init(|| {
        let test = Test::new("house");
        let mut command = test.command(tools::tool("xtask"));
        command.current_dir(tools::root()).args(["structure", "--json"]);
        let said = test.run(command).success().stdout;
        test.assert_clean();
        serde_json::from_str(&said).expect("JSON")
    })
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().unwrap_or_else(|| panic!("a list of {name}"))
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_else(|| panic!("a text for {name}"))
}

/// Compares what is above a limit, each with its size, with what may be.
fn compare(found: Vec<(String, u64)>, known: &[(&str, u64)]) {
    let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
    for (name, size) in found {
        // Two functions of one name in a file are one line of the list.
        let most = sizes.entry(name).or_default();
        *most = size.max(*most);
    }
    let known: BTreeMap<&str, u64> = known.iter().copied().collect();
    let grown = sizes.iter().filter_map(|(name, size)| match known.get(name.as_str()) {
        None => Some(format!("{name}: {size}, which is above the limit")),
        Some(most) if size > most => Some(format!("{name}: {size}, and it was {most}")),
        Some(_) => None,
    });
    let gone = known.keys().filter(|name| !sizes.contains_key(**name));
    let wrong: Vec<String> =
        grown.chain(gone.map(|name| format!("{name}: within the limit; take it off the list"))).collect();
    assert!(wrong.is_empty(), "{}\n`cargo xtask structure` lists all", wrong.join("\n"));
}

fn sizes(kind: &str, name: impl Fn(&Value) -> String) -> Vec<(String, u64)> {
    list(structure(), kind).iter().map(|one| (name(one), one["size"].as_u64().expect("a number"))).collect()
}

#[test]
fn functions_are_short() {
    compare(sizes("functions", |one| format!("{} {}", text(one, "path"), text(one, "name"))), LONG_FUNCTIONS);
}

#[test]
fn files_are_short_and_folders_have_few() {
    compare(sizes("files", |one| text(one, "path").into()), LONG_FILES);
    compare(sizes("folders", |one| text(one, "path").into()), FULL_FOLDERS);
}

#[test]
fn files_form_no_more_circles() {
    for (kind, most) in [("circles", CIRCLES_MAX), ("peers", CIRCLES_OF_PEERS_MAX)] {
        let found = list(structure(), kind);
        let lines: Vec<String> = found.iter().map(|one| format!("{}: {}", one["crate"], one["files"])).collect();
        assert!(
            found.len() <= most,
            "{} {kind}, and there were {most}; `cargo xtask structure --list {kind}` says what ties them:\n{}",
            found.len(),
            lines.join("\n")
        );
    }
}

/// Cells of the rows below the line of CONTRIBUTING that begins with `head`, without backticks.
fn table(head: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(tools::root().join("CONTRIBUTING.md")).expect("a document");
    let rows = text.lines().skip_while(|line| !line.starts_with(head)).skip(2).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect();
    let rows: Vec<Vec<String>> = rows.map(cells).collect();
    assert!(!rows.is_empty(), "CONTRIBUTING.md has no table `{head}`");
    rows
}

/// A crate forbids `unsafe` in its library and in all its programs, or stands in the table.
#[test]
fn unsafe_is_where_contributing_says() {
    let said: BTreeSet<String> =
        table("| crate with `unsafe` |").iter().flat_map(|row| row[0].split(", ").map(String::from)).collect();
    let forbidding: BTreeSet<&str> = list(structure(), "forbidding").iter().filter_map(Value::as_str).collect();
    let allows =
        |one: &&Value| list(one, "roots").iter().any(|root| !forbidding.contains(root.as_str().expect("a path")));
    let is: BTreeSet<String> =
        list(structure(), "crates").iter().filter(allows).map(|one| text(one, "folder").into()).collect();
    assert_eq!(is, said, "crates without #![forbid(unsafe_code)], and those in CONTRIBUTING.md");
}

/// Folder WING/NAME holds the package angara-NAME or angara-WING-NAME, but for what stands in the table.
#[test]
fn packages_are_named_like_their_folders() {
    let mut exceptions: BTreeMap<String, Vec<String>> =
        table("| folder | package | library |").into_iter().map(|row| (row[0].clone(), row)).collect();
    let mut wrong = Vec::new();
    for one in list(structure(), "crates") {
        let (folder, package) = (text(one, "folder"), text(one, "package"));
        let parts: Vec<&str> = folder.split('/').collect();
        // Of folders within folders the inner ones count.
        let usual = |count: usize| format!("angara-{}", parts[parts.len().saturating_sub(count)..].join("-"));
        let manifest = std::fs::read_to_string(tools::root().join(folder).join("Cargo.toml")).expect("a manifest");
        let section =
            manifest.split("\n[lib]\n").nth(1).map_or("", |rest| rest.split("\n[").next().unwrap_or_default());
        let named = section.lines().find_map(|line| line.strip_prefix("name = ")).map(|name| name.trim_matches('"'));
        let library = named.map_or_else(|| package.replace('-', "_"), String::from);
        let has_library = tools::root().join(folder).join("src/lib.rs").is_file();
        match exceptions.remove(folder) {
            Some(row) if row[1] != package => wrong.push(format!("{folder}: {package}, and the table says {}", row[1])),
            Some(row) if has_library == row[2].is_empty() || has_library && row[2] != library => {
                wrong.push(format!("{folder}: library {library}, and the table says `{}`", row[2]));
            }
            Some(_) => {}
            None if package != usual(1) && package != usual(2) => {
                wrong.push(format!("{folder}: {package}"));
            }
            // Libraries that programs load are called after their files.
            None if !section.contains("\"cdylib\"") && library != package.replace('-', "_") => {
                wrong.push(format!("{folder}: library {library}"));
            }
            None => {}
        }
    }
    wrong.extend(exceptions.into_keys().map(|folder| format!("{folder}: in the table, and no crate")));
    assert!(wrong.is_empty(), "names that CONTRIBUTING.md does not have:\n{}", wrong.join("\n"));
}
