//! Circles: files of one crate each of which uses, directly or not, all the others.

use super::modules::{Arrows, Modules};
use super::sources::{File, Sources, is_beside};
use std::collections::{BTreeMap, BTreeSet};

/// Files that use each other, and by which names.
pub(crate) struct Circle {
    /// The crate's folder.
    pub(crate) folder: String,
    pub(crate) files: Vec<String>,
    /// From the first to the second.
    pub(crate) ties: Vec<(String, String, Vec<String>)>,
}

/// All circles of all crates.
pub(crate) fn circles(sources: &Sources) -> Vec<Circle> {
    let files: BTreeMap<&str, &File> = sources.files.iter().map(|file| (file.path.as_str(), file)).collect();
    let mut found = Vec::new();
    for one in &sources.crates {
        let mut arrows = Arrows::new();
        for root in roots(&one.folder, &files) {
            for (ends, names) in Modules::read(&root, &files).arrows() {
                arrows.entry(ends).or_default().extend(names);
            }
        }
        arrows.retain(|(from, to), _| !is_beside(from) && !is_beside(to));
        for files in components(&arrows) {
            let within = arrows.iter().filter(|((from, to), _)| files.contains(from) && files.contains(to));
            let tie = |((from, to), names): (&(String, String), &BTreeSet<String>)| {
                (from.clone(), to.clone(), names.iter().cloned().collect())
            };
            found.push(Circle {
                folder: one.folder.clone(),
                ties: within.map(tie).collect(),
                files: files.into_iter().collect(),
            });
        }
    }
    found
}

/// Files that Cargo compiles by themselves.
fn roots(folder: &str, files: &BTreeMap<&str, &File>) -> Vec<String> {
    let src = format!("{folder}/src/");
    let is_root = |rest: &str| {
        let program = rest.strip_prefix("bin/");
        matches!(rest, "lib.rs" | "main.rs")
            || program.is_some_and(|name| !name.contains('/') || name.ends_with("/main.rs"))
    };
    let ours = files.keys().filter(|path| path.strip_prefix(src.as_str()).is_some_and(is_root));
    ours.map(|path| path.to_string()).collect()
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
