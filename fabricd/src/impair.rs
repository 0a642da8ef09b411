//! Bad networks on purpose, as people write them: what befalls the datagrams of trunks.
//!
//! ```text
//! trunk HOST drop=1% dup=0.1% reorder=2% corrupt=0.5% delay=2ms rate=10M seed=7
//! trunk all down              nothing passes any more, in either direction
//! trunk HOST up               it does again; other settings stay
//! trunk HOST clear            as if nothing had ever been set
//! ```

use crate::config::parse_size;
use crate::daemon::Daemon;
use crate::dataplane::Engine;
use crate::fault::{parse_delay, parse_ppm};
use crate::placement::failure;
use crate::span::Ask;
use abi::msg::Failure;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;
use trunk::Impairment;

/// The accepted forms, for messages.
pub(crate) const FORMS: &str =
    "`trunk HOST|all down`, `up`, `clear`, or any of `drop=1% corrupt=1% dup=1% reorder=1% delay=2ms rate=10M seed=1`";

/// What a text asks for.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Command {
    /// Which other host; `None`: all.
    pub(crate) host: Option<String>,
    pub(crate) change: Change,
}

/// What becomes of a trunk.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Change {
    /// It is cut, or no longer.
    pub(crate) cut: Option<bool>,
    /// What befalls its datagrams from now on.
    pub(crate) what: Option<Impairment>,
}

/// What befalls a trunk.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct State {
    pub(crate) cut: bool,
    pub(crate) what: Impairment,
}

impl State {
    pub(crate) fn change(&mut self, change: Change) {
        self.cut = change.cut.unwrap_or(self.cut);
        self.what = change.what.unwrap_or(self.what);
    }
    pub(crate) fn is_none(&self) -> bool {
        !self.cut && Impairment { seed: 0, ..self.what } == Impairment::default()
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let w = &self.what;
        let mut words = Vec::new();
        if self.cut {
            words.push("down".to_string());
        }
        for (name, share) in [("drop", w.drop), ("corrupt", w.corrupt), ("dup", w.dup), ("reorder", w.reorder)] {
            if share > 0.0 {
                words.push(format!("{name}={}%", (share * 1e6).round() / 1e4));
            }
        }
        if w.delay > Duration::ZERO {
            words.push(format!("delay={:?}", w.delay));
        }
        if w.rate > 0 {
            words.push(format!("rate={}", w.rate));
        }
        f.write_str(&words.join(" "))
    }
}

/// How long a host waits before it cuts its trunks on behalf of another one, whose question to a third may have to
/// pass through it.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// How long a host may take to be reached again when trunks are mended.
const RETURN: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(20);

/// What one host asks another to do to its trunks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Favour {
    /// To the trunk to this host; `None`: to all ...
    to: Option<u16>,
    /// ... but this one, which the asker itself sees to.
    except: Option<u16>,
    text: String,
}

