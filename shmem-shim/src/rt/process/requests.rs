//! Operations on trees that a PE has started and not waited for yet.

use crate::ctypes::long;
use crate::rt::mutex::lock;
use angara::tree::{Arrival, PendingRaw};
use std::sync::Mutex;

/// An operation under way.
pub(crate) enum Request {
    /// A reduction, and the bytes of its result.
    Reduce(PendingRaw<'static>, usize),
    Broadcast(Arrival<'static>),
}

/// Requests of a PE; a handle is the index plus one.
pub(crate) struct Requests(Mutex<Vec<Option<Request>>>);

fn index(handle: long) -> Option<usize> {
    usize::try_from(handle - 1).ok()
}

impl Requests {
    pub(super) const fn new() -> Requests {
        Requests(Mutex::new(Vec::new()))
    }

    /// Holds `request` until it is waited for; returns its handle.
    pub(crate) fn hold(&self, request: Request) -> long {
        let mut requests = lock(&self.0);
        let index = requests.iter().position(Option::is_none).unwrap_or(requests.len());
        if index == requests.len() {
            requests.push(None);
        }
        requests[index] = Some(request);
        index as long + 1
    }

    /// Returns whether waiting for a request would not wait, if it is under way.
    pub(crate) fn test(&self, handle: long) -> Option<bool> {
        match lock(&self.0).get(index(handle)?)?.as_ref()? {
            Request::Reduce(pending, _) => Some(pending.test()),
            Request::Broadcast(arrival) => Some(arrival.test()),
        }
    }

    /// Takes a request out, if it is under way.
    pub(crate) fn take(&self, handle: long) -> Option<Request> {
        lock(&self.0).get_mut(index(handle)?)?.take()
    }

    /// Drops all requests.
    pub(super) fn forget(&self) {
        lock(&self.0).clear();
    }
}
