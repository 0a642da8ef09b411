//! PEs on other hosts.
//!
//! Where a job spans hosts, the daemon of each other host starts this program in a hidden mode, the *agent*.
//! It does there what the launcher does here: starts processes, collects their lines, waits for them, kills
//! what they leave behind. Launcher and agent talk over a byte stream that the daemons carry; when it
//! ends, the agent ends everything it started, so nothing outlives a launcher, a daemon or a trunk.
//!
//! A frame is a length (32 bits, little-endian), a kind, and as many bytes as the length says.

use super::bind;
use super::forward::{Chunk, Input, Output};
use super::frames::{Frame, from, read_frame, to, write_frame};
use super::program::Program;
use super::spawn::{End, Processes, kill_descendants};
use super::wrap::{self, Wrap};
use crate::mpi::relay::{Away, Offer, Relays};
use crate::mpi::{provider, ucx};
use crate::run::own;
use angara_abi::JobId;
use angara_control::cores::{Bind, Cores};
use angara_control::daemon::{Control, runtime};
use angara_control::error::{Failed, no_thread};
use angara_control::program::find_program;
use angara_protocol::launch::Launch;
use angara_protocol::msg::{CoreAdvice, JobHost, Request};
use angara_recordings::notes::Notes;
use angara_recordings::notes::away::{self, Arriving, Kinds, Sending};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, exit};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::{mpsc, oneshot};

/// Frames waiting for the stream.
const QUEUE: usize = 16;
/// Variables that mean something on one host only.
const OWN: [&str; 3] = ["XDG_RUNTIME_DIR", "HOSTNAME", angara_protocol::launch::ENV_RUNTIME_DIR];

/// Of what notes of calls take.
const NOTES: Kinds = Kinds { ask: from::TIME, answer: to::TIME, piece: from::NOTES, sent: from::NOTES_END };

/// What the agent is to do.
#[derive(Serialize, Deserialize)]
pub struct Start {
    /// Name of its host, for messages.
    host: String,
    /// The PEs it starts.
    pes: Vec<u32>,
    cores: CoreAdvice,
    bind: Bind,
    job: JobId,
    key: String,
    /// PEs of the job.
    all: u32,
    directory: Vec<u8>,
    file: Vec<u8>,
    argv: Vec<Vec<u8>>,
    env: Vec<(Vec<u8>, Vec<u8>)>,
    label: bool,
    wraps: Vec<Wrap>,
    /// Whether its PEs note their calls, and then whether with the lines that these come from.
    notes: Option<bool>,
    /// The launcher's server of MPI, if its processes may ask it.
    mpi: Option<Offer>,
    /// Mask of the launcher: files shall come out alike on all hosts.
    umask: u32,
}

/// A process ended, or never began.
#[derive(Serialize, Deserialize)]
struct Ended {
    pe: u32,
    result: Result<i32, String>,
}

impl Start {
    /// Returns what all agents of a job are told; the rest depends on the host.
    pub fn new(program: &Program, bind: Bind, job: JobId, key: &str, all: u32) -> Start {
        let bytes = |s: &OsString| s.as_bytes().to_vec();
        let own = |name: &OsString| OWN.iter().any(|o| name == o);
        let here = std::env::vars_os().filter(|(name, _)| !own(name));
        let env = here.chain(program.env.iter().cloned()).map(|(name, value)| (bytes(&name), bytes(&value)));
        Start {
            host: String::new(),
            pes: Vec::new(),
            cores: CoreAdvice::default(),
            bind,
            job,
            key: key.into(),
            all,
            directory: std::env::current_dir().unwrap_or_else(|_| "/".into()).into_os_string().into_vec(),
            file: std::path::absolute(&program.file)
                .unwrap_or_else(|_| program.file.clone())
                .into_os_string()
                .into_vec(),
            argv: program.argv.iter().map(bytes).collect(),
            env: env.collect(),
            label: program.label,
            wraps: program.wraps.clone(),
            notes: program.notes.as_ref().map(|notes| notes.sites()),
            mpi: None,
            umask: umask(),
        }
    }
}

/// This process's mask, read where reading does not change it.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = status.lines().find_map(|l| l.strip_prefix("Umask:"));
    field.and_then(|f| u32::from_str_radix(f.trim(), 8).ok()).unwrap_or(0o022)
}

