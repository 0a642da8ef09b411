//! Channels: typed messages to any PE, from all PEs.

use super::post::{Post, StreamId, Tag};
use super::symmetric::Symmetric;
use crate::error::{Error, Result};
use bytemuck::Pod;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// This PE's end of a channel on which every PE sends values of `T` to any PE, and receives those for it.
///
/// Values of one sender arrive in the order in which they were sent. A sender waits while the receiver has no room for more; a
/// receiver that waits for something else of this world makes room.
pub struct Channel<'w, T> {
    symmetric: Arc<Symmetric>,
    post: Rc<RefCell<Post>>,
    stream: StreamId,
    world: PhantomData<&'w T>,
}

/// Name of channel number `count`.
pub(super) fn name(count: u64) -> StreamId {
    count << 1 | 1
}

impl<T: Pod> Channel<'_, T> {
    pub(super) fn new(symmetric: &Arc<Symmetric>, post: &Rc<RefCell<Post>>, stream: StreamId) -> Self {
        Channel { symmetric: symmetric.clone(), post: post.clone(), stream, world: PhantomData }
    }

    /// Sends a value to a PE, which may be this one.
    pub fn send(&self, pe: usize, value: T) -> Result<()> {
        self.symmetric.called("send")?;
        self.post.borrow_mut().send(self.stream, pe, Tag::default(), bytemuck::bytes_of(&value))
    }

    /// The next value for this PE, and who has sent it; waits for one.
    pub fn receive(&self) -> Result<(usize, T)> {
        self.symmetric.called("receive")?;
        let (from, bytes) = self.post.borrow_mut().take(self.stream)?;
        value(from, &bytes)
    }

    /// The next value for this PE, and who has sent it, if one has come.
    pub fn try_receive(&self) -> Result<Option<(usize, T)>> {
        self.symmetric.called("try_receive")?;
        self.post.borrow_mut().try_take(self.stream)?.map(|(from, bytes)| value(from, &bytes)).transpose()
    }
}

fn value<T: Pod>(from: usize, bytes: &[u8]) -> Result<(usize, T)> {
    match bytemuck::try_pod_read_unaligned(bytes) {
        Ok(value) => Ok((from, value)),
        Err(_) => {
            let (len, size) = (bytes.len(), size_of::<T>());
            Err(Error::invalid(format!("channel: PE {from} has sent {len} bytes where values have {size}")))
        }
    }
}
