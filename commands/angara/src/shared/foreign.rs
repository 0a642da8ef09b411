//! The launcher's part of a command line, before the parser sees it: where it ends, what other launchers call
//! our options, and what of theirs has no meaning here.
//!
//! The parser takes the first word that it does not know for the program, because a program's own
//! arguments may look like options. So options are gone through here first: ours stay, those of Open MPI's, Hydra's
//! and Slurm's launchers are translated, ignored with a word, or refused with what to write instead, and what nobody
//! knows is an error that names the most similar option.

use angara_cluster::usage::{helpful, instead};
use angara_control::error::Failed;
use clap::{Arg, Command, ValueHint};
use std::ffi::{OsStr, OsString};

/// What an option of another launcher means here.
#[derive(Clone, Copy)]
enum Meaning {
    /// Ours with the same value.
    Same(&'static str),
    /// Ours, which takes no value.
    Flag(&'static [&'static str]),
    /// Nothing; N values follow.
    Nothing(usize, &'static str),
    /// Sets a variable: two values.
    Variable,
    /// How PEs are bound to cores.
    Bind,
    /// How PEs are laid out.
    MapBy,
    /// Something that this launcher does not do, and what to do.
    Refused(&'static str),
}

impl Meaning {
    /// True if it is one to `command`: a launcher, or another command that starts programs by one.
    fn fits(self, command: &Command) -> bool {
        let has = |option: &str| {
            let names = |a: &Arg| {
                a.get_short().map(|c| format!("-{c}")) == Some(option.into())
                    || a.get_long().map(|name| format!("--{name}")) == Some(option.into())
            };
            command.get_arguments().any(names)
        };
        match self {
            Same(option) => has(option),
            Flag(_) | Nothing(..) | Variable | Bind | MapBy | Refused(_) => has("-x"),
        }
    }
}

use Meaning::{Bind, Flag, MapBy, Nothing, Refused, Same, Variable};

const MANY: &str = "any number of PEs may share a core";
const MODULES: &str = "there are no modules to choose from";
const ALL: &str = "all variables are passed on";
const DETAIL: &str = "`--report FILE` writes where each PE was, `angara status` shows the rest";
const CORES: &str = "`--bind auto`, `core` or `none` says where PEs run";
const HOSTS: &str = "hosts are those of a cluster file: give --cluster FILE; placement is --map file:F";
const OWN_STARTER: &str = "PEs are started by fabricd";

/// Options of other launchers, by name without dashes: they take one dash or two.
const KNOWN: &[(&[&str], Meaning)] = &[
    (&["np", "ntasks"], Same("-n")),
    (&["ppn", "perhost", "npernode", "ntasks-per-node"], Same("--ppn")),
    (&["l", "label", "prepend-rank", "tag-output"], Flag(&["--label"])),
    (&["oversubscribe", "nooversubscribe", "overcommit", "use-hwthread-cpus"], Nothing(0, MANY)),
    (&["allow-run-as-root"], Nothing(0, "everybody may start jobs")),
    (&["mca", "gmca", "prtemca", "pmixmca"], Nothing(2, MODULES)),
    (&["am", "tune"], Nothing(1, MODULES)),
    (&["iface", "launcher", "bootstrap", "rmk", "pmi-port"], Nothing(1, OWN_STARTER)),
    (&["genvall", "envall"], Nothing(0, ALL)),
    (&["genvlist", "envlist"], Nothing(1, ALL)),
    (&["genv", "env"], Variable),
    (&["report-bindings", "display-map", "display-allocation", "verbose", "v"], Nothing(0, DETAIL)),
    (&["rank-by", "cpu-bind", "cpu_bind", "cpus-per-task", "cpus-per-proc", "distribution"], Nothing(1, CORES)),
    (&["bind-to"], Bind),
    (&["bind-to-core"], Flag(&["--bind", "core"])),
    (&["bind-to-none"], Flag(&["--bind", "none"])),
    (&["map-by"], MapBy),
    (&["host", "H", "hosts", "hostfile", "f", "machinefile", "machine-file", "nodelist", "w"], Refused(HOSTS)),
    (&["N", "nodes", "nnodes"], Refused("give the number of PEs on a node (--ppn K), or of nodes (--torus, --mesh)")),
    (&["c"], Refused("give the number of PEs (-n N); a PE may use every core that --bind leaves it")),
    (&["wdir", "wd", "chdir", "D"], Refused("PEs start where the launcher was started: cd there first")),
    (
        &["output-filename", "outfile-pattern", "o"],
        Refused("send the output to a file; --label marks lines with the PE"),
    ),
    (&["export"], Refused("all variables are passed on; set one with -x VAR=VAL")),
    (&["gdb", "tv", "debug", "xterm"], Refused("give --debug PE, or --wrap PES COMMAND")),
];

/// What stands between the launcher's name and the program, put right.
#[derive(Debug, Default)]
pub struct Read {
    /// For the parser: all arguments, the program and its own included.
    pub args: Vec<OsString>,
    /// What had no effect, and why.
    pub notes: Vec<String>,
}

/// Why an argument cannot be read.
pub enum Misread {
    /// An option nobody knows.
    Unknown(clap::Error),
    /// One that other launchers know.
    Other(Failed),
}

impl std::fmt::Display for Misread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Misread::Unknown(e) => e.fmt(f),
            Misread::Other(e) => write!(f, "{}; {}", e.message, e.remedy),
        }
    }
}

