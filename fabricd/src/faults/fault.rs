//! Faults of links and nodes: what commands set and end, and what all of them together do to each link.
//!
//! [`angara_abi::fault`] has the grammar. What is said of a node holds for every link that begins or ends there, and counts more than
//! what is said of every link; what is said of a link counts most. `up` ends that something is down, `clear` also what its
//! packets suffered.
//!
//! A link answers a lost packet as it answers a damaged one: the receiver takes nothing until it comes again.

use crate::failure::failure;
use angara_abi::fault::{Effect, Impair, Mistake, Place};
pub use angara_abi::fault::{Failing, Site};
use angara_abi::msg::Failure;
use angara_abi::torus::{Direction, NodeId, Shape};
use angara_fabric::{Impairment, Link};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// A fault to set.
#[derive(Clone, PartialEq, Debug)]
pub struct FaultSpec {
    /// Where.
    pub site: Site,
    /// What.
    pub failing: Failing,
    /// After how long.
    pub after: Option<Duration>,
    pub(crate) shape: Shape,
}

/// What to clear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClearSpec {
    /// Every fault.
    All,
    /// The faults of one site.
    Site(Site),
    /// That a site is down; what else befalls its packets stays.
    Up(Site),
}

impl ClearSpec {
    /// Whether this ends that fault.
    pub(crate) fn concerns(self, fault: &FaultSpec) -> bool {
        match self {
            ClearSpec::All => true,
            ClearSpec::Site(site) => fault.site == site,
            ClearSpec::Up(site) => fault.site == site && fault.failing == Failing::Down,
        }
    }
    /// Where; `None`: everywhere.
    pub(crate) fn site(self) -> Option<Site> {
        match self {
            ClearSpec::All => None,
            ClearSpec::Site(site) | ClearSpec::Up(site) => Some(site),
        }
    }
}

/// One thing a command asks for.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Action {
    Set(FaultSpec),
    Clear(ClearSpec),
}

impl FaultSpec {
    /// Reads one fault of a network of `shape`.
    pub fn parse(text: &str, shape: Shape) -> Result<FaultSpec, Mistake> {
        match parse(text, shape)?.as_slice() {
            [Action::Set(fault)] => Ok(fault.clone()),
            _ => Err(Mistake::new(text, "exactly one fault is expected here")),
        }
    }
}

/// Reads what a command asks for; at least one thing.
pub(crate) fn parse(text: &str, shape: Shape) -> Result<Vec<Action>, Mistake> {
    let fail = |why: String| Mistake::new(text, why);
    let command = angara_abi::fault::parse(text, &shape)?;
    let after = command.after.map(|ps| Duration::from_nanos(ps / 1000));
    let site = match command.place {
        Place::Site(site) => site,
        Place::All if command.effects == [Effect::Clear] && after.is_none() => {
            return Ok(vec![Action::Clear(ClearSpec::All)]);
        }
        Place::All => return Err(fail("`all` is neither `link` nor `node`".into())),
        Place::Trunk(_) => return Err(fail("`trunk` is neither `link` nor `node`".into())),
    };
    check_site(site, shape).map_err(fail)?;
    let mut actions = Vec::new();
    for effect in command.effects {
        let end = |what| match after {
            None => Ok(Action::Clear(what)),
            Some(_) => Err(fail(format!("`{effect}` is done at once; leave the time out"))),
        };
        let action = match effect {
            Effect::Set(Failing::Down) | Effect::Up if site == Site::EveryLink => {
                return Err(fail(format!("`{effect}` is not understood")));
            }
            Effect::Up => end(ClearSpec::Up(site))?,
            Effect::Clear => end(ClearSpec::Site(site))?,
            Effect::Set(failing) => {
                if let Failing::Impaired(how) = failing {
                    Impairment::default().with(how).check().map_err(|e| fail(e.to_string()))?;
                }
                Action::Set(FaultSpec { site, failing, after, shape })
            }
        };
        // Everything said with a seed begins with it; what is cleared is cleared before.
        let cleared = || actions.iter().rposition(|a| matches!(a, Action::Clear(_))).map_or(0, |last| last + 1);
        let seed = matches!(effect, Effect::Set(Failing::Impaired(Impair::Seed(_))));
        actions.insert(if seed { cleared() } else { actions.len() }, action);
    }
    match actions.is_empty() {
        true => Err(fail("what happens to it is missing".into())),
        false => Ok(actions),
    }
}

