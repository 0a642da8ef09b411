//! An adapter client built on `abi` alone: it attaches like a PE and can then do everything a
//! hostile program could, such as writing any bytes anywhere it may write.

use crate::daemon::{Control, Job};
use crate::process::{PATIENCE, wait_readable};
use angara_abi::account::Counters;
use angara_abi::channel::{Channel, ChannelFds, DMA_BYTES, Fault, PAGE_BYTES, RING_BYTES, status};
use angara_abi::csr::CSR_BYTES;
use angara_abi::desc::{Descriptor, Op, Place, Region};
use angara_abi::job::{BOUNCE_BYTES, INTERNAL_BYTES, JobPage, SyncPage, Targets};
use angara_abi::packet::{Address, Flit, Header, PacketType, Vc};
use angara_abi::queue::{Full, Producer};
use angara_abi::shm::{Mapping, ShmError};
use angara_abi::wait::{Linux, wait_until};
use angara_abi::{ABI_VERSION, Architecture};
use angara_net::torus::Coords;
use angara_protocol::launch::ADAPTER_SOCKET;
use angara_protocol::msg::{AdapterReply, AdapterRequest, DATAGRAM_MAX, Failure, FdRole, JobSpec};
use rustix::io::IoSlice;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg, socket_with,
};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A connection to the adapter socket.
pub struct Socket {
    fd: OwnedFd,
}

impl Socket {
    /// Connects to the daemon of `dir`.
    pub fn connect(dir: &Path) -> Socket {
        let fd = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a socket");
        let path = dir.join(ADAPTER_SOCKET);
        connect(&fd, &SocketAddrUnix::new(&path).expect("a short path"))
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Socket { fd }
    }
    /// Makes [`Socket::send`] fail instead of waiting for a daemon that takes no more.
    pub fn nonblocking(&self) {
        rustix::io::ioctl_fionbio(&self.fd, true).expect("a socket");
    }
    /// Sends one datagram with descriptors beside it. Fails when the daemon has closed its end.
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> rustix::io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)), "at most eight descriptors");
        }
        sendmsg(&self.fd, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).map(drop)
    }
    /// The next answer and its descriptors, or `None` when the daemon hung up.
    pub fn receive(&self) -> Option<(AdapterReply, Vec<OwnedFd>)> {
        assert!(wait_readable(&self.fd, PATIENCE), "no answer on the adapter socket within {PATIENCE:?}");
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(32))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = vec![0; DATAGRAM_MAX];
        let got = recvmsg(&self.fd, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC);
        let n = got.map_or(0, |m| m.bytes);
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        if n == 0 {
            return None;
        }
        let reply = serde_json::from_slice(&bytes[..n]);
        let reply = reply.unwrap_or_else(|e| panic!("daemon said {:?}: {e}", String::from_utf8_lossy(&bytes[..n])));
        Some((reply, fds))
    }
    /// Asks and waits for the answer. A daemon that hangs up instead gives an error of its own.
    pub fn ask(&self, request: &AdapterRequest) -> Option<(AdapterReply, Vec<OwnedFd>)> {
        self.send(&serde_json::to_vec(request).expect("plain data"), &[]).ok()?;
        self.receive()
    }
    /// Asks for what the daemon must refuse.
    pub fn refused(&self, request: &AdapterRequest) -> Failure {
        match self.ask(request) {
            Some((AdapterReply::Error(failure), fds)) if fds.is_empty() => failure,
            other => panic!("{request:?} must be refused, not answered with {other:?}"),
        }
    }
}

/// Byte `offset` of a heap.
pub fn heap(offset: u64) -> Place {
    Place { region: Region::Heap, offset }
}

/// Byte `offset` of the bounce region.
pub fn bounce(offset: u64) -> Place {
    Place { region: Region::Bounce, offset }
}

/// Returns what an attached PE asks for, to be changed by tests before it is sent.
pub fn attach_request(job: &Job, pe: u32) -> AdapterRequest {
    let architecture = Architecture::HERE;
    AdapterRequest::Attach { abi: ABI_VERSION, job: job.id, key: job.key.clone(), pe, architecture, statics: vec![] }
}