/// Starts the agent on `host` and tells it to start the PEs there, which are `processes` from then on. With `input` PE 0 gets this
/// process's standard input, if it is there.
pub async fn start(
    dir: &Path,
    mut start: Start,
    host: &JobHost,
    outputs: (&Output, &Output),
    (input, notes): (bool, Option<Arc<Notes>>),
    processes: &mut Processes,
) -> Result<(), Failed> {
    let mut control = Control::connect(dir)?;
    control.request(&Request::JobAgent { job: start.job, host: host.host.clone() }).await?;
    let (reader, mut writer) = control.into_stream();
    (start.host, start.pes, start.cores) = (host.host.clone(), host.pes.clone(), host.cores.clone());
    let (frames, mut queue) = mpsc::channel::<Frame>(QUEUE);
    let (mpi, relays) = processes.offer_mpi_there(&host.pes, to::MPI, &frames).unzip();
    start.mpi = mpi;
    let first = serde_json::to_vec(&start).expect("plain data");
    let writer = tokio::spawn(async move {
        let mut next = Some((to::START, first));
        while let Some((kind, bytes)) = next {
            if write_frame(&mut writer, kind, &bytes).await.is_err() {
                return;
            }
            next = queue.recv().await;
        }
    });
    if input && host.pes.contains(&0) && Input::here() != Input::Nothing {
        forward_input(frames.downgrade()).map_err(no_thread)?;
    }
    let mut ends = BTreeMap::new();
    let notes = notes.map(|notes| (Arriving::new(notes, &host.host, &host.pes), frames.downgrade()));
    processes.add_host(frames, writer.abort_handle());
    for &pe in &host.pes {
        let (tell, end) = oneshot::channel();
        ends.insert(pe, tell);
        let name = host.host.clone();
        processes.expect(pe, name.clone(), async move { end.await.unwrap_or(End::Lost(name)) });
    }
    processes.pump(collect(reader, ends, (relays, notes), outputs.0.lines.clone(), outputs.1.lines.clone()));
    Ok(())
}

/// Passes on what an agent says until it ends.
async fn collect(
    mut reader: impl AsyncRead + Unpin,
    mut ends: BTreeMap<u32, oneshot::Sender<End>>,
    (mut relays, mut notes): (Option<Relays>, Option<(Arriving, mpsc::WeakSender<Frame>)>),
    out: mpsc::Sender<Chunk>,
    err: mpsc::Sender<Chunk>,
) {
    while let Ok(Some((kind, bytes))) = read_frame(&mut reader).await {
        match kind {
            from::OUT | from::ERR => {
                let Some((head, text)) = bytes.split_first_chunk::<5>() else { return };
                let [a, b, c, d, unfinished] = *head;
                let pe = u32::from_le_bytes([a, b, c, d]);
                let chunk = Chunk { pe, bytes: text.to_vec(), unfinished: unfinished != 0 };
                // Nobody reads our output any more: the writer has told so.
                let _ = if kind == from::OUT { out.send(chunk).await } else { err.send(chunk).await };
            }
            from::ENDED => {
                let Ok(Ended { pe, result }) = serde_json::from_slice(&bytes) else { return };
                if let Some(tell) = ends.remove(&pe) {
                    let end = match result {
                        Ok(raw) => End::Exit(ExitStatus::from_raw(raw)),
                        Err(why) => End::NotStarted(why),
                    };
                    // Nobody waits for a process after the job's end.
                    let _ = tell.send(end);
                }
            }
            from::MPI => relays.iter_mut().for_each(|relays| relays.take(&bytes)),
            from::TIME => {
                if let Some(frames) = notes.as_ref().and_then(|(_, frames)| frames.upgrade()) {
                    // A queue that is full makes this answer a slow one, or none; others are faster.
                    let _ = frames.try_send((to::TIME, away::time(&bytes)));
                }
            }
            from::NOTES => notes.iter_mut().for_each(|(notes, _)| notes.piece(&bytes)),
            from::NOTES_END => notes.iter_mut().for_each(|(notes, _)| notes.sent(&bytes)),
            _ => return,
        }
    }
}

