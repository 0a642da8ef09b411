//! The adapters of this process.

use crate::entry::events;
use angara_hca::address::LinkLayer;
use angara_hca::{Copied, Errno, Hca, Memory, Network, NotSent, Peer, Piece, PublicPair, Region, RemoteAccess, Result};
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, Once, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// An adapter of this process, which has one lock.
pub(crate) struct Adapter {
    hca: Mutex<Hca<Port, Own>>,
    node: u32,
    link: LinkLayer,
    name: String,
}

impl Adapter {
    /// Calls `f` with the adapter, and hands on what it has to tell.
    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut Hca<Port, Own>) -> T) -> T {
        let mut hca = self.hca.lock().unwrap_or_else(PoisonError::into_inner);
        let out = f(&mut hca);
        let events = if hca.has_events() { hca.take_events() } else { Vec::new() };
        drop(hca);
        if !events.is_empty() {
            events::deliver(self, events);
        }
        out
    }

    pub(crate) fn node(&self) -> u32 {
        self.node
    }

    pub(crate) fn link(&self) -> LinkLayer {
        self.link
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// All adapters of this process, which are attached at the first call.
pub(crate) fn adapters() -> Result<&'static [Adapter]> {
    static ALL: OnceLock<[Adapter; 1]> = OnceLock::new();
    static AGENT: Once = Once::new();
    let all = ALL.get_or_init(|| {
        let port = Port { since: Instant::now(), ring: VecDeque::new() };
        let hca = Mutex::new(Hca::new(port, Own, random()));
        [Adapter { hca, node: 0, link: LinkLayer::InfiniBand, name: "angara0".into() }]
    });
    AGENT.call_once(|| {
        std::thread::spawn(|| {
            loop {
                all.iter().for_each(|adapter| while adapter.with(|hca| hca.progress()) {});
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    });
    Ok(all)
}

/// Keys that nobody guesses who does not try.
fn random() -> Box<dyn FnMut() -> u32 + Send> {
    let mut calls = 0;
    Box::new(move || {
        calls += 1;
        RandomState::new().hash_one(calls) as u32
    })
}

/// A network of one node, which sends to itself.
pub(crate) struct Port {
    since: Instant,
    ring: VecDeque<Vec<u8>>,
}

impl Network for Port {
    fn now(&self) -> u64 {
        self.since.elapsed().as_nanos() as u64
    }
    fn me(&self) -> Peer {
        Peer { seat: 0, generation: 0 }
    }
    fn node(&self) -> u32 {
        0
    }
    fn lane(&self) -> u32 {
        0
    }
    fn nodes(&self) -> u32 {
        1
    }
    fn find(&self, node: u32, lane: u32) -> Option<Peer> {
        (node == 0 && lane == 0).then(|| self.me())
    }
    fn is_there(&self, peer: Peer) -> bool {
        peer == self.me()
    }
    fn is_up(&self) -> bool {
        true
    }
    fn message_max(&self) -> usize {
        4096
    }
    fn send(&mut self, _: Peer, parts: &[&[u8]]) -> std::result::Result<(), NotSent> {
        if self.ring.len() == 64 {
            return Err(NotSent::Full);
        }
        self.ring.push_back(parts.concat());
        Ok(())
    }
    fn receive(&mut self, most: usize, take: &mut dyn FnMut(Peer, &[u8])) -> usize {
        let me = self.me();
        let come = self.ring.drain(..most.min(self.ring.len()));
        come.map(|message| take(me, &message)).count()
    }
    fn has_place(&self, _: u32) -> bool {
        true
    }
    fn copies(&self, _: Peer) -> bool {
        false
    }
    fn copy(&mut self, _: &RemoteAccess, _: &[Piece]) -> Copied {
        Copied::NotHere
    }
    fn fetch(&mut self, _: Peer, _: &[Piece], _: &[Piece]) -> Copied {
        Copied::NotHere
    }
    fn publish_region(&mut self, _: &Region) {}
    fn withdraw_region(&mut self, _: u32) {}
    fn publish_pair(&mut self, _: &PublicPair) {}
    fn withdraw_pair(&mut self, _: u32) {}
}

/// The memory of this process.
pub(crate) struct Own;

/// Copies between memory of this process; what is not there is an error.
fn copy(at: u64, here: *mut u8, len: usize, to_here: bool) -> Result<()> {
    let local = libc::iovec { iov_base: here.cast(), iov_len: len };
    let remote = libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(at as usize), iov_len: len };
    let call = if to_here { libc::process_vm_readv } else { libc::process_vm_writev };
    // SAFETY: the caller has as many bytes, the system checks the others.
    let done = unsafe { call(libc::getpid(), &local, 1, &remote, 1, 0) };
    if done == len as isize { Ok(()) } else { Err(Errno::FAULT) }
}

impl Memory for Own {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        copy(at, into.as_mut_ptr(), into.len(), true)
    }
    fn write(&self, at: u64, from: &[u8]) -> Result<()> {
        copy(at, from.as_ptr().cast_mut(), from.len(), false)
    }
    fn update(&self, at: u64, change: &dyn Fn(u64) -> u64) -> Result<u64> {
        let mut word = [0; 8];
        self.read(at, &mut word)?;
        let old = u64::from_ne_bytes(word);
        self.write(at, &change(old).to_ne_bytes())?;
        Ok(old)
    }
    fn is_mapped(&self, at: u64, len: u64, _: bool) -> bool {
        let mut byte = [0];
        len == 0 || (self.read(at, &mut byte).is_ok() && self.read(at + len - 1, &mut byte).is_ok())
    }
}
