//! Mistakes in command lines: the parser's own words, with more help where they have little and less where they mislead.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use std::error::Error as _;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

/// The error of `command`'s parser as it is to be shown.
pub fn helpful(error: Error, command: &Command) -> Error {
    match error.kind() {
        ErrorKind::UnknownArgument => without_wild_option(error, command),
        ErrorKind::InvalidSubcommand => with_likely_commands(error, command),
        ErrorKind::ArgumentConflict => told(error, "leave one of them out"),
        ErrorKind::InvalidValue => with_missing_value(error),
        ErrorKind::ValueValidation => match tip(&error) {
            Some(tip) => with_tip(&error, command, tip),
            None => error,
        },
        _ => error,
    }
}

/// Adds what to do to an error.
pub fn advise(error: &mut Error, tip: impl Into<String>) {
    let mut tips = match error.get(ContextKind::Suggested) {
        Some(ContextValue::StyledStrs(tips)) => tips.clone(),
        _ => Vec::new(),
    };
    tips.push(StyledStr::from(tip.into()));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
}

/// Says what to do in place of what the parser says of it.
pub fn instead(error: &mut Error, tip: impl Into<String>) {
    error.remove(ContextKind::Suggested);
    error.remove(ContextKind::SuggestedArg);
    advise(error, tip);
}

fn told(mut error: Error, tip: &str) -> Error {
    advise(&mut error, tip);
    error
}

/// An option without its value.
fn with_missing_value(error: Error) -> Error {
    let missing = matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value)) if value.is_empty());
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg).filter(|_| missing) else {
        return error;
    };
    let tip = format!("write the value behind the option: {option}");
    told(error, &tip)
}

/// Without a similar option that is hardly similar. The line about usage names that option alone: it becomes the usual one.
fn without_wild_option(mut error: Error, command: &Command) -> Error {
    let name = |kind| match error.get(kind) {
        Some(ContextValue::String(option)) => option.trim_start_matches('-').split(['=', ' ']).next(),
        _ => None,
    };
    let wild = name(ContextKind::InvalidArg)
        .zip(name(ContextKind::SuggestedArg))
        .is_some_and(|(given, guess)| !similar(given, guess));
    if wild {
        error.remove(ContextKind::SuggestedArg);
        if let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) {
            let usual = called(command, &usage.to_string()).clone().render_usage();
            error.insert(ContextKind::Usage, ContextValue::StyledStr(usual));
        }
    }
    error
}

/// The command that a line about usage is for: `Usage: angara sim run …` that of `run` below `sim`.
fn called<'c>(command: &'c Command, usage: &str) -> &'c Command {
    let mut words = usage.split_whitespace().skip(2);
    let mut called = command;
    while let Some(sub) = words.next().and_then(|word| called.find_subcommand(word)) {
        called = sub;
    }
    called
}

/// With the commands that are similar, and no others. If there are none, it says where all are listed.
fn with_likely_commands(mut error: Error, command: &Command) -> Error {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    let usage = error.get(ContextKind::Usage).map(|usage| usage.to_string()).unwrap_or_default();
    let called = called(command, &usage);
    let names = called.get_subcommands().map(|sub| sub.get_name().to_string());
    let good: Vec<String> = names.filter(|name| similar(given, name)).collect();
    if good.is_empty() {
        error.remove(ContextKind::SuggestedSubcommand);
        let tip = format!("`{} --help` lists all commands", called.get_bin_name().unwrap_or(called.get_name()));
        return told(error, &tip);
    }
    error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(good));
    error
}

/// True if one of the words may have been to be the other.
fn similar(given: &str, guess: &str) -> bool {
    given.starts_with(guess) || guess.starts_with(given) || 3 * strsim::osa_distance(given, guess) <= guess.len()
}

/// Returns what to give where a number is wanted: the standard library's errors do not say it.
fn tip(error: &Error) -> Option<&'static str> {
    let source = error.source()?;
    if source.is::<ParseFloatError>() {
        return Some("give a number, such as 0.5");
    }
    Some(match source.downcast_ref::<ParseIntError>()?.kind() {
        IntErrorKind::PosOverflow => "give a smaller number",
        _ => "give a whole number, such as 4",
    })
}

/// The same error with a tip in place of its source.
fn with_tip(error: &Error, command: &Command, tip: &'static str) -> Error {
    let mut told = Error::new(ErrorKind::InvalidValue).with_cmd(command);
    for kind in [ContextKind::InvalidArg, ContextKind::InvalidValue] {
        if let Some(value) = error.get(kind) {
            told.insert(kind, value.clone());
        }
    }
    told.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;
    use clap::CommandFactory;

    fn said(words: &[&str]) -> String {
        let mut command = Args::command();
        let error = command.try_get_matches_from_mut([&["fabricd"], words].concat()).expect_err("a mistake");
        let error = helpful(error, &command);
        assert_eq!(error.exit_code(), 2, "{words:?}");
        error.to_string()
    }

    #[test]
    fn only_similar_options_are_suggested() {
        for (given, similar) in [("--torsu", "--torus"), ("--check", "--check-config"), ("--metric=a", "--metrics")] {
            let said = said(&[given]);
            assert!(said.contains(&format!("a similar argument exists: '{similar}'")), "{said}");
        }
        let said = said(&["--bogus"]);
        assert!(said.contains("unexpected argument '--bogus'") && said.contains("try '--help'"), "{said}");
        assert!(!said.contains("torus"), "{said}");
    }

    #[test]
    fn a_value_that_is_no_number_is_told_what_is_wanted() {
        for (words, tip) in [
            (["--seed", "abc"], "give a whole number, such as 4"),
            (["--seed", "99999999999999999999"], "give a smaller number"),
            (["--call-cost", "abc"], "give a number, such as 0.5"),
        ] {
            let said = said(&words);
            let value = format!("invalid value '{}' for '{} <", words[1], words[0]);
            assert!(said.contains(&value) && said.contains(&format!("tip: {tip}\n")), "{said}");
            assert!(said.contains("try '--help'") && !said.contains("invalid digit"), "{said}");
        }
        assert!(said(&["--channels", "70000"]).contains("70000 is not in"), "the parser's own word");
    }
}
