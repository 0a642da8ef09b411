//! `angara bench machine`: what real programs measure by their own clocks on emulated machines, beside what is published
//! of the real ones.
//!
//! All runs are in virtual time, so the page that comes out is the same everywhere; `docs/results/programs.md` is one,
//! and a test holds it to this command.

use angara_control::error::{Failed, print};
use angara_control::install;
use angara_control::report;
use angara_launch::example::{self, Temporary};
use angara_launch::many;
use angara_protocol::whole_file::write_whole;
use clap::{Args, ValueHint};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// What measures single operations, below `examples/c`.
const MEASURE: &str = "measure.c";
/// Whole programs: source, and what kind of communication they do.
const PROGRAMS: [(&str, &str); 3] = [
    ("heat2d.c", "halos and a maximum each step"),
    ("isort.c", "keys to their owners, a sum (as NPB's IS)"),
    ("fft.c", "transposes: all to all (as NPB's FT)"),
];
/// Nodes of Angara-K1 that the curves go through.
const NODES: [u32; 7] = [2, 4, 8, 12, 18, 24, 36];
/// Nodes that the whole programs run on.
const PROGRAM_NODES: [u32; 2] = [8, 32];
/// Nanoseconds per call of the library that everything which depends on it is shown for.
const CALLS: [&str; 3] = ["1", "50", "100"];
const TREE: &str = "tree";
const P2P: &str = "p2p";

/// Arguments of `angara bench machine`.
#[derive(Args)]
pub(crate) struct MachineArgs {
    /// Write the page to a file instead of the standard output
    #[arg(long, value_name = "FILE.md", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,
    /// In a source checkout: have cargo bring daemon, library and compiler wrapper up to date first
    #[arg(long)]
    build: bool,
}

/// One run: program, options of `angara run` in virtual time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Case {
    program: &'static str,
    options: Vec<String>,
}

impl Case {
    fn new(program: &'static str, options: &str) -> Case {
        Case { program, options: options.split(' ').map(String::from).collect() }
    }
    /// The network of paper 002's numbers.
    fn line(pes: u32, more: &str) -> Case {
        Case::new(MEASURE, format!("--torus 8 -n {pes} {more}").trim_end())
    }
    fn k1(program: &'static str, pes: u32, collectives: &str, call: &str) -> Case {
        let options = format!("--machine angara-k1 -n {pes} --collectives {collectives} --call-cost {call}");
        Case::new(program, &options)
    }
    fn cube(collectives: &str, call: &str) -> Case {
        Case::new(MEASURE, &format!("--torus 2x2x2 -n 8 --collectives {collectives} --call-cost {call}"))
    }
}

/// What the runs printed, by run.
struct Ran(BTreeMap<Case, String>);

impl Ran {
    /// A line `VALUE UNIT NAME` of the program that measures.
    fn value(&self, case: &Case, name: &str) -> Result<f64, Failed> {
        let lines = self.0.get(case).map_or("", |text| text).lines();
        let mut values = lines.filter_map(|line| {
            let (value, rest) = line.split_once(' ')?;
            (rest.split_once(' ')?.1 == name).then(|| value.parse().ok())?
        });
        values.next().ok_or_else(|| odd(case, name))
    }
    /// Virtual time of a whole run, µs.
    fn whole(&self, case: &Case) -> Result<f64, Failed> {
        let text = self.0.get(case).map_or("", |text| text);
        let until = text.split_once(" us of virtual time").map_or("", |(before, _)| before);
        until.rsplit(' ').next().and_then(|value| value.parse().ok()).ok_or_else(|| odd(case, "virtual time"))
    }
}

fn odd(case: &Case, name: &str) -> Failed {
    Failed::runtime(
        format!("angara run {} did not say its {name}", case.options.join(" ")),
        "use programs and examples of one version: build or install them again",
    )
}

/// Runs everything and writes the page.
pub(crate) fn main(args: MachineArgs) -> Result<u8, Failed> {
    let bin = install::bin_dir()?;
    if let Some(file) = &args.out {
        report::check_writable(file, "--out")?;
    }
    example::prepare(&bin, args.build)?;
    let dir = Temporary::new("machine")?;
    for source in PROGRAMS.iter().map(|(source, _)| *source).chain([MEASURE]) {
        example::compile(&bin, &example::find(&bin, &format!("c/{source}"))?, &dir.0.join(stem(source)))?;
    }
    let page = page(&run(&cases(), &dir.0)?)?;
    match &args.out {
        None => print(page)?,
        Some(file) => write_whole(file, page).map_err(|e| Failed::unwritten(file.display(), &e))?,
    }
    Ok(0)
}

