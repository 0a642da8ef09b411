//! Reading TOML files so that every complaint names file and line.

use crate::Error;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// A file that was read, kept to find lines in.
#[derive(Clone, Debug)]
pub struct TomlFile {
    /// `None` for settings that a program gives, which have no lines to name.
    path: Option<PathBuf>,
    text: String,
}

impl TomlFile {
    /// Reads `path`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(path: &Path) -> Result<TomlFile, Error> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(TomlFile { path: Some(path.into()), text }),
            Err(source) => Err(Error::File { path: path.into(), source }),
        }
    }

    /// Where it was read; empty for settings that a program gives.
    pub fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new(""))
    }

    /// All of it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Settings that a program gives. Complaints about them name the setting instead of file and line.
    pub fn of(settings: &toml::Table) -> TomlFile {
        TomlFile { path: None, text: settings.to_string() }
    }

    /// The contents as a `T`.
    ///
    /// # Errors
    /// Bad syntax, an unknown key or a bad value, with its line.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        toml::from_str(&self.text).map_err(|e| {
            let line = e.span().map_or(1, |span| self.line_at(span.start));
            let message = e.message().trim_end();
            match (&self.path, self.text.lines().nth(line - 1).and_then(|line| line.split_once('='))) {
                (None, Some((key, _))) => named(key.trim(), message),
                _ => self.error(line, message),
            }
        })
    }

    /// The file with the table `[name]` left empty, all lines in their places.
    pub fn without_table(&self, name: &str) -> TomlFile {
        let header = format!("[{name}]");
        let mut inside = false;
        let keep = |line: &str| {
            if line.trim_start().starts_with('[') {
                inside = line.trim() == header;
            }
            if inside { "\n".to_string() } else { format!("{line}\n") }
        };
        TomlFile { path: self.path.clone(), text: self.text.lines().map(keep).collect() }
    }

    /// `error` with the line of the setting it is about, where it can be told.
    pub fn locate(&self, error: Error, key: Option<&str>) -> Error {
        let (message, remedy, _) = error.parts();
        let text = if remedy.is_empty() { message } else { format!("{message}: {remedy}") };
        if self.path.is_none() {
            return key.map_or(error, |key| named(key, &text));
        }
        let Some(mut line) = key.and_then(|key| self.line_of(key)) else { return error };
        // A list may go on over several lines.
        if let Error::Invalid { value, .. } = &error {
            let rest = self.text.lines().skip(line - 1).enumerate();
            let mut list = rest.take_while(|(i, l)| *i == 0 || l.trim_start().starts_with(['"', '\'']));
            line += list.find(|(_, l)| l.contains(value.as_str())).map_or(0, |(i, _)| i);
        }
        self.error(line, &text)
    }

    /// A complaint about what stands at byte `offset`.
    pub fn error_at(&self, offset: usize, message: &str) -> Error {
        self.error(self.line_at(offset), message)
    }

    /// Line of the setting or table `key`, counted from 1.
    fn line_of(&self, key: &str) -> Option<usize> {
        let sets = |line: &str| {
            line.trim() == format!("[{key}]")
                || line.split_once('=').is_some_and(|(name, _)| name.trim().trim_matches('"') == key)
        };
        self.text.lines().position(sets).map(|i| i + 1)
    }

    fn line_at(&self, offset: usize) -> usize {
        self.text.as_bytes()[..offset.min(self.text.len())].iter().filter(|&&b| b == b'\n').count() + 1
    }

    fn error(&self, line: usize, message: &str) -> Error {
        let message = message.replace('\n', "; ");
        match self.path.clone() {
            Some(path) => Error::Setting { path, line, message },
            None => Error::Network(message),
        }
    }
}

/// A complaint about the setting `key`, which it names.
fn named(key: &str, message: &str) -> Error {
    let message = message.replace('\n', "; ");
    Error::Network(if message.contains(key) { message } else { format!("{key}: {message}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Keys;

    fn parse(text: &str) -> String {
        let file = TomlFile { path: Some("exp.toml".into()), text: text.into() };
        file.parse::<Keys>().unwrap_err().to_string()
    }

    #[test]
    fn unknown_keys_are_refused_with_their_line() {
        let e = parse("load = 0.1\nlode = 0.2\n");
        assert!(e.starts_with("exp.toml:2: unknown field `lode`"), "{e}");
        assert!(e.contains("`load`"), "says what exists: {e}");
    }

    #[test]
    fn bad_values_and_bad_syntax_are_refused_with_their_line() {
        let e = parse("\ntopology = \"torus:8y8\"");
        assert!(e.starts_with("exp.toml:2: topology `torus:8y8`"), "{e}");
        assert!(parse("load = \"much\"").starts_with("exp.toml:1: "));
        assert!(parse("load = 0.1\nseed = = 2").starts_with("exp.toml:2: "));
        let e = parse("length = \"4:0.5\"");
        assert!(e.starts_with("exp.toml:1: ") && e.contains("add up to 0.5"), "{e}");
    }

    #[test]
    fn a_complaint_about_one_of_a_list_finds_its_line() {
        let text = "fault = [\n  \"link 0,0 +X down\",\n  \"node 9,9 down\",\n]\n";
        let file = TomlFile { path: Some("exp.toml".into()), text: text.into() };
        let e = file.locate(Error::invalid("fault", "node 9,9 down", "no such node"), Some("fault"));
        assert!(e.to_string().starts_with("exp.toml:3: "), "{e}");
    }

    #[test]
    fn a_later_complaint_finds_its_line() {
        let file = TomlFile { path: Some("exp.toml".into()), text: "seed = 1\nload = 9.0\n".into() };
        let e = file.locate(Error::invalid("load", 9.0, "give less"), Some("load"));
        assert_eq!(e.to_string(), "exp.toml:2: load is 9: give less");
    }

    #[test]
    fn settings_of_a_program_are_named_instead_of_lines() {
        let refused = |text: &str| {
            let file = TomlFile::of(&text.parse().unwrap());
            match file.parse::<Keys>() {
                Ok(keys) => keys.resolve().map_err(|(e, key)| file.locate(e, Some(key))).unwrap_err().to_string(),
                Err(e) => e.to_string(),
            }
        };
        assert_eq!(refused("load = \"much\""), "load: `much`: give a number such as 0.3, or 30%");
        assert!(refused("topology = \"torus:8y8\"").starts_with("topology `torus:8y8`"));
        assert!(refused("load = 9.0\nrouter = \"generic\"").starts_with("load is 9: a node creates at most"));
        assert!(refused("lode = 1").starts_with("unknown field `lode`"));
    }
}
