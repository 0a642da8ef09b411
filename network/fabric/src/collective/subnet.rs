//! Moving collective packets: what a router does with each kind, credits, results.

use super::reducer::{Slot, combine};
use super::state::{CREDIT_EVERY, Finished, Member, TELL_CYCLES, TELL_EVERY, Tree, Trees, ports_at};
use super::tree::{TreeError, TreeRows, validate};
use crate::adapter::Adapters;
use crate::chip::EventKind;
use crate::chip::layout::{OUT_EJECT, Q_CREDIT, Q_INJECT};
use crate::op::Op;
use crate::packet::{Detail, NO_OP, Packet, PacketHandle, flag, rate};
use crate::routes::NONE;
use crate::types::*;
use angara_abi::packet::{PacketType, Vc};
use angara_abi::{REDUCES, TREES};
use angara_net::torus::NodeId;
use std::collections::{BTreeMap, VecDeque};

const UP: usize = Vc::Up as usize;
const DOWN: usize = Vc::Down as usize;

impl Trees {
    /// Writes a tree into the tables of its nodes, after checking it.
    pub(crate) fn load_tree(
        &mut self,
        host: &mut Adapters,
        tree: u8,
        job: JobSlot,
        rows: &TreeRows,
    ) -> Result<(), TreeError> {
        let id = tree as usize;
        if id >= TREES {
            return Err(TreeError::NoTree(tree));
        }
        if let Some(t) = &self.loaded[id] {
            return Err(TreeError::Loaded(tree, t.job));
        }
        validate(&host.chip.net.shape, rows)?;
        for (node, row) in &rows.rows {
            let up = row.to_root.map(|dir| Link { node: *node, dir });
            if let Some(link) = up.filter(|l| !host.chip.routes.link_up(*l)) {
                return Err(TreeError::DeadLink(link));
            }
        }
        let ours = |p: &Port| host.port_index(*p).filter(|i| host.ports[*i].job == job);
        if let Some(port) = rows.ports.iter().find(|p| ours(p).is_none()) {
            return Err(TreeError::NotInJob(*port));
        }
        let mut here: BTreeMap<NodeId, Vec<Port>> = BTreeMap::new();
        rows.ports.iter().for_each(|p| here.entry(p.node).or_default().push(*p));
        let mut members = BTreeMap::new();
        for (node, row) in &rows.rows {
            let mut ports = here.remove(node).unwrap_or_default();
            ports.sort_unstable();
            let member = Member {
                row: *row,
                ports: ports.iter().filter_map(ours).map(|i| (i as u32, 0)).collect(),
                slots: vec![Slot::EMPTY; REDUCES],
                emitted: 0,
                window: if row.is_root { u64::MAX } else { REDUCES as u64 },
                pending: Default::default(),
                done: 0,
                repeated: 0,
                told: 0,
                bcasts: 0,
                casts: 0,
            };
            members.insert(*node, member);
        }
        self.generations[id] += 1;
        self.loaded[id] = Some(Box::new(Tree { job, rows: rows.clone(), members }));
        Ok(())
    }

    /// Takes a tree out of the tables. Its packets are discarded, operations on it fail.
    pub(crate) fn unload_tree(&mut self, host: &mut Adapters, tree: u8) {
        let Some(gone) = self.loaded.get_mut(tree as usize).and_then(Option::take) else { return };
        self.generations[tree as usize] += 1;
        for slot in gone.members.values().flat_map(|m| &m.slots) {
            if slot.packet.is_some() {
                host.chip.free_packet(slot.packet);
            }
        }
        for h in host.chip.packets.handles() {
            let p = &host.chip.packets[h];
            let of_tree = matches!(p.detail, Detail::Tree { tree: t, .. } if t == tree);
            if of_tree && p.is_queued() && host.chip.lay.vc(p.queue as usize) >= UP {
                self.detach(host, h);
                host.chip.unlink(h);
                host.chip.free_packet(h);
            }
        }
        // Contributions that waited for a slot find out that the tree has gone.
        for (port, _) in gone.members.values().flat_map(|m| &m.ports) {
            host.schedule_pump(*port as usize, host.chip.now);
        }
    }

