//! Fault commands: what `angara fault` and `--fault` ask for, done here or on every host of the cluster.

use crate::daemon::Daemon;
use crate::dataplane::Dead;
use crate::fault::{self, Action, ClearSpec};
use crate::impair;
use crate::placement::failure;
use abi::msg::Failure;
use std::rc::Rc;

impl Daemon {
    /// Does what a fault command asks for.
    pub(crate) async fn set_fault(self: &Rc<Self>, text: &str) -> Result<(), Failure> {
        if impair::concerns(text) {
            return self.impair(text).await;
        }
        let actions = fault::parse(text, self.options.shape).map_err(fault::refused)?;
        if self.span.is_some() {
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
        if actions == [Action::Clear(ClearSpec::All)] {
            self.impair("trunk all clear").await?;
        }
        let mut forgot = false;
        // One text has one time: it comes later as a whole or not at all.
        let later = actions.iter().all(|a| matches!(a, Action::Set(fault) if fault.after.is_some()));
        for action in actions {
            match action {
                Action::Set(fault) if later => engine_says(self.data.call(|engine| engine.set_fault(fault)).await)?,
                Action::Set(_) => {}
                Action::Clear(what) => forgot |= self.data.call(move |engine| engine.forget_coming(what)).await?,
            }
        }
        let nothing_else = || self.makes_sense(text).is_err();
        if later || forgot && nothing_else() {
            return Ok(());
        }
        self.change_faults(text, None).await
    }

    /// Clears what a text without effect names.
    pub(crate) async fn clear_fault(self: &Rc<Self>, text: &str) -> Result<(), Failure> {
        if impair::concerns(text) {
            let words: Vec<&str> = text.split_whitespace().take(2).collect();
            return self.impair(&format!("{} clear", words.join(" "))).await;
        }
        let what = ClearSpec::parse(text, self.options.shape).map_err(fault::refused)?;
        match what.site() {
            _ if self.span.is_none() => engine_says(self.data.call(move |engine| engine.clear_fault(what)).await),
            None => self.set_fault("all clear").await,
            Some(fault::Site::Everywhere) => {
                self.set_fault("corrupt=0% drop=0% dup=0% reorder=0% delay=0ns rate=0").await
            }
            Some(site) => self.set_fault(&format!("{} clear", fault::show_site(site, self.options.shape))).await,
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
