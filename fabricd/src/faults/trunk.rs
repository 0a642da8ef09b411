//! Bad trunks on purpose: what befalls their datagrams, in the grammar of [`angara_abi::fault`].
//!
//! ```text
//! trunk HOST drop=1% dup=0.1% reorder=2% corrupt=0.5% delay=2ms rate=10M seed=7
//! trunk all down              nothing passes any more, in either direction
//! trunk HOST up               it does again; other settings stay
//! trunk HOST clear            as if nothing had ever been set
//! ```

use angara_abi::fault::{Effect, Failing, Impair, Mistake, Place};
use angara_abi::torus::Shape;
use angara_cluster::HostId;
use angara_trunk::Impairment;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// What a text asks for.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Command {
    /// Which other host; `None`: all.
    pub(crate) host: Option<String>,
    pub(crate) change: Change,
}

/// What becomes of a trunk.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Change {
    /// It is cut, or no longer.
    pub(crate) cut: Option<bool>,
    /// What befalls its datagrams from now on.
    pub(crate) what: Option<Impairment>,
}

/// What befalls a trunk.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct State {
    pub(crate) cut: bool,
    pub(crate) what: Impairment,
}

impl State {
    pub(crate) fn change(&mut self, change: Change) {
        self.cut = change.cut.unwrap_or(self.cut);
        self.what = change.what.unwrap_or(self.what);
    }
    pub(crate) fn is_none(&self) -> bool {
        !self.cut && Impairment { seed: 0, ..self.what } == Impairment::default()
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let w = &self.what;
        let mut words = Vec::new();
        if self.cut {
            words.push("down".to_string());
        }
        for (name, share) in [("drop", w.drop), ("corrupt", w.corrupt), ("dup", w.dup), ("reorder", w.reorder)] {
            if share > 0.0 {
                words.push(format!("{name}={}%", (share * 1e6).round() / 1e4));
            }
        }
        if w.delay > Duration::ZERO {
            words.push(format!("delay={:?}", w.delay));
        }
        if w.rate > 0 {
            words.push(format!("rate={}", w.rate));
        }
        f.write_str(&words.join(" "))
    }
}

/// What one host asks another to do to its trunks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TrunkRequest {
    /// To the trunk to this host; `None`: to all ...
    pub(super) to: Option<HostId>,
    /// ... but this one, which the asker itself sees to.
    pub(super) except: Option<HostId>,
    pub(super) text: String,
}

/// Orders to trunks given here, in their order.
#[derive(Default)]
pub(crate) struct TrunkOrders {
    given: Cell<u64>,
    /// The latest one that ended a cut of the trunk to a host, and the latest one that cleared it.
    restored: RefCell<BTreeMap<HostId, (u64, u64)>>,
}

impl TrunkOrders {
    /// Number of an order to the trunks to `hosts`.
    pub(super) fn give(&self, hosts: &[HostId], change: Change) -> u64 {
        let number = self.given.get() + 1;
        self.given.set(number);
        if change.cut == Some(false) {
            let mut all = self.restored.borrow_mut();
            for host in hosts {
                let (restored, cleared) = all.entry(*host).or_default();
                *restored = number;
                *cleared = if change.what.is_some() { number } else { *cleared };
            }
        }
        number
    }

    /// Whether a later order has undone this one for the trunk to a host.
    pub(super) fn undone(&self, host: HostId, number: u64, change: Change) -> bool {
        let (restored, cleared) = self.restored.borrow().get(&host).copied().unwrap_or_default();
        (if change.cut == Some(true) { restored } else { cleared }) > number
    }
}

/// Reads a command.
pub(crate) fn parse(text: &str, shape: Shape) -> Result<Command, Mistake> {
    let fail = |why: &str| Mistake::new(text, why);
    let command = angara_abi::fault::parse(text, &shape)?;
    let Place::Trunk(host) = command.place else { return Err(fail("it is about no trunk")) };
    if command.after.is_some() {
        return Err(fail("trunks are changed at once; leave the time out"));
    }
    let mut change = Change::default();
    let mut what = Impairment { seed: 1, ..Impairment::default() };
    let share = |per_million: u32| f64::from(per_million) / 1e6;
    for effect in command.effects {
        match effect {
            Effect::Set(Failing::Down) => change.cut = Some(true),
            Effect::Up => change.cut = Some(false),
            Effect::Clear => {
                change = Change { cut: Some(false), what: Some(Impairment::default()) };
                what = Impairment { seed: what.seed, ..Impairment::default() };
            }
            Effect::Set(Failing::Impaired(Impair::Seed(seed))) => {
                what.seed = seed.ok_or_else(|| fail("`none` is not a seed of a trunk: write a whole number"))?;
            }
            Effect::Set(failing) => {
                match failing {
                    Failing::Drop(n) => what.drop = share(n),
                    Failing::Impaired(Impair::Corrupt(n)) => what.corrupt = share(n),
                    Failing::Impaired(Impair::Duplicate(n)) => what.dup = share(n),
                    Failing::Impaired(Impair::Reorder(n)) => what.reorder = share(n),
                    Failing::Impaired(Impair::Delay(ps)) => what.delay = Duration::from_nanos(ps / 1000),
                    Failing::Impaired(Impair::Rate(bytes)) => what.rate = bytes,
                    Failing::Down | Failing::Impaired(Impair::Seed(_)) => {}
                }
                change.what = Some(what);
            }
        }
    }
    if let Some(w) = &mut change.what {
        w.seed = what.seed;
    }
    match change == Change::default() {
        true => Err(fail("what happens to it is missing")),
        false => Ok(Command { host, change }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Command, String> {
        super::parse(text, "2".parse().expect("a shape")).map_err(|mistake| mistake.why)
    }

    #[test]
    fn impairments_are_read() {
        let read = |text| parse(text).expect("valid");
        let command = read("trunk B drop=1% delay=2ms rate=10M seed=9");
        assert_eq!(command.host.as_deref(), Some("B"));
        let what = command.change.what.expect("set");
        assert_eq!((what.drop, what.delay, what.rate, what.seed), (0.01, Duration::from_millis(2), 10 << 20, 9));
        for text in ["200ppm", "0.02%", "0.0002"] {
            let line = format!("trunk B corrupt={text} drop={text} dup={text} reorder={text}");
            let what = parse(&line).expect("valid").change.what.expect("set");
            assert_eq!([what.corrupt, what.drop, what.dup, what.reorder], [0.0002; 4], "{text}");
        }
        let mut state = State::default();
        for (text, shown) in [
            ("trunk all down", "down"),
            ("trunk B drop=1% delay=2ms", "down drop=1% delay=2ms"),
            ("trunk B up", "drop=1% delay=2ms"),
            ("trunk B dup=2% down", "down dup=2%"),
            ("trunk B clear", ""),
        ] {
            state.change(read(text).change);
            assert_eq!(state.to_string(), shown, "{text}");
            assert_eq!(state.is_none(), shown.is_empty(), "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("trunk", "which trunk"),
            ("trunk B", "what happens"),
            ("trunk B drop=2", "not a share from 0 to 100%"),
            ("trunk B sideways", "`sideways`"),
            ("trunk B delay=soon", "not a delay"),
        ] {
            let why = parse(text).expect_err("must be refused");
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
