//! One network simulated by several threads or processes, with the same result to the last bit.
//!
//! The routers are cut into contiguous ranges, one *part* per thread or process. What happens in one part takes a
//! while to be felt in another: at least the time of the fastest link between them, the *lookahead*. So if
//! the earliest event anywhere is at m, every part may process everything before m + lookahead
//! without hearing from the others. That is one *window*. At its end the parts exchange what crossed
//! the cut, by value and with the time it is due, agree on the next m, and go on. There is one
//! barrier per window and no other waiting, and nothing depends on which thread is faster. How parts
//! hear of each other is an [`Exchange`].
//!
//! A part is an engine like the one that simulates a whole network alone ([`Part`]). As no engine's results
//! depend on the order in which simultaneous events were put in, it does not matter in which order
//! messages from several parts are accepted.

use crate::engine::Engine;
use crate::wait_place::{Looks, WaitPlace};
use crate::waits::Waits;
use angara_fabric::Tick;
use angara_fabric::raw::{Delivery, Inconsistent, Injection, LinkLoad, Lost, Packed, Totals, TraceEvent};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Why a network cannot be simulated in N parts.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum PartsError {
    /// The system starts fewer threads.
    #[error("threads = {0}: the system started {1} and then refused ({2}); give {1}, or raise `ulimit -u`")]
    NoThread(usize, usize, String),
    /// A part has no routers.
    #[error("processes = {0}: the network can be cut into {1} parts at most; give as many or fewer")]
    Processes(usize, usize),
    /// Nodes send and receive in different parts.
    #[error("processes = {0}: a node of this network sends to one router and receives from another; use threads")]
    Apart(usize),
}

/// What parts can send each other.
pub(crate) trait Sent: Packed + Send + 'static {}

impl<M: Packed + Send + 'static> Sent for M {}

/// An engine that simulates some of the routers of a network and the endpoints attached to them.
///
/// Beyond [`Engine`]'s contract: `advance` is never asked to go further than
/// the earliest event of all parts allows (see the module's documentation); deliveries come out in order of
/// (tail, destination); and `check_idle` leaves it to the caller to compare packets injected with
/// packets delivered, since they may be in different parts.
pub(crate) trait Part: Engine + 'static {
    /// Message from part to part: a packet, a credit.
    type Message: Sent;
    /// Least time between an event and anything it causes in another part; at least 1, and the same for all parts.
    fn lookahead(&self) -> Tick;
    /// Hands everything that has left for another part since the last call to `post`: the part, when
    /// it is due there, and what it is.
    fn take_outgoing(&mut self, post: &mut dyn FnMut(usize, Tick, Self::Message));
    /// Takes something from another part, due after the time this part has reached.
    fn accept(&mut self, due: Tick, message: Self::Message);
    /// When the next change of the network is due, unless it drains for one; the same in all parts.
    fn next_change(&self) -> Option<Tick> {
        None
    }
    /// Begins that change at this time, or before anything later happens.
    fn begin_change(&mut self, _at: Tick) {}
    /// The network drains for a change; the same in all parts.
    fn drains(&self) -> bool {
        false
    }
    /// Nothing is under way in this part.
    fn is_drained(&self) -> bool {
        true
    }
    /// Ends the change: no part has had anything under way since this time.
    fn end_change(&mut self, _at: Tick) {}
}

/// A part whose type only its messages tell: what parts do together is done once in a window, and compiled once.
pub(crate) type AnyPart<M> = Box<dyn Part<Message = M>>;

/// The first of each of `parts` ranges that cut `count` things as evenly as possible.
pub(crate) fn cuts(count: usize, parts: usize) -> Vec<u32> {
    (0..parts).map(|p| (count * p / parts) as u32).collect()
}

/// The range that holds `index`, given the first of each range.
#[inline(always)]
pub(crate) fn part_of(firsts: &[u32], index: u32) -> usize {
    // There are as many as threads, so looking at all of them is fast.
    firsts.iter().skip(1).take_while(|&&first| first <= index).count()
}

/// What a part tells the others at the end of a window, and hears from them.
pub(crate) trait Exchange<M> {
    /// Takes what has left for part `other`; `messages` is empty afterwards.
    fn post(&mut self, other: usize, messages: &mut Vec<(Tick, M)>);
    /// Waits for all parts. Returns the earliest event of all, given that of this one and of what it posted.
    fn agree(&mut self, earliest: Tick) -> Tick;
    /// Hands over what the others had posted when all agreed.
    fn take(&mut self, accept: &mut dyn FnMut(Tick, M));
    /// Waits for all parts, which have posted nothing. True if all of them say so.
    fn all(&mut self, this: bool) -> bool {
        let all = self.agree(this.into()) == 1;
        self.take(&mut |_, _| unreachable!("nothing was posted"));
        all
    }
}

