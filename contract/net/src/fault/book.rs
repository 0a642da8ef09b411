//! Faults in force, and what a command makes of them.

use super::{Failing, Fault, Impairment, Site};
use crate::link::Link;
use crate::torus::Shape;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Faults to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clear {
    /// Every fault.
    All,
    /// The faults of one site.
    Site(Site),
    /// That a site is down; impairments stay.
    Up(Site),
}

impl Clear {
    /// True if this ends that fault.
    pub fn concerns(self, fault: &Fault) -> bool {
        match self {
            Clear::All => true,
            Clear::Site(site) => fault.site == site,
            Clear::Up(site) => fault.site == site && fault.is_down(),
        }
    }
    /// Where; `None`: everywhere.
    pub fn site(self) -> Option<Site> {
        match self {
            Clear::All => None,
            Clear::Site(site) | Clear::Up(site) => Some(site),
        }
    }
}

/// One thing a command asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Put a fault in force.
    Set(Fault),
    /// End faults.
    Clear(Clear),
}

/// Why actions make no sense after the faults of a book.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BookError {
    /// A fault that takes effect later is no fault in force.
    Later(Fault),
    /// Nothing is wrong with the site whose faults should end.
    Nothing(Site),
}

/// Faults in force.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Book(Vec<Fault>);

impl Book {
    /// In the order in which they came.
    pub fn faults(&self) -> &[Fault] {
        &self.0
    }

    /// Puts a fault in force, in place of an earlier one of its kind there.
    pub fn set(&mut self, fault: Fault) {
        self.0.retain(|f| !f.is_replaced_by(&fault));
        if !fault.failing.is_none() {
            self.0.push(fault.now());
        }
    }

    /// Keeps only some.
    pub fn retain(&mut self, keep: impl FnMut(&Fault) -> bool) {
        self.0.retain(keep);
    }

    /// Ends faults: those that have ended.
    pub fn clear(&mut self, what: Clear) -> Vec<Fault> {
        let (ended, kept) = std::mem::take(&mut self.0).into_iter().partition(|f| what.concerns(f));
        self.0 = kept;
        ended
    }

    /// The book after actions, all of them or none.
    pub fn after(&self, actions: &[Action]) -> Result<Book, BookError> {
        let mut book = self.clone();
        for action in actions {
            match *action {
                Action::Set(fault) if fault.at.is_some() => return Err(BookError::Later(fault)),
                Action::Set(fault) => book.set(fault),
                Action::Clear(what) => {
                    let ended = book.clear(what);
                    if let Some(site) = what.site().filter(|_| ended.is_empty()) {
                        return Err(BookError::Nothing(site));
                    }
                }
            }
        }
        Ok(book)
    }

    /// The sites that are down.
    pub fn down(&self) -> impl Iterator<Item = Site> {
        self.0.iter().filter(|f| f.is_down()).map(|f| f.site)
    }

    /// Returns what befalls each link that a fault of this book concerns. A fault of a link itself counts more than
    /// one of a node at either end, and that more than one of every link.
    pub fn impairments(&self, shape: &Shape) -> BTreeMap<Link, Impairment> {
        let mut list: Vec<&Fault> = self.0.iter().collect();
        list.sort_by_key(|f| match f.site {
            Site::EveryLink => 0,
            Site::Node(_) => 1,
            Site::Link(_) => 2,
        });
        let mut links: BTreeMap<Link, Impairment> = BTreeMap::new();
        for fault in list {
            let Failing::Impaired(how) = fault.failing else { continue };
            for link in fault.site.links(shape) {
                let what = links.entry(link).or_default();
                *what = what.with(how);
            }
        }
        links
    }
}

impl FromIterator<Fault> for Book {
    fn from_iter<I: IntoIterator<Item = Fault>>(faults: I) -> Book {
        let mut book = Book::default();
        faults.into_iter().for_each(|fault| book.set(fault));
        book
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Command, Target};
    use super::*;

    fn shape() -> Shape {
        "4x2".parse().expect("shape")
    }

    fn actions(text: &str) -> Vec<Action> {
        match Command::parse(text, &shape()).expect(text).target {
            Target::Network(actions) => actions,
            Target::Trunk { .. } => panic!("{text}"),
        }
    }

