//! Fault commands: what `angara fault` and `--fault` ask for, done here or on every host of the cluster.

use super::fault::{self, Action, ClearSpec};
use crate::daemon::Daemon;
use crate::dataplane::Dead;
use crate::failure::failure;
use crate::hosts::protocol::{Answer, Ask};
use angara_abi::fault::{is_trunk, place_of};
use angara_abi::msg::Failure;
use std::rc::Rc;

impl Daemon {
    /// Does what a fault command asks for.
    pub(crate) async fn set_fault(self: &Rc<Self>, text: &str) -> Result<(), Failure> {
        if is_trunk(text) {
            return self.impair(text).await;
        }
        let actions = fault::parse(text, self.options.shape).map_err(fault::refused)?;
        if self.messages.is_some() {
            return self.set_fault_everywhere(text, actions).await;
        }
        for action in actions {
            let done = self.data.call(move |engine| match action {
                Action::Set(fault) => engine.set_fault(fault),
                Action::Clear(what) => engine.clear_fault(what),
            });
            engine_says(done.await)?;
        }
        Ok(())
    }

    async fn set_fault_everywhere(self: &Rc<Self>, text: &str, actions: Vec<Action>) -> Result<(), Failure> {
        // One text has one time: it comes later as a whole or not at all.
        if actions.iter().all(|a| matches!(a, Action::Set(fault) if fault.after.is_some())) {
            for action in actions {
                if let Action::Set(fault) = action {
                    engine_says(self.data.call(|engine| engine.set_fault(fault)).await)?;
                }
            }
            return Ok(());
        }
        // What cannot be done on some hosts is said after all else is done.
        let trunks = match actions == [Action::Clear(ClearSpec::All)] {
            true => self.impair("trunk all clear").await,
            false => Ok(()),
        };
        let clears = |a: &Action| matches!(a, Action::Clear(_));
        let (forgot, told) = match actions.iter().any(clears) {
            true => self.forget_everywhere(text).await?,
            false => (false, Ok(())),
        };
        let nothing_else = || actions.iter().all(clears) && self.makes_sense(text).is_err();
        let changed = if forgot && nothing_else() { Ok(()) } else { self.change_faults(text, None).await };
        trunks.and(changed).and(told)
    }

    /// Takes back what a command ends and whose time has not come, on all hosts in reach: whether there was anything, and
    /// which hosts did not answer.
    async fn forget_everywhere(&self, text: &str) -> Result<(bool, Result<(), Failure>), Failure> {
        let mut forgot = self.forget_coming(text).await?;
        let Some(messages) = &self.messages else { return Ok((forgot, Ok(()))) };
        let mut told = Ok(());
        for host in messages.group().into_keys().filter(|host| *host != messages.me) {
            match messages.ask(host, Ask::Forget(text.into())).await {
                Ok(answer) => forgot |= matches!(answer, Answer::Forgot(true)),
                Err(f) => {
                    let what = format!("fault `{text}`: faults that wait for their time there may stay: {}", f.message);
                    told = Err(failure(what, f.remedy));
                }
            }
        }
        Ok((forgot, told))
    }

    /// Takes back what a command ends and whose time has not come, on this host: whether there was anything.
    pub(crate) async fn forget_coming(&self, text: &str) -> Result<bool, Failure> {
        let mut forgot = false;
        for action in fault::parse(text, self.options.shape).map_err(fault::refused)? {
            if let Action::Clear(what) = action {
                forgot |= self.data.call(move |engine| engine.forget_coming(what)).await?;
            }
        }
        Ok(forgot)
    }

    /// Clears what a text without effect names.
    pub(crate) async fn clear_fault(self: &Rc<Self>, text: &str) -> Result<(), Failure> {
        if is_trunk(text) {
            return self.impair(&format!("{} clear", place_of(text))).await;
        }
        let what = ClearSpec::parse(text, self.options.shape).map_err(fault::refused)?;
        match what.site() {
            _ if self.messages.is_none() => engine_says(self.data.call(move |engine| engine.clear_fault(what)).await),
            None => self.set_fault("all clear").await,
            Some(site) => self.set_fault(&format!("{} clear", site.show(&self.options.shape))).await,
        }
    }
}

fn engine_says(r: Result<Result<(), String>, Dead>) -> Result<(), Failure> {
    match r {
        Ok(Ok(())) => Ok(()),
        Ok(Err(why)) => Err(failure(why, "see `angara status` for the faults in force")),
        Err(dead) => Err(dead.into()),
    }
}
