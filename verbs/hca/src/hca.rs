//! The adapter: all that programs ask of it.

use crate::Result;
use crate::address::{LANE_BITS, NUMBER_BITS};
use crate::completion::Completion;
use crate::core::Core;
use crate::ends::Pair;
use crate::event::Event;
use crate::handles::{Cq, Pd, Qp, Srq};
use crate::network::{Memory, Network, Peer};
use crate::numbers::ByNumber;
use crate::objects::{Armed, CompletionQueue, SharedReceiveQueue, SrqAttributes, limits};
use crate::pair::{Attributes, Init, State, Transport};
use crate::region::{Region, RegionChange, access};
use crate::request::{ReceiveRequest, SendRequest};
use crate::wire::{Head, Outcome, Packet, decode};
use rustix::io::Errno;
use std::collections::{HashSet, VecDeque};

/// Messages taken from the network at a time.
const BATCH: usize = 32;
/// Of so many looks at time limits one looks at the clock.
const LOOKS: u32 = 16;
/// The first numbers of queue pairs are those of management, which programs do not have.
const FIRST_NUMBER: u32 = 16;

/// An adapter at a network, for the memory of one process.
pub struct Hca<N, M> {
    core: Core<N, M>,
    pairs: ByNumber<Qp, Pair>,
    pds: HashSet<Pd>,
    /// Numbers given so far, of each kind: they stay invalid for long after use.
    given: Given,
    random: Box<dyn FnMut() -> u32 + Send>,
    was_up: bool,
    /// Looks at the time so far.
    looks: u32,
    /// Messages of a batch, and where each one ends.
    inbox: (Vec<u8>, Vec<(Peer, usize)>),
}

#[derive(Default)]
struct Given {
    pd: u32,
    cq: u32,
    srq: u32,
    pair: u32,
}

/// The next number that nobody has.
fn fresh(last: &mut u32, is_free: impl Fn(u32) -> bool) -> u32 {
    loop {
        *last = last.wrapping_add(1);
        if *last != 0 && is_free(*last) {
            return *last;
        }
    }
}

impl<N: Network, M: Memory> Hca<N, M> {
    /// An adapter without objects. `random` makes keys, which peers shall not guess.
    pub fn new(network: N, memory: M, random: Box<dyn FnMut() -> u32 + Send>) -> Self {
        Hca {
            was_up: network.is_up(),
            core: Core::new(network, memory),
            pairs: ByNumber::default(),
            pds: HashSet::new(),
            given: Given::default(),
            looks: 0,
            random,
            inbox: Default::default(),
        }
    }
    /// The network that it is at.
    pub fn network(&self) -> &N {
        &self.core.network
    }
    /// The same, to be changed.
    pub fn network_mut(&mut self) -> &mut N {
        &mut self.core.network
    }
    /// The program's memory.
    pub fn memory(&self) -> &M {
        &self.core.memory
    }

    /// Receives what has come, sends what can be sent, looks at time limits. True if anything was done.
    pub fn progress(&mut self) -> bool {
        let mut done = self.receive();
        done |= self.core.send_strays();
        done |= self.pump();
        self.look() || done
    }

    /// Takes a batch of messages.
    fn receive(&mut self) -> bool {
        let (mut bytes, mut ends) = std::mem::take(&mut self.inbox);
        bytes.clear();
        ends.clear();
        self.core.network.receive(BATCH, &mut |from, message| {
            bytes.extend_from_slice(message);
            ends.push((from, bytes.len()));
        });
        let mut begin = 0;
        if !ends.is_empty() {
            let now = self.core.network.now();
            self.core.heard.extend(ends.iter().map(|(from, _)| (from.seat, now)));
        }
        for (from, end) in &ends {
            self.take_message(*from, &bytes[begin..*end]);
            begin = *end;
        }
        let done = !ends.is_empty() || !self.core.local.is_empty();
        if !self.core.local.is_empty() {
            // A long read from this adapter itself is no silence, either.
            let now = self.core.network.now();
            self.core.heard.insert(self.core.network.me().seat, now);
        }
        // Those of this batch: what they cause comes with the next.
        for _ in 0..self.core.local.len() {
            if let Some(message) = self.core.local.pop_front() {
                self.take_message(self.core.network.me(), &message);
            }
        }
        self.inbox = (bytes, ends);
        done
    }

