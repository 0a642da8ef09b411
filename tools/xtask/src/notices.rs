//! What others have written that is in our programs and libraries: their notices in one text, and a list for tools
//! (CycloneDX). Both are made from what Cargo knows of the locked dependencies.

use crate::machine::Machine;
use crate::steps::cannot;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packages of the workspace whose results are installed.
pub(crate) const INSTALLED: [&str; 18] = [
    "angara-cli",
    "angara-commands-alloc",
    "angara-commands-bench",
    "angara-commands-sim",
    "angara-commands-top",
    "angara-commands-verbs",
    "angara-commands-whatif",
    "angara-fabricd",
    "angara-one-process",
    "shmem-shim",
    "angara",
    "angara-program-clock",
    "angara-mpi-preload",
    "angara-mpi-preload-4",
    "angara-mpi-preload-41",
    "angara-mpi-preload-large",
    "angara-mpi-provider",
    "angara-verbs-library",
];
/// Beginnings of the names of files, in a package's own directory, that say what its licence asks to be passed on.
const TEXTS: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// The two files.
pub(crate) struct Notices {
    /// Names, versions, licences and their texts, for people.
    pub(crate) text: String,
    /// The same without the texts, as CycloneDX 1.5 in JSON.
    pub(crate) sbom: String,
}

/// A package of somebody else.
struct Package {
    name: String,
    version: String,
    license: String,
    repository: Option<String>,
    checksum: Option<String>,
    directory: PathBuf,
}

impl Package {
    fn url(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }

    /// Returns what it asks to be passed on.
    fn texts(&self) -> Result<Vec<String>, String> {
        let entries = fs::read_dir(&self.directory).map_err(|e| cannot("read", &self.directory, &e))?;
        let named = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
            path.is_file() && TEXTS.iter().any(|text| name.starts_with(text))
        };
        let files: BTreeSet<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(named).collect();
        let read = |file: PathBuf| fs::read_to_string(&file).map_err(|e| cannot("read", &file, &e));
        files.into_iter().map(read).collect()
    }
}

/// Of what is in `whole`: results of these packages of the workspace at `root`.
pub(crate) fn gather(root: &Path, machine: Machine, whole: &str, ours: &[&str]) -> Result<Notices, String> {
    let (packages, used) = packages(root, machine, ours)?;
    Ok(Notices { text: text(&packages)?, sbom: sbom(whole, &packages, &used) })
}

/// Which others each package uses, by their URLs.
type Uses = BTreeMap<String, Vec<String>>;

/// All packages of others that are linked into `ours`.
fn packages(root: &Path, machine: Machine, ours: &[&str]) -> Result<(Vec<Package>, Uses), String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", machine.triple()])
        .current_dir(root);
    let done = cargo.output().map_err(|e| format!("cannot start cargo: {e}"))?;
    if !done.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&done.stderr)));
    }
    let all: Value = serde_json::from_slice(&done.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    let word = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_string();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let by_id: BTreeMap<String, Value> = list(&all["packages"]).into_iter().map(|p| (word(&p, "id"), p)).collect();
    let nodes: BTreeMap<String, Value> =
        list(&all["resolve"]["nodes"]).into_iter().map(|n| (word(&n, "id"), n)).collect();
    // What only builds or tests is in no result.
    let linked = |id: &str| {
        let deps = nodes.get(id).map(|node| list(&node["deps"])).unwrap_or_default();
        let normal = |dep: &Value| list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
        deps.into_iter().filter(normal).map(|dep| word(&dep, "pkg")).collect::<Vec<_>>()
    };
    let id = |name: &&str| {
        let found = by_id.iter().find(|(_, p)| p["source"].is_null() && word(p, "name") == **name);
        found
            .map(|(id, _)| id.clone())
            .ok_or_else(|| format!("the workspace has no package {name}; see tools/xtask/src/notices.rs"))
    };
    let mut todo: Vec<String> = ours.iter().map(id).collect::<Result<_, _>>()?;
    let mut seen = BTreeSet::new();
    while let Some(id) = todo.pop() {
        if seen.insert(id.clone()) {
            todo.extend(linked(&id));
        }
    }
    let checksums = checksums(&root.join("Cargo.lock"))?;
    let foreign = |id: &&String| !by_id[*id]["source"].is_null();
    let package = |id: &String| {
        let p = &by_id[id];
        let (name, version) = (word(p, "name"), word(p, "version"));
        let license = p["license"].as_str().unwrap_or("see its text").to_string();
        let checksum = checksums.get(&(name.clone(), version.clone())).cloned();
        let directory = Path::new(&word(p, "manifest_path")).parent().unwrap_or(Path::new("/")).to_path_buf();
        Package { name, version, license, repository: p["repository"].as_str().map(String::from), checksum, directory }
    };
    let mut packages: Vec<Package> = seen.iter().filter(foreign).map(package).collect();
    packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    let used = seen.iter().filter(foreign).map(|id| {
        let uses = linked(id).iter().filter(|other| seen.contains(*other)).map(|other| package(other).url()).collect();
        (package(id).url(), uses)
    });
    Ok((packages, used.collect()))
}

