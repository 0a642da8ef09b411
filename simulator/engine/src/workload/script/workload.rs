//! The workload `script:FILE`: programs that a user has written.

use super::file::{Line, Script};
use super::{Chip, Ran, Stage, any_chip};
use crate::Error;
use crate::run::Experiment;
use crate::table::{Table, number};
use crate::workload::collective::report_time;
use crate::workload::{Report, Shows, Watch, Workload, WorkloadKind};
use angara_fabric::Tick;
use angara_net::torus::NodeId;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Steps that people are shown.
const SHOWN: usize = 40;

#[derive(Debug)]
struct Programs {
    script: Script,
}

pub(in crate::workload) const KIND: WorkloadKind = WorkloadKind {
    name: "script",
    form: "script:FILE",
    about: "the programs of a file: puts, gets, atomics, waits, barriers, and when each step ends",
    parse: |arguments| Ok(Arc::new(Programs { script: Script::read(Path::new(arguments))? })),
};

impl Programs {
    fn stage(&self, experiment: &Experiment) -> Result<Stage, Error> {
        let Chip { mut config, faults, capture } = any_chip(experiment)?;
        // A driver's queue that is full holds its PE up, not the time of what it has posted.
        config.params.ops_per_port = u16::MAX;
        let places = self.script.places(&config.shape)?;
        Stage::on(Chip { config, faults, capture }, &places, self.script.overhead)
    }
}

impl Workload for Programs {
    fn keys(&self) -> &'static [&'static str] {
        &[]
    }

    fn shows(&self) -> Shows {
        Shows { packets: true, ..Shows::default() }
    }

    fn check(&self, experiment: &Experiment) -> Result<(), Error> {
        self.script.places(&any_chip(experiment)?.config.shape).map(drop)
    }

    fn run(&self, experiment: &Experiment, watch: &mut Watch<'_>) -> Result<Report, Error> {
        let started = Instant::now();
        let mut stage = self.stage(experiment)?;
        stage.set_barrier(self.script.barrier)?;
        stage.keep_ends();
        self.script.give(&mut stage);
        stage.play(watch)?;
        if let Some((pe, step)) = stage.stuck() {
            let line = &self.script.programs[pe as usize][step];
            return Err(self.script.wrong(line.number, format!("PE {pe} waits for ever: {}", line.text)));
        }
        let ran = stage.ran();
        let mut report = Report::new(&format!("{} · script of {} PEs", experiment.title(), ran.ends.len()));
        report_time(&mut report, &ran, started, experiment);
        self.show(&mut report, &ran);
        Ok(report)
    }
}

