//! Bad networks on purpose, as people write them: what befalls the datagrams this host sends.
//!
//! ```text
//! trunk HOST drop=1% dup=0.1% reorder=2% corrupt=0.5% delay=2ms rate=10M seed=7
//! trunk all down              nothing is sent any more
//! trunk HOST up               as before (`clear` says the same)
//! ```

use crate::config::parse_size;
use crate::fault::{parse_delay, parse_ppm};
use trunk::Impairment;

/// The accepted forms, for messages.
pub(crate) const FORMS: &str =
    "`trunk HOST|all down`, `up`, or any of `drop=1% corrupt=1% dup=1% reorder=1% delay=2ms rate=10M seed=1`";

/// What a text asks for: which host (`None`: all), and what to do.
pub(crate) fn parse(text: &str) -> Result<(Option<String>, Impairment), String> {
    let mut words = text.split_whitespace();
    if words.next() != Some("trunk") {
        return Err(format!("`{text}` does not begin with `trunk`"));
    }
    let host = words.next().ok_or("which trunk is missing")?;
    let host = (host != "all").then(|| host.to_string());
    let mut what = Impairment { seed: 1, ..Impairment::default() };
    let mut any = false;
    for word in words {
        any = true;
        let share = |v: &str| {
            parse_ppm(v).map(|ppm| ppm as f64 / 1e6).ok_or(format!("`{v}` is not a percentage from 0 to 100"))
        };
        match word.split_once('=') {
            None if word == "down" => what.drop = 1.0,
            None if word == "up" || word == "clear" => what = Impairment::default(),
            Some(("drop", v)) => what.drop = share(v)?,
            Some(("corrupt", v)) => what.corrupt = share(v)?,
            Some(("dup", v)) => what.dup = share(v)?,
            Some(("reorder", v)) => what.reorder = share(v)?,
            Some(("delay", v)) => what.delay = parse_delay(v).ok_or(format!("`{v}` is not a delay"))?,
            Some(("rate", v)) => what.rate = parse_size(v)?,
            Some(("seed", v)) => what.seed = v.parse().map_err(|_| format!("`{v}` is not a seed"))?,
            _ => return Err(format!("`{word}` is not understood")),
        }
    }
    if any { Ok((host, what)) } else { Err("what happens to it is missing".into()) }
}

/// Whether a text is about trunks.
pub(crate) fn concerns(text: &str) -> bool {
    text.split_whitespace().next() == Some("trunk")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn impairments_are_read() {
        let (host, what) = parse("trunk B drop=1% delay=2ms rate=10M").expect("valid");
        assert_eq!(host.as_deref(), Some("B"));
        assert_eq!((what.drop, what.delay, what.rate), (0.01, Duration::from_millis(2), 10 << 20));
        assert_eq!(parse("trunk all down").expect("valid").1.drop, 1.0);
        let (host, what) = parse("trunk all clear").expect("valid");
        assert_eq!((host, what), (None, Impairment::default()));
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