    fn book(faults: &[&str]) -> Book {
        faults.iter().map(|f| Fault::parse(f, &shape()).expect(f)).collect()
    }

    fn after(faults: &[&str], text: &str) -> Result<Vec<String>, BookError> {
        let after = book(faults).after(&actions(text))?;
        Ok(after.faults().iter().map(|f| f.show(&shape())).collect())
    }

    #[test]
    fn commands_change_the_list_of_faults() {
        for (before, text, result) in [
            (&[][..], "link 0,0 +X down", &["link 0,0 +X down"][..]),
            (&["link 0,0 +X down"], "link 0,0 +X down", &["link 0,0 +X down"]),
            (
                &["link 0,0 +X corrupt=1%"],
                "link 0,0 +X corrupt=2% drop=1%",
                &["link 0,0 +X corrupt=2%", "link 0,0 +X drop=1%"],
            ),
            (&["link 0,0 +X corrupt=2%", "link 0,0 +X down"], "link 0,0 +X up", &["link 0,0 +X corrupt=2%"]),
            (&["link 0,0 +X corrupt=2%", "node 1,1 down"], "link 0,0 +X clear", &["node 1,1 down"]),
            (&["corrupt=2%", "node 1,1 down"], "corrupt=0% drop=0%", &["node 1,1 down"]),
            (
                &["node 0,0 delay=2us", "node 0,0 dup=1%"],
                "node 0,0 delay=3us rate=10M dup=0%",
                &["node 0,0 delay=3us", "node 0,0 rate=10M"],
            ),
            (&["corrupt=2%", "rate=10M", "node 1,1 dup=1%"], "every link clear", &["node 1,1 dup=1%"]),
            (&[], "link 0,0 +X drop=1% seed=7", &["link 0,0 +X seed=7", "link 0,0 +X drop=1%"]),
            (
                &["link 0,0 +X seed=7", "node 0,0 seed=2"],
                "link 0,0 +X seed=8 corrupt=1%",
                &["node 0,0 seed=2", "link 0,0 +X seed=8", "link 0,0 +X corrupt=1%"],
            ),
            (&["link 0,0 +X seed=7", "link 0,0 +X drop=1%"], "link 0,0 +X seed=none", &["link 0,0 +X drop=1%"]),
            (&["link 0,0 +X seed=7", "link 0,0 +X drop=1%"], "link 0,0 +X clear", &[]),
            (
                &["link 0,0 +X dup=7%"],
                "link 0,0 +X clear drop=1% seed=7",
                &["link 0,0 +X seed=7", "link 0,0 +X drop=1%"],
            ),
            (&["corrupt=2%", "node 1,1 down"], "all clear", &[]),
        ] {
            assert_eq!(after(before, text).expect(text), result, "{before:?} {text}");
        }
        assert!(matches!(after(&[], "node 1,1 up"), Err(BookError::Nothing(Site::Node(5)))));
        assert!(matches!(after(&[], "node 1,1 down @2ms"), Err(BookError::Later(_))));
    }

    #[test]
    fn what_is_said_of_less_counts_more() {
        let links = book(&[
            "link 1,0 +X drop=4%",
            "corrupt=1%",
            "delay=5ns",
            "node 0,0 corrupt=2%",
            "link 1,0 -X corrupt=3%",
            "seed=1",
            "node 0,0 seed=2",
            "link 1,0 -X seed=3",
        ])
        .impairments(&shape());
        assert_eq!(links.len(), 8 * 4, "every link: a dimension of size 2 has two cables");
        let spoilt = |text: &str| {
            let [Action::Clear(Clear::Site(Site::Link(link)))] = actions(&format!("link {text} clear"))[..] else {
                panic!("{text}")
            };
            let what = links[&link];
            assert_eq!(what.delay_ps, 5_000);
            (what.spoilt(), what.seed)
        };
        assert_eq!(spoilt("2,0 +X"), (10_000, Some(1)), "as every link");
        assert_eq!(spoilt("0,0 +X"), (20_000, Some(2)), "leaves the node");
        assert_eq!(spoilt("0,1 +Y"), (20_000, Some(2)), "leads to the node");
        assert_eq!(spoilt("1,0 -X"), (30_000, Some(3)), "itself");
        assert_eq!(spoilt("1,0 +X"), (50_000, Some(1)), "lost, and damaged as on every link");
    }
}
