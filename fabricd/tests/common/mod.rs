#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test program uses a part of this module")]
//! A daemon to test against and a client that speaks to it through `abi` alone.

use abi::account::Counters;
use abi::channel::{Channel, ChannelFds};
use abi::desc::{Descriptor, Op, Place, Region};
use abi::job::{BOUNCE_BYTES, Barrier, Collectives, INTERNAL_BYTES, JobPage, PeEntry, SyncPage, Targets};
use abi::launch::{ADAPTER_SOCKET, CONTROL_SOCKET};
use abi::msg::{AdapterReply, AdapterRequest, Event, Failure, FdRole, JobSpec, Line, Map, Path, Reply, Request};
use abi::queue::{Full, Producer};
use abi::shm::Mapping;
use abi::wait::{Linux, register, wait_until};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType,
};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A test that waits longer has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Heap bytes per PE.
pub const HEAP: u64 = 1 << 20;

/// A spawned daemon; ended and checked for leftovers when dropped.
pub struct Daemon {
    pub child: Child,
    pub dir: PathBuf,
}

impl Daemon {
    pub fn start(args: &[&str]) -> Daemon {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("fabricd-test-{}-{n}", std::process::id()));
        Daemon::start_in(dir, args)
    }

    pub fn start_in(dir: PathBuf, args: &[&str]) -> Daemon {
        let mut child = Command::new(env!("CARGO_BIN_EXE_fabricd"))
            .args(["--log", "warn", "--runtime-dir"])
            .arg(&dir)
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the daemon starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("a line when ready");
        assert!(line.contains("\"pid\""), "the daemon did not become ready: {line:?}");
        Daemon { child, dir }
    }

    pub fn control(&self) -> Control {
        let stream = UnixStream::connect(self.dir.join(CONTROL_SOCKET)).expect("control socket");
        stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
        Control { reader: BufReader::new(stream), events: Vec::new() }
    }

    /// Asks it to end and waits.
    pub fn shutdown(&mut self) {
        self.control().ask(&Request::Shutdown);
        assert!(self.child.wait().expect("daemon").success());
        assert!(!self.dir.exists(), "{} is left", self.dir.display());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A control connection.
pub struct Control {
    pub reader: BufReader<UnixStream>,
    pub events: Vec<Event>,
}

impl Control {
    pub fn raw(&mut self, line: &str) -> Reply {
        self.reader.get_mut().write_all(format!("{line}\n").as_bytes()).expect("daemon reads");
        loop {
            match self.line() {
                Line::Reply(reply) => return reply,
                Line::Event(event) => self.events.push(event),
            }
        }
    }

    fn line(&mut self) -> Line {
        let mut text = String::new();
        self.reader.read_line(&mut text).expect("daemon answers");
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text:?}"))
    }

    pub fn ask(&mut self, request: &Request) -> Reply {
        self.raw(&serde_json::to_string(request).expect("encodes"))
    }

    pub fn refused(&mut self, request: &Request) -> Failure {
        match self.ask(request) {
            Reply::Error(f) => f,
            other => panic!("must be refused: {other:?}"),
        }
    }

    pub fn event(&mut self) -> Event {
        if !self.events.is_empty() {
            return self.events.remove(0);
        }
        match self.line() {
            Line::Event(event) => event,
            other => panic!("{other:?} where an event was due"),
        }
    }

    pub fn create(&mut self, spec: &JobSpec) -> (u32, String) {
        match self.ask(&Request::JobCreate(spec.clone())) {
            Reply::Job { job, key, .. } => (job, key),
            other => panic!("{other:?}"),
        }
    }
}

pub fn spec(pes: u32, ppn: u32, path: Path) -> JobSpec {
    JobSpec {
        pes,
        ppn,
        map: Map::Linear,
        heap: HEAP,
        path,
        barrier: Barrier::Auto,
        collectives: Collectives::Auto,
        name: "test".into(),
    }
}

/// A connection to the adapter socket.
pub struct Adapter {
    fd: OwnedFd,
}

