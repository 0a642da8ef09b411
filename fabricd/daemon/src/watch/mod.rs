//! Looking on: samples of what the daemon does, taken only while somebody asks for them.
//!
//! Nobody looks, nothing is copied. A daemon with a page has somebody who looks while a job runs, and so has a job whose report is to have a history: the past. Those who look share samples. The next one is taken no sooner than [`PAUSE`] after the
//! last, and so late that the data plane spends no more than a [`SHARE`]th of its time on them.

mod asking;
mod far;
pub(crate) mod options;
pub(crate) mod past;
mod recording;
pub(crate) mod sample;
mod taking;
pub(crate) mod watcher;

pub use options::{LINKS_DEFAULT, LINKS_MAX, Listen, Looks, address};
use sample::Sample;

use crate::daemon::Daemon;
use angara_plane::Dead;
use angara_protocol::msg::LinkLoads;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Least time between two samples.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);
/// The data plane is asked for no more than one part in so many of its time.
const SHARE: u32 = 50;

impl Daemon {
    /// A sample that is as new as may be: taken now, or not long ago.
    pub(crate) async fn look(&self) -> Result<Arc<Sample>, Dead> {
        let _one = self.watcher.taking.lock().await;
        if let Some((sample, _)) = self.watcher.last.borrow().as_ref()
            && Instant::now() < self.watcher.next.get()
        {
            return Ok(sample.clone());
        }
        let sample = Arc::new(self.sample().await?);
        self.watcher.next.set(Instant::now() + self.watcher.pause.get().max(sample.took * SHARE));
        if self.has_page() {
            let before = self.watcher.last.borrow();
            self.ledger.look(before.as_ref().map(|(sample, _)| &**sample), &sample, &self.options.shape);
        }
        if self.remembers() {
            self.watcher.past.borrow_mut().take(&sample);
        }
        self.watcher.last.replace(Some((sample.clone(), Instant::now())));
        Ok(sample)
    }

    /// Returns what links have carried, by such a sample.
    pub(crate) async fn link_loads(&self) -> Result<LinkLoads, Dead> {
        let sample = self.look().await?;
        let carried = (0..).zip(&sample.links).filter(|(_, link)| link.load.flits > 0);
        let next = self.watcher.next.get().saturating_duration_since(Instant::now());
        Ok(LinkLoads {
            at_ns: sample.at_ns,
            next_ns: u64::try_from(next.as_nanos()).unwrap_or(u64::MAX),
            flits: carried.map(|(link, figures)| (link, figures.load.flits)).collect(),
        })
    }

    /// Waits until another sample may be taken.
    pub(crate) async fn look_again(&self) {
        sleep_until(self.watcher.next.get()).await;
    }
}