/// Goes through the options in `args`, which `command` parses afterwards.
pub fn read(command: &Command, args: &[OsString]) -> Result<Read, Misread> {
    let mut read = Read::default();
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        let text = word.to_str().unwrap_or_default();
        if text == "--" || text.len() < 2 || !text.starts_with('-') {
            if text != "--" {
                one_program(rest.as_slice())?;
            }
            read.args.push(word.clone());
            break;
        }
        let (name, value) = match text.split_once('=') {
            Some((name, value)) if text.starts_with("--") => (name, Some(value)),
            _ => (text, None),
        };
        if let Some(takes) = ours_takes(command, name) {
            // Slurm's option of this name says how processes find each other; ours, whose library they are linked with.
            let next = value.or_else(|| rest.as_slice().first().and_then(|word| word.to_str()));
            if let Some(kind) = next.filter(|kind| name == "--mpi" && kind.starts_with("pm")) {
                read.notes.push(format!("--mpi {kind} has no effect here: {OWN_STARTER}"));
                rest = if value.is_some() { rest } else { rest.as_slice()[1..].iter() };
                continue;
            }
            read.args.push(word.clone());
            let more = takes.saturating_sub(usize::from(value.is_some()));
            read.args.extend(rest.by_ref().take(more).cloned());
            continue;
        }
        let Some(meaning) = foreign(name).filter(|meaning| meaning.fits(command)) else {
            return Err(unknown(command, word));
        };
        let mut values = value.map(OsString::from).into_iter().chain(rest.by_ref().cloned());
        let wanted = match meaning {
            Flag(_) | Refused(_) | Nothing(0, _) => 0,
            Nothing(n, _) => n,
            Same(_) | Bind | MapBy => 1,
            Variable => 2,
        };
        let values: Vec<OsString> = values.by_ref().take(wanted).collect();
        if values.len() < wanted {
            let what = format!("{name} needs {wanted} value{}", if wanted == 1 { "" } else { "s" });
            return Err(Misread::Other(Failed::usage(what, format!("see `{} --help`", called(command)))));
        }
        read.translate(name, meaning, &values)?;
    }
    read.args.extend(rest.cloned());
    Ok(read)
}