    fn take_message(&mut self, from: Peer, message: &[u8]) {
        // What is none of ours was written by somebody who writes what he likes.
        let Some((head, packet)) = decode(message) else { return };
        if let Packet::Cm { payload } = packet {
            return self.core.manager_says(from, payload);
        }
        let core = &mut self.core;
        let mut pair = self.pairs.get_mut(&Qp(head.to));
        if let Packet::Datagram { .. } = packet {
            if let Some(pair) = pair {
                pair.take_datagram(core, head, &packet);
            }
            return;
        }
        if let Some(pair) = &mut pair {
            pair.finds_peer(core);
        }
        let pair = pair.filter(|pair| {
            pair.init.transport != Transport::Ud && pair.peer == Some(from) && pair.attributes.dest_qp == head.from
        });
        if packet.is_request() {
            match pair.filter(|pair| pair.state.receives()) {
                Some(pair) => pair.take_request(core, from, head, packet),
                None if packet.begins() => {
                    let back = Head { to: head.from, from: head.to, ..head };
                    core.send_stray(from, back, &Packet::Ack(Outcome::NotReady), &[]);
                }
                None => {}
            }
            return;
        }
        // Others than reliable ones are not answered: they wait for nothing.
        match (packet, pair.filter(|pair| pair.init.transport == Transport::Rc)) {
            (Packet::Ack(outcome), Some(pair)) => pair.answered(core, head, outcome),
            (Packet::Data { part, payload }, Some(pair)) => pair.data_came(core, head, part, payload),
            (Packet::Old { word }, Some(pair)) => pair.old_came(core, head, word),
            (Packet::Go, Some(pair)) => pair.may_go(core),
            _ => {}
        }
    }

    /// Sends what queue pairs have. True if anything may have gone.
    fn pump(&mut self) -> bool {
        let due = self.core.ready.len();
        for _ in 0..due {
            let Some(qp) = self.core.ready.pop_front() else { break };
            let Some(pair) = self.pairs.get_mut(&qp) else { continue };
            pair.is_ready = false;
            let is_full = pair.pump_answers(&mut self.core) | pair.pump_sends(&mut self.core);
            if is_full {
                pair.is_due(&mut self.core);
            }
        }
        due > self.core.ready.len()
    }

    /// Looks at the time limits of those who wait, and at the node.
    fn look(&mut self) -> bool {
        // A clock takes longer than all else of a look in vain.
        self.looks = self.looks.wrapping_add(1);
        if self.core.next_look > 0 && !self.looks.is_multiple_of(LOOKS) {
            return false;
        }
        let is_up = self.core.network.is_up();
        let changed = std::mem::replace(&mut self.was_up, is_up) != is_up;
        if changed {
            self.core.events.push(Event::Port { is_up });
        }
        if self.core.next_look == u64::MAX {
            return changed;
        }
        let now = self.core.network.now();
        if now < self.core.next_look {
            return changed;
        }
        self.core.next_look = u64::MAX;
        let mut watched = std::mem::take(&mut self.core.watched);
        let mut has_failed = false;
        watched.retain(|qp| {
            let again = self.pairs.get_mut(qp).and_then(|pair| {
                let before = pair.state;
                let again = pair.look(&mut self.core, now);
                has_failed |= pair.state != before;
                again
            });
            self.core.next_look = self.core.next_look.min(again.unwrap_or(u64::MAX));
            again.is_some()
        });
        watched.append(&mut self.core.watched);
        self.core.watched = watched;
        self.pump() || changed || has_failed
    }

