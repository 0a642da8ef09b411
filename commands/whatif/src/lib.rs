//! `angara whatif`: one program in virtual time under every combination of circumstances, one run on each core.
//!
//! [`axes`] makes the combinations, [`angara_launch::many`] runs them, [`table`] shows what came out.
#![forbid(unsafe_code)]

mod axes;
mod table;

use angara_abi::job::PES_MAX;
use angara_cli::oshrun::options_of;
use angara_cli::run::say_misread;
use angara_cli::shared::beside::WHATIF;
use angara_cli::shared::out_file;
use angara_cli::shared::{foreign, word};
use angara_control::error::{Failed, print};
use angara_control::report;
use angara_control::report::document::date;
use angara_launch::many;
use angara_launch::many::seeds::quoted;
use angara_launch::run;
use angara_launch::run::options::PesAs;
use angara_machine::Machine;
use angara_net::units::whole;
use angara_protocol::whole_file::write_whole;
use axes::Axes;
use clap::{Args, CommandFactory, Parser, ValueHint};
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use table::Outcome;

/// The subcommand as `angara` has it.
#[derive(Parser)]
#[command(name = "angara", version, propagate_version = true, arg_required_else_help = true)]
pub enum Commands {
    /// `angara whatif`.
    #[command(about = WHATIF.about)]
    Whatif(WhatIfArgs),
}

/// Entry of the program. Never returns.
pub fn main() -> ! {
    let own_words = |args: Vec<OsString>| {
        // What stands before a program is read as `angara run` does.
        if args.get(1).is_none_or(|name| name != WHATIF.name) {
            return Ok((args, Vec::new()));
        }
        let mut command = Commands::command();
        command.build();
        let read = foreign::read(command.find_subcommand(WHATIF.name).expect("declared above"), &args[2..]);
        let read = read.map_err(say_misread)?;
        Ok((args.into_iter().take(2).chain(read.args).collect(), read.notes))
    };
    angara_cli::shared::enter_reading(WHATIF, own_words, |Commands::Whatif(args), notes| {
        notes.iter().filter(|_| !args.quiet).for_each(|note| angara_protocol::complain!("angara: {note}"));
        compare(args)
    })
}

/// What the user asked for.
#[derive(Args)]
#[command(after_help = "\
Every option with a list is an axis: the program runs once for every combination, and each time is compared with that of the \
first one. Options of `angara run` that are the same for all runs follow --run, as one word: --run '--ppn 2 --timeout 60'.

EXAMPLES:
  angara whatif -n 32 --torus 4x4x2,8x4 --map linear,random:1..4 --set link=15GB/s --set hop=60ns -- ./heat2d
  angara whatif -n 8,64,512 --collectives tree,p2p --pes-as coroutines --svg scaling.svg -- ./scaling")]
pub struct WhatIfArgs {
    /// Numbers of PEs, such as 64 or 8,64,512
    #[arg(short = 'n', long = "np", value_name = "LIST", value_delimiter = ',', required = true,
          value_parser = whole(1..=PES_MAX as u32))]
    pes: Vec<u32>,
    /// Tori, such as 4x4x2,8x4
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    torus: Vec<String>,
    /// Machines: names, or files that end in .toml
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    machine: Vec<String>,
    /// Placements: linear, random:SEED, random:FIRST..LAST, file:F, auto:F
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    map: Vec<String>,
    /// Most PEs on one node
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    ppn: Vec<String>,
    /// A machine with other values, such as link=15GB/s,hop=60ns, beside the unchanged one; may be repeated
    #[arg(long, value_name = "KEY=VALUE,…")]
    set: Vec<String>,
    /// Ways of writes: dor, adaptive
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    routing: Vec<String>,
    /// Barriers, such as multiphase,tree
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    barrier: Vec<String>,
    /// Collectives, such as tree,p2p
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    collectives: Vec<String>,
    /// Nanoseconds that a call of the library takes, such as 1,50,100
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    call_cost: Vec<String>,
    /// PEs as processes, as coroutines of one process, or auto: coroutines where program and options allow it
    #[arg(long, value_parser = word::<PesAs>(), value_name = "HOW", default_value_t = PesAs::Processes, hide_possible_values = true)]
    pes_as: PesAs,
    /// Other options of `angara run`, the same for all, as one word
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    run: Option<String>,
    /// Write the table as CSV, too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = out_file())]
    csv: Option<PathBuf>,
    /// Write the table as JSON, too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = out_file())]
    json: Option<PathBuf>,
    /// Draw the times, too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = out_file())]
    svg: Option<PathBuf>,
    /// Write a page with picture and table, too, for any browser; it needs no other file and no network
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = out_file())]
    html: Option<PathBuf>,
    /// Say nothing about progress
    #[arg(short, long)]
    quiet: bool,
    /// Program and its arguments
    #[arg(value_name = "PROG [ARGS]", required = true, trailing_var_arg = true, allow_hyphen_values = true,
          value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// Says what settings of a machine keep others from: the runs themselves are quiet. What cannot be read they refuse.