    /// The rows of a loaded tree.
    pub(crate) fn tree(&self, tree: u8) -> Option<&TreeRows> {
        self.loaded.get(tree as usize)?.as_ref().map(|t| &t.rows)
    }

    /// Results sent and broadcasts delivered by a node on a tree, as its CSRs show them.
    pub(crate) fn tree_counters(&self, tree: u8, node: NodeId) -> (u64, u64) {
        let member = self.loaded.get(tree as usize).and_then(Option::as_ref).and_then(|t| t.members.get(&node));
        member.map_or((0, 0), |m| (m.emitted, m.bcasts))
    }

    pub(crate) fn unload_trees_of(&mut self, host: &mut Adapters, job: JobSlot) {
        for tree in 0..TREES {
            if self.loaded[tree].as_ref().is_some_and(|t| t.job == job) {
                self.unload_tree(host, tree as u8);
            }
        }
    }

    /// Moves the trees that use what has just failed to other links. One that cannot be moved is
    /// unloaded, and its participants are told.
    pub(crate) fn break_trees(&mut self, host: &mut Adapters, outage: Outage) {
        for tree in 0..TREES as u8 {
            let Some(t) = &self.loaded[tree as usize] else { continue };
            let cut = t.rows.rows.iter().any(|(node, row)| {
                !host.chip.routes.node_up(*node)
                    || row.to_root.is_some_and(|dir| !host.chip.routes.link_up(Link { node: *node, dir }))
            });
            if !cut || self.relocate_tree(host, tree) {
                continue;
            }
            let Some(t) = &self.loaded[tree as usize] else { continue };
            let (job, ports) = (t.job, t.rows.ports.clone());
            self.unload_tree(host, tree);
            for at in ports {
                if !host.chip.owned[at.node as usize] {
                    continue;
                }
                let what = NetError::TreeDown { tree, outage };
                host.effect(Effect::Error { at, job, what, time: host.chip.now });
            }
        }
    }

    pub(crate) fn check_tree(&self, host: &Adapters, tree: u8, job: JobSlot, from: Port) -> Result<(), InjectError> {
        let loaded = self.loaded.get(tree as usize).and_then(Option::as_ref);
        let port = host.port_index(from).unwrap_or(usize::MAX) as u32;
        let here = |t: &Tree| t.members.get(&from.node).is_some_and(|m| m.ports.iter().any(|p| p.0 == port));
        if loaded.is_some_and(|t| t.job == job && here(t)) { Ok(()) } else { Err(InjectError::NoTree(tree)) }
    }

