//! Events: descriptors that programs read or poll, the pointers that wait behind them, and what waits for acknowledgement.

use crate::abi::constants::event;
use angara_hca::{Cq, Event, Qp, Result, Srq};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::{IoSliceMut, ReadWriteFlags, preadv2, read, write};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts events of an object that the program has, until it acknowledges them: objects are not destroyed before.
#[derive(Default)]
pub(crate) struct Acks {
    /// Events that are out, less the acknowledged.
    out: Mutex<i64>,
    changed: Condvar,
}

impl Acks {
    fn taken(&self) {
        *lock(&self.out) += 1;
    }

    pub(crate) fn acked(&self, events: u32) {
        *lock(&self.out) -= i64::from(events);
        self.changed.notify_all();
    }

    /// Returns when all are acknowledged. Programs that do not do that wait for ever, with rdma-core, too.
    pub(crate) fn wait(&self) {
        let mut out = lock(&self.out);
        while *out > 0 {
            out = self.changed.wait(out).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Counts acknowledged events in an object's struct, where programs read how many there were.
///
/// # Safety
/// It is a field of an object that is there.
pub(crate) unsafe fn count_acked(field: *mut u32, events: u32) {
    // SAFETY: see above; several threads may acknowledge at a time.
    unsafe { AtomicU32::from_ptr(field) }.fetch_add(events, Ordering::Relaxed);
}

/// Something that waits to be read.
#[derive(Clone)]
pub(crate) struct Notice {
    /// A pointer of the program's, or the number of a port.
    pub(crate) element: usize,
    /// Type of an asynchronous event.
    pub(crate) kind: u32,
    acks: Option<Arc<Acks>>,
}

/// Notices in order, and a descriptor that is readable as long as there are any.
pub(crate) struct Queue {
    fd: OwnedFd,
    waiting: Mutex<VecDeque<Notice>>,
}

impl Queue {
    pub(crate) fn new() -> Result<Queue> {
        let fd = eventfd(0, EventfdFlags::SEMAPHORE | EventfdFlags::CLOEXEC)?;
        Ok(Queue { fd, waiting: Mutex::default() })
    }

    /// The number of the descriptor.
    pub(crate) fn fd(&self) -> i32 {
        self.fd.as_fd().as_raw_fd()
    }

    fn put(&self, notice: Notice) {
        let mut waiting = lock(&self.waiting);
        waiting.push_back(notice);
        // It has room for 2^64 of them.
        let _ = write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Takes the next. Without one it waits, or fails with `EAGAIN` if the program has made the descriptor so.
    pub(crate) fn take(&self) -> Result<Notice> {
        loop {
            read(&self.fd, &mut [0; 8])?;
            // The one that was counted may be gone with its object.
            let mut waiting = lock(&self.waiting);
            if let Some(notice) = waiting.pop_front() {
                if let Some(acks) = &notice.acks {
                    acks.taken();
                }
                return Ok(notice);
            }
        }
    }

    /// Removes all notices with these acknowledgements.
    fn forget(&self, of: &Arc<Acks>) {
        let mut waiting = lock(&self.waiting);
        let before = waiting.len();
        waiting.retain(|notice| !notice.acks.as_ref().is_some_and(|acks| Arc::ptr_eq(acks, of)));
        for _ in waiting.len()..before {
            // Never waits: another thread may have counted one down already, which then finds nothing.
            let _ = preadv2(&self.fd, &mut [IoSliceMut::new(&mut [0; 8])], u64::MAX, ReadWriteFlags::NOWAIT);
        }
    }
}

/// An object that events are about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Subject {
    /// Entries in a queue with a channel.
    Completions(Cq),
    Cq(Cq),
    Pair(Qp),
    Srq(Srq),
}

/// Where events of an object go.
struct Way {
    queue: Arc<Queue>,
    element: usize,
    acks: Arc<Acks>,
}

#[derive(Default)]
struct Ways {
    objects: BTreeMap<(usize, Subject), Way>,
    /// Open contexts, which all are told of ports.
    contexts: Vec<(usize, Arc<Queue>)>,
}

static WAYS: Mutex<Ways> = Mutex::new(Ways { objects: BTreeMap::new(), contexts: Vec::new() });

/// Names an adapter, which stays where it is.
fn key<A>(adapter: &A) -> usize {
    std::ptr::from_ref(adapter).addr()
}

/// Has the events of an object go to a queue, as ones of `element`.
pub(crate) fn register<A>(adapter: &A, subject: Subject, element: usize, queue: &Arc<Queue>) -> Arc<Acks> {
    let acks = Arc::<Acks>::default();
    let way = Way { queue: queue.clone(), element, acks: acks.clone() };
    lock(&WAYS).objects.insert((key(adapter), subject), way);
    acks
}

/// Forgets an object, and its events that nobody has read; returns when the rest are acknowledged.
pub(crate) fn unregister<A>(adapter: &A, subject: Subject) {
    let way = lock(&WAYS).objects.remove(&(key(adapter), subject));
    if let Some(way) = way {
        way.queue.forget(&way.acks);
        way.acks.wait();
    }
}

/// Has events of the adapter's port go to a queue.
pub(crate) fn open<A>(adapter: &A, queue: &Arc<Queue>) {
    lock(&WAYS).contexts.push((key(adapter), queue.clone()));
}

pub(crate) fn close(queue: &Arc<Queue>) {
    lock(&WAYS).contexts.retain(|(_, other)| !Arc::ptr_eq(other, queue));
}

/// Hands events of an adapter to those whom they are for.
pub(crate) fn deliver<A>(adapter: &A, events: Vec<Event>) {
    let ways = lock(&WAYS);
    for event in events {
        let (subject, kind) = match event {
            Event::Completion { cq, .. } => (Subject::Completions(cq), 0),
            Event::Pair(pair, what) => (Subject::Pair(pair), what as u32),
            Event::CqError(cq) => (Subject::Cq(cq), event::CQ_ERR),
            Event::SrqLimit(srq) => (Subject::Srq(srq), event::SRQ_LIMIT_REACHED),
            Event::Port { is_up } => {
                let kind = if is_up { event::PORT_ACTIVE } else { event::PORT_ERR };
                for (_, queue) in ways.contexts.iter().filter(|(of, _)| *of == key(adapter)) {
                    queue.put(Notice { element: 1, kind, acks: None });
                }
                continue;
            }
            Event::Cm { .. } => continue,
        };
        if let Some(way) = ways.objects.get(&(key(adapter), subject)) {
            way.queue.put(Notice { element: way.element, kind, acks: Some(way.acks.clone()) });
        }
    }
}

/// Makes a descriptor as programs get them wait for nothing.
#[cfg(test)]
fn nonblocking(queue: &Queue) {
    rustix::fs::fcntl_setfl(&queue.fd, rustix::fs::OFlags::NONBLOCK).expect("a descriptor");
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_hca::{Errno, PairEvent};

    #[test]
    fn events_come_in_order_and_wait_for_their_acknowledgement() {
        let (adapter, queue) = (1u8, Arc::new(Queue::new().expect("a queue")));
        nonblocking(&queue);
        let acks = register(&adapter, Subject::Pair(Qp(5)), 0x50, &queue);
        open(&adapter, &queue);
        let events = vec![Event::Pair(Qp(5), PairEvent::Access), Event::Port { is_up: false }, Event::SrqLimit(Srq(1))];
        deliver(&adapter, events);
        let got: Vec<_> =
            std::iter::from_fn(|| queue.take().ok()).map(|notice| (notice.element, notice.kind)).collect();
        assert_eq!(got, [(0x50, 3), (1, event::PORT_ERR)]);
        assert_eq!(queue.take().err(), Some(Errno::AGAIN));
        let other = acks.clone();
        let acker = std::thread::spawn(move || other.acked(1));
        unregister(&adapter, Subject::Pair(Qp(5)));
        acker.join().expect("no panic");
        close(&queue);
    }

    #[test]
    fn events_of_an_object_that_is_gone_are_gone() {
        let (adapter, queue) = (1u8, Arc::new(Queue::new().expect("a queue")));
        nonblocking(&queue);
        for pair in [6, 7] {
            register(&adapter, Subject::Pair(Qp(pair)), pair as usize, &queue);
        }
        let event = |pair| Event::Pair(Qp(pair), PairEvent::Fatal);
        deliver(&adapter, vec![event(6), event(7), event(6)]);
        unregister(&adapter, Subject::Pair(Qp(6)));
        assert_eq!(queue.take().map(|notice| notice.element), Ok(7));
        assert_eq!(queue.take().err(), Some(Errno::AGAIN));
    }
}
