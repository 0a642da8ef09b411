//! Changing the routes of a split network while it is in use.
//!
//! Several fabrics that model one network between them share no clock and cannot see each other's packets, and one of
//! them may be lost with all that is inside it. So they change routes together, in three steps that
//! their drivers coordinate:
//!
//! 1. All parts *hold*: nothing moves and nothing is ejected any more ([`Fabric::hold`]).
//! 2. Each says how many packets it has ejected of every stream, how many barriers its nodes have left, and how
//!    far its trees have got ([`Fabric::ledger`]). The sum of all ledgers is given to every part.
//! 3. Each *recovers* ([`Fabric::recover`]): everything on its way is taken out of routers and links, routes are
//!    rebuilt, and every source sends again, in order, what its target had not ejected: from its injection queues, from the
//!    routers of its own part, and from the copies it retains of what has left it (`chip/edge.rs`).
//!
//! So nothing is lost, doubled or reordered between nodes that still reach each other, whatever was lost on the
//! way. What cannot be reached any more fails as in a single fabric. Unfinished barriers start again from
//! the least number of barriers that any node has left. A tree on which nothing is under way goes on, over other
//! links if its own have failed; any other one is unloaded and its participants are told.
//!
//! A part may be held and recovered at any time and as often as need be, also by another change before all parts have
//! made the last one: a part that has made it counts as before and is held by the next one.

use super::Fabric;
use crate::PORTS_MAX;
use crate::chip::Ends;
use crate::chip::NEVER;
use crate::chip::layout::UP;
use crate::faults::FaultError;
use crate::packet::{PacketHandle, flag, rate};
use crate::split::Ledger;
use crate::types::{Effect, JobSlot, NetError, OpFault, Outage};
use angara_abi::account::READ_MAX;
use angara_abi::packet::PacketType;
use angara_net::torus::NodeId;
use std::collections::BTreeSet;

impl Fabric {
    /// Nothing moves any more until [`Fabric::recover`]: time stands still, no frame is given or taken. Effects and completions
    /// made before may be polled, memory supplied and operations posted.
    pub fn hold(&mut self) {
        self.split.on_hold = true;
    }

    /// True if it waits for [`Fabric::recover`].
    pub fn on_hold(&self) -> bool {
        self.split.on_hold
    }

