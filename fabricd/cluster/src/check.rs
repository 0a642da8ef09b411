//! What only the machine knows about a cluster file: whether the addresses are its own, whether a route
//! leads to the other hosts, how large a packet it carries, whether the keys can be read.

use super::file::show_nodes;
use crate::{Cluster, Host, HostId};
use angara_net::torus::{Direction, NodeId};
use rustix::net::sockopt;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// How long an ICMP answer to an empty datagram may take.
const ANSWER: Duration = Duration::from_millis(300);
/// Path MTU below which packets of the network do not fit a frame well.
const MTU_SMALL: u32 = 1280;

/// Something that was found out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What, with the remedy.
    pub text: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// As it should be.
    Fine,
    /// Works, but not well, or cannot be told from here.
    Warning,
    /// Will not work.
    Error,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.severity {
            Severity::Fine => "ok",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{word:8} {}", self.text)
    }
}

fn fine(text: String) -> Finding {
    Finding { severity: Severity::Fine, text }
}
fn warning(text: String) -> Finding {
    Finding { severity: Severity::Warning, text }
}
fn error(text: String) -> Finding {
    Finding { severity: Severity::Error, text }
}

/// Checks what host `me` needs.
pub fn check(cluster: &Cluster, me: HostId) -> Vec<Finding> {
    let mut found = layout(cluster);
    found.push(match cluster.load_keys() {
        Ok(keys) => fine(format!("keys {:?}, sending with {}", keys.all.keys().collect::<Vec<_>>(), keys.current)),
        Err(e) => error(e.to_string()),
    });
    let own = bindable(&cluster.hosts[me.index()], &mut found);
    let mut links: BTreeMap<HostId, usize> = BTreeMap::new();
    for crossing in cluster.crossings().iter().filter(|c| c.from_host == me) {
        // A cable is two links.
        *links.entry(crossing.to_host).or_default() += 2;
    }
    for (&peer, &count) in &links {
        found.push(reach(cluster, &own, &cluster.hosts[peer.index()], count));
    }
    if links.is_empty() && cluster.hosts.len() > 1 {
        found.push(error(format!("no link leads from host {} to another one", cluster.hosts[me.index()].name)));
    }
    found
}

/// Returns what the nodes' places say: parts of a host's block that are only connected through other hosts.
fn layout(cluster: &Cluster) -> Vec<Finding> {
    let mut found = Vec::new();
    for host in &cluster.hosts {
        let part = connected(cluster, host.nodes[0], |n| host.nodes.binary_search(&n).is_ok());
        let rest: Vec<NodeId> = host.nodes.iter().copied().filter(|n| !part[*n as usize]).collect();
        if !rest.is_empty() {
            found.push(warning(format!(
                "host {}: {} cannot reach its other nodes except through other hosts; a block without gaps is faster",
                host.name,
                show_nodes(&rest)
            )));
        }
    }
    found
}

fn connected(cluster: &Cluster, from: NodeId, inside: impl Fn(NodeId) -> bool) -> Vec<bool> {
    let mut seen = vec![false; cluster.shape.nodes()];
    seen[from as usize] = true;
    let mut next = vec![from];
    while let Some(node) = next.pop() {
        for dir in Direction::ALL {
            if let Some(to) = cluster.shape.neighbour(node, dir).filter(|&to| inside(to) && !seen[to as usize]) {
                seen[to as usize] = true;
                next.push(to);
            }
        }
    }
    seen
}

/// The addresses of `host` that are this machine's.
fn bindable(host: &Host, found: &mut Vec<Finding>) -> Vec<IpAddr> {
    let mut own = Vec::new();
    for address in &host.addresses {
        let resolved = match address.resolve() {
            Ok(resolved) => resolved,
            Err(e) => {
                found.push(error(format!("own address {address}: {e}")));
                continue;
            }
        };
        for at in resolved {
            match UdpSocket::bind(at) {
                Ok(_) => found.push(fine(format!("own address {at} can be bound"))),
                Err(e) if e.kind() == io::ErrorKind::AddrInUse => found.push(warning(format!(
                    "own address {at} is in use; that is right if this host's daemon runs already, \
                     else see `ss -lunp` or give another port"
                ))),
                Err(e) if e.kind() == io::ErrorKind::AddrNotAvailable => {
                    found.push(error(format!(
                        "own address {at} is not an address of this machine; see `ip address`, or check --host"
                    )));
                    continue;
                }
                Err(e) => {
                    found.push(error(format!("own address {at} cannot be bound: {e}")));
                    continue;
                }
            }
            own.push(at.ip());
        }
    }
    own
}

