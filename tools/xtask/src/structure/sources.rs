//! What is there: folders, crates with what they use, and files of Rust.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A crate of the workspace.
pub(crate) struct Crate {
    /// From the root.
    pub(crate) folder: String,
    pub(crate) package: String,
    /// Other packages of the workspace that it uses, not only in tests.
    pub(crate) uses: BTreeSet<String>,
}

/// A file of Rust.
pub(crate) struct File {
    /// From the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn lines(&self) -> usize {
        self.text.lines().count()
    }

    /// The folder at the top that it lies in.
    pub(crate) fn wing(&self) -> &str {
        self.path.split('/').next().unwrap_or_default()
    }
}

/// The repository, read once.
pub(crate) struct Sources {
    /// Folders at the top.
    pub(crate) wings: BTreeSet<String>,
    pub(crate) crates: Vec<Crate>,
    /// In order of their paths.
    pub(crate) files: Vec<File>,
    /// How many files of source each folder has directly in it, of any language.
    pub(crate) folders: BTreeMap<String, usize>,
}

/// Endings of files that somebody writes by hand and reads as code.
const CODE: [&str; 8] = ["rs", "c", "cpp", "h", "py", "pyi", "js", "lua"];

impl Sources {
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let mut all = Vec::new();
        list(root, "", &mut all)?;
        all.sort();
        let wings = all.iter().filter_map(|path| path.split_once('/')).map(|(wing, _)| wing.to_string()).collect();
        let read = |path: &str| fs::read_to_string(root.join(path)).map_err(|e| format!("cannot read {path}: {e}"));
        let (mut files, mut folders, mut manifests) = (Vec::new(), BTreeMap::new(), Vec::new());
        for path in &all {
            let ending = path.rsplit('.').next().unwrap_or_default();
            if CODE.contains(&ending) {
                let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                *folders.entry(folder.to_string()).or_default() += 1;
            }
            if ending == "rs" {
                files.push(File { path: path.clone(), text: read(path)? });
            }
            if let Some(folder) = path.strip_suffix("/Cargo.toml") {
                manifests.push((folder.to_string(), read(path)?));
            }
        }
        Ok(Sources { wings, crates: crates(manifests), files, folders })
    }

    /// The crate that a file belongs to: the one with the innermost folder.
    pub(crate) fn crate_of(&self, path: &str) -> Option<&Crate> {
        let holds = |one: &&Crate| path.strip_prefix(one.folder.as_str()).is_some_and(|rest| rest.starts_with('/'));
        self.crates.iter().filter(holds).max_by_key(|one| one.folder.len())
    }

    /// Files of a crate that Cargo compiles by themselves: its library and programs.
    pub(crate) fn roots(&self, folder: &str) -> Vec<&str> {
        let src = format!("{folder}/src/");
        let is_root = |rest: &str| match rest.strip_prefix("bin/") {
            Some(program) => !program.contains('/') || program.ends_with("/main.rs"),
            None => matches!(rest, "lib.rs" | "main.rs"),
        };
        let paths = self.files.iter().map(|file| file.path.as_str());
        paths.filter(|path| path.strip_prefix(src.as_str()).is_some_and(is_root)).collect()
    }

    pub(crate) fn edges(&self) -> usize {
        self.crates.iter().map(|one| one.uses.len()).sum()
    }
}

/// True for what is there to try the rest or to show it.
pub(crate) fn is_beside(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches" | "examples"))
}

fn list(root: &Path, folder: &str, found: &mut Vec<String>) -> Result<(), String> {
    let entries = fs::read_dir(root.join(folder)).map_err(|e| format!("cannot read {folder}: {e}"))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && !name.starts_with('.') && name != "target" => list(root, &path, found)?,
            Ok(kind) if kind.is_file() => found.push(path),
            // Links would count what they lead to a second time.
            _ => {}
        }
    }
    Ok(())
}

/// Crates by their folders and manifests.
fn crates(manifests: Vec<(String, String)>) -> Vec<Crate> {
    let name = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("name = "));
        line.map(|name| name.trim_matches('"').to_string())
    };
    let named: Vec<_> = manifests.into_iter().filter_map(|(folder, text)| Some((folder, name(&text)?, text))).collect();
    let known: BTreeSet<String> = named.iter().map(|(_, package, _)| package.clone()).collect();
    let used = |text: &str| {
        let sections = text.split("\n[").filter_map(|section| section.split_once('\n'));
        // Those for some machines alone, too.
        let is_used =
            |name: &str| name == "dependencies]" || name.starts_with("target.") && name.ends_with(".dependencies]");
        let lines = sections.filter(|(name, _)| is_used(name)).flat_map(|(_, lines)| lines.lines());
        let names = lines.filter_map(|line| line.split(['.', ' ', '=']).next());
        names.filter(|name| known.contains(*name)).map(String::from).collect()
    };
    named
        .iter()
        .map(|(folder, package, text)| Crate { folder: folder.clone(), package: package.clone(), uses: used(text) })
        .collect()
}
