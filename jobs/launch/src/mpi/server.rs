//! The launcher's side of PMI-1: one stream per rank, and a task that answers it.
//!
//! A rank has one request under way at a time; what it sends meanwhile waits in its stream. So a rank that floods, or does not
//! read, holds up nobody but itself.

use super::leftovers;
use super::rank_end::{RankEnd, remove_shared_memory};
use super::relay::{Frames, Offer, Relays};
use super::space::{Answer, Space, Told};
use angara_net::torus::NodeId;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Longest line that is read; the protocol's own are a tenth of that.
const LINE_MAX: usize = 16 << 10;

/// What all tasks share.
struct Shared {
    space: Mutex<Space>,
    /// Number of barriers that are over.
    round: watch::Sender<u64>,
    tell: mpsc::UnboundedSender<Told>,
}

/// The server of a job.
pub struct Server {
    shared: Arc<Shared>,
    told: mpsc::UnboundedReceiver<Told>,
    tasks: JoinSet<()>,
    placement: Vec<NodeId>,
    /// The job's in MPI.
    name: String,
}

impl Server {
    /// For a job whose ranks are on these nodes.
    pub fn new(placement: &[NodeId]) -> Server {
        let (tell, told) = mpsc::unbounded_channel();
        leftovers::sweep();
        // After it libraries name shared memory, of which a job that was killed may have left some.
        let name = format!("angara_{}_{:016x}", std::process::id(), RandomState::new().hash_one(0));
        let shared =
            Shared { space: Mutex::new(Space::new(name.clone(), placement)), round: watch::Sender::new(0), tell };
        Server { shared: Arc::new(shared), told, tasks: JoinSet::new(), placement: placement.to_vec(), name }
    }

    /// Begins to serve `rank`, a process of this host.
    pub fn rank(&mut self, rank: u32) -> io::Result<RankEnd> {
        let (ours, theirs) = StdStream::pair()?;
        ours.set_nonblocking(true)?;
        self.serve(rank, UnixStream::from_std(ours)?);
        RankEnd::new(theirs, self.variables(rank))
    }

    /// Begins to serve `ranks`, processes of another host, by frames of `kind` to its agent; what that one has to know, and what
    /// takes its frames. Each of `tasks` carries one rank's.
    pub fn there(&mut self, ranks: &[u32], (kind, frames): (u8, Frames), tasks: &mut JoinSet<()>) -> (Offer, Relays) {
        let mut relays = Relays::new(kind, frames);
        for &rank in ranks {
            let (ours, theirs) = tokio::io::duplex(LINE_MAX);
            self.serve(rank, theirs);
            tasks.spawn(relays.add(rank, ours));
        }
        let variables = ranks.iter().map(|rank| (*rank, self.variables(*rank))).collect();
        (Offer { name: self.name.clone(), ranks: self.placement.len(), variables }, relays)
    }

    /// Returns what names `rank` to its program.
    fn variables(&self, rank: u32) -> Vec<(String, String)> {
        let node = self.placement[rank as usize];
        let here = |ranks: &[NodeId]| ranks.iter().filter(|other| **other == node).count();
        let variables = [
            ("PMI_RANK", rank as usize),
            ("PMI_SIZE", self.placement.len()),
            ("MPI_LOCALRANKID", here(&self.placement[..rank as usize])),
            ("MPI_LOCALNRANKS", here(&self.placement)),
        ];
        variables.map(|(name, value)| (name.to_string(), value.to_string())).to_vec()
    }

    /// Serves `rank` on a stream.
    fn serve(&mut self, rank: u32, stream: impl AsyncRead + AsyncWrite + Send + 'static) {
        let shared = self.shared.clone();
        self.tasks.spawn(async move {
            // A stream that breaks is one that ends.
            let _ = shared.serve(rank, stream).await;
            shared.look(|space| space.gone(rank));
        });
    }

    /// A rank has come.
    pub fn entered(&self) -> bool {
        self.shared.space().entered()
    }

    /// Returns what the launcher is to know. May be cancelled.
    pub async fn told(&mut self) -> Told {
        match self.told.recv().await {
            Some(told) => told,
            None => std::future::pending().await,
        }
    }
}

impl Shared {
    fn space(&self) -> MutexGuard<'_, Space> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something in the space, and passes on what has come of it.
    fn look<T>(&self, act: impl FnOnce(&mut Space) -> T) -> T {
        let mut space = self.space();
        let result = act(&mut space);
        // Nobody listens when the job ends.
        space.told().into_iter().for_each(|told| drop(self.tell.send(told)));
        self.round.send_if_modified(|round| std::mem::replace(round, space.round()) != space.round());
        result
    }

