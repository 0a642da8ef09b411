//! A capture under way: a thread takes packets from the daemon and writes them, so that neither a slow disk nor a stopped
//! reader holds up anything else.

use super::clocks::{self, Lack, Lacks, Looks};
use super::file::{PacketFile, Title, Trouble};
use super::merge::{Got, Merge};
use angara_abi::capture::{PSEUDO_BYTES, Part, read_part};
use angara_control::daemon::{Control, unexpected};
use angara_control::error::{Failed, no_thread};
use angara_protocol::msg::{CaptureSpec, Reply, Request, Status};
use std::io::{BufReader, Chain, ErrorKind, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::thread;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long the writer may take for what has come before the end.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// A capture under way.
pub struct Session {
    /// Tell the daemon that nobody wants more, one for each host.
    stops: Vec<UnixStream>,
    ended: oneshot::Receiver<Ended>,
    name: String,
    /// At clocks of other hosts.
    _looks: Looks,
}

/// Result of a capture.
pub struct Ended {
    /// Packets written.
    pub packets: u64,
    /// By host, which has a name if there are several: packets that passed, and how many of them were dropped because
    /// they were not taken in time.
    pub tallies: Vec<(Option<String>, (u64, u64))>,
    /// Where the packets are, in words.
    pub name: String,
    /// Why it ended early.
    pub failed: Option<Failed>,
}

/// Whose packets are wanted: those of the daemon in a directory, or of all hosts of its cluster.
#[derive(Clone, Copy)]
pub struct Where<'d> {
    /// Directory of the daemon.
    pub dir: &'d Path,
    /// On all hosts of its cluster.
    pub everywhere: bool,
}

/// A stream of packets, and what has been read of it already.
struct Source {
    host: Option<String>,
    first: Vec<u8>,
    stream: UnixStream,
}

impl Source {
    /// Makes a connection one.
    async fn new(mut control: Control, spec: CaptureSpec) -> Result<Source, Failed> {
        let host = spec.host.clone();
        match control.request(&Request::Capture(spec)).await? {
            Reply::Ok => {}
            other => return Err(unexpected(&other)),
        }
        let lost =
            |e: std::io::Error| Failed::runtime(format!("cannot go on with the daemon's stream: {e}"), "try again");
        let (reader, writer) = control.into_stream();
        let first = reader.buffer().to_vec();
        let stream = reader.into_inner().reunite(writer).expect("two halves of one stream");
        let stream = stream.into_std().map_err(lost)?;
        stream.set_nonblocking(false).map_err(lost)?;
        Ok(Source { host, first, stream })
    }
}

impl Session {
    /// Begins to hear of packets; when this returns, what happens from now on is heard. `count`: of N. Other hosts
    /// that do not capture are named.
    pub async fn begin(
        mut control: Control,
        status: &Status,
        at: Where<'_>,
        spec: CaptureSpec,
        mut file: PacketFile,
        count: Option<u64>,
    ) -> Result<Session, Failed> {
        let several = at.everywhere && (status.nodes_here as usize) < status.shape.nodes();
        let mut hosts = if several { hosts(&mut control).await? } else { Vec::new() }.into_iter();
        let of = |host| CaptureSpec { host, ..spec.clone() };
        let mut sources = vec![Source::new(control, of(hosts.next())).await?];
        for host in hosts {
            match Source::new(Control::connect(at.dir)?, of(Some(host))).await {
                Ok(source) => sources.push(source),
                Err(e) => {
                    angara_protocol::complain!("angara: no packets of a host are captured: {}; {}", e.message, e.remedy)
                }
            }
        }
        let (mut lacks, snaplen) = (Vec::new(), spec.snaplen.saturating_add(PSEUDO_BYTES as u32));
        for (number, Source { host, .. }) in sources.iter().enumerate() {
            let lack = match host.as_ref().filter(|_| number > 0) {
                // A host that does not answer is about to be lost.
                Some(host) => clocks::look(&mut Control::connect(at.dir)?, host).await.ok(),
                None => None,
            };
            file.begin(&title(status, host.as_deref(), lack, snaplen));
            lacks.push(AtomicI64::new(lack.map_or(0, |lack| lack.ns)));
        }
        let lacks = Arc::new(lacks);
        let names = sources.iter().filter_map(|source| source.host.clone()).collect();
        let looks = Looks::begin(at, names, lacks.clone())?;
        let lost =
            |e: std::io::Error| Failed::runtime(format!("cannot go on with the daemon's stream: {e}"), "try again");
        let stops = sources.iter().map(|source| source.stream.try_clone()).collect::<Result<_, _>>().map_err(lost)?;
        let name = file.name().to_string();
        let (tell, ended) = oneshot::channel();
        let run = move || {
            let ended = copy(sources, lacks, file, count);
            // Whoever waited may have given up.
            let _ = tell.send(ended);
        };
        thread::Builder::new().name("capture".into()).spawn(run).map_err(no_thread)?;
        Ok(Session { stops, ended, name, _looks: looks })
    }