    /// Turns a posted reduction or broadcast into a packet. False if it must wait.
    pub(crate) fn step_tree(&mut self, host: &mut Adapters, port: usize, op: u32) -> bool {
        let node = host.ports[port].port.node;
        let (Op::Reduce { tree, source, .. } | Op::Bcast { tree, source, .. }) = host.ops[op].doing else {
            unreachable!("caller matched")
        };
        let Some(member) = self.member(tree, node) else {
            host.give_up(op, OpFault::NoTree(tree));
            return true;
        };
        let root = member.row.is_root;
        let emitted = member.emitted;
        let mut p;
        match host.ops[op].doing {
            Op::Reduce { reduce, op: rop, elem, to, place, .. } => {
                let Some(made) = member.ports.iter_mut().find(|m| m.0 == port as u32).map(|m| &mut m.1) else {
                    host.give_up(op, OpFault::NoTree(tree));
                    return true;
                };
                let expected = (*made % REDUCES as u64) as u8;
                if reduce != expected {
                    let what = NetError::ReduceOrder { tree, got: reduce, expected };
                    let (at, job) = (host.ports[port].port, host.ports[port].job);
                    host.effect(Effect::Error { at, job, what, time: host.chip.now });
                    host.give_up(op, OpFault::ReduceOrder { got: reduce, expected });
                    return true;
                }
                if *made >= emitted + REDUCES as u64 {
                    return false; // its slot here is still in use
                }
                *made += 1;
                let to_port = to.unwrap_or(host.ports[port].port);
                p = host.packet_of(port, op, PacketType::Reduce, to_port, place);
                p.flags |= if to.is_none() { flag::ALL } else { 0 };
                p.vc = UP as u8;
                p.detail = self.tree_detail(tree, reduce, rop, elem);
            }
            Op::Bcast { place, .. } => {
                member.casts += 1;
                let kind = if root { PacketType::BcastDown } else { PacketType::BcastUp };
                p = host.packet_of(port, op, kind, host.ports[port].port, place);
                p.vc = if root { DOWN } else { UP } as u8;
                p.detail =
                    self.tree_detail(tree, 0, angara_abi::packet::ReduceOp::Sum, angara_abi::packet::ReduceElem::I32);
            }
            other => unreachable!("{other:?} has no tree"),
        }
        p.class = angara_abi::account::Class::Sync as u8;
        let len = host.ops[op].len;
        host.fill(&mut p, op, len as u16, source.is_some());
        host.ops[op].done = len;
        host.stage(port, p, source);
        true
    }

    fn tree_detail(
        &self,
        tree: u8,
        reduce: u8,
        op: angara_abi::packet::ReduceOp,
        elem: angara_abi::packet::ReduceElem,
    ) -> Detail {
        Detail::Tree { tree, reduce, op, elem, generation: self.generation(tree) }
    }

    /// A packet stops belonging to the port that posted it: from here on the subnet owns it.
    fn detach(&mut self, host: &mut Adapters, h: PacketHandle) {
        if let Some(packet) = host.chip.injected(h) {
            host.injected(packet);
        }
        let port = std::mem::replace(&mut host.chip.packets[h].port, NONE);
        if port != NONE && !host.chip.packets[h].is(flag::DEAD | flag::FOREIGN) {
            host.ports[port as usize].outstanding -= 1;
            host.schedule_pump(port as usize, host.chip.now);
        }
        host.chip.packets[h].op = NO_OP;
    }

    /// A collective packet is whole at the front of a queue: its outputs, or it is consumed.
    pub(crate) fn tree_head(&mut self, host: &mut Adapters, node: u32, queue: usize, h: PacketHandle) -> Option<u16> {
        if (Q_INJECT..Q_CREDIT).contains(&queue) {
            self.detach(host, h);
        }
        let p = host.chip.packets[h];
        let Detail::Tree { tree, generation, .. } = p.detail else {
            if p.kind == PacketType::CollCredit && queue == Q_CREDIT {
                return Some(1 << OUT_EJECT);
            }
            host.chip.discard_front(node, queue);
            return None;
        };
        let current = self.generation(tree) == generation;
        let Some(row) = self.member(tree, node).filter(|_| current).map(|m| m.row) else {
            host.chip.discard_front(node, queue);
            return None;
        };
        let up = row.to_root.map_or(0, |d| 1u16 << d.index());
        match p.kind {
            PacketType::Reduce if p.is(flag::RESULT) && host.chip.lay.dir(queue).is_none() => Some(up),
            PacketType::Reduce => {
                host.chip.pop(node, queue, host.chip.now);
                self.reduce(host, node, tree, h);
                None
            }
            PacketType::BcastUp if !row.is_root => Some(up),
            PacketType::BcastUp => {
                host.chip.pop(node, queue, host.chip.now);
                host.chip.packets[h].kind = PacketType::BcastDown;
                self.pass(host, node, DOWN, h);
                None
            }
            PacketType::BcastDown => {
                let here = if row.contributors > 0 { 1 << OUT_EJECT } else { 0 };
                let want = row.down as u16 | here;
                if want == 0 {
                    host.chip.discard_front(node, queue);
                    return None;
                }
                Some(want)
            }
            PacketType::CollCredit if queue == Q_CREDIT => Some(row.down as u16),
            _ => {
                host.chip.discard_front(node, queue);
                if let Some(m) = self.member(tree, node) {
                    m.window = m.window.saturating_add(CREDIT_EVERY);
                }
                self.emit_ready(host, node, tree);
                None
            }
        }
    }

