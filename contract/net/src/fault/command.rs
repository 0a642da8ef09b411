//! What a text asks for: the one reader of commands about faults.

use super::grammar::{self, Effect, Mistake, Place, TIME_MAX};
use super::{Action, Clear, Failing, Fault, Impair, Impairment, Site, TrunkChange};
use crate::torus::Shape;
use serde::{Deserialize, Serialize};

/// A command about faults.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Command {
    /// As it was written, for messages.
    pub text: String,
    /// Its target and effect.
    pub target: Target,
}

/// Targets of a command.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// Links and nodes: at least one action.
    Network(Vec<Action>),
    /// The trunk to a host, by its name; `None`: to every other host.
    Trunk {
        /// Its name.
        host: Option<String>,
        /// The change.
        change: TrunkChange,
    },
}

impl Command {
    /// Reads a command for a network of `shape`.
    pub fn parse(text: &str, shape: &Shape) -> Result<Command, Mistake> {
        let target = read(grammar::parse(text, shape)?, shape).map_err(|why| Mistake::new(text, why))?;
        Ok(Command { text: text.to_string(), target })
    }

    /// Why it cannot be done in a network of `shape`. One that was read is fine; it may have come from elsewhere.
    pub fn check(&self, shape: &Shape) -> Result<(), String> {
        let impairment = |how: Impairment| how.check().map_err(|e| e.to_string());
        match &self.target {
            Target::Trunk { change, .. } => change.what.map_or(Ok(()), impairment),
            Target::Network(actions) => actions.iter().try_for_each(|action| match *action {
                Action::Clear(what) => what.site().map_or(Ok(()), |site| site.check(shape)),
                Action::Set(Fault { site: Site::EveryLink, failing: Failing::Down, .. }) => {
                    Err("every link down is no network".into())
                }
                Action::Set(Fault { at: Some(at), .. }) if at > TIME_MAX => Err(format!("{at} ps is more than a day")),
                Action::Set(Fault { site, failing, .. }) => {
                    site.check(shape)?;
                    match failing {
                        Failing::Down => Ok(()),
                        Failing::Impaired(how) => impairment(Impairment::default().with(how)),
                    }
                }
            }),
        }
    }

    /// Returns what ends everything that was or will be set where this command is about.
    pub fn undo(&self, shape: &Shape) -> Command {
        let (place, target) = match &self.target {
            Target::Trunk { host, .. } => {
                let change = TrunkChange { cut: Some(false), what: Some(Impairment::default()) };
                let place = format!("trunk {}", host.as_deref().unwrap_or("all"));
                (place, Target::Trunk { host: host.clone(), change })
            }
            Target::Network(actions) => {
                let site = actions.iter().find_map(|action| match action {
                    Action::Set(fault) => Some(fault.site),
                    Action::Clear(what) => what.site(),
                });
                let place = site.map_or("all".into(), |site| site.show(shape));
                (place, Target::Network(vec![Action::Clear(site.map_or(Clear::All, Clear::Site))]))
            }
        };
        Command { text: format!("{place} clear"), target }
    }

    /// It sets something that packets suffer, and that does nothing where none are sent. What is down is no such thing: PEs of
    /// a node that is down fail, and routes lead around a link.
    pub fn acts_on_packets(&self) -> bool {
        let impairs = |action: &Action| matches!(action, Action::Set(Fault { failing: Failing::Impaired(_), .. }));
        matches!(&self.target, Target::Network(actions) if actions.iter().any(impairs))
    }

    /// A command that a program makes.
    pub fn set(fault: Fault, shape: &Shape) -> Command {
        Command { text: fault.show(shape), target: Target::Network(vec![Action::Set(fault)]) }
    }
}

