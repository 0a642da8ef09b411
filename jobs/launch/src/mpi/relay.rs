//! PMI-1 for ranks on other hosts: what they and the server say to each other, carried by the stream between the launcher and
//! the agent there, in frames of a rank's number (32 bits, little-endian) and bytes. One without bytes ends the rank's part.
//!
//! Both ends do the same. A rank has one request under way, so little is on its way. One that floods, or does not read, is
//! cut off: the stream is for the output of all others, too.

use super::leftovers;
use super::rank_end::{RankEnd, remove_shared_memory};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixStream as StdStream;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

/// Kind and contents of what goes to the other end. Whoever relays does not keep the stream open.
pub type Frames = mpsc::WeakSender<(u8, Vec<u8>)>;

/// Frames for a rank, or from it, that may wait.
const WAITING: usize = 64;
/// Most bytes of a frame.
const CHUNK: usize = 4096;

/// What an agent has to know.
#[derive(Serialize, Deserialize)]
pub struct Offer {
    /// The job's name in MPI.
    pub name: String,
    /// Ranks of the job.
    pub ranks: usize,
    /// Variables of each rank there.
    pub variables: BTreeMap<u32, Vec<(String, String)>>,
}

/// Streams of ranks, on one side of the stream between two hosts.
pub struct Relays {
    kind: u8,
    frames: Frames,
    ranks: BTreeMap<u32, mpsc::Sender<Vec<u8>>>,
}

impl Relays {
    /// For frames that go out with this kind.
    pub fn new(kind: u8, frames: Frames) -> Relays {
        Relays { kind, frames, ranks: BTreeMap::new() }
    }

    /// Begins to relay between `stream` and the other end; ends with either.
    pub fn add(
        &mut self,
        rank: u32,
        stream: impl AsyncRead + AsyncWrite + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (tell, came) = mpsc::channel(WAITING);
        self.ranks.insert(rank, tell);
        relay(rank, stream, came, self.kind, self.frames.clone())
    }

    /// Takes a frame from the other end. What makes no sense is dropped.
    pub fn take(&mut self, frame: &[u8]) {
        let Some((rank, bytes)) = frame.split_first_chunk::<4>() else { return };
        let rank = u32::from_le_bytes(*rank);
        let Some(tell) = self.ranks.get(&rank) else { return };
        if bytes.is_empty() || tell.try_send(bytes.to_vec()).is_err() {
            self.ranks.remove(&rank);
        }
    }
}

async fn relay(
    rank: u32,
    stream: impl AsyncRead + AsyncWrite,
    mut came: mpsc::Receiver<Vec<u8>>,
    kind: u8,
    frames: Frames,
) {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let frame = |bytes: &[u8]| (kind, [&rank.to_le_bytes(), bytes].concat());
    let mut buffer = [0; CHUNK];
    loop {
        tokio::select! {
            // A stream that breaks is one that ends.
            read = reader.read(&mut buffer) => match (read.unwrap_or(0), frames.upgrade()) {
                (len @ 1.., Some(frames)) if frames.send(frame(&buffer[..len])).await.is_ok() => {}
                _ => break,
            },
            bytes = came.recv() => match bytes {
                Some(bytes) if writer.write_all(&bytes).await.is_ok() => {}
                _ => break,
            },
        }
    }
    if let Some(frames) = frames.upgrade() {
        // Nobody is there any more who would need to know.
        let _ = frames.send(frame(&[])).await;
    }
}

/// The server as an agent has it: elsewhere.
pub struct Away {
    offer: Offer,
    relays: Relays,
}

impl Away {
    /// As the launcher describes it.
    pub fn new(offer: Offer, relays: Relays) -> Away {
        leftovers::sweep();
        Away { offer, relays }
    }

    /// A rank's end of its stream, and what carries it.
    pub fn rank(&mut self, rank: u32) -> io::Result<(RankEnd, impl Future<Output = ()> + Send + 'static)> {
        let (ours, theirs) = StdStream::pair()?;
        ours.set_nonblocking(true)?;
        let variables = self.offer.variables.get(&rank).cloned().unwrap_or_default();
        Ok((RankEnd::new(theirs, variables)?, self.relays.add(rank, UnixStream::from_std(ours)?)))
    }

    /// Takes a frame from the launcher.
    pub fn take(&mut self, frame: &[u8]) {
        self.relays.take(frame);
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        remove_shared_memory(&self.offer.name, self.offer.ranks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::duplex;
    use tokio::time::timeout;

    const LIMIT: Duration = Duration::from_secs(60);

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { timeout(LIMIT, test).await.expect("in time") });
    }

    #[test]
    fn what_ranks_say_comes_out_at_the_other_end() {
        run(async {
            let (forth, mut forward) = mpsc::channel(1);
            let (back, mut backward) = mpsc::channel(1);
            let (mut here, mut there) = (Relays::new(1, forth.downgrade()), Relays::new(2, back.downgrade()));
            let mut ends = Vec::new();
            for rank in [3, 7] {
                let ((a, b), (c, d)) = (duplex(64), duplex(64));
                tokio::spawn(here.add(rank, b));
                tokio::spawn(there.add(rank, c));
                ends.push((a, d));
            }
            tokio::spawn(async move {
                while let Some((kind, frame)) = forward.recv().await {
                    assert_eq!(kind, 1);
                    there.take(&frame);
                }
            });
            tokio::spawn(async move {
                while let Some((kind, frame)) = backward.recv().await {
                    assert_eq!(kind, 2);
                    here.take(&frame);
                }
            });
            for (number, (a, d)) in ends.iter_mut().enumerate() {
                let text = [number as u8; 40];
                for forth in [true, false] {
                    let (from, to) = if forth { (&mut *a, &mut *d) } else { (&mut *d, &mut *a) };
                    from.write_all(&text).await.unwrap();
                    let mut got = [9; 40];
                    to.read_exact(&mut got).await.unwrap();
                    assert_eq!(got, text);
                }
            }
            // The end of one is its own.
            let (a, mut d) = ends.remove(0);
            drop(a);
            assert_eq!(d.read(&mut [0; 8]).await.unwrap(), 0);
            let (a, d) = &mut ends[0];
            a.write_all(b"still").await.unwrap();
            d.read_exact(&mut [0; 5]).await.unwrap();
            drop((forth, back));
        });
    }

    #[test]
    fn nonsense_is_dropped_and_a_flood_is_cut_off() {
        run(async {
            let (frames, _kept) = mpsc::channel(1);
            let mut relays = Relays::new(1, frames.downgrade());
            let (mut rank, stream) = duplex(64);
            tokio::spawn(relays.add(3, stream));
            for frame in [&b""[..], b"abc", &8u32.to_le_bytes(), &[&8u32.to_le_bytes()[..], b"x"].concat()] {
                relays.take(frame);
            }
            // Nobody reads, so it does not get far.
            for _ in 0..10 * WAITING {
                relays.take(&[&3u32.to_le_bytes()[..], &[1; 64]].concat());
            }
            assert!(relays.ranks.is_empty());
            let mut all = Vec::new();
            rank.read_to_end(&mut all).await.unwrap();
            assert!(all.len() >= WAITING * 64 && all.len() <= (WAITING + 2) * 64, "{}", all.len());
        });
    }
}