    async fn serve(&self, rank: u32, stream: impl AsyncRead + AsyncWrite) -> io::Result<()> {
        let (reader, mut writer) = tokio::io::split(stream);
        let mut reader = BufReader::new(reader);
        while let Some(line) = next_line(&mut reader).await? {
            let answer = self.look(|space| match &line {
                Some(line) => space.line(rank, &String::from_utf8_lossy(line)),
                None => space.too_long(rank),
            });
            let said = match answer {
                Answer::Nothing => continue,
                Answer::Line(line) => line,
                Answer::Barrier(round) => {
                    let mut rounds = self.round.subscribe();
                    let over = rounds.wait_for(|now| *now > round).await;
                    over.map_err(io::Error::other)?;
                    "cmd=barrier_out rc=0".into()
                }
            };
            writer.write_all(format!("{said}\n").as_bytes()).await?;
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        remove_shared_memory(&self.name, self.placement.len());
    }
}

/// The next line without its end; `Some(None)` for one above [`LINE_MAX`], of which nothing is kept; `None` at the end.
async fn next_line(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Option<Vec<u8>>>> {
    let (mut line, mut too_long) = (Vec::new(), false);
    loop {
        let bytes = from.fill_buf().await?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let end = bytes.iter().position(|b| *b == b'\n');
        let (part, used) = end.map_or((bytes, bytes.len()), |end| (&bytes[..end], end + 1));
        too_long |= line.len() + part.len() > LINE_MAX;
        match too_long {
            true => line.clear(),
            false => line.extend_from_slice(part),
        }
        from.consume(used);
        if end.is_some() {
            return Ok(Some((!too_long).then_some(line)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::time::Duration;
    use tokio::io::{DuplexStream, duplex};
    use tokio::time::timeout;

    const LIMIT: Duration = Duration::from_secs(60);

    /// A client of one rank.
    struct Client(BufReader<DuplexStream>);

    impl Client {
        async fn ask(&mut self, line: &str) -> String {
            timeout(LIMIT, self.0.write_all(format!("{line}\n").as_bytes())).await.expect("in time").expect("open");
            self.answer().await
        }
        async fn answer(&mut self) -> String {
            let mut said = String::new();
            timeout(LIMIT, self.0.read_line(&mut said)).await.expect("in time").expect("open");
            said.trim_end().into()
        }
    }

    fn clients(server: &mut Server, ranks: u32) -> Vec<Client> {
        let client = |rank| {
            let (mine, theirs) = duplex(256);
            server.serve(rank, theirs);
            Client(BufReader::new(mine))
        };
        (0..ranks).map(client).collect()
    }

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }

    #[test]
    fn ranks_exchange_texts_around_a_barrier() {
        run(async {
            let mut server = Server::new(&[0, 1, 2]);
            let mut all = clients(&mut server, 3);
            let one = |mut client: Client, rank: usize| async move {
                assert!(client.ask("cmd=init pmi_version=1 pmi_subversion=1").await.ends_with("rc=0"));
                for round in 0..50 {
                    let put = format!("cmd=put kvsname=angara key=k{rank}.{round} value=v{rank}.{round}");
                    assert!(client.ask(&put).await.contains("rc=0"));
                    assert_eq!(client.ask("cmd=barrier_in").await, "cmd=barrier_out rc=0");
                    let other = (rank + 1) % 3;
                    let got = client.ask(&format!("cmd=get kvsname=angara key=k{other}.{round}")).await;
                    assert!(got.ends_with(&format!("value=v{other}.{round}")), "{got}");
                }
                assert!(client.ask("cmd=finalize").await.starts_with("cmd=finalize_ack"));
            };
            let (c, b, a) = (all.remove(2), all.remove(1), all.remove(0));
            tokio::join!(one(a, 0), one(b, 1), one(c, 2));
            assert!(matches!(timeout(LIMIT, server.told()).await, Ok(Told::Entered(_))) && server.entered());
            assert!(timeout(Duration::from_millis(1), server.told()).await.is_err(), "nothing is wrong");
        });
    }

    #[test]
    fn a_rank_that_floods_and_never_reads_holds_up_nobody() {
        run(async {
            let mut server = Server::new(&[0, 1]);
            let mut all = clients(&mut server, 2);
            let mut hostile = all.remove(0);
            tokio::spawn(async move {
                let noise = [&b"cmd=get_maxes\n\xff\xfe=\0\n"[..], &[b'x'; 3 * LINE_MAX], b"\ncmd=get key=\n"].concat();
                while hostile.0.write_all(&noise).await.is_ok() {}
            });
            for _ in 0..100 {
                assert!(all[0].ask("cmd=get_appnum").await.contains("appnum=0"));
            }
        });
    }

    #[test]
    fn a_line_that_is_too_long_is_answered_and_the_next_one_is_read() {
        run(async {
            let mut server = Server::new(&[0]);
            let mut all = clients(&mut server, 1);
            let long = format!("cmd=put key=k value={}", "x".repeat(LINE_MAX));
            assert!(all[0].ask(&long).await.contains("msg=line_too_long"));
            assert!(all[0].ask("cmd=get_universe_size").await.contains("size=1"));
        });
    }

    #[test]
    fn a_rank_that_leaves_or_aborts_is_told() {
        run(async {
            let mut server = Server::new(&[0, 1, 2]);
            let mut all = clients(&mut server, 3);
            all[2].0.write_all(b"cmd=abort exitcode=9 message=x\n").await.unwrap();
            assert_eq!(timeout(LIMIT, server.told()).await.unwrap(), Told::Abort(2, 9, "x".into()));
            all[0].0.write_all(b"cmd=barrier_in\n").await.unwrap();
            drop(all.remove(1));
            assert_eq!(timeout(LIMIT, server.told()).await.unwrap(), Told::Left(1));
        });
    }

    #[test]
    fn shared_memory_has_the_name_that_mpich_gives_it() {
        assert_eq!(super::super::rank_end::hash("angara_10476_4c1f557e77b44a1b"), 0xc5315fe3);
    }

    #[test]
    fn ranks_of_a_node_are_counted() {
        run(async {
            let mut server = Server::new(&[4, 4, 2, 4]);
            let end = server.rank(3).unwrap();
            let of = |name: &str| end.variables.iter().find(|v| v.0 == name).unwrap().1.clone();
            let all = ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"].map(of);
            assert_eq!(all, ["3", "4", "2", "3"]);
            assert_eq!(of("PMI_FD"), end.stream.as_raw_fd().to_string());
        });
    }
}