fn read(command: grammar::Command, shape: &Shape) -> Result<Target, String> {
    let at = command.after;
    let site = match command.place {
        Place::Site(site) => site,
        Place::Trunk(_) if at.is_some() => return Err("trunks are changed at once; leave the time out".into()),
        Place::Trunk(host) => {
            return Ok(Target::Trunk { host, change: trunk_change(&command.effects)? });
        }
        Place::All if command.effects == [Effect::Clear] && at.is_none() => {
            return Ok(Target::Network(vec![Action::Clear(Clear::All)]));
        }
        Place::All => return Err("`all` is neither `link` nor `node`".into()),
    };
    site.check(shape)?;
    let mut actions = Vec::new();
    for effect in command.effects {
        let end = |what| match at {
            None => Ok(Action::Clear(what)),
            Some(_) => Err(format!("`{effect}` is done at once; leave the time out")),
        };
        let action = match effect {
            Effect::Set(Failing::Down) | Effect::Up if site == Site::EveryLink => {
                return Err(format!("`{effect}` is not understood"));
            }
            Effect::Up => end(Clear::Up(site))?,
            Effect::Clear => end(Clear::Site(site))?,
            Effect::Set(failing) => {
                if let Failing::Impaired(how) = failing {
                    Impairment::default().with(how).check().map_err(|e| e.to_string())?;
                }
                Action::Set(Fault { site, failing, at })
            }
        };
        // Everything said with a seed begins with it; what is cleared is cleared before.
        let cleared = || actions.iter().rposition(|a| matches!(a, Action::Clear(_))).map_or(0, |last| last + 1);
        let seed = matches!(effect, Effect::Set(Failing::Impaired(Impair::Seed(_))));
        actions.insert(if seed { cleared() } else { actions.len() }, action);
    }
    match actions.is_empty() {
        true => Err(missing()),
        false => Ok(Target::Network(actions)),
    }
}

fn missing() -> String {
    "what happens to it is missing".into()
}