impl Programs {
    /// Every step with its PE and the time of its end, PE by PE.
    fn steps<'a>(&'a self, ran: &'a Ran) -> impl Iterator<Item = (NodeId, &'a Line, Tick)> {
        let programs = (0..).zip(self.script.programs.iter().zip(&ran.steps));
        programs.flat_map(|(pe, (lines, ends))| lines.iter().zip(ends).map(move |(line, end)| (pe, line, *end)))
    }

    fn show(&self, report: &mut Report, ran: &Ran) {
        let mut csv = String::from("pe,line,step,waits,end_ps\n");
        let mut table = Table::new(&["PE", "line", "step", "ends, ns"]);
        let (mut steps, mut waits) = (Vec::new(), 0);
        for (pe, line, end) in self.steps(ran) {
            csv.push_str(&format!("{pe},{},{},{},{end}\n", line.number, line.text, line.waits()));
            steps.push(json!({"pe": pe, "line": line.number, "step": line.text, "end_ps": end}));
            waits += usize::from(line.waits());
            if line.waits() && waits <= SHOWN {
                table.row(&[&pe.to_string(), &line.number.to_string(), &line.text, &number(end as f64 / 1000.0, 9)]);
            }
        }
        report.table(&table);
        if waits > SHOWN {
            let rest = waits - SHOWN;
            report.line("not shown", format!("{rest} more steps that wait; --json and --out have all"));
        }
        report.set("steps", steps);
        report.file("steps.csv", csv);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// The ends of all steps, by PE and line, ps.
    fn run(machine: &str, script: &str) -> Result<Vec<(u64, u64, u64)>, Error> {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static FILES: AtomicUsize = AtomicUsize::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("angara-script-{}-{number}", std::process::id()));
        std::fs::write(&path, script).unwrap();
        let workload = format!("script:{}", path.display()).parse::<crate::workload::Chosen>();
        std::fs::remove_file(&path).unwrap();
        let mut keys: crate::settings::Keys = toml::from_str(machine).unwrap();
        keys.workload = Some(workload?);
        let simulation = keys.resolve().map_err(|e| e.0)?;
        let report = simulation.run(&mut |_| std::ops::ControlFlow::Continue(()))?;
        let at = |step: &Value, name: &str| step[name].as_u64().unwrap();
        let steps = report.json["steps"].as_array().unwrap();
        Ok(steps.iter().map(|step| (at(step, "pe"), at(step, "line"), at(step, "end_ps"))).collect())
    }

    /// From a post until its packet of `flits` flits is in memory `hops` hops away, on the chip as published.
    fn way(hops: u64, flits: u64) -> u64 {
        600_000 + hops * 129_000 + ((flits - 1) * 6400).div_ceil(3)
    }

    #[test]
    fn steps_end_when_the_chip_says() {
        let ends = run(
            "topology = \"torus:8\"",
            "overhead 2ns\npe 0\nput 1 8 5 7  # a flag\nquiet\nget 1 8\nfetch 1 5 add 3\ncompute 1us\npe 1\nwait 5 7\nwait 5 10\n",
        )
        .unwrap();
        // A read takes three flits there and three back, as a word; a fetching atomic four there. The flush waits for the
        // word's three flits of 2 ns to be inside.
        let quiet = 2_000 + 3 * 2_000 + 2 * way(1, 3);
        let get = quiet + 2_000 + 2 * way(1, 3);
        let fetch = get + 2_000 + way(1, 4);
        let wanted = [
            (0, 3, 2_000),
            (0, 4, quiet),
            (0, 5, get),
            (0, 6, fetch + way(1, 3)),
            (0, 7, fetch + way(1, 3) + 1_000_000),
            (1, 9, 2_000 + way(1, 3)),
            (1, 10, fetch),
        ];
        for (got, wanted) in ends.iter().zip(wanted) {
            assert!((got.0, got.1) == (wanted.0, wanted.1) && got.2.abs_diff(wanted.2) <= 2_000, "{got:?}, {wanted:?}");
        }
        assert_eq!(ends.len(), wanted.len());
    }

    #[test]
    fn a_word_is_seen_when_its_own_packet_comes_and_not_before_the_pe_looks() {
        let script = "pe 0\nput 1 1K 0 1\nquiet\npe 1\nwait 0 1\nwait 127 1\ncompute 9us\nwait 64 1\n";
        let ends = run("topology = \"torus:4\"", script).unwrap();
        let end = |line| ends.iter().find(|e| e.1 == line).unwrap().2;
        assert!(end(5) < end(6) && end(6) < end(3), "{ends:?}");
        assert_eq!(end(8), end(6) + 9_000_000);
    }

    #[test]
    fn pes_of_one_node_and_pes_without_steps_take_part() {
        let script = "nodes 3 3 0,1 1\nbarriers tree\npe 0\nput 1 8 0 1\nstart-get 2 100K\nfence\ngets\nbarrier\n\
                      pe 1\nwait 0 1\nbarrier\npe 2\nbarrier\npe 3\nsync\n";
        let e = run("topology = \"torus:2x2\"", script).unwrap_err().to_string();
        assert!(e.contains("barrier"), "{e}");
        let ends = run("topology = \"torus:2x2\"", &script.replace("sync", "barrier")).unwrap();
        let last: Vec<u64> = [8, 11, 13, 15].map(|line| ends.iter().find(|e| e.1 == line).unwrap().2).into();
        assert!(last.iter().all(|end| end.abs_diff(last[0]) < 1_000_000), "{ends:?}");
        assert!(run("topology = \"torus:2\"", "pe 0\nput 1 8\n").is_ok());
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (script, part) in [
            ("", ":1: no PE does anything"),
            ("quiet", ":1: `quiet` belongs to no PE"),
            ("pe 0\nput 0 8", ":2: PE 0 names itself"),
            ("pe 0\nput 1 0", ":2: `0` is no size"),
            ("pe 0\nput 1 12 0 1", ":2: 12 bytes are no whole words"),
            ("pe 0\nput 1 16 65535 1", ":2: 16 bytes from word 65535 on go beyond"),
            ("pe 0\nput 1 8 3", ":2: something is missing; write put PE BYTES [WORD VALUE]"),
            ("pe 0\nquiet now", ":2: `now` is too much; write quiet"),
            ("pe 0\njump", ":2: `jump` is no step; there are compute, put"),
            ("pe 0\natomic 1 0 read", ":2: `read` is no operation"),
            ("pe 0\ncompute 5", ":2: `5` is no time"),
            ("pe 99999\n", ":1: `99999` is no PE"),
            ("barriers fast\n", ":1: "),
            ("pe 0\noverhead 1ns\n", ":2: `overhead` goes before the first pe"),
            ("nodes 0 9\npe 1\nquiet", ":1: `9` is no node of 2x2: give 0 to 3"),
            ("nodes 0\npe 1\nquiet", ":1: 1 nodes for 2 PEs"),
            ("pe 4\nquiet", ":1: 5 PEs, but 2x2 has 4 nodes"),
            ("pe 1\nwait 3 1\npe 0\nput 1 8", ":2: PE 1 waits for ever: wait 3 1"),
        ] {
            let e = run("topology = \"torus:2x2\"", script).expect_err(script).to_string();
            assert!(e.contains(part), "{script}: {e}");
        }
        let missing = "script:/nonexistent".parse::<crate::workload::Chosen>().unwrap_err().to_string();
        assert!(missing.contains(" /nonexistent: ") && missing.contains("give the path"), "{missing}");
    }
}