    /// When [`Hca::progress`] has something to do even if nothing comes: nanoseconds of [`Network::now`].
    pub fn deadline(&self) -> Option<u64> {
        let waits = !self.core.ready.is_empty() || !self.core.local.is_empty() || !self.core.strays.is_empty();
        match waits {
            true => Some(self.core.network.now()),
            false => Some(self.core.next_look).filter(|at| *at < u64::MAX),
        }
    }
    /// Something that a peer waits for has not gone yet.
    pub fn has_unsent(&self) -> bool {
        !self.core.ready.is_empty() || !self.core.strays.is_empty()
    }
    /// There are events.
    pub fn has_events(&self) -> bool {
        !self.core.events.is_empty()
    }
    /// Takes the events since the last call, in order.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.core.events)
    }
    /// Asks whether the node works at the next [`Hca::progress`].
    pub fn look_at_port(&mut self) {
        self.core.next_look = 0;
    }

    /// Makes a protection domain. `ENOMEM`: there are too many.
    pub fn alloc_pd(&mut self) -> Result<Pd> {
        if self.pds.len() >= limits::PDS {
            return Err(Errno::NOMEM);
        }
        let pd = Pd(fresh(&mut self.given.pd, |n| !self.pds.contains(&Pd(n))));
        self.pds.insert(pd);
        Ok(pd)
    }
    /// `EBUSY`: something is still in it.
    pub fn dealloc_pd(&mut self, pd: Pd) -> Result<()> {
        let is_used = self.core.regions.values().any(|region| region.pd == pd.0)
            || self.pairs.values().any(|pair| pair.init.pd == pd)
            || self.core.srqs.values().any(|srq| srq.pd == pd);
        match self.pds.contains(&pd) {
            false => Err(Errno::INVAL),
            true if is_used => Err(Errno::BUSY),
            true => {
                self.pds.remove(&pd);
                Ok(())
            }
        }
    }

    /// Registers `len` bytes at `at`, whose first one requests name as `iova`. `EINVAL`: unknown rights, or rights of peers
    /// to write without that of this adapter. `EFAULT`: not mapped, or not writable. `EOPNOTSUPP`: on demand. `ENOMEM`.
    pub fn register(&mut self, pd: Pd, at: u64, len: u64, iova: u64, access: u32) -> Result<Region> {
        self.check_region(pd, at, len, access)?;
        let reach = self.core.memory.register(at, len);
        self.add_region(pd, at, len, iova, access, reach).inspect_err(|_| self.core.memory.deregister(at, len, reach))
    }

    /// The last step of a registration: [`Hca::check_region`] was the first, and [`Memory::register`] has returned `reach`.
    /// That one takes long for much memory, and an adapter that is silent so long is given up, so callers with threads take
    /// the steps one by one.
    pub fn add_region(&mut self, pd: Pd, at: u64, len: u64, iova: u64, access: u32, reach: u64) -> Result<Region> {
        if iova.checked_add(len).is_none() || !self.pds.contains(&pd) {
            return Err(Errno::INVAL);
        }
        if self.core.regions.len() >= limits::REGIONS {
            return Err(Errno::NOMEM);
        }
        let key = loop {
            let key = (self.random)();
            if key != 0 && !self.core.regions.contains_key(&key) && self.core.network.has_place(key) {
                break key;
            }
        };
        let region = Region { key, pd: pd.0, access, at, len, iova, reach };
        self.core.regions.insert(key, region);
        self.core.network.publish_region(&region);
        Ok(region)
    }

    /// Whether memory may be registered so.
    pub fn check_region(&self, pd: Pd, at: u64, len: u64, rights: u32) -> Result<()> {
        if rights & (access::ON_DEMAND | access::MW_BIND | access::ZERO_BASED) != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        let needs_local = rights & (access::REMOTE_WRITE | access::REMOTE_ATOMIC) != 0;
        let is_wrong = rights & !access::KNOWN != 0
            || needs_local && rights & access::LOCAL_WRITE == 0
            || at.checked_add(len).is_none()
            || !self.pds.contains(&pd);
        if is_wrong {
            return Err(Errno::INVAL);
        }
        match self.core.memory.is_mapped(at, len, rights & access::LOCAL_WRITE != 0) {
            true => Ok(()),
            false => Err(Errno::FAULT),
        }
    }

    /// Changes a region, which keeps its key.
    pub fn reregister(&mut self, key: u32, change: RegionChange) -> Result<Region> {
        let old = *self.core.regions.get(&key).ok_or(Errno::INVAL)?;
        let (at, len) = change.range.unwrap_or((old.at, old.len));
        let pd = change.pd.map_or(old.pd, |pd| pd.0);
        let access = change.access.unwrap_or(old.access);
        self.check_region(Pd(pd), at, len, access)?;
        let iova = if change.range.is_some() { at } else { old.iova };
        self.core.network.withdraw_region(key);
        let reach = match change.range {
            None => old.reach,
            Some(_) => {
                self.core.memory.deregister(old.at, old.len, old.reach);
                self.core.memory.register(at, len)
            }
        };
        let region = Region { key, pd, access, at, len, iova, reach };
        self.core.lost_regions += 1;
        self.core.regions.insert(key, region);
        self.core.network.publish_region(&region);
        Ok(region)
    }
    /// The region is gone when this returns: nothing is written there any more.
    pub fn deregister(&mut self, key: u32) -> Result<()> {
        let Region { at, len, reach, .. } = self.remove_region(key)?;
        self.core.memory.deregister(at, len, reach);
        Ok(())
    }

    /// The same, but [`Memory::deregister`] is left to the caller.
    pub fn remove_region(&mut self, key: u32) -> Result<Region> {
        let region = self.core.regions.remove(&key).ok_or(Errno::INVAL)?;
        self.core.lost_regions += 1;
        self.core.network.withdraw_region(key);
        Ok(region)
    }

    /// Makes a completion queue for at least `capacity` entries, whose events go to `channel`. `EINVAL`, `ENOMEM`.
    pub fn create_cq(&mut self, capacity: u32, channel: Option<u64>) -> Result<Cq> {
        if !(1..=limits::CQ_ENTRIES).contains(&capacity) {
            return Err(Errno::INVAL);
        }
        if self.core.cqs.len() >= limits::CQS {
            return Err(Errno::NOMEM);
        }
        let cq = Cq(fresh(&mut self.given.cq, |n| !self.core.cqs.contains_key(&Cq(n))));
        let queue = CompletionQueue {
            // What libraries ask for is often a thousand times what they use.
            entries: VecDeque::new(),
            capacity,
            channel,
            armed: Armed::No,
            overrun: false,
            users: 0,
        };
        self.core.cqs.insert(cq, queue);
        Ok(cq)
    }
    /// `EINVAL`: it has more entries.
    pub fn resize_cq(&mut self, cq: Cq, capacity: u32) -> Result<()> {
        let queue = self.core.cqs.get_mut(&cq).ok_or(Errno::INVAL)?;
        if !(1..=limits::CQ_ENTRIES).contains(&capacity) || queue.entries.len() > capacity as usize {
            return Err(Errno::INVAL);
        }
        queue.capacity = capacity;
        Ok(())
    }
    /// `EBUSY`: queue pairs use it.
    pub fn destroy_cq(&mut self, cq: Cq) -> Result<()> {
        match self.core.cqs.get(&cq) {
            None => Err(Errno::INVAL),
            Some(queue) if queue.users > 0 => Err(Errno::BUSY),
            Some(queue) => {
                self.core.armed -= u32::from(queue.armed != Armed::No);
                self.core.cqs.remove(&cq);
                Ok(())
            }
        }
    }
    /// Takes at most `most` completions, in order, after a look at the network if there are none. Returns how many.
    pub fn poll(&mut self, cq: Cq, most: usize, take: &mut dyn FnMut(&Completion)) -> Result<usize> {
        let taken = self.take_completions(cq, most, take)?;
        if taken > 0 || most == 0 {
            return Ok(taken);
        }
        self.progress();
        self.take_completions(cq, most, take)
    }

    fn take_completions(&mut self, cq: Cq, most: usize, take: &mut dyn FnMut(&Completion)) -> Result<usize> {
        let queue = self.core.cqs.get_mut(&cq).ok_or(Errno::INVAL)?;
        let mut taken = 0;
        while taken < most
            && let Some(entry) = queue.entries.pop_front()
        {
            if entry.frees > 0
                && let Some(pair) = self.pairs.get_mut(&Qp(entry.completion.qp))
            {
                pair.sends.frees(entry.frees);
            }
            take(&entry.completion);
            taken += 1;
        }
        Ok(taken)
    }

    /// The next completion makes an event; with `solicited` one that its sender asked for, or one that failed.
    pub fn arm(&mut self, cq: Cq, solicited: bool) -> Result<()> {
        let queue = self.core.cqs.get_mut(&cq).ok_or(Errno::INVAL)?;
        self.core.armed += u32::from(queue.armed == Armed::No);
        // Who waits for any waits for solicited ones, too.
        if queue.armed != Armed::Any {
            queue.armed = if solicited { Armed::Solicited } else { Armed::Any };
        }
        Ok(())
    }

    /// Some completion queue is armed: somebody may sleep until it has something.
    pub fn is_armed(&self) -> bool {
        self.core.armed > 0
    }

    /// Makes a shared receive queue. `EINVAL`, `ENOMEM`.
    pub fn create_srq(&mut self, pd: Pd, attributes: SrqAttributes) -> Result<Srq> {
        let SrqAttributes { wr, sge, .. } = attributes;
        if !(1..=limits::REQUESTS).contains(&wr) || sge > limits::ELEMENTS || !self.pds.contains(&pd) {
            return Err(Errno::INVAL);
        }
        if self.core.srqs.len() >= limits::SRQS {
            return Err(Errno::NOMEM);
        }
        let srq = Srq(fresh(&mut self.given.srq, |n| !self.core.srqs.contains_key(&Srq(n))));
        // A limit is armed by a change alone.
        let attributes = SrqAttributes { limit: 0, sge: sge.max(1), wr };
        let queue = SharedReceiveQueue { pd, attributes, requests: VecDeque::new(), users: 0, starved: Vec::new() };
        self.core.srqs.insert(srq, queue);
        Ok(srq)
    }
    /// Sets its limit, or its size. `EINVAL`.
    pub fn modify_srq(&mut self, srq: Srq, wr: Option<u32>, limit: Option<u32>) -> Result<()> {
        let queue = self.core.srqs.get_mut(&srq).ok_or(Errno::INVAL)?;
        let size = wr.unwrap_or(queue.attributes.wr);
        let fits = (1..=limits::REQUESTS).contains(&size) && queue.requests.len() <= size as usize;
        if !fits || limit.is_some_and(|limit| limit > size) {
            return Err(Errno::INVAL);
        }
        queue.attributes.wr = size;
        if let Some(limit) = limit {
            queue.attributes.limit = limit;
            if limit > 0 && queue.requests.len() < limit as usize {
                queue.attributes.limit = 0;
                self.core.events.push(Event::SrqLimit(srq));
            }
        }
        Ok(())
    }
    /// Its sizes and limit.
    pub fn query_srq(&self, srq: Srq) -> Result<SrqAttributes> {
        self.core.srqs.get(&srq).map(|queue| queue.attributes).ok_or(Errno::INVAL)
    }
    /// `EBUSY`: queue pairs use it.
    pub fn destroy_srq(&mut self, srq: Srq) -> Result<()> {
        match self.core.srqs.get(&srq) {
            None => Err(Errno::INVAL),
            Some(queue) if queue.users > 0 => Err(Errno::BUSY),
            Some(_) => {
                self.core.srqs.remove(&srq);
                Ok(())
            }
        }
    }
    /// `ENOMEM`: it is full. `EINVAL`: too many elements.
    pub fn post_srq_receive(&mut self, srq: Srq, request: ReceiveRequest) -> Result<()> {
        let queue = self.core.srqs.get_mut(&srq).ok_or(Errno::INVAL)?;
        if request.elements.len() > queue.attributes.sge as usize {
            return Err(Errno::INVAL);
        }
        if queue.requests.len() >= queue.attributes.wr as usize {
            return Err(Errno::NOMEM);
        }
        queue.requests.push_back(request);
        for qp in std::mem::take(&mut queue.starved) {
            if let Some(pair) = self.pairs.get_mut(&qp) {
                pair.has_receives(&mut self.core);
            }
        }
        self.pump();
        Ok(())
    }

    /// Makes a queue pair, whose sizes are as asked for, or more. `EINVAL`, `ENOMEM`.
    pub fn create_qp(&mut self, mut init: Init) -> Result<Qp> {
        // There are programs that have asked for none, and rely on a few.
        init.caps.inline_data = init.caps.inline_data.max(limits::INLINE_LEAST);
        let caps = &init.caps;
        let is_too_much = caps.send_wr > limits::REQUESTS
            || caps.recv_wr > limits::REQUESTS
            || caps.send_sge > limits::ELEMENTS
            || caps.recv_sge > limits::ELEMENTS
            || caps.inline_data > limits::INLINE;
        let has_all = self.pds.contains(&init.pd)
            && self.core.cqs.contains_key(&init.send_cq)
            && self.core.cqs.contains_key(&init.recv_cq)
            && init.srq.is_none_or(|srq| self.core.srqs.contains_key(&srq));
        if is_too_much || !has_all {
            return Err(Errno::INVAL);
        }
        if self.pairs.len() >= limits::PAIRS {
            return Err(Errno::NOMEM);
        }
        let lane = self.core.network.lane();
        let most = 1 << (NUMBER_BITS - LANE_BITS);
        let number = |n: u32| (n % most) << LANE_BITS | lane;
        let is_free = |n: u32| number(n) >= FIRST_NUMBER && !self.pairs.contains_key(&Qp(number(n)));
        let qp = Qp(number(fresh(&mut self.given.pair, is_free)));
        for cq in [init.send_cq, init.recv_cq] {
            if let Some(queue) = self.core.cqs.get_mut(&cq) {
                queue.users += 1;
            }
        }
        if let Some(queue) = init.srq.and_then(|srq| self.core.srqs.get_mut(&srq)) {
            queue.users += 1;
        }
        self.pairs.insert(qp, Pair::new(qp, init));
        Ok(qp)
    }
    /// Changes attributes, and the state if the mask says so: [`crate::mask`]. `EINVAL`: not from that state, or not with
    /// these attributes.
    pub fn modify_qp(&mut self, qp: Qp, mask: u32, to: &Attributes) -> Result<()> {
        self.pairs.get_mut(&qp).ok_or(Errno::INVAL)?.modify(&mut self.core, mask, to)?;
        self.pump();
        Ok(())
    }
    /// All attributes as they are now, and what it was made of.
    pub fn query_qp(&self, qp: Qp) -> Result<(Attributes, Init)> {
        let pair = self.pairs.get(&qp).ok_or(Errno::INVAL)?;
        let state = pair.state as u32;
        let sq_draining = pair.state == State::Sqd && pair.sends.is_draining();
        Ok((Attributes { state, cur_state: state, sq_draining, ..pair.attributes }, pair.init))
    }
    /// Ends a queue pair; what completion queues have of it is gone, too.
    pub fn destroy_qp(&mut self, qp: Qp) -> Result<()> {
        let pair = self.pairs.remove(&qp).ok_or(Errno::INVAL)?;
        self.core.network.withdraw_pair(qp.0);
        pair.forget_completions(&mut self.core);
        for cq in [pair.init.send_cq, pair.init.recv_cq] {
            if let Some(queue) = self.core.cqs.get_mut(&cq) {
                queue.users -= 1;
            }
        }
        if let Some(queue) = pair.init.srq.and_then(|srq| self.core.srqs.get_mut(&srq)) {
            queue.users -= 1;
        }
        Ok(())
    }
    /// `EINVAL`: not in this state, or not with this service. `ENOMEM`: the send queue is full.
    pub fn post_send(&mut self, qp: Qp, request: SendRequest) -> Result<()> {
        self.pairs.get_mut(&qp).ok_or(Errno::INVAL)?.post_sends(&mut self.core, [request])?;
        self.pump();
        Ok(())
    }
    /// The same for several: all of them are posted, or none.
    pub fn post_sends(&mut self, qp: Qp, requests: Vec<SendRequest>) -> Result<()> {
        self.pairs.get_mut(&qp).ok_or(Errno::INVAL)?.post_sends(&mut self.core, requests)?;
        self.pump();
        Ok(())
    }
    /// `EINVAL`: not in this state, or too many elements. `ENOMEM`: the receive queue is full.
    pub fn post_receive(&mut self, qp: Qp, request: ReceiveRequest) -> Result<()> {
        let pair = self.pairs.get_mut(&qp).ok_or(Errno::INVAL)?;
        let caps = &pair.init.caps;
        if pair.state == State::Reset || pair.init.srq.is_some() || request.elements.len() > caps.recv_sge as usize {
            return Err(Errno::INVAL);
        }
        if pair.receives.len() >= caps.recv_wr as usize {
            return Err(Errno::NOMEM);
        }
        pair.receives.push_back(request);
        if pair.state == State::Error {
            pair.flush_receives(&mut self.core);
        }
        pair.has_receives(&mut self.core);
        self.pump();
        Ok(())
    }

    /// Sends a message to the connection manager of another adapter, now or when there is room.
    pub fn send_cm(&mut self, to: Peer, bytes: &[u8]) {
        let head = Head { to: 0, from: 0, number: 0, attempt: 0 };
        self.core.send_stray(to, head, &Packet::Cm { payload: &[] }, bytes);
    }
}
