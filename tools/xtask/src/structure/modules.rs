//! Modules of one program or library, and the file in which what a path names is defined.
//!
//! By text alone: an item that a macro makes is taken for one of the file in which the path ends.

use super::lexer::{Token, partners, tokens, without_tests};
use super::sources::File;
use std::collections::{BTreeMap, BTreeSet};

/// A module, in a file of its own or not.
#[derive(Default)]
struct Module {
    file: String,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    items: BTreeSet<String>,
    uses: Vec<Use>,
    /// Paths outside `use`, such as `super::table::rows`.
    paths: Vec<Vec<String>>,
    /// All words outside `use`.
    words: BTreeSet<String>,
}

/// One name that `use` brings, or all of a module.
#[derive(Clone)]
struct Use {
    path: Vec<String>,
    /// None for `*`.
    name: Option<String>,
    /// Others may take it from here.
    public: bool,
}

/// What a path leads to.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Module(usize),
    /// An item in the file of that module.
    Item(usize),
    /// Of another crate.
    Elsewhere,
}

/// Longer chains of `use` are circles of their own.
const DEPTH_MAX: usize = 16;

/// A tree of modules below one file.
pub(crate) struct Modules {
    all: Vec<Module>,
}

/// For each pair of files the names that the first takes from the second.
pub(crate) type Arrows = BTreeMap<(String, String), BTreeSet<String>>;

impl Modules {
    /// Reads modules below `root`, a path in `files`.
    pub(crate) fn read(root: &str, files: &BTreeMap<&str, &File>) -> Self {
        let mut modules = Modules { all: Vec::new() };
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        modules.file(root, folder, None, files);
        modules
    }

    /// Adds the module of a file whose children lie in `folder`. Returns its number.
    fn file(&mut self, path: &str, folder: &str, parent: Option<usize>, files: &BTreeMap<&str, &File>) -> usize {
        let number = self.all.len();
        self.all.push(Module { file: path.into(), parent, ..Module::default() });
        if let Some(file) = files.get(path) {
            let kept = without_tests(&tokens(&file.text));
            let mut reader = Reader { tokens: &kept, partner: partners(&kept), modules: self, files };
            reader.module(0, kept.len(), number, folder);
        }
        number
    }

    /// All arrows between files.
    pub(crate) fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (from, module) in self.all.iter().enumerate() {
            let mut arrow = |place: Option<Place>, name: &str| {
                if let Some(Place::Module(to) | Place::Item(to)) = place
                    && self.all[to].file != module.file
                {
                    let ends = (module.file.clone(), self.all[to].file.clone());
                    arrows.entry(ends).or_default().insert(name.to_string());
                }
            };
            let starts: BTreeSet<&String> = module.paths.iter().filter_map(|path| path.first()).collect();
            for path in &module.paths {
                arrow(self.follow(from, path, 0), self.item_of(from, path));
            }
            for used in &module.uses {
                let Some(name) = &used.name else {
                    if let Some(Place::Module(of)) = self.follow(from, &used.path, 0) {
                        // Their parents' private names come, too.
                        let taken = module.words.iter().filter(|word| !module.items.contains(*word));
                        taken.for_each(|word| arrow(self.named(of, word, 1), word));
                    }
                    continue;
                };
                let place = self.follow(from, &used.path, 0);
                // A module counts by the paths through it, and what is only passed on is not used here.
                let through = matches!(place, Some(Place::Module(_))) && starts.contains(name);
                if !through && (!used.public || module.words.contains(name)) {
                    arrow(place, name);
                }
            }
        }
        arrows
    }

    /// The word of a path that names the item: others after it name what is in it, a variant or a function of a type.
    fn item_of<'p>(&self, from: usize, path: &'p [String]) -> &'p str {
        let ends = (1..=path.len()).find(|end| matches!(self.follow(from, &path[..*end], 0), Some(Place::Item(_))));
        &path[ends.unwrap_or(path.len()) - 1]
    }

    /// Where a path leads that stands in module `from`.
    fn follow(&self, from: usize, path: &[String], depth: usize) -> Option<Place> {
        let (first, rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Place::Module(0),
            "self" => Place::Module(from),
            "super" => Place::Module(self.all[from].parent?),
            name => self.named(from, name, depth)?,
        };
        for word in rest {
            let Place::Module(module) = at else { return Some(at) };
            at = match word.as_str() {
                "self" => at,
                "super" => Place::Module(self.all[module].parent?),
                // What a macro makes has no name here that could be found.
                word => self.named(module, word, depth).unwrap_or(Place::Item(module)),
            };
        }
        Some(at)
    }

    /// What `name` is in a module.
    fn named(&self, module: usize, name: &str, depth: usize) -> Option<Place> {
        let this = &self.all[module];
        if let Some(child) = this.children.get(name) {
            return Some(Place::Module(*child));
        }
        if this.items.contains(name) {
            return Some(Place::Item(module));
        }
        if depth > DEPTH_MAX {
            return None;
        }
        // `use fmt::…` names the crate `fmt` unless something else here does.
        let same =
            |used: &&Use| used.name.as_deref() == Some(name) && used.path.first().is_none_or(|first| first != name);
        if let Some(used) = this.uses.iter().find(same) {
            return Some(self.follow(module, &used.path, depth + 1).unwrap_or(Place::Elsewhere));
        }
        this.uses.iter().filter(|used| used.name.is_none()).find_map(|used| {
            // Where such a path begins is said outright: looked for in all that is taken whole, it would be looked for
            // there again for each of them.
            match self.follow(module, &used.path, DEPTH_MAX + 1)? {
                Place::Module(of) if of != module => self.named(of, name, depth + 1),
                _ => None,
            }
        })
    }
}

