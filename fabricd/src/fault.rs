//! Faults as people write them.
//!
//! ```text
//! link 0,0,0 +X down          the cable between 0,0,0 and its +X neighbour is cut, both ways
//! link 0,0,0 +X corrupt=1%    packets sent over it in that direction are damaged with this probability
//! link 0,0,0 +X drop=1%       … or vanish; several settings may follow one another:
//!               dup=1%        … or are sent twice,
//!               reorder=1%    … or are overtaken by the next one,
//!               delay=2us     … or take that much longer, as does word of them the other way,
//!               rate=10M      … or leave at no more than so many bytes per second;
//!               seed=7        which ones suffer follows from this number, whatever was before
//! node 1,0,0 corrupt=1%       the same on every link that begins or ends there
//! corrupt=0.1%                the same on every link; what is said of a node counts more, what of the link most
//! node 1,0,0 down             the node stops forwarding; every link to it is cut
//! … @2ms                      takes effect that long after it was set (ns, us, ms, s)
//! link 0,0,0 +X up            the cable is whole again; `clear` also ends what its packets suffered
//! node 1,0,0 up               likewise
//! every link clear            what was said of every link is over
//! all clear                   everything works again
//! ```
//!
//! A link answers a lost packet as it answers a damaged one: the receiver takes nothing until it comes again.

use crate::placement::failure;
use abi::msg::Failure;
use abi::torus::{Coords, Direction, NodeId, Shape};
use fabric::{Impair, Impairment, Link};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// What fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Site {
    /// The link of a node in a direction.
    Link(NodeId, Direction),
    /// A whole node.
    Node(NodeId),
    /// Every link; these cannot all be down.
    Everywhere,
}

/// How it fails.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Failing {
    /// Carries nothing.
    Down,
    /// Loses packets with this probability, parts per million.
    Drop(u32),
    /// Packets do not cross as they should.
    Impaired(Impair),
}

impl Failing {
    /// Two of one kind replace each other.
    pub(crate) fn same_kind(self, other: Failing) -> bool {
        match (self, other) {
            (Failing::Impaired(a), Failing::Impaired(b)) => a.none() == b.none(),
            (a, b) => std::mem::discriminant(&a) == std::mem::discriminant(&b),
        }
    }
    /// Nothing is wrong.
    pub(crate) fn is_none(self) -> bool {
        self == Failing::Drop(0) || matches!(self, Failing::Impaired(how) if how == how.none())
    }
}

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

/// Why a fault text was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("fault `{text}`: {why}; write {}", FORMS)]
pub struct FaultError {
    text: String,
    why: String,
}

impl FaultError {
    /// What is wrong, without the accepted [`FORMS`].
    pub fn brief(&self) -> String {
        format!("fault `{}`: {}", self.text, self.why)
    }
}

/// The accepted forms, for messages.
pub const FORMS: &str = "`link 0,0,0 +X down`, `up`, `clear` or any of `corrupt=1% drop=1% dup=1% reorder=1% delay=2us rate=10M seed=1`, \
                         the same for `node 1,0,0 down`, or `corrupt=0.1%` and the like alone (`every link clear` ends these); \
                         what is set may end with when, such as `@2ms`";

impl FaultSpec {
    /// Reads one fault of a network of `shape`.
    pub fn parse(text: &str, shape: Shape) -> Result<FaultSpec, FaultError> {
        match parse(text, shape)?.as_slice() {
            [Action::Set(fault)] => Ok(fault.clone()),
            _ => Err(FaultError { text: text.to_string(), why: "exactly one fault is expected here".into() }),
        }
    }
}

/// Reads what a command asks for; at least one thing.
pub(crate) fn parse(text: &str, shape: Shape) -> Result<Vec<Action>, FaultError> {
    let fail = |why: String| FaultError { text: text.to_string(), why };
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let after = match words.last().and_then(|w| w.strip_prefix('@')) {
        Some(delay) => {
            words.pop();
            Some(parse_delay(delay).ok_or_else(|| fail(format!("`@{delay}` is not a delay")))?)
        }
        None => None,
    };
    if words == ["all", "clear"] && after.is_none() {
        return Ok(vec![Action::Clear(ClearSpec::All)]);
    }
    let (site, effects) = parse_site(&words, shape).map_err(fail)?;
    let mut actions = Vec::new();
    for effect in effects {
        let set = |failing| Action::Set(FaultSpec { site, failing, after, shape });
        let end = |what| match after {
            None => Ok(Action::Clear(what)),
            Some(_) => Err(fail(format!("`{effect}` is done at once; leave the time out"))),
        };
        let action = match (site, *effect) {
            (Site::Link(..) | Site::Node(_), "down") => set(Failing::Down),
            (Site::Link(..) | Site::Node(_), "up") => end(ClearSpec::Up(site))?,
            (_, "clear") => end(ClearSpec::Site(site))?,
            _ => set(impairment(effect).map_err(fail)?),
        };
        // Everything said with a seed begins with it; what is cleared is cleared before.
        let cleared = || actions.iter().rposition(|a| matches!(a, Action::Clear(_))).map_or(0, |last| last + 1);
        let place = if effect.starts_with("seed=") { cleared() } else { actions.len() };
        actions.insert(place, action);
    }
    match actions.is_empty() {
        true => Err(fail("what happens to it is missing".into())),
        false => Ok(actions),
    }
}

