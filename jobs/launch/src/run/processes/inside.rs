//! PEs as coroutines: all of a job in one process, which is its daemon, too.
//!
//! The process is started in place of a private daemon. Once there is a job it is told what to run, and says how each PE has
//! ended. For whoever watches the job its PEs are like processes of another host.

use super::forward::{Input, Output, copy_input, pump};
use super::frames::Frame;
use super::spawn::{End, Processes};
use crate::run::options::Options;
use crate::run::plan::JobPlan;
use angara_abi::JobId;
use angara_control::daemon::WithPes;
use angara_protocol::inside::{FromPes, StartPes, ToPes};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};

/// Frames waiting for the stream.
const QUEUE: usize = 16;
/// Bytes of a stack where there is no limit on stacks: the usual one.
const STACK: u64 = 8 << 20;

/// Standard input of the process.
pub(in crate::run) fn input() -> Stdio {
    match Input::here() {
        Input::Inherit | Input::Debug => Stdio::inherit(),
        Input::Copy => Stdio::piped(),
        Input::Nothing => Stdio::null(),
    }
}

/// Bytes of each PE's stack, in whole pages: as many as a process may have.
fn stack() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Stack).current;
    limit.unwrap_or(STACK).next_multiple_of(angara_abi::PAGE as u64)
}

/// Has the PEs of a job started, which are `processes` from then on.
pub(in crate::run) fn start(
    with: WithPes,
    (job, key): (JobId, &str),
    (args, plan): (&Options, &JobPlan),
    (out, err): (&Output, &Output),
    processes: &mut Processes,
) {
    let WithPes { reader, writer, input, out: from_out, err: from_err } = with;
    // What PEs write one after the other comes out in this order.
    processes.pump(pump(from_out, out.lines.clone(), 0, None));
    processes.pump(pump(from_err, err.lines.clone(), 0, None));
    if let Some(input) = input {
        tokio::spawn(copy_input(input));
    }
    let bytes = |text: &std::ffi::OsStr| text.as_bytes().to_vec();
    let file = std::path::absolute(&plan.program).unwrap_or_else(|_| plan.program.clone());
    let start = StartPes {
        job,
        key: key.into(),
        pes: args.pes,
        file: bytes(file.as_os_str()),
        argv: args.command.iter().map(|word| bytes(word)).collect(),
        label: args.label,
        stack: stack(),
    };
    let (frames, queue) = mpsc::channel::<Frame>(QUEUE);
    let writer = tokio::spawn(send(writer, ToPes::Start(Box::new(start)), queue));
    processes.add_host(frames, writer.abort_handle());
    let mut ends = BTreeMap::new();
    for pe in 0..args.pes {
        let (tell, end) = oneshot::channel();
        ends.insert(pe, tell);
        processes.expect_inside(pe, async move { end.await.unwrap_or(End::Lost(String::new())) });
    }
    processes.pump(collect(reader, ends));
}

async fn send(mut to: OwnedWriteHalf, start: ToPes, mut signals: mpsc::Receiver<Frame>) {
    let mut next = Some(start);
    while let Some(word) = next {
        let mut line = serde_json::to_vec(&word).expect("plain data");
        line.push(b'\n');
        if to.write_all(&line).await.is_err() {
            return;
        }
        next = match signals.recv().await {
            Some((_, bytes)) => bytes.try_into().ok().map(|raw| ToPes::Signal(i32::from_le_bytes(raw))),
            None => None,
        };
    }
}

/// Passes on how PEs end. Those of whom nothing is heard are lost with their process, of which the daemon's connection tells.
async fn collect(mut from: BufReader<OwnedReadHalf>, mut ends: BTreeMap<u32, oneshot::Sender<End>>) {
    let mut line = Vec::new();
    while let Ok(1..) = from.read_until(b'\n', &mut line).await {
        match serde_json::from_slice(&line) {
            Ok(FromPes::Ended(pe, raw)) => {
                if let Some(tell) = ends.remove(&pe) {
                    let _ = tell.send(End::Exit(ExitStatus::from_raw(raw)));
                }
            }
            Ok(FromPes::Refused(why, remedy)) => {
                // The first says it for all.
                let why = format!("{why}\nangara: try: {remedy}");
                if let Some((_, tell)) = ends.pop_first() {
                    let _ = tell.send(End::NotStarted(why));
                }
                // They have never been there.
                std::mem::take(&mut ends)
                    .into_values()
                    .for_each(|tell| drop(tell.send(End::Exit(ExitStatus::from_raw(0)))));
            }
            Ok(FromPes::Ready) | Err(_) => {}
        }
        if ends.is_empty() {
            return;
        }
        line.clear();
    }
    let killed = ExitStatus::from_raw(rustix::process::Signal::KILL.as_raw());
    ends.into_values().for_each(|tell| drop(tell.send(End::Exit(killed))));
}