fn stem(source: &str) -> &str {
    source.strip_suffix(".c").unwrap_or(source)
}

fn cases() -> Vec<Case> {
    let mut all = vec![Case::line(2, ""), Case::line(3, ""), Case::line(4, ""), Case::line(2, "--set quiet=delivered")];
    for how in [TREE, P2P] {
        all.extend(CALLS.map(|call| Case::cube(how, call)));
        all.extend(NODES.map(|n| Case::k1(MEASURE, n, how, CALLS[0])));
        for (program, _) in PROGRAMS {
            all.extend(PROGRAM_NODES.into_iter().flat_map(|n| CALLS.map(|call| Case::k1(program, n, how, call))));
        }
    }
    all
}

fn run(cases: &[Case], dir: &Path) -> Result<Ran, Failed> {
    let line = |case: &Case| {
        let mut line: Vec<OsString> = ["run", "--clock", "virtual", "--timeout", "600"].map(OsString::from).into();
        line.extend(case.options.iter().map(OsString::from));
        line.extend(["--".into(), dir.join(stem(case.program)).into_os_string()]);
        line
    };
    let lines: Vec<Vec<OsString>> = cases.iter().map(line).collect();
    angara_protocol::complain!("angara: {} runs in virtual time", lines.len());
    let mut ran = BTreeMap::new();
    let mut failed = None;
    many::run(&lines, |mut done| {
        let (case, text) = (&cases[done.index], done.output());
        if done.code != 0 {
            let what = format!("angara run {} {}: exit code {}", case.options.join(" "), case.program, done.code);
            failed = Some(Failed::runtime(format!("{what}\n{text}"), "see its messages above"));
            return ControlFlow::Break(());
        }
        ran.insert(case.clone(), text);
        ControlFlow::Continue(())
    })?;
    failed.map_or(Ok(Ran(ran)), Err)
}

const HEAD: &str = "\
# What real programs measure

Written by `angara bench machine --out docs/results/programs.md`; not to be edited. C programs of
`examples/c` run in [virtual time](../guide/virtual-time.md), one PE a node, and tell what their own
clocks say. Computing takes no time. A call of the library takes 1 ns where nothing else is said;
that is ours and no machine's, so what depends on it is shown for 50 and 100 ns, too.
";

/// The whole page.
fn page(ran: &Ran) -> Result<String, Failed> {
    Ok([HEAD.into(), published(ran)?, curves(ran)?, claim(ran)?, programs(ran)?].join("\n"))
}

/// Rows 5.* of [what the model reproduces](../../../docs/results/reproduction.md), by programs.
fn published(ran: &Ran) -> Result<String, Failed> {
    const WAY: &str = "half ping-pong of 16 B";
    const QUIET: &str = "put of 16 B and quiet";
    let way = |pes| ran.value(&Case::line(pes, ""), WAY);
    let neighbours = way(2)?;
    let (second, third) = (way(3)? - neighbours, way(4)? - way(3)?);
    let stream = ran.value(&Case::line(2, ""), "stream of 1 MiB")?;
    let read = ran.value(&Case::line(2, ""), QUIET)?;
    let delivered = ran.value(&Case::line(2, "--set quiet=delivered"), QUIET)?;
    let verdict = |met: bool| if met { "met" } else { "**deviates**" };
    let off = |value: f64, wanted: f64| (value / wanted - 1.0).abs();
    let mut out = String::from(
        "## Published numbers (paper 002)\n\n\
         | row | statement | demand | measured | verdict |\n|---|---|---|---|---|\n",
    );
    let mut row = |name: &str, what: &str, demand: &str, measured: String, verdict: &str| {
        let _ = writeln!(out, "| `5.{name}` | {what} | {demand} | {measured} | {verdict} |");
    };
    let met = verdict(off(neighbours, 700.0) < 0.07);
    row("put", "SHMEM put of 16 bytes between neighbours: 0.7 µs", "± 7 %", format!("{neighbours:.1} ns"), met);
    let met = verdict((second - 129.0).abs() < 0.1 && (third - 129.0).abs() < 0.1);
    let hops = format!("second {second:.1} ns, third {third:.1} ns");
    row("hop", "one more hop: 129 ns", "± 0.1 ns", hops, met);
    let met = verdict(off(stream, 20.0 / 3.0) < 0.01);
    row("link", "payload of a stream of 1 MiB: 16/18 of 7.5 GB/s", "± 1 %", format!("{stream:.3} GB/s"), met);
    let both = format!("{read:.1} ns by a read behind it, {delivered:.1} ns if told of delivery");
    row("quiet", "put of 16 bytes and quiet, both kinds of quiet", "none published", both, "–");
    out.push_str(
        "\n\
         `5.put` is a check of consistency: 300 + 129 + 300 ns are inputs. The rest are two more flits,\n\
         4.3 ns, the call, and the look at the clock. `quiet=delivered` is a bound that no known way of\n\
         the adapter reaches.\n",
    );
    Ok(out)
}

