//! Plain-text tables and numbers for people.

/// Columns of the terminal that standard output goes to, else what `COLUMNS` says; `None` if lines may be of any length.
pub fn terminal_width() -> Option<usize> {
    let terminal = rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
    let said = || std::env::var("COLUMNS").ok()?.parse().ok();
    // Some terminals do not know their size; none is too narrow for a key and one number.
    terminal.filter(|columns| *columns > 0).or_else(said).map(|columns| columns.max(40))
}

/// `12 s`, `3 min`, `5.2 h`.
pub fn age(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// A duration with the unit that suits it: `647.507 us`, `12.345 ms`, `1.250 s`.
pub fn duration(seconds: f64) -> String {
    match seconds {
        0.0 => "0 s".into(),
        s if s < 0.999_999_5e-6 => format!("{:.3} ns", s * 1e9),
        s if s < 0.999_999_5e-3 => format!("{:.3} us", s * 1e6),
        s if s < 0.999_999_5 => format!("{:.3} ms", s * 1e3),
        s if s < 120.0 => format!("{s:.3} s"),
        s if s < 7200.0 => format!("{:.1} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// The unit of a table's times.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Unit {
    /// `us`.
    pub name: &'static str,
    /// Picoseconds.
    ps: f64,
    /// Digits behind the point: down to a few nanoseconds.
    places: usize,
}

impl Unit {
    /// The one for a table whose longest time is this: microseconds of short runs, then milliseconds and seconds.
    pub fn of(longest_ps: u64) -> Unit {
        match longest_ps {
            0..10_000_000_000 => Unit { name: "us", ps: 1e6, places: 3 },
            10_000_000_000..10_000_000_000_000 => Unit { name: "ms", ps: 1e9, places: 5 },
            _ => Unit { name: "s", ps: 1e12, places: 7 },
        }
    }

    /// Picoseconds in this unit.
    pub fn scaled(&self, ps: f64) -> f64 {
        ps / self.ps
    }

    /// The number alone.
    pub fn show(&self, ps: u64) -> String {
        format!("{:.*}", self.places, self.scaled(ps as f64))
    }
}

/// A table with left- or right-aligned columns.
pub struct Table {
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
    /// Columns that say what a row is about.
    keys: usize,
}

impl Table {
    /// Column titles; a leading `>` makes a column right-aligned. The first one says what a row is about.
    pub fn new(titles: &[&str]) -> Table {
        let right = titles.iter().map(|t| t.starts_with('>')).collect();
        let titles = titles.iter().map(|t| t.trim_start_matches('>').to_string()).collect();
        Table { right, rows: vec![titles], keys: 1 }
    }
    /// N columns say what a row is about.
    pub fn keys(mut self, keys: usize) -> Table {
        self.keys = keys;
        self
    }
    /// Adds a row of as many cells as there are titles; control characters in them are shown, not obeyed.
    pub fn row<S: ToString>(&mut self, cells: &[S]) {
        assert_eq!(cells.len(), self.right.len(), "a row has as many cells as the table has titles");
        self.rows.push(cells.iter().map(|cell| angara_protocol::print::plain_line(&cell.to_string())).collect());
    }
    /// No rows below the titles.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }
    /// The text, each line ended, indented by two spaces, no wider than the terminal.
    pub fn render(&self) -> String {
        self.render_within(terminal_width())
    }

    /// The same as an element of HTML, with all columns.
    pub fn html(&self) -> String {
        let mut out = String::from("<table>\n");
        for (i, row) in self.rows.iter().enumerate() {
            out.push_str("<tr>");
            for (cell, right) in row.iter().zip(&self.right) {
                // An empty heading would be read aloud as one.
                let kind = if i == 0 && !cell.is_empty() { "th" } else { "td" };
                let class = if *right { " class=\"n\"" } else { "" };
                out.push_str(&format!("<{kind}{class}>{}</{kind}>", escaped(cell)));
            }
            out.push_str("</tr>\n");
        }
        out + "</table>\n"
    }

    /// As [`Table::render`]. Columns without anything but zeros go first; what then is still too wide becomes
    /// several tables, each with the columns that say what a row is about.
    fn render_within(&self, limit: Option<usize>) -> String {
        let width: Vec<usize> =
            (0..self.right.len()).map(|c| self.rows.iter().map(|r| r[c].chars().count()).max().unwrap_or(0)).collect();
        let needs = |columns: &[usize]| 1 + columns.iter().map(|c| width[*c] + 1).sum::<usize>();
        let all: Vec<usize> = (0..self.right.len()).collect();
        let Some(limit) = limit.filter(|limit| needs(&all) > *limit) else { return self.columns(&all, &width) };
        let zero = |c: usize| c >= self.keys && !self.is_empty() && self.rows[1..].iter().all(|r| r[c] == "0");
        let (idle, busy): (Vec<usize>, Vec<usize>) = all.into_iter().partition(|c| zero(*c));
        let keys: Vec<usize> = (0..self.keys).collect();
        let mut blocks = vec![keys.clone()];
        for column in busy.into_iter().skip(self.keys) {
            let last = blocks.last_mut().expect("never empty");
            last.push(column);
            if last.len() > self.keys + 1 && needs(last) > limit {
                last.pop();
                blocks.push([&keys[..], &[column]].concat());
            }
        }
        let blocks: Vec<String> = blocks.iter().map(|columns| self.columns(columns, &width)).collect();
        let mut out = blocks.join("\n");
        if !idle.is_empty() {
            let names: Vec<&str> = idle.iter().map(|c| &self.rows[0][*c][..]).collect();
            out.push_str(&format!("  (0 everywhere: {})\n", names.join(", ")));
        }
        out
    }

    fn columns(&self, columns: &[usize], width: &[usize]) -> String {
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::from(" ");
            for &c in columns {
                let cell = &row[c];
                let pad = " ".repeat(width[c] - cell.chars().count());
                line.push(' ');
                line.push_str(&if self.right[c] { format!("{pad}{cell}") } else { format!("{cell}{pad}") });
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// Text as HTML shows it.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// A count with thousands separated: `12 345`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

/// At most five characters: `999`, `12.3k`, `4.5M`.
pub fn short(n: u64) -> String {
    let mut value = n as f64;
    for unit in ["", "k", "M", "G", "T", "P"] {
        if value < 999.5 || unit == "P" {
            return match unit {
                "" => n.to_string(),
                _ if value < 99.95 => format!("{value:.1}{unit}"),
                _ => format!("{value:.0}{unit}"),
            };
        }
        value /= 1000.0;
    }
    unreachable!("the last unit always returns")
}

/// Bytes with a binary unit: `64 MiB`.
pub fn bytes(n: u64) -> String {
    let mut value = n as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 || unit == "TiB" {
            return if value.fract() == 0.0 { format!("{value} {unit}") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    unreachable!("the last unit always returns")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut t = Table::new(&["link", ">flits"]);
        t.row(&["0,0 +X", "7"]);
        t.row(&["1,0 -X", "1 000"]);
        assert_eq!(t.render_within(None), "  link   flits\n  0,0 +X     7\n  1,0 -X 1 000\n");
    }

    #[test]
    fn names_of_other_users_do_not_reach_the_terminal_as_they_are() {
        let mut t = Table::new(&["name", ">PEs"]);
        t.row(&["a\x1b[2J\nb", "7"]);
        assert_eq!(t.render_within(None), "  name          PEs\n  a\\u{1b}[2J\\nb   7\n");
    }

    #[test]
    fn wide_tables_are_cut_between_columns_and_lose_nothing_but_zeros() {
        let mut t = Table::new(&["link", ">packets", ">crc", ">flits", "state"]);
        t.row(&["0,0 +X", "7", "0", "21", "up"]);
        t.row(&["1,0 -X", "1", "0", "3", "down"]);
        assert_eq!(t.render_within(Some(32)), t.render_within(None));
        assert_eq!(
            t.render_within(Some(31)),
            "  link   packets flits state\n  0,0 +X       7    21 up\n  1,0 -X       1     3 down\n  (0 everywhere: crc)\n"
        );
        assert_eq!(
            t.render_within(Some(24)),
            "  link   packets flits\n  0,0 +X       7    21\n  1,0 -X       1     3\n\n\
             \x20 link   state\n  0,0 +X up\n  1,0 -X down\n  (0 everywhere: crc)\n"
        );
        // Never nothing, however narrow.
        assert!(t.render_within(Some(1)).contains("packets"));
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(count(1234567), "1 234 567");
        assert_eq!(count(7), "7");
        assert_eq!(
            (short(999), short(1000), short(12_345), short(999_600)),
            ("999".into(), "1.0k".into(), "12.3k".into(), "1.0M".into())
        );
        let times = [0.0, 129e-9, 647.507e-6, 0.9999999, 1.25, 7200.0].map(duration);
        assert_eq!(times, ["0 s", "129.000 ns", "647.507 us", "1.000 s", "1.250 s", "2.0 h"]);
        let unit = |ps| format!("{} {}", Unit::of(ps).show(ps), Unit::of(ps).name);
        assert_eq!([647_507_000, 12_345_678_000].map(unit), ["647.507 us", "12.34568 ms"]);
        assert_eq!((bytes(64 << 20), bytes(1536)), ("64 MiB".into(), "1.5 KiB".into()));
    }
}