    /// Returns what the other parts need to know of this one; it changes only while the fabric is not on hold.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = Ledger { trees: self.trees.tree_states(&self.adapters), ..Ledger::default() };
        for (job, arrivals) in self.split.all() {
            let name = (job, self.adapters.chip.edge.generation(job));
            arrivals.tell(name, &mut ledger);
            if let Some(left) = self.barriers.barriers_left(&self.adapters, job) {
                ledger.barriers.insert(name, left);
            }
        }
        ledger
    }

    /// Ends a hold. From now on exactly what `dead` names is out of service, `change` is the number of the latest route change, which
    /// must be the same in all parts and greater than in any of them before; `ledger` is the merge of the ledgers
    /// of all parts that take part. Impairments stay. Fails, and changes nothing, if something in `dead` does not exist.
    pub fn recover(&mut self, change: u64, dead: &[Outage], ledger: &Ledger) -> Result<(), FaultError> {
        self.faults.replace(&self.adapters.chip, dead)?;
        self.adapters.chip.replace_routes(change, dead);
        self.split.on_hold = false;
        self.trees.settle_trees(&mut self.adapters, &ledger.trees);
        let again = self.empty_network(ledger);
        self.send_again(again);
        self.fail_cut_off(ledger);
        let least: Vec<Option<u64>> = (self.barriers.slots())
            .map(|job| ledger.barriers.get(&(job, self.adapters.chip.edge.generation(job))).copied())
            .collect();
        self.barriers.barriers_restart(&mut self.adapters, |job| least[job.index()]);
        (0..self.adapters.ports.len()).for_each(|port| self.adapters.schedule_pump(port, self.adapters.chip.now));
        Ok(())
    }

    /// Recovers a part by itself: right if nothing is under way between the parts.
    pub(crate) fn recover_alone(&mut self) {
        let dead = self.faults.dead();
        let ledger = self.ledger();
        self.recover(self.adapters.chip.route_change + 1, &dead, &ledger).expect("faults in force exist");
    }

    /// Takes everything that moves out of routers and links. Returns what sources here have to send again.
    fn empty_network(&mut self, ledger: &Ledger) -> Vec<PacketHandle> {
        let mut moving = self.adapters.chip.empty();
        moving.extend(self.adapters.empty_memories());
        self.adapters.ports.iter_mut().for_each(|p| p.pump_at = crate::types::Tick::MAX);
        let mut again = Vec::new();
        for h in moving {
            let p = &self.adapters.chip.packets[h];
            let data = p.kind != PacketType::Barrier && (p.vc as usize) < UP;
            if data && p.flags & (flag::FOREIGN | flag::DEAD) == 0 {
                again.push(h);
            } else {
                self.adapters.chip.free_packet(h);
            }
        }
        for job in self.barriers.slots() {
            again.extend(self.count_retained(job, ledger));
        }
        again
    }

    /// Forgets the retained packets that the ledger says have been ejected and takes the others.
    fn count_retained(&mut self, job: JobSlot, ledger: &Ledger) -> Vec<PacketHandle> {
        let name = (job, self.adapters.chip.edge.generation(job));
        let nodes = self.adapters.chip.net.nodes;
        let known = ledger.ejected.range((name, 0, 0, 0)..=(name, NodeId::MAX, NodeId::MAX, u8::MAX));
        let known = known.map(|((_, src, dst, vc), _)| (*src, *dst, *vc));
        // Also streams that another fabric in the place of this one had begun: its count goes on.
        let mine: Vec<Ends> = known.filter(|(src, dst, _)| self.owns(*src) && (*dst as usize) < nodes).collect();
        let Some(retained) = self.adapters.chip.edge.streams(job) else { return Vec::new() };
        let streams: BTreeSet<Ends> = retained.list.iter().map(|(ends, _)| *ends).chain(mine).collect();
        for ends @ (src, dst, vc) in streams {
            let ejected = ledger.ejected.get(&(name, src, dst, vc)).copied().unwrap_or(0);
            let Some(retained) = self.adapters.chip.edge.streams(job) else { break };
            let before = retained.at(ends, nodes).before;
            // Less than before: the target is another one since, which has ejected none of these.
            self.forget_retained(job, ends, ejected.saturating_sub(before));
            if let Some(retained) = self.adapters.chip.edge.streams(job) {
                retained.at(ends, nodes).before = ejected;
            }
        }
        if let Some(arrivals) = self.split.arrivals(job) {
            arrivals.forget_ways();
        }
        self.adapters.chip.edge.take(&mut self.adapters.chip.packets, job)
    }

    /// Puts packets that are in no queue back where they came from, in their old order.
    fn send_again(&mut self, mut again: Vec<PacketHandle>) {
        again.sort_by_key(|h| self.adapters.chip.packets[*h].serial);
        for h in again {
            let p = &mut self.adapters.chip.packets[h];
            let (src, dst, channel, vc) = (p.src, p.dst, p.from_channel as usize, p.vc as usize);
            p.flags &= !(flag::OLD | flag::ADAPTIVE);
            if p.ready < self.adapters.chip.now || p.ready == NEVER {
                p.ready = self.adapters.chip.now + self.adapters.chip.params.router_ps;
            }
            (p.rate, p.routers) = (rate::PORT, 0);
            if self.adapters.chip.routes.route(src, dst).is_none() {
                if let Some(packet) = self.adapters.chip.injected(h) {
                    self.adapters.injected(packet);
                }
                self.drop_unreachable(src, h);
            } else {
                self.adapters.chip.append(src, self.adapters.chip.lay.injection(channel, vc), h);
            }
        }
    }

    /// Fails the operations of this part whose target cannot be reached or cannot answer any more, or has not been able to
    /// for a time that this part has not noticed: their requests, or their answers, may have been lost elsewhere.
    fn fail_cut_off(&mut self, ledger: &Ledger) {
        for job in self.barriers.slots() {
            let mut reading = Vec::new();
            for op in self.adapters.ops.of_job(job) {
                let Some(to) = self.adapters.ops[op].doing.answered_by() else { continue };
                let port = self.adapters.ops[op].port as usize;
                let at = self.adapters.ports[port].port;
                let given_up = ((job, self.adapters.chip.edge.generation(job)), at, self.adapters.ops.key(op));
                let outage = match (
                    self.adapters.chip.reachable(at.node, to.node),
                    self.adapters.chip.reachable(to.node, at.node),
                ) {
                    (true, true) if !ledger.unanswered.contains(&given_up) => continue,
                    (false, _) => self.adapters.chip.routes.outage(at.node, to.node),
                    (true, _) => self.adapters.chip.routes.outage(to.node, at.node),
                };
                let what = NetError::Unreachable { from: at.node, to: to.node, outage };
                self.adapters.effect(Effect::Error { at, job, what, time: self.adapters.chip.now });
                self.adapters.fail_op(op, OpFault::Unreachable { to: to.node, outage });
                reading.push(port);
            }
            for port in reading {
                self.count_reads(job, port as u32);
            }
        }
    }

    /// Counts the read requests of a port that are made and not answered anew.
    fn count_reads(&mut self, job: JobSlot, port: u32) {
        let mut open = [0; PORTS_MAX];
        for op in self.adapters.ops.of_job(job).into_iter().map(|op| &self.adapters.ops[op]).filter(|o| o.port == port)
        {
            if let Some(to) = op.doing.answered_by().filter(|_| op.doing.is_read()) {
                let received = op.len - op.to_receive;
                let made = op.done.div_ceil(READ_MAX as u32);
                let answered = if op.to_receive == 0 { made } else { received / READ_MAX as u32 };
                open[self.adapters.lane(port as usize, to.node)] += made - answered;
            }
        }
        let lanes = &mut self.adapters.ports[port as usize].lanes;
        lanes.iter_mut().zip(open).for_each(|(lane, open)| lane.reads = open);
    }
}
