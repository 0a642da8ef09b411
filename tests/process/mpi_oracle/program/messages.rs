//! Messages and their receives: what is planned, and what all ranks or two of them do at once.

use super::types::{GROUPS, Message, Op, Program, Receive, SIZES};
use angara_tests::Rng;

/// What a rank may send from its buffer in one program, of the 4 MiB that it has.
const BUFFERED: usize = 3 << 20;

impl Program {
    /// A message that a receive names the source of.
    pub(super) fn plan(&mut self, rng: &mut Rng) {
        let (from, comm, tag) = (self.rank(rng), rng.pick(&[0, 2]), rng.below(3) as i32);
        // Few pairs, so that messages of a pair meet.
        let to = if rng.one_in(8) { from } else { self.other(rng, from) };
        for _ in 0..=rng.below(3) {
            let mut message = self.draw(rng, comm, from, to, tag);
            if rng.one_in(3) {
                message.tag = rng.below(3) as i32;
            }
            self.buffers(&mut message);
            self.message(message, rng.one_in(3));
        }
    }

    /// Messages of several ranks to one that receives them from any source, in whichever order they come.
    pub(super) fn plan_group(&mut self, rng: &mut Rng) {
        let (to, group) = (self.rank(rng), self.messages.len());
        if self.messages.iter().any(|m| m.comm == GROUPS && m.to == to) {
            return;
        }
        let any_tag = rng.one_in(2);
        for _ in 0..2 + rng.below(5) {
            let from = self.rank(rng);
            let tag = if any_tag { rng.below(3) as i32 } else { 7 };
            let mut message = self.draw(rng, GROUPS, from, to, tag);
            message.group = Some(group);
            self.buffers(&mut message);
            self.message(message, any_tag);
        }
    }

    fn message(&mut self, message: Message, wants_any_tag: bool) {
        let i = self.messages.len();
        let any = message.group.is_some();
        self.receives.push(Receive {
            comm: message.comm,
            at: message.to,
            from: (!any).then_some(message.from),
            tag: (!wants_any_tag).then_some(message.tag),
            group: message.group,
            partner: i,
            posted: None,
            done: false,
            slot: None,
            ended: None,
        });
        self.messages.push(message);
    }

    fn draw(&self, rng: &mut Rng, comm: usize, from: usize, to: usize, tag: i32) -> Message {
        Message {
            comm,
            from,
            to,
            tag,
            bytes: rng.pick(&SIZES),
            mode: rng.pick(&['n', 'n', 'n', 's', 'b']),
            group: None,
            partner: self.receives.len(),
            started: None,
            done: false,
            slot: None,
            ended: None,
        }
    }

    /// A mode that needs no more room than there is.
    fn buffers(&mut self, message: &mut Message) {
        if message.mode == 'b' {
            self.buffered[message.from] += message.bytes + 512;
            if self.buffered[message.from] > BUFFERED {
                message.mode = 'n';
            }
        }
    }

    /// Every rank sends to one and receives from another, all at once.
    pub(super) fn shift(&mut self, rng: &mut Rng) {
        let (by, comm) = (1 + rng.below(self.ranks as u64 - 1) as usize, rng.pick(&[0, 2]));
        let (first, at) = (self.messages.len(), self.steps.len());
        for rank in 0..self.ranks {
            // With a tag of its own: what was sent before is no concern of it.
            let mut message = self.draw(rng, comm, rank, (rank + by) % self.ranks, 1000 + at as i32);
            message.mode = 'n';
            self.message(message, false);
        }
        for rank in 0..self.ranks {
            let (m, r) = (first + rank, first + (rank + self.ranks - by) % self.ranks);
            let at = Some(self.push(rank, Op::Sendrecv(m, r)));
            let (message, receive) = (&mut self.messages[m], &mut self.receives[r]);
            (message.started, message.ended, message.done) = (at, at, true);
            (receive.posted, receive.ended, receive.done) = (at, at, true);
        }
        // A receive of any tag that is posted may have got it.
        if self.matching().0.iter().any(|(r, m)| self.receives[*r].partner != *m) {
            self.steps.truncate(at);
            self.messages.truncate(first);
            self.receives.truncate(first);
        }
    }

    /// One message while nothing else is under way. Its receiver waits already.
    pub(super) fn trip(&mut self, rng: &mut Rng) {
        self.barrier();
        let from = self.rank(rng);
        let to = self.other(rng, from);
        let m = self.messages.len();
        let mut message = self.draw(rng, 0, from, to, 5000);
        message.mode = 'n';
        self.message(message, false);
        for rank in (0..self.ranks).filter(|rank| *rank != to) {
            self.push(rank, Op::Sleep(100_000));
        }
        let at = self.push(from, Op::Send(m));
        self.push(to, Op::Recv(m));
        let (message, receive) = (&mut self.messages[m], &mut self.receives[m]);
        (message.started, message.ended, message.done) = (Some(at), Some(at), true);
        (receive.posted, receive.ended, receive.done) = (Some(at + 1), Some(at + 1), true);
        self.trips.push(m);
        // Nobody begins the next barrier before it has arrived.
        for rank in 0..self.ranks {
            self.push(rank, Op::Sleep(100_000));
        }
    }
}
