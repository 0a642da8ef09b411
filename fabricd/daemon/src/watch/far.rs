//! Links of other hosts: each host of a cluster counts what its own nodes send, and tells those who look.
//!
//! Whoever has somebody who looks asks the others, each no sooner than the last answer and a pause allow, and hears what has
//! changed since. An answer has at most [`MOST`] links; the rest comes with the next ones. What a host has said holds until it
//! says something else, so the links of one that does not answer stand still.

use super::sample::{FarLinks, Sample};
use angara_abi::account::Load;
use angara_net::HostId;
use angara_plane::observe::figures::LinkFigures;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Links in an answer.
const MOST: usize = 1024;
/// Numbers for each of them: the link, and its figures.
const ROW: usize = 8;
/// What a host was told that asks no more is forgotten after so long.
pub(super) const FORGOTTEN: Duration = Duration::from_secs(60);

/// Packets, flits, bytes, CRC errors, replays, duplicates, overtaken packets.
type Figures = [u64; ROW - 1];

/// What is known of other hosts, and what they know.
#[derive(Default)]
pub(crate) struct Far {
    pub(super) links: RefCell<Arc<FarLinks>>,
    pub(super) asked: RefCell<BTreeMap<HostId, Asked>>,
    pub(super) told: RefCell<BTreeMap<HostId, Told>>,
}

/// A host that is asked.
#[derive(Default)]
pub(super) struct Asked {
    /// Number of its last answer.
    pub(super) answer: u64,
    /// It is to answer, or was asked not long ago.
    pub(super) until: Option<Instant>,
}

/// What a host that asks has been told.
pub(super) struct Told {
    /// Number of the last answer.
    pub(super) answer: u64,
    pub(super) links: HashMap<u32, Figures>,
    /// Where the next answer begins.
    pub(super) next: u32,
    pub(super) at: Instant,
}

fn figures(link: &LinkFigures) -> Figures {
    let Load { packets, flits, bytes } = link.load;
    [packets, flits, bytes, link.crc_errors, link.replays, link.duplicates, link.reordered]
}

impl Told {
    pub(super) fn new() -> Told {
        Told { answer: 0, links: HashMap::new(), next: 0, at: Instant::now() }
    }

    /// Returns what has changed since, as far as it has room.
    pub(super) fn news(&mut self, sample: &Sample) -> Vec<u64> {
        let all = sample.links.len() as u32;
        let mut rows = Vec::new();
        let start = self.next.min(all);
        self.next = 0;
        for link in (start..all).chain(0..start) {
            let of = &sample.links[link as usize];
            let now = figures(of);
            if !of.here || self.links.get(&link).copied().unwrap_or_default() == now {
                continue;
            }
            if rows.len() == MOST * ROW {
                self.next = link;
                break;
            }
            self.links.insert(link, now);
            rows.push(u64::from(link));
            rows.extend(now);
        }
        rows
    }
}

impl Far {
    /// Returns what other hosts have said of their links.
    pub(super) fn links(&self) -> Arc<FarLinks> {
        self.links.borrow().clone()
    }

    /// Takes what a host says of links, of which it may say something if `owns` does.
    pub(super) fn take(&self, rows: &[u64], all: bool, owns: impl Fn(u32) -> bool) {
        let mut links = self.links.borrow_mut();
        let links = Arc::make_mut(&mut links);
        if all {
            links.retain(|link, _| !owns(*link));
        }
        for row in rows.as_chunks::<ROW>().0 {
            let [link, packets, flits, bytes, crc_errors, replays, duplicates, reordered] = *row;
            let Some(link) = u32::try_from(link).ok().filter(|link| owns(*link)) else { continue };
            let load = Load { packets, flits, bytes };
            let of = LinkFigures { load, crc_errors, replays, duplicates, reordered, ..LinkFigures::default() };
            links.insert(link, of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(links: u32, flits: u64) -> Sample {
        let load = Load { packets: 1, flits, bytes: 8 };
        let link = |number| LinkFigures { here: number % 2 == 0, up: true, load, ..LinkFigures::default() };
        Sample { links: (0..links).map(link).collect(), ..Sample::default() }
    }

    #[test]
    fn all_links_are_told_in_pieces_and_then_what_has_changed() {
        let (mut told, far) = (Told::new(), Far::default());
        let all = sample(6 * MOST as u32, 7);
        for left in [3, 2, 1] {
            let rows = told.news(&all);
            assert_eq!(rows.len(), MOST * ROW, "{left} pieces left");
            far.take(&rows, left == 3, |_| true);
        }
        assert!(told.news(&all).is_empty());
        assert_eq!(far.links().len(), 3 * MOST);
        assert!(far.links().iter().all(|(link, of)| link % 2 == 0 && of.load.flits == 7 && !of.here));
        let more = sample(6 * MOST as u32, 8);
        let rows = told.news(&more);
        far.take(&rows, false, |link| link < 100);
        assert_eq!(far.links().values().filter(|of| of.load.flits == 8).count(), 50, "only what is its own");
        far.take(&[], true, |link| link >= 100);
        assert_eq!(far.links().len(), 50);
    }
}
