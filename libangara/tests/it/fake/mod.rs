//! A stand-in for the daemon, for tests of this crate alone: the same socket protocol and the
//! same memory, but a "network" that applies each post to memory at once. PEs are threads of the
//! test, each with its own [`Job`].

#![allow(dead_code)] // each test file uses its part

use angara::{Error, Job, Launch};
use angara_abi::JobId;
use angara_abi::account::Load;
use angara_abi::channel::{Channel, ChannelFds, Fault, status};
use angara_abi::desc::{AmoOp, Descriptor, Op, Place, Region, flags};
use angara_abi::job::{
    BOUNCE_BYTES, Barrier, Collectives, Geometry, JobPage, JobState, PeEntry, Reach, Seat, SyncPage, Targets,
};
use angara_abi::packet::{Address, ReduceElem, ReduceOp};
use angara_abi::queue::{Consumer, Post};
use angara_abi::shm::{Access, Mapping, PageKind};
use angara_abi::wait::Linux;
use angara_net::torus::Shape;
use angara_protocol::msg::{AdapterReply, AdapterRequest, FdRole};
use rustix::net::{self, AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketType};
use std::collections::HashMap;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const INTERNAL: usize = angara_abi::job::INTERNAL_BYTES;

struct Pe {
    channel: Channel,
    bounce: Mapping,
    targets: Targets,
    csr: Mapping,
    consumer: Consumer,
}

struct Slot {
    count: usize,
    op: ReduceOp,
    elem: ReduceElem,
    data: Vec<u8>,
}

pub(crate) struct Fake {
    pub(crate) dir: PathBuf,
    pes: usize,
    stride: usize,
    heap: (OwnedFd, Mapping),
    sync: (OwnedFd, SyncPage),
    page: (OwnedFd, JobPage),
    seats: Vec<Mutex<Option<Pe>>>,
    reach: Vec<Reach>,
    pub(crate) stop: AtomicBool,
    /// While set, posts are not taken.
    pub(crate) hold: AtomicBool,
    connections: Mutex<Vec<OwnedFd>>,
    aborted: Mutex<Option<(i32, String)>>,
    posts: Mutex<Vec<Op>>,
    packets: AtomicU32,
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Fake {
    pub(crate) fn start(pes: usize, heap: usize, barrier: Barrier, reach: Reach) -> Arc<Fake> {
        Fake::start_mixed(pes, heap, barrier, vec![reach; pes])
    }

    pub(crate) fn start_mixed(pes: usize, heap: usize, barrier: Barrier, reach: Vec<Reach>) -> Arc<Fake> {
        let shape = Shape::most_cubic(pes);
        let stride = INTERNAL + heap;
        let geometry = Geometry {
            pes,
            shape,
            heap_stride: stride,
            static_stride: 0,
            barrier,
            collectives: Collectives::Auto,
            crowded: true,
            open: false,
            registered: 0,
            heterogeneous: false,
        };
        let entries: Vec<_> = (0..pes as u32)
            .map(|n| PeEntry { node: n, coords: shape.coords(n), endpoint: 0, seat: Seat::FREE })
            .collect();
        let make = |len, access| Mapping::create("fake", len, access).unwrap();
        let (sync_fd, sync) = make(SyncPage::bytes(pes), Access::Shared);
        let (page_fd, page) = make(JobPage::bytes(pes), Access::ReadOnly);
        let n = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("angara-fake-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let fake = Arc::new(Fake {
            pes,
            stride,
            heap: make(stride * pes, Access::Shared),
            sync: (sync_fd, SyncPage::init(sync, pes).unwrap()),
            page: (page_fd, JobPage::init(page, &geometry, &entries).unwrap()),
            seats: (0..pes).map(|_| Mutex::new(None)).collect(),
            reach,
            stop: AtomicBool::new(false),
            hold: AtomicBool::new(false),
            connections: Mutex::new(Vec::new()),
            aborted: Mutex::new(None),
            posts: Mutex::new(Vec::new()),
            packets: AtomicU32::new(0),
            dir,
        });
        let listener = net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
        net::bind(&listener, &net::SocketAddrUnix::new(fake.dir.join("adapter.sock")).unwrap()).unwrap();
        net::listen(&listener, 64).unwrap();
        let server = fake.clone();
        std::thread::spawn(move || {
            for _ in 0..server.pes {
                let connection = net::accept(&listener).unwrap();
                server.connections.lock().unwrap().push(connection.try_clone().unwrap());
                let server = server.clone();
                std::thread::spawn(move || server.serve(connection));
            }
        });
        let server = fake.clone();
        std::thread::spawn(move || Network::default().run(&server));
        fake
    }