/// An attached PE and everything the daemon gave it.
pub struct Client {
    /// Life line.
    pub socket: Socket,
    pub pe: u32,
    /// Descriptors by role.
    pub fds: Vec<(FdRole, OwnedFd)>,
    pub channel: Channel,
    /// The client's end of its queues.
    pub producer: Producer,
    pub job: JobPage,
    /// Heaps of all PEs.
    pub heap: Mapping,
    /// Own bounce region.
    pub bounce: Mapping,
    /// How to reach each PE.
    pub targets: Targets,
    /// Cells on which PEs sleep.
    pub sync: SyncPage,
    /// Own traffic on the direct path.
    pub counters: Counters,
    /// Registers of its node, as the daemon shows them.
    pub csr: Mapping,
    /// Bytes from one heap slice to the next.
    pub stride: usize,
}

impl Client {
    /// Attaches as `pe` of `job` to the daemon of `dir`.
    pub fn attach(dir: &Path, job: &Job, pe: u32) -> Result<Client, String> {
        angara_abi::wait::register();
        let socket = Socket::connect(dir);
        match socket.ask(&attach_request(job, pe)) {
            Some((AdapterReply::Attached { fds: roles }, fds)) => Client::map(socket, pe, roles, fds),
            Some((AdapterReply::Error(failure), _)) => Err(format!("{}; {}", failure.message, failure.remedy)),
            other => Err(format!("unexpected answer to attach: {:?}", other.map(|(reply, _)| reply))),
        }
    }

    /// Takes a seat of a domain.
    pub fn join(dir: &Path, request: &AdapterRequest) -> Result<Client, Failure> {
        angara_abi::wait::register();
        let socket = Socket::connect(dir);
        match socket.ask(request) {
            Some((AdapterReply::Joined { pe, fds: roles, .. }, fds)) => {
                Ok(Client::map(socket, pe, roles, fds).expect("everything a seat needs"))
            }
            Some((AdapterReply::Error(failure), _)) => Err(failure),
            other => panic!("unexpected answer to join: {:?}", other.map(|(reply, _)| reply)),
        }
    }

    fn map(socket: Socket, pe: u32, roles: Vec<FdRole>, fds: Vec<OwnedFd>) -> Result<Client, String> {
        assert_eq!(roles.len(), fds.len(), "one descriptor per role: {roles:?}");
        let fds: Vec<_> = roles.into_iter().zip(fds).collect();
        let io = |e: std::io::Error| e.to_string();
        let of = |role: FdRole| {
            let found = fds.iter().find(|(r, _)| *r == role).map(|(_, fd)| fd);
            found.ok_or(format!("no descriptor for {role:?}"))
        };
        let copy = |role| of(role)?.try_clone().map_err(io);
        let size = |role| rustix::fs::fstat(of(role)?).map(|s| s.st_size as usize).map_err(|e| e.to_string());
        let channel = Channel::map(&ChannelFds {
            page: copy(FdRole::ChannelPage)?,
            status: copy(FdRole::ChannelStatus)?,
            ring: copy(FdRole::Ring)?,
            dma: copy(FdRole::Dma)?,
        });
        let job = JobPage::open(Mapping::map_read_only(of(FdRole::Job)?, size(FdRole::Job)?).map_err(io)?);
        let job = job.map_err(|e| e.to_string())?;
        let geometry = job.geometry().ok_or("unknown geometry")?;
        let (pes, stride) = (geometry.pes, geometry.heap_stride);
        let write = |role, len| Mapping::map(of(role)?, len).map_err(io);
        let read = |role, len| Mapping::map_read_only(of(role)?, len).map_err(io);
        let shape = |e: ShmError| e.to_string();
        Ok(Client {
            channel: channel.map_err(io)?,
            producer: Producer::default(),
            heap: write(FdRole::Heap, size(FdRole::Heap)?)?,
            bounce: write(FdRole::Bounce, BOUNCE_BYTES)?,
            targets: Targets::new(read(FdRole::Targets, Targets::bytes(pes))?, pes).map_err(shape)?,
            sync: SyncPage::open(write(FdRole::Sync, SyncPage::bytes(pes))?, pes).map_err(shape)?,
            counters: Counters::new(write(FdRole::Counters, Counters::bytes(pes))?, pes).map_err(shape)?,
            csr: read(FdRole::Csr, CSR_BYTES)?,
            job,
            stride,
            socket,
            pe,
            fds,
        })
    }