/// Reading standard input cannot be interrupted, so a thread does it; it ends with the process.
fn forward_input(frames: mpsc::WeakSender<Frame>) -> io::Result<()> {
    let send = move |kind, bytes: &[u8]| {
        // Gone when the job has ended.
        frames.upgrade().is_some_and(|f| f.blocking_send((kind, bytes.to_vec())).is_ok())
    };
    let body = move || {
        let mut buffer = [0; 16 * 1024];
        while let Ok(n @ 1..) = io::Read::read(&mut io::stdin().lock(), &mut buffer) {
            if !send(to::INPUT, &buffer[..n]) {
                return;
            }
        }
        send(to::INPUT_END, &[]);
    };
    std::thread::Builder::new().name("input".into()).spawn(body).map(drop)
}

/// The agent. Never returns.
pub fn main() -> ! {
    let result = runtime().and_then(|r| r.block_on(serve()));
    match result {
        Ok(()) => exit(0),
        Err(e) => {
            e.print("angara");
            exit(e.code.into())
        }
    }
}

async fn serve() -> Result<(), Failed> {
    let failed = |what: &str| Failed::runtime(format!("the launcher {what}"), "this mode is started by fabricd");
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let pipes = |e| failed(&format!("gave no pipes: {e}"));
    let mut input = Receiver::from_file(own(io::stdin().as_fd())?).map_err(pipes)?;
    let mut output = Sender::from_file(own(io::stdout().as_fd())?).map_err(pipes)?;
    let Ok(Some((to::START, bytes))) = read_frame(&mut input).await else {
        return Err(failed("did not say what to start"));
    };
    let mut start: Start = serde_json::from_slice(&bytes).map_err(|_| failed("speaks another version"))?;
    super::spawn::raise_file_limit(start.pes.len() as u32);
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(start.umask & 0o777));
    let (frames, mut queue) = mpsc::channel::<Frame>(QUEUE);
    let writer = tokio::spawn(async move {
        while let Some((kind, bytes)) = queue.recv().await {
            if write_frame(&mut output, kind, &bytes).await.is_err() {
                return;
            }
        }
    });
    let mut processes = Processes::new(None);
    if let Some(offer) = start.mpi.take() {
        processes.offer_mpi_of(Away::new(offer, Relays::new(from::MPI, frames.downgrade())));
    }
    let (requests, mut wishes) = mpsc::channel(1);
    // Reads to the end whatever else happens: frames cannot be given up half way.
    let reader = tokio::spawn(async move {
        while let Ok(Some(frame)) = read_frame(&mut input).await {
            if requests.send(frame).await.is_err() {
                return;
            }
        }
    });
    let (mut kept, mut notes) = (VecDeque::new(), start.notes.map(|sites| Sending::new(sites, NOTES)));
    if let Some(Ok(notes)) = &mut notes {
        notes.begin(&frames, &mut wishes, &mut kept).await;
    }
    let (out, err) = (lines(from::OUT, &frames), lines(from::ERR, &frames));
    let mut stdin = begin(&start, &notes, &mut processes, (&out, &err), &frames).await;
    drop((out, err));
    let mut listened = true;
    while !processes.all_done() {
        let next = async {
            match kept.pop_front() {
                Some(frame) => Some(frame),
                None => wishes.recv().await,
            }
        };
        tokio::select! {
            Some((pe, end)) = processes.next_end() => {
                if let End::Exit(status) = end {
                    say_ended(&frames, pe, Ok(status.into_raw())).await;
                }
            }
            wish = next => match wish {
                Some(frame) => obey(frame, &mut processes, &mut stdin).await,
                None => {
                    processes.signal(Signal::KILL).await;
                    listened = false;
                    break;
                }
            },
        }
    }
    kill_descendants(None);
    processes.drained().await;
    if let Some(Ok(notes)) = notes.take_if(|_| listened) {
        notes.send(&start.pes, &frames, wishes).await;
    }
    drop((processes, frames, notes));
    let _ = writer.await;
    reader.abort();
    Ok(())
}

