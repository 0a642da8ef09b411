//! Changing the routes of a split network while it is in use.
//!
//! Several fabrics that model one network between them share no clock and cannot see each other's packets, and one of
//! them may be lost with all that is inside it. So they change routes together, in three steps that
//! their drivers coordinate:
//!
//! 1. All parts *hold*: nothing moves and nothing is ejected any more ([`Fabric::hold`]).
//! 2. Each says how many packets it has ejected of every stream, how many barriers its nodes have left, and how
//!    far its trees have got ([`Fabric::ledger`]). The sum of all ledgers is given to every part.
//! 3. Each *mends* itself ([`Fabric::mend`]): everything on its way is taken out of routers and links, routes are
//!    rebuilt, and every source sends again, in order, what its target had not ejected: from its injection queues, from the
//!    routers of its own part, and from the copies it keeps of what has left it ([`crate::keep`]).
//!
//! So nothing is lost, doubled or reordered between nodes that still reach each other, whatever was lost on the
//! way. What cannot be reached any more fails as in a single fabric. Unfinished barriers start again from
//! the least number of barriers that any node has left. A tree on which nothing is under way goes on, over other
//! links if its own have failed; any other one is unloaded and its participants are told.
//!
//! A part may be held and mended at any time and as often as need be, also by another change before all parts have
//! made the last one: a part that has made it counts as before and is held by the next one.

use crate::Fabric;
use crate::event::Kind;
use crate::fault::{Fault, FaultError, FaultKind};
use crate::keep::Ends;
use crate::ledger::Ledger;
use crate::link::NEVER;
use crate::ops::Doing;
use crate::slab::{NO_QUEUE, flag, rate};
use crate::topology::NONE;
use crate::types::{Blame, Effect, JobId, NetError, OpFault};
use abi::account::READ_MAX;
use abi::packet::PacketType;
use abi::torus::NodeId;
use std::collections::BTreeSet;

impl Fabric {
    /// Nothing moves any more until [`Fabric::mend`]: time stands still, no frame is given or taken. Effects and completions
    /// made before may be polled, memory supplied and operations posted.
    pub fn hold(&mut self) {
        self.on_hold = true;
    }

    /// Whether it waits for [`Fabric::mend`].
    pub fn on_hold(&self) -> bool {
        self.on_hold
    }

