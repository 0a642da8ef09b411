//! Captures: what the network says of packets goes to whoever asked for it, into a buffer that the data plane never waits
//! for. What does not fit is counted.

use crate::jobs::job::Jobs;
use angara_abi::JobId;
use angara_abi::capture::push_tally;
use angara_fabric::{Fabric, Filter, JobSlot, LISTENERS_MAX, Link};
use angara_net::torus::NodeId;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that a capture keeps for its reader: what comes when it is full is dropped, and counted.
const BUFFER: usize = 8 << 20;

/// Whose packets may be heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// Everybody's.
    All,
    /// Those of a user's jobs.
    User(u32),
    /// Those of one job; the capture ends with it.
    Job(JobId),
}

/// Packets that an observer asks for.
pub struct Capture {
    pub uid: u32,
    /// Captures that this user may have.
    pub most: usize,
    /// Whose packets.
    pub whose: Whose,
    /// On this link only.
    pub link: Option<Link>,
    /// At this node only.
    pub node: Option<NodeId>,
    /// On this virtual channel only.
    pub vc: Option<u8>,
    /// Bytes of each packet.
    pub snaplen: u32,
    /// Where they go.
    pub basket: Arc<Basket>,
}

/// Names a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CaptureId(u64);

/// Why there is no capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The user has N.
    Own(usize),
    /// All users together have N.
    All(usize),
    /// The job has ended meanwhile.
    NoJob,
}

/// From the data plane to the reader of a capture.
pub struct Basket {
    inside: Mutex<Inside>,
    filled: Box<dyn Fn() + Send + Sync>,
}

/// Contents of a basket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taken {
    /// Records.
    Bytes(Vec<u8>),
    /// Nothing yet.
    Nothing,
    /// Nothing more comes.
    End,
}

#[derive(Default)]
struct Inside {
    bytes: Vec<u8>,
    passed: u64,
    dropped: u64,
    ended: bool,
}

impl Basket {
    /// An empty one. `filled` is called whenever its reader may find something, on the thread of the data plane.
    pub fn new(filled: impl Fn() + Send + Sync + 'static) -> Basket {
        Basket { inside: Mutex::default(), filled: Box::new(filled) }
    }

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
        (self.filled)();
    }

    /// Returns what has come since the last time.
    pub fn take(&self) -> Taken {
        let mut inside = self.inside();
        match (inside.bytes.is_empty(), inside.ended) {
            (false, _) => Taken::Bytes(std::mem::take(&mut inside.bytes)),
            (true, false) => Taken::Nothing,
            (true, true) => Taken::End,
        }
    }
}

/// One who listens.
pub(crate) struct Listener {
    id: CaptureId,
    wish: Capture,
}

/// All of them, in the order of the network's listeners.
pub(crate) struct Captures {
    listeners: Vec<Listener>,
    next: u64,
    /// Packets are stamped with the time of the job, not with that of the day.
    in_virtual_time: bool,
}

impl Captures {
    pub(crate) fn new(in_virtual_time: bool) -> Captures {
        Captures { listeners: Vec::new(), next: 0, in_virtual_time }
    }

    pub(crate) fn begin(&mut self, wish: Capture, jobs: &Jobs, fabric: &mut Fabric) -> Result<CaptureId, Refused> {
        let own = self.listeners.iter().filter(|l| l.wish.uid == wish.uid).count();
        if own >= wish.most {
            return Err(Refused::Own(own));
        }
        if self.listeners.len() >= LISTENERS_MAX {
            return Err(Refused::All(LISTENERS_MAX));
        }
        if let Whose::Job(id) = wish.whose
            && !jobs.values().any(|job| job.memory.id == id)
        {
            return Err(Refused::NoJob);
        }
        self.next += 1;
        let id = CaptureId(self.next);
        self.tell(jobs, fabric);
        self.listeners.push(Listener { id, wish });
        self.choose_packets(jobs, fabric);
        Ok(id)
    }

    /// Ends a capture, unless it has ended by itself.
    pub(crate) fn end(&mut self, id: CaptureId, jobs: &Jobs, fabric: &mut Fabric) {
        self.end_those(jobs, fabric, |listener| listener.id == id);
    }

    /// A job has come, or has gone.
    pub(crate) fn jobs_changed(&mut self, jobs: &Jobs, fabric: &mut Fabric) {
        if self.listeners.is_empty() {
            return;
        }
        let there: Vec<JobId> = jobs.values().map(|job| job.memory.id).collect();
        self.end_those(jobs, fabric, |listener| matches!(listener.wish.whose, Whose::Job(id) if !there.contains(&id)));
    }

    fn end_those(&mut self, jobs: &Jobs, fabric: &mut Fabric, ends: impl Fn(&Listener) -> bool) {
        self.tell(jobs, fabric);
        self.listeners.iter().filter(|l| ends(l)).for_each(|l| l.wish.basket.end());
        self.listeners.retain(|l| !ends(l));
        self.choose_packets(jobs, fabric);
    }

    /// Tells the network who listens to what.
    fn choose_packets(&self, jobs: &Jobs, fabric: &mut Fabric) {
        let slots_of = |whose| {
            let slots = |of: &dyn Fn(&JobId, u32) -> bool| {
                let jobs = jobs.values().filter(|job| of(&job.memory.id, job.memory.uid));
                Some(jobs.map(|job| job.memory.slot).collect())
            };
            match whose {
                Whose::All => None,
                Whose::User(uid) => slots(&|_, of| of == uid),
                Whose::Job(id) => slots(&|of, _| *of == id),
            }
        };
        let filter = |l: &Listener| {
            let Capture { whose, link, node, vc, .. } = l.wish;
            Filter { jobs: slots_of(whose), link, node, vc }
        };
        fabric.listen(self.listeners.iter().map(filter).collect());
    }

    /// Gives listeners what has happened.
    #[inline]
    pub(crate) fn tell(&mut self, jobs: &Jobs, fabric: &mut Fabric) {
        if !self.listeners.is_empty() {
            self.fill_baskets(jobs, fabric);
        }
    }

    #[cold]
    fn fill_baskets(&self, jobs: &Jobs, fabric: &mut Fabric) {
        let heard = fabric.heard();
        if heard.is_empty() {
            return;
        }
        let ids: BTreeMap<JobSlot, JobId> = jobs.iter().map(|(slot, job)| (slot, job.memory.id)).collect();
        let shape = fabric.shape();
        let now = clock_gettime(ClockId::Realtime);
        let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        for (number, listener) in self.listeners.iter().enumerate() {
            let mut inside = listener.wish.basket.inside();
            for heard in heard.iter().filter(|heard| heard.listeners >> number & 1 != 0) {
                inside.passed += 1;
                if inside.bytes.len() >= BUFFER {
                    inside.dropped += 1;
                    continue;
                }
                let stamp = if self.in_virtual_time { heard.time / 1000 } else { now };
                let job = ids.get(&heard.job).map_or(u32::MAX, |id| id.number());
                heard.push(&mut inside.bytes, stamp, job, &shape, listener.wish.snaplen as usize);
            }
            drop(inside);
            (listener.wish.basket.filled)();
        }
    }
}

impl Drop for Captures {
    fn drop(&mut self) {
        self.listeners.iter().for_each(|listener| listener.wish.basket.end());
    }
}
