//! Faults of links and nodes on all hosts of a cluster, in one order.
//!
//! Every host computes the routes of the whole network by itself, and barriers count route changes, so all
//! hosts must make the same changes in the same order. The first host of the cluster file that answers
//! decides the order: it makes a change and has each of the others make it before it takes the next one.
//! A host that starts anew is given the state before it takes part in jobs. Who has left a barrier that others are
//! still in is known only within one host, so no change is made while a job runs; if a link fails by itself, its
//! jobs end.

use crate::daemon::Daemon;
use crate::dataplane::Dead;
use crate::fault::{self, Action, ClearSpec, FaultSpec};
use crate::impair;
use crate::placement::failure;
use crate::span::Ask;
use abi::msg::Failure;
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// A change of the faults in force, as text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Change {
    /// As [`FaultSpec::parse`] reads it, without a delay.
    Set(String),
    /// As [`ClearSpec::parse`] reads it.
    Clear(String),
    /// The links of host (number) took this one out of service; only the others have still to.
    GaveUp(u16, String),
}

impl Daemon {
    /// Does what a fault command asks for; in a cluster on every host.
    pub(crate) async fn set_fault(self: &Rc<Self>, text: &str) -> Result<(), Failure> {
        if impair::concerns(text) {
            return self.impair(text).await;
        }
        for action in fault::parse(text, self.options.shape).map_err(bad_fault)? {
            match action {
                Action::Clear(what) => self.clear(what, text).await?,
                Action::Set(fault) if self.span.is_none() => {
                    engine_says(self.data.call(move |engine| engine.set_fault(fault)).await)?
                }
                Action::Set(fault) if fault.after.is_some() => {
                    return Err(failure(
                        format!("fault `{text}`: in a cluster, faults begin at once"),
                        "leave the delay out",
                    ));
                }
                Action::Set(fault) => self.change_faults(Change::Set(fault.to_string())).await?,
            }
        }
        Ok(())
    }

    /// Clears faults; in a cluster on every host.
    pub(crate) async fn clear_fault(self: &Rc<Self>, text: &str) -> Result<(), Failure> {
        if impair::concerns(text) {
            let words: Vec<&str> = text.split_whitespace().take(2).collect();
            return self.impair(&format!("{} clear", words.join(" "))).await;
        }
        let what = ClearSpec::parse(text, self.options.shape).map_err(bad_fault)?;
        self.clear(what, text).await
    }

    async fn clear(self: &Rc<Self>, what: ClearSpec, text: &str) -> Result<(), Failure> {
        if self.span.is_none() {
            return engine_says(self.data.call(move |engine| engine.clear_fault(what)).await);
        }
        if what == ClearSpec::All {
            self.impair("trunk all clear").await?;
        }
        self.change_faults(Change::Clear(text.into())).await
    }

    /// Has the host that decides the order make a change everywhere.
    pub(crate) async fn change_faults(&self, change: Change) -> Result<(), Failure> {
        let Some(span) = &self.span else { return Ok(()) };
        match span.others_up().into_iter().min().filter(|first| *first < span.me) {
            Some(first) => span.ask(first, Ask::Lead(change)).await.map(drop),
            None => self.lead(change).await,
        }
    }

    /// Makes a change here and then on every other host.
    pub(crate) async fn lead(&self, change: Change) -> Result<(), Failure> {
        let Some(span) = &self.span else { return Ok(()) };
        let _turn = self.turn.lock().await;
        let idle = self.jobs.borrow().is_empty() && self.reservations.borrow().is_empty();
        if !idle && !matches!(change, Change::GaveUp(..)) {
            return Err(failure(
                "jobs are running: in a cluster, faults of links and nodes change between jobs only",
                "wait for them to end (`angara status`); faults of trunks may be set at any time",
            ));
        }
        let made = u64::from(matches!(change, Change::GaveUp(from, _) if from == span.me));
        let before = self.epoch_now().await? - made;
        self.make_change(change.clone()).await?;
        for host in span.others_up() {
            let made = span.ask(host, Ask::Change(before, change.clone())).await;
            if let Err(f) = made {
                tracing::warn!(
                    host = span.name(host),
                    why = f.message,
                    "a host did not follow a fault; giving it the state"
                );
                self.introduce(host).await;
            }
        }
        Ok(())
    }

    /// Follows the host that decides.
    pub(crate) async fn follow(&self, before: u64, change: Change) -> Result<(), Failure> {
        let me = self.span.as_ref().map_or(0, |s| s.me);
        if matches!(change, Change::GaveUp(from, _) if from == me) {
            return Ok(());
        }
        match self.epoch_now().await? {
            mine if mine == before => self.make_change(change).await,
            mine => Err(failure(format!("route change {mine} is not {before}"), "see the log")),
        }
    }

    async fn make_change(&self, change: Change) -> Result<(), Failure> {
        let shape = self.options.shape;
        let me = self.span.as_ref().map_or(0, |s| s.me);
        match change {
            Change::GaveUp(from, _) if from == me => Ok(()),
            Change::Set(text) | Change::GaveUp(_, text) => {
                let fault = FaultSpec::parse(&text, shape).map_err(bad_fault)?;
                engine_says(self.data.call(move |engine| engine.set_fault(fault)).await)
            }
            Change::Clear(text) => {
                let what = ClearSpec::parse(&text, shape).map_err(bad_fault)?;
                engine_says(self.data.call(move |engine| engine.clear_fault(what)).await)
            }
        }
    }

    async fn epoch_now(&self) -> Result<u64, Failure> {
        self.data.call(|engine| engine.route_epoch()).await.map_err(dead)
    }

    /// Gives a host the state of faults, if this is the host that decides.
    pub(crate) async fn introduce(&self, host: u16) {
        let Some(span) = &self.span else { return };
        if span.others_up().into_iter().any(|other| other < span.me) {
            return;
        }
        let state = self.data.call(|engine| (engine.route_epoch(), engine.faults_in_force())).await;
        let Ok((epoch, faults)) = state else { return };
        if let Err(f) = span.ask(host, Ask::Adopt(epoch, faults)).await {
            tracing::warn!(host = span.name(host), why = f.message, "a host did not take over the faults in force");
        }
    }

    /// Takes over the faults and the number of route changes of the others.
    pub(crate) async fn adopt(&self, epoch: u64, faults: Vec<String>) -> Result<(), Failure> {
        let shape = self.options.shape;
        let faults = faults.iter().map(|text| FaultSpec::parse(text, shape).map_err(bad_fault));
        let faults: Vec<FaultSpec> = faults.collect::<Result<_, _>>()?;
        engine_says(self.data.call(move |engine| engine.adopt(epoch, faults)).await)
    }
}

pub(crate) fn dead(e: Dead) -> Failure {
    failure(e.to_string(), "restart the daemon")
}

fn engine_says(r: Result<Result<(), String>, Dead>) -> Result<(), Failure> {
    match r {
        Ok(Ok(())) => Ok(()),
        Ok(Err(why)) => Err(failure(why, "see `angara status` for the faults in force")),
        Err(e) => Err(dead(e)),
    }
}

fn bad_fault(e: crate::fault::FaultError) -> Failure {
    failure(e.brief(), format!("write {}", crate::fault::FORMS))
}
