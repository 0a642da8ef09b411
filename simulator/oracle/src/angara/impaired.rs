//! Links with errors, and links that delay, slow down, double and reorder packets.

use super::{Counts, How, NEVER, Stay, World, span};
use crate::random::{ERRORS, LATE, TWICE, below, word};

/// How long a packet is held back at most.
const PATIENCE: u64 = 1_000_000;

/// One direction of a cable that is or was impaired.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    wrong: u64,
    twice: u64,
    early: u64,
    delay: u64,
    rate: u64,
    seed: Option<u64>,
    /// It has or had one of the three shares.
    counted: bool,
    drawn: u64,
    failures: u32,
    /// Out of step; the sender hears of it then.
    heard_at: Option<u64>,
    /// The packet that is held back, and until when.
    held: Option<(usize, u64)>,
    /// The output is busy until then with what its grants do not show.
    pub(super) sending_until: u64,
    /// When the request of the packet received last is ready.
    last_ready: u64,
    pub(super) counts: Counts,
}

impl Link {
    /// All that befalls its packets.
    fn said(&self) -> [How; 6] {
        [
            How::Wrong(self.wrong),
            How::Twice(self.twice),
            How::Early(self.early),
            How::Delay(self.delay),
            How::Rate(self.rate),
            How::Seed(self.seed),
        ]
    }

    pub(super) fn change(&mut self, how: How) {
        let news = !self.said().contains(&how);
        match how {
            How::Wrong(share) => self.wrong = share,
            How::Twice(share) => self.twice = share,
            How::Early(share) => self.early = share,
            How::Delay(time) => self.delay = time,
            How::Rate(rate) => self.rate = rate,
            How::Seed(seed) => self.seed = seed,
        }
        if self.seed.is_some() && news {
            self.drawn = 0;
        }
        self.counted |= matches!(how, How::Wrong(1..) | How::Twice(1..) | How::Early(1..));
    }
}

