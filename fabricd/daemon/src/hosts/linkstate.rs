//! Which host reaches which: every daemon tells all others which of its trunks are up.
//!
//! An announcement carries a number, and of one host only the highest is believed; it is passed on to every neighbour
//! that has not sent it. A daemon that starts again begins with 1: its neighbours tell it what they remember of its
//! earlier life, and it goes on above that. Until then two lives may say the same number: all believe the greater life,
//! and if that is the earlier one, its announcement finds the daemon, too. A trunk counts when both ends say that it is up.

use super::relay::COUNT_MAX;
use angara_net::HostId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a host says about its trunks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Announcement {
    pub(crate) host: HostId,
    pub(crate) number: u64,
    /// Random: another one at every start of the daemon.
    pub(crate) life: u64,
    /// Hosts at the other ends of trunks that are up, and the numbers of the sessions.
    pub(crate) trunks: BTreeMap<HostId, u32>,
    /// Lives of hosts, and how often it has lost touch with them ([`super::relay`]). Both ends of a pair go by the higher number;
    /// being said here, it is known before anything is agreed on with a host that was lost.
    pub(crate) contacts: BTreeMap<HostId, (u64, u64)>,
}

/// A trunk between two hosts, the lower one first, and the number of its session.
pub(crate) type Edge = (HostId, HostId, u32);

/// What this host knows of all.
pub(crate) struct LinkState {
    me: HostId,
    all: BTreeMap<HostId, Announcement>,
}

impl LinkState {
    pub(crate) fn new(me: HostId, life: u64) -> LinkState {
        let mine = Announcement { host: me, number: 1, life, trunks: BTreeMap::new(), contacts: BTreeMap::new() };
        LinkState { me, all: [(me, mine)].into() }
    }

    /// A trunk of this host is up in this session, or down. What to tell everybody.
    pub(crate) fn set(&mut self, host: HostId, session: Option<u32>) -> Announcement {
        let mine = self.all.get_mut(&self.me).expect("made in `new`");
        match session {
            Some(session) => mine.trunks.insert(host, session),
            None => mine.trunks.remove(&host),
        };
        mine.number += 1;
        mine.clone()
    }

    /// This host has lost touch with another one so often. What to tell everybody.
    pub(crate) fn set_contact(&mut self, host: HostId, contact: u64) -> Announcement {
        let life = self.life(host).unwrap_or_default();
        let mine = self.all.get_mut(&self.me).expect("made in `new`");
        mine.contacts.insert(host, (life, contact));
        mine.number += 1;
        mine.clone()
    }

    /// How often another host has lost touch with this daemon.
    pub(crate) fn contact(&self, host: HostId) -> u64 {
        let said = self.all.get(&host).and_then(|a| a.contacts.get(&self.me));
        said.filter(|(life, _)| Some(*life) == self.life(self.me)).map_or(0, |(_, contact)| *contact)
    }

    /// Takes an announcement; what to pass on, if anything is new.
    pub(crate) fn take(&mut self, said: Announcement) -> Option<Announcement> {
        if said.number > COUNT_MAX || said.contacts.values().any(|(_, contact)| *contact > COUNT_MAX) {
            return None;
        }
        let known = self.all.get_mut(&said.host);
        if said.host == self.me {
            // Of an earlier life, or an echo.
            let mine = known.filter(|mine| said.number >= mine.number && said != **mine)?;
            mine.number = said.number + 1;
            return Some(mine.clone());
        }
        if known.is_some_and(|known| (known.number, known.life) >= (said.number, said.life)) {
            return None;
        }
        self.all.insert(said.host, said.clone());
        Some(said)
    }

    /// Everything known, for a neighbour that has just come.
    pub(crate) fn all(&self) -> Vec<Announcement> {
        self.all.values().cloned().collect()
    }

    pub(crate) fn life(&self, host: HostId) -> Option<u64> {
        self.all.get(&host).map(|a| a.life)
    }

