//! Messages between the daemon and its clients.
//!
//! Two unix sockets in the runtime directory. The *control* socket is a stream of JSON lines:
//! one [`Request`] per line, one [`Reply`] line each, and [`Event`] lines in between for the
//! connection that created a job; when that connection closes, its jobs end. The *adapter* socket
//! is SEQPACKET: one JSON [`AdapterRequest`] per datagram, one [`AdapterReply`] back, file
//! descriptors beside it. The connection is the client's life line: when it closes, its PE is gone.

mod job_spec;

use crate::absence::Absence;
use crate::doubts::Doubted;
pub use crate::report::*;
use angara_abi::account::Load;
use angara_abi::{Architecture, JobId};
use angara_net::torus::{NodeId, Shape};
use angara_net::{Link, NodeSet};
pub use job_spec::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Longest message either side accepts.
pub const MESSAGE_MAX: usize = 1 << 20;
/// Longest adapter datagram.
pub const DATAGRAM_MAX: usize = 64 * 1024;

/// A control request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Daemon, nodes, jobs.
    Status,
    /// Create a job owned by this connection. Answered by [`Reply::Job`].
    JobCreate(JobSpec),
    /// Take over the events of a job of the same user, such as after reconnecting.
    JobAttach {
        /// Job id.
        job: JobId,
        /// Job key.
        key: String,
    },
    /// Traffic so far, all but that between each two PEs. Answered by [`Reply::Report`].
    JobReport {
        /// Job id.
        job: JobId,
    },
    /// Traffic so far between each two PEs: what fits into one answer, beginning with PE `from` and, of what it
    /// sent, with what went to PE `to`. Answered by [`Reply::Pairs`].
    JobPairs {
        /// Job id.
        job: JobId,
        /// Source PE.
        from: u32,
        /// Target PE.
        to: u32,
    },
    /// Ask for the waits and calls of each PE, and for the use of links, where time is virtual: as many as fit into one
    /// answer, beginning with number `from` of all PEs and behind them all links. Answered by [`Reply::Times`].
    JobTimes {
        /// Job id.
        job: JobId,
        /// Where to begin.
        from: u32,
    },
    /// Remember what links carry from now on, until the job ends. Before its PEs are started.
    JobRemember {
        /// Job id.
        job: JobId,
    },
    /// What has been remembered: frames after the one of number `after`. Answered by [`Reply::History`].
    JobHistory {
        /// Job id.
        job: JobId,
        /// 0 for all, and for what comes with the first piece.
        after: u64,
    },
    /// Start the launcher's other half on another host for the PEs of a job there. After [`Reply::Ok`] the
    /// connection is a byte stream to its standard input and from its standard output.
    JobAgent {
        /// Job id.
        job: JobId,
        /// Name of the host.
        host: String,
    },
    /// Waits of each PE of a job. Answered by [`Reply::Waits`].
    JobWaits {
        /// Job id.
        job: JobId,
    },
    /// End a job and free everything, its traffic included.
    JobDestroy {
        /// Job id.
        job: JobId,
    },
    /// Hear of every packet from now on. After [`Reply::Ok`] the connection is a stream of [`angara_abi::capture::Part`]s, until
    /// the client has sent its last byte or the job ends.
    Capture(CaptureSpec),
    /// Read the clock that time-stamps packets captured on a host of the cluster. Answered by [`Reply::Clock`].
    Clock {
        /// Its name.
        host: String,
    },
    /// Counters of every link.
    Counters,
    /// Loads of all links so far, from a sample that all observers share. Answered by [`Reply::LinkLoads`].
    LinkLoads,
    /// Make or end faults.
    Fault {
        /// The command, as `angara fault` has read it.
        command: angara_net::fault::Command,
    },
    /// The other hosts of the cluster, as seen from here. Answered by [`Reply::Cluster`].
    Cluster,
    /// Read the cluster's keys again and use them from now on. Answered by [`Reply::Keys`].
    KeysReload,
    /// End every job and exit.
    Shutdown,
}

