//! Links with which something is wrong: numbering, checksums and replay, longer cables, slower lines.
//!
//! A link that only delays is cut through like any other; all its packets come later. Every other one works by
//! receive-then-forward: packets leave a replay buffer at the link's rate and are whole before they go on. If it
//! damages, doubles or reorders packets, they are numbered and carry a checksum, and the receiver takes nothing but the
//! next number. The fate of a transmission is decided when it begins. The receiver discards a wrong or overtaken one
//! and all that follow it, until the sender hears of it and sends again everything that was not received (go-back-N).
//! Such packets are in the far queue already, without a time from which they may ask for an output. After
//! [`FAILURES_MAX`] failures in a row the link is taken out of service. `docs/explain/model.md` has the rules.

use super::observe::listen::At;
use super::slots::NEVER;
use super::state::Chip;
use super::time::events::EventKind;
use crate::faults::{numbers, span};
use crate::packet::{NO_QUEUE, PacketHandle, encode, flag, rate};
use crate::rng::{Purpose, below, draw};
use crate::types::{Link, Tick};
use angara_abi::capture::{Happening, Reason};
use angara_abi::packet;
use angara_net::fault::Impairment;
use angara_net::torus::{Direction, NodeId};
use std::collections::{BTreeMap, VecDeque};

/// Failures in a row after which a link goes down.
const FAILURES_MAX: u32 = 16;
/// How long a packet that is to be overtaken is held back if nothing follows.
const HELD_PS: Tick = 1_000_000;

/// The sender of one link that is or was impaired.
#[derive(Clone, Debug, Default)]
pub(crate) struct Impaired {
    pub(crate) what: Impairment,
    /// Packets have numbers and checksums; never taken back, as numbers once begun go on.
    numbered: bool,
    /// Granted and not received right, with the virtual channel they use; oldest first.
    pub(crate) unreceived: VecDeque<(PacketHandle, u8)>,
    /// A transmission was in vain and the sender does not know yet.
    out_of_step: bool,
    /// The packet that is held back for the next one to overtake it, and until when at most.
    held: Option<(PacketHandle, Tick)>,
    /// Failures in a row.
    failures: u32,
    /// Sequence number of the next packet to be received.
    sequence: u16,
    /// Transmissions that random numbers were drawn for, with a seed of its own since what befalls it changed last.
    drawn: u64,
    /// From when the packet that arrived last may ask.
    latest: Tick,
    pub(crate) crc_errors: u64,
    pub(crate) replays: u64,
    pub(crate) duplicates: u64,
    pub(crate) reordered: u64,
}

impl Impaired {
    /// A packet that may ask at `ready` if those before it were no later: a cable that has become shorter does not let
    /// packets overtake each other.
    fn arrive(&mut self, ready: Tick) -> Tick {
        self.latest = ready.max(self.latest + 1);
        self.latest
    }
}

/// The links that are or were impaired, by link number (node · directions + direction).
pub(crate) type ImpairedLinks = BTreeMap<usize, Impaired>;

/// Receiver's judgement of a transmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Right,
    Damaged,
    /// A number that was received before.
    Again,
    /// A later number than the next one.
    Early,
}

impl Chip {
    /// Returns what befalls the packets of a link.
    pub(crate) fn impairment(&self, link: Link) -> Impairment {
        self.degraded.links.get(&self.link(link.node, link.dir.index())).map_or_else(Impairment::default, |l| l.what)
    }

    pub(crate) fn impair(&mut self, link: Link, what: Impairment) {
        let (node, dir) = (link.node, link.dir.index());
        let number = self.link(node, dir);
        if what == Impairment::default() && !self.degraded.links.contains_key(&number) {
            return;
        }
        let l = self.degraded.links.entry(number).or_default();
        l.numbered |= numbers(&what);
        if what.seed.is_some() && what != l.what {
            l.drawn = 0;
        }
        l.what = what;
        self.degraded.prompt[node as usize] =
            self.owned[node as usize] && (0..self.lay.dirs).all(|dir| self.delay(node, dir) == 0);
    }

    /// After changes of what befalls links.
    pub(crate) fn impaired_otherwise(&mut self) {
        self.degraded.unimpaired = self.degraded.links.values().all(|l| l.what.is_none());
        let near =
            |node: u32, dir: usize| self.owned[node as usize] || self.owned[self.net.neighbour(node, dir) as usize];
        let dirs = self.lay.dirs;
        self.degraded.slow =
            self.degraded.links.iter().any(|(i, l)| l.what.is_slow() && near((i / dirs) as u32, i % dirs));
    }

