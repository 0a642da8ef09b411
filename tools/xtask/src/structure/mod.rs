//! `cargo xtask structure`: how the sources hang together, in numbers, for `tests/process/house.rs` and for whoever tidies up.
//!
//! Everything is read as text. A circle is several files of a crate of which each uses all others, directly or through
//! others. A file uses another if a path in it (`use crate::…`, or in the midst of code) leads to an item there; whoever
//! passes the item on by `pub use` does not count. Methods are not seen, for their calls do not say where they are.
//!
//! Files below a module usually take from it what they share, and it calls them: such circles are many and seldom a trouble.
//! Circles of *peers* are those that remain without these ties.

mod circles;
mod lexer;
mod measures;
mod modules;
mod sources;

use circles::{Circle, circles};
use serde_json::{Value, json};
use sources::{Sources, is_beside};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The most lines of a function and of a file, and files of a folder.
const LINES_OF_FUNCTION: usize = 80;
const LINES_OF_FILE: usize = 700;
const FILES_OF_FOLDER: usize = 16;
/// A comment of so few words seldom says more than the name below it.
const WORDS_OF_COMMENT: usize = 3;

/// The crate whose trade is memory that others share.
const CONTRACT: &str = "contract/abi";

/// What can be listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum List {
    Circles,
    Peers,
    Functions,
    Files,
    Folders,
    Comments,
    Unsafe,
}

impl List {
    pub(crate) const ALL: [(&str, List); 7] = [
        ("circles", List::Circles),
        ("peers", List::Peers),
        ("functions", List::Functions),
        ("files", List::Files),
        ("folders", List::Folders),
        ("comments", List::Comments),
        ("unsafe", List::Unsafe),
    ];

    pub(crate) fn named(name: &str) -> Result<List, String> {
        let found = List::ALL.into_iter().find(|(known, _)| *known == name);
        let known = List::ALL.map(|(name, _)| name).join(", ");
        found.map(|(_, list)| list).ok_or_else(|| format!("--list {name}: nothing of this name; there are {known}"))
    }
}

/// A place, how much is there, and of what.
struct Found {
    path: String,
    line: usize,
    name: String,
    size: usize,
}

/// All that is counted.
struct Structure {
    sources: Sources,
    circles: Vec<Circle>,
    peers: Vec<Circle>,
    functions: Vec<Found>,
    files: Vec<Found>,
    folders: Vec<Found>,
    comments: Vec<Found>,
    unsafe_blocks: Vec<Found>,
    /// Files that forbid `unsafe` in all that is compiled with them.
    forbidding: Vec<String>,
}

/// What `cargo xtask structure` prints of the sources below `root`.
pub(crate) fn structure(root: &Path, list: Option<List>, as_json: bool) -> Result<String, String> {
    let structure = Structure::of(Sources::read(root)?);
    match (list, as_json) {
        (Some(list), false) => Ok(structure.list(list)),
        (None, true) => Ok(format!("{:#}\n", structure.json())),
        (None, false) => Ok(structure.table()),
        (Some(_), true) => Err("--json has all that --list has; give one of them".into()),
    }
}

impl Structure {
    fn of(sources: Sources) -> Self {
        let [circles, peers] = circles(&sources);
        let mut all = Structure {
            circles,
            peers,
            functions: Vec::new(),
            files: Vec::new(),
            folders: Vec::new(),
            comments: Vec::new(),
            unsafe_blocks: Vec::new(),
            forbidding: Vec::new(),
            sources,
        };
        for file in &all.sources.files {
            let path = &file.path;
            let found = |line, name, size| Found { path: path.clone(), line, name, size };
            let tokens = lexer::tokens(&file.text);
            let long = measures::functions(&tokens).into_iter().filter(|one| one.lines > LINES_OF_FUNCTION);
            all.functions.extend(long.map(|one| found(one.line, one.name, one.lines)));
            let comments = measures::comments(&tokens).into_iter();
            let comments = comments.map(|(line, text)| (line, text.split_whitespace().count(), text));
            let short = comments.filter(|(_, words, _)| *words <= WORDS_OF_COMMENT);
            all.comments.extend(short.map(|(line, words, text)| found(line, text, words)));
            let blocks = measures::unsafe_blocks(&tokens).into_iter();
            all.unsafe_blocks.extend(blocks.map(|line| found(line, String::new(), 1)));
            if measures::forbids_unsafe(&tokens) {
                all.forbidding.push(path.clone());
            }
            if file.lines() > LINES_OF_FILE && !is_beside(path) {
                all.files.push(found(1, String::new(), file.lines()));
            }
        }
        let full = all.sources.folders.iter().filter(|(path, files)| **files > FILES_OF_FOLDER && !is_beside(path));
        let found =
            |(path, files): (&String, &usize)| Found { path: path.clone(), line: 0, name: String::new(), size: *files };
        all.folders = full.map(found).collect();
        all
    }

