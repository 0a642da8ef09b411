//! Since when each fault is in force, who set it, and what its links had counted before.
//!
//! The data plane knows which faults there are, not where they come from. Whoever sets one says so here before; samples then
//! show since when it is in force. Of a fault that nobody has spoken of here, another host has.

use crate::watch::sample::Sample;
use angara_net::fault::grammar::place_of;
use angara_net::fault::{Action, Command, Fault, Target};
use angara_net::torus::Shape;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Faults that were spoken of and may yet come into force.
const SAID: usize = 1024;
/// How the data plane ends the text of a link that it took out of service itself.
pub(crate) const GAVE_UP: &str = " (gave up)";

/// Who has set a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// Options of the daemon's start.
    Start,
    Page,
    /// A command of this user.
    Command(u32),
    /// The network, as a link failed again and again.
    Network,
    OtherHost,
}

/// Events on the links that a fault concerns: CRC errors, replays, duplicates, overtaken packets.
pub(crate) type Events = [u64; 4];

/// What is known of a fault in force.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Known {
    pub(crate) by: By,
    /// Seconds since the daemon's start.
    pub(crate) since: f64,
    /// Events before.
    pub(crate) before: Events,
}

/// All of it.
#[derive(Default)]
pub(crate) struct Ledger {
    /// In which order, and by whom.
    said: RefCell<BTreeMap<String, (u64, By)>>,
    given: Cell<u64>,
    known: RefCell<BTreeMap<String, Known>>,
}

impl Ledger {
    /// Of a daemon that starts with these faults.
    pub(crate) fn new(faults: &[Fault], shape: &Shape) -> Ledger {
        let ledger = Ledger::default();
        ledger.say(By::Start, faults.iter().map(|fault| fault.now().show(shape)).collect());
        ledger
    }

    /// These faults come from there.
    pub(crate) fn say(&self, by: By, faults: Vec<String>) {
        let mut said = self.said.borrow_mut();
        for fault in faults {
            self.given.set(self.given.get() + 1);
            said.insert(fault, (self.given.get(), by));
        }
        while said.len() > SAID {
            let oldest = said.iter().min_by_key(|(_, (number, _))| *number).map(|(fault, _)| fault.clone());
            oldest.map(|fault| said.remove(&fault));
        }
    }

    /// They were not set after all.
    pub(crate) fn unsay(&self, faults: &[String]) {
        let known = self.known.borrow();
        self.said.borrow_mut().retain(|fault, _| known.contains_key(fault) || !faults.contains(fault));
    }

    /// Looks which faults are in force now. Events until the sample before are not theirs.
    pub(crate) fn look(&self, before: Option<&Sample>, now: &Sample, shape: &Shape) {
        let faults = &now.plane.faults;
        if before.is_some_and(|before| before.plane.faults == *faults) {
            return;
        }
        let (mut known, said) = (self.known.borrow_mut(), self.said.borrow());
        known.retain(|text, _| faults.contains(text));
        for text in faults.iter().filter(|text| !is_coming(text)) {
            if known.contains_key(text) {
                continue;
            }
            let by = match text.ends_with(GAVE_UP) {
                true => By::Network,
                false => by_whom(&said, text),
            };
            let since = if by == By::Start { 0.0 } else { now.at.as_secs_f64() };
            let before = before.map(|before| events(text, before, shape)).unwrap_or_default();
            known.insert(text.clone(), Known { by, since, before });
        }
    }

    /// What is known of a fault.
    pub(crate) fn known(&self, text: &str) -> Option<Known> {
        self.known.borrow().get(text).copied()
    }

    /// Who has set a fault, as far as was said.
    pub(crate) fn by(&self, text: &str) -> By {
        self.known(text).map_or_else(|| by_whom(&self.said.borrow(), text), |known| known.by)
    }
}

fn by_whom(said: &BTreeMap<String, (u64, By)>, text: &str) -> By {
    let now = base(text);
    let trunk = now.starts_with("trunk ").then(|| place_of(now));
    let named = said.get(trunk.as_deref().unwrap_or(now));
    let all = trunk.and_then(|_| said.get("trunk all"));
    named.into_iter().chain(all).max_by_key(|(number, _)| *number).map_or(By::OtherHost, |(_, by)| *by)
}

/// What a command will have set: faults as they are shown, and places of trunks.
pub(crate) fn sets(command: &Command, shape: &Shape) -> Vec<String> {
    match &command.target {
        Target::Trunk { host, .. } => vec![format!("trunk {}", host.as_deref().unwrap_or("all"))],
        Target::Network(actions) => {
            let set = |action: &Action| match action {
                Action::Set(fault) if !fault.failing.is_none() => Some(fault.now().show(shape)),
                _ => None,
            };
            actions.iter().filter_map(set).collect()
        }
    }
}