    pub(crate) fn launch(&self, pe: usize) -> Launch {
        Launch {
            runtime_dir: self.dir.clone(),
            job: JobId::new(1),
            key: "k".into(),
            pe: pe as u32,
            pes: self.pes as u32,
        }
    }

    /// Runs `body` on every PE, each a thread; a panic of one is reported after all have ended.
    pub(crate) fn run<T: Send>(&self, body: impl Fn(&Job) -> T + Sync) -> Vec<T> {
        let results = std::thread::scope(|s| {
            let pe = |pe| {
                let body = &body;
                s.spawn(move || {
                    let job = Job::attach(&self.launch(pe), &[]).expect("attach");
                    body(&job)
                })
            };
            let threads: Vec<_> = (0..self.pes).map(pe).collect();
            threads.into_iter().map(|t| t.join()).collect::<Vec<_>>()
        });
        self.finish();
        results.into_iter().map(|r| r.unwrap_or_else(|p| std::panic::resume_unwind(p))).collect()
    }

    /// Ends the stand-in when the PEs were processes.
    pub(crate) fn finish(&self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = std::fs::remove_dir_all(&self.dir);
    }

    /// Closes every connection, as a daemon that dies does.
    pub(crate) fn die(&self) {
        for connection in self.connections.lock().unwrap().iter() {
            net::shutdown(connection, net::Shutdown::Both).unwrap();
        }
    }
    pub(crate) fn end_job(&self) {
        self.page.1.set_state(JobState::Ended);
    }
    pub(crate) fn set_reach(&self, pe: usize, target: usize, reach: Reach) {
        self.seats[pe].lock().unwrap().as_ref().unwrap().targets.set(target, reach);
    }
    pub(crate) fn set_seat(&self, pe: usize, seat: Seat) {
        self.page.1.set_seat(pe, seat);
    }
    /// Bytes of memory that all heaps together take.
    pub(crate) fn heap_memory(&self) -> u64 {
        512 * rustix::fs::fstat(&self.heap.0).unwrap().st_blocks as u64
    }
    pub(crate) fn set_error(&self, pe: usize, fault: Fault, seq: u32) {
        self.seats[pe].lock().unwrap().as_ref().unwrap().channel.set_error(fault, seq);
    }
    pub(crate) fn aborted(&self) -> Option<(i32, String)> {
        self.aborted.lock().unwrap().clone()
    }
    /// Descriptors of kind `op` taken so far.
    pub(crate) fn taken(&self, op: Op) -> usize {
        self.posts.lock().unwrap().iter().filter(|o| **o == op).count()
    }
    pub(crate) fn packets(&self) -> usize {
        self.packets.load(Ordering::Relaxed) as usize
    }

