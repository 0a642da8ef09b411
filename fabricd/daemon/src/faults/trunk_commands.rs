//! Fault commands for trunks, done here and by other hosts.

use super::trunk::TrunkRequest;
use crate::ask::{ask, dead};
use crate::daemon::Daemon;
use crate::failure::failure;
use crate::hosts::protocol::Ask;
use angara_net::HostId;
use angara_net::fault::{TrunkChange, near};
use angara_plane::Command;
use angara_protocol::msg::Failure;
use std::rc::Rc;
use std::time::Duration;

/// How long a host waits before it cuts its trunks on behalf of another one, whose question to a third may have to
/// pass through it.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// How long a host may take to be reached again when trunks are restored.
const RETURN: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(20);

/// A host that is no other one of the cluster of host `here`, with what was probably meant.
fn no_other<'n>(name: &str, here: &str, hosts: impl Iterator<Item = &'n str>) -> Failure {
    let known: Vec<&str> = hosts.filter(|host| *host != here).chain(["all"]).collect();
    let meant = near(name, &known).filter(|_| name != here);
    failure(
        format!("`{name}` is no other host of the cluster"),
        meant.map_or_else(|| "see `angara cluster status`".into(), |meant| format!("did you mean `trunk {meant}`?")),
    )
}

impl Daemon {
    /// Makes trunks bad or good again.
    ///
    /// What takes its time, because other hosts do not answer, leaves alone what has been restored meanwhile.
    ///
    /// What befalls datagrams is done in their sender, so both ends of a trunk are told. A cut is made at one end, in
    /// both directions: that of the host that was asked, which can therefore restore it. The trunks of others are
    /// cut at both their ends.
    pub(crate) async fn impair(
        self: &Rc<Self>,
        host: Option<&str>,
        change: TrunkChange,
        text: &str,
    ) -> Result<(), Failure> {
        let Some(messages) = &self.cluster.messages else {
            return Err(failure("this daemon has no trunks", "start it with --cluster FILE --host NAME"));
        };
        let host = match host {
            None => None,
            Some(name) => {
                let names = messages.member.cluster.hosts.iter().map(|host| &host.name[..]);
                let named = messages.index(name).filter(|h| *h != messages.me);
                Some(named.ok_or_else(|| no_other(name, messages.name(messages.me), names))?)
            }
        };
        let everyone: Vec<HostId> = messages.member.cluster.ids().filter(|h| *h != messages.me).collect();
        let concerned = host.map_or_else(|| everyone.clone(), |host| vec![host]);
        let mut request = TrunkRequest { to: None, except: None, change };
        let cut = change.cut == Some(true);
        let asked = match host {
            Some(host) => {
                request.to = Some(messages.me);
                request.change.cut = change.cut.filter(|cut| !cut);
                if change.what.is_some() || !cut { vec![host] } else { Vec::new() }
            }
            None => {
                request.except = cut.then_some(messages.me);
                everyone
            }
        };
        // What makes trunks worse is said first: after that it may be hard to be heard.
        let better = change.cut == Some(false);
        let order = self.cluster.trunk_orders.give(&concerned, change);
        if better {
            self.impair_here(host, None, change).await?;
        }
        let undone = |host: &HostId| self.cluster.trunk_orders.undone(*host, order, change);
        let mut missed = Vec::new();
        let until = tokio::time::Instant::now() + RETURN;
        'asking: for other in asked {
            let told = loop {
                if concerned.iter().all(undone) {
                    break 'asking;
                }
                let told = messages.ask(other, Ask::Impair(request)).await;
                if told.is_ok() || !better || tokio::time::Instant::now() >= until {
                    break told;
                }
                // It may have to be reached again first. When it has just come back it may still have to say that it had
                // lost touch: that ends what it was asked.
                tokio::time::sleep(LOOK).await;
            };
            if let Err(f) = told {
                tracing::warn!(host = messages.name(other), why = f.message, "trunks not changed there");
                missed.push(messages.name(other));
            }
        }
        for host in concerned.iter().filter(|_| !better) {
            if !undone(host) {
                self.impair_here(Some(*host), None, change).await?;
            }
        }
        match missed.is_empty() {
            true => Ok(()),
            false => Err(failure(
                format!("fault `{text}`: done here, but {} could not be told", missed.join(", ")),
                "see `angara cluster status`; say it there, too, when they can be reached",
            )),
        }
    }

    /// Does to the trunks of this host what another one asks for.
    pub(crate) async fn impair_for_host(self: &Rc<Self>, request: TrunkRequest) -> Result<(), Failure> {
        if request.change.cut != Some(true) {
            return self.impair_here(request.to, request.except, request.change).await;
        }
        self.cluster.cuts.borrow_mut().push(request);
        let daemon = self.clone();
        tokio::task::spawn_local(async move {
            tokio::time::sleep(LAST_WORDS).await;
            if let Err(f) = daemon.make_cuts().await {
                tracing::warn!(why = f.message, "trunks not cut");
            }
        });
        Ok(())
    }

    /// Makes the cuts that wait for their moment.
    async fn make_cuts(&self) -> Result<(), Failure> {
        let cuts = self.cluster.cuts.take();
        if cuts.is_empty() {
            return Ok(());
        }
        tracing::info!(?cuts, "trunks impaired");
        let changes = cuts.into_iter().map(|cut| (cut.to, cut.except, cut.change)).collect();
        ask(&self.data, |reply| Command::ImpairTrunks(changes, reply)).await.map_err(dead)
    }

    async fn impair_here(
        &self,
        host: Option<HostId>,
        except: Option<HostId>,
        change: TrunkChange,
    ) -> Result<(), Failure> {
        // What was asked for earlier must not undo this.
        self.make_cuts().await?;
        tracing::info!(host = host.map(HostId::number), ?change, "trunks impaired");
        let changes = vec![(host, except, change)];
        ask(&self.data, |reply| Command::ImpairTrunks(changes, reply)).await.map_err(dead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_host_is_answered_with_the_one_that_was_meant() {
        let remedy = |name| no_other(name, "node1", ["node1", "node2", "east"].into_iter()).remedy;
        for (name, meant) in [("nod2", "node2"), ("al", "all"), ("esat", "east"), ("node3", "node2")] {
            assert_eq!(remedy(name), format!("did you mean `trunk {meant}`?"), "{name}");
        }
        // The host itself has not been mistyped.
        for name in ["node1", "elsewhere"] {
            assert_eq!(remedy(name), "see `angara cluster status`", "{name}");
        }
    }
}
