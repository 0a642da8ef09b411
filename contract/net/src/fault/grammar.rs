//! Faults as people write them: one grammar for `--fault`, `angara fault`, configuration files, simulations and trunks.
//! [`super::Command`] and [`super::Fault`] are read by it.
//!
//! ```text
//! link 0,0,0 +X down          the cable between 0,0,0 and its +X neighbour is cut, both ways
//! link 0,0,0 +X corrupt=1%    packets sent over it in that direction suffer one of KINDS, or several one after the other
//! node 1,0,0 down             the node stops forwarding; every link to it is cut
//! node 1,0,0 corrupt=1%       on every link that begins or ends there
//! corrupt=0.1%                on every link, also written `every link corrupt=0.1%`
//! trunk HOST drop=1%          datagrams between two hosts; `trunk all`: to every other host
//! … @2ms                      takes effect that long after it was set (ns, us, ms, s)
//! … up                        no longer down
//! … clear                     as if nothing had ever been said of it
//! all clear                   everything works again
//! ```
//!
//! Who reads a command may refuse what makes no sense there. [`KINDS`] is the one table of settings: help and error texts are
//! made from it.

use super::{Failing, Impair, Site};
use crate::link::Link;
use crate::torus::{Direction, NodeId, Shape, ShapeError};
use crate::units;
use std::fmt;

/// Longest time that a text may name, in picoseconds: a day. Nothing that waits for a fault runs longer.
pub(super) const TIME_MAX: u64 = 86_400_000_000_000_000;

/// A setting, written `NAME=VALUE`.
pub struct Setting {
    /// How it begins.
    pub name: &'static str,
    /// A value.
    pub example: &'static str,
    /// Effect on the packets of a link or the datagrams of a trunk.
    pub does: &'static str,
    /// Description of a value.
    expects: &'static str,
    read: fn(&str) -> Option<Failing>,
}

const SHARE: &str = "a share from 0 to 100%, such as 1%, 0.01 or 200ppm";

/// Every setting.
pub const KINDS: [Setting; 7] = [
    Setting {
        name: "corrupt",
        example: "1%",
        does: "fraction of transmissions corrupted",
        expects: SHARE,
        read: |v| units::share(v).map(|n| Failing::Impaired(Impair::Corrupt(n))),
    },
    Setting {
        name: "drop",
        example: "1%",
        does: "fraction lost",
        expects: SHARE,
        read: |v| units::share(v).map(|n| Failing::Impaired(Impair::Drop(n))),
    },
    Setting {
        name: "dup",
        example: "1%",
        does: "fraction duplicated",
        expects: SHARE,
        read: |v| units::share(v).map(|n| Failing::Impaired(Impair::Duplicate(n))),
    },
    Setting {
        name: "reorder",
        example: "1%",
        does: "fraction overtaken by the next packet",
        expects: SHARE,
        read: |v| units::share(v).map(|n| Failing::Impaired(Impair::Reorder(n))),
    },
    Setting {
        name: "delay",
        example: "2us",
        does: "added latency",
        expects: "a delay such as 2us",
        read: |v| time(v).map(|ps| Failing::Impaired(Impair::Delay(ps))),
    },
    Setting {
        name: "rate",
        example: "10M",
        does: "most bytes per second",
        expects: "a rate in bytes per second such as 10M",
        read: |v| units::bytes(v).map(|n| Failing::Impaired(Impair::Rate(n))),
    },
    Setting {
        name: "seed",
        example: "7",
        does: "seed of the random choices",
        expects: "a seed: write a whole number, or none for the network's own",
        read: |v| match v {
            "none" => Some(Failing::Impaired(Impair::Seed(None))),
            _ => v.parse().ok().map(|n| Failing::Impaired(Impair::Seed(Some(n)))),
        },
    },
];

/// An example of each of `kinds`: `corrupt=1% drop=1% …`, with something between them.
pub fn examples<'k>(kinds: impl Iterator<Item = &'k Setting>, between: &str) -> String {
    kinds.map(|k| format!("{}={}", k.name, k.example)).collect::<Vec<_>>().join(between)
}

/// Effects of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// It fails so.
    Set(Failing),
    /// It is no longer down.
    Up,
    /// Nothing is wrong with it any more.
    Clear,
}

impl Effect {
    fn parse(word: &str) -> Result<Effect, String> {
        let unknown = || format!("`{word}` is not understood");
        match word {
            "down" => return Ok(Effect::Set(Failing::Down)),
            "up" => return Ok(Effect::Up),
            "clear" => return Ok(Effect::Clear),
            _ => {}
        }
        let (name, value) = word.split_once('=').ok_or_else(unknown)?;
        let kind = KINDS.iter().find(|k| k.name == name).ok_or_else(unknown)?;
        (kind.read)(value).map(Effect::Set).ok_or_else(|| format!("`{value}` is not {}", kind.expects))
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::Set(failing) => failing.fmt(f),
            Effect::Up => f.write_str("up"),
            Effect::Clear => f.write_str("clear"),
        }
    }
}