    /// How much longer than usual a link takes.
    pub(crate) fn delay(&self, node: u32, dir: usize) -> Tick {
        self.degraded.links.get(&self.link(node, dir)).map_or(0, |l| l.what.delay_ps)
    }

    /// The same for a whole route.
    pub(crate) fn delay_on_route(&self, from: NodeId, to: NodeId) -> Tick {
        if self.degraded.unimpaired {
            return 0;
        }
        let path = self.routes.path(from, to).unwrap_or_default();
        path.iter().map(|link| self.delay(link.node, link.dir.index())).sum()
    }

    /// Returns what the receiver of a link says of packet `h` with number `sent` if it waits for `expected`. `wrong`:
    /// a bit of it, by this random number, is turned over.
    fn verdict(&self, h: PacketHandle, sent: u16, expected: u16, wrong: Option<u64>) -> Verdict {
        let p = &self.packets[h];
        let seen = if p.is(flag::RAW) || p.is_train() {
            // Without contents: a CRC-32C finds every single wrong bit. Trains were under way when the link became so.
            if wrong.is_some() { None } else { Some(sent) }
        } else {
            let (flits, n) = match wrong {
                None => encode(&self.net, &self.payloads, p, sent),
                Some(number) => self.damaged(h, sent, number),
            };
            packet::check(&flits[..n]).ok().map(|(_, tail)| tail.link_seq)
        };
        match seen {
            None => Verdict::Damaged,
            Some(number) if number == expected => Verdict::Right,
            // Half of the circle of numbers lies behind the expected one: those were received before.
            Some(number) if expected.wrapping_sub(number) < 1 << 15 => Verdict::Again,
            Some(_) => Verdict::Early,
        }
    }

    /// One transmission of packet `h` that begins at `start`: when it ends, and whether it is
    /// received right. If so the packet's time to ask is set.
    fn transmit(&mut self, node: u32, dir: usize, vc: usize, h: PacketHandle, start: Tick) -> (Tick, bool) {
        let link = self.link(node, dir);
        let (link_rate, flits) = (self.packets[h].rate, self.packets[h].flits);
        let usual = self.timing.span(link_rate, flits);
        let flight = self.params.link_ps;
        let l = self.degraded.links.get_mut(&link).expect("caller knows the link");
        let seed = l.what.seed.unwrap_or(self.seed);
        let span = usual.max(span(&l.what, flits));
        let (end, flight) = (start + span, flight + l.what.delay_ps);
        if l.out_of_step {
            if self.observers.tracer.on() {
                let number = self.next_number(node, dir);
                self.tell_dropped(h, At::Link(node, dir, vc, number), end + flight, Reason::OutOfOrder);
            }
            return (end, false);
        }
        let (what, sequence) = (l.what, l.sequence);
        let overtakes = l.held.take().is_some();
        let (mut wrong, mut late, mut twice) = (None, false, false);
        if l.numbered && !overtakes {
            let happens = |purpose, per_million: u32| {
                let number = draw(seed, 16 * node as u64 + dir as u64, purpose, l.drawn);
                (below(number, 1_000_000) < per_million as u64).then_some(number)
            };
            wrong = happens(Purpose::Error, what.spoilt());
            late = wrong.is_none() && happens(Purpose::Late, what.reorder).is_some();
            twice = wrong.is_none() && !late && happens(Purpose::Twice, what.duplicate).is_some();
            l.drawn += 1;
        }
        if late {
            l.held = Some((h, end + HELD_PS));
            self.events.push(end + HELD_PS, EventKind::Line, node, dir as u32);
            return (end, false);
        }
        if l.numbered {
            let number = sequence.wrapping_add(overtakes as u16);
            let verdict = self.verdict(h, number, sequence, wrong);
            if self.observers.tracer.on() && verdict != Verdict::Right {
                let at = At::Link(node, dir, vc, number);
                match wrong {
                    Some(wrong) => self.tell_damaged(h, at, end + flight, wrong),
                    None => self.tell_dropped(h, at, end + flight, Reason::OutOfOrder),
                }
            }
            let l = self.degraded.links.get_mut(&link).expect("looked up above");
            match verdict {
                Verdict::Damaged => l.crc_errors += 1,
                Verdict::Early | Verdict::Again => l.reordered += 1,
                Verdict::Right => {}
            }
            if verdict != Verdict::Right {
                l.failures += 1;
                l.out_of_step = true;
                self.events.push(end + 2 * flight, EventKind::Heard, node, dir as u32);
                return (end, false);
            }
        }
        self.received(node, dir, vc, h, end + flight);
        if twice && self.verdict(h, sequence, sequence.wrapping_add(1), None) == Verdict::Again {
            self.degraded.links.get_mut(&link).expect("looked up above").duplicates += 1;
            if self.observers.tracer.on() {
                let at = At::Link(node, dir, vc, sequence);
                self.tell_dropped(h, at, end + span + flight, Reason::Duplicate);
            }
            return (end + span, true);
        }
        (end, true)
    }