/// Whether there is such a link.
pub(crate) fn check_site(site: Site, shape: Shape) -> Result<(), String> {
    match site {
        Site::Link(node, dir) if shape.neighbour(node, dir).is_none() => {
            Err(format!("{} has no link {dir} in {shape}", shape.show(shape.coords(node))))
        }
        _ => Ok(()),
    }
}

/// As an answer to whoever wrote it.
pub(crate) fn refused(mistake: Mistake) -> Failure {
    failure(mistake.brief(), mistake.remedy())
}

/// What befalls every link that one of these faults concerns. What is said of a link itself counts more than what
/// is said of a node at one of its ends, and that more than what is said of all.
pub(crate) fn impairments(faults: &[FaultSpec], shape: Shape) -> BTreeMap<Link, Impairment> {
    let mut list: Vec<&FaultSpec> = faults.iter().filter(|f| f.failing != Failing::Down).collect();
    list.sort_by_key(|f| match f.site {
        Site::EveryLink => 0,
        Site::Node(_) => 1,
        Site::Link(..) => 2,
    });
    let mut links: BTreeMap<Link, (Impairment, u32)> = BTreeMap::new();
    for fault in list {
        for link in links_of(fault.site, shape) {
            let (what, lost) = links.entry(link).or_default();
            match fault.failing {
                Failing::Down => {}
                Failing::Drop(ppm) => *lost = ppm,
                Failing::Impaired(how) => *what = what.with(how),
            }
        }
    }
    let both = |(what, lost): (Impairment, u32)| Impairment { wrong: (what.wrong + lost).min(1_000_000), ..what };
    links.into_iter().map(|(link, said)| (link, both(said))).collect()
}

fn links_of(site: Site, shape: Shape) -> Vec<Link> {
    let of = |node| {
        Direction::ALL.into_iter().filter_map(move |dir| Some((Link { node, dir }, shape.neighbour(node, dir)?)))
    };
    match site {
        Site::Link(node, dir) => vec![Link { node, dir }],
        Site::Node(node) => {
            of(node).flat_map(|(link, far)| [link, Link { node: far, dir: link.dir.opposite() }]).collect()
        }
        Site::EveryLink => (0..shape.nodes() as NodeId).flat_map(of).map(|(link, _)| link).collect(),
    }
}

/// The faults of a cluster after a command.
pub(crate) fn apply(faults: &[String], text: &str, shape: Shape) -> Result<Vec<String>, Failure> {
    let parsed = faults.iter().map(|text| FaultSpec::parse(text, shape)).collect::<Result<Vec<_>, _>>();
    let mut all = parsed.map_err(refused)?;
    for action in parse(text, shape).map_err(refused)? {
        match action {
            Action::Set(new) if new.after.is_some() => {
                return Err(failure(
                    format!("fault `{text}`: hosts agree on a fault when its time has come"),
                    "leave the time out",
                ));
            }
            Action::Set(new) => {
                all.retain(|f| !(f.site == new.site && f.failing.same_kind(new.failing)));
                if !new.failing.is_none() {
                    all.push(new);
                }
            }
            Action::Clear(what) => {
                let before = all.len();
                all.retain(|f| !what.concerns(f));
                if let Some(site) = what.site().filter(|_| all.len() == before) {
                    return Err(failure(
                        format!("no fault is set on {}", site.show(&shape)),
                        "see `angara fault list` for the faults in force",
                    ));
                }
            }
        }
    }
    Ok(all.iter().map(FaultSpec::to_string).collect())
}