    fn serve(&self, connection: OwnedFd) {
        let mut text = vec![0; angara_protocol::msg::DATAGRAM_MAX];
        let mut trees = 0;
        loop {
            let (n, _) = match net::recv(&connection, &mut text[..], RecvFlags::empty()) {
                Ok((n, all)) if n > 0 => (n, all),
                _ => return,
            };
            let say = |reply: &AdapterReply, fds: &[&OwnedFd]| {
                let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                if !fds.is_empty() {
                    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
                }
                let text = serde_json::to_vec(reply).unwrap();
                net::sendmsg(&connection, &[IoSlice::new(&text)], &mut control, SendFlags::empty()).unwrap();
            };
            match serde_json::from_slice(&text[..n]).unwrap() {
                AdapterRequest::Attach { pe, .. } => {
                    let (fds, roles, seat) = self.seat();
                    *self.seats[pe as usize].lock().unwrap() = Some(seat);
                    self.page.1.set_seat(pe as usize, Seat::TAKEN);
                    say(&AdapterReply::Attached { fds: roles }, &fds.iter().collect::<Vec<_>>()[..]);
                }
                AdapterRequest::TreeOpen { .. } => {
                    say(&AdapterReply::Tree { tree: trees }, &[]);
                    trees += 1;
                }
                AdapterRequest::Abort { status, reason, .. } => {
                    *self.aborted.lock().unwrap() = Some((status, reason));
                    say(&AdapterReply::Ok, &[]);
                }
                AdapterRequest::Links { .. } => say(&AdapterReply::Links { load: Load::NONE }, &[]),
                AdapterRequest::TreeClose { .. }
                | AdapterRequest::Rest
                | AdapterRequest::Start
                | AdapterRequest::Routines { .. }
                | AdapterRequest::Detach => say(&AdapterReply::Ok, &[]),
                AdapterRequest::Join { .. } => unreachable!("the driver under test attaches"),
            }
        }
    }

    fn seat(&self) -> (Vec<OwnedFd>, Vec<FdRole>, Pe) {
        let make = |len, access| Mapping::create("fake", len, access).unwrap();
        let (targets_fd, targets) = make(Targets::bytes(self.pes), Access::ReadOnly);
        let targets = Targets::new(targets, self.pes).unwrap();
        for (pe, reach) in self.reach.iter().enumerate() {
            targets.set(pe, *reach);
        }
        let (bounce_fd, bounce) = make(BOUNCE_BYTES, Access::Shared);
        let (counters_fd, _) = make(angara_abi::account::Counters::bytes(self.pes), Access::Shared);
        let (csr_fd, csr) = make(angara_abi::csr::CSR_BYTES, Access::ReadOnly);
        csr.stamp_page(PageKind::Csr, angara_abi::csr::CSR_BYTES).unwrap();
        let (channel_fds, channel) = Channel::create(&angara_abi::shm::Source::Files, "fake").unwrap();
        let doorbell = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap();
        let ChannelFds { page, status, ring, dma } = channel_fds.expect("files");
        let copy = |fd: &OwnedFd| fd.try_clone().unwrap();
        let fds = vec![
            copy(&self.page.0),
            targets_fd,
            copy(&self.sync.0),
            copy(&self.heap.0),
            bounce_fd,
            counters_fd,
            csr_fd,
            page,
            status,
            ring,
            dma,
            doorbell,
        ];
        let roles = [
            FdRole::Job,
            FdRole::Targets,
            FdRole::Sync,
            FdRole::Heap,
            FdRole::Bounce,
            FdRole::Counters,
            FdRole::Csr,
            FdRole::ChannelPage,
            FdRole::ChannelStatus,
            FdRole::Ring,
            FdRole::Dma,
            FdRole::Doorbell,
        ];
        let roles = roles.to_vec();
        (fds, roles, Pe { channel, bounce, targets, csr, consumer: Consumer::default() })
    }

    fn read(&self, me: usize, seat: &Pe, place: Place, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        match place.region {
            Region::Bounce => seat.bounce.read(place.offset as usize, &mut bytes).unwrap(),
            _ => self.heap.1.read(me * self.stride + place.offset as usize, &mut bytes).unwrap(),
        }
        bytes
    }
    fn write(&self, pe: usize, seat: Option<&Pe>, place: Place, data: &[u8]) {
        match (place.region, seat) {
            (Region::Bounce, Some(seat)) => seat.bounce.write(place.offset as usize, data).unwrap(),
            _ => self.heap.1.write_ending(pe * self.stride + place.offset as usize, data).unwrap(),
        }
        self.sync.1.cell(pe).notify(&Linux);
        self.sync.1.answers(pe).notify(&Linux);
    }
    fn pe_at(&self, d: &Descriptor) -> usize {
        (0..self.pes).find(|&pe| self.page.1.pe(pe).coords == d.dst).unwrap()
    }
}