/// Advances `part`, one of `parts`, to `to`, in step with the others.
pub(crate) fn run<M: Sent>(part: &mut dyn Part<Message = M>, parts: usize, exchange: &mut impl Exchange<M>, to: Tick) {
    let lookahead = part.lookahead();
    let mut outbox: Vec<Vec<(Tick, M)>> = (0..parts).map(|_| Vec::new()).collect();
    let mut earliest = part.next_event().unwrap_or(Tick::MAX);
    loop {
        for (other, messages) in outbox.iter_mut().enumerate().filter(|(_, m)| !m.is_empty()) {
            exchange.post(other, messages);
        }
        let first = exchange.agree(earliest);
        exchange.take(&mut |due, message| part.accept(due, message));
        if part.drains() && exchange.all(part.is_drained()) {
            part.end_change(part.now());
            earliest = part.next_event().unwrap_or(Tick::MAX);
            continue;
        }
        if first > to {
            break;
        }
        while part.next_change().is_some_and(|at| at <= first) {
            part.begin_change(first);
            if exchange.all(part.is_drained()) {
                part.end_change(first);
            }
        }
        let end = to.min(first.saturating_add(lookahead - 1));
        part.advance(match part.next_change() {
            // Whether it was the last thing under way is to be known after each.
            _ if part.drains() => first,
            Some(at) => end.min(at - 1),
            None => end,
        });
        earliest = Tick::MAX;
        part.take_outgoing(&mut |other, due, message| {
            earliest = earliest.min(due);
            outbox[other].push((due, message));
        });
        earliest = earliest.min(part.next_event().unwrap_or(Tick::MAX));
    }
    part.advance(to);
}

type Mail<M> = Mutex<Vec<(Tick, M)>>;
type Desk<M> = Mutex<Option<(AnyPart<M>, Tick)>>;

/// State that the threads share. Mail and times exist twice and are used in turn, since a fast thread posts
/// for the next window while a slow one still reads those of the last.
struct Shared<M: Sent> {
    parts: usize,
    /// Part and goal of each worker: put there by the caller, and back by the worker.
    desks: Vec<Desk<M>>,
    /// Number of the advance under way; workers wait for it to change.
    advance: AtomicUsize,
    /// Workers that have finished it.
    finished: AtomicUsize,
    /// Mail from part f to part t at t·parts + f.
    mail: [Vec<Mail<M>>; 2],
    /// Earliest event each part knows of, what it sent included.
    next: [Vec<AtomicU64>; 2],
    arrived: AtomicUsize,
    round: AtomicUsize,
    /// A thread panicked; the others must not wait for it.
    broken: AtomicBool,
    quit: AtomicBool,
    /// Where threads wait for any of these to change.
    place: WaitPlace,
}

impl<M: Sent> Shared<M> {
    fn check(&self) {
        assert!(!self.broken.load(Ordering::Relaxed), "another thread of this simulation panicked");
    }
    /// Waits for all parts. What each wrote before, all see afterwards.
    fn barrier(&self, looks: &mut Looks) {
        let round = self.round.load(Ordering::Relaxed);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.parts {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.store(round.wrapping_add(1), Ordering::Release);
            self.place.wake();
            return;
        }
        self.place.wait(looks, || {
            self.check();
            self.round.load(Ordering::Acquire) != round
        });
    }
    fn seat<'a>(&'a self, me: usize, looks: &'a mut Looks) -> Seat<'a, M> {
        Seat { shared: self, me, window: 0, looks }
    }
    /// A worker's life.
    fn work(&self, me: usize) {
        let _guard = Guard(self);
        let mut looks = Looks::new();
        for advance in 1.. {
            let mut quit = false;
            self.place.wait(&mut looks, || {
                quit = self.quit.load(Ordering::Acquire);
                quit || self.advance.load(Ordering::Acquire) >= advance
            });
            if quit {
                return;
            }
            let (mut part, to) = lock(&self.desks[me]).take().expect("the caller left a part");
            run(&mut *part, self.parts, &mut self.seat(me, &mut looks), to);
            *lock(&self.desks[me]) = Some((part, to));
            self.finished.fetch_add(1, Ordering::Release);
            self.place.wake();
        }
    }
}

