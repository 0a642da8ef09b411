//! One part of a network, in a process of its own; the other parts are in others.

use crate::engine::Engine;
use crate::parallel::{AnyPart, Exchange, PartsError, Sent, run};
use crate::peers::Peers;
use crate::waits::Waits;
use angara_fabric::Tick;
use angara_fabric::raw::{Delivery, Inconsistent, Injection, LinkLoad, Lost, Packed, Totals, TraceEvent};
use std::collections::VecDeque;
use std::sync::Arc;

/// Who simulates a network.
#[derive(Clone)]
pub(crate) enum Crew {
    /// N threads of this process.
    Threads(usize),
    /// This process, its part alone, and others.
    Processes(Arc<dyn Peers>),
}

impl Crew {
    /// Parts of a network that can be cut into `most` at most. There may be fewer parts than threads.
    ///
    /// # Errors
    /// There are more processes.
    pub(crate) fn parts(&self, most: usize) -> Result<usize, PartsError> {
        match self {
            Crew::Threads(threads) => Ok((*threads).clamp(1, most)),
            Crew::Processes(peers) if peers.count() > most => Err(PartsError::Processes(peers.count(), most)),
            Crew::Processes(peers) => Ok(peers.count()),
        }
    }
}

/// Mail between this part and those it touches, as bytes.
struct Mail {
    peers: Arc<dyn Peers>,
    /// Parts joined to this one by links.
    near: Vec<usize>,
    out: Vec<Vec<u8>>,
    into: Vec<Vec<u8>>,
}

impl<M: Packed> Exchange<M> for Mail {
    fn post(&mut self, other: usize, messages: &mut Vec<(Tick, M)>) {
        let slot = self.near.iter().position(|&part| part == other).expect("mail is for parts joined by links");
        let out = &mut self.out[slot];
        for (due, message) in messages.drain(..) {
            due.pack(out);
            message.pack(out);
        }
    }
    fn agree(&mut self, earliest: Tick) -> Tick {
        self.peers.swap(&self.near, &self.out, &mut self.into);
        self.out.iter_mut().for_each(Vec::clear);
        self.peers.least(earliest)
    }
    fn take(&mut self, accept: &mut dyn FnMut(Tick, M)) {
        for bytes in &self.into {
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let message = u64::unpack(&mut rest).and_then(|due| Some((due, M::unpack(&mut rest)?)));
                let (due, message) = message.expect("all processes run the same program");
                accept(due, message);
            }
        }
    }
}

/// The engine of one part. Counters, deliveries and loads are those of this part alone; how far time has come and
/// whether anything is under way is agreed among all.
pub(crate) struct Member<M> {
    part: AnyPart<M>,
    mail: Mail,
}

impl<M: Sent> Member<M> {
    /// The engine of `part`, which has links to the parts `near` and is simulated by the process `peers` is.
    pub(crate) fn new(part: AnyPart<M>, peers: Arc<dyn Peers>, near: Vec<usize>) -> Member<M> {
        let (out, into) = (vec![Vec::new(); near.len()], vec![Vec::new(); near.len()]);
        Member { part, mail: Mail { peers, near, out, into } }
    }
}

impl<M: Sent> Engine for Member<M> {
    fn inject(&mut self, packet: Injection) {
        self.part.inject(packet);
    }
    fn advance(&mut self, to: Tick) {
        let parts = self.mail.peers.count();
        run(&mut *self.part, parts, &mut self.mail, to);
    }
    fn now(&self) -> Tick {
        self.part.now()
    }
    fn next_event(&self) -> Option<Tick> {
        let next = self.mail.peers.least(self.part.next_event().unwrap_or(Tick::MAX));
        (next != Tick::MAX).then_some(next)
    }
    fn deliveries(&mut self) -> &mut VecDeque<Delivery> {
        self.part.deliveries()
    }
    fn lost(&mut self) -> Option<Lost> {
        self.part.lost()
    }
    fn counters(&self) -> Totals {
        self.part.counters()
    }
    fn take_trace(&mut self) -> Vec<TraceEvent> {
        self.part.take_trace()
    }
    fn count_links(&mut self) {
        self.part.count_links();
    }
    fn link_load(&self, router: u32, port: u8) -> LinkLoad {
        self.part.link_load(router, port)
    }
    fn count_waits(&mut self) -> bool {
        self.part.count_waits()
    }
    fn waits(&self, router: u32, port: u8) -> Waits {
        self.part.waits(router, port)
    }
    fn occupied(&self, router: u32, port: u8) -> u64 {
        self.part.occupied(router, port)
    }
    fn check_idle(&self) -> Result<(), Inconsistent> {
        let Totals { injected, delivered, lost, .. } = self.counters();
        let mut all = [injected, delivered, lost];
        self.mail.peers.sum(&mut all);
        let [injected, delivered, lost] = all;
        if injected != delivered + lost {
            return Err(Inconsistent(format!("{injected} packets injected, {delivered} delivered, {lost} dropped")));
        }
        self.part.check_idle()
    }
    fn memory_bytes(&self) -> usize {
        let mail = self.mail.out.iter().chain(&self.mail.into);
        self.part.memory_bytes() + mail.map(Vec::capacity).sum::<usize>()
    }
}
