//! Streams of events: what has changed since the reader's last one.
//!
//! Nothing is queued. There is one latest sample, and whoever is ready for another event is told how it differs from the last
//! one it got: a slow reader is told less often. One that takes nothing for long is not served any more.

use super::answers::Delta;
use super::listen::Line;
use crate::daemon::Daemon;
use crate::watch::PAUSE;
use crate::watch::sample::Sample;
use angara_net::torus::Shape;
use axum::body::Bytes;
use hyper::body::{Body, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::timeout;

/// Streams at once.
const STREAMS: usize = 16;
/// Whoever takes no event for so long is not served any more.
const SLOW: Duration = Duration::from_secs(30);
/// A reader is told that there is nothing new so often.
const SILENCE: Duration = Duration::from_secs(1);

/// Where streams get samples.
pub(crate) struct Feed {
    samples: watch::Sender<Option<Arc<Sample>>>,
    wanted: Notify,
    room: Arc<Semaphore>,
}

impl Default for Feed {
    fn default() -> Feed {
        Feed { samples: watch::channel(None).0, wanted: Notify::new(), room: Arc::new(Semaphore::new(STREAMS)) }
    }
}

/// Takes samples while there are streams.
pub(crate) async fn produce(daemon: Rc<Daemon>, feed: Arc<Feed>) {
    loop {
        feed.wanted.notified().await;
        while !feed.samples.is_closed() {
            daemon.ask_far();
            // Fails only while the daemon ends.
            let Ok(sample) = daemon.look().await else { return };
            feed.samples.send_replace(Some(sample));
            // The past may be sampled more often.
            tokio::time::sleep(PAUSE).await;
            daemon.look_again().await;
        }
    }
}

impl Feed {
    /// A stream of events for this connection; `None` if there are as many as may be.
    pub(crate) fn open(&self, shape: Shape, line: Arc<Line>) -> Option<Events> {
        let place = self.room.clone().try_acquire_owned().ok()?;
        let (to, events) = mpsc::channel(1);
        let samples = self.samples.subscribe();
        self.wanted.notify_one();
        line.last();
        tokio::task::spawn(tell(samples, to, shape, line));
        Some(Events { events, _place: place })
    }
}

/// Tells one reader, until it has gone or does not read.
async fn tell(
    mut samples: watch::Receiver<Option<Arc<Sample>>>,
    to: mpsc::Sender<Bytes>,
    shape: Shape,
    line: Arc<Line>,
) {
    let mut last: Option<Arc<Sample>> = None;
    let mut told = tokio::time::Instant::now();
    loop {
        tokio::select! {
            changed = samples.changed() => if changed.is_err() { return },
            () = to.closed() => return,
        }
        // Room first: the sample is the latest when it is sent.
        let Ok(room) = timeout(SLOW, to.reserve()).await else {
            tracing::debug!("a page does not take its events; its connection is closed");
            return line.end();
        };
        let Ok(room) = room else { return };
        let Some(sample) = samples.borrow_and_update().clone() else { continue };
        if last.as_ref().is_some_and(|last| Arc::ptr_eq(last, &sample)) {
            continue;
        }
        let delta = Delta { last: last.as_deref(), now: &sample, shape };
        if delta.is_nothing() && told.elapsed() < SILENCE {
            continue;
        }
        room.send(Bytes::from(format!("data: {}\n\n", delta.json())));
        (last, told) = (Some(sample), tokio::time::Instant::now());
    }
}

/// The body of such an answer.
pub(crate) struct Events {
    events: mpsc::Receiver<Bytes>,
    _place: OwnedSemaphorePermit,
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let event = ready!(self.events.poll_recv(cx));
        Poll::Ready(event.map(|bytes| Ok(Frame::data(bytes))))
    }
}