    /// Number of the packet that is sent next over a link that is or was impaired.
    #[cold]
    fn next_number(&self, node: u32, dir: usize) -> u16 {
        match self.degraded.links.get(&self.link(node, dir)) {
            Some(l) if l.numbered => l.sequence.wrapping_add(l.unreceived.len() as u16),
            _ => self.latest_on(node, dir),
        }
    }

    /// The packet `h` is received right at `at`.
    fn received(&mut self, node: u32, dir: usize, vc: usize, h: PacketHandle, at: Tick) {
        let link = self.link(node, dir);
        let l = self.degraded.links.get_mut(&link).expect("caller knows the link");
        l.failures = 0;
        l.sequence = l.sequence.wrapping_add(1);
        let ready = l.arrive(at + self.params.router_ps);
        let p = &mut self.packets[h];
        (p.ready, p.rate) = (ready, rate::WHOLE);
        if self.observers.tracer.on() {
            self.note_arrived(node, dir, vc, h);
        }
    }

    /// A granted packet begins to cross a link that is or was impaired. Its `ready` is what a sound one would give it.
    pub(crate) fn send_impaired(&mut self, node: u32, dir: usize, vc: usize, h: PacketHandle) {
        if self.observers.tracer.on() {
            let number = self.next_number(node, dir);
            self.tell(h, At::Link(node, dir, vc, number), self.now, Happening::Sent);
        }
        let link = self.link(node, dir);
        let l = self.degraded.links.get_mut(&link).expect("caller knows the link");
        let far = self.net.neighbour(node, dir);
        let right = if l.numbered || l.what.rate > 0 {
            self.packets[h].ready = NEVER;
            let (end, right) = self.transmit(node, dir, vc, h, self.now);
            self.routers.set_out_busy(node, dir, end);
            right
        } else {
            let p = &mut self.packets[h];
            p.ready = l.arrive(p.ready + l.what.delay_ps);
            if self.observers.tracer.on() {
                self.note_arrived(node, dir, vc, h);
            }
            true
        };
        if self.owned[far as usize] {
            self.append(far, self.lay.arrival(dir, vc), h);
        } else if right {
            self.cross_boundary(node, dir, vc, h);
        }
        if !right {
            let l = self.degraded.links.get_mut(&link).expect("looked up above");
            l.unreceived.push_back((h, vc as u8));
        }
    }

    /// The routers have been emptied: no link has anything to repeat. Returns the packets that were in no queue either.
    pub(crate) fn clear_impaired(&mut self) -> Vec<PacketHandle> {
        let mut lost = Vec::new();
        for l in self.degraded.links.values_mut() {
            (l.out_of_step, l.failures, l.held) = (false, 0, None);
            lost.extend(l.unreceived.drain(..).map(|u| u.0).filter(|h| self.packets[*h].queue == NO_QUEUE));
        }
        lost
    }

    /// A packet in the queue of a link is taken out: it will not be repeated.
    pub(crate) fn forget_replay(&mut self, node: u32, dir: usize, h: PacketHandle) {
        if !self.degraded.links.is_empty() {
            let sender = self.net.neighbour(node, self.net.opposite(dir));
            let link = self.link(sender, dir);
            if let Some(l) = self.degraded.links.get_mut(&link) {
                l.unreceived.retain(|u| u.0 != h);
                l.held.take_if(|held| held.0 == h);
            }
        }
    }

