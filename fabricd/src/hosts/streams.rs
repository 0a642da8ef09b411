//! Byte streams between hosts, beside the daemons' messages: what a launcher and its other half on
//! another host say to each other, and captured packets.
//!
//! A stream has two ends, each with a reader (what it reads goes to the other host) and a writer. At most
//! [`WINDOW`] bytes are under way in each direction, so a side that does not read holds up nobody but
//! the other side of the same stream.

use super::messages::HostMessages;
use super::protocol::Tell;
use angara_cluster::HostId;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{Semaphore, mpsc};

/// Bytes under way in one direction.
const WINDOW: usize = 256 * 1024;
/// Bytes sent at once.
const PIECE: usize = 30 * 1024;

/// This host's end of a stream.
struct End {
    host: HostId,
    /// Where bytes from the other host go; closed when no more will come.
    incoming: Option<mpsc::UnboundedSender<Vec<u8>>>,
    /// Bytes that may still be sent.
    room: Rc<Semaphore>,
}

/// Streams with an end here.
#[derive(Default)]
pub(crate) struct Streams {
    ends: RefCell<BTreeMap<u64, End>>,
}

impl Streams {
    /// Makes this host's end; the receiver yields what the other host sends, and ends with it.
    pub(crate) fn open(&self, id: u64, host: HostId) -> mpsc::UnboundedReceiver<Vec<u8>> {
        let (tx, rx) = mpsc::unbounded_channel();
        let end = End { host, incoming: Some(tx), room: Rc::new(Semaphore::new(WINDOW)) };
        self.ends.borrow_mut().insert(id, end);
        rx
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.ends.borrow().len()
    }

    /// Bytes came from another host.
    pub(crate) fn data(&self, host: HostId, id: u64, data: Vec<u8>) {
        if let Some(end) = self.ends.borrow().get(&id).filter(|e| e.host == host)
            && let Some(incoming) = &end.incoming
        {
            // The reader may have gone.
            let _ = incoming.send(data);
        }
    }

    /// The other host has taken so many bytes.
    pub(crate) fn taken(&self, host: HostId, id: u64, bytes: u32) {
        if let Some(end) = self.ends.borrow().get(&id).filter(|e| e.host == host) {
            end.room.add_permits((bytes as usize).min(WINDOW));
        }
    }

    /// The other host will send nothing more.
    pub(crate) fn ended(&self, host: HostId, id: u64) {
        if let Some(end) = self.ends.borrow_mut().get_mut(&id).filter(|e| e.host == host) {
            end.incoming = None;
        }
    }

    /// The trunk to a host is down: its streams are over.
    pub(crate) fn host_lost(&self, host: HostId) {
        self.ends.borrow_mut().retain(|_, end| {
            let keep = end.host != host;
            if !keep {
                end.room.close();
            }
            keep
        });
    }

    /// Forgets a stream.
    pub(crate) fn close(&self, id: u64) {
        if let Some(end) = self.ends.borrow_mut().remove(&id) {
            end.room.close();
        }
    }

    /// Sends bytes as the other host takes them; false if the stream is over.
    pub(crate) async fn send(&self, messages: &HostMessages, id: u64, bytes: &[u8]) -> bool {
        for piece in bytes.chunks(PIECE) {
            let Some((host, room)) = self.ends.borrow().get(&id).map(|e| (e.host, e.room.clone())) else {
                return false;
            };
            match room.acquire_many(piece.len() as u32).await {
                Ok(permit) => permit.forget(),
                Err(_) => return false,
            }
            messages.stream(host, id, piece);
        }
        true
    }

    /// Sends what `from` yields until it ends or the stream does.
    pub(crate) async fn send_all(&self, messages: &HostMessages, id: u64, mut from: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; PIECE];
        loop {
            let Some(host) = self.ends.borrow().get(&id).map(|e| e.host) else { return };
            let n = match from.read(&mut buffer).await {
                Ok(n @ 1..) => n,
                _ => {
                    messages.tell(&[host], &Tell::StreamEnd(id));
                    return;
                }
            };
            if !self.send(messages, id, &buffer[..n]).await {
                return;
            }
        }
    }
}
