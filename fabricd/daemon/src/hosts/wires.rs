//! What the trunks of this host run over: its socket, the addresses of the other hosts, and keys.

use angara_cluster::{Host, Keys, Membership};
use angara_plane::{TrunkHost, TrunksConfig};
use angara_trunk::KeyRing;
use angara_trunk::socket::{Socket, SocketKind};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// How long an address may stay in use.
const BIND_PATIENCE: Duration = Duration::from_secs(2);

/// What all trunks of a host run over.
pub(crate) struct Wires {
    pub(crate) socket: Box<dyn Socket>,
    /// Of every host.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) keys: KeyRing,
    /// Where seeds of associations come from.
    pub(crate) random: Box<dyn FnMut() -> io::Result<[u8; 32]> + Send>,
}

impl Wires {
    /// Opens the socket and reads the keys.
    pub(crate) fn open(member: &Membership, kind: SocketKind) -> io::Result<Wires> {
        let cluster = &member.cluster;
        let keys = key_ring(&cluster.load_keys().map_err(io::Error::other)?)?;
        let address = |host: &Host| {
            let found = host.resolve().map_err(io::Error::other)?;
            found.first().copied().ok_or_else(|| io::Error::other("a host without address"))
        };
        let addresses = cluster.hosts.iter().map(address).collect::<io::Result<Vec<_>>>()?;
        let socket = bind(addresses[member.host.index()], kind)?;
        Ok(Wires { socket, addresses, keys, random: Box::new(random) })
    }

    /// Returns what a data plane is told of the cluster.
    pub(crate) fn trunks(self, member: &Membership) -> TrunksConfig {
        let cluster = &member.cluster;
        let host = |(host, address): (&Host, SocketAddr)| TrunkHost { name: host.name.clone(), address };
        TrunksConfig {
            me: member.host,
            hosts: cluster.hosts.iter().zip(self.addresses).map(host).collect(),
            nodes: cluster.hosts[member.host.index()].nodes.clone(),
            owners: cluster.owners(),
            cluster: cluster.id,
            heartbeat: cluster.heartbeat,
            dead_after: cluster.dead_after,
            mtu: cluster.mtu,
            slots: cluster.boundary_slots,
            socket: self.socket,
            keys: self.keys,
            random: self.random,
        }
    }
}

/// Opens the socket, which the kernel may still hold for a daemon that was just killed: it takes io_urings apart in
/// its own time.
fn bind(address: SocketAddr, kind: SocketKind) -> io::Result<Box<dyn Socket>> {
    let give_up = std::time::Instant::now() + BIND_PATIENCE;
    loop {
        match angara_trunk::socket::open(address, kind) {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse && std::time::Instant::now() < give_up => {
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => return opened.map_err(|e| io::Error::new(e.kind(), format!("UDP address {address}: {e}"))),
        }
    }
}

/// Keys as trunks take them.
pub(crate) fn key_ring(keys: &Keys) -> io::Result<KeyRing> {
    let current = &keys.all[&keys.current];
    let mut ring = KeyRing::new(keys.current, current).map_err(io::Error::other)?;
    for (id, key) in keys.all.iter().filter(|(id, _)| **id != keys.current) {
        ring.add(*id, key).map_err(io::Error::other)?;
    }
    Ok(ring)
}

fn random() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    match rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())? {
        32 => Ok(bytes),
        _ => Err(io::Error::other("the kernel gave too few random bytes")),
    }
}
