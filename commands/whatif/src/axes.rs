//! Circumstances and their combinations.

use super::WhatIfArgs;
use angara_control::error::Failed;

/// Most runs of one command.
const MOST: usize = 10_000;
/// What stands for the machine as it is.
const UNCHANGED: &str = "-";
/// The axis of the numbers of PEs: the only one whose values are numbers in order.
pub(super) const PES: &str = "n";

/// One option and its values.
struct Axis {
    name: &'static str,
    values: Vec<String>,
}

/// All that varies, and all that is given. The number of PEs is an axis if there are several.
pub(super) struct Axes(Vec<Axis>);

/// One combination.
pub(super) struct Case {
    /// Value by axis.
    pub(super) values: Vec<String>,
    /// The options for it.
    pub(super) options: Vec<String>,
}

impl Axes {
    /// Of the options.
    pub(super) fn new(args: &WhatIfArgs) -> Result<Axes, Failed> {
        let mut set = args.set.clone();
        if !set.is_empty() {
            set.insert(0, UNCHANGED.into());
        }
        let lists = [
            ("torus", args.torus.clone()),
            ("machine", args.machine.clone()),
            ("map", args.map.iter().map(|map| seeds(map)).collect::<Result<Vec<_>, _>>()?.concat()),
            ("ppn", args.ppn.clone()),
            ("set", set),
            ("routing", args.routing.clone()),
            ("barrier", args.barrier.clone()),
            ("collectives", args.collectives.clone()),
            ("call-cost", args.call_cost.clone()),
            // The last one, so that a picture has a curve over it for every combination of the others.
            (PES, if args.pes.len() > 1 { args.pes.iter().map(u32::to_string).collect() } else { Vec::new() }),
        ];
        let given = lists.into_iter().filter(|(_, values)| !values.is_empty());
        let axes: Vec<Axis> = given.map(|(name, values)| Axis { name, values }).collect();
        let runs = axes.iter().map(|axis| axis.values.len()).try_fold(1usize, usize::checked_mul);
        match runs.filter(|runs| *runs <= MOST) {
            Some(_) => Ok(Axes(axes)),
            None => {
                let why = format!("these are more than {MOST} combinations");
                Err(Failed::usage(why, "leave some values out, or run some of them first"))
            }
        }
    }

    /// Every combination, the last axis varying first.
    pub(super) fn cases(&self) -> Vec<Case> {
        let mut all = vec![Vec::new()];
        for axis in &self.0 {
            let with = |values: &Vec<String>| -> Vec<Vec<String>> {
                let one_more = |value: &String| values.iter().chain([value]).cloned().collect();
                axis.values.iter().map(one_more).collect()
            };
            all = all.iter().flat_map(with).collect();
        }
        all.into_iter().map(|values| Case { options: self.options(&values), values }).collect()
    }

    fn options(&self, values: &[String]) -> Vec<String> {
        let given = self.0.iter().zip(values).filter(|(_, value)| *value != UNCHANGED);
        let option = |(axis, value): (&Axis, &String)| match axis.name {
            "routing" => ["--set".to_string(), format!("routing={value}")],
            PES => ["-n".to_string(), value.clone()],
            name => [format!("--{name}"), value.clone()],
        };
        given.flat_map(option).collect()
    }

    /// Names of all axes, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|axis| axis.name)
    }

    /// A combination in words, by what varies.
    pub(super) fn name(&self, case: &Case) -> String {
        let varies = self.0.iter().zip(&case.values).filter(|(axis, _)| axis.values.len() > 1);
        let words: Vec<String> = varies.map(|(axis, value)| format!("{} {value}", axis.name)).collect();
        if words.is_empty() { "the run".into() } else { words.join(", ") }
    }
}

/// `random:1..4` as four placements.
fn seeds(map: &str) -> Result<Vec<String>, Failed> {
    let Some((first, last)) = map.strip_prefix("random:").and_then(|seeds| seeds.split_once("..")) else {
        return Ok(vec![map.into()]);
    };
    let range = first.parse::<u64>().ok().zip(last.parse::<u64>().ok()).filter(|(a, b)| a <= b && b - a < MOST as u64);
    let (first, last) = range
        .ok_or_else(|| Failed::usage(format!("--map {map}: no such seeds"), "give a range such as random:1..8"))?;
    Ok((first..=last).map(|seed| format!("random:{seed}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: WhatIfArgs,
    }

    fn axes(words: &str) -> Result<Axes, Failed> {
        let line = format!("x -n 4 {words} -- prog --torus 9");
        Axes::new(&Line::try_parse_from(line.split_whitespace()).expect("options").args)
    }

    #[test]
    fn every_combination_is_there_once_the_last_axis_first() {
        let axes = axes("--torus 4,2x2 --map linear,random:1..2 --set link=15GB/s,hop=60ns").expect("axes");
        let cases = axes.cases();
        assert_eq!(cases.len(), 12);
        assert_eq!(cases[0].options, ["--torus", "4", "--map", "linear"]);
        assert_eq!(cases[1].options, ["--torus", "4", "--map", "linear", "--set", "link=15GB/s,hop=60ns"]);
        assert_eq!(cases[11].options, ["--torus", "2x2", "--map", "random:2", "--set", "link=15GB/s,hop=60ns"]);
        assert_eq!(axes.name(&cases[2]), "torus 4, map random:1, set -");
    }

    #[test]
    fn several_numbers_of_pes_are_the_last_axis_and_one_is_none() {
        let line = "x -n 8,64 --collectives tree,p2p -- prog".split(' ');
        let axes = Axes::new(&Line::try_parse_from(line).expect("options").args).expect("axes");
        let options: Vec<String> = axes.cases().iter().map(|case| case.options.join(" ")).collect();
        let of = |how: &str, n: u32| format!("--collectives {how} -n {n}");
        assert_eq!(options, [of("tree", 8), of("tree", 64), of("p2p", 8), of("p2p", 64)]);
        let one =
            Axes::new(&Line::try_parse_from(["x", "-n", "8", "--", "prog"]).expect("options").args).expect("axes");
        assert!(one.names().next().is_none() && one.cases()[0].options.is_empty());
    }

    #[test]
    fn one_case_is_a_run_and_too_many_are_refused() {
        let one = axes("").expect("axes");
        assert_eq!((one.cases().len(), one.name(&one.cases()[0])), (1, "the run".into()));
        assert!(axes("--map random:1..9 --map random:1..9 --ppn 1,2").is_ok());
        assert!(axes("--map random:9..1").is_err_and(|e| e.message.contains("random:9..1")));
        let many = "--map random:1..5000 --ppn 1,2,3";
        assert!(axes(many).is_err_and(|e| e.message.contains("more than 10000")));
        let routed = axes("--routing dor,adaptive").expect("axes");
        assert_eq!(routed.cases()[1].options, ["--set", "routing=adaptive"]);
    }
}
