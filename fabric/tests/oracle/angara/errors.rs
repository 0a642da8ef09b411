//! Links with errors.

use super::super::random::{ERRORS, below, word};
use super::{NEVER, Stay, World, span};

/// One direction of a cable that has or had an error rate.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    pub(super) per_million: u64,
    drawn: u64,
    failures: u32,
    /// Out of step; the sender hears of it then.
    heard_at: Option<u64>,
    /// The output is busy with repeated packets until then.
    pub(super) repeating_until: u64,
    pub(super) wrong: u64,
    pub(super) repeated: u64,
}

impl World<'_> {
    /// The packets that were granted this link and have not been received right, oldest first.
    fn unreceived(&self, (node, port): (u32, usize)) -> Vec<usize> {
        let far = self.grid.step(node, port);
        let is = |s: &Stay| s.node == far && s.travels == Some(port) && s.left.is_none() && s.ready == NEVER;
        (0..self.stays.len()).filter(|&i| is(&self.stays[i])).collect()
    }

    /// The packet granted last begins to cross a link with errors.
    pub(super) fn send_over_errors(&mut self, link: (u32, usize)) {
        let i = self.stays.len() - 1;
        self.stays[i].ready = NEVER;
        self.transmit(link, i, self.now);
    }

    /// Transmits stay `i` at `start`; returns the end.
    fn transmit(&mut self, (node, port): (u32, usize), i: usize, start: u64) -> u64 {
        let s = &self.stays[i];
        let end = start + span(self.sent[s.packet].flits, s.rate);
        let direction = if port.is_multiple_of(2) { port / 2 } else { port / 2 + self.directions() / 2 };
        let l = self.lossy.get_mut(&(node, port)).unwrap();
        if l.heard_at.is_some() {
            return end;
        }
        let number = word(self.seed, 16 * node as u64 + direction as u64, ERRORS, l.drawn);
        l.drawn += 1;
        if below(number, 1_000_000) < l.per_million {
            l.wrong += 1;
            l.failures += 1;
            l.heard_at = Some(end + 2 * self.p.link);
            self.instants.insert(end + 2 * self.p.link);
            return end;
        }
        l.failures = 0;
        let s = &mut self.stays[i];
        s.ready = end + self.p.link + self.p.router;
        s.rate = (self.p.flit_internal.num as u64, self.p.flit_internal.den as u64);
        s.whole = true;
        self.instants.insert(s.ready);
        end
    }

    /// Directions of a node: the chip's 8, or 12.
    fn directions(&self) -> usize {
        if self.grid.sizes.len() > 4 { 12 } else { 8 }
    }

    /// Senders that hear of an error now repeat, in order of node and direction.
    pub(super) fn hear(&mut self) {
        let mut links: Vec<(u32, usize)> = self.lossy.keys().copied().collect();
        links.sort_by_key(|&(node, port)| (node, self.order(port)));
        for link in links {
            let l = self.lossy.get_mut(&link).unwrap();
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
            let mut start = self.now.max(idle.unwrap_or(0)).max(self.lossy[&link].repeating_until);
            let again = self.unreceived(link);
            for &i in &again {
                start = self.transmit(link, i, start);
            }
            if !again.is_empty() {
                let l = self.lossy.get_mut(&link).unwrap();
                l.repeated += again.len() as u64;
                l.repeating_until = start;
                self.instants.insert(start);
            }
        }
    }
}
