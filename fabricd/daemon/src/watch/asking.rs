//! Asking the other hosts for figures of their links, and answering them.

use super::PAUSE;
use super::far::{Asked, FORGOTTEN, Told};
use crate::daemon::Daemon;
use crate::hosts::protocol::{Answer, Ask};
use angara_net::{HostId, Link};
use std::rc::Rc;
use tokio::time::Instant;

impl Daemon {
    /// Asks other hosts what their links have carried, those whose turn it is. Their answers are in later samples.
    pub(crate) fn ask_far(self: &Rc<Self>) {
        let Some(messages) = &self.cluster.messages else { return };
        for host in messages.group().into_keys().filter(|host| *host != messages.me) {
            let since = {
                let mut asked = self.watcher.far.asked.borrow_mut();
                let asked = asked.entry(host).or_default();
                if asked.until.is_some_and(|until| Instant::now() < until) {
                    continue;
                }
                // Not again before its answer, which comes or fails within a while.
                asked.until = Some(Instant::now() + FORGOTTEN);
                asked.answer
            };
            let daemon = self.clone();
            tokio::task::spawn_local(async move { daemon.hear_far(host, since).await });
        }
    }

    async fn hear_far(&self, host: HostId, since: u64) {
        let Some(messages) = &self.cluster.messages else { return };
        let answer = match messages.ask(host, Ask::Links(since)).await {
            Ok(Answer::Links(answer, rows)) => {
                let owner =
                    |link: u32| messages.owners.get(Link::from_index(link as usize).node as usize) == Some(&host);
                self.watcher.far.take(&rows, since == 0 || answer != since + 1, owner);
                answer
            }
            // From the beginning, next time.
            _ => 0,
        };
        let mut asked = self.watcher.far.asked.borrow_mut();
        asked.insert(host, Asked { answer, until: Some(Instant::now() + PAUSE) });
    }

    /// Returns what links of this host have carried since another one was told for the last time, if that was answer
    /// `since`; else everything, in answers numbered from 1 on.
    pub(crate) async fn tell_far(&self, host: HostId, since: u64) -> Option<Answer> {
        let sample = self.look().await.ok()?;
        let mut all = self.watcher.far.told.borrow_mut();
        all.retain(|_, told| told.at.elapsed() < FORGOTTEN);
        let told = all.entry(host).or_insert_with(Told::new);
        if told.answer != since {
            *told = Told::new();
        }
        (told.answer, told.at) = (told.answer + 1, Instant::now());
        let rows = told.news(&sample);
        Some(Answer::Links(told.answer, rows))
    }
}