impl Adapter {
    pub fn connect(daemon: &Daemon) -> Adapter {
        let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let fd = fd.expect("socket");
        let address = SocketAddrUnix::new(daemon.dir.join(ADAPTER_SOCKET)).expect("path");
        rustix::net::connect(&fd, &address).expect("adapter socket");
        Adapter { fd }
    }

    pub fn send(&self, data: &[u8]) {
        rustix::net::send(&self.fd, data, SendFlags::NOSIGNAL).expect("daemon takes it");
    }

    pub fn send_with(&self, data: &[IoSlice<'_>], control: &mut SendAncillaryBuffer<'_, '_, '_>, flags: SendFlags) {
        rustix::net::sendmsg(&self.fd, data, control, flags).expect("daemon takes it");
    }

    pub fn receive(&self) -> (AdapterReply, Vec<OwnedFd>) {
        let mut buffer = vec![0; abi::msg::DATAGRAM_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(32))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let iov = &mut [IoSliceMut::new(&mut buffer)];
        let got = rustix::net::recvmsg(&self.fd, iov, &mut control, RecvFlags::CMSG_CLOEXEC).expect("daemon answers");
        let fds = control.drain().flat_map(|m| match m {
            RecvAncillaryMessage::ScmRights(fds) => fds.collect::<Vec<_>>(),
            _ => Vec::new(),
        });
        let fds = fds.collect();
        (serde_json::from_slice(&buffer[..got.bytes]).expect("a reply"), fds)
    }

    pub fn ask(&self, request: &AdapterRequest) -> (AdapterReply, Vec<OwnedFd>) {
        self.send(&serde_json::to_vec(request).expect("encodes"));
        self.receive()
    }

    pub fn refused(&self, request: &AdapterRequest) -> Failure {
        match self.ask(request).0 {
            AdapterReply::Error(f) => f,
            other => panic!("must be refused: {other:?}"),
        }
    }
}

pub fn attach_request(job: u32, key: &str, pe: u32) -> AdapterRequest {
    AdapterRequest::Attach { abi: abi::ABI_VERSION, job, key: key.into(), pe, statics: vec![4096] }
}

/// An attached PE with everything mapped.
pub struct Pe {
    pub adapter: Adapter,
    pub pe: usize,
    pub page: JobPage,
    pub targets: Targets,
    pub sync: SyncPage,
    pub heap: Mapping,
    pub bounce: Mapping,
    pub counters: Counters,
    pub csr: Mapping,
    pub channel: Channel,
    pub producer: Producer,
    stride: usize,
    doorbell: OwnedFd,
    detached: bool,
}

impl Pe {
    pub fn attach(daemon: &Daemon, job: u32, key: &str, pe: u32) -> Pe {
        register();
        let adapter = Adapter::connect(daemon);
        let (reply, fds) = adapter.ask(&attach_request(job, key, pe));
        let AdapterReply::Attached { fds: roles } = reply else { panic!("{reply:?}") };
        assert_eq!(roles.len(), fds.len());
        let mut fds: HashMap<String, OwnedFd> = roles.iter().map(|r| format!("{r:?}")).zip(fds).collect();
        let mut take = |role: FdRole| fds.remove(&format!("{role:?}")).expect("role is there");
        let page = Mapping::map_read_only(take(FdRole::Job), 1 << 16);
        let page = page.map_or_else(|_| panic!("job page"), |m| JobPage::open(m).expect("job page"));
        let g = page.geometry().expect("known values");
        let pes = g.pes;
        let channel = ChannelFds {
            page: take(FdRole::ChannelPage),
            status: take(FdRole::ChannelStatus),
            ring: take(FdRole::Ring),
            dma: take(FdRole::Dma),
        };
        let map = |fd: OwnedFd, len| Mapping::map(&fd, len).expect("maps");
        let read = |fd: OwnedFd, len| Mapping::map_read_only(&fd, len).expect("maps");
        Pe {
            adapter,
            pe: pe as usize,
            targets: Targets::new(read(take(FdRole::Targets), Targets::bytes(pes)), pes).expect("targets"),
            sync: SyncPage::open(map(take(FdRole::Sync), SyncPage::bytes(pes)), pes).expect("sync page"),
            heap: map(take(FdRole::Heap), g.heap_stride * pes),
            bounce: map(take(FdRole::Bounce), BOUNCE_BYTES),
            counters: Counters::new(map(take(FdRole::Counters), Counters::bytes(pes)), pes).expect("counters"),
            csr: read(take(FdRole::Csr), abi::csr::CSR_BYTES),
            channel: Channel::map(&channel).expect("channel"),
            producer: Producer::default(),
            stride: g.heap_stride,
            doorbell: take(FdRole::Doorbell),
            page,
            detached: false,
        }
    }

