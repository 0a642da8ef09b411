//! Mistakes of a first hour at the launcher: what somebody may have meant whose command line lacks a word, or has it elsewhere.

use angara_cluster::usage::{advise, helpful};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use std::ffi::OsString;
use std::path::Path;

/// The parser's error about `line`, the whole command line of `launcher`, with what to write instead.
pub(crate) fn told(error: Error, command: &Command, launcher: &str, line: &[OsString]) -> Error {
    let mut error = helpful(error, command);
    let tip = match error.kind() {
        ErrorKind::MissingRequiredArgument => missing(&error, launcher, line),
        ErrorKind::InvalidSubcommand => program(line),
        ErrorKind::UnknownArgument => option_of_run(&error, command),
        _ => None,
    };
    if let Some(tip) = tip {
        advise(&mut error, tip);
    }
    error
}

/// What is missing of a launcher's line.
fn missing(error: &Error, launcher: &str, line: &[OsString]) -> Option<String> {
    let Some(ContextValue::Strings(wanted)) = error.get(ContextKind::InvalidArg) else { return None };
    let wants = |name: &str| wanted.iter().any(|one| one.starts_with(name));
    let has = |word: &str| line.iter().any(|one| one.as_encoded_bytes().starts_with(word.as_bytes()));
    let shown = launcher.to_string();
    Some(if wants("--np") && (has("-n") || has("--np")) {
        format!("options go before the program: {shown} -n 4 ./hello")
    } else if wants("--np") {
        format!("say how many processes there are: {shown} -n 4 ./hello")
    } else if wants("<PROG") && has("--wrap") {
        format!("--wrap takes two words, PES and COMMAND: {shown} -n 4 --wrap 0 valgrind ./hello")
    } else if wants("<PROG") {
        format!("name the program after the options: {shown} -n 4 ./hello")
    } else if wants("--trace") && has("--trace-links") {
        "--trace-links is about a timeline: add --trace FILE, or leave --trace-links out".into()
    } else if wants("--web") && has("--web-stay") {
        "--web-stay is about a page: add --web, or leave --web-stay out".into()
    } else {
        return None;
    })
}

/// A program where a subcommand should be.
fn program(line: &[OsString]) -> Option<String> {
    let word = line.get(1)?;
    let is_path = word.as_encoded_bytes().contains(&b'/') || Path::new(word).is_file();
    is_path.then(|| format!("to run a program, write angara run -n 4 {}", word.display()))
}

/// An option of `angara run` where a subcommand should be.
fn option_of_run(error: &Error, command: &Command) -> Option<String> {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return None };
    let run = command.find_subcommand("run")?;
    let at_top = error.get(ContextKind::Usage).is_some_and(|usage| usage.to_string().contains("<COMMAND>"));
    let name = given.split(['=', ' ']).next().unwrap_or_default();
    let known = run.get_arguments().any(|arg| {
        arg.get_long().is_some_and(|long| name == format!("--{long}"))
            || arg.get_short().is_some_and(|short| name == format!("-{short}"))
    });
    (at_top && known).then(|| format!("{name} is an option of `angara run`: angara run {name} …"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &[&str]) -> String {
        let line: Vec<OsString> = words.iter().map(OsString::from).collect();
        let mut command = crate::angara();
        command.build();
        let error = command.try_get_matches_from_mut(&line).expect_err("a mistake");
        told(error, &command, "angara run", &line).to_string()
    }

    #[test]
    fn a_line_that_lacks_a_word_is_told_which() {
        for (words, tip) in [
            (&["angara", "run"][..], "say how many processes"),
            (&["angara", "run", "./a", "-n", "4"], "options go before the program"),
            (&["angara", "run", "-n", "4"], "name the program after the options"),
            (&["angara", "run", "-n", "4", "--wrap", "valgrind", "./a"], "two words, PES and COMMAND"),
            (&["angara", "run", "-n", "4", "--trace-links", "./a"], "add --trace FILE"),
            (&["angara", "run", "-n", "4", "--web-stay", "no", "./a"], "add --web,"),
            (&["angara", "./a"], "angara run -n 4 ./a"),
            (&["angara", "-n", "4", "./a"], "-n is an option of `angara run`"),
            (&["angara", "--torus", "4x4"], "--torus is an option of `angara run`"),
        ] {
            assert!(said(words).contains(tip), "{words:?}: {}", said(words));
        }
        assert!(!said(&["angara", "fault"]).contains("tip:"), "{}", said(&["angara", "fault"]));
    }
}