impl World<'_> {
    /// How much longer than others a link takes now.
    pub(super) fn delay(&self, link: (u32, usize)) -> u64 {
        self.impaired.get(&link).map_or(0, |l| l.delay)
    }

    /// The packets that were granted this link and have not been received right, oldest first.
    fn unreceived(&self, (node, port): (u32, usize)) -> Vec<usize> {
        let far = self.grid.step(node, port);
        let is = |s: &Stay| s.node == far && s.travels == Some(port) && s.left.is_none() && s.ready == NEVER;
        (0..self.stays.len()).filter(|&i| is(&self.stays[i])).collect()
    }

    /// The packet granted last begins to cross an impaired link.
    pub(super) fn send_impaired(&mut self, link: (u32, usize)) {
        let i = self.stays.len() - 1;
        let l = &self.impaired[&link];
        if l.counted || l.rate > 0 {
            self.stays[i].ready = NEVER;
            let end = self.transmit(link, i, self.now);
            self.impaired.get_mut(&link).unwrap().sending_until = end;
            self.instants.insert(end);
        } else {
            self.met.delayed += u64::from(l.delay > 0);
            let ready = self.stays[i].ready + l.delay;
            self.stays[i].ready = self.in_turn(link, ready);
        }
    }

    /// The time at which a packet may ask that is ready then, if not for those that entered the link before it.
    fn in_turn(&mut self, link: (u32, usize), ready: u64) -> u64 {
        let l = self.impaired.get_mut(&link).unwrap();
        self.met.queued += u64::from(ready <= l.last_ready);
        l.last_ready = if ready > l.last_ready { ready } else { l.last_ready + 1 };
        self.instants.insert(l.last_ready);
        l.last_ready
    }

    /// Stay `i` is received right and whole, its last flit at `at`.
    fn received_right(&mut self, link: (u32, usize), i: usize, at: u64) {
        self.impaired.get_mut(&link).unwrap().failures = 0;
        let ready = self.in_turn(link, at + self.p.router);
        let s = &mut self.stays[i];
        s.ready = ready;
        s.rate = (self.p.flit_internal.num as u64, self.p.flit_internal.den as u64);
        s.whole = true;
    }

    /// Transmits stay `i` at `start`; returns the end.
    fn transmit(&mut self, (node, port): (u32, usize), i: usize, start: u64) -> u64 {
        let (packet, flits) = (self.stays[i].packet, self.sent[self.stays[i].packet].flits);
        let direction = if port.is_multiple_of(2) { port / 2 } else { port / 2 + self.directions() / 2 };
        let l = self.impaired.get_mut(&(node, port)).unwrap();
        let mut takes = span(flits, self.stays[i].rate);
        if l.rate > 0 {
            let at_rate = (u128::from(flits) * 16_000_000_000_000).div_ceil(u128::from(l.rate)) as u64;
            self.met.slowed += u64::from(at_rate > takes);
            takes = takes.max(at_rate);
        }
        let (end, flight) = (start + takes, self.p.link + l.delay);
        if l.heard_at.is_some() {
            return end;
        }
        let (mut right, mut twice) = (true, false);
        if l.held.take().is_some() {
            l.counts.early += 1;
            self.met.early += 1;
            right = false;
        } else if l.counted {
            let (seed, k) = (l.seed.unwrap_or(self.seed), l.drawn);
            let happens = |purpose, share| {
                below(word(seed, 16 * u64::from(node) + direction as u64, purpose, k), 1_000_000) < share
            };
            l.drawn += 1;
            self.met.seeded += u64::from(l.seed.is_some());
            if happens(ERRORS, l.wrong) {
                l.counts.wrong += 1;
                right = false;
            } else if happens(LATE, l.early) {
                l.held = Some((packet, end + PATIENCE));
                self.instants.insert(end + PATIENCE);
                return end;
            } else {
                twice = happens(TWICE, l.twice);
            }
        }
        if !right {
            l.failures += 1;
            l.heard_at = Some(end + 2 * flight);
            self.instants.insert(end + 2 * flight);
            return end;
        }
        l.counts.twice += u64::from(twice);
        self.met.twice += u64::from(twice);
        self.received_right((node, port), i, end + flight);
        if twice { end + takes } else { end }
    }

    /// Directions of a node: the chip's 8, or 12.
    fn directions(&self) -> usize {
        if self.grid.sizes.len() > 4 { 12 } else { 8 }
    }

    /// Senders that hear of an error now repeat, in order of node and direction.
    pub(super) fn hear(&mut self) {
        let mut links: Vec<(u32, usize)> = self.impaired.keys().copied().collect();
        links.sort_by_key(|&(node, port)| (node, self.order(port)));
        for link in links {
            let l = self.impaired.get_mut(&link).unwrap();
            if l.heard_at != Some(self.now) {
                continue;
            }
            l.heard_at = None;
            if l.failures >= 16 {
                l.failures = 0;
                self.met.worn_out += 1;
                self.cut(link);
                continue;
            }
            let idle = self.stays.iter().filter(|s| s.node == link.0);
            let idle = idle.filter_map(|s| s.left.filter(|left| left.2 == link.1)).map(|left| left.1).max();
            let mut start = self.now.max(idle.unwrap_or(0)).max(self.impaired[&link].sending_until);
            let again = self.unreceived(link);
            for &i in &again {
                start = self.transmit(link, i, start);
            }
            if !again.is_empty() {
                let l = self.impaired.get_mut(&link).unwrap();
                l.counts.repeated += again.len() as u64;
                l.sending_until = start;
                self.instants.insert(start);
            }
        }
    }

    /// Packets that were held back and that nothing has overtaken go on.
    pub(super) fn let_pass(&mut self) {
        for link in self.impaired.keys().copied().collect::<Vec<_>>() {
            let l = self.impaired.get_mut(&link).unwrap();
            let Some((packet, _)) = l.held.take_if(|held| held.1 == self.now) else { continue };
            let flight = self.p.link + l.delay;
            let i = self.unreceived(link).into_iter().find(|&i| self.stays[i].packet == packet).unwrap();
            self.met.late += 1;
            self.received_right(link, i, self.now + flight);
        }
    }

    /// A packet taken back is not held back any more.
    pub(super) fn let_go(&mut self, packet: usize) {
        for l in self.impaired.values_mut() {
            self.met.let_go += u64::from(l.held.take_if(|held| held.0 == packet).is_some());
        }
    }
}