fn trunk_change(effects: &[Effect]) -> Result<TrunkChange, String> {
    let mut change = TrunkChange::default();
    // Impaired trunks need some seed.
    let mut what = Impairment { seed: Some(1), ..Impairment::default() };
    for effect in effects {
        match *effect {
            Effect::Set(Failing::Down) => change.cut = Some(true),
            Effect::Up => change.cut = Some(false),
            Effect::Clear => {
                change = TrunkChange { cut: Some(false), what: Some(Impairment::default()) };
                what = Impairment { seed: what.seed, ..Impairment::default() };
            }
            Effect::Set(Failing::Impaired(Impair::Seed(None))) => {
                return Err("`none` is not a seed of a trunk: write a whole number".into());
            }
            Effect::Set(Failing::Impaired(how @ Impair::Seed(_))) => what = what.with(how),
            Effect::Set(Failing::Impaired(how)) => {
                what = what.with(how);
                change.what = Some(what);
            }
        }
    }
    if let Some(w) = &mut change.what {
        w.seed = what.seed;
    }
    match change == TrunkChange::default() {
        true => Err(missing()),
        false => Ok(change),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::TrunkState;
    use crate::link::Link;
    use crate::torus::Direction;
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
            assert_eq!(Fault::parse(text, &shape()).expect("valid").show(&shape()), text);
        }
    }

    #[test]
    fn every_kind_of_fault_takes_the_same_forms() {
        let read = |text: String| Fault::parse(&text, &shape()).map(|f| f.show(&shape()));
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
            let message = Fault::parse(text, &shape()).expect_err("must be refused").to_string();
            assert!(message.contains(part) && message.contains("node 1,0,0 down"), "{text}: {message}");
        }
    }

    #[test]
    fn whatever_a_command_sets_is_undone_by_a_word() {
        for (text, end) in [
            ("link 0,0,0 +X drop=1% corrupt=2%", "link 0,0,0 +X clear"),
            ("corrupt=1% @2ms", "every link clear"),
            ("node 0,0,0 clear drop=1%", "node 0,0,0 clear"),
            ("all clear", "all clear"),
        ] {
            let undo = Command::parse(text, &shape()).expect(text).undo(&shape());
            assert_eq!(Command::parse(end, &shape()), Ok(undo));
        }
        let undo = Command::parse("trunk B drop=1%", &shape()).expect("valid").undo(&shape());
        let Target::Trunk { host, change } = undo.target else { panic!("{undo:?}") };
        assert_eq!((host.as_deref(), change.cut), (Some("B"), Some(false)));
        assert!(change.what.is_some_and(|what| what.is_none()));
    }

    #[test]
    fn what_another_program_made_is_checked() {
        let link = |node| Site::Link(Link { node, dir: Direction::ALL[0] });
        for fault in [
            Fault::link_down(Link { node: 0, dir: Direction::ALL[3] }),
            Fault::impaired(link(16), Impair::Drop(1)),
            Fault::impaired(link(0), Impair::Drop(1_000_001)),
            Fault::impaired(link(0), Impair::Delay(u64::MAX)),
            Fault::node_down(16),
            Fault { site: Site::EveryLink, failing: Failing::Down, at: None },
            Fault::node_down(0).at(u64::MAX),
        ] {
            assert!(Command::set(fault, &large()).check(&shape()).is_err(), "{fault:?}");
        }
        assert_eq!(Command::set(Fault::node_down(15), &shape()).check(&shape()), Ok(()));
    }

    /// A shape that has every link of them, to print them in.
    fn large() -> Shape {
        "8x8x2x2".parse().expect("shape")
    }

    #[test]
    fn one_command_may_ask_for_several_things() {
        let read = |text| match Command::parse(text, &shape()).expect("valid").target {
            Target::Network(actions) => actions,
            Target::Trunk { .. } => panic!("{text}"),
        };
        let both = read("link 0,0,0 +X corrupt=1% drop=2%");
        let shown: Vec<String> = both
            .iter()
            .map(|a| match a {
                Action::Set(fault) => fault.show(&shape()),
                Action::Clear(_) => panic!("nothing is cleared"),
            })
            .collect();
        assert_eq!(shown, ["link 0,0,0 +X corrupt=1%", "link 0,0,0 +X drop=2%"]);
        let down = Fault::parse("link 0,0,0 +X down", &shape()).expect("valid");
        for (text, ends_down) in
            [("link 0,0,0 +X up", true), ("link 0,0,0 +X clear", true), ("link 0,0,0 -X clear", false)]
        {
            let [Action::Clear(what)] = read(text)[..] else { panic!("{text}") };
            assert_eq!(what.concerns(&down), ends_down, "{text}");
        }
        let [Action::Clear(up)] = read("link 0,0,0 +X up")[..] else { panic!("up") };
        assert!(!both.iter().any(|a| matches!(a, Action::Set(f) if up.concerns(f))), "rates outlast `up`");
        assert_eq!(read("all clear"), [Action::Clear(Clear::All)]);
    }

    fn trunk(text: &str) -> Result<(Option<String>, TrunkChange), String> {
        match Command::parse(text, &shape()).map_err(|mistake| mistake.why)?.target {
            Target::Trunk { host, change } => Ok((host, change)),
            Target::Network(_) => panic!("{text}"),
        }
    }

    #[test]
    fn impairments_of_trunks_are_read() {
        let read = |text: &str| trunk(text).expect("valid");
        let (host, change) = read("trunk B drop=1% delay=2ms rate=10M seed=9");
        let what = change.what.expect("set");
        assert_eq!(host.as_deref(), Some("B"));
        assert_eq!((what.drop, what.delay_ps, what.rate, what.seed), (10_000, 2_000_000_000, 10 << 20, Some(9)));
        for text in ["200ppm", "0.02%", "0.0002"] {
            let line = format!("trunk B corrupt={text} drop={text} dup={text} reorder={text}");
            let what = read(&line).1.what.expect("set");
            assert_eq!([what.corrupt, what.drop, what.duplicate, what.reorder], [200; 4], "{text}");
        }
        let mut state = TrunkState::default();
        for (text, shown) in [
            ("trunk all down", "down"),
            ("trunk B drop=1% delay=2ms", "down drop=1% delay=2ms"),
            ("trunk B up", "drop=1% delay=2ms"),
            ("trunk B dup=2% down", "down dup=2%"),
            ("trunk B clear", ""),
        ] {
            state.change(read(text).1);
            assert_eq!(state.to_string(), shown, "{text}");
            assert_eq!(state.is_none(), shown.is_empty(), "{text}");
        }
    }

    #[test]
    fn mistakes_about_trunks_are_named() {
        for (text, part) in [
            ("trunk", "which trunk"),
            ("trunk B", "what happens"),
            ("trunk B drop=2", "not a share from 0 to 100%"),
            ("trunk B sideways", "`sideways`"),
            ("trunk B delay=soon", "not a delay"),
            ("trunk B down @2ms", "leave the time out"),
        ] {
            let why = trunk(text).expect_err("must be refused");
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,60}") {
            let _ = Command::parse(&text, &shape());
        }
    }
}
