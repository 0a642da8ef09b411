//! Posts and commands of clients: taken from their channels, and given to the network.

use super::view::Service;
use crate::channels::outstanding::Operation;
use crate::channels::post::{Context, Posted, Violation};
use crate::virtual_time::touch::{By, Touch};
use angara_abi::channel::Fault;
use angara_fabric::{InjectError, Port, Tick};

/// Posts taken from one channel per round.
const POSTS_PER_ROUND: usize = 64;

impl Service<'_> {
    /// Takes posts and CSR commands from one channel. Returns whether there were any.
    pub(crate) fn poll_lane(&mut self, index: usize) -> bool {
        let mut work = self.poll_mailbox(index);
        let waited = self.channels.lanes.get(index).is_some_and(|l| l.pending.is_some());
        let mut taken = 0;
        while taken < POSTS_PER_ROUND {
            match self.take_post(index) {
                Ok(true) => taken += 1,
                Ok(false) => break,
                Err(v) => {
                    self.break_lane(index, v.fault, v.seq, &v.why);
                    return true;
                }
            }
        }
        work |= taken > 0;
        // A client that found its queue full waits for the heads; that takes more posts than one
        // round serves, or a network without room. Otherwise waking it now would be too early.
        let was_full = taken == POSTS_PER_ROUND || waited && taken > 0;
        if was_full && let Some(lane) = self.channels.lanes.get(index) {
            lane.notify();
        }
        work
    }

    fn take_post(&mut self, index: usize) -> Result<bool, Violation> {
        let Some(lane) = self.channels.lanes.get_mut(index).filter(|l| !l.broken) else { return Ok(false) };
        let posted = match lane.pending.take() {
            Some(posted) => posted,
            None => {
                let seq = lane.consumer.expected();
                let next = lane.consumer.next(&lane.memory.channel);
                let next = next.map_err(|e| Violation { fault: Fault::BadPacket, seq, why: e.to_string() })?;
                let Some(post) = next else { return Ok(false) };
                let (seats, slot) = (self.seats, lane.slot);
                let member = |port: Port| seats.owner(port).is_some_and(|o| o.slot == slot);
                Context { job: &lane.job, shape: self.shape, member: &member }.check(post, &mut lane.carried)?
            }
        };
        self.submit(index, posted)
    }

    /// Gives a checked post to the network; false if it has no room now.
    fn submit(&mut self, index: usize, posted: Posted) -> Result<bool, Violation> {
        let Some(lane) = self.channels.lanes.get_mut(index) else { return Ok(false) };
        let issue = match &lane.memory.clock {
            Some(clock) => {
                let said = clock.stamped(posted.seq);
                lane.issue_time(said)
            }
            None => self.fabric.now(),
        };
        let Some(op) = posted.op(&lane.carried) else {
            let number = lane.enter(posted.seq, true, false);
            lane.reached(number, true);
            lane.complete(posted.completion, posted.seq);
            let (port, pe) = (lane.port, lane.pe);
            self.record_post(pe, issue, &posted);
            self.touched(port, Touch::Post(posted.completion), By::Own(None));
            return Ok(true);
        };
        let operation = Operation {
            lane: index,
            seq: posted.seq,
            completion: posted.completion,
            number: 0,
            answered: posted.is_answered(),
            read: posted.is_read(),
            barrier: posted.barrier(),
            to: posted.target(),
        };
        let tag = self.channels.outstanding.insert(operation);
        match self.fabric.inject(lane.port, lane.slot, posted.class, op, issue, tag) {
            Ok(()) => {
                let number = lane.enter(posted.seq, !posted.reads_memory(), posted.is_read());
                if let Some(operation) = self.channels.outstanding.get_mut(tag) {
                    operation.number = number;
                }
                let pe = lane.pe;
                if let Some(run) = &mut self.time
                    && let Some(gate) = posted.gate()
                {
                    run.enters(gate, pe, issue);
                }
                self.record_post(pe, issue, &posted);
                Ok(true)
            }
            Err(e) => {
                self.channels.outstanding.remove(tag);
                let fault = match e {
                    InjectError::Busy => {
                        lane.pending = Some(posted);
                        return Ok(false);
                    }
                    InjectError::Unreachable { .. } => Fault::Unreachable,
                    InjectError::NotOpen(_) | InjectError::NoTree(_) => Fault::BadTarget,
                    InjectError::Invalid(_) => Fault::BadDescriptor,
                };
                Err(Violation { fault, seq: posted.seq, why: e.to_string() })
            }
        }
    }

    fn record_post(&mut self, pe: usize, at: Tick, posted: &Posted) {
        let seats = self.seats;
        if let Some(record) = self.record() {
            record.post(pe, at, posted, seats);
        }
    }

    /// Takes the posts of a lane for which the network had no room, as it may have some now. Their PE need not stand for
    /// room: what it waits for may be behind them.
    pub(super) fn take_waiting(&mut self, index: usize) {
        let Some(lane) = self.channels.lanes.get(index).filter(|lane| lane.pending.is_some()) else { return };
        let (port, until) = (lane.port, lane.ran.1);
        if self.time.is_some() && self.take_posts(index, until) {
            self.touched(port, Touch::Post(None), By::Own(None));
        }
    }

    /// Takes what a PE has posted until `now`, and does what it has commanded. Returns whether there was any of it.
    pub(crate) fn take_posts(&mut self, index: usize, now: Tick) -> bool {
        if let Some(lane) = self.channels.lanes.get_mut(index) {
            lane.ran.1 = now;
        }
        let mut taken = 0;
        loop {
            match self.take_post(index) {
                Ok(true) => taken += 1,
                Ok(false) => break,
                Err(Violation { fault, seq, why }) => {
                    self.break_lane(index, fault, seq, &why);
                    break;
                }
            }
        }
        if let (Some(run), Some(lane)) = (&mut self.time, self.channels.lanes.get(index)) {
            run.posted(lane.pe, taken);
        }
        self.poll_mailbox(index) || taken > 0
    }

    /// Executes a CSR command, if there is one.
    fn poll_mailbox(&mut self, index: usize) -> bool {
        let Some(lane) = self.channels.lanes.get(index) else { return false };
        let Some((seq, register, value)) = lane.memory.channel.csr_pending() else { return false };
        let node = lane.port.node;
        let result = self.registers.command(node, register, value);
        if result.is_err() {
            self.count_violation(node);
        }
        let Some(lane) = self.channels.lanes.get_mut(index) else { return true };
        if result.is_err() && !std::mem::replace(&mut lane.csr_logged, true) {
            tracing::warn!(job = lane.job.id.number(), pe = lane.pe, register, value, "CSR command refused");
        }
        lane.memory.channel.csr_acknowledge(seq, result);
        lane.notify();
        true
    }
}
