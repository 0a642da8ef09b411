//! The adapter: all that programs ask of it.

use crate::completion::Completion;
use crate::network::{Memory, Network, Peer};
use crate::objects::{Cq, Pd, Srq, SrqAttributes};
use crate::pair::{Attributes, Init, Qp};
use crate::region::{Region, RegionChange};
use crate::request::{ReceiveRequest, SendRequest};
use crate::Result;

/// Something that the program is to be told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A completion queue that was armed has something for its channel.
    Completion {
        /// The channel, by the number that [`Hca::create_cq`] was given.
        channel: u64,
        /// The queue.
        cq: Cq,
    },
    /// Something about a queue pair.
    Pair(Qp, PairEvent),
    /// A completion queue had no room.
    CqError(Cq),
    /// A shared receive queue has fewer requests than its limit.
    SrqLimit(Srq),
    /// The node of this adapter works (again), or not.
    Port {
        /// It works.
        is_up: bool,
    },
    /// A message of a connection manager.
    Cm {
        /// Who sent it.
        from: Peer,
        /// Its bytes.
        bytes: Vec<u8>,
    },
}

/// Asynchronous events of a queue pair, as `enum ibv_event_type` numbers them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum PairEvent {
    /// It has failed.
    Fatal = 1,
    /// A peer asked for what makes no sense.
    InvalidRequest = 2,
    /// A peer asked for what it has no right to.
    Access = 3,
    /// The first message came before it was ready to send.
    Established = 4,
    /// Its send queue is drained.
    SendQueueDrained = 5,
    /// It takes nothing more from its shared receive queue.
    LastRequestReached = 16,
}

/// An adapter at a network, for the memory of one process.
pub struct Hca<N, M> {
    network: N,
    memory: M,
}

impl<N: Network, M: Memory> Hca<N, M> {
    /// An adapter without objects.
    pub fn new(network: N, memory: M) -> Self {
        Hca { network, memory }
    }
    /// The network that it is at.
    pub fn network(&self) -> &N {
        &self.network
    }
    /// The same, to be changed.
    pub fn network_mut(&mut self) -> &mut N {
        &mut self.network
    }
    /// The program's memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Receives what has come, sends what can be sent, looks at time limits. True if anything was done.
    pub fn progress(&mut self) -> bool { todo!() }
    /// When [`Hca::progress`] has something to do even if nothing comes: nanoseconds of [`Network::now`].
    pub fn deadline(&self) -> Option<u64> { todo!() }
    /// There are events.
    pub fn has_events(&self) -> bool { todo!() }
    /// Takes the events since the last call, in order.
    pub fn take_events(&mut self) -> Vec<Event> { todo!() }

    /// Makes a protection domain. `ENOMEM`: there are too many.
    pub fn alloc_pd(&mut self) -> Result<Pd> { todo!() }
    /// `EBUSY`: something is still in it.
    pub fn dealloc_pd(&mut self, _pd: Pd) -> Result<()> { todo!() }

    /// Registers `len` bytes at `at`, whose first one requests name as `iova`. `EINVAL`: unknown rights, or rights of peers
    /// to write without that of this adapter. `EFAULT`: not mapped, or not writable. `EOPNOTSUPP`: on demand. `ENOMEM`.
    pub fn register(&mut self, _pd: Pd, _at: u64, _len: u64, _iova: u64, _access: u32) -> Result<Region> { todo!() }
    /// Changes a region, which keeps its key.
    pub fn reregister(&mut self, _key: u32, _change: RegionChange) -> Result<Region> { todo!() }
    /// The region is gone when this returns: nothing is written there any more.
    pub fn deregister(&mut self, _key: u32) -> Result<()> { todo!() }

    /// Makes a completion queue for at least `capacity` entries, whose events go to `channel`. `EINVAL`, `ENOMEM`.
    pub fn create_cq(&mut self, _capacity: u32, _channel: Option<u64>) -> Result<Cq> { todo!() }
    /// `EINVAL`: it has more entries.
    pub fn resize_cq(&mut self, _cq: Cq, _capacity: u32) -> Result<()> { todo!() }
    /// `EBUSY`: queue pairs use it.
    pub fn destroy_cq(&mut self, _cq: Cq) -> Result<()> { todo!() }
    /// Takes at most `most` completions, in order, after a look at the network if there are none. Returns how many.
    pub fn poll(&mut self, _cq: Cq, _most: usize, _take: &mut dyn FnMut(&Completion)) -> Result<usize> { todo!() }
    /// The next completion makes an event; with `solicited` one that its sender asked for, or one that failed.
    pub fn arm(&mut self, _cq: Cq, _solicited: bool) -> Result<()> { todo!() }

    /// Makes a shared receive queue. `EINVAL`, `ENOMEM`.
    pub fn create_srq(&mut self, _pd: Pd, _attributes: SrqAttributes) -> Result<Srq> { todo!() }
    /// Sets its limit, or its size. `EINVAL`.
    pub fn modify_srq(&mut self, _srq: Srq, _wr: Option<u32>, _limit: Option<u32>) -> Result<()> { todo!() }
    /// Its sizes and limit.
    pub fn query_srq(&self, _srq: Srq) -> Result<SrqAttributes> { todo!() }
    /// `EBUSY`: queue pairs use it.
    pub fn destroy_srq(&mut self, _srq: Srq) -> Result<()> { todo!() }
    /// `ENOMEM`: it is full. `EINVAL`: too many elements.
    pub fn post_srq_receive(&mut self, _srq: Srq, _request: ReceiveRequest) -> Result<()> { todo!() }

    /// Makes a queue pair, whose sizes are as asked for, or more. `EINVAL`, `ENOMEM`.
    pub fn create_qp(&mut self, _init: Init) -> Result<Qp> { todo!() }
    /// Changes attributes, and the state if the mask says so: [`crate::mask`]. `EINVAL`: not from that state, or not with
    /// these attributes.
    pub fn modify_qp(&mut self, _qp: Qp, _mask: u32, _to: &Attributes) -> Result<()> { todo!() }
    /// All attributes as they are now, and what it was made of.
    pub fn query_qp(&self, _qp: Qp) -> Result<(Attributes, Init)> { todo!() }
    /// Ends a queue pair; what completion queues have of it is gone, too.
    pub fn destroy_qp(&mut self, _qp: Qp) -> Result<()> { todo!() }
    /// `EINVAL`: not in this state, or not with this service. `ENOMEM`: the send queue is full.
    pub fn post_send(&mut self, _qp: Qp, _request: SendRequest) -> Result<()> { todo!() }
    /// `EINVAL`: not in this state, or too many elements. `ENOMEM`: the receive queue is full.
    pub fn post_receive(&mut self, _qp: Qp, _request: ReceiveRequest) -> Result<()> { todo!() }

    /// Sends a message to the connection manager of another adapter, now or when there is room.
    pub fn send_cm(&mut self, _to: Peer, _bytes: Vec<u8>) { todo!() }
}