/// Targets of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A part of the network.
    Site(Site),
    /// The trunk to a host, by its name; `None`: to every other host.
    Trunk(Option<String>),
    /// Everything.
    All,
}

/// The words of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// Where.
    pub place: Place,
    /// Effects there, in order; may be empty.
    pub effects: Vec<Effect>,
    /// How many picoseconds later.
    pub after: Option<u64>,
}

/// Why a text was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}; {}", self.brief(), self.remedy())]
pub struct Mistake {
    /// The text.
    pub text: String,
    /// The mistake in it.
    pub why: String,
}

impl Mistake {
    /// Of `text`.
    pub fn new(text: &str, why: impl Into<String>) -> Mistake {
        Mistake { text: text.to_string(), why: why.into() }
    }
    /// Returns what is wrong, without the accepted forms.
    pub fn brief(&self) -> String {
        format!("fault `{}`: {}", self.text, self.why)
    }
    /// Returns what to write instead, to a daemon.
    pub fn remedy(&self) -> String {
        remedy(&self.text, || self.forms())
    }
    fn forms(&self) -> String {
        let settings = examples(KINDS.iter(), " ");
        match is_trunk(&self.text) {
            true => format!("`trunk HOST|all down`, `up`, `clear`, or any of `{settings}`"),
            false => format!(
                "`link 0,0,0 +X down`, `up`, `clear` or any of `{settings}`, the same for `node 1,0,0 down`, or `corrupt=0.1%` \
                 and the like alone (`every link clear` ends these); what is set may end with when, such as `@2ms`"
            ),
        }
    }
}

/// Returns what to write instead of a `text` that was refused: the word that one of its words was probably to be, or
/// else `forms`.
pub fn remedy(text: &str, forms: impl FnOnce() -> String) -> String {
    meant(text).map_or_else(|| format!("write {}", forms()), |word| format!("did you mean `{word}`?"))
}

/// The word that a mistyped one of `text` was probably to be.
fn meant(text: &str) -> Option<String> {
    const PLACES: [&str; 5] = ["link", "node", "every", "trunk", "all"];
    const EFFECTS: [&str; 3] = ["down", "up", "clear"];
    let words: Vec<&str> = text.split_whitespace().collect();
    // Coordinates and names of hosts are no words of ours.
    let place = place_words(&words);
    words.iter().enumerate().find_map(|(i, word)| match word.split_once('=') {
        Some((name, value)) => {
            let kinds: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
            near(name, &kinds).map(|name| format!("{name}={value}"))
        }
        None if i == 0 => near(word, &PLACES),
        None if i == 1 && words[0] == "every" => near(word, &["link"]),
        None if i < place || word.starts_with('@') => None,
        None => near(word, &EFFECTS),
    })
}

/// The one of `known` that `word` is nearly, unless it is one.
pub fn near(word: &str, known: &[&str]) -> Option<String> {
    let (distance, nearest) = known.iter().map(|known| (strsim::osa_distance(word, known), *known)).min()?;
    (distance > 0 && distance <= 1 + nearest.len() / 4).then(|| nearest.to_string())
}

fn is_trunk(text: &str) -> bool {
    text.split_whitespace().next() == Some("trunk")
}

/// How many of the words say what a command is about.
fn place_words(words: &[&str]) -> usize {
    match words.first() {
        Some(&"link") => 3,
        Some(word) if word.contains('=') => 0,
        Some(&"all") => 1,
        _ => 2,
    }
}

/// The words of a text that say what it is about: `link 0,0,0 +X` of `link 0,0,0 +X down @2ms`, `every link` of `corrupt=1%`.
pub fn place_of(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    match place_words(&words) {
        0 => "every link".into(),
        n => words[..n.min(words.len())].join(" "),
    }
}

/// A time of at most a day, in picoseconds.
fn time(text: &str) -> Option<u64> {
    units::time(text).filter(|ps| *ps <= TIME_MAX)
}

/// Reads a command for a network of `shape`.
pub fn parse(text: &str, shape: &Shape) -> Result<Command, Mistake> {
    let fail = |why: String| Mistake::new(text, why);
    let (body, after) = match text.split_once('@') {
        Some((body, delay)) => {
            let delay = delay.trim();
            (body, Some(time(delay).ok_or_else(|| fail(format!("`@{delay}` is not a delay")))?))
        }
        None => (text, None),
    };
    let words: Vec<&str> = body.split_whitespace().collect();
    let (place, rest) = words.split_at(place_words(&words).min(words.len()));
    let place = parse_place(place, &words, shape).map_err(fail)?;
    let effects = rest.iter().map(|word| Effect::parse(word)).collect::<Result<_, _>>().map_err(fail)?;
    Ok(Command { place, effects, after })
}