/// Which packets to hear of, as their user writes it; everything that is not named is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureSpec {
    /// Packets of this job; otherwise of all that the user may hear of.
    pub job: Option<JobId>,
    /// On this link: sending node and direction, such as `0,0,0+X`.
    pub link: Option<String>,
    /// At this node and on its links: coordinates or a number.
    pub node: Option<String>,
    /// On this virtual channel.
    pub vc: Option<u8>,
    /// Bytes of each packet to keep, the pseudo-header not among them.
    pub snaplen: u32,
    /// Host of the cluster whose packets to hear of, when several are captured together: links and nodes of others mean
    /// what it hears of them. If absent, the host of the daemon that is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// Answer to a control request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// Done; nothing to say.
    Ok,
    /// The request failed.
    Error(Failure),
    /// Answer to [`Request::Status`].
    Status(Status),
    /// A job was created.
    Job {
        /// Its id.
        job: JobId,
        /// Its key, for the PEs.
        key: String,
        /// Node of each PE.
        placement: Vec<NodeId>,
        /// Advice on where to run this job's PEs.
        cores: CoreAdvice,
        /// PEs that live on other hosts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        remote: Vec<JobHost>,
        /// It got nodes of its own without asking, as other jobs have such.
        #[serde(default)]
        confined: bool,
    },
    /// Traffic of a job, without pairs of PEs.
    Report(Report),
    /// Answer to [`Request::JobPairs`].
    Pairs(Pairs),
    /// Answer to [`Request::JobTimes`].
    Times(TimesPiece),
    /// Answer to [`Request::JobHistory`].
    History(HistoryPiece),
    /// Waits of PEs of a job; those that compute are not listed.
    Waits {
        /// At most one per PE, by PE.
        waits: Vec<Wait>,
    },
    /// Link counters of the whole network.
    Counters {
        /// Links that carried anything or failed.
        links: Vec<LinkReport>,
    },
    /// Answer to [`Request::LinkLoads`].
    LinkLoads(LinkLoads),
    /// Answer to [`Request::Clock`].
    Clock {
        /// Nanoseconds since 1970.
        ns: u64,
    },
    /// Answer to [`Request::Cluster`].
    Cluster(ClusterStatus),
    /// The keys in use from now on.
    Keys {
        /// Ids of those that are accepted.
        accepted: Vec<u8>,
        /// The one that is sent with.
        current: u8,
    },
}

/// A daemon's view of its cluster.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// Path of the cluster file.
    pub file: String,
    /// Name of this host.
    pub host: String,
    /// Number of this start of the daemon: the second in which it was, since 1970.
    pub start: u64,
    /// Microseconds since the daemon's start when these figures were taken, to make rates of two answers.
    pub at_us: u64,
    /// Which socket engine carries the trunks (`syscall`, `uring`).
    pub engine: String,
    /// Every other host, in the order of the cluster file.
    pub peers: Vec<PeerStatus>,
    /// Datagrams from nobody in the cluster file, since the daemon's start.
    pub strangers: u64,
    /// Number of the latest change of hosts, trunks and faults that all hosts in reach have agreed on.
    pub change: u64,
    /// Host that leads changes.
    pub leader: String,
    /// Seconds for which nothing has moved because a change is being agreed on.
    pub holding_s: Option<f64>,
    /// Nothing has to be agreed on.
    pub settled: bool,
    /// Pairs of hosts that take part and whose trunk carries nothing.
    pub dead_trunks: Vec<[String; 2]>,
}

/// One trunk: what a host knows of another one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Name of the host.
    pub host: String,
    /// Host over which its daemon is reached, if not directly.
    pub via: Option<String>,
    /// A way leads to it.
    pub reached: bool,
    /// Its nodes take part in the network.
    pub member: bool,
    /// Its address in use.
    pub address: String,
    /// Torus links that cross to it.
    pub links: u32,
    /// It answers.
    pub up: bool,
    /// Seconds since `up` changed.
    pub since_s: f64,
    /// Why it is down; empty if it is not, or nobody knows yet.
    pub why: String,
    /// Number of the session with it; 0 before it was heard of.
    pub session: u64,
    /// Smoothed round-trip time in microseconds; 0 before it was measured.
    pub rtt_us: f64,
    /// Datagrams sent that were lost, as a fraction of 1.
    pub loss: f64,
    /// Bytes of the largest IP packet sent to it.
    pub mtu: u32,
    /// Datagrams and bytes sent.
    pub sent: Flow,
    /// Datagrams and bytes accepted.
    pub received: Flow,
    /// Datagrams whose contents were sent again.
    pub replays: u64,
    /// Bytes sent and not yet acknowledged, or waiting to be sent.
    pub backlog: u64,
    /// Datagrams dropped since the daemon's start, by cause (`forged`, `replayed`, `malformed`, `unknown key`, …).
    pub refused: BTreeMap<String, u64>,
    /// Frames of links and messages that it did send, with contents that cannot be; they were dropped, too.
    pub nonsense: u64,
}

/// Datagrams and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Flow {
    /// Datagrams since the daemon's start.
    pub datagrams: u64,
    /// Bytes of these datagrams, headers and tags included.
    pub bytes: u64,
}

/// The PEs of a job on another host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobHost {
    /// Name of the host.
    pub host: String,
    /// Its PEs.
    pub pes: Vec<u32>,
    /// Advice on where to run them there.
    pub cores: CoreAdvice,
}