    /// The descriptor of a role.
    pub fn fd(&self, role: FdRole) -> BorrowedFd<'_> {
        let found = self.fds.iter().find(|(r, _)| *r == role);
        found.unwrap_or_else(|| panic!("no descriptor for {role:?}")).1.as_fd()
    }
    /// Every page the client may write, as `(mapping, bytes)`: for scribbling.
    pub fn writable(&self, role: FdRole) -> Mapping {
        let len = match role {
            FdRole::ChannelPage => PAGE_BYTES,
            FdRole::Ring => RING_BYTES,
            FdRole::Dma => DMA_BYTES,
            FdRole::Bounce => BOUNCE_BYTES,
            FdRole::Sync => SyncPage::bytes(self.pes()),
            other => panic!("{other:?} is not for scribbling"),
        };
        Mapping::map(self.fd(role), len).expect("the daemon handed it out writable")
    }
    /// PEs of the job.
    pub fn pes(&self) -> usize {
        self.job.geometry().expect("checked at attach").pes
    }
    /// Coordinates and endpoint of a PE.
    pub fn address(&self, pe: usize) -> (Coords, u16) {
        let entry = self.job.pe(pe);
        (entry.coords, entry.endpoint)
    }
    /// A descriptor of `op` for PE `pe`.
    pub fn descriptor(&self, op: Op, pe: usize) -> Descriptor {
        let (dst, endpoint) = self.address(pe);
        Descriptor { dst, endpoint, ..Descriptor::new(op) }
    }
    /// A descriptor of `op` aimed at byte `offset` of the heap of PE `pe`.
    pub fn aim(&self, op: Op, pe: usize, offset: u64) -> Descriptor {
        Descriptor { remote: Some(heap(offset)), ..self.descriptor(op, pe) }
    }
    /// The header of a packet for byte `offset` of the heap of PE `pe`.
    pub fn header(&self, kind: PacketType, data_flits: u8, pe: usize, offset: u64) -> Header {
        let (dst, endpoint) = self.address(pe);
        Header {
            kind,
            data_flits,
            vc: Vc::Request,
            adaptive: false,
            notify: false,
            dirbits: 0,
            first_step: None,
            last_step: None,
            dst,
            address: Address::Memory { endpoint, region: Region::Heap as u8, offset },
        }
    }
    /// The word at byte `offset` of the heap of PE `pe`.
    pub fn heap_word(&self, pe: usize, offset: u64) -> &AtomicU64 {
        self.heap.at(pe * self.stride + offset as usize).expect("inside")
    }
    /// The word at byte `offset` of its bounce region.
    pub fn bounce_word(&self, offset: usize) -> u64 {
        self.bounce.at::<AtomicU64>(offset).expect("inside").load(Ordering::Acquire)
    }
    /// Byte offset in the heap arena of `offset` in the user part of PE `pe`'s heap.
    pub fn user(&self, pe: usize, offset: usize) -> usize {
        pe * self.stride + INTERNAL_BYTES + offset
    }

    /// Wakes the data plane if it sleeps, as every client must after a post.
    pub fn ring_doorbell(&self) {
        std::sync::atomic::fence(Ordering::SeqCst);
        if self.job.daemon_sleeps().load(Ordering::Relaxed) != 0 {
            let _ = rustix::io::write(self.fd(FdRole::Doorbell), &1u64.to_ne_bytes());
        }
    }
    pub fn post(&mut self, d: &Descriptor) -> Result<u32, Full> {
        let posted = self.producer.post(&self.channel, d.encode());
        self.ring_doorbell();
        posted
    }
    /// Posts a raw packet.
    pub fn inject(&mut self, flits: &[Flit]) -> Result<u32, Full> {
        let posted = self.producer.inject(&self.channel, flits);
        self.ring_doorbell();
        posted
    }
    /// Waits until `done` holds, at most `limit`; rings the doorbell now and then.
    pub fn wait(&self, limit: Duration, mut done: impl FnMut(&Client) -> bool) -> bool {
        let end = Instant::now() + limit;
        while !done(self) {
            if Instant::now() >= end {
                return false;
            }
            self.ring_doorbell();
            std::thread::yield_now();
        }
        true
    }
    /// Sleeps on its own cell, as a driver does, until `ready`.
    pub fn sleep_until(&self, what: &str, ready: impl FnMut() -> bool) {
        let end = Instant::now() + PATIENCE;
        let late = || (Instant::now() > end).then(|| format!("no sign of {what} within {PATIENCE:?}"));
        wait_until(self.sync.cell(self.pe as usize), &Linux, true, || false, ready, late)
            .unwrap_or_else(|e: String| panic!("{e}"));
    }
    /// Posts a descriptor and sleeps until it has completed.
    pub fn run(&mut self, d: &Descriptor) {
        let seq = self.post(&Descriptor { completion: Some(bounce(0)), ..*d }).expect("room");
        self.sleep_until("a completion", || self.bounce_word(0) as u32 == seq);
    }
    /// A read that travels behind everything sent to `pe`.
    pub fn quiet(&mut self, pe: usize) {
        self.run(&Descriptor { len: 8, local: Some(bounce(512)), ..self.aim(Op::Get, pe, 0) });
    }
    /// Writes `value` to the heap of `pe` through the rings and waits until it is there, using a
    /// read of the same word as the acknowledgement.
    pub fn put_and_quiet(&mut self, pe: usize, offset: usize, value: u64) -> Result<(), String> {
        let at = (INTERNAL_BYTES + offset) as u64;
        let put = Descriptor { len: 8, operand: value, ..self.aim(Op::PutInline, pe, at) };
        self.post(&put).map_err(|_| "queue full")?;
        let (local, completion) = (Some(bounce(4096)), Some(bounce(0)));
        let get = Descriptor { len: 8, local, completion, ..self.aim(Op::Get, pe, at) };
        let seq = self.post(&get).map_err(|_| "queue full")?;
        if !self.wait(PATIENCE, |c| c.bounce_word(0) == seq as u64 || c.channel.error().is_some()) {
            return Err(format!("post {seq} did not complete within {PATIENCE:?}"));
        }
        match (self.channel.error(), self.bounce_word(4096)) {
            (Some((fault, at)), _) => Err(format!("{fault:?} at post {at}")),
            (None, got) if got == value => Ok(()),
            (None, got) => Err(format!("read back {got:#x} instead of {value:#x}")),
        }
    }
    /// Says that it is done.
    pub fn detach(self) {
        let answer = self.socket.ask(&AdapterRequest::Detach);
        assert!(matches!(answer, Some((AdapterReply::Ok, _))), "PE {} could not detach: {answer:?}", self.pe);
    }
    /// The sticky error, once there is one.
    pub fn expect_error(&self) -> (Fault, u32) {
        let there = self.wait(PATIENCE, |c| c.channel.error().is_some());
        assert!(there, "no sticky error within {PATIENCE:?}; head {:?}", self.head());
        self.channel.error().expect("just seen")
    }
    /// Posts and flits taken so far.
    pub fn head(&self) -> (u32, u32) {
        let word = |at| self.channel.status_u32(at).load(Ordering::Acquire);
        (word(status::DMA_HEAD), word(status::TX_HEAD))
    }
}

/// Creates a job and attaches all its PEs.
pub fn attach_all(dir: &Path, control: &mut Control, spec: JobSpec) -> (Job, Vec<Client>) {
    let pes = spec.pes;
    let job = control.create(spec).expect("a plain job");
    let clients = (0..pes).map(|pe| Client::attach(dir, &job, pe).expect("attach")).collect();
    (job, clients)
}