/// Does what the launcher says.
async fn obey((kind, bytes): Frame, processes: &mut Processes, stdin: &mut Option<tokio::process::ChildStdin>) {
    match kind {
        to::SIGNAL => {
            let raw = bytes.try_into().map(i32::from_le_bytes).unwrap_or_default();
            if let Some(signal) = Signal::from_named_raw(raw) {
                processes.signal(signal).await;
            }
        }
        to::INPUT => {
            if let Some(pipe) = stdin
                && pipe.write_all(&bytes).await.is_err()
            {
                // A program that does not read its input leaves it.
                *stdin = None;
            }
        }
        to::INPUT_END => *stdin = None,
        to::MPI => processes.told_by_mpi(&bytes),
        _ => {}
    }
}

/// Starts the PEs; the pipe to PE 0, if it is here.
async fn begin(
    start: &Start,
    notes: &Option<Result<Sending, String>>,
    processes: &mut Processes,
    outputs: (&mpsc::Sender<Chunk>, &mpsc::Sender<Chunk>),
    frames: &mpsc::Sender<Frame>,
) -> Option<tokio::process::ChildStdin> {
    let os = |bytes: &Vec<u8>| OsString::from_vec(bytes.clone());
    let (file, directory) = (os(&start.file), PathBuf::from(os(&start.directory)));
    let missing = match find_program(&file, None) {
        Err(e) => Some(format!("host {}: {}; {}", start.host, e.message, "put the program at the same path there")),
        Ok(_) if !directory.is_dir() => {
            Some(format!("host {}: there is no directory {}; make it there", start.host, directory.display()))
        }
        Ok(_) => match (wrap::check(&start.wraps, &start.pes), notes) {
            (Err(e), _) => Some(format!("host {}: {}; {}", start.host, e.message, e.remedy)),
            (Ok(()), Some(Err(why))) => Some(format!("host {}: {why}", start.host)),
            (Ok(()), _) => None,
        },
    };
    if let Some(why) = missing {
        for pe in &start.pes {
            say_ended(frames, *pe, Err(why.clone())).await;
        }
        return None;
    }
    let mut env: Vec<_> = start.env.iter().map(|(name, value)| (os(name), os(value))).collect();
    provider::find_here(&mut env);
    ucx::find_here(&mut env);
    // Instead of the launcher's directory.
    env.extend(notes.iter().flatten().flat_map(|notes| notes.notes().variables()));
    let program = Program {
        file: file.into(),
        argv: start.argv.iter().map(os).collect(),
        env,
        directory: Some(directory),
        label: start.label,
        wraps: start.wraps.clone(),
        notes: None,
    };
    let cores = bind::assign(start.bind, &Cores::here(), start.pes.len(), &start.cores);
    let mut stdin = None;
    for (index, &pe) in start.pes.iter().enumerate() {
        let runtime_dir = angara_protocol::launch::default_runtime_dir();
        let launch = Launch { runtime_dir, job: start.job, key: start.key.clone(), pe, pes: start.all };
        let own = cores.as_ref().map(|c| &c[index][..]);
        let input = if pe == 0 { Input::Copy } else { Input::Nothing };
        match processes.spawn(&program, &launch, own, input, outputs) {
            Ok(pipe) => stdin = stdin.or(pipe),
            Err(e) => say_ended(frames, pe, Err(format!("host {}: {e}", start.host))).await,
        }
    }
    stdin
}

async fn say_ended(frames: &mpsc::Sender<Frame>, pe: u32, result: Result<i32, String>) {
    let bytes = serde_json::to_vec(&Ended { pe, result }).expect("plain data");
    // The launcher may have gone; then everything ends anyway.
    let _ = frames.send((from::ENDED, bytes)).await;
}

/// Lines of one output as frames.
fn lines(kind: u8, frames: &mpsc::Sender<Frame>) -> mpsc::Sender<Chunk> {
    let (tell, mut chunks) = mpsc::channel::<Chunk>(QUEUE);
    let frames = frames.clone();
    tokio::spawn(async move {
        while let Some(chunk) = chunks.recv().await {
            let mut bytes = chunk.pe.to_le_bytes().to_vec();
            bytes.push(chunk.unfinished as u8);
            bytes.extend_from_slice(&chunk.bytes);
            if frames.send((kind, bytes)).await.is_err() {
                return;
            }
        }
    });
    tell
}