/// Tries the addresses of a peer in their order; the first that a route leads to counts.
fn reach(cluster: &Cluster, own: &[IpAddr], peer: &Host, links: usize) -> Finding {
    let title = format!("host {} ({links} links)", peer.name);
    let addresses = match peer.resolve() {
        Ok(addresses) => addresses,
        Err(e) => return error(format!("{title}: {e}")),
    };
    let mut last = format!("{title}: none of its addresses is of the same family as an own one; add one");
    for at in addresses {
        if !own.iter().any(|ip| ip.is_ipv4() == at.is_ipv4()) {
            continue;
        }
        match probe(own, at) {
            Ok((mtu, heard)) => return judge(cluster, &title, at, mtu, heard),
            Err(e) if own.iter().all(IpAddr::is_loopback) && !at.ip().is_loopback() => {
                last = format!(
                    "{title}: {at} cannot be reached from this host's own address, which is a loopback one: {e}; \
                     give it an address of the network that {} is in",
                    at.ip()
                );
            }
            Err(e) => last = format!("{title}: {at} cannot be reached: {e}; see `ip route get {}`", at.ip()),
        }
    }
    error(last)
}

fn judge(cluster: &Cluster, title: &str, at: SocketAddr, mtu: Option<u32>, heard: Heard) -> Finding {
    let state = match heard {
        Heard::Nothing => "no sign that it refuses",
        Heard::Refused => "the host answers, but no daemon listens there yet",
    };
    let wanted = cluster.mtu.map(u32::from);
    match (mtu, wanted) {
        (Some(mtu), _) if mtu < needed(at) => error(format!("{title}: {}", narrow(at, mtu))),
        (Some(mtu), Some(wanted)) if wanted > mtu => error(format!(
            "{title}: the path to {at} carries packets of {mtu} bytes, but mtu = {wanted}; \
             write mtu = {mtu}, or raise the interface's (`ip link set … mtu {wanted}`)"
        )),
        (Some(mtu), _) if mtu < MTU_SMALL => {
            warning(format!("{title}: {at}, path MTU {mtu} is small and costs throughput; {state}"))
        }
        (Some(mtu), _) => fine(format!("{title}: {at}, path MTU {mtu}, {state}")),
        (None, _) => warning(format!("{title}: {at}, path MTU unknown; {state}")),
    }
}

/// The smallest MTU of a path that a trunk can do with.
fn needed(at: SocketAddr) -> u32 {
    angara_net::DATAGRAM_MIN as u32 + if at.is_ipv4() { 28 } else { 48 }
}

fn narrow(at: SocketAddr, mtu: u32) -> String {
    let needed = needed(at);
    format!(
        "the path to {at} carries packets of {mtu} bytes (MTU), and a trunk needs {needed}; raise the interface's \
         (`ip link set … mtu {needed}`)"
    )
}

/// Why there will be no trunk from host `me` to some others, as far as this machine knows: their paths carry only short packets.
pub fn narrow_paths(cluster: &Cluster, me: HostId) -> Vec<(HostId, String)> {
    let own: Vec<IpAddr> =
        cluster.hosts[me.index()].addresses.iter().flat_map(|a| a.resolve()).flatten().map(|a| a.ip()).collect();
    let why = |host: HostId| {
        let mut known = cluster.hosts[host.index()].addresses.iter().flat_map(|a| a.resolve()).flatten();
        known.find_map(|at| {
            let mtu = path_mtu(&connected_to(&own, at).ok()?)?;
            (mtu < needed(at)).then(|| (host, narrow(at, mtu)))
        })
    };
    cluster.ids().filter(|host| *host != me).filter_map(why).collect()
}

/// What came back after an empty datagram, which every daemon drops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Heard {
    Nothing,
    /// ICMP port unreachable.
    Refused,
}