/// Which cores of a host the PEs of a job should take.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CoreAdvice {
    /// Number of the core to begin with: a round-robin offset across jobs.
    pub first: u32,
    /// Numbers of the cores that the daemon's data plane, which carries what this job sends, is bound to.
    pub busy: Vec<usize>,
}

/// Wait of a PE, by its own account.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Wait {
    /// Number of the PE that waits.
    pub pe: u32,
    /// Seconds since the wait began.
    pub seconds: f64,
    /// Routine, address, comparison, value: whatever the library knows.
    pub what: String,
    /// How often it has looked in vain for what another PE has to do; 0 if it waits for its adapter.
    pub looks: u32,
}

/// A failure with what to do about it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// The failure, naming the value.
    pub message: String,
    /// The remedy.
    pub remedy: String,
}

/// Something the owner of a job should know.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// PE `pe` asked to end the job.
    Abort {
        /// Job id.
        job: JobId,
        /// PE.
        pe: u32,
        /// Exit status it wants.
        status: i32,
        /// Why.
        reason: String,
        /// As [`AdapterRequest::Abort`] has it.
        orderly: bool,
    },
    /// PE `pe` left the job without finalize, or after it while others went on.
    PeLost {
        /// Job id.
        job: JobId,
        /// PE.
        pe: u32,
        /// Its node.
        node: NodeId,
        /// It had ended the life it was in.
        finalized: bool,
    },
    /// The job cannot go on without a host, which does not answer.
    HostLost {
        /// Job id.
        job: JobId,
        /// Name of the host.
        host: String,
        /// Since when, its nodes, and why that ends the job.
        reason: String,
    },
    /// The daemon that made the job is about to end, and ends the job with it.
    DaemonEnds {
        /// Job id.
        job: JobId,
        /// The daemon's reason: "was shut down".
        reason: String,
    },
    /// In virtual time: the others went on without a PE.
    WentOn {
        /// Job id.
        job: JobId,
        /// Which, and where it was.
        absence: Absence,
    },
    /// The adapter stopped serving a channel of `pe`.
    ChannelError {
        /// Job id.
        job: JobId,
        /// PE.
        pe: u32,
        /// Why.
        reason: String,
    },
}

/// A line from the daemon on a control connection.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
#[allow(clippy::large_enum_variant)] // one for each line that is read
pub enum Line {
    /// Answer to the oldest unanswered request.
    Reply(Reply),
    /// Unasked.
    Event(Event),
}

/// Answer to [`Request::Status`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Version of the daemon's program.
    pub version: String,
    /// [`angara_abi::ABI_VERSION`] of the daemon.
    pub abi: u32,
    /// Process id of the daemon.
    pub pid: u32,
    /// Seconds since the daemon's start.
    pub uptime_s: f64,
    /// Shape of the network.
    pub shape: Shape,
    /// Nodes that jobs from here may use: those of all hosts in reach.
    pub nodes: u32,
    /// Those of them on this host.
    pub nodes_here: u32,
    /// Nodes of the whole network that work and are in no job's node set.
    #[serde(default)]
    pub nodes_without_set: u32,
    /// CPU seconds of the data plane so far.
    pub data_plane_cpu_s: f64,
    /// Started by one `angara run` for itself.
    pub private: bool,
    /// Jobs that run.
    pub jobs: Vec<JobStatus>,
    /// Faults in force, as they are written.
    pub faults: Vec<String>,
    /// Violations by clients since start.
    pub violations: u64,
    /// State of virtual time, if time is virtual.
    #[serde(default)]
    pub virtual_time: Option<VirtualStatus>,
    /// URL of the page, without a token, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web: Option<String>,
    /// Where metrics are served, if they are: a URL, or `unix:PATH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
}

/// State of virtual time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct VirtualStatus {
    /// When the last PE ended, or was seen to stand, in picoseconds since the programs began.
    pub time_ps: u64,
    /// How often PEs have stood still.
    pub stops: u64,
    /// Events that the network has handled.
    pub events: u64,
    /// Seconds on the wall from the beginning of the programs to the end of the last one that has ended.
    pub wall_s: f64,
    /// PEs whose times are doubtful.
    pub doubted: Vec<Doubted>,
}

/// One job in a status.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobStatus {
    /// Job id.
    pub job: JobId,
    /// Name of the job: its program, mostly.
    pub name: String,
    /// User id of who started it.
    pub uid: u32,
    /// Number of PEs.
    pub pes: u32,
    /// PEs that are attached.
    pub attached: u32,
    /// PEs that have ever been attached.
    pub came: u32,
    /// Bytes of memory reserved.
    pub memory: u64,
    /// Seconds since creation.
    pub age_s: f64,
    /// How its PEs reach each other.
    #[serde(default)]
    pub path: Path,
    /// Nodes that it has for itself, if it has asked for some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<NodeSet>,
    /// How often the route table of that set has been made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tables_made: Option<u64>,
}