    /// Puts a packet of the subnet into the node's own queue of a channel, without the host interface.
    fn pass(&mut self, host: &mut Adapters, node: u32, vc: usize, h: PacketHandle) {
        let p = &mut host.chip.packets[h];
        p.vc = vc as u8;
        p.rate = rate::PORT;
        p.ready = host.chip.now;
        host.chip.append(node, Q_INJECT + vc, h);
    }

    /// The Reducer takes a contribution.
    fn reduce(&mut self, host: &mut Adapters, node: u32, tree: u8, h: PacketHandle) {
        let p = host.chip.packets[h];
        host.chip.packets[h].flags &= !flag::RESULT;
        let Detail::Tree { reduce, op, elem, .. } = p.detail else { return host.chip.free_packet(h) };
        let Some(member) = self.member(tree, node) else { return host.chip.free_packet(h) };
        let expected = member.row.expected();
        let slot = &mut member.slots[reduce as usize];
        if slot.count == 0 {
            slot.packet = h;
        } else {
            let first = host.chip.packets[slot.packet];
            let receiver = |p: &Packet| (p.is(flag::ALL), (!p.is(flag::ALL)).then_some((p.dst, p.dst_ep)));
            let same = first.bytes == p.bytes
                && first.detail == p.detail
                && receiver(&first) == receiver(&p)
                && first.place() == p.place()
                && !slot.complete;
            if !same {
                let held = std::mem::replace(slot, Slot::EMPTY).packet;
                host.chip.free_packet(held);
                host.chip.free_packet(h);
                return self.mismatch(host, node, tree, reduce);
            }
            if host.chip.carry {
                let data = *host.chip.payloads.get_mut(p.payload);
                let acc = host.chip.payloads.get_mut(first.payload);
                combine(op, elem, &mut acc[..p.bytes as usize], &data[..p.bytes as usize]);
            }
            host.chip.free_packet(h);
        }
        let Some(member) = self.member(tree, node) else { return };
        let slot = &mut member.slots[reduce as usize];
        slot.count += 1;
        slot.complete = slot.count == expected;
        if slot.complete {
            self.emit_ready(host, node, tree);
        }
    }

    fn mismatch(&mut self, host: &mut Adapters, node: u32, tree: u8, reduce: u8) {
        let Some(t) = &self.loaded[tree as usize] else { return };
        let (job, all) = (t.job, t.rows.ports.clone());
        let here = ports_at(&all, node);
        let told = if here.is_empty() { all[..1].to_vec() } else { here };
        for at in told {
            let what = NetError::ReduceMismatch { tree, reduce, node };
            host.effect(Effect::Error { at, job, what, time: host.chip.now });
        }
    }

    /// Sends on every reduction that is complete, in sequence, as far as the parent's credits go.
    pub(super) fn emit_ready(&mut self, host: &mut Adapters, node: u32, tree: u8) {
        loop {
            let Some(m) = self.member(tree, node) else { return };
            let reduce = (m.emitted % REDUCES as u64) as usize;
            if !m.slots[reduce].complete || m.emitted >= m.window {
                return;
            }
            let h = std::mem::replace(&mut m.slots[reduce], Slot::EMPTY).packet;
            let (row, emitted) = (m.row, m.emitted + 1);
            m.emitted = emitted;
            let p = host.chip.packets[h];
            let comes_here = p.is(flag::ALL) || p.dst == node;
            m.pending.push_back((reduce as u8, !comes_here));
            if m.ports.is_empty() {
                m.pending.clear();
            }
            let ports: Vec<u32> = m.ports.iter().map(|p| p.0).collect();
            self.emit(host, node, h, row.is_root);
            if row.down != 0 && emitted.is_multiple_of(CREDIT_EVERY) {
                self.send_credit(host, node, tree, p.job);
            }
            self.advance_done(node, tree);
            if !ports.is_empty() {
                self.count_result(host, node);
            }
            ports.into_iter().for_each(|port| host.schedule_pump(port as usize, host.chip.now));
        }
    }