/// The exchange of one thread with the others, during one advance.
struct Seat<'a, M: Sent> {
    shared: &'a Shared<M>,
    me: usize,
    window: usize,
    looks: &'a mut Looks,
}

impl<M: Sent> Exchange<M> for Seat<'_, M> {
    fn post(&mut self, other: usize, messages: &mut Vec<(Tick, M)>) {
        let mail = &self.shared.mail[self.window % 2];
        // Empty by now, so this gives the memory of an earlier window back to be used again.
        std::mem::swap(&mut *lock(&mail[other * self.shared.parts + self.me]), messages);
    }
    fn agree(&mut self, earliest: Tick) -> Tick {
        let next = &self.shared.next[self.window % 2];
        next[self.me].store(earliest, Ordering::Relaxed);
        self.shared.barrier(self.looks);
        next.iter().map(|n| n.load(Ordering::Relaxed)).min().expect("at least one part")
    }
    fn take(&mut self, accept: &mut dyn FnMut(Tick, M)) {
        let (parts, mail) = (self.shared.parts, &self.shared.mail[self.window % 2]);
        for from in 0..parts {
            for (due, message) in lock(&mail[self.me * parts + from]).drain(..) {
                accept(due, message);
            }
        }
        self.window += 1;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics while it holds a lock")
}

/// Says so if its thread panics.
struct Guard<'a, M: Sent>(&'a Shared<M>);

impl<M: Sent> Drop for Guard<'_, M> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, Ordering::Release);
            self.0.place.wake();
        }
    }
}

/// An engine of several parts, each with a thread of its own while time advances; the caller's thread takes the
/// first. Between calls all parts are here.
pub(crate) struct Parallel<M: Sent> {
    parts: Vec<Option<AnyPart<M>>>,
    /// First endpoint of every part.
    endpoints: Vec<u32>,
    shared: Arc<Shared<M>>,
    workers: Vec<JoinHandle<()>>,
    /// Those of the caller's thread.
    looks: Looks,
    delivered: VecDeque<Delivery>,
    lost: VecDeque<Lost>,
}

impl<M: Sent> Parallel<M> {
    /// An engine of `parts`, in order of their endpoints; part p has those from `endpoints[p]` on.
    ///
    /// # Errors
    /// The system does not start as many threads.
    pub(crate) fn new(parts: Vec<AnyPart<M>>, endpoints: Vec<u32>) -> Result<Parallel<M>, PartsError> {
        let n = parts.len();
        let both = |count: usize| [0, 1].map(|_| (0..count).map(|_| Mutex::default()).collect());
        let shared = Arc::new(Shared {
            parts: n,
            desks: (0..n).map(|_| Mutex::new(None)).collect(),
            advance: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
            mail: both(n * n),
            next: [0, 1].map(|_| (0..n).map(|_| AtomicU64::new(0)).collect()),
            arrived: AtomicUsize::new(0),
            round: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            quit: AtomicBool::new(false),
            place: WaitPlace::default(),
        });
        let mut engine = Parallel {
            parts: parts.into_iter().map(Some).collect(),
            endpoints,
            shared,
            workers: Vec::new(),
            looks: Looks::new(),
            delivered: VecDeque::new(),
            lost: VecDeque::new(),
        };
        for me in 1..n {
            let shared = engine.shared.clone();
            let thread = std::thread::Builder::new().name(format!("part {me}"));
            let started = thread.spawn(move || shared.work(me));
            engine.workers.push(started.map_err(|e| PartsError::NoThread(n, me, e.to_string()))?);
        }
        Ok(engine)
    }
    fn parts(&self) -> impl Iterator<Item = &AnyPart<M>> {
        self.parts.iter().map(|p| p.as_ref().expect("all parts are here between calls"))
    }
    fn parts_mut(&mut self) -> impl Iterator<Item = &mut AnyPart<M>> {
        self.parts.iter_mut().map(|p| p.as_mut().expect("all parts are here between calls"))
    }
    /// Collects the parts' deliveries in order of (tail, destination).
    fn merge(&mut self) {
        let mut delivered = std::mem::take(&mut self.delivered);
        let mut queues: Vec<_> = self.parts_mut().map(|p| p.deliveries()).collect();
        let key = |q: &VecDeque<Delivery>| q.front().map(|d| (d.tail, d.dst));
        while let Some((_, first)) = queues.iter().enumerate().filter_map(|(i, q)| Some((key(q)?, i))).min() {
            delivered.extend(queues[first].pop_front());
        }
        self.delivered = delivered;
        let mut lost: Vec<Lost> = self.parts_mut().flat_map(|p| std::iter::from_fn(|| p.lost())).collect();
        lost.sort_unstable();
        self.lost.extend(lost);
    }
}