/// Requests over the adapter socket.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "req", rename_all = "kebab-case", deny_unknown_fields)]
pub enum AdapterRequest {
    /// Become PE `pe` of a job. First message on a connection.
    Attach {
        /// [`angara_abi::ABI_VERSION`] of the client.
        abi: u32,
        /// Job id.
        job: JobId,
        /// Job key.
        key: String,
        /// PE.
        pe: u32,
        /// What its program was compiled for. Clients of another [`angara_abi::ABI_VERSION`] may not say it, and are
        /// refused for that version.
        #[serde(default)]
        architecture: Architecture,
        /// Bytes of each symmetric static segment, page-rounded, in address order.
        statics: Vec<u64>,
    },
    /// Take any free seat of an open job, which is made if there is none of that name. First message on a connection.
    /// Answered by [`AdapterReply::Joined`].
    Join {
        /// [`angara_abi::ABI_VERSION`] of the client.
        abi: u32,
        /// Name of the domain, 1 to 64 letters, digits, `-`, `_`, `.`; each user has her own.
        domain: String,
        /// Which one of several processes this is: neighbours get neighbouring nodes. Otherwise the emptiest node.
        hint: Option<u32>,
        /// Symmetric heap bytes that a seat needs; only whoever comes first decides.
        heap: u64,
        /// Most bytes for registered memory behind it; as above.
        #[serde(default)]
        registered: u64,
        /// Which engines the domain may use; as above.
        path: Path,
    },
    /// Build a tree over the nodes of `pes` and load it into the routers.
    TreeOpen {
        /// PE at whose node the root lies.
        root: u32,
        /// Participants.
        pes: Vec<u32>,
    },
    /// Give a tree back.
    TreeClose {
        /// TreeId.
        tree: u8,
    },
    /// Costs of a library's routines for this PE since its last such message, where time is virtual. At most
    /// [`ROUTINES_MAX`].
    Routines {
        /// By name.
        routines: Vec<Routine>,
    },
    /// Load of links by this PE's job so far.
    Links {
        /// One link; all together if absent.
        only: Option<Link>,
    },
    /// End the whole job.
    Abort {
        /// Exit status for the launcher.
        status: i32,
        /// Why.
        reason: String,
        /// Nothing has failed: the PEs may end as programs do, with this status.
        orderly: bool,
    },
    /// This PE's life is over: closing the connection afterwards is not a failure, nor is the end of the job any of
    /// its business until the next [`AdapterRequest::Start`].
    Rest,
    /// This PE begins its next life. Refused once another PE has gone.
    Start,
    /// Orderly goodbye: closing the connection afterwards is not a failure.
    Detach,
}

/// Roles of the descriptors that come with [`AdapterReply::Attached`], in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FdRole {
    /// Job page (read-only).
    Job,
    /// Target table (read-only).
    Targets,
    /// Synchronisation page.
    Sync,
    /// Heap arena.
    Heap,
    /// Static arena; absent if the client has no static segments.
    Static,
    /// Bounce region.
    Bounce,
    /// Counters.
    Counters,
    /// CSR page of the PE's node (read-only).
    Csr,
    /// Channel page.
    ChannelPage,
    /// Channel status page (read-only).
    ChannelStatus,
    /// Injection ring.
    Ring,
    /// Descriptor queue.
    Dma,
    /// Doorbell eventfd.
    Doorbell,
    /// Clock page; absent where time is the wall's.
    Clock,
}

/// Answer over the adapter socket.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum AdapterReply {
    /// Done.
    Ok,
    /// Refused.
    Error(Failure),
    /// Attached. Descriptors come beside the message.
    Attached {
        /// Role of each descriptor.
        fds: Vec<FdRole>,
    },
    /// Attached to a seat of an open job. Descriptors come beside the message.
    Joined {
        /// Job id of the domain.
        job: JobId,
        /// Another one for each domain there has ever been: 32 hexadecimal digits.
        key: String,
        /// The seat.
        pe: u32,
        /// Seats of the domain.
        pes: u32,
        /// Which generation of the seat this is.
        generation: u32,
        /// Role of each descriptor.
        fds: Vec<FdRole>,
    },
    /// Load of links.
    Links {
        /// All classes.
        load: Load,
    },
    /// A tree is ready.
    Tree {
        /// TreeId.
        tree: u8,
    },
}
