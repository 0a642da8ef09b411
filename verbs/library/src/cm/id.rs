//! What a connection manager knows of an identifier (`struct rdma_cm_id`), and what it stands on.

use super::wire::Ends;
use angara_hca::address::LinkLayer;
use angara_hca::{Peer, Result};
use angara_verbs_process::Listener;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Port spaces: `enum rdma_ucm_port_space`.
pub(crate) mod space {
    pub(crate) const TCP: u16 = 0x0106;
    pub(crate) const UDP: u16 = 0x0111;
}

/// Events: `enum rdma_cm_event_type`.
pub(crate) mod event {
    pub(crate) const ADDR_RESOLVED: u32 = 0;
    pub(crate) const ADDR_ERROR: u32 = 1;
    pub(crate) const ROUTE_RESOLVED: u32 = 2;
    pub(crate) const CONNECT_REQUEST: u32 = 4;
    pub(crate) const CONNECT_RESPONSE: u32 = 5;
    pub(crate) const UNREACHABLE: u32 = 7;
    pub(crate) const REJECTED: u32 = 8;
    pub(crate) const ESTABLISHED: u32 = 9;
    pub(crate) const DISCONNECTED: u32 = 10;
    pub(crate) const TIMEWAIT_EXIT: u32 = 15;
}

/// Reasons for a rejection, and statuses of an answer for datagrams, of the specification.
pub(crate) mod reason {
    pub(crate) const TIMEOUT: u8 = 4;
    pub(crate) const NO_SUCH_SERVICE: u8 = 8;
    pub(crate) const STALE: u8 = 10;
    pub(crate) const CONSUMER: u8 = 28;
    pub(crate) const VENDOR_OPTION: u8 = 35;
    pub(crate) const DATAGRAMS_UNSUPPORTED: u8 = 1;
    pub(crate) const DATAGRAMS_REJECTED: u8 = 2;
}

/// How long an asker waits for an answer, and an answerer for the third message: 16 times 4.096 s, as Linux does.
pub(crate) const PATIENCE: Duration = Duration::from_millis(16 * 4096);
/// How long after its end a connection is told to be over for good.
pub(crate) const TIME_WAIT: Duration = Duration::from_millis(128);
/// A peer that is not there any more may have said something that has not been read yet.
pub(crate) const GRACE: Duration = Duration::from_millis(100);
/// Requests that wait at most for a listener's program.
pub(crate) const BACKLOG_MAX: u32 = 1024;

/// The adapters of this process and the network that they are at.
pub(crate) trait Fabric {
    /// A clock that never goes back.
    fn now(&self) -> Duration;
    /// Nodes of the adapters.
    fn adapters(&self) -> &[u32];
    /// Nodes of the network.
    fn nodes(&self) -> u32;
    fn link(&self, adapter: usize) -> LinkLayer;
    /// The adapter that listens there: at that node, or anywhere, `adapter` first.
    fn find(&self, adapter: usize, listener: Listener, node: Option<u32>) -> Option<Peer>;
    fn listen(&self, adapter: usize, listener: Listener) -> Result<()>;
    fn stop_listening(&self, adapter: usize, listener: Listener);
    fn send(&self, adapter: usize, to: Peer, bytes: &[u8]);
    fn is_there(&self, adapter: usize, peer: Peer) -> bool;
    fn node_of(&self, adapter: usize, peer: Peer) -> u32;
    fn me(&self, adapter: usize) -> Peer;
    /// The address of this host from which another one is reached.
    fn source_for(&self, to: IpAddr) -> Option<IpAddr>;
    fn random(&self) -> u16;
}

/// What an identifier has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Idle,
    /// It has an address of its own.
    Bound,
    Resolved,
    Routed,
    Listening,
    /// It has asked a listener.
    Asked,
    /// A listener got it; the program is to say whether it accepts.
    Requested,
    /// The program has accepted.
    Accepted,
    /// Its listener has accepted; the program is to say that it is ready.
    Answered,
    Connected,
    /// The program has ended the connection; the peer is to agree.
    Leaving,
    /// The peer has ended it; the program has not said that it knows.
    Left,
    /// Ended, refused, failed.
    Over,
}

/// Options that the program sets.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Options {
    pub(crate) reuses_address: bool,
    pub(crate) own_family_only: bool,
    pub(crate) traffic_class: u8,
    pub(crate) ack_timeout: Option<u8>,
}

#[derive(Debug)]
pub(crate) struct Id {
    /// Whose events it has.
    pub(crate) channel: u64,
    /// What the program calls it; 0: nothing yet.
    pub(crate) uid: u64,
    /// Events that the program has got.
    pub(crate) reported: u32,
    pub(crate) space: u16,
    /// For queue pairs of datagrams.
    pub(crate) datagrams: bool,
    pub(crate) state: State,
    pub(crate) src: Option<SocketAddr>,
    pub(crate) dst: Option<SocketAddr>,
    /// It has taken the port of its address.
    pub(crate) has_port: bool,
    pub(crate) adapter: Option<usize>,
    pub(crate) options: Options,
    /// Adapters at which others see its port: that of a listener, and any for datagrams, whose addresses lead there
    /// without a connection.
    pub(crate) open_at: Vec<usize>,
    /// Requests that may still wait.
    pub(crate) backlog: u32,
    /// Number of the connection, here and at the peer.
    pub(crate) number: u32,
    pub(crate) peer: Option<(Peer, u32)>,
    pub(crate) own: Ends,
    pub(crate) theirs: Ends,
    /// When to give up, or to tell that it is over for good.
    pub(crate) until: Option<Duration>,
    /// Since when the peer is not there.
    pub(crate) lost: Option<Duration>,
    /// The peer has left before it was heard that it accepts.
    pub(crate) left_early: bool,
}

impl Id {
    pub(crate) fn new(channel: u64, uid: u64, space: u16, datagrams: bool, number: u32) -> Id {
        Id {
            channel,
            uid,
            reported: 0,
            space,
            datagrams,
            state: State::Idle,
            src: None,
            dst: None,
            has_port: false,
            adapter: None,
            options: Options::default(),
            open_at: Vec::new(),
            backlog: 0,
            number,
            peer: None,
            own: Ends::default(),
            theirs: Ends::default(),
            until: None,
            lost: None,
            left_early: false,
        }
    }

    /// Its port, as listeners are found by.
    pub(crate) fn listener(&self) -> Listener {
        Listener { space: self.space, port: self.src.map_or(0, |src| src.port()) }
    }
    /// The adapter that it uses.
    pub(crate) fn adapter(&self) -> usize {
        self.adapter.unwrap_or(0)
    }
}

/// An address that stands for all of a host.
pub(crate) fn is_any(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_unspecified()
}

/// The node that has an address; nothing if it is a host's.
pub(crate) fn node_of(address: &SocketAddr) -> Option<u32> {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => angara_hca::address::node_of_ipv4(ip),
        IpAddr::V6(_) => None,
    }
}
