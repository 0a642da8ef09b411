//! Notes of PEs on other hosts, on their way to the launcher in frames of an agent's stream.
//!
//! The agent makes a directory of its own, and asks for the launcher's time before its PEs start and behind their end. When
//! they have ended it sends their files in pieces. The stream takes what the launcher has written, so neither keeps more than a
//! few of them in memory. A launcher that has gone is sent nothing, and the directory goes in any case.

use super::clocks::{Clock, Look};
use super::{Notes, Other};
use angara_protocol::calls::{file_name, wall_now};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Kind and contents of what goes over the stream.
type Frame = (u8, Vec<u8>);

/// Bytes of a file in a frame.
const PIECE: usize = 64 << 10;
/// Questions for the launcher's time, one after the other; the fastest answer counts.
const QUESTIONS: usize = 16;
/// How long all of them may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Frames about other things that are kept meanwhile; beyond that no more is asked.
const KEPT: usize = 64;

/// Kinds of frames, as whoever has the stream numbers them.
#[derive(Clone, Copy)]
pub struct Kinds {
    /// A question for the launcher's time: the agent's, ns.
    pub ask: u8,
    /// The answer: the agent's time again, then the launcher's.
    pub answer: u8,
    /// PE (32 bits), and the next bytes of its file.
    pub piece: u8,
    /// [`Sent`].
    pub sent: u8,
}

/// The agent's last word about notes.
#[derive(Serialize, Deserialize)]
struct Sent {
    /// Looks at both clocks, before and behind.
    looks: Option<(Look, Look)>,
    /// Why not all was sent, if so.
    lacking: Option<String>,
}

/// The launcher's answer to a question for its time.
pub fn time(question: &[u8]) -> Vec<u8> {
    [question, &wall_now().to_le_bytes()].concat()
}

/// The agent's side.
pub struct Sending {
    notes: Notes,
    kinds: Kinds,
    before: Option<Look>,
}

impl Sending {
    /// A directory for what PEs of this host note.
    ///
    /// # Errors
    /// It cannot be made: why, and where.
    pub fn new(sites: bool, kinds: Kinds) -> Result<Sending, String> {
        let beside = std::env::temp_dir().join("angara-notes");
        let notes = Notes::new(&beside, sites).map_err(|e| {
            let place = std::env::temp_dir();
            format!("cannot note calls in {}: {e}; make room there, or set TMPDIR for its daemon", place.display())
        })?;
        Ok(Sending { notes, kinds, before: None })
    }

    /// The directory.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Looks at both clocks before PEs start. What comes meanwhile about other things is kept.
    pub async fn begin(
        &mut self,
        frames: &mpsc::Sender<Frame>,
        came: &mut mpsc::Receiver<Frame>,
        kept: &mut VecDeque<Frame>,
    ) {
        self.before = self.look(frames, came, kept).await;
    }

    async fn look(
        &self,
        frames: &mpsc::Sender<Frame>,
        came: &mut mpsc::Receiver<Frame>,
        kept: &mut VecDeque<Frame>,
    ) -> Option<Look> {
        let mut best: Option<Look> = None;
        let ask = async {
            for _ in 0..QUESTIONS {
                let question = wall_now().to_le_bytes().to_vec();
                if frames.send((self.kinds.ask, question.clone())).await.is_err() {
                    return;
                }
                let here = loop {
                    match came.recv().await {
                        None => return,
                        Some((kind, bytes)) if kind == self.kinds.answer => {
                            if let Some(here) = bytes.strip_prefix(&question[..]).and_then(|b| b.try_into().ok()) {
                                break u64::from_le_bytes(here);
                            }
                        }
                        Some(other) => kept.push_back(other),
                    }
                };
                let asked = u64::from_le_bytes(question.try_into().expect("8 bytes"));
                let look = Look::between(asked, wall_now(), here);
                if best.is_none_or(|best| look.error < best.error) {
                    best = Some(look);
                }
                if kept.len() > KEPT {
                    return;
                }
            }
        };
        // The best look until then counts.
        let _ = timeout(PATIENCE, ask).await;
        best
    }