impl Read {
    fn translate(&mut self, name: &str, meaning: Meaning, values: &[OsString]) -> Result<(), Misread> {
        let shown = values.iter().fold(name.to_string(), |all, v| format!("{all} {}", v.display()));
        let value = values.first().and_then(|v| v.to_str()).unwrap_or_default();
        match meaning {
            Same(option) => self.args.extend([option.into(), values[0].clone()]),
            Flag(options) => self.args.extend(options.iter().map(OsString::from)),
            Nothing(_, why) => self.notes.push(format!("{shown} has no effect here: {why}")),
            Variable => {
                let mut assignment = values[0].clone();
                assignment.push("=");
                assignment.push(&values[1]);
                self.args.extend(["-x".into(), assignment]);
            }
            Bind => match value.split(':').next() {
                Some("none") => self.args.extend(["--bind", "none"].map(OsString::from)),
                Some("core" | "hwthread") => self.args.extend(["--bind", "core"].map(OsString::from)),
                _ => self.notes.push(format!("{shown} has no effect here: {CORES}")),
            },
            MapBy => match value.split(':').collect::<Vec<_>>()[..] {
                ["ppr", number, "node", ..] => self.args.extend(["--ppn", number].map(OsString::from)),
                _ => self.notes.push(format!("{shown} has no effect here: --ppn and --map say which PE is where")),
            },
            Refused(remedy) => {
                let what = format!("{name} is an option of other launchers, not of this one");
                return Err(Misread::Other(Failed::usage(what, remedy)));
            }
        }
        Ok(())
    }
}

/// How many words after it belong to one of our options; `None` if it is none of ours.
fn ours_takes(command: &Command, name: &str) -> Option<usize> {
    let takes = |a: &Arg| match a.get_action().takes_values() {
        true => a.get_num_args().map_or(1, |n| n.max_values()),
        false => 0,
    };
    if let Some(long) = name.strip_prefix("--") {
        return command.get_arguments().find(|a| a.get_long() == Some(long)).map(takes);
    }
    if foreign(name).is_some() {
        return None;
    }
    // A group of letters, of which the last may take a value, or have it behind.
    let letters: Vec<char> = name.chars().skip(1).collect();
    for (i, letter) in letters.iter().enumerate() {
        let words = takes(command.get_arguments().find(|a| a.get_short() == Some(*letter))?);
        if words > 0 {
            return Some(if i + 1 == letters.len() { words } else { words - 1 });
        }
    }
    Some(0)
}

fn foreign(name: &str) -> Option<Meaning> {
    let name = name.trim_start_matches('-');
    KNOWN.iter().find(|(names, _)| names.contains(&name)).map(|(_, meaning)| *meaning)
}

/// The launcher as it was called.
fn called(command: &Command) -> &str {
    command.get_bin_name().unwrap_or(command.get_name())
}

/// The parser's own words about an option it does not know: they name a similar one.
fn unknown(command: &Command, word: &OsStr) -> Misread {
    let program = |a: Arg| a.allow_hyphen_values(false).trailing_var_arg(false).value_hint(ValueHint::Unknown);
    let strict = command.clone().mut_arg("command", program);
    match strict.try_get_matches_from([OsString::from(called(command)), word.into()]) {
        Err(e) => {
            let mut e = helpful(e, command);
            let two = format!("-{}", word.to_str().unwrap_or_default());
            if !word.as_encoded_bytes().starts_with(b"--") && ours_takes(command, &two).is_some() {
                instead(&mut e, format!("options of more than a letter have two dashes: {two}"));
            }
            Misread::Unknown(e)
        }
        Ok(_) => {
            let what = format!("unknown option {}", word.display());
            let remedy = format!("see `{} --help`; `--` goes before a program of that name", called(command));
            Misread::Other(Failed::usage(what, remedy))
        }
    }
}

