//! Writes manual pages and completions of shells, from the options themselves, for all commands together; `cargo xtask
//! install` calls it.
#![forbid(unsafe_code)]

mod examples;
mod pages;

use angara_cli::oshcc;
use angara_cli::oshrun::oshrun;
use angara_control::error::Failed;
use angara_net::fault::KINDS;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory, Parser};
use clap_complete::Shell;
use std::collections::BTreeSet;
use std::fs::{self, File, create_dir_all};
use std::io;
use std::path::{Path, PathBuf};

/// Values of options that take others, too, or lists of them, so that the parser cannot know them: for completions alone.
const VALUES: [(&str, &[&str]); 10] = [
    ("alloc", &["auto", "utilisation", "fragmentation", "closed", "first-fit-box", "best-fit-box"]),
    ("path", &["auto", "direct", "ring"]),
    ("machine", &["desmos", "angara-k1", "bluegene-p", "gemini", "tpu-v4", "tpu-v5p"]),
    (
        "barrier",
        &["auto", "multiphase", "all-to-all", "tree", "hypercube", "master", "counting", "counter", "dissemination"],
    ),
    ("collectives", &["auto", "tree", "p2p"]),
    ("map", &["linear", "random:1"]),
    ("routing", &["dor", "adaptive"]),
    (
        "pattern",
        &[
            "uniform",
            "others",
            "tornado",
            "bitcomp",
            "transpose",
            "bitrev",
            "shuffle",
            "butterfly",
            "opposite",
            "neighbor",
            "halo",
            "permutation",
            "hotspot:0,0.1",
            "local:1,0.9",
            "fftrow:4",
            "fftcol:4",
        ],
    ),
    ("patience", &["30", "never"]),
    ("udp-engine", &["auto", "syscall", "uring"]),
];

/// Words of `angara fault` besides its settings.
const FAULT_WORDS: [&str; 9] = ["link", "node", "every", "trunk", "all", "list", "down", "up", "clear"];

/// Write manual pages and completions of shells; `cargo xtask install` calls it
#[derive(Parser)]
#[command(name = "angara-help-files", version)]
struct HelpFilesArgs {
    /// Directory that gets what belongs below `share`
    dir: PathBuf,
}

fn main() {
    let HelpFilesArgs { dir } = HelpFilesArgs::parse();
    let Err(e) = write(&dir) else { std::process::exit(0) };
    let e = Failed::runtime(format!("cannot write to {}: {e}", dir.display()), "give an empty directory");
    e.print("angara-help-files");
    std::process::exit(e.code.into())
}

/// `angara` with all its subcommands, those of the programs beside it among them.
fn angara() -> Command {
    let beside = [
        angara_commands_alloc::Commands::command(),
        angara_commands_bench::Commands::command(),
        angara_commands_sim::Commands::command(),
        angara_commands_top::Commands::command(),
        angara_commands_verbs::Commands::command(),
        angara_commands_whatif::Commands::command(),
    ];
    beside
        .iter()
        .flat_map(Command::get_subcommands)
        .fold(angara_cli::angara(), |angara, whole| angara.mut_subcommand(whole.get_name(), |_| whole.clone()))
}

fn write(dir: &Path) -> io::Result<()> {
    let man = dir.join("man/man1");
    create_dir_all(&man)?;
    let programs = [angara(), oshrun(), angara_cluster::args::Args::command()];
    for program in &programs {
        complete(&with_values(program.clone()), dir)?;
    }
    for program in programs.into_iter().chain(oshcc::commands()) {
        clap_mangen::generate_to(program.disable_help_subcommand(true), &man)?;
    }
    let files = man.read_dir()?.map(|page| Ok(page?.path())).collect::<io::Result<Vec<PathBuf>>>()?;
    let name = |page: &Path| page.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
    let names: BTreeSet<String> = files.iter().map(|page| name(page)).collect();
    for page in files {
        fs::write(&page, pages::complete(&name(&page), &fs::read_to_string(&page)?, &names))?;
    }
    Ok(())
}

/// An example of each setting of a fault. Clap wants words that stay: they do, as this mode writes files and ends.
fn settings() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| &*format!("{}={}", kind.name, kind.example).leak())
}

