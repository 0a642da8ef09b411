//! Watching a simulation: single packets on their way through every block, and the load of every link.
//!
//! [`Selection`] says which packets; [`timeline`] draws the way of one as text or for a trace viewer.
//! [`links`] collects what every link carried; [`heat`] draws it. [`Capture`] keeps packets for Wireshark.

mod capture;
#[cfg(feature = "plot")]
pub mod heat;
pub mod links;
mod series;
pub mod timeline;

pub use capture::{Capture, Captured};
pub use links::Links;
pub use series::{Every, Series};

use crate::Error;
use angara_model::TraceEvent;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Observations to make during a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observe {
    /// Packets to follow.
    pub packets: Option<Selection>,
    /// Count what every link carries.
    pub links: bool,
    /// Write what happens in every N cycles.
    pub series: Option<Every>,
    /// Keep packets.
    pub capture: Option<Capture>,
}

/// Observations made during a run.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Ways of the followed packets, in order of their numbers.
    pub ways: Vec<Way>,
    /// Packets to be followed that were never sent.
    pub missing: Option<Selection>,
    /// Loads of all links.
    pub links: Option<Links>,
}

/// One followed packet.
#[derive(Clone, PartialEq, Debug)]
pub struct Way {
    /// Its number, in order of creation from 0.
    pub number: u64,
    /// Its source endpoint.
    pub src: u32,
    /// Its destination endpoint.
    pub dst: u32,
    /// Its length in flits.
    pub flits: u16,
    /// Events of the packet, in order of time.
    pub events: Vec<TraceEvent>,
}

/// Most packets followed at once: every event is compared with all of them.
const FOLLOWED_MAX: u64 = 1000;

/// Packets to follow: `7`, `0..20`, `3->9` (the first from node 3 to node 9 after warm-up), or several of
/// these separated by commas.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "String")]
pub struct Selection(Vec<Packets>);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Packets {
    /// From number, up to but without number.
    Numbers(u64, u64),
    Pair(u32, u32),
}

impl FromStr for Selection {
    type Err = Error;
    fn from_str(text: &str) -> Result<Selection, Error> {
        let bad = |why: &str| {
            let forms = "write a packet's number (7), several (0..20), or SRC->DST (3->9), separated by commas";
            Err(Error::invalid("trace", text, format!("{why}{forms}")))
        };
        let mut parts = Vec::new();
        for part in text.split(',').map(str::trim) {
            let part = if let Some((a, b)) = part.split_once("->") {
                a.trim().parse().ok().zip(b.trim().parse().ok()).map(|(a, b)| Packets::Pair(a, b))
            } else if let Some((a, b)) = part.split_once("..") {
                a.parse().ok().zip(b.parse().ok()).map(|(a, b)| Packets::Numbers(a, b))
            } else {
                part.parse::<u64>().ok().and_then(|n| n.checked_add(1)).map(|end| Packets::Numbers(end - 1, end))
            };
            match part {
                Some(Packets::Numbers(a, b)) if a >= b => return bad("nothing is in an empty range; "),
                Some(part) => parts.push(part),
                None => return bad(""),
            }
        }
        let size = |p: &Packets| if let Packets::Numbers(a, b) = p { b - a } else { 1 };
        if parts.iter().map(size).fold(0, u64::saturating_add) > FOLLOWED_MAX {
            return bad("at most 1000 packets can be followed; ");
        }
        Ok(Selection(parts))
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, part) in self.0.iter().enumerate() {
            f.write_str(if i > 0 { "," } else { "" })?;
            match part {
                Packets::Numbers(a, b) if a + 1 == *b => write!(f, "{a}")?,
                Packets::Numbers(a, b) => write!(f, "{a}..{b}")?,
                Packets::Pair(a, b) => write!(f, "{a}->{b}")?,
            }
        }
        Ok(())
    }
}

/// In a file a single packet may be written as a number.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a packet's number, or text such as \"0..20\" or \"3->9\"")]
enum Written {
    Number(u64),
    Text(String),
}

impl TryFrom<Written> for Selection {
    type Error = Error;
    fn try_from(written: Written) -> Result<Selection, Error> {
        match written {
            Written::Number(n) => n.to_string().parse(),
            Written::Text(text) => text.parse(),
        }
    }
}