/// Reads what befalls packets.
fn impairment(effect: &str) -> Result<Failing, String> {
    let unknown = || format!("`{effect}` is not understood");
    let (name, value) = effect.split_once('=').ok_or_else(unknown)?;
    let failing = match name {
        "drop" => parse_ppm(value).map(Failing::Drop),
        _ => Impair::parse(effect).map(Failing::Impaired),
    };
    let mistake = || match name {
        "drop" | "corrupt" | "dup" | "reorder" => format!("`{value}` is not a percentage from 0 to 100"),
        "delay" => format!("`{value}` is not a delay such as 2us"),
        "rate" => format!("`{value}` is not a rate in bytes per second such as 10M"),
        "seed" => format!("`{value}` is not a seed: write a whole number, or none for the daemon's"),
        _ => unknown(),
    };
    let failing = failing.ok_or_else(mistake)?;
    if let Failing::Impaired(how) = failing {
        Impairment::default().with(how).check().map_err(|e| e.to_string())?;
    }
    Ok(failing)
}

/// What befalls every link that one of these faults concerns. What is said of a link itself counts more than what
/// is said of a node at one of its ends, and that more than what is said of all.
pub(crate) fn impairments(faults: &[FaultSpec], shape: Shape) -> BTreeMap<Link, Impairment> {
    let mut list: Vec<&FaultSpec> = faults.iter().filter(|f| f.failing != Failing::Down).collect();
    list.sort_by_key(|f| match f.site {
        Site::Everywhere => 0,
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
        Site::Everywhere => (0..shape.nodes() as NodeId).flat_map(of).map(|(link, _)| link).collect(),
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
                        format!("no fault is set on {}", show_site(site, shape)),
                        "see `angara fault list` for the faults in force",
                    ));
                }
            }
        }
    }
    Ok(all.iter().map(FaultSpec::to_string).collect())
}

/// As an answer to whoever wrote it.
pub(crate) fn refused(e: FaultError) -> Failure {
    failure(e.brief(), format!("write {FORMS}"))
}

impl ClearSpec {
    /// Reads what to clear: `all`, or a fault with or without its effect.
    pub fn parse(text: &str, shape: Shape) -> Result<ClearSpec, FaultError> {
        let fail = |why: String| FaultError { text: text.to_string(), why };
        let words: Vec<&str> = text.split_whitespace().collect();
        if words == ["all"] || words == ["all", "clear"] {
            return Ok(ClearSpec::All);
        }
        match parse_site(&words, shape).map_err(fail)? {
            (site, []) => Ok(ClearSpec::Site(site)),
            (site, _) => parse(text, shape).map(|_| ClearSpec::Site(site)),
        }
    }
}

fn parse_site<'w, 't>(words: &'w [&'t str], shape: Shape) -> Result<(Site, &'w [&'t str]), String> {
    let node = |text: &str| -> Result<NodeId, String> {
        let at: Coords = shape.parse_coords(text).map_err(|e| e.to_string())?;
        shape.id(at).ok_or_else(|| format!("{text} is not in {shape}"))
    };
    match words {
        ["link", at, dir, rest @ ..] => {
            let id = node(at)?;
            let dir: Direction = dir.parse().map_err(|e: abi::torus::ShapeError| e.to_string())?;
            if shape.neighbour(id, dir).is_none() {
                return Err(format!("{at} has no link {dir} in {shape}"));
            }
            Ok((Site::Link(id, dir), rest))
        }
        [effect, ..] if effect.contains('=') => Ok((Site::Everywhere, words)),
        ["every", "link", rest @ ..] => Ok((Site::Everywhere, rest)),
        ["node", at, rest @ ..] => Ok((Site::Node(node(at)?), rest)),
        ["link" | "node", ..] => Err("coordinates or direction are missing".into()),
        [] => Err("it is empty".into()),
        [other, ..] => Err(format!("`{other}` is neither `link` nor `node`")),
    }
}

pub(crate) fn parse_delay(text: &str) -> Option<Duration> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number: f64 = text[..text.len() - unit.len()].parse().ok()?;
    let seconds =
        number * [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)].iter().find(|u| u.0 == unit)?.1;
    // A day is longer than any run that waits for a fault and keeps later arithmetic exact.
    (0.0..=86_400.0).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

pub(crate) fn parse_ppm(text: &str) -> Option<u32> {
    let (number, scale) = match text.strip_suffix('%') {
        Some(n) => (n, 1e4),
        None => (text, 1e6),
    };
    let ppm = number.trim().parse::<f64>().ok()? * scale;
    (0.0..=1e6).contains(&ppm).then_some(ppm.round() as u32)
}

/// Writes `site` as it is typed.
pub fn show_site(site: Site, shape: Shape) -> String {
    match site {
        Site::Link(id, dir) => format!("link {} {dir}", shape.show(shape.coords(id))),
        Site::Node(id) => format!("node {}", shape.show(shape.coords(id))),
        Site::Everywhere => "every link".into(),
    }
}

impl fmt::Display for FaultSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.site != Site::Everywhere {
            write!(f, "{} ", show_site(self.site, self.shape))?;
        }
        match self.failing {
            Failing::Down => f.write_str("down")?,
            Failing::Impaired(how) => write!(f, "{how}")?,
            Failing::Drop(ppm) => write!(f, "drop={}%", ppm as f64 / 1e4)?,
        }
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
            ("link 0,0,0 +X corrupt=200%", "`200%` is not a percentage"),
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
            let Ok((Site::Link(node, dir), _)) = parse_site(&["link", &text[..3], &text[4..]], shape) else { panic!() };
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