    /// [`EventKind::Line`]: nothing has overtaken the packet that was held back; or what waits for a boundary link may go.
    pub(crate) fn on_line(&mut self, node: u32, dir: usize) {
        let link = self.link(node, dir);
        let (now, flight) = (self.now, self.params.link_ps + self.delay(node, dir));
        let Some(l) = self.degraded.links.get_mut(&link) else { return };
        let Some((h, _)) = l.held.take_if(|held| held.1 == now) else { return };
        let Some((_, vc)) = l.unreceived.iter().find(|u| u.0 == h).copied() else { return };
        l.unreceived.retain(|u| u.0 != h);
        self.received(node, dir, vc as usize, h, now + flight);
        self.arrived_late(node, dir, vc as usize, h);
    }

    /// A packet that was granted earlier is received at last.
    fn arrived_late(&mut self, node: u32, dir: usize, vc: usize, h: PacketHandle) {
        let far = self.net.neighbour(node, dir);
        if self.owned[far as usize] {
            self.arrived(far, self.lay.arrival(dir, vc), h);
        } else {
            self.cross_boundary(node, dir, vc, h);
        }
    }

    /// [`EventKind::Heard`]: the sender knows of an error and repeats everything not received. After too many failures in a row
    /// the link is returned, to be taken out of service.
    pub(crate) fn on_heard(&mut self, node: u32, dir: usize) -> Option<Link> {
        let link = self.link(node, dir);
        let l = self.degraded.links.get_mut(&link).expect("only impaired links hear of errors");
        l.out_of_step = false;
        if l.failures >= FAILURES_MAX {
            l.failures = 0;
            // In a split network all parts must change routes together: until they do, this link says nothing more.
            l.out_of_step = self.split;
            return Some(Link { node, dir: Direction::ALL[dir] });
        }
        let again = std::mem::take(&mut l.unreceived);
        if again.is_empty() {
            return None;
        }
        l.replays += again.len() as u64;
        let mut start = self.now.max(self.routers.out_busy(node, dir));
        for (h, vc) in again {
            if self.observers.tracer.on() {
                self.note_replay(node, dir, vc, h, start);
                let number = self.next_number(node, dir);
                self.tell(h, At::Link(node, dir, vc as usize, number), start, Happening::Replayed);
            }
            let (end, right) = self.transmit(node, dir, vc as usize, h, start);
            start = end;
            if right {
                self.arrived_late(node, dir, vc as usize, h);
            } else {
                self.degraded.links.get_mut(&link).expect("looked up above").unreceived.push_back((h, vc));
            }
        }
        self.routers.set_out_busy(node, dir, start);
        self.look_at(node, 1 << dir);
        None
    }

    /// Gives a packet to a boundary link; of a slow one it leaves when it has nearly arrived, so that it is late for those who do not
    /// look at its time, too.
    fn cross_boundary(&mut self, node: u32, dir: usize, vc: usize, h: PacketHandle) {
        let at = self.packets[h].ready;
        self.send_boundary(node, dir, vc, h);
        if self.degraded.slow {
            self.plan_crossing(node, dir, at);
        }
    }

    /// Something will be at the other end of a boundary link at `at`.
    fn plan_crossing(&mut self, node: u32, dir: usize, at: Tick) {
        if at > self.now + self.hop_ps {
            self.events.push(at - self.hop_ps, EventKind::Line, node, dir as u32);
        }
    }

    /// True if a frame with this time must wait before it is given to a boundary link: not if time would stand still.
    pub(crate) fn waits(&self, link: Link, time: Tick) -> bool {
        let comes = || self.events.next_time().is_some_and(|next| next < time);
        self.degraded.slow && time > self.now + self.hop_ps && self.impairment(link).is_slow() && comes()
    }

    /// As [`Chip::give_back`] if the sender is elsewhere or a link of it delays; `at` is without the delay.
    #[cold]
    pub(crate) fn give_back_elsewhere(&mut self, sender: u32, dir: usize, vc: usize, units: usize, at: Tick) {
        let delay = self.delay(sender, dir);
        if self.owned[sender as usize] {
            return self.give_slots(sender, dir, vc, units, at + delay);
        }
        self.return_boundary_credit(sender, dir, vc, units, at + delay);
        if self.degraded.slow {
            self.plan_crossing(sender, dir, at + delay);
        }
    }
}
