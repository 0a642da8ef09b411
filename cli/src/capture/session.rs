//! A capture under way: a thread takes packets from the daemon and writes them, so that neither a slow disk nor a stopped
//! reader holds up anything else.

use super::file::{PacketFile, Title, Trouble};
use crate::daemon::{Control, unexpected};
use crate::error::{Failed, no_thread};
use angara_abi::capture::{PSEUDO_BYTES, Part, read_part};
use angara_abi::msg::{CaptureSpec, Reply, Request, Status};
use std::io::{BufReader, ErrorKind, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long the writer may take for what has come before the end.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// A capture under way.
pub(crate) struct Session {
    /// Tells the daemon that nobody wants more.
    stop: UnixStream,
    ended: oneshot::Receiver<Ended>,
    name: String,
}

/// What has become of one.
pub(crate) struct Ended {
    /// Packets written.
    pub(crate) packets: u64,
    /// Packets that came by, and those of them that were dropped since they were not taken in time.
    pub(crate) tally: Option<(u64, u64)>,
    /// Where the packets are, in words.
    pub(crate) name: String,
    /// Why it ended early.
    pub(crate) failed: Option<Failed>,
}

impl Session {
    /// Begins to hear of packets; when this returns, what happens from now on is heard. `count`: of so many.
    pub(crate) async fn begin(
        mut control: Control,
        status: &Status,
        spec: CaptureSpec,
        mut file: PacketFile,
        count: Option<u64>,
    ) -> Result<Session, Failed> {
        let snaplen = spec.snaplen.saturating_add(PSEUDO_BYTES as u32);
        match control.request(&Request::Capture(spec)).await? {
            Reply::Ok => {}
            other => return Err(unexpected(&other)),
        }
        file.begin(&title(status, snaplen));
        let lost =
            |e: std::io::Error| Failed::runtime(format!("cannot go on with the daemon's stream: {e}"), "try again");
        let (reader, writer) = control.into_stream();
        let first = reader.buffer().to_vec();
        let stream = reader.into_inner().reunite(writer).expect("two halves of one stream");
        let stream = stream.into_std().map_err(lost)?;
        stream.set_nonblocking(false).map_err(lost)?;
        let stop = stream.try_clone().map_err(lost)?;
        let name = file.name().to_string();
        let (tell, ended) = oneshot::channel();
        let run = move || {
            let ended = copy(&first, &stream, file, count);
            // Whoever waited may have given up.
            let _ = tell.send(ended);
        };
        thread::Builder::new().name("capture".into()).spawn(run).map_err(no_thread)?;
        Ok(Session { stop, ended, name })
    }

    /// Waits for the end. May be cancelled and called again.
    pub(crate) async fn wait(&mut self) -> Ended {
        let lost = || Ended {
            packets: 0,
            tally: None,
            name: self.name.clone(),
            failed: Some(Failed::runtime("the thread that writes packets has ended", "report this as a defect")),
        };
        (&mut self.ended).await.unwrap_or_else(|_| lost())
    }

    /// Asks for the end and waits for it, for a while.
    pub(crate) async fn stop(mut self) -> Ended {
        // Fails only if the daemon has gone.
        let _ = self.stop.shutdown(Shutdown::Write);
        let name = self.name.clone();
        let waited = timeout(LAST_WORDS, self.wait()).await;
        waited.unwrap_or_else(|_| {
            let what = format!("{name} takes no packets: nothing for {} s", LAST_WORDS.as_secs());
            let failed = Some(Failed::runtime(what, "look at who reads it; what it has not taken is lost"));
            Ended { packets: 0, tally: None, name, failed }
        })
    }
}

fn title(status: &Status, snaplen: u32) -> Title {
    let clock = if status.virtual_time.is_some() { "virtual time of the program" } else { "this machine's clock" };
    let all = status.shape.nodes();
    let nodes = match status.nodes_here as usize {
        here if here < all => format!("{here} of {all} nodes, those of this host"),
        _ => format!("{all} nodes"),
    };
    Title {
        network: status.shape.to_string(),
        comment: format!("{nodes}; time stamps: {clock}; network time is in the packets"),
        snaplen,
    }
}

/// Writes packets until there are enough, the daemon ends the stream, or the file takes no more.
fn copy(first: &[u8], stream: &UnixStream, mut file: PacketFile, count: Option<u64>) -> Ended {
    let mut tally = None;
    let copied = copy_parts(first, stream, &mut file, count, &mut tally);
    // The daemon need not go on.
    let _ = stream.shutdown(Shutdown::Both);
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
    Ended { packets: file.packets, tally, name, failed }
}

/// What ends a capture early.
enum Stopped {
    File(Trouble),
    /// The connection ended, and how.
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
    first: &[u8],
    stream: &UnixStream,
    file: &mut PacketFile,
    count: Option<u64>,
    tally: &mut Option<(u64, u64)>,
) -> Result<(), Stopped> {
    file.flush()?;
    let mut from = BufReader::with_capacity(1 << 18, stream);
    let mut first = first;
    loop {
        if from.buffer().is_empty() {
            file.flush()?;
        }
        let part = read_part(&mut (&mut first).chain(&mut from));
        match part {
            Err(e) if e.kind() == ErrorKind::InvalidData => {
                file.flush()?;
                return Err(Stopped::Strange(e));
            }
            Ok(None) => {
                file.flush()?;
                return Err(Stopped::Gone("ended".into()));
            }
            Err(e) => {
                file.flush()?;
                return Err(Stopped::Gone(format!("ended ({e})")));
            }
            Ok(Some(Part::Tally { passed, dropped })) => {
                *tally = Some((passed, dropped));
                return Ok(file.tally(passed, dropped)?);
            }
            // What is still on its way only counts.
            Ok(Some(Part::Packet { .. })) if count.is_some_and(|count| file.packets >= count) => {}
            Ok(Some(Part::Packet { stamp, length, bytes })) => {
                file.packet(stamp, length, &bytes)?;
                if Some(file.packets) == count {
                    file.flush()?;
                    // Fails only if the daemon has gone, which the next read says.
                    let _ = stream.shutdown(Shutdown::Write);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_abi::capture::push_packet;
    use std::io::Write;
    use std::path::Path;

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
        file.begin(&Title { network: "2".into(), comment: String::new(), snaplen: 100 });
        let ended = copy(&[], &ours, file, None);
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
