//! Faults as the page lists them: since when, by whom, what they did, and what undoes each.

use crate::faults::ledger::{By, Ledger, base, events, is_coming};
use crate::watch::sample::Sample;
use angara_net::fault::grammar::place_of;
use angara_net::fault::{Failing, Fault, KINDS};
use angara_net::torus::Shape;
use angara_protocol::print::plain_line;
use serde_json::{Value, json};

/// Faults in an answer.
const ROWS: usize = 200;

/// Everything that is in force or comes, and what can be set.
pub(crate) fn faults_json(sample: &Sample, ledger: &Ledger, shape: &Shape) -> Value {
    let faults = &sample.plane.faults;
    let rows: Vec<Value> = faults.iter().take(ROWS).map(|text| row(text, sample, ledger, shape)).collect();
    let kinds: Vec<Value> =
        KINDS.iter().map(|kind| json!({ "name": kind.name, "example": kind.example, "does": kind.does })).collect();
    json!({ "now": sample.at.as_secs_f64(), "faults": rows, "more": faults.len() - rows.len(), "kinds": kinds })
}

fn row(text: &str, sample: &Sample, ledger: &Ledger, shape: &Shape) -> Value {
    let known = ledger.known(text);
    let (by, uid) = match ledger.by(text) {
        By::Start => ("start", None),
        By::Page => ("page", None),
        By::Command(uid) => ("command", Some(uid)),
        By::Network => ("network", None),
        By::OtherHost => ("other host", None),
    };
    // What is down has no packets to count, and nobody counts what is late.
    let told = |kind: &str| base(text).contains(kind);
    let counted = known.filter(|_| ["corrupt=", "drop=", "dup=", "reorder="].into_iter().any(told));
    let did = counted.map(|known| {
        let now = events(text, sample, shape);
        let [crc, replays, duplicates, overtaken] = std::array::from_fn(|i| now[i].saturating_sub(known.before[i]));
        json!({ "crc_errors": crc, "replays": replays, "duplicates": duplicates, "overtaken": overtaken })
    });
    let since = known.map(|known| known.since);
    json!({
        "fault": plain_line(text), "by": by, "uid": uid, "since": since, "coming": is_coming(text), "did": did,
        "undo": undo(text, shape),
    })
}

/// What ends this fault, and as little else as may be: one that is still to come is taken back with all of its place.
fn undo(text: &str, shape: &Shape) -> String {
    let place = place_of(base(text));
    match Fault::parse(base(text), shape) {
        Ok(Fault { failing: Failing::Down, .. }) => format!("{place} up"),
        Ok(fault) if !is_coming(text) => match fault.failing {
            Failing::Impaired(how) => Fault::impaired(fault.site, how.none()).show(shape),
            Failing::Down => format!("{place} up"),
        },
        _ => format!("{place} clear"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_net::fault::{Book, Command, Target};

    #[test]
    fn each_fault_is_undone_by_a_command_that_leaves_the_others() {
        let shape: Shape = "4x2".parse().expect("shape");
        let mut texts: Vec<String> = Vec::new();
        for place in ["link 0,0 +X ", "node 1,1 ", ""] {
            texts.extend(KINDS.iter().map(|kind| format!("{place}{}={}", kind.name, kind.example)));
        }
        texts.extend(["link 0,0 +X down".into(), "node 1,1 down".into()]);
        let book: Book = texts.iter().map(|text| Fault::parse(text, &shape).expect(text)).collect();
        for text in &texts {
            let Target::Network(actions) = Command::parse(&undo(text, &shape), &shape).expect(text).target else {
                panic!("{text}")
            };
            let after = book.after(&actions).expect(text);
            let shown: Vec<String> = after.faults().iter().map(|fault| fault.show(&shape)).collect();
            assert_eq!(shown.len(), texts.len() - 1, "{text}: {shown:?}");
            assert!(!shown.contains(text));
        }
        for (text, word) in [
            ("trunk B down drop=1%", "trunk B clear"),
            ("link 0,0 +X corrupt=1% @2ms (in 1.2s)", "link 0,0 +X clear"),
            ("corrupt=1% @2ms (after the next job has started)", "every link clear"),
            ("link 0,0 +X down (gave up)", "link 0,0 +X up"),
        ] {
            assert_eq!(undo(text, &shape), word);
        }
    }
}
