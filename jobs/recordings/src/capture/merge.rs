//! Packets from several hosts, in one row by time, as far as a live stream can have one.
//!
//! Each host's packets come in order. The next one of all is the earliest of those that wait, once every host has one that
//! waits. A host that is silent is waited for no longer than [`WINDOW`], and no more than [`MOST`] packets wait: then the
//! order may be wrong by what came late.

use super::clocks::Lacks;
use angara_abi::capture::{Part, read_part};
use std::collections::VecDeque;
use std::io::{self, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long a packet waits for earlier ones of other hosts.
pub(super) const WINDOW: Duration = Duration::from_millis(200);
/// Most packets that wait.
const MOST: usize = 8192;
/// Parts that one thread may have read and that nobody has taken.
const AHEAD: usize = 1024;

/// Next part of a host's stream: `None` at its end.
pub(super) type Got = io::Result<Option<Part>>;

/// Parts of one host that wait.
struct Queue {
    parts: VecDeque<(Got, Instant)>,
    /// More may come.
    open: bool,
}

/// The packets of several hosts.
pub(super) struct Merge {
    queues: Vec<Queue>,
    waiting: usize,
    from: Receiver<(usize, Got)>,
    /// Corrections of time stamps to our clock.
    lacks: Lacks,
}

/// When a packet was; the end of a stream waits for nothing.
fn stamp(got: &Got) -> u64 {
    match got {
        Ok(Some(Part::Packet { stamp, .. })) => *stamp,
        _ => 0,
    }
}

impl Merge {
    /// Reads these streams, of each of which some bytes have been read already.
    ///
    /// # Errors
    /// If no thread can be started to read one.
    pub(super) fn new(streams: Vec<(Vec<u8>, UnixStream)>, lacks: Lacks) -> io::Result<Merge> {
        let (to, from) = sync_channel(AHEAD);
        let queues = streams.iter().map(|_| Queue { parts: VecDeque::new(), open: true }).collect();
        for (host, (first, stream)) in streams.into_iter().enumerate() {
            let to = to.clone();
            let body = move || read_all(host, &first, &stream, &to);
            thread::Builder::new().name("capture".into()).spawn(body)?;
        }
        Ok(Merge { queues, waiting: 0, from, lacks })
    }

    fn push(&mut self, (host, mut got): (usize, Got)) {
        if let Ok(Some(Part::Packet { stamp, .. })) = &mut got {
            *stamp = stamp.saturating_add_signed(self.lacks[host].load(Ordering::Relaxed));
        }
        let queue = &mut self.queues[host];
        queue.open = matches!(got, Ok(Some(Part::Packet { .. })));
        queue.parts.push_back((got, Instant::now()));
        self.waiting += 1;
    }

    /// The host whose part is the next, if that need not wait; else until when the earliest one waits.
    fn pick(&mut self) -> Result<usize, Option<Instant>> {
        while self.waiting < MOST
            && let Ok(came) = self.from.try_recv()
        {
            self.push(came);
        }
        let heads = self.queues.iter().enumerate().filter_map(|(host, queue)| Some((host, queue.parts.front()?)));
        let Some((host, (got, came))) = heads.min_by_key(|(_, (got, _))| stamp(got)) else { return Err(None) };
        let silent = self.queues.iter().any(|queue| queue.open && queue.parts.is_empty());
        let until = *came + WINDOW;
        match !silent || stamp(got) == 0 || self.waiting >= MOST || Instant::now() >= until {
            true => Ok(host),
            false => Err(Some(until)),
        }
    }

    /// True if there is a part that need not be waited for.
    pub(super) fn is_ready(&mut self) -> bool {
        self.pick().is_ok()
    }

    /// The next part and the number of its host; nothing when all streams have ended.
    pub(super) fn next(&mut self) -> Option<(usize, Got)> {
        loop {
            let until = match self.pick() {
                Ok(host) => {
                    self.waiting -= 1;
                    return self.queues[host].parts.pop_front().map(|(got, _)| (host, got));
                }
                Err(until) => until,
            };
            let came = match until {
                Some(until) => self.from.recv_timeout(until.saturating_duration_since(Instant::now())),
                None => self.from.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match came {
                Ok(came) => self.push(came),
                Err(RecvTimeoutError::Timeout) => {}
                // A reader says when its stream ends; none is left.
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }
}

/// Passes on the parts of a stream until its end, or until nobody wants them.
fn read_all(host: usize, first: &[u8], stream: &UnixStream, to: &SyncSender<(usize, Got)>) {
    let mut from = first.chain(BufReader::with_capacity(1 << 18, stream));
    loop {
        let got = read_part(&mut from);
        let more = matches!(got, Ok(Some(Part::Packet { .. })));
        if to.send((host, got)).is_err() || !more {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_abi::capture::{push_packet, push_tally};
    use std::io::Write;
    use std::sync::Arc;
    use std::sync::atomic::AtomicI64;

    fn packet(stamp: u64) -> Vec<u8> {
        let mut out = Vec::new();
        push_packet(&mut out, stamp, 64, [&[0; 64], &[]]);
        out
    }

    fn stamps(merge: &mut Merge, most: usize) -> Vec<(usize, u64)> {
        let next = || merge.next().map(|(host, got)| (host, stamp(&got)));
        std::iter::from_fn(next).filter(|(_, stamp)| *stamp > 0).take(most).collect()
    }

    #[test]
    fn packets_of_several_hosts_come_by_time_and_none_is_kept_by_a_silent_one() {
        let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().expect("a pair")).collect();
        let (mut theirs, ours): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        // The clock of the first one is late.
        let lacks = Arc::new([5, 0, 0].map(AtomicI64::new).into());
        let ours = ours.into_iter().map(|stream| (Vec::new(), stream)).collect();
        let mut merge = Merge::new(ours, lacks).expect("threads");
        theirs[0].write_all(&[packet(5), packet(25), packet(45)].concat()).expect("room");
        theirs[1].write_all(&[packet(20), packet(40)].concat()).expect("room");
        // The third one says nothing.
        let all = stamps(&mut merge, 5);
        assert_eq!(all, [(0, 10), (1, 20), (0, 30), (1, 40), (0, 50)]);
        let mut end = packet(60);
        push_tally(&mut end, 1, 0);
        theirs[2].write_all(&end).expect("room");
        // One goes without a word, one in the middle of a packet.
        theirs[1].write_all(&packet(55)[..20]).expect("room");
        theirs.clear();
        assert_eq!(stamps(&mut merge, 5), [(2, 60)]);
        assert!(merge.next().is_none());
    }
}