    /// Waits for the end. May be cancelled and called again.
    pub async fn wait(&mut self) -> Ended {
        let lost = || Failed::runtime("the thread that writes packets has ended", "report this as a defect");
        (&mut self.ended).await.unwrap_or_else(|_| self.nothing(lost()))
    }

    fn nothing(&self, why: Failed) -> Ended {
        Ended { packets: 0, tallies: Vec::new(), name: self.name.clone(), failed: Some(why) }
    }

    /// Asks for the end and waits for it, for a while.
    pub async fn stop(mut self) -> Ended {
        // Fails only if the daemon has gone.
        self.stops.iter().for_each(|stop| drop(stop.shutdown(Shutdown::Write)));
        let waited = timeout(LAST_WORDS, self.wait()).await;
        waited.unwrap_or_else(|_| {
            let what = format!("{} takes no packets: nothing for {} s", self.name, LAST_WORDS.as_secs());
            self.nothing(Failed::runtime(what, "look at who reads it; what it has not taken is lost"))
        })
    }
}

/// Hosts that can be reached, this one first. The others are named.
async fn hosts(control: &mut Control) -> Result<Vec<String>, Failed> {
    let cluster = match control.request(&Request::Cluster).await? {
        Reply::Cluster(cluster) => cluster,
        other => return Err(unexpected(&other)),
    };
    let mut hosts = vec![cluster.host];
    for peer in cluster.peers {
        match peer.reached {
            true => hosts.push(peer.host),
            false => {
                angara_protocol::complain!(
                    "angara: host {} cannot be reached: its packets are not captured",
                    peer.host
                );
            }
        }
    }
    Ok(hosts)
}

fn title(status: &Status, host: Option<&str>, lack: Option<Lack>, snaplen: u32) -> Title {
    let clock = match lack {
        Some(Lack { ns, error }) => format!(
            "the clock of the host where this was captured; this host's lacked {:.1} us to it at first, give or take {:.1} us",
            ns as f64 / 1e3,
            error as f64 / 1e3
        ),
        None if status.virtual_time.is_some() => "virtual time of the program".into(),
        None => "this machine's clock".into(),
    };
    let all = status.shape.nodes();
    let nodes = match status.nodes_here as usize {
        _ if host.is_some() => format!("nodes of one host of a network {}", status.shape),
        here if here < all => format!("{here} of {all} nodes, those of this host"),
        _ => format!("{all} nodes"),
    };
    Title {
        name: host.map_or_else(|| format!("angara {}", status.shape), String::from),
        comment: format!("{nodes}; time stamps: {clock}; network time is in the packets"),
        snaplen,
    }
}

/// Where parts come from, one after the other.
enum Parts<'s> {
    One(Chain<&'s [u8], BufReader<&'s UnixStream>>),
    Several(Merge),
}

impl Parts<'_> {
    /// The next part, if any, and the number of its stream; nothing when all streams have ended.
    fn next(&mut self) -> Option<(usize, Got)> {
        match self {
            Parts::One(from) => Some((0, read_part(from))),
            Parts::Several(merge) => merge.next(),
        }
    }

    /// Nothing is there that could be taken at once.
    fn is_idle(&mut self) -> bool {
        match self {
            Parts::One(from) => from.get_ref().1.buffer().is_empty(),
            Parts::Several(merge) => !merge.is_ready(),
        }
    }
}

/// Writes packets until there are enough, the daemon ends the streams, or the file takes no more.
fn copy(sources: Vec<Source>, lacks: Lacks, mut file: PacketFile, count: Option<u64>) -> Ended {
    let mut tallies = Vec::new();
    let copied = match &sources[..] {
        [one] => {
            let from = BufReader::with_capacity(1 << 18, &one.stream);
            let mut parts = Parts::One(one.first.chain(from));
            copy_parts(&mut parts, &sources, &mut file, count, &mut tallies)
        }
        several => {
            let cloned = several.iter().map(|s| Ok((s.first.clone(), s.stream.try_clone()?)));
            match cloned.collect::<std::io::Result<_>>().and_then(|streams| Merge::new(streams, lacks)) {
                Ok(merge) => copy_parts(&mut Parts::Several(merge), &sources, &mut file, count, &mut tallies),
                Err(e) => Err(Stopped::Strange(e)),
            }
        }
    };
    // The daemon need not go on.
    sources.iter().for_each(|source| drop(source.stream.shutdown(Shutdown::Both)));
    let name = file.name().to_string();
    let failed = match copied {
        Ok(()) | Err(Stopped::File(Trouble::Closed)) => None,
        Err(Stopped::File(Trouble::Full(e))) => {
            let what = format!("cannot write to {name}: {e}; {} packets are there, the rest is lost", file.packets);
            Some(Failed::runtime(what, "make room where it goes (`df`, `ulimit -f`), or keep less (--snaplen, --link)"))
        }
        Err(Stopped::Gone(why)) => {
            let what = "the daemon went away in the middle of the capture: its connection";
            let what = format!("{what} {why}; {} packets are in {name}", file.packets);
            Some(Failed::runtime(what, "look at its log; what was written is whole"))
        }
        Err(Stopped::Strange(e)) => {
            let what = format!("the daemon sent what is no packet ({e}); {} packets are in {name}", file.packets);
            Some(Failed::runtime(what, "use a daemon and an angara command of the same version"))
        }
    };
    Ended { packets: file.packets, tallies, name, failed }
}

