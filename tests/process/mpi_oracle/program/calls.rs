//! Calls that begin what was planned, and those that wait for it.

use super::types::{Ends, Message, Op, Program};
use angara_tests::Rng;

impl Program {
    /// Begins a send or receive that was planned, or both, in a form that can end.
    pub(super) fn advance(&mut self, rng: &mut Rng) {
        if rng.one_in(4) {
            self.advance_collectives(rng);
        }
        let idle = |(i, started): (usize, bool)| (!started).then_some(i);
        let sends: Vec<usize> =
            self.messages.iter().map(|m| m.started.is_some()).enumerate().filter_map(idle).collect();
        let receives: Vec<usize> =
            self.receives.iter().map(|r| r.posted.is_some()).enumerate().filter_map(idle).collect();
        match (rng.one_in(2), sends.is_empty(), receives.is_empty()) {
            (_, true, true) => {}
            (true, false, _) | (_, false, true) => self.start_send(rng.pick(&sends), rng),
            _ => self.start_receive(rng.pick(&receives), rng),
        }
    }

    fn start_send(&mut self, m: usize, rng: &mut Rng) {
        let at = self.steps.len();
        let partner = self.messages[m].partner;
        let partners: Vec<(usize, usize)> = self.partners();
        let tags: Vec<Option<i32>> = self.receives.iter().map(|r| r.tag).collect();
        self.messages[m].started = Some(at);
        if !self.settle() {
            self.messages[m].started = None;
            self.undo(&partners, &tags);
            return;
        }
        let receive = &self.receives[self.messages[m].partner];
        // That the receive is posted is known by whoever has met the others since.
        let known = receive.posted.is_some_and(|posted| posted < self.met) && receive.group.is_none();
        if known && self.messages[m].mode == 'n' && rng.one_in(2) {
            self.messages[m].mode = 'r';
        }
        let rank = self.messages[m].from;
        if self.can_end_send(m) && self.blocking_sends() && rng.one_in(2) {
            self.push(rank, Op::Send(m));
            (self.messages[m].done, self.messages[m].ended) = (true, Some(at));
            return;
        }
        // Both at once: the sender may wait for the receive that comes next.
        let to = self.messages[m].to;
        let alone = self.messages[m].group.is_none() && self.receives[partner].posted.is_none() && rank != to;
        if alone && self.blocking_sends() && self.messages[m].partner == partner && rng.one_in(2) {
            self.receives[partner].posted = Some(at + 1);
            if self.matching().0.get(&partner) == Some(&m) {
                self.push(rank, Op::Send(m));
                let ask = self.ask(rng, partner);
                self.push(to, if ask == '-' { Op::Recv(partner) } else { Op::Ask(ask, partner) });
                (self.messages[m].done, self.messages[m].ended) = (true, Some(at));
                (self.receives[partner].done, self.receives[partner].ended) = (true, Some(at + 1));
                return;
            }
            self.receives[partner].posted = None;
        }
        self.messages[m].slot = Some(self.slot(rank));
        self.push(rank, Op::Isend(m));
    }

    fn start_receive(&mut self, r: usize, rng: &mut Rng) {
        let at = self.steps.len();
        let (partners, tags) = (self.partners(), self.receives.iter().map(|r| r.tag).collect::<Vec<_>>());
        self.receives[r].posted = Some(at);
        if !self.settle() {
            self.receives[r].posted = None;
            self.undo(&partners, &tags);
            return;
        }
        let rank = self.receives[r].at;
        if self.can_end_receive(r) && rng.one_in(2) {
            let ask = self.ask(rng, r);
            self.push(rank, if ask == '-' { Op::Recv(r) } else { Op::Ask(ask, r) });
            (self.receives[r].done, self.receives[r].ended) = (true, Some(at));
            return;
        }
        self.receives[r].slot = Some(self.slot(rank));
        self.push(rank, Op::Irecv(r));
    }

    /// How the message of this receive is asked for, if at all.
    fn ask(&self, rng: &mut Rng, r: usize) -> char {
        let receive = &self.receives[r];
        let may_be = |(m, message): (usize, &Message)| match receive.group {
            Some(group) => message.group == Some(group) && message.mode == 's',
            None => receive.partner == m && message.mode == 's',
        };
        let ask = rng.pick(&['p', 'i', 'm', 'n', '-', '-', '-', '-']);
        match ask {
            'm' | 'n' if !self.mix.mrecv_answers && self.messages.iter().enumerate().any(may_be) => 'p',
            _ => ask,
        }
    }

    /// One rank waits for some of what it has begun and what can end, or for all of it.
    pub(super) fn wait(&mut self, rng: &mut Rng, all: bool) {
        let rank = self.rank(rng);
        let mut slots = Vec::new();
        for (m, message) in self.messages.iter().enumerate() {
            if let (false, Some(slot)) = (message.done || message.from != rank, message.slot) {
                slots.extend(self.can_end_send(m).then_some((slot, Ends::Send(m))));
            }
        }
        for (r, receive) in self.receives.iter().enumerate() {
            if let (false, Some(slot)) = (receive.done || receive.at != rank, receive.slot) {
                slots.extend(self.can_end_receive(r).then_some((slot, Ends::Receive(r))));
            }
        }
        for (c, collective) in self.collectives.iter().enumerate() {
            if let (None, Some(slot)) = (collective.ended[rank], collective.slots[rank]) {
                slots.extend((!collective.started.contains(&None)).then_some((slot, Ends::Collective(c))));
            }
        }
        if !all {
            slots.retain(|_| rng.one_in(2));
        }
        if slots.is_empty() {
            return;
        }
        for i in (1..slots.len()).rev() {
            slots.swap(i, rng.below(i as u64 + 1) as usize);
        }
        let at = Some(self.steps.len());
        for (slot, ends) in &slots {
            self.used[rank][*slot] = false;
            match *ends {
                Ends::Send(m) => (self.messages[m].done, self.messages[m].ended) = (true, at),
                Ends::Receive(r) => (self.receives[r].done, self.receives[r].ended) = (true, at),
                Ends::Collective(c) => self.collectives[c].ended[rank] = at,
            }
        }
        let how = ["wait", "waitall", "waitany", "waitsome", "test", "testall", "testany", "testsome"];
        self.push(rank, Op::Wait(rng.pick(&how), slots));
    }
}