/// Other launchers start several programs in one job, and `:` stands between them.
fn one_program(after: &[OsString]) -> Result<(), Misread> {
    let option = |w: &OsString| w.as_encoded_bytes().starts_with(b"-");
    match after.windows(2).any(|pair| pair[0] == ":" && option(&pair[1])) {
        false => Ok(()),
        true => Err(Misread::Other(Failed::usage(
            "`:` joins several programs to one job in other launchers; here all PEs run the same one",
            "start one program that looks at shmem_my_pe(), such as a shell script that looks at ANGARA_PE; \
             if `:` is an argument of yours, put `--` before the program",
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rewritten line, then notes.
    fn line(words: &str) -> Result<String, String> {
        let args: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let read = read(&crate::oshrun::oshrun(), &args).map_err(|e| e.to_string())?;
        let out: Vec<String> = read.args.iter().map(|a| a.display().to_string()).chain(read.notes).collect();
        Ok(out.join(" "))
    }

    #[test]
    fn np_is_an_option_only_before_the_program() {
        for (given, want) in [
            ("-np 8 ./a -np 3", "-n 8 ./a -np 3"),
            ("--torus 2x2 -np 4 ./a", "--torus 2x2 -n 4 ./a"),
            ("--label -x A=-np -np 4 -- ./a -np", "--label -x A=-np -n 4 -- ./a -np"),
            ("--torus=2x2 --np=4 ./a", "--torus=2x2 --np=4 ./a"),
            ("-n 8 mpi -np 8", "-n 8 mpi -np 8"),
            ("-qn 8 ./a", "-qn 8 ./a"),
            ("-n8 -xA=B ./a --tours", "-n8 -xA=B ./a --tours"),
            ("-n 2 -- --odd", "-n 2 -- --odd"),
            ("--wrap 2 gdb -np 8 ./a -np 3", "--wrap 2 gdb -n 8 ./a -np 3"),
        ] {
            assert_eq!(line(given).unwrap(), want);
        }
    }

    #[test]
    fn options_of_other_launchers_mean_the_same_or_nothing() {
        for (given, want) in [
            ("-np 2 -ppn 2 -l ./a", "-n 2 --ppn 2 --label ./a"),
            ("--npernode 2 -genv A 1 --bind-to core -n 2 ./a", "--ppn 2 -x A=1 --bind core -n 2 ./a"),
            ("-n 4 --map-by ppr:2:node --bind-to=none ./a", "-n 4 --ppn 2 --bind none ./a"),
        ] {
            assert_eq!(line(given).unwrap(), want);
        }
        let said = line("--oversubscribe --mca btl ^tcp -n 2 --bind-to socket ./a").unwrap();
        assert!(said.starts_with("-n 2 ./a --oversubscribe has no effect here: any number"), "{said}");
        assert!(said.contains("--mca btl ^tcp has no effect") && said.contains("--bind-to socket has no"), "{said}");
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_a_remedy() {
        assert!(line("-n 2 --hostfile h ./a").unwrap_err().contains("--cluster FILE"));
        assert!(line("-N 2 ./a").unwrap_err().contains("--ppn K"));
        let said = line("-n 2 --mca btl").unwrap_err();
        assert!(said.contains("needs 2 values") && said.contains("`oshrun --help`"), "{said}");
        assert!(line("-n 1 ./a : -n 1 ./b").unwrap_err().contains("joins several programs"));
        assert!(line("-n 1 -- ./a : -n 1").is_ok() && line("-n 1 ./a : x").is_ok());
    }

    #[test]
    fn unknown_options_name_similar_ones() {
        for (given, want) in
            [("--tours 2 ./a", "--torus"), ("-n 4 --time-out 3 ./a", "--timeout"), ("-n 4 --lable ./a", "--label")]
        {
            let said = line(given).unwrap_err();
            assert!(said.contains(&format!("similar argument exists: '{want}'")), "{said}");
        }
        assert!(line("-n 4 -torus 2x2 ./a").unwrap_err().contains("two dashes: --torus"));
        assert!(line("-n 4 -z ./a").unwrap_err().contains("unexpected argument '-z'"));
    }
}