/// State of the network between posts.
#[derive(Default)]
struct Network {
    barrier: Vec<(usize, Place, u32)>,
    slots: HashMap<(u8, u8), Slot>,
    /// Deliveries to make once the seats are unlocked: (PE, status offset).
    counts: Vec<(usize, usize)>,
}

impl Network {
    fn run(mut self, fake: &Fake) {
        while !fake.stop.load(Ordering::Relaxed) {
            let mut idle = true;
            for pe in 0..fake.pes {
                let mut guard = fake.seats[pe].lock().unwrap();
                let Some(seat) = guard.as_mut() else { continue };
                if let Some((seq, csr, value)) = seat.channel.csr_pending() {
                    let ok = angara_abi::csr::client_writable(csr);
                    if ok {
                        let word: &AtomicU64 = seat.csr.at(csr as usize).unwrap();
                        word.store(value, Ordering::Relaxed);
                    }
                    seat.channel.csr_acknowledge(seq, if ok { Ok(()) } else { Err(Fault::BadCsr) });
                }
                for _ in 0..64 {
                    if fake.hold.load(Ordering::Relaxed) {
                        break;
                    }
                    let Some(post) = seat.consumer.next(&seat.channel).unwrap() else { break };
                    idle = false;
                    let seq = self.apply(fake, pe, seat, post);
                    for at in [status::COPIED, status::INJECTED, status::DELIVERED] {
                        seat.channel.status_u32(at).store(seq, Ordering::Release);
                    }
                }
                drop(guard);
                for (pe, at) in self.counts.drain(..) {
                    let guard = fake.seats[pe].lock().unwrap();
                    guard.as_ref().unwrap().channel.status_u32(at).fetch_add(1, Ordering::AcqRel);
                    fake.sync.1.cell(pe).notify(&Linux);
                    fake.sync.1.answers(pe).notify(&Linux);
                }
            }
            if idle {
                std::thread::yield_now();
            }
        }
    }

    fn apply(&mut self, fake: &Fake, me: usize, seat: &Pe, post: Post) -> u32 {
        let words = match post {
            Post::Packet { seq, header, tail, data } => {
                fake.packets.fetch_add(1, Ordering::Relaxed);
                let bytes: Vec<u8> = data.iter().flat_map(|f| f.to_le_bytes()).collect();
                let len = tail.payload_bytes(header.data_flits).unwrap();
                let Address::Memory { region, offset, .. } = header.address else { panic!("not a memory packet") };
                let place = Place { region: Region::from_bits(region).unwrap(), offset };
                let d = Descriptor { dst: header.dst, ..Descriptor::new(Op::Nop) };
                fake.write(fake.pe_at(&d), None, place, &bytes[..len]);
                return seq;
            }
            Post::Descriptor(words) => words,
        };
        let d = Descriptor::decode(&words).unwrap();
        fake.posts.lock().unwrap().push(d.op);
        let to = fake.pe_at(&d);
        let len = d.len as usize;
        let mut done = d.completion;
        match d.op {
            Op::Put => fake.write(to, None, d.remote.unwrap(), &fake.read(me, seat, d.local.unwrap(), len)),
            Op::PutInline => fake.write(to, None, d.remote.unwrap(), &d.operand.to_le_bytes()[..len]),
            Op::Get => fake.write(me, Some(seat), d.local.unwrap(), &fake.read(to, seat, d.remote.unwrap(), len)),
            Op::Amo => {
                let old = amo(fake, to, &d);
                if let Some(local) = d.local {
                    fake.write(me, Some(seat), local, &old.to_le_bytes());
                }
            }
            Op::Barrier => {
                self.barrier.push((me, done.take().unwrap(), d.seq));
                if self.barrier.len() == fake.pes {
                    self.leave(fake, me, seat);
                }
            }
            Op::Reduce => self.reduce(fake, me, seat, &d),
            Op::Bcast => {
                let data = fake.read(me, seat, d.local.unwrap(), len);
                for pe in 0..fake.pes {
                    fake.write(pe, None, d.remote.unwrap(), &data);
                    self.counts.push((pe, status::TREE_BCASTS + 4 * d.tree as usize));
                }
            }
            Op::Nop | Op::Fence => {}
        }
        if let Some(place) = done {
            fake.write(me, Some(seat), place, &(d.seq as u64).to_le_bytes());
        }
        d.seq
    }