/// Cause of an early end of a capture.
enum Stopped {
    File(Trouble),
    /// The connection ended; says how.
    Gone(String),
    /// Something else came over it.
    Strange(std::io::Error),
}

impl From<Trouble> for Stopped {
    fn from(trouble: Trouble) -> Stopped {
        Stopped::File(trouble)
    }
}

fn copy_parts(
    parts: &mut Parts<'_>,
    sources: &[Source],
    file: &mut PacketFile,
    count: Option<u64>,
    tallies: &mut Vec<(Option<String>, (u64, u64))>,
) -> Result<(), Stopped> {
    file.flush()?;
    let mut open = sources.len();
    while open > 0 {
        if parts.is_idle() {
            file.flush()?;
        }
        let Some((from, part)) = parts.next() else { break };
        let host = sources[from].host.as_deref();
        let why = match part {
            // Packets still on their way are only counted.
            Ok(Some(Part::Packet { .. })) if count.is_some_and(|count| file.packets >= count) => continue,
            Ok(Some(Part::Packet { stamp, length, bytes })) => {
                file.packet(from, stamp, length, &bytes)?;
                if Some(file.packets) == count {
                    file.flush()?;
                    // Fails only if the daemon has gone, which the next read says.
                    sources.iter().for_each(|source| drop(source.stream.shutdown(Shutdown::Write)));
                }
                continue;
            }
            Ok(Some(Part::Tally { passed, dropped })) => {
                tallies.push((host.map(String::from), (passed, dropped)));
                file.tally(from, passed, dropped)?;
                open -= 1;
                continue;
            }
            Err(e) if e.kind() == ErrorKind::InvalidData => {
                file.flush()?;
                return Err(Stopped::Strange(e));
            }
            Ok(None) => "ended".to_string(),
            Err(e) => format!("ended ({e})"),
        };
        file.flush()?;
        open -= 1;
        match host {
            // The first one is the daemon's own, by which all others come.
            Some(host) if from > 0 => angara_protocol::complain!(
                "angara: host {host} was lost in the middle of the capture: its packets end here, the others go on"
            ),
            _ => return Err(Stopped::Gone(why)),
        }
    }
    Ok(file.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_abi::capture::push_packet;
    use std::io::Write;

    /// How a capture ends whose daemon sends this after a packet, and then goes; without having read what it was sent, if
    /// `reset`.
    fn after(bytes: &[u8], reset: bool) -> (u64, String) {
        let (ours, mut daemon) = UnixStream::pair().expect("a pair");
        let mut sent = Vec::new();
        push_packet(&mut sent, 1, 100, [&[0; PSEUDO_BYTES], &[]]);
        sent.extend(bytes);
        daemon.write_all(&sent).expect("there is room");
        if reset {
            (&ours).write_all(b"x").expect("there is room");
        }
        drop(daemon);
        let mut file = PacketFile::create(Path::new("/dev/null")).expect("it takes everything");
        file.begin(&Title { name: "2".into(), comment: String::new(), snaplen: 100 });
        let ended = copy(vec![Source { host: None, first: Vec::new(), stream: ours }], Lacks::default(), file, None);
        (ended.packets, ended.failed.expect("it ended early").message)
    }

    #[test]
    fn a_connection_that_ends_is_told_from_one_that_carries_something_else() {
        let mut whole = Vec::new();
        push_packet(&mut whole, 2, 100, [&[0; PSEUDO_BYTES], &[]]);
        for end in [0, 1, 4, 20, whole.len() - 1] {
            let (packets, why) = after(&whole[..end], false);
            assert_eq!(packets, 1, "{end}");
            assert!(why.contains("its connection ended; 1 packets"), "{end}: {why}");
            let (packets, why) = after(&whole[..end], true);
            assert_eq!(packets, 1, "{end}");
            assert!(why.contains("its connection ended (Connection reset"), "{end}: {why}");
        }
        let (packets, why) = after(b"{\"event\":\"daemon-ends\"}", false);
        assert_eq!(packets, 1);
        assert!(why.contains("no packet (a part of"), "{why}");
    }
}
