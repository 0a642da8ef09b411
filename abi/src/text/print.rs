//! What programs say on standard output and error.
//!
//! `println!` panics when nobody reads any more or the disk is full. Every program here prints through these
//! instead: a result that cannot be written is an error of the command, a complaint that cannot be written is lost.

use std::borrow::Cow;
use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

/// Writes `text` to standard output, all of it before this returns. A reader that has seen enough, such as `head`, is
/// no error.
///
/// # Errors
/// What the system said: a full disk, for one.
pub fn out(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(e),
        _ => Ok(()),
    }
}

/// `text` for a terminal, whoever wrote it: other users choose names and reasons, and a control character among them
/// could move the cursor, clear the screen or forge lines. Each is shown as Rust writes it (`\u{1b}`), except the end of
/// a line and the tabulator.
pub fn plain(text: &str) -> Cow<'_, str> {
    let harmful = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(harmful) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match harmful(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// As [`plain`], on one line.
pub fn plain_line(text: &str) -> String {
    plain(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// Writes a line to standard error, if that takes it and as [`plain`] shows it; see [`crate::complain`].
pub fn err(line: Arguments<'_>) {
    // In one piece, so that lines of several processes do not mix. Nobody is left to be told of a failure.
    let _ = io::stderr().lock().write_all(plain(&format!("{line}\n")).as_bytes());
}

/// `eprintln!` that never panics.
#[macro_export]
macro_rules! complain {
    ($($text:tt)*) => {
        $crate::print::err(format_args!($($text)*))
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_not_obeyed() {
        assert_eq!(plain("\x1b[2Ja\u{9b}31mb\r\x07c\n\td\x7f"), "\\u{1b}[2Ja\\u{9b}31mb\\r\\u{7}c\n\td\\u{7f}");
        assert_eq!(plain_line("one\ntwo\x1b"), "one\\ntwo\\u{1b}");
        assert!(matches!(plain("größe → 2×2\n"), Cow::Borrowed(_)));
    }
}