    /// What the other parts need to know of this one; it changes only while the fabric is not on hold.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = Ledger { trees: self.tree_states(), ..Ledger::default() };
        for (job, j) in self.jobs.iter().enumerate().filter_map(|(i, j)| Some((i as JobId, j.as_ref()?))) {
            let name = (job, self.generation(job));
            for ((dst, src, vc), ejected) in &j.ejected.list {
                ledger.ejected.insert((name, *src, *dst, *vc), ejected.count);
            }
            ledger.unanswered.extend(j.unanswered.iter().map(|(to, op)| (name, *to, *op)));
            if let Some(left) = self.barriers_left(job) {
                ledger.barriers.insert(name, left);
            }
        }
        ledger
    }

    /// Ends a hold. From now on exactly what `dead` names is out of service, the number of route changes is `epoch`, which
    /// must be the same in all parts and greater than in any of them before; `ledger` is the merge of the ledgers
    /// of all parts that take part. Impairments stay. Fails, and changes nothing, if something in `dead` does not exist.
    pub fn mend(&mut self, epoch: u64, dead: &[Blame], ledger: &Ledger) -> Result<(), FaultError> {
        let kind = |what: &Blame| match *what {
            Blame::Link(link) => FaultKind::LinkDown(link),
            Blame::Node(node) => FaultKind::NodeDown(node),
        };
        for what in dead {
            self.check_fault(&kind(what))?;
        }
        let before = std::mem::take(&mut self.faults);
        let known = |k: FaultKind| before.iter().find(|f| f.kind == k).copied();
        self.faults = before.iter().filter(|f| matches!(f.kind, FaultKind::Impaired { .. })).copied().collect();
        for what in dead {
            let fault = known(kind(what)).unwrap_or(Fault { kind: kind(what), at: Some(self.now) });
            if !self.faults.contains(&fault) {
                self.faults.push(fault);
            }
        }
        self.routes.replace(dead);
        self.any_dead = self.routes.any_dead();
        self.epoch = epoch;
        self.on_hold = false;
        self.special = true;
        self.settle_trees(ledger);
        let again = self.empty_network(ledger);
        self.send_again(again);
        self.fail_cut_off(ledger);
        let generations = self.generations.clone();
        self.barriers_restart(|job| ledger.barriers.get(&(job, *generations.get(job as usize)?)).copied());
        (0..self.ports.len()).for_each(|port| self.schedule_pump(port, self.now));
        Ok(())
    }

    /// Mends a part by itself: right if nothing is under way between the parts.
    pub(crate) fn mend_alone(&mut self) {
        let blame = |f: &Fault| match f.kind {
            FaultKind::LinkDown(link) => Some(Blame::Link(link)),
            FaultKind::NodeDown(node) => Some(Blame::Node(node)),
            FaultKind::Impaired { .. } => None,
        };
        let dead: Vec<Blame> = self.faults.iter().filter_map(blame).collect();
        let ledger = self.ledger();
        self.mend(self.epoch + 1, &dead, &ledger).expect("faults in force exist");
    }

    /// Takes everything that moves out of routers and links. Returns what sources here have to send again.
    fn empty_network(&mut self, ledger: &Ledger) -> Vec<u32> {
        let queued = |h: &u32| self.packets[*h].is_queued();
        let mut moving: Vec<u32> = self.packets.handles().into_iter().filter(queued).collect();
        for (time, event) in self.events.drain() {
            match event.kind {
                Kind::Deliver => moving.push(event.arg),
                Kind::Fault | Kind::TreeTimer => self.events.push(time, event.kind, event.node, event.arg),
                // Of routers that are empty now, of ports and barriers that are called below.
                Kind::Heard | Kind::Line | Kind::Head | Kind::Escape | Kind::Wake | Kind::Pump | Kind::Phase => {}
            }
        }
        moving.extend(self.clear_impaired());
        self.routers.empty(&self.slots);
        self.boundary.clear();
        self.arrived.clear();
        self.held.clear();
        self.drain_all = false;
        self.ports.iter_mut().for_each(|p| p.pump_at = crate::types::Tick::MAX);
        let mut again = Vec::new();
        for h in moving {
            let p = &mut self.packets[h];
            (p.queue, p.next) = (NO_QUEUE, NONE);
            let data = p.kind != PacketType::Barrier && (p.vc as usize) < crate::layout::UP;
            if data && p.flags & (flag::FOREIGN | flag::DEAD) == 0 {
                again.push(h);
            } else {
                self.free_packet(h);
            }
        }
        for job in 0..self.jobs.len() as JobId {
            again.extend(self.count_kept(job, ledger));
        }
        again
    }

    /// Forgets the kept packets that the ledger says have been ejected and takes the others.
    fn count_kept(&mut self, job: JobId, ledger: &Ledger) -> Vec<u32> {
        let name = (job, self.generation(job));
        let Some(j) = self.job(job) else { return Vec::new() };
        let known = ledger.ejected.range((name, 0, 0, 0)..=(name, NodeId::MAX, NodeId::MAX, u8::MAX));
        let known = known.map(|((_, src, dst, vc), _)| (*src, *dst, *vc));
        // Also streams that another fabric in the place of this one had begun: its count goes on.
        let mine = known.filter(|(src, dst, _)| self.owns(*src) && (*dst as usize) < self.net.nodes);
        let streams: BTreeSet<Ends> = j.kept.list.iter().map(|(ends, _)| *ends).chain(mine).collect();
        for ends @ (src, dst, vc) in streams {
            let ejected = ledger.ejected.get(&(name, src, dst, vc)).copied().unwrap_or(0);
            let Some(j) = self.jobs[job as usize].as_mut() else { break };
            let before = j.kept.at(ends, self.net.nodes).before;
            // Less than before: the target is another one since, which has ejected none of these.
            self.forget_kept(job, ends, ejected.saturating_sub(before));
            if let Some(j) = self.jobs[job as usize].as_mut() {
                j.kept.at(ends, self.net.nodes).before = ejected;
            }
        }
        if let Some(j) = self.jobs[job as usize].as_mut() {
            j.ejected.list.iter_mut().for_each(|(_, ejected)| ejected.link = NONE);
        }
        self.take_kept(job)
    }

    /// Puts packets that are in no queue back where they came from, in their old order.
    fn send_again(&mut self, mut again: Vec<u32>) {
        again.sort_by_key(|h| self.packets[*h].serial);
        for h in again {
            let p = &mut self.packets[h];
            let (src, dst, vc) = (p.src, p.dst, p.vc as usize);
            p.flags &= !(flag::OLD | flag::ADAPTIVE);
            if p.ready < self.now || p.ready == NEVER {
                p.ready = self.now + self.params.router_ps;
            }
            (p.rate, p.routers) = (rate::INTERNAL, 0);
            if self.routes.route(src, dst).is_none() {
                self.injected(h);
                self.drop_unreachable(src, h);
            } else {
                self.append(src, self.lay.injection(0, vc), h);
            }
        }
    }

    /// Fails the operations of this part whose target cannot be reached or cannot answer any more, or has not been able to
    /// for a time that this part has not noticed: their requests, or their answers, may have been lost elsewhere.
    fn fail_cut_off(&mut self, ledger: &Ledger) {
        for job in 0..self.jobs.len() as JobId {
            let mut reading = Vec::new();
            for op in self.ops.of_job(job) {
                let (Doing::Read { to, .. } | Doing::Amo { to, .. }) = self.ops[op].doing else { continue };
                let port = self.ops[op].port as usize;
                let at = self.ports[port].port;
                if !self.ops[op].answered {
                    continue;
                }
                let given_up = ((job, self.generation(job)), at, self.ops.key(op));
                let blame = match (self.reachable(at.node, to.node), self.reachable(to.node, at.node)) {
                    (true, true) if !ledger.unanswered.contains(&given_up) => continue,
                    (false, _) => self.routes.blame(at.node, to.node),
                    (true, _) => self.routes.blame(to.node, at.node),
                };
                let what = NetError::Unreachable { from: at.node, to: to.node, blame };
                self.effect(Effect::Error { at, job, what, time: self.now });
                self.fail_op(op, OpFault::Unreachable { to: to.node, blame });
                reading.push(port);
            }
            for port in reading {
                self.ports[port].reads = self.reads_under_way(job, port as u32);
            }
        }
    }

    /// Read requests of a port that are made and not answered.
    fn reads_under_way(&self, job: JobId, port: u32) -> u32 {
        let mut sum = 0;
        for op in self.ops.of_job(job).into_iter().map(|op| &self.ops[op]).filter(|o| o.port == port) {
            if let Doing::Read { .. } = op.doing {
                let received = op.len - op.to_receive;
                let made = op.done.div_ceil(READ_MAX as u32);
                sum += made - if op.to_receive == 0 { made } else { received / READ_MAX as u32 };
            }
        }
        sum
    }
}