/// True if the time of a fault has not come, by its text.
pub(crate) fn is_coming(text: &str) -> bool {
    text.ends_with(')') && !text.ends_with(GAVE_UP)
}

/// A fault without when it comes, or why.
pub(crate) fn base(text: &str) -> &str {
    let text = text.split_once(" (").map_or(text, |(fault, _)| fault);
    text.split_once(" @").map_or(text, |(fault, _)| fault)
}

/// Events so far on what a fault concerns. Of a trunk only what is sent again is counted.
pub(crate) fn events(text: &str, sample: &Sample, shape: &Shape) -> Events {
    if let Some(host) = text.strip_prefix("trunk ").and_then(|rest| rest.split(' ').next()) {
        let peer = sample.cluster.iter().flat_map(|cluster| &cluster.peers).find(|peer| peer.host == host);
        return [0, peer.map_or(0, |peer| peer.replays), 0, 0];
    }
    let Ok(fault) = Fault::parse(base(text), shape) else { return Events::default() };
    let mut sums = Events::default();
    for link in fault.site.links(shape).into_iter().filter(|link| link.index() < sample.links.len()) {
        let figures = sample.figures(link.index());
        let more = [figures.crc_errors, figures.replays, figures.duplicates, figures.reordered];
        sums.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_plane::observe::figures::LinkFigures;
    use std::time::Duration;

    fn shape() -> Shape {
        "4x2".parse().expect("shape")
    }

    fn sample(at: u64, crc_errors: u64, faults: &[&str]) -> Sample {
        let links = vec![LinkFigures { here: true, up: true, crc_errors, ..LinkFigures::default() }; 64];
        let mut sample = Sample { at: Duration::from_secs(at), links, ..Sample::default() };
        sample.plane.faults = faults.iter().map(|fault| fault.to_string()).collect();
        sample
    }

    fn said(ledger: &Ledger, by: By, text: &str) {
        let command = Command::parse(text, &shape()).expect(text);
        ledger.say(by, sets(&command, &shape()));
    }

    #[test]
    fn a_fault_is_known_by_who_set_it_since_when_and_what_it_did() {
        let start = Fault::parse("node 1,1 drop=1%", &shape()).expect("valid");
        let ledger = Ledger::new(&[start], &shape());
        let first = sample(3, 7, &["node 1,1 drop=1%"]);
        ledger.look(None, &first, &shape());
        assert_eq!(ledger.known("node 1,1 drop=1%"), Some(Known { by: By::Start, since: 0.0, before: [0; 4] }));
        said(&ledger, By::Page, "link 0,0 +X corrupt=1% seed=4 @2ms");
        said(&ledger, By::Command(1000), "trunk B drop=1%");
        let coming = "link 0,0 +X corrupt=1% @2ms (in 1.2s)";
        assert_eq!((ledger.by(coming), is_coming(coming)), (By::Page, true));
        let faults =
            ["link 0,0 +X corrupt=1%", "trunk B drop=1%", "link 1,0 +X down (gave up)", "node 0,1 dup=1%", coming];
        let second = sample(9, 8, &faults);
        ledger.look(Some(&first), &second, &shape());
        let by = faults.map(|text| ledger.known(text).map(|known| known.by));
        assert_eq!(by, [Some(By::Page), Some(By::Command(1000)), Some(By::Network), Some(By::OtherHost), None]);
        let known = ledger.known(faults[0]).expect("in force");
        assert_eq!((known.since, known.before), (9.0, [7, 0, 0, 0]));
        assert_eq!(events(faults[0], &sample(10, 12, &[]), &shape()), [12, 0, 0, 0]);
        assert_eq!(events("node 0,1 dup=1%", &second, &shape())[0], 8 * 8, "both ways of four links");
        ledger.look(Some(&second), &sample(11, 8, &[]), &shape());
        assert!(faults.iter().all(|text| ledger.known(text).is_none()), "what has ended is still known");
    }

    #[test]
    fn what_was_refused_is_nobody_s_and_what_is_said_is_bounded() {
        let ledger = Ledger::default();
        said(&ledger, By::Page, "link 0,0 +X down");
        ledger.unsay(&["link 0,0 +X down".into()]);
        assert_eq!(ledger.by("link 0,0 +X down"), By::OtherHost);
        (0..3000).for_each(|i| ledger.say(By::Page, vec![format!("node 0,0 seed={i}")]));
        assert_eq!(ledger.said.borrow().len(), SAID);
        assert_eq!(ledger.by("node 0,0 seed=2999"), By::Page, "the newest stays");
    }
}