/// Checksums of the lock file, by name and version.
fn checksums(lock: &Path) -> Result<BTreeMap<(String, String), String>, String> {
    let text = fs::read_to_string(lock).map_err(|e| cannot("read", lock, &e))?;
    let of = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""))?;
        line.strip_suffix('"').map(String::from)
    };
    let entry = |block: &str| Some(((of(block, "name")?, of(block, "version")?), of(block, "checksum")?));
    Ok(text.split("[[package]]").filter_map(entry).collect())
}

fn text(packages: &[Package]) -> Result<String, String> {
    let mut out = String::from(
        "The programs and libraries of Angara contain the following packages of others. Each is followed by\n\
         its licence, as its authors state it; the texts of the licences are below.\n\n",
    );
    // Many packages have the same text.
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages {
        let Package { name, version, license, repository, .. } = package;
        out += &format!("{name} {version}: {license}\n");
        if let Some(repository) = repository {
            out += &format!("    {repository}\n");
        }
        for text in package.texts()? {
            let whose = texts.entry(text.trim().to_string()).or_default();
            whose.push(format!("{name} {version}"));
            whose.dedup();
        }
    }
    for (text, whose) in texts {
        out += &format!("\n{}\n{}\n\n{text}\n", "=".repeat(80), whose.join(", "));
    }
    Ok(out)
}

fn sbom(whole: &str, packages: &[Package], used: &Uses) -> String {
    let component = |package: &Package| {
        let Package { name, version, license, checksum, .. } = package;
        let mut component = json!({
            "type": "library", "bom-ref": package.url(), "name": name, "version": version,
            // Cargo once wrote "or" like this.
            "licenses": [{ "expression": license.replace('/', " OR ") }],
            "purl": package.url(),
        });
        if let Some(checksum) = checksum {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        component
    };
    let own = format!("pkg:generic/{whole}@{}", env!("CARGO_PKG_VERSION"));
    let all: Vec<String> = packages.iter().map(Package::url).collect();
    let mut dependencies = vec![json!({ "ref": own, "dependsOn": all })];
    dependencies.extend(used.iter().map(|(package, uses)| json!({ "ref": package, "dependsOn": uses })));
    let whole = json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": { "component": {
            "type": "application", "bom-ref": own, "name": whole, "version": env!("CARGO_PKG_VERSION"),
            "licenses": [{ "expression": "MIT OR Apache-2.0" }],
        }},
        "components": packages.iter().map(component).collect::<Vec<_>>(),
        "dependencies": dependencies,
    });
    serde_json::to_string_pretty(&whole).expect("plain values are JSON") + "\n"
}
