//! Circles: files of one crate each of which uses, directly or not, all the others.

use super::modules::{Arrows, Modules};
use super::sources::{File, Sources, is_beside};
use std::collections::{BTreeMap, BTreeSet};

/// Files that use each other, and by which names.
pub(crate) struct Circle {
    pub(crate) folder: String,
    pub(crate) files: Vec<String>,
    /// From the first to the second.
    pub(crate) ties: Vec<(String, String, Vec<String>)>,
}

/// All circles of all crates, and those that are left without ties between a module and the files right below it.
pub(crate) fn circles(sources: &Sources) -> [Vec<Circle>; 2] {
    let files: BTreeMap<&str, &File> = sources.files.iter().map(|file| (file.path.as_str(), file)).collect();
    let (mut all, mut peers) = (Vec::new(), Vec::new());
    for one in &sources.crates {
        let mut arrows = Arrows::new();
        for root in sources.roots(&one.folder) {
            for (ends, names) in Modules::read(root, &files).arrows() {
                arrows.entry(ends).or_default().extend(names);
            }
        }
        arrows.retain(|(from, to), _| !is_beside(from) && !is_beside(to));
        all.extend(within(&one.folder, &arrows));
        arrows.retain(|(from, to), _| !is_parent(from, to) && !is_parent(to, from));
        peers.extend(within(&one.folder, &arrows));
    }
    [all, peers]
}

/// The circles of one crate.
fn within(folder: &str, arrows: &Arrows) -> Vec<Circle> {
    let circle = |files: BTreeSet<String>| {
        let inside = arrows.iter().filter(|((from, to), _)| files.contains(from) && files.contains(to));
        let tie = |((from, to), names): (&(String, String), &BTreeSet<String>)| {
            (from.clone(), to.clone(), names.iter().cloned().collect())
        };
        Circle { folder: folder.into(), ties: inside.map(tie).collect(), files: files.into_iter().collect() }
    };
    components(arrows).into_iter().map(circle).collect()
}

/// True if the module of file `parent` has that of `child` right below it.
fn is_parent(parent: &str, child: &str) -> bool {
    let folder = |path: &str| path.rsplit_once('/').map_or("", |(folder, _)| folder).to_string();
    // The folder in which the children of a file's module lie.
    let rooms = |path: &str| match path.rsplit('/').next() {
        Some("mod.rs" | "lib.rs" | "main.rs") => folder(path),
        _ => path.trim_end_matches(".rs").into(),
    };
    let child = child.strip_suffix("/mod.rs").unwrap_or(child);
    folder(child) == rooms(parent)
}

/// Sets of more than one file from each of which arrows lead to all others of the set.
fn components(arrows: &Arrows) -> Vec<BTreeSet<String>> {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in arrows.keys() {
        next.entry(from).or_default().push(to);
    }
    let reached = |from| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
        while let Some(one) = left.pop() {
            left.extend(next.get(one).into_iter().flatten().filter(|to| seen.insert(**to)));
        }
        seen
    };
    let all: BTreeMap<&str, BTreeSet<&str>> = next.keys().map(|from| (*from, reached(*from))).collect();
    let mut found = BTreeSet::new();
    for (from, to) in &all {
        let back = |other: &&&str| all.get(**other).is_some_and(|its| its.contains(from));
        let circle: BTreeSet<String> = to.iter().filter(back).map(|file| file.to_string()).collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_right_above() {
        let pairs = [("src/lib.rs", "src/a.rs"), ("src/a.rs", "src/a/b.rs"), ("src/a/mod.rs", "src/a/b/mod.rs")];
        assert!(pairs.iter().all(|(parent, child)| is_parent(parent, child) && !is_parent(child, parent)));
        assert!(!is_parent("src/lib.rs", "src/a/b.rs") && !is_parent("src/a.rs", "src/b.rs"));
    }

    #[test]
    fn a_circle_is_more_than_a_chain() {
        let arrows = |pairs: &[(&str, &str)]| -> Arrows {
            pairs.iter().map(|(from, to)| ((from.to_string(), to.to_string()), BTreeSet::new())).collect()
        };
        assert_eq!(components(&arrows(&[("a", "b"), ("b", "c"), ("a", "c")])), []);
        let found = components(&arrows(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"), ("x", "y"), ("y", "x")]));
        let set = |names: [&str; 2]| BTreeSet::from(names.map(String::from));
        assert_eq!(found, [set(["b", "c"]), set(["x", "y"])]);
    }
}
