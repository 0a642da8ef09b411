//! Fault commands: what `angara fault` and `--fault` ask for, done here or on every host of the cluster.

use crate::ask::{ask, dead};
use crate::daemon::Daemon;
use crate::failure::failure;
use crate::faults::ledger::{By, sets};
use crate::hosts::protocol::{Answer, Ask};
use angara_net::fault::{Action, BookError, Clear, Command, Target, TrunkChange};
use angara_net::torus::Shape;
use angara_plane::Command as Plane;
use angara_plane::Dead;
use angara_protocol::msg::Failure;
use std::rc::Rc;

/// A command that makes no sense after the faults in force, as an answer to whoever gave it.
pub(crate) fn out_of_order(error: BookError, text: &str, shape: &Shape) -> Failure {
    match error {
        BookError::Later(_) => {
            failure(format!("fault `{text}`: hosts agree on a fault when its time has come"), "leave the time out")
        }
        BookError::Nothing(site) => failure(
            format!("no fault is set on {}", site.show(shape)),
            "see `angara fault list` for the faults in force",
        ),
    }
}

impl Daemon {
    /// Does what a text asks for that somebody has written in a browser.
    pub(crate) async fn set_fault(self: &Rc<Self>, text: &str) -> Result<(), Failure> {
        let read = Command::parse(text, &self.options.shape);
        self.do_fault(By::Page, read.map_err(|mistake| failure(mistake.brief(), mistake.remedy()))?).await
    }

    /// Does what a fault command asks for, and notes who has asked.
    pub(crate) async fn do_fault(self: &Rc<Self>, by: By, command: Command) -> Result<(), Failure> {
        let wrong = |why| failure(format!("fault `{}`: {why}", command.text), "see `angara fault --help`");
        command.check(&self.options.shape).map_err(wrong)?;
        let faults = sets(&command, &self.options.shape);
        self.ledger.say(by, faults.clone());
        if self.has_page() {
            // What links have suffered so far is not the doing of this fault.
            let _ = self.look().await;
        }
        let done = self.carry_out(command).await;
        if done.is_err() {
            self.ledger.unsay(&faults);
        }
        done
    }

    async fn carry_out(self: &Rc<Self>, command: Command) -> Result<(), Failure> {
        match &command.target {
            Target::Trunk { host, change } => self.impair(host.as_deref(), *change, &command.text).await,
            Target::Network(_) if self.cluster.messages.is_some() => self.set_fault_everywhere(command).await,
            Target::Network(actions) => {
                for action in actions.iter().copied() {
                    plane_says(match action {
                        Action::Set(fault) => ask(&self.data, |reply| Plane::SetFault(fault, reply)).await,
                        Action::Clear(what) => ask(&self.data, |reply| Plane::ClearFault(what, reply)).await,
                    })?;
                }
                Ok(())
            }
        }
    }

    async fn set_fault_everywhere(self: &Rc<Self>, command: Command) -> Result<(), Failure> {
        let Target::Network(actions) = &command.target else { return Ok(()) };
        // One command has one time: it comes later as a whole or not at all.
        if actions.iter().all(|a| matches!(a, Action::Set(fault) if fault.at.is_some())) {
            for action in actions {
                if let Action::Set(fault) = *action {
                    plane_says(ask(&self.data, |reply| Plane::SetFault(fault, reply)).await)?;
                }
            }
            return Ok(());
        }
        // What cannot be done on some hosts is said after all else is done.
        let trunks = match actions[..] == [Action::Clear(Clear::All)] {
            true => {
                let whole = TrunkChange { cut: Some(false), what: Some(Default::default()) };
                self.impair(None, whole, &command.text).await
            }
            false => Ok(()),
        };
        let clears: Vec<Clear> =
            actions.iter().filter_map(|a| if let Action::Clear(c) = a { Some(*c) } else { None }).collect();
        let (forgot, told) = match clears.is_empty() {
            false => self.forget_everywhere(&clears, &command.text).await?,
            true => (false, Ok(())),
        };
        let nothing_else = clears.len() == actions.len() && self.makes_sense(&command).is_err();
        let changed = if forgot && nothing_else { Ok(()) } else { self.change_faults(&command, None).await };
        trunks.and(changed).and(told)
    }

    /// Takes back what is to end and whose time has not come, on all hosts in reach: whether there was anything, and
    /// which hosts did not answer.
    async fn forget_everywhere(&self, clears: &[Clear], text: &str) -> Result<(bool, Result<(), Failure>), Failure> {
        let mut forgot = self.forget_coming(clears).await?;
        let Some(messages) = &self.cluster.messages else { return Ok((forgot, Ok(()))) };
        let mut told = Ok(());
        for host in messages.group().into_keys().filter(|host| *host != messages.me) {
            match messages.ask(host, Ask::Forget(clears.to_vec())).await {
                Ok(answer) => forgot |= matches!(answer, Answer::Forgot(true)),
                Err(f) => {
                    let what = format!("fault `{text}`: faults that wait for their time there may stay: {}", f.message);
                    told = Err(failure(what, f.remedy));
                }
            }
        }
        Ok((forgot, told))
    }

    /// Takes back what is to end and whose time has not come, on this host: whether there was anything.
    pub(crate) async fn forget_coming(&self, clears: &[Clear]) -> Result<bool, Failure> {
        let mut forgot = false;
        for what in clears.iter().copied() {
            forgot |= ask(&self.data, |reply| Plane::ForgetFaults(what, reply)).await.map_err(dead)?;
        }
        Ok(forgot)
    }
}

fn plane_says(answer: Result<Result<(), String>, Dead>) -> Result<(), Failure> {
    match answer {
        Ok(Ok(())) => Ok(()),
        Ok(Err(why)) => Err(failure(why, "see `angara status` for the faults in force")),
        Err(gone) => Err(dead(gone)),
    }
}
