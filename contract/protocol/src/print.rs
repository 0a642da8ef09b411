//! Output of programs on standard output and error.
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
/// The system's error: a full disk, for one.
pub fn out(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(e),
        _ => Ok(()),
    }
}

/// A character that a terminal may obey instead of showing it, or that makes a line look like another one: control
/// characters, the ends of lines and paragraphs that only Unicode knows, marks that turn the direction of text around, and
/// those that nobody sees. The joiners of Persian, Indic scripts and emoji (U+200C, U+200D) belong to their words.
fn harmful(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Direction of text.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Ends of lines and paragraphs.
            | '\u{2028}' | '\u{2029}'
            // Without width: spaces, operators, what was withdrawn, annotations, tags.
            | '\u{ad}' | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// `text` with every harmful character but the `kept` ones as `show` has it.
fn shown(text: &str, kept: &[char], show: impl Fn(&mut String, char)) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match harmful(c) && !kept.contains(&c) {
            true => show(&mut out, c),
            false => out.push(c),
        }
    }
    out
}

/// True if there is anything that must not be shown as it is.
fn is_harmless(text: &str, kept: &[char]) -> bool {
    !text.contains(|c| harmful(c) && !kept.contains(&c))
}

/// `text` for a terminal, whoever wrote it: other users choose names and reasons, and a control character among them
/// could move the cursor, clear the screen or forge lines. Each is shown as Rust writes it (`\u{1b}`), and so is what turns
/// the direction of text around or cannot be seen. The end of a line and the tabulator stay.
pub fn plain(text: &str) -> Cow<'_, str> {
    let kept = ['\n', '\t'];
    match is_harmless(text, &kept) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(shown(text, &kept, |out, c| out.extend(c.escape_default()))),
    }
}

/// As [`plain`], on one line.
pub fn plain_line(text: &str) -> String {
    shown(text, &[], |out, c| out.extend(c.escape_default()))
}

/// JSON for a terminal: equal JSON in which what [`plain`] shows is written by number. (Outside of strings JSON has none of it.)
pub fn plain_json(text: &str) -> Cow<'_, str> {
    let kept = ['\n', '\t', '\r'];
    let by_number = |out: &mut String, c: char| {
        c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
    };
    match is_harmless(text, &kept) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(shown(text, &kept, by_number)),
    }
}

/// A cell of CSV: in quotes where it has a comma, a quote or a space at an end, and never a formula for a spreadsheet. One
/// that begins like a formula gets an apostrophe before it, a number excepted.
pub fn csv_cell(text: &str) -> String {
    let mut cell = plain_line(text);
    if cell.len() > 1 && cell.starts_with(['=', '+', '-', '@']) && cell.parse::<f64>().is_err() {
        cell.insert(0, '\'');
    }
    match cell.contains([',', '"', ';']) || cell.trim() != cell {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    }
}

/// Numbers as ranges: `0-3,7`.
pub fn ranges(sorted: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &n in sorted {
        match parts.last_mut() {
            Some(last) if last.1 + 1 == n => last.1 = n,
            _ => parts.push((n, n)),
        }
    }
    let text = |&(a, b): &(u32, u32)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}

/// "PE 3", "PEs 0-2,7".
pub fn show_pes(pes: &[u32]) -> String {
    format!("PE{} {}", if pes.len() == 1 { "" } else { "s" }, ranges(pes))
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
    fn numbers_in_a_row_are_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!((ranges(&[]), show_pes(&[3]), show_pes(&[0, 1])), ("".into(), "PE 3".into(), "PEs 0-1".into()));
    }

    #[test]
    fn control_characters_are_shown_not_obeyed() {
        assert_eq!(plain("\x1b[2Ja\u{9b}31mb\r\x07c\n\td\x7f"), "\\u{1b}[2Ja\\u{9b}31mb\\r\\u{7}c\n\td\\u{7f}");
        assert_eq!(plain_line("one\ntwo\x1b\t"), "one\\ntwo\\u{1b}\\t");
        assert!(matches!(plain("größe → 2×2\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn what_turns_text_around_or_hides_is_shown() {
        assert_eq!(plain("a\u{202e}gpj.exe"), "a\\u{202e}gpj.exe");
        for c in "\u{61c}\u{200b}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{2066}\u{2069}\u{feff}\u{e0041}".chars() {
            assert_eq!(plain_line(&format!("a{c}b")), format!("a\\u{{{:x}}}b", c as u32));
        }
        // Words that need a joiner, and scripts that run from right to left by themselves.
        for word in ["می\u{200c}خواهم", "👩\u{200d}🔬", "שלום", "größe"] {
            assert_eq!(plain_line(word), word);
        }
    }

    #[test]
    fn json_keeps_its_meaning() {
        let text = "{\n\t\"a\": \"x\u{202e}\u{9b}\u{7f}\u{e0041}\"}\r\n";
        assert_eq!(plain_json(text), "{\n\t\"a\": \"x\\u202e\\u009b\\u007f\\udb40\\udc41\"}\r\n");
        assert!(matches!(plain_json("{\"größe\": 1}\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_cell_is_one_cell_and_no_formula() {
        for (text, cell) in [
            ("shmem_put", "shmem_put"),
            ("a,b", "\"a,b\""),
            ("a\"b", "\"a\"\"b\""),
            ("two\nlines", "two\\nlines"),
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("+1+1", "'+1+1"),
            ("-X", "'-X"),
            ("@SUM(A1,A2)", "\"'@SUM(A1,A2)\""),
            ("\t=1", "\\t=1"),
            ("-1.5", "-1.5"),
            ("-", "-"),
            (" x", "\" x\""),
            ("", ""),
        ] {
            assert_eq!(csv_cell(text), cell, "{text:?}");
        }
    }
}