/// A socket of an own address for one peer.
fn connected_to(own: &[IpAddr], to: SocketAddr) -> io::Result<UdpSocket> {
    let any = || match to {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let from = own.iter().copied().find(|ip| ip.is_ipv4() == to.is_ipv4()).unwrap_or_else(any);
    let socket = UdpSocket::bind((from, 0))?;
    socket.connect(to)?;
    Ok(socket)
}

/// What this machine knows of the path of a socket.
fn path_mtu(socket: &UdpSocket) -> Option<u32> {
    let mtu = match socket.peer_addr().ok()? {
        SocketAddr::V4(_) => sockopt::ip_mtu(socket),
        SocketAddr::V6(_) => sockopt::ipv6_mtu(socket),
    };
    mtu.ok().filter(|&mtu| mtu > 0)
}

fn probe(own: &[IpAddr], to: SocketAddr) -> io::Result<(Option<u32>, Heard)> {
    let socket = connected_to(own, to)?;
    socket.set_read_timeout(Some(ANSWER))?;
    socket.send(&[])?;
    let heard = match socket.recv(&mut [0]) {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => Heard::Refused,
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Heard::Nothing,
        Err(e) => return Err(e),
        Ok(_) => Heard::Nothing,
    };
    Ok((path_mtu(&socket), heard))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyFile;
    use angara_net::torus::Shape;
    use std::path::PathBuf;

    fn cluster(hosts: Vec<Host>, mtu: Option<u16>) -> Cluster {
        let shape: Shape = "4x2".parse().expect("a shape");
        Cluster {
            path: PathBuf::from("cluster.toml"),
            id: [1; 16],
            shape,
            hosts,
            current_key: 1,
            keys: vec![KeyFile { id: 1, path: "/nonexistent/key".into() }],
            mtu,
            boundary_slots: None,
            heartbeat: Duration::from_millis(100),
            dead_after: Duration::from_secs(1),
        }
    }

    fn host(name: &str, address: &str, nodes: &[NodeId]) -> Host {
        Host { name: name.into(), addresses: vec![address.parse().expect("an address")], nodes: nodes.into() }
    }

    fn said(found: &[Finding], severity: Severity, part: &str) {
        let hit = found.iter().any(|f| f.severity == severity && f.text.contains(part));
        assert!(hit, "no {severity:?} with `{part}` in {found:#?}");
    }

    #[test]
    fn loopback_peers_are_reachable_and_foreign_addresses_are_named() {
        let taken = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let there = taken.local_addr().expect("bound").to_string();
        // 192.0.2.0/24 is set aside for documentation: nobody's own.
        let hosts = vec![host("a", &there, &[0, 1, 4, 5]), host("b", "127.0.0.2:9", &[2, 3, 6, 7])];
        let c = cluster(hosts, Some(1400));
        let found = check(&c, HostId::new(0));
        said(&found, Severity::Warning, "is in use");
        said(&found, Severity::Error, "/nonexistent/key");
        said(&found, Severity::Fine, "host b (8 links): 127.0.0.2:9, path MTU 65");
        let found = check(&c, HostId::new(1));
        said(&found, Severity::Fine, "own address 127.0.0.2:9 can be bound");
        let hosts = vec![host("a", "192.0.2.1", &[0, 1, 4, 5]), host("b", "127.0.0.2:9", &[2, 3, 6, 7])];
        let found = check(&cluster(hosts.clone(), None), HostId::new(1));
        said(&found, Severity::Error, "192.0.2.1:26290 cannot be reached from this host's own address");
        let found = check(&cluster(hosts, None), HostId::new(0));
        said(&found, Severity::Error, "is not an address of this machine");
        said(&found, Severity::Error, "none of its addresses is of the same family");
    }

    #[test]
    fn scattered_blocks_are_a_warning() {
        let hosts = vec![host("a", "127.0.0.1:9", &[0, 2]), host("b", "127.0.0.2:9", &[1, 3, 4, 5, 6, 7])];
        let found = layout(&cluster(hosts, None));
        said(&found, Severity::Warning, "host a: node 2 cannot reach");
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn mtu_trouble_is_named_with_both_ways_out() {
        let c = cluster(vec![], Some(9000));
        let at = "10.0.0.1:26290".parse().expect("an address");
        let f = judge(&c, "host b (2 links)", at, Some(1500), Heard::Nothing);
        assert_eq!(f.severity, Severity::Error);
        assert!(f.text.contains("write mtu = 1500") && f.text.contains("mtu 9000"), "{f}");
        let f = judge(&cluster(vec![], None), "host b", at, Some(1227), Heard::Refused);
        assert!(f.severity == Severity::Error && f.text.contains("needs 1228"), "{f}");
        let f = judge(&cluster(vec![], None), "host b", at, Some(1228), Heard::Refused);
        assert!(f.severity == Severity::Warning && f.text.contains("no daemon listens"), "{f}");
    }
}