fn say_bottlenecks(args: &WhatIfArgs) {
    let machines = args.machine.iter().map(|name| Machine::named(name).ok());
    let machines: Vec<Machine> =
        if args.machine.is_empty() { vec![Machine::plain()] } else { machines.flatten().collect() };
    for (machine, set) in machines.iter().flat_map(|machine| args.set.iter().map(move |set| (machine, set))) {
        let Ok(changed) = machine.clone().with(std::slice::from_ref(set)) else { continue };
        let name = if args.machine.len() > 1 { format!("{}, ", machine.name) } else { String::new() };
        for why in changed.values.bottlenecks() {
            angara_protocol::complain!("angara: {name}--set {set}: {why}");
        }
    }
}

/// Runs every combination and shows what came out; the exit code is that of the first run that failed. After Ctrl-C
/// this is about the runs that had ended.
fn compare(args: WhatIfArgs) -> Result<u8, Failed> {
    let axes = Axes::new(&args)?;
    let cases = axes.cases();
    run::find(&args.command[0])?;
    let files = [(&args.csv, "--csv"), (&args.json, "--json"), (&args.svg, "--svg"), (&args.html, "--html")];
    for (file, option) in files {
        file.as_ref().map_or(Ok(()), |file| report::check_writable(file, option))?;
    }
    let dir = Reports::new()?;
    let lines: Vec<Vec<OsString>> = cases
        .iter()
        .enumerate()
        .map(|(i, case)| {
            let mut line: Vec<OsString> = ["run", "--quiet", "--clock", "virtual"].map(OsString::from).into();
            if let [pes] = args.pes[..] {
                line.extend(["-n".into(), pes.to_string().into()]);
            }
            line.extend(["--pes-as".into(), args.pes_as.to_string().into()]);
            line.extend(case.options.iter().map(OsString::from));
            line.extend(args.run.iter().flat_map(|text| text.split_whitespace()).map(OsString::from));
            line.extend(["--report".into(), dir.file(i).into(), "--".into()]);
            line.extend(args.command.iter().cloned());
            line
        })
        .collect();
    if args.pes_as != PesAs::Processes {
        check_pes(&lines[0], args.quiet)?;
    }
    if !args.quiet {
        say_bottlenecks(&args);
        angara_protocol::complain!("angara: {} runs of {}", lines.len(), Path::new(&args.command[0]).display());
    }
    let mut outcomes: Vec<Option<Outcome>> = cases.iter().map(|_| None).collect();
    let mut failed = None;
    let ended = many::run(&lines, |mut done| {
        if done.code != 0 {
            failed.get_or_insert(done.code);
            let (what, said) = (axes.name(&cases[done.index]), done.output());
            angara_protocol::complain!("angara: {what}: exit code {}", done.code);
            said.lines().for_each(|line| angara_protocol::complain!("{line}"));
        } else if !args.quiet && (done.index + 1).is_multiple_of(10) {
            angara_protocol::complain!("angara: {} of {} runs are done", done.index + 1, lines.len());
        }
        outcomes[done.index] = Some(Outcome::new(done.code, done.is_in_doubt(), &dir.file(done.index)));
        ControlFlow::Continue(())
    })?;
    if ended.is_some() {
        let done = outcomes.iter().flatten().count();
        angara_protocol::complain!("angara: ended by a signal: {done} of {} runs are done, and shown", lines.len());
        if done == 0 {
            return Ok(ended.map_or(0, |ended| ended.code));
        }
    }
    show(&args, &table::Results { axes: &axes, cases: &cases, outcomes: &outcomes })?;
    Ok(ended.map(|ended| ended.code).or(failed).unwrap_or(0))
}

/// Prints the table, and writes the files that were asked for.
fn show(args: &WhatIfArgs, results: &table::Results) -> Result<(), Failed> {
    print(results.text())?;
    let program = args.command[0].to_string_lossy();
    let written = |file: &Option<PathBuf>, text: &dyn Fn() -> Result<String, Failed>| match file {
        Some(file) => write_whole(file, text()?).map_err(|e| Failed::unwritten(file.display(), &e)),
        None => Ok(()),
    };
    written(&args.csv, &|| Ok(results.csv()))?;
    written(&args.json, &|| Ok(results.json()))?;
    written(&args.html, &|| Ok(results.html(&program, &command_line(), &now())))?;
    written(&args.svg, &|| results.svg(&program))
}

/// The command as it was given, for a shell.
fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy()));
    std::iter::once("angara".into()).chain(words).collect::<Vec<_>>().join(" ")
}

fn now() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    date(since.map_or(0, |since| since.as_secs()))
}

/// Says once what PEs cannot be, rather than in every run. `line` is what the first one is started with.
fn check_pes(line: &[OsString], quiet: bool) -> Result<(), Failed> {
    let loud = line.iter().filter(|word| quiet || *word != "--quiet");
    // A mistake in it is said by the run.
    options_of(std::iter::once(OsString::from("angara")).chain(loud.skip(1).cloned()).collect())
        .map_or(Ok(()), |args| run::check(&args))
}

/// A directory for the reports of all runs, removed in the end.
struct Reports(PathBuf);

impl Reports {
    fn new() -> Result<Reports, Failed> {
        let dir = std::env::temp_dir().join(format!("angara-whatif-{}", std::process::id()));
        std::fs::create_dir(&dir).map_err(|e| {
            Failed::runtime(format!("cannot make {}: {e}", dir.display()), "set TMPDIR to a directory you can write to")
        })?;
        Ok(Reports(dir))
    }
    fn file(&self, index: usize) -> PathBuf {
        self.0.join(format!("{index}.json.gz"))
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