    /// A finished reduction leaves: up, as a broadcast, or straight to its receiver.
    fn emit(&mut self, host: &mut Adapters, node: u32, h: PacketHandle, root: bool) {
        let p = &mut host.chip.packets[h];
        p.src = node;
        if !root {
            p.flags |= flag::RESULT;
            return self.pass(host, node, UP, h);
        }
        if p.is(flag::ALL) {
            p.kind = PacketType::BcastDown;
            return self.pass(host, node, DOWN, h);
        }
        p.kind = PacketType::Write;
        p.flags |= flag::RESULT | flag::LAST;
        self.pass(host, node, Vc::Request as usize, h);
    }

    /// Tells the children that eight more reductions fit.
    fn send_credit(&mut self, host: &mut Adapters, node: u32, tree: u8, job: JobSlot) {
        let mut p = Packet::new(PacketType::CollCredit);
        (p.src, p.dst, p.job, p.flits) = (node, node, job, 3);
        p.vc = DOWN as u8;
        p.ready = host.chip.now;
        p.detail = self.tree_detail(tree, 0, angara_abi::packet::ReduceOp::Sum, angara_abi::packet::ReduceElem::I32);
        let h = host.chip.packets.alloc(p);
        host.chip.append(node, Q_CREDIT, h);
    }

    /// Counts reductions whose results are where they belong.
    fn advance_done(&mut self, node: u32, tree: u8) {
        let Some(m) = self.member(tree, node) else { return };
        while let Some((_, true)) = m.pending.front() {
            m.pending.pop_front();
            m.count_done();
        }
    }

    /// A result has left the node: the processor hears of it by a credit after 128 results over all
    /// trees, or 4096 cycles after the first it has not heard of.
    fn count_result(&mut self, host: &mut Adapters, node: u32) {
        let at = host.chip.now + TELL_CYCLES * host.chip.params.cycle_ps;
        let known = self.timers.contains_key(&node);
        let timer = self.timers.entry(node).or_insert((at, 0));
        timer.1 += 1;
        if timer.1 >= TELL_EVERY {
            self.credit_processor(host, node);
        } else if !known {
            host.chip.events.push(at, EventKind::TreeTimer, node, 0);
        }
    }

    /// [`EventKind::TreeTimer`]: 4096 cycles have passed since the first result not told of.
    pub(crate) fn on_tree_timer(&mut self, host: &mut Adapters, node: u32) {
        if self.timers.get(&node).is_some_and(|t| t.0 <= host.chip.now) {
            self.credit_processor(host, node);
        }
    }

    /// Sends the processor the sixteen counters of finished reductions, through the Broadcaster.
    fn credit_processor(&mut self, host: &mut Adapters, node: u32) {
        self.timers.remove(&node);
        let counters = self.finished_at(node);
        self.credits.entry(node).or_default().push_back(counters);
        let mut p = Packet::new(PacketType::CollCredit);
        (p.src, p.dst, p.job, p.flits) = (node, node, JobSlot::NONE, 4);
        p.vc = DOWN as u8;
        p.ready = host.chip.now;
        let h = host.chip.packets.alloc(p);
        host.chip.append(node, Q_CREDIT, h);
    }

    /// How many reductions are finished at a node, by tree.
    fn finished_at(&self, node: u32) -> Finished {
        let at = |tree: usize| Some(self.loaded[tree].as_ref()?.members.get(&node)?.done);
        let of = |tree: usize| Some((tree as u8, self.generations[tree], at(tree)?));
        (0..TREES).filter_map(of).collect()
    }

