//! What a daemon is told and the `angara` command knows, too.
//!
//! Above all the cluster file: which hosts form one torus, where they listen, which nodes each of them plays.
//!
//! Every host reads the same TOML file. What is wrong in it is refused with file and line before a
//! daemon starts; what only the machine knows (addresses, routes, path MTU) is what
//! `fabricd --check-config` asks in [`check`]. Beside it the options of `fabricd` ([`args`]), and what both
//! programs do about [`signals`] and mistakes in command lines ([`usage`]).
#![forbid(unsafe_code)]

pub mod args;
pub mod blocks;
pub mod check;
mod file;
mod keys;
pub mod signals;
pub mod usage;

pub use angara_net::HostId;
pub use file::render;
pub use keys::{KEY_BYTES, KeyError, Keys, create as create_key, read as read_key};

use angara_net::torus::{Direction, NodeId, Shape};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// UDP port of a daemon unless the file says another.
pub const PORT_DEFAULT: u16 = 26290;
/// Most hosts of one cluster: peers are numbered with 16 bits.
pub const HOSTS_MAX: usize = 4096;
/// Least size of an IP packet: the smallest datagram of a trunk with the headers of IPv6 and UDP.
pub const MTU_MIN: u16 = angara_net::DATAGRAM_MIN as u16 + 48;
/// How often an idle trunk says that it lives.
pub const HEARTBEAT_DEFAULT: Duration = Duration::from_millis(100);
/// A peer that says nothing for this long is taken for dead.
pub const DEAD_AFTER_DEFAULT: Duration = Duration::from_secs(1);

/// A place in a cluster.
#[derive(Clone, PartialEq, Debug)]
pub struct Membership {
    /// The cluster file.
    pub cluster: Cluster,
    pub host: HostId,
}

/// A checked cluster file.
#[derive(Clone, PartialEq, Debug)]
pub struct Cluster {
    /// The file.
    pub path: PathBuf,
    /// Identity of the cluster, named by every frame.
    pub id: [u8; 16],
    /// Shape of the whole network.
    pub shape: Shape,
    /// Hosts in the order of the file, by which they are numbered.
    pub hosts: Vec<Host>,
    /// Key with which this cluster's daemons seal what they send.
    pub current_key: u8,
    /// Key files by id; frames sealed with any of them are accepted.
    pub keys: Vec<KeyFile>,
    /// Largest IP packet to send; `None`: found out.
    pub mtu: Option<u16>,
    /// Packet slots of a link that crosses hosts; `None`: chosen by the daemon.
    pub boundary_slots: Option<u16>,
    /// How often an idle trunk says that it lives.
    pub heartbeat: Duration,
    /// A peer that says nothing for this long is taken for dead.
    pub dead_after: Duration,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// Its name, as `--host` gives it.
    pub name: String,
    /// Where its daemon can be reached, the preferred one first.
    pub addresses: Vec<Address>,
    /// Nodes it plays, ascending.
    pub nodes: Vec<NodeId>,
}

/// A name or number of a machine, and a UDP port.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address {
    /// IPv4 address, IPv6 address (without brackets) or name.
    pub host: String,
    /// UDP port.
    pub port: u16,
}

/// A file with a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyFile {
    /// Number that frames carry.
    pub id: u8,
    /// The file; relative ones lie beside the cluster file.
    pub path: PathBuf,
}

/// A torus link whose ends lie on different hosts, seen from its sending end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Crossing {
    /// Sending node.
    pub node: NodeId,
    /// Direction it sends in.
    pub dir: Direction,
    /// Receiving node.
    pub to: NodeId,
    /// Host of `node`.
    pub from_host: HostId,
    /// Host of `to`.
    pub to_host: HostId,
}

/// Why a cluster file was refused.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// It cannot be read.
    #[error("cannot read the cluster file {path}: {error}; check --cluster")]
    Read {
        /// The file.
        path: PathBuf,
        error: std::io::Error,
    },
    /// It has mistakes, each with its line.
    #[error("{}", show_mistakes(path, mistakes))]
    File {
        /// The file.
        path: PathBuf,
        /// Line (from 1) and what is wrong there, in the order of the file.
        mistakes: Vec<(usize, String)>,
    },
    /// It has no such host.
    #[error("{path} has no host `{name}`; its hosts are {known}")]
    NoHost {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        name: String,
        known: String,
    },
}

fn show_mistakes(path: &Path, mistakes: &[(usize, String)]) -> String {
    mistakes.iter().map(|(line, m)| format!("{}:{line}: {m}", path.display())).collect::<Vec<_>>().join("\n")
}

impl Cluster {
    /// Reads and checks a cluster file. Keys are read by [`Cluster::load_keys`].
    pub fn load(path: &Path) -> Result<Cluster, ClusterError> {
        let read = |error| ClusterError::Read { path: path.to_owned(), error };
        // Absolute, so that what is named relative to it is found from every directory.
        let absolute = std::path::absolute(path).map_err(read)?;
        let text = std::fs::read_to_string(&absolute).map_err(read)?;
        file::parse(&absolute, &text).map_err(|mistakes| ClusterError::File { path: path.to_owned(), mistakes })
    }

