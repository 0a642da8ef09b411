//! What a report says, once for terminals and once for browsers.

use super::table::{Table, escaped};
use angara_protocol::print::plain_line;
use std::fmt::Write as _;

/// Looks of pages that are nothing but a document.
const STYLE: &str = "\
:root { color-scheme: light dark; }
body { font: 14px/1.45 system-ui, 'DejaVu Sans', sans-serif; margin: 24px; }
h1 { font-size: 20px; } h2 { font-size: 15px; margin: 22px 0 6px; }
table { border-collapse: collapse; margin: 6px 0; font-variant-numeric: tabular-nums; }
th, td { padding: 1px 14px 1px 0; text-align: left; } th { font-weight: 600; border-bottom: 1px solid #8888; }
.n { text-align: right; } p { margin: 3px 0; } pre { line-height: 1.2; } svg { max-width: 100%; height: auto; }";

/// A piece of a document.
enum Part {
    Heading(String),
    Line(String),
    Table(Table),
    /// Drawn with letters of one width.
    Drawn(String),
    /// Drawn as SVG; nothing in a terminal.
    Picture(String),
}

/// Headings, lines and tables, in order.
#[derive(Default)]
pub struct Document(Vec<Part>);

impl Document {
    /// Begins a section.
    pub fn heading(&mut self, text: impl Into<String>) {
        self.0.push(Part::Heading(text.into()));
    }

    /// A line of text; control characters in it are shown, not obeyed.
    pub fn line(&mut self, text: impl Into<String>) {
        self.0.push(Part::Line(plain_line(&text.into())));
    }

    /// A table, unless it has no rows.
    pub fn table(&mut self, table: Table) {
        if !table.is_empty() {
            self.0.push(Part::Table(table));
        }
    }

    /// Lines whose letters stand one below the other; control characters are the caller's.
    pub fn drawn(&mut self, text: impl Into<String>) {
        self.0.push(Part::Drawn(text.into()));
    }

    /// An SVG document.
    pub fn picture(&mut self, svg: impl Into<String>) {
        self.0.push(Part::Picture(svg.into()));
    }

    /// Adds all of another document.
    pub fn append(&mut self, mut more: Document) {
        self.0.append(&mut more.0);
    }

    /// The document for a terminal; what follows a heading is indented.
    pub fn text(&self) -> String {
        let (mut out, mut indent) = (String::new(), "");
        for part in &self.0 {
            let _ = match part {
                Part::Heading(text) => {
                    indent = "  ";
                    let space = if out.is_empty() { "" } else { "\n" };
                    writeln!(out, "{space}{text}")
                }
                Part::Line(text) => writeln!(out, "{indent}{text}"),
                Part::Table(table) => write!(out, "{}", table.render()),
                Part::Drawn(text) => write!(out, "{text}"),
                Part::Picture(_) => Ok(()),
            };
        }
        out
    }

    /// The same as elements of HTML.
    pub fn html(&self) -> String {
        let mut out = String::new();
        for part in &self.0 {
            let _ = match part {
                Part::Heading(text) => writeln!(out, "<h2>{}</h2>", escaped(text)),
                Part::Line(text) => writeln!(out, "<p>{}</p>", escaped(text)),
                Part::Table(table) => write!(out, "{}", table.html()),
                Part::Drawn(text) => writeln!(out, "<pre>{}</pre>", escaped(text)),
                Part::Picture(svg) => writeln!(out, "{svg}"),
            };
        }
        out
    }

    /// A page that needs no other file and no network.
    pub fn page(&self, title: &str) -> String {
        let title = escaped(&plain_line(title));
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
             <link rel=\"icon\" href=\"data:,\">\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{}</main>\n</body>\n</html>\n",
            self.html()
        )
    }
}

/// `2026-11-29 18:47 UTC` of seconds since 1970.
pub fn date(seconds: u64) -> String {
    let (mut days, minutes) = (seconds / 86_400, seconds % 86_400 / 60);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02} {:02}:{:02} UTC", month + 1, days + 1, minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_html_say_the_same() {
        let mut table = Table::new(&["link", ">flits"]);
        table.row(&["<b>", "7"]);
        let mut document = Document::default();
        document.line("a & b");
        document.heading("Links");
        document.table(table);
        document.line("1 more");
        document.table(Table::new(&["nothing"]));
        assert_eq!(document.text(), "a & b\n\nLinks\n  link flits\n  <b>      7\n  1 more\n");
        let page = document.page("A <script>");
        for part in ["<p>a &amp; b</p>", "<td>&lt;b&gt;</td><td class=\"n\">7</td>", "<title>A &lt;script&gt;</title>"]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("<script") && !page.contains("nothing"), "{page}");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_735_689_599), "2024-12-31 23:59 UTC");
        assert_eq!(date(4_107_542_400), "2100-03-01 00:00 UTC");
    }
}