    fn table(&self) -> String {
        let within = |path: &str| self.sources.crate_of(path).is_some_and(|one| one.folder == CONTRACT);
        let contract = self.unsafe_blocks.iter().filter(|block| within(&block.path)).count();
        let rows: [(String, usize); 11] = [
            ("folders at the top".into(), self.sources.wings.len()),
            ("crates".into(), self.sources.crates.len()),
            ("edges between crates".into(), self.sources.edges()),
            ("circles of files within crates".into(), self.circles.len()),
            ("the same, of peers".into(), self.peers.len()),
            (format!("functions above {LINES_OF_FUNCTION} lines"), self.functions.len()),
            (format!("files above {LINES_OF_FILE} lines"), self.files.len()),
            (format!("folders above {FILES_OF_FOLDER} files"), self.folders.len()),
            (format!("doc comments of at most {WORDS_OF_COMMENT} words"), self.comments.len()),
            (format!("blocks of unsafe in {CONTRACT}"), contract),
            ("blocks of unsafe elsewhere".into(), self.unsafe_blocks.len() - contract),
        ];
        let mut text = String::new();
        for (what, number) in rows {
            let _ = writeln!(text, "{what:<38} {number:>7}");
        }
        let _ = writeln!(text, "\n{:<16} {:>7} {:>7} {:>9}", "folder", "crates", "files", "lines");
        for wing in &self.sources.wings {
            let (crates, files, lines) = self.wing(wing);
            if files > 0 {
                let _ = writeln!(text, "{wing:<16} {crates:>7} {files:>7} {lines:>9}");
            }
        }
        text
    }

    /// Crates, files of Rust and their lines in a folder at the top.
    fn wing(&self, wing: &str) -> (usize, usize, usize) {
        let files = || self.sources.files.iter().filter(|file| file.wing() == wing);
        let crates = self.sources.crates.iter().filter(|one| one.folder.split('/').next() == Some(wing));
        (crates.count(), files().count(), files().map(|file| file.lines()).sum())
    }

    fn list(&self, list: List) -> String {
        let mut text = String::new();
        match list {
            List::Circles => self.circles.iter().for_each(|circle| write_circle(&mut text, circle)),
            List::Peers => self.peers.iter().for_each(|circle| write_circle(&mut text, circle)),
            List::Functions => {
                self.functions.iter().for_each(|f| line(&mut text, f, &format!("{}, {} lines", f.name, f.size)));
            }
            List::Files => self.files.iter().for_each(|f| line(&mut text, f, &format!("{} lines", f.size))),
            List::Folders => self.folders.iter().for_each(|f| line(&mut text, f, &format!("{} files", f.size))),
            List::Comments => self.comments.iter().for_each(|f| line(&mut text, f, &f.name)),
            List::Unsafe => {
                for (folder, blocks) in self.unsafe_by_crate() {
                    let _ = writeln!(text, "{folder}: {blocks} blocks");
                }
                self.unsafe_blocks.iter().for_each(|f| line(&mut text, f, "unsafe"));
            }
        }
        text
    }

    /// Blocks of each crate that has some.
    fn unsafe_by_crate(&self) -> BTreeMap<&str, usize> {
        let mut blocks = BTreeMap::new();
        for block in &self.unsafe_blocks {
            *blocks.entry(self.sources.crate_of(&block.path).map_or("", |one| &one.folder)).or_default() += 1;
        }
        blocks
    }

    fn json(&self) -> Value {
        let found = |all: &[Found]| -> Vec<Value> {
            let one = |f: &Found| json!({ "path": f.path, "line": f.line, "name": f.name, "size": f.size });
            all.iter().map(one).collect()
        };
        let wings = self.sources.wings.iter().map(|wing| {
            let (crates, files, lines) = self.wing(wing);
            json!({ "folder": wing, "crates": crates, "files": files, "lines": lines })
        });
        let crates = self.sources.crates.iter();
        let crates = crates.map(|one| {
            let roots = self.sources.roots(&one.folder);
            json!({ "folder": one.folder, "package": one.package, "uses": one.uses, "roots": roots })
        });
        let circles = |all: &[Circle]| all.iter().map(circle_json).collect::<Vec<_>>();
        json!({
            "wings": wings.collect::<Vec<_>>(),
            "crates": crates.collect::<Vec<_>>(),
            "circles": circles(&self.circles),
            "peers": circles(&self.peers),
            "functions": found(&self.functions),
            "files": found(&self.files),
            "folders": found(&self.folders),
            "comments": found(&self.comments),
            "unsafe": found(&self.unsafe_blocks),
            "forbidding": self.forbidding,
        })
    }
}

fn line(text: &mut String, found: &Found, what: &str) {
    let _ = match found.line {
        0 => writeln!(text, "{}: {what}", found.path),
        line => writeln!(text, "{}:{line}: {what}", found.path),
    };
}

fn circle_json(circle: &Circle) -> Value {
    let tie = |(from, to, names): &(String, String, Vec<String>)| json!({ "from": from, "to": to, "names": names });
    let ties: Vec<Value> = circle.ties.iter().map(tie).collect();
    json!({ "crate": circle.folder, "files": circle.files, "ties": ties })
}

fn write_circle(text: &mut String, circle: &Circle) {
    let _ = writeln!(text, "{}: a circle of {} files", circle.folder, circle.files.len());
    let short =
        |path: &str| path.strip_prefix(&circle.folder).map_or(path, |rest| rest.trim_start_matches('/')).to_string();
    for (from, to, names) in &circle.ties {
        let _ = writeln!(text, "  {} -> {}: {}", short(from), short(to), names.join(", "));
    }
}