/// Microseconds of collectives from 2 nodes to all of a machine.
fn curves(ran: &Ran) -> Result<String, Failed> {
    let mut out = String::from(
        "## Collectives on Angara-K1\n\n\
         Microseconds on the first nodes of a 3x3x4 torus. Trees: the collective subnet. Puts: the\n\
         library's own algorithms.\n\n\
         | nodes | barrier | sync | sum of 8 B, trees | puts | broadcast of 8 B, trees | puts |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for nodes in NODES {
        let by = |how, name| ran.value(&Case::k1(MEASURE, nodes, how, CALLS[0]), name).map(|ns| ns / 1000.0);
        let _ = write!(out, "| {nodes} |");
        for (how, name) in [
            (TREE, "barrier of all"),
            (TREE, "sync of all"),
            (TREE, "sum of 8 B"),
            (P2P, "sum of 8 B"),
            (TREE, "broadcast of 8 B"),
            (P2P, "broadcast of 8 B"),
        ] {
            let _ = write!(out, " {:.3} |", by(how, name)?);
        }
        out.push('\n');
    }
    Ok(out)
}

/// Paper 000's claim for 8 nodes.
fn claim(ran: &Ran) -> Result<String, Failed> {
    let mut out = String::from(
        "## Trees against software (paper 000)\n\n\
         Nanoseconds on 2x2x2, 8 bytes. The paper claims more than 2 times for 8 nodes. Its software reduces\n\
         to one node and broadcasts from there, six messages one after the other. The library's exchanges\n\
         three.\n\n\
         | call | broadcast, trees | puts | times | sum, trees | puts | times |\n|---|---|---|---|---|---|---|\n",
    );
    for call in CALLS {
        let _ = write!(out, "| {call} ns |");
        for name in ["broadcast of 8 B", "sum of 8 B"] {
            let by = |how| ran.value(&Case::cube(how, call), name);
            let (tree, p2p) = (by(TREE)?, by(P2P)?);
            let _ = write!(out, " {tree:.1} | {p2p:.1} | {:.2} |", p2p / tree);
        }
        out.push('\n');
    }
    Ok(out)
}

/// The same for whole programs.
fn programs(ran: &Ran) -> Result<String, Failed> {
    let mut out = String::from(
        "## Whole programs\n\n\
         Microseconds from start to end on nodes of Angara-K1, with trees and with puts. Only heat2d has\n\
         collectives in its loop that trees can do. isort ends with one sum.\n\n\
         | program | what it does | nodes | call | trees | puts | times |\n|---|---|---|---|---|---|---|\n",
    );
    for (program, what) in PROGRAMS {
        for nodes in PROGRAM_NODES {
            for call in CALLS {
                let by = |how| ran.whole(&Case::k1(program, nodes, how, call));
                let (tree, p2p, name) = (by(TREE)?, by(P2P)?, stem(program));
                let times = p2p / tree;
                let _ = writeln!(out, "| {name} | {what} | {nodes} | {call} ns | {tree:.1} | {p2p:.1} | {times:.2} |");
            }
        }
    }
    Ok(out)
}