/// `command` and what is below it, with values for completions.
fn with_values(mut command: Command) -> Command {
    if command.get_name() == "fault" {
        let words = FAULT_WORDS.into_iter().chain(settings());
        command = command.mut_arg("words", |arg| arg.value_parser(PossibleValuesParser::new(words)));
    }
    let known = |arg: &Arg| {
        let name = arg.get_long().filter(|_| arg.get_possible_values().is_empty())?;
        VALUES.iter().find(|(option, _)| *option == name).map(|(_, values)| *values)
    };
    let args = |arg: Arg| match known(&arg) {
        Some(values) => arg.value_parser(PossibleValuesParser::new(values)),
        None => arg,
    };
    command.mut_args(args).mut_subcommands(with_values)
}

/// Where each shell looks for what completes a command.
fn complete(program: &Command, dir: &Path) -> io::Result<()> {
    let name = program.get_name().to_string();
    for (shell, place, file) in [
        (Shell::Bash, "bash-completion/completions", name.clone()),
        (Shell::Zsh, "zsh/site-functions", format!("_{name}")),
        (Shell::Fish, "fish/vendor_completions.d", format!("{name}.fish")),
    ] {
        let place = dir.join(place);
        create_dir_all(&place)?;
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut program.clone(), &name, &mut text);
        io::Write::write_all(&mut File::create(place.join(file))?, &text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The option `--name` of each command that has it, with the words that lead there.
    fn having(command: &Command, name: &str, at: &[String], found: &mut Vec<(Vec<String>, Command, bool)>) {
        let at = [at, &[command.get_name().to_string()]].concat();
        if let Some(arg) = command.get_arguments().find(|arg| arg.get_long() == Some(name)) {
            found.push((at.clone(), command.clone(), arg.get_possible_values().is_empty()));
        }
        command.get_subcommands().for_each(|sub| having(sub, name, &at, found));
    }

    #[test]
    fn completed_values_are_ones_that_the_parser_takes() {
        for (name, values) in VALUES {
            let mut found = Vec::new();
            for program in [angara(), angara_cluster::args::Args::command()] {
                having(&program, name, &[], &mut found);
            }
            assert!(found.iter().any(|f| f.2), "no command needs --{name}");
            for (at, command, _) in found.into_iter().filter(|f| f.2) {
                for value in values {
                    // What else is missing does not matter.
                    let line = [command.get_name().to_string(), format!("--{name}"), value.to_string()];
                    let read = command.clone().try_get_matches_from(line);
                    let wrong = read.err().filter(|e| e.kind() != clap::error::ErrorKind::MissingRequiredArgument);
                    assert!(wrong.is_none(), "{at:?} --{name} {value}: {}", wrong.expect("wrong"));
                }
            }
        }
    }

    /// Examples are lines that the commands understand, and every page has one here or in the command's help.
    #[test]
    fn examples_are_right() {
        fn all(command: &Command, at: &str, found: &mut Vec<(String, Command)>) {
            let page = if at.is_empty() { command.get_name().into() } else { format!("{at}-{}", command.get_name()) };
            command.get_subcommands().for_each(|sub| all(sub, &page, found));
            found.push((page, command.clone()));
        }
        let mut found = Vec::new();
        all(&angara(), "", &mut found);
        let of = |page: &str| examples::EXAMPLES.iter().find(|(name, _)| *name == page).map(|(_, lines)| *lines);
        for (page, command) in &found {
            let help = command.get_after_long_help().or(command.get_after_help()).map(|help| help.to_string());
            let has = help.is_some_and(|help| help.contains("EXAMPLES:"));
            assert!(has != of(page).is_some(), "{page}: examples in the help: {has}");
        }
        for line in examples::EXAMPLES.iter().flat_map(|(_, lines)| *lines).filter(|line| line.starts_with("angara ")) {
            let read = angara().try_get_matches_from(line.split(' '));
            assert!(read.is_ok(), "{line}: {}", read.expect_err("wrong"));
        }
        let known = found.iter().map(|(page, _)| page.as_str()).chain(["oshcc", "oshc++"]).collect::<BTreeSet<_>>();
        let strange: Vec<_> = examples::EXAMPLES.iter().filter(|(page, _)| !known.contains(page)).collect();
        assert!(strange.is_empty(), "{strange:?}");
    }
}