impl From<Selection> for String {
    fn from(selection: Selection) -> String {
        selection.to_string()
    }
}

impl Selection {
    /// The largest endpoint named.
    pub fn largest_endpoint(&self) -> Option<u32> {
        self.0.iter().filter_map(|p| if let Packets::Pair(a, b) = p { Some(*a.max(b)) } else { None }).max()
    }
}

/// Follows the packets of a [`Selection`] through one run.
#[derive(Debug, Default)]
pub struct Follower {
    wanted: Vec<Packets>,
    ways: Vec<Way>,
    /// Followed packets under way.
    open: usize,
}

impl Follower {
    /// Follows what `selection` names.
    pub fn new(selection: Option<&Selection>) -> Follower {
        Follower { wanted: selection.map(|s| s.0.clone()).unwrap_or_default(), ..Follower::default() }
    }

    /// True if packet `number` from `src` to `dst` is to be traced; `steady` once warm-up is over.
    #[inline]
    pub fn wants(&mut self, number: u64, (src, dst, flits): (u32, u32, u16), steady: bool) -> bool {
        if self.wanted.is_empty() {
            return false;
        }
        let hit = self.wanted.iter().position(|w| match *w {
            Packets::Numbers(a, b) => (a..b).contains(&number),
            Packets::Pair(a, b) => steady && (a, b) == (src, dst),
        });
        let Some(hit) = hit else { return false };
        match self.wanted[hit] {
            Packets::Numbers(a, b) if number + 1 < b => self.wanted[hit] = Packets::Numbers(a.max(number + 1), b),
            _ => drop(self.wanted.swap_remove(hit)),
        }
        self.ways.push(Way { number, src, dst, flits, events: Vec::new() });
        self.open += 1;
        true
    }

    /// A followed packet has not arrived yet.
    pub fn open(&self) -> bool {
        self.open > 0
    }

    /// Takes in what a network noted; `number` finds a packet's number in its tag.
    pub fn note(&mut self, events: Vec<TraceEvent>, number: impl Fn(u64) -> u64) {
        use angara_model::Stage::{Delivered, Dropped};
        for event in events {
            if let Some(way) = self.ways.iter_mut().find(|w| w.number == number(event.tag)) {
                way.events.push(event);
                self.open -= usize::from(matches!(event.stage, Delivered | Dropped));
            }
        }
    }

    /// The ways, and what was asked for but never sent.
    pub fn finish(mut self) -> (Vec<Way>, Option<Selection>) {
        self.ways.sort_by_key(|w| w.number);
        let missing = (!self.wanted.is_empty()).then_some(Selection(self.wanted));
        (self.ways, missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_are_read_and_refused() {
        for text in ["7", "0..20", "3->9", "7,3->9,10..12"] {
            assert_eq!(text.parse::<Selection>().unwrap().to_string(), text);
        }
        for (text, part) in
            [("x", "SRC->DST"), ("5..5", "empty range"), ("3->", "SRC->DST"), ("0..2000", "at most 1000"), ("", "7")]
        {
            let e = text.parse::<Selection>().unwrap_err().to_string();
            assert!(e.contains(part), "{text}: {e}");
        }
        assert_eq!("7,3->9".parse::<Selection>().unwrap().largest_endpoint(), Some(9));
    }

    #[test]
    fn each_wish_is_fulfilled_once() {
        let selection = "1..3,5->6".parse().unwrap();
        let mut f = Follower::new(Some(&selection));
        let wants: Vec<bool> = (0..5).map(|n| f.wants(n, (0, 1, 1), true)).collect();
        assert_eq!(wants, [false, true, true, false, false]);
        assert!(!f.wants(5, (5, 6, 1), false), "still warming up");
        assert!(f.wants(6, (5, 6, 1), true) && !f.wants(7, (5, 6, 1), true));
        let (ways, missing) = f.finish();
        assert_eq!((ways.len(), missing), (3, None));
        let mut f = Follower::new(Some(&"9".parse().unwrap()));
        assert!(!f.wants(0, (0, 1, 1), true));
        assert_eq!(f.finish().1, Some("9".parse().unwrap()));
    }
}
