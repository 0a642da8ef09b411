//! Files of traffic: lines of words, with comments.

use crate::Error;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

/// A file as it was read. Two are the same if path and contents are.
#[derive(Clone, PartialEq)]
pub struct TextFile {
    path: PathBuf,
    text: Arc<str>,
}

/// Path and a digest of the contents: what tells one file from another in the identity of a sweep.
impl fmt::Debug for TextFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hasher = DefaultHasher::new();
        self.text.hash(&mut hasher);
        write!(f, "{} {:016x}", self.path.display(), hasher.finish())
    }
}

impl fmt::Display for TextFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

impl TextFile {
    /// Reads the file that the setting `what`, given as `value`, names as `path`.
    ///
    /// # Errors
    /// It cannot be read, or it is compressed.
    pub fn read(what: &str, value: &str, path: &str) -> Result<TextFile, Error> {
        if path.is_empty() {
            return Err(Error::invalid(what, value, "give the path of a file"));
        }
        let bytes = std::fs::read(path)
            .map_err(|e| Error::invalid(what, value, format!("{path} cannot be read ({e}); give a file that can")))?;
        if bytes.starts_with(&[0x1f, 0x8b]) || bytes.starts_with(b"BZh") {
            return Err(Error::invalid(what, value, format!("{path} is compressed; unpack it first")));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(TextFile { path: path.into(), text: text.into() }),
            Err(_) => Err(Error::invalid(what, value, format!("{path} is no text; give a file of numbers"))),
        }
    }

    /// A file that is part of the program.
    pub fn of(path: &str, text: &str) -> TextFile {
        TextFile { path: path.into(), text: text.into() }
    }

    /// Contents.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Number and words of every line that has any. `#` and `%` begin a comment; words are separated by
    /// blanks or commas.
    pub fn lines(&self) -> impl Iterator<Item = (usize, impl Iterator<Item = &str>)> {
        let words = |line| {
            let bare = str::split(line, ['#', '%']).next().unwrap_or_default();
            bare.split([',', ' ', '\t', '\r']).filter(|word| !word.is_empty())
        };
        let lines = (1..).zip(self.text.lines()).map(move |(number, line)| (number, words(line)));
        lines.filter(|(_, words)| words.clone().next().is_some())
    }

    /// A complaint about line `line`.
    pub fn wrong(&self, line: usize, message: impl Into<String>) -> Error {
        Error::Line { path: self.path.clone(), line, message: message.into() }
    }

    /// A rate, in line `line`.
    ///
    /// # Errors
    /// Not a number, negative or infinite.
    pub fn rate(&self, line: usize, word: &str) -> Result<f64, Error> {
        let rate = word.parse::<f64>().ok().filter(|rate| *rate >= 0.0 && rate.is_finite());
        rate.ok_or_else(|| self.wrong(line, format!("`{word}` is no rate; give a number that is at least 0")))
    }

    /// The number of one of `count` ranks, in line `line`.
    ///
    /// # Errors
    /// No whole number, or beyond the last rank.
    pub fn rank(&self, line: usize, what: &str, word: &str, count: u32) -> Result<u32, Error> {
        self.number_of(line, what, word, (count, "nodes"))
    }

    /// The number of one of so many of a kind, such as nodes, in line `line`.
    pub(crate) fn number_of(
        &self,
        line: usize,
        what: &str,
        word: &str,
        (count, kind): (u32, &str),
    ) -> Result<u32, Error> {
        let have = if kind == "nodes" { "the network has" } else { "there are" };
        let number = word.parse().ok().filter(|number| *number < count);
        let why = || format!("`{word}` is no {what}; {have} {kind} 0 to {}", count.saturating_sub(1));
        number.ok_or_else(|| self.wrong(line, why()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_words_and_no_comments() {
        let file = TextFile::of("m", "1, 2\t3\r\n\n# all comment\n% so is this\n4 # rest\n");
        let lines: Vec<(usize, Vec<&str>)> = file.lines().map(|(n, words)| (n, words.collect())).collect();
        assert_eq!(lines, [(1, vec!["1", "2", "3"]), (5, vec!["4"])]);
    }

    #[test]
    fn files_with_other_contents_are_told_apart() {
        let show = |text| format!("{:?}", TextFile::of("m", text));
        assert_eq!(show("1 2"), show("1 2"));
        assert_ne!(show("1 2"), show("1 3"));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let refused = |path| TextFile::read("pattern", "matrix:x", path).unwrap_err().to_string();
        assert!(refused("").contains("pattern is matrix:x: give the path"));
        assert!(refused("/nonexistent/m").contains("/nonexistent/m cannot be read (No such file"));
    }
}