    fn leave(&mut self, fake: &Fake, me: usize, own: &Pe) {
        for (pe, place, seq) in self.barrier.drain(..) {
            let bytes = (seq as u64).to_le_bytes();
            if pe == me {
                fake.write(pe, Some(own), place, &bytes);
            } else {
                let guard = fake.seats[pe].lock().unwrap();
                fake.write(pe, guard.as_ref(), place, &bytes);
            }
        }
    }

    fn reduce(&mut self, fake: &Fake, me: usize, seat: &Pe, d: &Descriptor) {
        let data = fake.read(me, seat, d.local.unwrap(), d.len as usize);
        let fresh = || Slot { count: 0, op: d.reduce_op, elem: d.elem, data: data.clone() };
        let slot = self.slots.entry((d.tree, d.reduce)).or_insert_with(fresh);
        assert_eq!((slot.op, slot.elem, slot.data.len()), (d.reduce_op, d.elem, data.len()), "operands do not match");
        if slot.count > 0 {
            combine(slot, &data);
        }
        slot.count += 1;
        if slot.count < fake.pes {
            return;
        }
        let slot = self.slots.remove(&(d.tree, d.reduce)).unwrap();
        let all = d.flags & flags::ALL != 0;
        for pe in 0..fake.pes {
            if all || pe == fake.pe_at(d) {
                fake.write(pe, None, d.remote.unwrap(), &slot.data);
            }
            self.counts.push((pe, status::TREE_RESULTS + 4 * d.tree as usize));
        }
    }
}

fn combine(slot: &mut Slot, data: &[u8]) {
    macro_rules! run {
        ($t:ty) => {
            for (a, b) in slot.data.chunks_mut(size_of::<$t>()).zip(data.chunks(size_of::<$t>())) {
                let (x, y) = (<$t>::from_le_bytes(a.try_into().unwrap()), <$t>::from_le_bytes(b.try_into().unwrap()));
                let z = match slot.op {
                    ReduceOp::Sum => x.wrapping_add(y),
                    ReduceOp::Max => x.max(y),
                    ReduceOp::Min => x.min(y),
                };
                a.copy_from_slice(&z.to_le_bytes());
            }
        };
    }
    match slot.elem {
        ReduceElem::I32 => run!(i32),
        ReduceElem::U32 => run!(u32),
        ReduceElem::I64 => run!(i64),
        ReduceElem::U64 => run!(u64),
    }
}

fn amo(fake: &Fake, to: usize, d: &Descriptor) -> u64 {
    let offset = to * fake.stride + d.remote.unwrap().offset as usize;
    macro_rules! run {
        ($a:ty, $t:ty) => {{
            let w: &$a = fake.heap.1.at(offset).unwrap();
            let v = d.operand as $t;
            let o = Ordering::SeqCst;
            (match d.amo {
                AmoOp::Add => w.fetch_add(v, o),
                AmoOp::Xor => w.fetch_xor(v, o),
                AmoOp::And => w.fetch_and(v, o),
                AmoOp::Or => w.fetch_or(v, o),
                AmoOp::Swap => w.swap(v, o),
                AmoOp::CompareSwap => w.compare_exchange(d.comparand as $t, v, o, o).unwrap_or_else(|e| e),
                AmoOp::Fetch => w.load(o),
            }) as u64
        }};
    }
    let old = if d.width == 4 { run!(AtomicU32, u32) } else { run!(AtomicU64, u64) };
    fake.sync.1.cell(to).notify(&Linux);
    fake.sync.1.answers(to).notify(&Linux);
    old
}

pub(crate) fn is_unreachable(e: &Error, want: usize) -> bool {
    matches!(e, Error::Unreachable { pe, .. } if *pe == want)
}