    /// Every host.
    pub fn ids(&self) -> impl Iterator<Item = HostId> + Clone + use<> {
        (0..self.hosts.len() as u16).map(HostId::new)
    }

    /// The host called `name`.
    pub fn host(&self, name: &str) -> Result<HostId, ClusterError> {
        self.ids().find(|id| self.hosts[id.index()].name == name).ok_or_else(|| ClusterError::NoHost {
            path: self.path.clone(),
            name: name.into(),
            known: self.hosts.iter().map(|h| h.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// The host of every node, by node.
    pub fn owners(&self) -> Vec<HostId> {
        let mut owners = vec![HostId::default(); self.shape.nodes()];
        for (id, host) in self.ids().zip(&self.hosts) {
            for &node in &host.nodes {
                owners[node as usize] = id;
            }
        }
        owners
    }

    /// Every crossing link once per direction of travel, by node and direction.
    pub fn crossings(&self) -> Vec<Crossing> {
        let owners = self.owners();
        let mut all = Vec::new();
        for node in 0..self.shape.nodes() as NodeId {
            for dir in Direction::ALL {
                let Some(to) = self.shape.neighbour(node, dir) else { continue };
                let (from_host, to_host) = (owners[node as usize], owners[to as usize]);
                if from_host != to_host {
                    all.push(Crossing { node, dir, to, from_host, to_host });
                }
            }
        }
        all
    }

    /// Reads every key file, checking who may read it.
    pub fn load_keys(&self) -> Result<Keys, KeyError> {
        let keys = self.keys.iter().map(|k| Ok((k.id, read_key(&k.path)?)));
        Ok(Keys { current: self.current_key, all: keys.collect::<Result<_, _>>()? })
    }

    /// True if the other file differs in more than keys, which alone can change while a daemon runs.
    pub fn differs_beside_keys(&self, other: &Cluster) -> bool {
        let keys = (self.current_key, self.keys.clone());
        *self != Cluster { current_key: keys.0, keys: keys.1, ..other.clone() }
    }
}

impl Host {
    /// Its socket addresses, the preferred one first.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, String> {
        let mut all = Vec::new();
        for address in &self.addresses {
            for found in address.resolve()? {
                if !all.contains(&found) {
                    all.push(found);
                }
            }
        }
        Ok(all)
    }
}

impl Address {
    /// Returns what it stands for now.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, String> {
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let found: Vec<_> = found
            .map_err(|e| format!("cannot resolve `{}`: {e}; check the name, or give a number", self.host))?
            .collect();
        match found.is_empty() {
            true => Err(format!("`{}` has no address; check the name, or give a number", self.host)),
            false => Ok(found),
        }
    }
}

impl std::str::FromStr for Address {
    type Err = String;
    /// `10.0.0.1`, `10.0.0.1:7000`, `fd00::1`, `[fd00::1]:7000`, `node1`, `node1:7000`.
    fn from_str(text: &str) -> Result<Address, String> {
        let mistake = || {
            format!(
                "`{text}` is not an address; write 10.0.0.1, [fd00::1] or a name, with :PORT unless it is {PORT_DEFAULT}"
            )
        };
        let (host, port) = if text.parse::<std::net::Ipv6Addr>().is_ok() {
            (text, None)
        } else if let Some(rest) = text.strip_prefix('[') {
            let (host, after) = rest.split_once(']').ok_or_else(mistake)?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| mistake())?;
            match after {
                "" => (host, None),
                _ => (host, Some(after.strip_prefix(':').ok_or_else(mistake)?)),
            }
        } else {
            match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        if host.is_empty() || host.starts_with('-') || !host.chars().all(fits) {
            return Err(mistake());
        }
        let port = match port.map(str::parse) {
            None => PORT_DEFAULT,
            Some(Ok(port)) if port != 0 => port,
            Some(_) => return Err(mistake()),
        };
        Ok(Address { host: host.into(), port })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_numbers_or_names_with_or_without_port() {
        for (text, shown) in [
            ("10.0.0.1", "10.0.0.1:26290"),
            ("10.0.0.1:7000", "10.0.0.1:7000"),
            ("fd00::1", "[fd00::1]:26290"),
            ("[fd00::1]:7000", "[fd00::1]:7000"),
            ("[::1]", "[::1]:26290"),
            ("node-1.lan:7000", "node-1.lan:7000"),
        ] {
            assert_eq!(text.parse::<Address>().expect(text).to_string(), shown);
        }
        for bad in ["", ":7000", "a:0", "a:70000", "a:b:c", "[fd00::1", "[a]:7", "a b", "-x", "[::1]7"] {
            let e = bad.parse::<Address>().expect_err(bad);
            assert!(e.contains("is not an address"), "{e}");
        }
    }
}
