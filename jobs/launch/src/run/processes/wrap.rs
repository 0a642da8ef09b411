//! Other commands in front of the program of chosen PEs: `--wrap` and `--debug`.

use crate::run::options::Options;
use angara_control::error::Failed;
use angara_control::program::find_program;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What `--debug` starts a PE in, unless `--wrap` names something else for it.
const DEBUGGER: &str = "gdb -q --args";

/// A command that starts the program of some PEs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrap {
    /// First and last PE of each range.
    pes: Vec<(u32, u32)>,
    /// The program and its arguments follow it. A shell reads it: it may be quoted and hold variables of the PE.
    command: String,
}

impl Wrap {
    /// Reads `2`, `0,4-7` or `all`.
    fn new(pes: &str, command: &str) -> Result<Wrap, String> {
        let bad = || format!("`{pes}` names no PEs; write a number, a list such as 0,4-7, or all");
        let number = |s: &str| s.parse::<u32>().map_err(|_| bad());
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = (number(first)?, number(last)?);
            if range.0 <= range.1 { Ok(range) } else { Err(bad()) }
        };
        let pes = match pes {
            "all" => vec![(0, u32::MAX)],
            list => list.split(',').map(range).collect::<Result<_, _>>()?,
        };
        if command.trim().is_empty() {
            return Err("the command is empty; name one, such as valgrind".into());
        }
        Ok(Wrap { pes, command: command.trim().into() })
    }

    fn holds(&self, pe: u32) -> bool {
        self.pes.iter().any(|(first, last)| (*first..=*last).contains(&pe))
    }

    /// Looks for the command, as far as its first word tells what that is without a shell.
    fn find(&self) -> Result<(), Failed> {
        let first = self.command.split_whitespace().next().unwrap_or_default();
        if !first.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-+./".contains(&b)) {
            return Ok(());
        }
        find_program(&first.into(), std::env::var_os("PATH")).map(drop).map_err(|e| Failed {
            message: format!("cannot start PEs in `{}`: {}", self.command, e.message),
            remedy: if e.code == 127 {
                format!("install {first}, or name another command with --wrap")
            } else {
                e.remedy
            },
            code: e.code,
        })
    }
}

/// Returns what the options ask for, checked; the first one is the outermost.
pub fn of(args: &Options) -> Result<Vec<Wrap>, Failed> {
    let unknown = |option: &str, pe: u32| {
        let last = args.pes - 1;
        Failed::usage(
            format!("{option}: there is no PE {pe}; PEs of this job are 0 to {last}"),
            "name one of these, or raise -n",
        )
    };
    let mut wraps = Vec::new();
    for pair in args.wrap.chunks(2) {
        let [pes, command] = pair else { unreachable!("the option takes two values") };
        let wrap =
            Wrap::new(pes, command).map_err(|e| Failed::usage(format!("--wrap: {e}"), "see `angara run --help`"))?;
        if let Some((_, last)) = wrap.pes.iter().find(|(_, last)| *last >= args.pes && *last != u32::MAX) {
            return Err(unknown("--wrap", *last));
        }
        wraps.push(wrap);
    }
    if let Some(pe) = args.debug {
        if pe >= args.pes {
            return Err(unknown("--debug", pe));
        }
        if !wraps.iter().any(|w| w.holds(pe)) {
            wraps.push(Wrap { pes: vec![(pe, pe)], command: DEBUGGER.into() });
        }
    }
    wraps.iter().try_for_each(Wrap::find)?;
    Ok(wraps)
}

/// Tells whether every command can be found here; an error is for the user of another host.
pub fn check(wraps: &[Wrap], pes: &[u32]) -> Result<(), Failed> {
    wraps.iter().filter(|w| pes.iter().any(|pe| w.holds(*pe))).try_for_each(Wrap::find)
}

/// File and `argv` of `pe`, which are `file` (from the root, as a command may change the directory) and `argv` behind its commands.
pub fn command(wraps: &[Wrap], pe: u32, file: &Path, argv: &[OsString]) -> (PathBuf, Vec<OsString>) {
    let tools: Vec<&str> = wraps.iter().filter(|w| w.holds(pe)).map(|w| &w.command[..]).collect();
    if tools.is_empty() {
        return (file.into(), argv.into());
    }
    let absolute = |f: &Path| std::path::absolute(f).map_or_else(|_| f.into(), PathBuf::into_os_string);
    let line = format!("exec {} \"$@\"", tools.join(" "));
    let mut all: Vec<OsString> = ["sh".into(), "-c".into(), line.into(), "--wrap".into(), absolute(file)].into();
    all.extend_from_slice(&argv[1..]);
    ("/bin/sh".into(), all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pes_are_a_number_a_list_or_all() {
        let holds = |pes: &str| {
            let wrap = Wrap::new(pes, "x").unwrap();
            (0..6).filter(|pe| wrap.holds(*pe)).collect::<Vec<_>>()
        };
        assert_eq!(holds("2"), [2]);
        assert_eq!(holds("0,3-4"), [0, 3, 4]);
        assert_eq!(holds("all"), [0, 1, 2, 3, 4, 5]);
        for bad in ["", "x", "4-3", "1,", "-1", "1-2-3", "ALL"] {
            assert!(Wrap::new(bad, "x").unwrap_err().contains("such as 0,4-7"), "{bad}");
        }
        assert!(Wrap::new("1", " ").unwrap_err().contains("empty"));
    }

    #[test]
    fn commands_stand_before_the_program_of_their_pes() {
        let wraps = [Wrap::new("all", "env A=1").unwrap(), Wrap::new("1", "valgrind -q").unwrap()];
        let argv = ["heat", "-n", "a b"].map(OsString::from);
        let of = |pe| command(&wraps[pe as usize..], pe, Path::new("/a/heat"), &argv);
        assert_eq!(
            of(0),
            (
                "/bin/sh".into(),
                ["sh", "-c", "exec env A=1 \"$@\"", "--wrap", "/a/heat", "-n", "a b"].map(OsString::from).into()
            )
        );
        assert_eq!(command(&wraps, 1, Path::new("h"), &argv).1[2], "exec env A=1 valgrind -q \"$@\"");
        assert_eq!(command(&wraps[1..], 0, Path::new("h"), &argv), ("h".into(), argv.to_vec()));
    }

    #[test]
    fn a_command_that_is_missing_is_named_before_anything_starts() {
        let find = |command: &str| Wrap::new("1", command).unwrap().find();
        let e = find("no-such-tool -q").unwrap_err();
        assert!(
            e.message.contains("no-such-tool -q") && e.remedy.contains("install no-such-tool") && e.code == 127,
            "{e:?}"
        );
        assert_eq!(find("/etc/passwd").unwrap_err().code, 126);
        assert!(find("env A=1").is_ok() && find("$HOME/tool").is_ok());
    }
}
