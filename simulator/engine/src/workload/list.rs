//! A list of messages, each sent in the cycle that the list says, whatever has arrived by then.

use super::arrived::Arrived;
use super::closed::Closed;
use super::{Report, Shows, Watch, Workload, WorkloadKind};
use crate::Error;
use crate::run::Experiment;
use crate::traffic::TextFile;
use angara_model::{Injection, TrafficClass};
use std::sync::Arc;

pub(super) const KIND: WorkloadKind = WorkloadKind {
    name: "list",
    form: "list:FILE",
    about: "the messages of a file, lines CYCLE SOURCE TARGET FLITS; latency until all have arrived",
    parse: |arguments| Ok(Arc::new(List::parse(TextFile::read("workload", arguments, arguments)?)?)),
};

/// Form of a line, for messages.
const FORM: &str = "write CYCLE SOURCE TARGET FLITS, whole numbers";
/// Most flits of a packet.
const FLITS_MAX: u16 = 4096;
/// Last cycle; times in picoseconds stay far below 2^64.
const CYCLE_MAX: u64 = 1 << 40;

#[derive(Debug)]
struct List {
    /// Tells this list from others in the identity of a sweep.
    file: TextFile,
    messages: Messages,
}

/// Messages in order of their cycles.
struct Messages(Vec<Message>);

/// The file says it all already.
impl std::fmt::Debug for Messages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} messages", self.0.len())
    }
}

#[derive(Clone, Copy)]
struct Message {
    cycle: u64,
    from: u32,
    to: u32,
    flits: u16,
    line: u32,
}

impl List {
    fn parse(file: TextFile) -> Result<List, Error> {
        let mut messages: Vec<Message> = Vec::new();
        for (line, words) in file.lines() {
            let words: Vec<&str> = words.collect();
            let [cycle, from, to, flits] = words[..] else {
                return Err(file.wrong(line, format!("{} numbers; {FORM}", words.len())).into());
            };
            let bad = |what: &str, word: &str, range: &str| {
                Err(file.wrong(line, format!("`{word}` is no {what}{range}; {FORM}")).into())
            };
            let Some(cycle) = cycle.parse().ok().filter(|cycle| *cycle <= CYCLE_MAX) else {
                return bad("cycle", cycle, &format!(" from 0 to {CYCLE_MAX}"));
            };
            let Some(flits) = flits.parse().ok().filter(|flits| (1..=FLITS_MAX).contains(flits)) else {
                return bad("length", flits, &format!(" from 1 to {FLITS_MAX} flits"));
            };
            let (Ok(from), Ok(to)) = (from.parse(), to.parse()) else {
                return bad("pair of nodes", &format!("{from} {to}"), "");
            };
            if let Some(before) = messages.last().filter(|before| before.cycle > cycle) {
                let why = format!(
                    "cycle {cycle} after cycle {} in line {}; sort the lines by cycle",
                    before.cycle, before.line
                );
                return Err(file.wrong(line, why).into());
            }
            let line = u32::try_from(line).map_err(|_| file.wrong(line, "too many lines; give a shorter list"))?;
            messages.push(Message { cycle, from, to, flits, line });
        }
        if messages.is_empty() {
            return Err(file.wrong(1, format!("no message; {FORM}")).into());
        }
        Ok(List { file, messages: Messages(messages) })
    }
}