impl ClearSpec {
    /// Reads what to clear: `all`, or a fault with or without its effect.
    pub fn parse(text: &str, shape: Shape) -> Result<ClearSpec, Mistake> {
        let command = angara_abi::fault::parse(text, &shape)?;
        let (now, effects) = (command.after.is_none(), &command.effects[..]);
        match command.place {
            Place::All if now && matches!(effects, [] | [Effect::Clear]) => Ok(ClearSpec::All),
            Place::Site(site) if now && effects.is_empty() => {
                check_site(site, shape).map(|()| ClearSpec::Site(site)).map_err(|why| Mistake::new(text, why))
            }
            Place::Site(site) => parse(text, shape).map(|_| ClearSpec::Site(site)),
            Place::All | Place::Trunk(_) => parse(text, shape).map(|_| ClearSpec::All),
        }
    }
}

impl fmt::Display for FaultSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.site != Site::EveryLink {
            write!(f, "{} ", self.site.show(&self.shape))?;
        }
        self.failing.fmt(f)?;
        match self.after {
            Some(after) => write!(f, " @{after:?}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape() -> Shape {
        "4x2x2".parse().expect("shape")
    }

    #[test]
    fn faults_print_as_they_are_typed() {
        for text in [
            "link 0,0,0 +X down",
            "link 3,1,1 -Z corrupt=1%",
            "link 3,1,1 -Z drop=2.5%",
            "node 1,0,0 down",
            "link 0,1,0 +Y down @2ms",
            "link 0,1,0 +Y dup=1%",
            "link 0,1,0 +Y reorder=0.5%",
            "link 0,1,0 +Y delay=1500ns",
            "link 0,1,0 +Y rate=10M",
            "node 1,0,0 delay=2us @1s",
            "corrupt=0.1%",
            "rate=5000",
            "link 0,1,0 +Y seed=7",
            "node 1,0,0 seed=18446744073709551615",
            "seed=0",
        ] {
            assert_eq!(FaultSpec::parse(text, shape()).expect("valid").to_string(), text);
        }
    }

    #[test]
    fn every_kind_of_fault_takes_the_same_forms() {
        let read = |text: String| FaultSpec::parse(&text, shape()).map(|f| f.to_string());
        for name in ["corrupt", "drop", "dup", "reorder"] {
            for value in ["200ppm", "0.02%", "0.0002"] {
                assert_eq!(read(format!("link 0,0,0 +X {name}={value}")), Ok(format!("link 0,0,0 +X {name}=0.02%")));
            }
        }
        for value in ["1500ns", "1.5us", "0.0015ms"] {
            assert_eq!(read(format!("link 0,0,0 +X delay={value} @2ms")), Ok("link 0,0,0 +X delay=1500ns @2ms".into()));
        }
        for value in ["1536K", "1.5M", "1572864", "1.5MiB"] {
            assert_eq!(read(format!("link 0,0,0 +X rate={value}")), Ok("link 0,0,0 +X rate=1536K".into()));
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("", "it is empty"),
            ("cable 0,0,0 +X down", "`cable` is neither"),
            ("corrupt=1% down", "`down` is not understood"),
            ("link 0,0,0", "missing"),
            ("link 9,0,0 +X down", "9,0,0"),
            ("link 0,0,0 +Q down", "+Q"),
            ("link 0,0,0 +W down", "has no link +W"),
            ("link 0,0,0 +X", "what happens to it is missing"),
            ("link 0,0,0 +X up", "exactly one fault"),
            ("link 0,0,0 +X sideways", "`sideways` is not understood"),
            ("link 0,0,0 +X slow=1ms", "`slow=1ms` is not understood"),
            ("link 0,0,0 +X delay=1%", "`1%` is not a delay"),
            ("link 0,0,0 +X delay=2s", "give at most 1s"),
            ("link 0,0,0 +X rate=fast", "`fast` is not a rate"),
            ("link 0,0,0 +X rate=10", "give at least 1000"),
            ("link 0,0,0 +X seed=x", "`x` is not a seed"),
            ("link 0,0,0 +X seed=-1", "`-1` is not a seed"),
            ("link 0,0,0 +X up @2ms", "leave the time out"),
            ("link 0,0,0 +X corrupt=200%", "`200%` is not a share from 0 to 100%"),
            ("link 0,0,0 +X drop=200%", "such as 1%, 0.01 or 200ppm"),
            ("all clear", "exactly one fault"),
            ("node 0,0,0 down @soon", "`@soon` is not a delay"),
        ] {
            let message = FaultSpec::parse(text, shape()).expect_err("must be refused").to_string();
            assert!(message.contains(part) && message.contains("node 1,0,0 down"), "{text}: {message}");
        }
    }

    #[test]
    fn clearing_takes_a_site_with_or_without_effect() {
        let site = ClearSpec::parse("link 0,0,0 +X", shape()).expect("valid");
        assert_eq!(ClearSpec::parse("link 0,0,0 +X down", shape()), Ok(site));
        assert_eq!(ClearSpec::parse("all", shape()), Ok(ClearSpec::All));
        assert!(ClearSpec::parse("link 0,0,0 +X sideways", shape()).is_err());
    }

    #[test]
    fn one_command_may_ask_for_several_things() {
        let read = |text| parse(text, shape()).expect("valid");
        let both = read("link 0,0,0 +X corrupt=1% drop=2%");
        let shown: Vec<String> = both
            .iter()
            .map(|a| match a {
                Action::Set(fault) => fault.to_string(),
                Action::Clear(_) => panic!("nothing is cleared"),
            })
            .collect();
        assert_eq!(shown, ["link 0,0,0 +X corrupt=1%", "link 0,0,0 +X drop=2%"]);
        let down = FaultSpec::parse("link 0,0,0 +X down", shape()).expect("valid");
        for (text, ends_down) in
            [("link 0,0,0 +X up", true), ("link 0,0,0 +X clear", true), ("link 0,0,0 -X clear", false)]
        {
            let [Action::Clear(what)] = read(text)[..] else { panic!("{text}") };
            assert_eq!(what.concerns(&down), ends_down, "{text}");
        }
        let [Action::Clear(up)] = read("link 0,0,0 +X up")[..] else { panic!("up") };
        assert!(!both.iter().any(|a| matches!(a, Action::Set(f) if up.concerns(f))), "rates outlast `up`");
        assert_eq!(read("all clear"), [Action::Clear(ClearSpec::All)]);
    }

    fn after(faults: &[&str], text: &str) -> Result<Vec<String>, Failure> {
        let faults: Vec<String> = faults.iter().map(|f| f.to_string()).collect();
        apply(&faults, text, "4x2".parse().expect("shape"))
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
        assert!(after(&[], "node 1,1 up").expect_err("nothing is down").message.contains("no fault is set"));
        assert!(after(&[], "node 1,1 down @2ms").expect_err("not yet").message.contains("its time has come"));
    }

    #[test]
    fn what_is_said_of_less_counts_more() {
        let shape: Shape = "4x2".parse().expect("shape");
        let said = [
            "link 1,0 +X drop=4%",
            "corrupt=1%",
            "delay=5ns",
            "node 0,0 corrupt=2%",
            "link 1,0 -X corrupt=3%",
            "seed=1",
            "node 0,0 seed=2",
            "link 1,0 -X seed=3",
        ];
        let faults: Vec<FaultSpec> = said.iter().map(|t| FaultSpec::parse(t, shape).expect("valid")).collect();
        let links = impairments(&faults, shape);
        assert_eq!(links.len(), 8 * 4, "every link: a dimension of size 2 has two cables");
        let wrong = |text: &str| {
            let ClearSpec::Site(Site::Link(node, dir)) =
                ClearSpec::parse(&format!("link {text}"), shape).expect("valid")
            else {
                panic!("{text}")
            };
            let what = links[&Link { node, dir }];
            assert_eq!(what.delay_ps, 5_000);
            (what.wrong, what.seed)
        };
        assert_eq!(wrong("2,0 +X"), (10_000, Some(1)), "as every link");
        assert_eq!(wrong("0,0 +X"), (20_000, Some(2)), "leaves the node");
        assert_eq!(wrong("0,1 +Y"), (20_000, Some(2)), "leads to the node");
        assert_eq!(wrong("1,0 -X"), (30_000, Some(3)), "itself");
        assert_eq!(wrong("1,0 +X"), (50_000, Some(1)), "lost, and damaged as on every link");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,60}") {
            let _ = parse(&text, shape());
            let _ = ClearSpec::parse(&text, shape());
        }
    }
}