    /// Sends what `pes` have noted, unless the launcher goes.
    pub async fn send(self, pes: &[u32], frames: &mpsc::Sender<Frame>, mut came: mpsc::Receiver<Frame>) {
        let behind = self.look(frames, &mut came, &mut VecDeque::new()).await;
        let send = async {
            let mut lacking = None;
            for &pe in pes {
                match self.send_file(pe, frames).await {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(e) => lacking = Some(format!("what PE {pe} has noted cannot be read: {e}")),
                }
            }
            let looks = self.before.zip(behind);
            let sent = serde_json::to_vec(&Sent { looks, lacking }).expect("plain data");
            // The launcher may have gone.
            let _ = frames.send((self.kinds.sent, sent)).await;
        };
        tokio::select! {
            () = send => {}
            () = async { while came.recv().await.is_some() {} } => {}
        }
    }

    /// `false` if nobody takes it.
    async fn send_file(&self, pe: u32, frames: &mpsc::Sender<Frame>) -> io::Result<bool> {
        let mut file = match File::open(self.notes.directory.join(file_name(pe))) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(e) => return Err(e),
        };
        loop {
            let mut frame = pe.to_le_bytes().to_vec();
            if (&mut file).take(PIECE as u64).read_to_end(&mut frame)? == 0 {
                return Ok(true);
            }
            if frames.send((self.kinds.piece, frame)).await.is_err() {
                return Ok(false);
            }
        }
    }
}

/// The launcher's side: what an agent sends goes into the directory here.
pub struct Arriving {
    notes: Arc<Notes>,
    host: String,
    pes: Vec<u32>,
    /// The file that comes.
    file: Option<(u32, File)>,
    failed: Option<String>,
}

impl Arriving {
    /// Expects notes of the PEs of a host. Until all have come, they count as missing.
    pub fn new(notes: Arc<Notes>, host: &str, pes: &[u32]) -> Arriving {
        let lacking = Some("what its PEs have noted has not come, or not all of it".into());
        notes.others().insert(host.into(), Other { pes: pes.to_vec(), clock: None, lacking });
        Arriving { notes, host: host.into(), pes: pes.to_vec(), file: None, failed: None }
    }

    /// Writes the next bytes of a file. Bytes that cannot be written are read all the same, as the stream has more to
    /// say.
    pub fn piece(&mut self, frame: &[u8]) {
        let Some((pe, bytes)) = frame.split_first_chunk() else { return };
        let pe = u32::from_le_bytes(*pe);
        if self.failed.is_some() || !self.pes.contains(&pe) {
            return;
        }
        if let Err(e) = self.write(pe, bytes) {
            let place = self.notes.directory.display();
            self.failed = Some(format!("what its PEs have noted cannot be written to {place}: {e}"));
        }
    }

    fn write(&mut self, pe: u32, bytes: &[u8]) -> io::Result<()> {
        if self.file.as_ref().is_none_or(|(of, _)| *of != pe) {
            self.file = Some((pe, File::create(self.notes.directory.join(file_name(pe)))?));
        }
        self.file.as_mut().map_or(Ok(()), |(_, file)| file.write_all(bytes))
    }

    /// The agent's last word.
    pub fn sent(&mut self, frame: &[u8]) {
        let Ok(Sent { looks, lacking }) = serde_json::from_slice(frame) else { return };
        let clock = looks.map(|(before, behind)| Clock::new(before, behind));
        let unknown = clock.is_none().then(|| "how its clock and ours belong together is not known".to_string());
        let lacking = self.failed.take().or(lacking).or(unknown);
        if let Some(other) = self.notes.others().get_mut(&self.host) {
            (other.clock, other.lacking) = (clock, lacking);
        }
    }
}
