//! Captures: what the network says of packets goes to whoever asked for it, into a buffer that the data plane never waits
//! for. What does not fit is counted.

use crate::dataplane::engine::Engine;
use angara_abi::JobId;
use angara_abi::capture::push_tally;
use angara_abi::torus::NodeId;
use angara_fabric::{Filter, JobSlot, LISTENERS_MAX, Link};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Bytes that a capture keeps for its reader: what comes when it is full is dropped, and counted.
const BUFFER: usize = 8 << 20;

/// Whose packets may be heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whose {
    /// Everybody's.
    All,
    /// Those of a user's jobs.
    User(u32),
    /// Those of one job; the capture ends with it.
    Job(JobId),
}

/// What somebody wants to hear.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) uid: u32,
    pub(crate) whose: Whose,
    pub(crate) link: Option<Link>,
    pub(crate) node: Option<NodeId>,
    pub(crate) vc: Option<u8>,
    /// Bytes of each packet.
    pub(crate) snaplen: u32,
}

/// Names a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CaptureId(u64);

/// Why there is no capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// The user has so many.
    Own(usize),
    /// All users together have so many.
    All(usize),
    /// The job has ended meanwhile.
    NoJob,
}

/// From the data plane to the reader of a capture.
#[derive(Default)]
pub(crate) struct Basket {
    inside: Mutex<Inside>,
    filled: Notify,
}

#[derive(Default)]
struct Inside {
    bytes: Vec<u8>,
    passed: u64,
    dropped: u64,
    ended: bool,
}

impl Basket {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing more comes.
    fn end(&self) {
        let mut inside = self.inside();
        if !std::mem::replace(&mut inside.ended, true) {
            let (passed, dropped) = (inside.passed, inside.dropped);
            push_tally(&mut inside.bytes, passed, dropped);
        }
        drop(inside);
        self.filled.notify_one();
    }

    /// What has come; nothing after the end. May be cancelled.
    pub(crate) async fn take(&self) -> Option<Vec<u8>> {
        loop {
            {
                let mut inside = self.inside();
                if !inside.bytes.is_empty() {
                    return Some(std::mem::take(&mut inside.bytes));
                }
                if inside.ended {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }
}

/// One who listens.
pub(in crate::dataplane) struct Listener {
    id: CaptureId,
    wish: Wish,
    basket: Arc<Basket>,
}

/// All of them, in the order of the network's listeners.
#[derive(Default)]
pub(in crate::dataplane) struct Captures {
    listeners: Vec<Listener>,
    next: u64,
}

impl Engine {
    /// Begins a capture; its user may have `most`.
    pub(crate) fn begin_capture(&mut self, wish: Wish, most: usize) -> Result<(CaptureId, Arc<Basket>), Refused> {
        let own = self.captures.listeners.iter().filter(|l| l.wish.uid == wish.uid).count();
        if own >= most {
            return Err(Refused::Own(own));
        }
        if self.captures.listeners.len() >= LISTENERS_MAX {
            return Err(Refused::All(LISTENERS_MAX));
        }
        if let Whose::Job(id) = wish.whose
            && !self.jobs.values().any(|job| job.memory.id == id)
        {
            return Err(Refused::NoJob);
        }
        self.captures.next += 1;
        let (id, basket) = (CaptureId(self.captures.next), Arc::new(Basket::default()));
        self.tell_listeners();
        self.captures.listeners.push(Listener { id, wish, basket: basket.clone() });
        self.choose_packets();
        Ok((id, basket))
    }

    /// Ends a capture, unless it has ended by itself.
    pub(crate) fn end_capture(&mut self, id: CaptureId) {
        self.end_captures(|listener| listener.id == id);
    }

    /// A job has come, or has gone.
    pub(in crate::dataplane) fn jobs_changed(&mut self) {
        if self.captures.listeners.is_empty() {
            return;
        }
        let there: Vec<JobId> = self.jobs.values().map(|job| job.memory.id).collect();
        self.end_captures(|listener| matches!(listener.wish.whose, Whose::Job(id) if !there.contains(&id)));
    }

    fn end_captures(&mut self, ends: impl Fn(&Listener) -> bool) {
        self.tell_listeners();
        self.captures.listeners.iter().filter(|l| ends(l)).for_each(|l| l.basket.end());
        self.captures.listeners.retain(|l| !ends(l));
        self.choose_packets();
    }

    /// Tells the network who listens to what.
    fn choose_packets(&mut self) {
        let jobs = |whose| {
            let slots = |of: &dyn Fn(&JobId, u32) -> bool| {
                let jobs = self.jobs.values().filter(|job| of(&job.memory.id, job.memory.uid));
                Some(jobs.map(|job| job.memory.slot).collect())
            };
            match whose {
                Whose::All => None,
                Whose::User(uid) => slots(&|_, of| of == uid),
                Whose::Job(id) => slots(&|of, _| *of == id),
            }
        };
        let filter = |l: &Listener| {
            let Wish { whose, link, node, vc, .. } = l.wish;
            Filter { jobs: jobs(whose), link, node, vc }
        };
        self.fabric.listen(self.captures.listeners.iter().map(filter).collect());
    }

    /// Gives listeners what has happened.
    #[inline]
    pub(in crate::dataplane) fn tell_listeners(&mut self) {
        if !self.captures.listeners.is_empty() {
            self.fill_baskets();
        }
    }

    #[cold]
    fn fill_baskets(&mut self) {
        let heard = self.fabric.heard();
        if heard.is_empty() {
            return;
        }
        let ids: BTreeMap<JobSlot, JobId> = self.jobs.iter().map(|(slot, job)| (*slot, job.memory.id)).collect();
        let now = clock_gettime(ClockId::Realtime);
        let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        for (number, listener) in self.captures.listeners.iter().enumerate() {
            let mut inside = listener.basket.inside();
            for heard in heard.iter().filter(|heard| heard.listeners >> number & 1 != 0) {
                inside.passed += 1;
                if inside.bytes.len() >= BUFFER {
                    inside.dropped += 1;
                    continue;
                }
                let stamp = if self.virtual_time.is_some() { heard.time / 1000 } else { now };
                let job = ids.get(&heard.job).map_or(u32::MAX, |id| id.number());
                heard.push(&mut inside.bytes, stamp, job, &self.shape, listener.wish.snaplen as usize);
            }
            drop(inside);
            listener.basket.filled.notify_one();
        }
    }
}

impl Drop for Captures {
    fn drop(&mut self) {
        self.listeners.iter().for_each(|listener| listener.basket.end());
    }
}