    /// A credit has reached the processor: the participants of the node see its counters.
    pub(crate) fn processor_credited(&mut self, host: &mut Adapters, node: u32) {
        if let Some(counters) = self.credits.get_mut(&node).and_then(VecDeque::pop_front) {
            self.tell_processor(host, node, counters);
        }
    }

    pub(super) fn tell_processor(&mut self, host: &mut Adapters, node: u32, counters: Finished) {
        for (tree, generation, count) in counters {
            let current = self.generation(tree) == generation;
            let Some(job) = self.loaded[tree as usize].as_ref().map(|t| t.job) else { continue };
            let Some(m) = self.member(tree, node).filter(|m| current && count > m.told) else { continue };
            m.told = count;
            let ports = m.ports.clone();
            for (port, _) in ports {
                let at = host.ports[port as usize].port;
                host.effect(Effect::TreeCredit { at, job, tree, count, time: host.chip.now });
            }
        }
    }

    /// A broadcast or the result of an all-reduce has reached the host.
    pub(crate) fn tree_delivered(&mut self, host: &mut Adapters, node: u32, h: PacketHandle) {
        let p = host.chip.packets[h];
        let Detail::Tree { tree, reduce, generation, .. } = p.detail else { return host.chip.free_packet(h) };
        let bcast = !p.is(flag::ALL);
        let current = self.generation(tree) == generation;
        let Some(m) = self.member(tree, node).filter(|_| current) else { return host.chip.free_packet(h) };
        let count = if bcast {
            m.bcasts += 1;
            m.bcasts
        } else {
            m.told = mark_done(m, reduce);
            m.told
        };
        let ports = m.ports.clone();
        for (port, _) in ports {
            let at = host.ports[port as usize].port;
            host.chip.payloads.retain(p.payload);
            let data = PayloadRef { slot: p.payload, len: p.bytes };
            let (job, place, time) = (p.job, p.place(), host.chip.now);
            host.effect(Effect::TreeResult { at, job, tree, place, data, bcast, count, time });
        }
        host.chip.free_packet(h);
    }

    /// The result of a reduction to one node has reached that node's host.
    pub(crate) fn tree_result_arrived(&mut self, host: &mut Adapters, h: PacketHandle) {
        let p = host.chip.packets[h];
        let at = Port { node: p.dst, endpoint: p.dst_ep };
        let data = PayloadRef { slot: p.payload, len: p.bytes };
        let (job, place, time) = (p.job, p.place(), host.chip.now);
        let port = host.port_index(at).map_or(NONE, |i| i as u32);
        host.chip.packets.free(h); // the payload now belongs to the effect
        if let Detail::Tree { tree, reduce, generation, .. } = p.detail {
            let current = self.generation(tree) == generation;
            if let Some(m) = self.member(tree, p.dst).filter(|_| current) {
                let count = mark_done(m, reduce);
                let participant = m.ports.iter().any(|x| x.0 == port);
                if participant && m.ports.len() == 1 {
                    m.told = count;
                }
                if participant {
                    host.effect(Effect::TreeResult { at, job, tree, place, data, bcast: false, count, time });
                } else {
                    host.effect(Effect::Write { at, job, place, data, time, last: true, cause: None });
                }
                let counters = self.finished_at(p.dst);
                return self.tell_processor(host, p.dst, counters); // the other participants of this node
            }
        }
        host.effect(Effect::Write { at, job, place, data, time, last: true, cause: None });
    }
}

/// Marks a reduction's result as arrived and returns how many are finished in sequence.
fn mark_done(m: &mut Member, reduce: u8) -> u64 {
    if let Some(entry) = m.pending.iter_mut().find(|e| e.0 == reduce && !e.1) {
        entry.1 = true;
    }
    while let Some((_, true)) = m.pending.front() {
        m.pending.pop_front();
        m.count_done();
    }
    m.done
}