    /// Hosts beyond a trunk of `host` that both ends say is up.
    fn neighbours(&self, host: HostId) -> impl Iterator<Item = HostId> + '_ {
        let trunks = self.all.get(&host).into_iter().flat_map(|a| a.trunks.keys().copied());
        trunks.filter(move |other| self.all.get(other).is_some_and(|a| a.trunks.contains_key(&host)))
    }

    /// Hosts that can be reached, and the neighbour through which.
    pub(crate) fn reach(&self) -> BTreeMap<HostId, HostId> {
        let mut first = BTreeMap::new();
        let mut queue: VecDeque<HostId> = [self.me].into();
        while let Some(at) = queue.pop_front() {
            for next in self.neighbours(at).collect::<Vec<_>>() {
                if next != self.me && !first.contains_key(&next) {
                    first.insert(next, if at == self.me { next } else { first[&at] });
                    queue.push_back(next);
                }
            }
        }
        first
    }

    /// Trunks among `hosts` whose ends name the same session.
    pub(crate) fn edges(&self, hosts: &BTreeSet<HostId>) -> BTreeSet<Edge> {
        let of = |a: &HostId| self.all.get(a).map(|said| &said.trunks);
        let mut edges = BTreeSet::new();
        for a in hosts {
            for (b, session) in of(a).into_iter().flatten().filter(|(b, _)| *b > a && hosts.contains(b)) {
                if of(b).and_then(|trunks| trunks.get(a)) == Some(session) {
                    edges.insert((*a, *b, *session));
                }
            }
        }
        edges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Hosts whose announcements travel at once over the trunks that are up, in any order.
    struct World {
        hosts: Vec<LinkState>,
        up: BTreeSet<(u16, u16)>,
        on_way: Vec<(u16, Announcement)>,
    }

    impl World {
        /// Returns what [`LinkState::reach`] says, in plain numbers.
        fn reach(&self, host: u16) -> Vec<(u16, u16)> {
            let reached = self.hosts[host as usize].reach();
            reached.into_iter().map(|(to, via)| (to.number(), via.number())).collect()
        }
        fn new(n: u16) -> World {
            let hosts = (0..n).map(|h| LinkState::new(HostId::new(h), h.into())).collect();
            World { hosts, up: BTreeSet::new(), on_way: Vec::new() }
        }
        fn connected(&self, a: u16, b: u16) -> bool {
            self.up.contains(&(a.min(b), a.max(b)))
        }
        fn flood(&mut self, from: u16, said: &Announcement) {
            let others = (0..self.hosts.len() as u16).filter(|h| *h != from && self.connected(from, *h));
            self.on_way.extend(others.map(|h| (h, said.clone())).collect::<Vec<_>>());
        }
        fn toggle(&mut self, a: u16, b: u16, session: u32) {
            let edge = (a.min(b), a.max(b));
            let now = !self.up.remove(&edge);
            if now {
                self.up.insert(edge);
            }
            for (x, y) in [(a, b), (b, a)] {
                let said = self.hosts[x as usize].set(HostId::new(y), now.then_some(session));
                if now {
                    self.on_way.extend(self.hosts[x as usize].all().into_iter().map(|said| (y, said)));
                }
                self.flood(x, &said);
            }
        }
        fn restart(&mut self, host: u16, life: u64) {
            self.hosts[host as usize] = LinkState::new(HostId::new(host), life);
            for other in (0..self.hosts.len() as u16).filter(|h| *h != host) {
                if self.connected(host, other) {
                    self.toggle(host, other, 0);
                    self.toggle(host, other, life as u32);
                }
            }
        }
        fn settle(&mut self, mut pick: u64) {
            while !self.on_way.is_empty() {
                pick = pick.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let (to, said) = self.on_way.swap_remove((pick >> 33) as usize % self.on_way.len());
                if let Some(news) = self.hosts[to as usize].take(said) {
                    self.flood(to, &news);
                }
            }
        }
    }

    #[test]
    fn a_host_is_reached_through_others_and_lost_with_its_last_trunk() {
        let mut w = World::new(3);
        w.toggle(0, 1, 5);
        w.toggle(1, 2, 6);
        w.settle(1);
        assert_eq!(w.reach(0), [(1, 1), (2, 1)]);
        let [a, b, c] = [0, 1, 2].map(HostId::new);
        assert_eq!(w.hosts[0].edges(&[a, b, c].into()), [(a, b, 5), (b, c, 6)].into());
        w.toggle(1, 2, 0);
        w.settle(2);
        assert_eq!(w.reach(0), [(1, 1)]);
    }

    #[test]
    fn lost_touch_is_about_one_life() {
        let mut w = World::new(2);
        w.toggle(0, 1, 1);
        w.settle(1);
        let said = w.hosts[0].set_contact(HostId::new(1), 3);
        w.flood(0, &said);
        w.settle(1);
        assert_eq!(w.hosts[1].contact(HostId::new(0)), 3);
        w.restart(1, 77);
        w.settle(1);
        assert_eq!(w.hosts[1].contact(HostId::new(0)), 0);
    }

    #[test]
    fn a_restarted_host_is_believed_again() {
        let mut w = World::new(2);
        for session in 0..9 {
            w.toggle(0, 1, session);
        }
        w.settle(1);
        w.restart(1, 77);
        w.settle(2);
        assert_eq!(w.hosts[0].life(HostId::new(1)), Some(77));
        assert_eq!(w.reach(0), [(1, 1)]);
    }

    /// Host 2 begins again; 0 hears of its new life first and 3 of the old one, and both have the same number.
    #[test]
    fn two_lives_with_one_number_are_told_apart() {
        for (old, new) in [(2, 77), (77, 2)] {
            let mut w = World::new(4);
            w.hosts[2] = LinkState::new(HostId::new(2), old);
            w.toggle(1, 2, 1);
            w.settle(1);
            w.toggle(1, 2, 0);
            w.toggle(1, 3, 2);
            w.settle(1);
            w.toggle(1, 3, 0);
            w.restart(2, new);
            w.toggle(0, 2, 3);
            w.settle(1);
            w.toggle(0, 3, 4);
            w.settle(1);
            assert_eq!(w.reach(3), [(0, 0), (2, 0)]);
        }
    }

    proptest! {
        #[test]
        fn all_that_can_talk_know_the_same(
            changes in proptest::collection::vec((0u16..5, 0u16..5, 0u32..8), 1..40), pick in any::<u64>()
        ) {
            let mut w = World::new(5);
            for (i, (a, b, kind)) in changes.into_iter().enumerate() {
                match kind {
                    0 => w.restart(a, 100 + i as u64),
                    _ if a != b => w.toggle(a, b, 1 + i as u32),
                    _ => {}
                }
                if kind % 2 == 0 {
                    w.settle(pick);
                }
            }
            w.settle(pick);
            for a in 0..5u16 {
                // Everybody on the other end of a chain of trunks, and nobody else, is reached; all of them see the same trunks.
                let mut group = BTreeSet::from([a]);
                while let Some(next) = (0..5).find(|b| !group.contains(b) && group.iter().any(|g| w.connected(*g, *b))) {
                    group.insert(next);
                }
                let reach: BTreeSet<u16> = w.reach(a).into_iter().map(|(host, _)| host).chain([a]).collect();
                prop_assert_eq!(&reach, &group);
                let hosts = group.iter().copied().map(HostId::new).collect();
                let edges = w.hosts[a as usize].edges(&hosts).into_iter();
                let pairs: BTreeSet<(u16, u16)> = edges.map(|(x, y, _)| (x.number(), y.number())).collect();
                let real = w.up.iter().filter(|(x, y)| group.contains(x) && group.contains(y)).copied().collect();
                prop_assert_eq!(pairs, real);
            }
        }
    }
}