fn parse_place(place: &[&str], all: &[&str], shape: &Shape) -> Result<Place, String> {
    let node = |text: &str| -> Result<NodeId, String> {
        let at = shape.parse_coords(text).map_err(|e| e.to_string())?;
        shape.id(at).ok_or_else(|| format!("{text} is not in {shape}"))
    };
    match place {
        ["link", at, dir] => {
            let id = node(at)?;
            let dir: Direction = dir.parse().map_err(|e: ShapeError| e.to_string())?;
            Ok(Place::Site(Site::Link(Link { node: id, dir })))
        }
        ["node", at] => Ok(Place::Site(Site::Node(node(at)?))),
        ["every", "link"] => Ok(Place::Site(Site::EveryLink)),
        ["trunk", host] => Ok(Place::Trunk((*host != "all").then(|| host.to_string()))),
        ["all"] => Ok(Place::All),
        ["link" | "node", ..] => Err("coordinates or direction are missing".into()),
        ["trunk"] => Err("which trunk is missing".into()),
        [] if all.is_empty() => Err("it is empty".into()),
        [] => Ok(Place::Site(Site::EveryLink)),
        [other, ..] => Err(format!("`{other}` is neither `link` nor `node`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Impairment;
    use proptest::prelude::*;

    fn shape() -> Shape {
        "4x2x2".parse().expect("shape")
    }

    #[test]
    fn every_kind_is_read_from_its_example_and_shown_again() {
        for kind in &KINDS {
            let word = format!("{}={}", kind.name, kind.example);
            let read = parse(&word, &shape()).expect(&word);
            assert_eq!(read.place, Place::Site(Site::EveryLink));
            let [Effect::Set(failing)] = read.effects[..] else { panic!("{word}") };
            assert_eq!(failing.to_string(), word);
            assert!(!failing.is_none() && failing.same_kind(failing));
            let e = parse(&format!("{}=?", kind.name), &shape()).expect_err("no value");
            assert!(e.why.starts_with("`?` is not a") && e.to_string().contains(&word), "{e}");
        }
    }

    #[test]
    fn every_setting_has_a_row_in_the_same_order() {
        let (corrupt, drop, duplicate, reorder) = (1, 1, 1, 1);
        // Without `..`, so that this does not compile without a new field.
        let all = Impairment { corrupt, drop, duplicate, reorder, delay_ps: 1, rate: 1024, seed: Some(1) };
        let shown: Vec<String> = all.settings().map(|how| how.to_string()).collect();
        let names: Vec<&str> = shown.iter().filter_map(|how| how.split_once('=')).map(|(name, _)| name).collect();
        assert_eq!(names, KINDS.each_ref().map(|kind| kind.name));
    }

    #[test]
    fn a_mistyped_word_is_answered_with_what_was_meant() {
        for (text, word) in [
            ("link 0,0,0 +X corupt=1%", "corrupt=1%"),
            ("node 0,0,0 dwon", "down"),
            ("corupt=1% @2ms", "corrupt=1%"),
            ("lnik 0,0,0 +X down", "link"),
            ("trunk dow drp=1%", "drop=1%"),
            ("every lnik corrupt=1%", "link"),
        ] {
            let said = parse(text, &shape()).expect_err(text).to_string();
            assert!(said.ends_with(&format!("; did you mean `{word}`?")), "{said}");
        }
        for text in ["link 0,0,0 +X frobnicate=1%", "link 9,0,0 +X down", "nothing", "link 0,0,0 +X corrupt=x", ""] {
            let said = parse(text, &shape()).expect_err(text).to_string();
            assert!(said.contains("; write `link 0,0,0 +X down`"), "{said}");
        }
    }

    #[test]
    fn places_are_read_and_named() {
        let link = Place::Site(Site::Link(Link { node: 0, dir: "+X".parse().expect("a direction") }));
        for (text, place, name, effects) in [
            ("link 0,0,0  +X down @2ms", link.clone(), "link 0,0,0 +X", 1),
            ("link 0,0,0 +X", link, "link 0,0,0 +X", 0),
            ("node 0,0,0 corrupt=1% up", Place::Site(Site::Node(0)), "node 0,0,0", 2),
            ("corrupt=1% drop=1%@2ms", Place::Site(Site::EveryLink), "every link", 2),
            ("every link corrupt=1%", Place::Site(Site::EveryLink), "every link", 1),
            ("trunk all down", Place::Trunk(None), "trunk all", 1),
            ("trunk B drop=1%", Place::Trunk(Some("B".into())), "trunk B", 1),
            ("all clear", Place::All, "all", 1),
        ] {
            let read = parse(text, &shape()).expect(text);
            assert_eq!((read.place, read.effects.len()), (place, effects), "{text}");
            assert_eq!(read.after, text.contains('@').then_some(2_000_000_000), "{text}");
            assert_eq!(place_of(text), name);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z0-9=,+%@ ]{0,40}") {
            if let Err(e) = parse(&text, &shape()) {
                prop_assert!(e.brief().contains(&text));
            }
            place_of(&text);
        }
    }
}