impl<M: Sent> Engine for Parallel<M> {
    fn inject(&mut self, packet: Injection) {
        let part = part_of(&self.endpoints, packet.src);
        self.parts[part].as_mut().expect("all parts are here between calls").inject(packet);
    }
    fn advance(&mut self, to: Tick) {
        let shared = self.shared.clone();
        let _guard = Guard(&*shared);
        for (worker, desk) in shared.desks.iter().enumerate().skip(1) {
            *lock(desk) = self.parts[worker].take().map(|part| (part, to));
        }
        shared.finished.store(0, Ordering::Relaxed);
        shared.advance.fetch_add(1, Ordering::Release);
        shared.place.wake();
        let first = self.parts[0].as_mut().expect("all parts are here between calls");
        run(&mut **first, shared.parts, &mut shared.seat(0, &mut self.looks), to);
        shared.place.wait(&mut self.looks, || {
            shared.check();
            shared.finished.load(Ordering::Acquire) == self.workers.len()
        });
        for (worker, desk) in shared.desks.iter().enumerate().skip(1) {
            self.parts[worker] = lock(desk).take().map(|(part, _)| part);
        }
        self.merge();
    }
    fn now(&self) -> Tick {
        self.parts().next().expect("at least one part").now()
    }
    fn next_event(&self) -> Option<Tick> {
        self.parts().filter_map(|p| p.next_event()).min()
    }
    fn deliveries(&mut self) -> &mut VecDeque<Delivery> {
        &mut self.delivered
    }
    fn lost(&mut self) -> Option<Lost> {
        self.lost.pop_front()
    }
    fn counters(&self) -> Totals {
        self.parts().map(|p| p.counters()).fold(Totals::default(), |a, b| Totals {
            injected: a.injected + b.injected,
            delivered: a.delivered + b.delivered,
            delivered_flits: a.delivered_flits + b.delivered_flits,
            packet_hops: a.packet_hops + b.packet_hops,
            flit_hops: a.flit_hops + b.flit_hops,
            lost: a.lost + b.lost,
        })
    }
    fn take_trace(&mut self) -> Vec<TraceEvent> {
        let mut events: Vec<TraceEvent> = self.parts_mut().flat_map(|p| p.take_trace()).collect();
        events.sort_unstable();
        events
    }
    fn count_links(&mut self) {
        self.parts_mut().for_each(|p| p.count_links());
    }
    fn link_load(&self, router: u32, port: u8) -> LinkLoad {
        // All but one know nothing of it.
        self.parts().map(|p| p.link_load(router, port)).find(|load| *load != LinkLoad::default()).unwrap_or_default()
    }
    fn count_waits(&mut self) -> bool {
        self.parts_mut().all(|p| p.count_waits())
    }
    fn waits(&self, router: u32, port: u8) -> Waits {
        self.parts().map(|p| p.waits(router, port)).fold(Waits::default(), Waits::and)
    }
    fn occupied(&self, router: u32, port: u8) -> u64 {
        self.parts().map(|p| p.occupied(router, port)).sum()
    }
    fn check_idle(&self) -> Result<(), Inconsistent> {
        let Totals { injected, delivered, lost, .. } = self.counters();
        if injected != delivered + lost {
            return Err(Inconsistent(format!("{injected} packets injected, {delivered} delivered, {lost} dropped")));
        }
        self.parts().try_for_each(|p| p.check_idle())
    }
    fn memory_bytes(&self) -> usize {
        self.parts().map(|p| p.memory_bytes()).sum::<usize>() + self.delivered.capacity() * size_of::<Delivery>()
    }
}

impl<M: Sent> Drop for Parallel<M> {
    fn drop(&mut self) {
        self.shared.quit.store(true, Ordering::Release);
        self.shared.place.wake();
        for worker in self.workers.drain(..) {
            // If it panicked, whoever waited for it has said so.
            let _ = worker.join();
        }
    }
}
