//! The syntax: `name = value;` with numbers, words and lists in braces, and comments from `//` to the end of a line.

use crate::Error;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Largest file, bytes.
const FILE_MAX: u64 = 1 << 20;

/// A value, and the line on which it stands.
#[derive(Clone, PartialEq, Debug)]
struct Value {
    text: String,
    line: usize,
}

/// The parameters that a configuration gives.
#[derive(Clone, Debug)]
pub(super) struct File {
    path: PathBuf,
    values: BTreeMap<String, Value>,
}

impl File {
    pub(super) fn read(path: &Path) -> Result<File, Error> {
        let failed = |source| Error::File { path: path.into(), source };
        let size = std::fs::metadata(path).map_err(failed)?.len();
        if size > FILE_MAX {
            return Err(wrong(path, 1, format!("{size} bytes; a configuration has at most {FILE_MAX}")));
        }
        File::of(path, &std::fs::read_to_string(path).map_err(failed)?)
    }

    pub(super) fn of(path: &Path, text: &str) -> Result<File, Error> {
        let mut values = BTreeMap::new();
        let mut statement = (String::new(), 0);
        for (line, number) in text.lines().zip(1..) {
            let line = line.split("//").next().unwrap_or("");
            for piece in line.split_inclusive(';') {
                if statement.0.trim().is_empty() {
                    statement = (String::new(), number);
                }
                statement.0.push_str(piece.trim_end_matches(';'));
                statement.0.push(' ');
                if piece.ends_with(';') {
                    let (name, value) = assignment(&statement.0).map_err(|why| wrong(path, statement.1, why))?;
                    // The last one counts, as in BookSim.
                    values.insert(name, Value { text: value, line: statement.1 });
                    statement = (String::new(), number);
                }
            }
        }
        match statement.0.trim() {
            "" => Ok(File { path: path.into(), values }),
            rest => Err(wrong(path, statement.1, format!("`{}` has no `;` at its end", shown(rest)))),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What the file says about `name`.
    pub(super) fn given(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|value| value.text.as_str())
    }

    /// The parameters that it gives.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// A complaint about the parameter `name`, with its line if the file gives it.
    pub(super) fn wrong(&self, name: &str, message: &str) -> Error {
        match self.values.get(name) {
            Some(value) => wrong(&self.path, value.line, format!("{name} = {}: {message}", shown(&value.text))),
            None => wrong(&self.path, 1, format!("{name} is not given: {message}")),
        }
    }
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let remedy = "write `name = value;`, comments from `//`";
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{}`: {remedy}", shown(text)))?;
    let (name, value) = (name.trim(), value.split_whitespace().collect::<String>());
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(format!("`{}` is no name of a parameter: {remedy}", shown(name)));
    }
    if value.is_empty() || value.contains('=') {
        return Err(format!("{name} is `{}`: {remedy}", shown(&value)));
    }
    Ok((name.into(), value))
}

/// The start of a text that may be long or no text at all.
fn shown(text: &str) -> String {
    let text = text.trim();
    let start: String = text.chars().take(60).collect();
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("{}{more}", start.escape_debug())
}

fn wrong(path: &Path, line: usize, message: String) -> Error {
    Error::Setting { path: path.into(), line, message }
}