/// Reads one file into its module, and modules below.
struct Reader<'a, 't> {
    tokens: &'a [Token<'t>],
    partner: Vec<usize>,
    modules: &'a mut Modules,
    files: &'a BTreeMap<&'a str, &'a File>,
}

/// Words before the name of an item.
const ITEMS: [&str; 8] = ["fn", "struct", "enum", "union", "trait", "type", "const", "static"];

impl Reader<'_, '_> {
    fn is(&self, at: usize, text: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is(text))
    }

    fn word(&self, at: usize) -> Option<&str> {
        self.tokens.get(at).filter(|token| token.is_word()).map(|token| token.text)
    }

    /// Reads the tokens of a module whose children lie in `folder`.
    fn module(&mut self, begin: usize, end: usize, module: usize, folder: &str) {
        // Items lie outside braces, but for those of macros and of `extern`.
        let (mut at, mut inside) = (begin, begin);
        while at < end {
            if self.is(at, "{") && at >= inside && !self.is_open(at) {
                inside = self.partner[at];
            }
            if self.is(at, "use") && !self.is(at + 1, "<") {
                at = self.uses(at, module);
                continue;
            }
            if self.is(at, "mod")
                && let Some(name) = self.word(at + 1).map(String::from)
            {
                at = self.child(at, &name, module, folder);
                continue;
            }
            if at >= inside {
                self.item(at, module);
            }
            at = self.path(at, module);
        }
    }

    /// True for braces in which items of the module lie.
    fn is_open(&self, at: usize) -> bool {
        let before = |back: usize| at.checked_sub(back).map(|at| self.tokens[at].text);
        before(1) == Some("!") || before(1) == Some("extern") || before(2) == Some("extern")
    }

    fn item(&mut self, at: usize, module: usize) {
        if self.is(at, "macro_rules") && self.is(at + 1, "!") {
            let exported = self.tokens[at.saturating_sub(4)..at].iter().any(|token| token.is("macro_export"));
            if let Some(name) = self.word(at + 2).map(String::from) {
                // An exported macro is one of the crate's root, wherever it is written.
                if exported && self.modules.all[0].file != self.modules.all[module].file {
                    let path = self.way_to(module, &name);
                    self.modules.all[0].uses.push(Use { path, name: Some(name.clone()), public: true });
                }
                self.modules.all[module].items.insert(name);
            }
        }
        if ITEMS.iter().any(|word| self.is(at, word)) {
            let skip = if self.is(at + 1, "mut") { 2 } else { 1 };
            if let Some(name) = self.word(at + skip).filter(|name| !matches!(*name, "fn" | "unsafe" | "_")) {
                let name = name.to_string();
                self.modules.all[module].items.insert(name);
            }
        }
    }

    /// Path of an item from the crate's root.
    fn way_to(&self, mut module: usize, name: &str) -> Vec<String> {
        let mut path = vec![name.to_string()];
        while let Some(parent) = self.modules.all[module].parent {
            let here = self.modules.all[parent].children.iter().find(|(_, child)| **child == module);
            path.push(here.map_or_else(String::new, |(name, _)| name.clone()));
            module = parent;
        }
        path.push("crate".into());
        path.reverse();
        path
    }

    /// Reads `mod name;` or `mod name { … }` at `at`. Returns the place behind it.
    fn child(&mut self, at: usize, name: &str, module: usize, folder: &str) -> usize {
        let below = if folder.is_empty() { name.to_string() } else { format!("{folder}/{name}") };
        if self.is(at + 2, "{") {
            let file = self.modules.all[module].file.clone();
            let child = self.modules.all.len();
            self.modules.all.push(Module { file, parent: Some(module), ..Module::default() });
            self.modules.all[module].children.insert(name.into(), child);
            self.module(at + 3, self.partner[at + 2], child, &below);
            return self.partner[at + 2] + 1;
        }
        let elsewhere = self.elsewhere(at).map(|path| format!("{folder}/{path}"));
        let places = [elsewhere.unwrap_or_else(|| format!("{below}.rs")), format!("{below}/mod.rs")];
        if let Some(path) = places.iter().find(|path| self.files.contains_key(path.as_str())) {
            // Known before its children are read, which may have to say the way to themselves.
            let child = self.modules.all.len();
            self.modules.all[module].children.insert(name.into(), child);
            self.modules.file(path, &below, Some(module), self.files);
        }
        at + 2
    }

    /// What `#[path = "…"]` before the `mod` at `at` says.
    fn elsewhere(&self, at: usize) -> Option<&str> {
        let before = &self.tokens[at.saturating_sub(8)..at];
        let said = before.windows(3).rfind(|window| window[0].is("path") && window[1].is("="))?;
        Some(said[2].text.trim_matches('"'))
    }

    /// Reads `use …;` at `at`. Returns the place behind it.
    fn uses(&mut self, at: usize, module: usize) -> usize {
        let public = at > 0 && (self.is(at - 1, "pub") || self.is(at - 1, ")"));
        let mut found = Vec::new();
        let end = self.tree(at + 1, &[], &mut found);
        let found = found.into_iter().map(|(path, name)| Use { path, name, public });
        self.modules.all[module].uses.extend(found);
        end
    }

    /// One tree of `use` below `above`, at `at`: adds paths with their names. Returns the place of what follows.
    fn tree(&self, mut at: usize, above: &[String], found: &mut Vec<(Vec<String>, Option<String>)>) -> usize {
        let mut path = above.to_vec();
        while at < self.tokens.len() {
            if self.is(at, "{") {
                let end = self.partner[at];
                at += 1;
                while at < end {
                    at = self.tree(at, &path, found);
                    at += usize::from(self.is(at, ","));
                }
                return end + 1;
            }
            if self.is(at, "*") {
                found.push((path, None));
                return at + 1;
            }
            match self.word(at) {
                Some("as") => {
                    found.push((path, self.word(at + 1).map(String::from)));
                    return at + 2;
                }
                Some(word) => path.push(word.into()),
                None if self.is(at, "::") => {}
                None => break,
            }
            at += 1;
        }
        if path.last().is_some_and(|word| word == "self") && path.len() > 1 {
            path.pop();
        }
        let name = path.last().cloned();
        found.push((path, name));
        at
    }

    /// Reads a word, or a path of several, at `at`. Returns the place behind it.
    fn path(&mut self, at: usize, module: usize) -> usize {
        let Some(word) = self.word(at).map(String::from) else { return at + 1 };
        // `pub(in path)` says who may, and takes nothing.
        let counts = at == 0 || !(self.is(at - 1, "::") || self.is(at - 1, ".") || self.is(at - 1, "in"));
        let mut path = vec![word];
        let mut end = at + 1;
        while self.is(end, "::")
            && let Some(word) = self.word(end + 1)
        {
            path.push(word.into());
            end += 2;
        }
        self.modules.all[module].words.insert(path[0].clone());
        if counts && path.len() > 1 {
            self.modules.all[module].paths.push(path);
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrows(sources: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<File> = sources.iter().map(|(p, t)| File { path: p.to_string(), text: t.to_string() }).collect();
        let by_path = files.iter().map(|file| (file.path.as_str(), file)).collect();
        let found = Modules::read("src/lib.rs", &by_path).arrows();
        let line = |((from, to), names): ((String, String), BTreeSet<String>)| {
            format!("{from} > {to}: {}", names.into_iter().collect::<Vec<_>>().join(" "))
        };
        found.into_iter().map(line).collect()
    }

    #[test]
    fn names_lead_to_where_they_are_defined() {
        let found = arrows(&[
            ("src/lib.rs", "mod a; mod b; pub use a::Made; macro_rules! hidden { () => {} }"),
            ("src/a/mod.rs", "mod deep; pub(crate) use deep::*; #[cfg(test)] use crate::b::Test;"),
            ("src/a/deep.rs", "pub struct Made; impl Made { fn x() { super::super::b::call(\"crate::lib\") } }"),
            ("src/b.rs", "use crate::{a, Made}; use std::fmt; pub fn call() { a::Made::x(); fmt::write() }"),
        ]);
        assert_eq!(found, ["src/a/deep.rs > src/b.rs: call", "src/b.rs > src/a/deep.rs: Made"]);
    }

    #[test]
    fn what_is_only_passed_on_is_not_used() {
        let other = ("src/a.rs", "pub fn f() {} pub fn g() {}");
        assert_eq!(arrows(&[("src/lib.rs", "mod a; pub use a::f;"), other]), [""; 0]);
        assert_eq!(
            arrows(&[("src/lib.rs", "mod a; pub use a::f; fn h() { f() }"), other]),
            ["src/lib.rs > src/a.rs: f"]
        );
        assert_eq!(arrows(&[("src/lib.rs", "mod a; use a::*; fn h() { g() }"), other]), ["src/lib.rs > src/a.rs: g"]);
    }
}
