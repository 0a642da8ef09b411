//! Frames between a launcher and the agent that starts PEs on another host.

use rustix::process::Signal;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Kind and contents of what is sent to an agent.
pub(crate) type Frame = (u8, Vec<u8>);

/// Longest frame.
const FRAME_MAX: usize = 8 << 20;

/// Kinds of frames, to the agent ...
pub(super) mod to {
    pub(in super::super) const START: u8 = 0;
    pub(in super::super) const SIGNAL: u8 = 1;
    pub(in super::super) const INPUT: u8 = 2;
    pub(in super::super) const INPUT_END: u8 = 3;
    /// Of the server of MPI.
    pub(in super::super) const MPI: u8 = 4;
    /// The launcher's time, for whoever asked.
    pub(in super::super) const TIME: u8 = 5;
}
/// ... and from it.
pub(super) mod from {
    /// PE (32 bits), 1 if the line is unfinished, then the bytes.
    pub(in super::super) const OUT: u8 = 0;
    pub(in super::super) const ERR: u8 = 1;
    /// How a process ended.
    pub(in super::super) const ENDED: u8 = 2;
    /// For the server of MPI.
    pub(in super::super) const MPI: u8 = 3;
    /// A question for the launcher's time.
    pub(in super::super) const TIME: u8 = 4;
    /// What PEs have noted of their calls, and the last word about that.
    pub(in super::super) const NOTES: u8 = 5;
    pub(in super::super) const NOTES_END: u8 = 6;
}

/// A signal as a frame.
pub(super) fn signal_frame(signal: Signal) -> (u8, Vec<u8>) {
    (to::SIGNAL, signal.as_raw().to_le_bytes().to_vec())
}

pub(super) async fn write_frame(to: &mut (impl AsyncWrite + Unpin), kind: u8, bytes: &[u8]) -> io::Result<()> {
    let mut head = (bytes.len() as u32).to_le_bytes().to_vec();
    head.push(kind);
    to.write_all(&head).await?;
    to.write_all(bytes).await?;
    to.flush().await
}

/// The next frame; `None` at the end.
pub(super) async fn read_frame(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<(u8, Vec<u8>)>> {
    let mut head = [0; 5];
    match from.read_exact(&mut head).await {
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(e) => return Err(e),
    }
    let [a, b, c, d, kind] = head;
    let len = u32::from_le_bytes([a, b, c, d]) as usize;
    if len > FRAME_MAX {
        return Err(io::Error::other("a frame is too long"));
    }
    let mut bytes = vec![0; len];
    from.read_exact(&mut bytes).await?;
    Ok(Some((kind, bytes)))
}
