//! Byte streams between hosts, beside the daemons' messages: what a launcher and its other half on
//! another host say to each other, and captured packets.
//!
//! A stream has two ends, each with a reader (what it reads goes to the other host) and a writer. At most
//! [`WINDOW`] bytes are under way in each direction, so a side that does not read holds up nobody but
//! the other side of the same stream. A host that sends more than this side has taken loses its stream.

use super::messages::HostMessages;
use super::protocol::Tell;
use angara_net::HostId;
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
    /// Bytes that have come and are not taken.
    kept: usize,
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
        let end = End { host, incoming: Some(tx), kept: 0, room: Rc::new(Semaphore::new(WINDOW)) };
        self.ends.borrow_mut().insert(id, end);
        rx
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.ends.borrow().len()
    }

    /// Bytes came from another host. False if they are more than it may send: then nothing more of this stream is taken.
    pub(crate) fn data(&self, host: HostId, id: u64, data: Vec<u8>) -> bool {
        let mut ends = self.ends.borrow_mut();
        let Some(end) = ends.get_mut(&id).filter(|e| e.host == host) else { return true };
        let Some(incoming) = &end.incoming else { return true };
        if data.len() > WINDOW - end.kept {
            end.incoming = None;
            return false;
        }
        end.kept += data.len();
        // The reader may have gone.
        let _ = incoming.send(data);
        true
    }

    /// This side has taken N bytes: the other one may send as many again.
    pub(crate) fn take(&self, messages: &HostMessages, id: u64, bytes: usize) {
        let host = self.ends.borrow_mut().get_mut(&id).map(|end| {
            end.kept = end.kept.saturating_sub(bytes);
            end.host
        });
        if let Some(host) = host {
            messages.tell(&[host], &Tell::StreamTaken(id, bytes as u32));
        }
    }

    /// The other host has taken N bytes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_sends_more_than_is_taken_loses_its_stream() {
        let (streams, host) = (Streams::default(), HostId::new(1));
        let mut reader = streams.open(7, host);
        let piece = vec![1; WINDOW / 4];
        assert!((0..4).all(|_| streams.data(host, 7, piece.clone())), "the window is its own");
        assert!(!streams.data(host, 7, vec![2]), "one byte more is kept");
        let mut kept = 0;
        while let Ok(bytes) = reader.try_recv() {
            assert!(bytes.iter().all(|b| *b == 1));
            kept += bytes.len();
        }
        assert_eq!(kept, WINDOW);
        assert!(reader.is_closed(), "the reader waits for more");
        // What it goes on with is nobody's.
        assert!(streams.data(host, 7, vec![3; 2 * WINDOW]));
        assert!(reader.try_recv().is_err());
        // A single message may be longer than any window.
        let mut other = streams.open(8, host);
        assert!(!streams.data(host, 8, vec![4; WINDOW + 1]) && other.try_recv().is_err());
    }
}