impl Workload for List {
    fn keys(&self) -> &'static [&'static str] {
        &[]
    }

    fn shows(&self) -> Shows {
        Shows { histogram: true, links: true, packets: true }
    }

    fn packet_flits_max(&self) -> Option<u16> {
        self.messages.0.iter().map(|message| message.flits).max()
    }

    fn check_length(&self, flits_max: u16) -> Result<(), Error> {
        match self.messages.0.iter().find(|message| message.flits > flits_max) {
            Some(Message { flits, line, .. }) => {
                let why = format!("{flits} flits, where a packet of router angara has at most {flits_max}");
                Err(self.file.wrong(*line as usize, format!("{why}; use router generic, or several messages")).into())
            }
            None => Ok(()),
        }
    }

    fn check(&self, experiment: &Experiment) -> Result<(), Error> {
        let count = experiment.placement.len() as u32;
        for message in &self.messages.0 {
            for (what, rank) in [("source", message.from), ("target", message.to)] {
                self.file.rank(message.line as usize, what, &rank.to_string(), count)?;
            }
        }
        Ok(())
    }

    fn run(&self, experiment: &Experiment, watch: &mut Watch<'_>) -> Result<Report, Error> {
        let mut closed = Closed::new(experiment)?;
        let cycle = closed.network().cycle();
        for message in &self.messages.0 {
            closed.send(Injection {
                src: experiment.placement[message.from as usize],
                dst: experiment.placement[message.to as usize],
                flits: message.flits,
                class: TrafficClass::Request,
                adaptive: experiment.adaptive,
                at: message.cycle * cycle,
                ..Injection::default()
            });
        }
        let mut arrived = Arrived::default();
        let total = self.messages.0.len() as u64;
        while let Some(d) = closed.next_delivery()? {
            arrived.record(&d, cycle);
            closed.look(watch, "replaying", arrived.messages, total)?;
        }
        let mut report = Report::new(&format!("{} · {total} messages of {}", experiment.title(), self.file));
        arrived.tell(cycle, experiment.placement.len(), &mut report);
        closed.finish(experiment, self.keys(), &mut report)?;
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Keys;
    use crate::workload::simulate;

    /// Settings with the workload `list:FILE`, and what `then` makes of them.
    fn with<T>(name: &str, list: &str, settings: &str, then: impl Fn(&str) -> T) -> T {
        let path = std::env::temp_dir().join(format!("angara-list-{}-{name}", std::process::id()));
        std::fs::write(&path, list).unwrap();
        let result = then(&format!("topology = \"torus:4x4\"\n{settings}\nworkload = \"list:{}\"\n", path.display()));
        std::fs::remove_file(&path).unwrap();
        result
    }

    fn report(name: &str, list: &str, settings: &str) -> Report {
        with(name, list, settings, simulate)
    }

    #[test]
    fn every_message_leaves_in_its_cycle() {
        // Alone, a packet of L flits over R routers takes 4 R + 2 + (L - 1) cycles.
        for (list, routers, latency, end) in [
            ("0 0 1 1\n", 2, 10, 10),
            ("100 0 5 8\n", 3, 21, 121),
            ("7 0 0 3\n", 1, 8, 15),
            ("0 0 10 1\n1000 3 2 5\n", 0, 0, 1014),
        ] {
            let report = report(&format!("{end}"), list, "router = \"generic\"");
            assert_eq!(report.json["time_cycles"], end, "{list}");
            if routers > 0 {
                assert_eq!(report.json["packet_latency_cycles"], f64::from(latency), "{list}");
                assert_eq!(report.json["mean_routers_visited"], f64::from(routers), "{list}");
            }
        }
    }

    #[test]
    fn waiting_counts_and_all_arrive() {
        let report = report("burst", &"5 0 1 4\n".repeat(3), "router = \"generic\"");
        // The node's link passes a flit per cycle: the second is 4 cycles later, the third 8.
        assert_eq!((&report.json["packet_latency_cycles"], &report.json["packets"]), (&17.0.into(), &3.into()));
        assert_eq!(report.json["latency_percentiles_cycles"]["max"], 21.0);
        assert!(report.text.contains("after 26 cycles"), "{}", report.text);
        assert!(report.json["settings"].get("load").is_none(), "the list reads no traffic settings");
    }

    #[test]
    fn angara_has_its_own_times_and_ranks_are_placed() {
        let (near, far) = (report("near", "0 0 1 2\n", ""), report("far", "0 0 1 2\n", "map = \"random\"\nseed = 3"));
        let ns = |report: &Report| report.json["packet_latency_ns"].as_f64().unwrap();
        assert!((729.0..735.0).contains(&ns(&near)), "{}", ns(&near));
        assert!(ns(&far) > ns(&near) + 100.0, "{}", ns(&far));
    }

    #[test]
    fn lists_that_cannot_be_sent_are_refused_with_their_line() {
        for (name, list, said) in [
            ("order", "5 0 1 1\n# x\n4 0 1 1\n", ":3: cycle 4 after cycle 5 in line 1; sort"),
            ("node", "0 0 1 1\n0 16 1 1\n", ":2: `16` is no source; the network has nodes 0 to 15"),
            ("target", "0 0 99 1\n", ":1: `99` is no target"),
            ("long", "0 0 1 18\n0 0 1 19\n", ":2: 19 flits, where a packet of router angara has at most 18"),
            ("zero", "0 0 1 0\n", ":1: `0` is no length from 1 to 4096"),
            ("negative", "-1 0 1 1\n", ":1: `-1` is no cycle"),
            ("words", "0 0 1\n", ":1: 3 numbers; write CYCLE"),
            ("text", "0 a 1 1\n", ":1: `a 1` is no pair"),
            ("empty", "# nothing\n", ":1: no message"),
        ] {
            let e = with(name, list, "", |settings| match toml::from_str::<Keys>(settings) {
                Ok(keys) => keys.resolve().unwrap_err().0.to_string(),
                Err(e) => e.message().to_string(),
            });
            assert!(e.contains(said), "{name}: {e}");
        }
        let none = "list:/nonexistent/l".parse::<crate::workload::Chosen>().unwrap_err().to_string();
        assert!(none.contains("/nonexistent/l cannot be read") && none.contains("list:FILE"), "{none}");
    }
}