    pub fn entry(&self, pe: usize) -> PeEntry {
        self.page.pe(pe)
    }

    /// A descriptor aimed at heap offset `offset` of `pe`.
    pub fn aim(&self, op: Op, pe: usize, offset: u64) -> Descriptor {
        let e = self.entry(pe);
        Descriptor { dst: e.coords, endpoint: e.endpoint, remote: Some(heap(offset)), ..Descriptor::new(op) }
    }

    pub fn ring_doorbell(&self) {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
        if self.page.daemon_sleeps().load(Ordering::Relaxed) != 0 {
            rustix::io::write(&self.doorbell, &1u64.to_ne_bytes()).expect("doorbell");
        }
    }

    pub fn post(&mut self, d: &Descriptor) -> u32 {
        loop {
            match self.producer.post(&self.channel, d.encode()) {
                Ok(seq) => {
                    self.ring_doorbell();
                    return seq;
                }
                Err(Full) => self.pause(),
            }
        }
    }

    pub fn inject(&mut self, packet: &[abi::packet::Flit]) -> u32 {
        loop {
            match self.producer.inject(&self.channel, packet) {
                Ok(seq) => {
                    self.ring_doorbell();
                    return seq;
                }
                Err(Full) => self.pause(),
            }
        }
    }

    fn pause(&self) {
        self.ring_doorbell();
        rustix::thread::sched_yield();
    }

    /// Waits on this PE's cell.
    pub fn wait(&self, what: &str, ready: impl FnMut() -> bool) {
        let end = Instant::now() + PATIENCE;
        let late = || (Instant::now() > end).then(|| format!("gave up waiting for {what}"));
        wait_until(self.sync.cell(self.pe), &abi::wait::Linux, true, || false, ready, late)
            .unwrap_or_else(|e: String| panic!("{e}"));
    }

    /// Posts and waits for the completion word.
    pub fn run(&mut self, d: &Descriptor) {
        let seq = self.post(&Descriptor { completion: Some(bounce(0)), ..*d });
        self.wait("a completion", || self.bounce_word(0) as u32 == seq);
    }

    /// A read that travels behind everything sent to `pe`.
    pub fn quiet(&mut self, pe: usize) {
        self.run(&Descriptor { len: 8, local: Some(bounce(512)), ..self.aim(Op::Get, pe, 0) });
    }

    pub fn bounce_word(&self, offset: usize) -> u64 {
        self.bounce.at::<AtomicU64>(offset).expect("inside").load(Ordering::Acquire)
    }

    pub fn heap_word(&self, pe: usize, offset: u64) -> &AtomicU64 {
        self.heap.at(pe * self.stride + offset as usize).expect("inside")
    }

    pub fn notify(&self, pe: usize) {
        self.sync.cell(pe).notify(&Linux);
    }

    pub fn detach(&mut self) {
        if !std::mem::replace(&mut self.detached, true) {
            let (reply, _) = self.adapter.ask(&AdapterRequest::Detach);
            assert_eq!(reply, AdapterReply::Ok);
        }
    }
}

pub fn heap(offset: u64) -> Place {
    Place { region: Region::Heap, offset }
}

pub fn bounce(offset: u64) -> Place {
    Place { region: Region::Bounce, offset }
}

/// First byte of the user's heap.
pub const USER: u64 = INTERNAL_BYTES as u64;

/// A job of `pes` attached PEs.
pub fn job(daemon: &Daemon, control: &mut Control, spec: &JobSpec) -> (u32, Vec<Pe>) {
    let (job, key) = control.create(spec);
    (job, (0..spec.pes).map(|pe| Pe::attach(daemon, job, &key, pe)).collect())
}