impl Daemon {
    /// Makes trunks bad or good again.
    ///
    /// What befalls datagrams is done in their sender, so both ends of a trunk are told. A cut is made at one end, in
    /// both directions: that of the host that was asked, which can therefore mend it. The trunks of others are
    /// cut at both their ends.
    pub(crate) async fn impair(self: &Rc<Self>, text: &str) -> Result<(), Failure> {
        let command = parse(text).map_err(|why| failure(format!("fault `{text}`: {why}"), format!("write {FORMS}")))?;
        let Some(span) = &self.span else {
            return Err(failure("this daemon has no trunks", "start it with --cluster FILE --host NAME"));
        };
        let host = match &command.host {
            None => None,
            Some(name) => Some(span.index(name).filter(|h| *h != span.me).ok_or_else(|| {
                failure(format!("`{name}` is no other host of the cluster"), "see `angara cluster status`")
            })?),
        };
        let everyone: Vec<u16> = (0..span.hosts() as u16).filter(|h| *h != span.me).collect();
        let mut favour = Favour { to: None, except: None, text: text.into() };
        let cut = command.change.cut == Some(true);
        let asked = match host {
            Some(host) => {
                favour.to = Some(span.me);
                favour.text = text.split_whitespace().filter(|word| *word != "down").collect::<Vec<_>>().join(" ");
                if command.change.what.is_some() || !cut { vec![host] } else { Vec::new() }
            }
            None => {
                favour.except = cut.then_some(span.me);
                everyone
            }
        };
        // What makes trunks worse is said first: after that it may be hard to be heard.
        let better = command.change.cut == Some(false);
        if better {
            self.impair_here(host, None, command.change).await?;
        }
        let mut missed = Vec::new();
        let until = tokio::time::Instant::now() + RETURN;
        for other in asked {
            while better && !span.is_up(other) && tokio::time::Instant::now() < until {
                tokio::time::sleep(LOOK).await;
            }
            if let Err(f) = span.ask(other, Ask::Impair(favour.clone())).await {
                tracing::warn!(host = span.name(other), why = f.message, "trunks not changed there");
                missed.push(span.name(other));
            }
        }
        if !better {
            self.impair_here(host, None, command.change).await?;
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
    pub(crate) async fn do_favour(self: &Rc<Self>, favour: Favour) -> Result<(), Failure> {
        let command = parse(&favour.text).map_err(|why| failure(why, format!("write {FORMS}")))?;
        if command.change.cut != Some(true) {
            return self.impair_here(favour.to, favour.except, command.change).await;
        }
        self.cuts.borrow_mut().push((favour, command.change));
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
        let cuts = self.cuts.take();
        if cuts.is_empty() {
            return Ok(());
        }
        tracing::info!(?cuts, "trunks impaired");
        let make = move |engine: &mut Engine| {
            cuts.into_iter().for_each(|(favour, change)| engine.impair(favour.to, favour.except, change));
        };
        self.data.call(make).await.map_err(Failure::from)
    }

    async fn impair_here(&self, host: Option<u16>, except: Option<u16>, change: Change) -> Result<(), Failure> {
        // What was asked for earlier must not undo this.
        self.make_cuts().await?;
        tracing::info!(host, ?change, "trunks impaired");
        self.data.call(move |engine| engine.impair(host, except, change)).await.map_err(Failure::from)
    }
}

/// Reads a command.
pub(crate) fn parse(text: &str) -> Result<Command, String> {
    let mut words = text.split_whitespace();
    if words.next() != Some("trunk") {
        return Err(format!("`{text}` does not begin with `trunk`"));
    }
    let host = words.next().ok_or("which trunk is missing")?;
    let host = (host != "all").then(|| host.to_string());
    let mut change = Change::default();
    let mut what = Impairment { seed: 1, ..Impairment::default() };
    for word in words {
        let share = |v: &str| {
            parse_ppm(v).map(|ppm| ppm as f64 / 1e6).ok_or(format!("`{v}` is not a percentage from 0 to 100"))
        };
        match word.split_once('=') {
            None if word == "down" => change.cut = Some(true),
            None if word == "up" => change.cut = Some(false),
            None if word == "clear" => {
                change = Change { cut: Some(false), what: Some(Impairment::default()) };
                what = Impairment { seed: what.seed, ..Impairment::default() };
                continue;
            }
            Some(("drop", v)) => what.drop = share(v)?,
            Some(("corrupt", v)) => what.corrupt = share(v)?,
            Some(("dup", v)) => what.dup = share(v)?,
            Some(("reorder", v)) => what.reorder = share(v)?,
            Some(("delay", v)) => what.delay = parse_delay(v).ok_or(format!("`{v}` is not a delay"))?,
            Some(("rate", v)) => what.rate = parse_size(v)?,
            Some(("seed", v)) => what.seed = v.parse().map_err(|_| format!("`{v}` is not a seed"))?,
            _ => return Err(format!("`{word}` is not understood")),
        }
        if word.contains('=') && !word.starts_with("seed=") {
            change.what = Some(what);
        }
    }
    if let Some(w) = &mut change.what {
        w.seed = what.seed;
    }
    match change == Change::default() {
        true => Err("what happens to it is missing".into()),
        false => Ok(Command { host, change }),
    }
}

/// Whether a text is about trunks.
pub(crate) fn concerns(text: &str) -> bool {
    text.split_whitespace().next() == Some("trunk")
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn impairments_are_read() {
        let read = |text| parse(text).expect("valid");
        let command = read("trunk B drop=1% delay=2ms rate=10M seed=9");
        assert_eq!(command.host.as_deref(), Some("B"));
        let what = command.change.what.expect("set");
        assert_eq!((what.drop, what.delay, what.rate, what.seed), (0.01, Duration::from_millis(2), 10 << 20, 9));
        let mut state = State::default();
        for (text, shown) in [
            ("trunk all down", "down"),
            ("trunk B drop=1% delay=2ms", "down drop=1% delay=2ms"),
            ("trunk B up", "drop=1% delay=2ms"),
            ("trunk B dup=2% down", "down dup=2%"),
            ("trunk B clear", ""),
        ] {
            state.change(read(text).change);
            assert_eq!(state.to_string(), shown, "{text}");
            assert_eq!(state.is_none(), shown.is_empty(), "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("trunk", "which trunk"),
            ("trunk B", "what happens"),
            ("trunk B drop=2", "not a percentage"),
            ("trunk B sideways", "`sideways`"),
            ("trunk B delay=soon", "not a delay"),
        ] {
            let why = parse(text).expect_err("must be refused");
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
