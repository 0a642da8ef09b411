//! The adapters of this process.

use crate::entry::events;
use angara_hca::address::LinkLayer;
use angara_hca::{
    Copied, Errno, Hca, Memory, Network, NotSent, Peer, Piece, PublicPair, Region, RemoteAccess, Result,
};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

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
    Ok(ALL.get_or_init(|| {
        let hca = Mutex::new(Hca::new(Port { since: Instant::now() }, Own));
        [Adapter { hca, node: 0, link: LinkLayer::InfiniBand, name: "angara0".into() }]
    }))
}

/// A network of one node.
pub(crate) struct Port {
    since: Instant,
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
    fn send(&mut self, _: Peer, _: &[&[u8]]) -> std::result::Result<(), NotSent> {
        Err(NotSent::Gone)
    }
    fn receive(&mut self, _: usize, _: &mut dyn FnMut(Peer, &[u8])) -> usize {
        0
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

impl Memory for Own {
    fn read(&self, _: u64, _: &mut [u8]) -> std::result::Result<(), Errno> {
        Err(Errno::FAULT)
    }
    fn write(&self, _: u64, _: &[u8]) -> std::result::Result<(), Errno> {
        Err(Errno::FAULT)
    }
    fn update(&self, _: u64, _: &dyn Fn(u64) -> u64) -> std::result::Result<u64, Errno> {
        Err(Errno::FAULT)
    }
    fn is_mapped(&self, at: u64, _: u64, _: bool) -> bool {
        at != 0
    }
}
