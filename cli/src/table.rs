//! Plain-text tables and numbers for people.

/// A table with left- or right-aligned columns.
pub(crate) struct Table {
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Column titles; a leading `>` makes a column right-aligned.
    pub(crate) fn new(titles: &[&str]) -> Table {
        let right = titles.iter().map(|t| t.starts_with('>')).collect();
        let titles = titles.iter().map(|t| t.trim_start_matches('>').to_string()).collect();
        Table { right, rows: vec![titles] }
    }
    /// Adds a row of as many cells as there are titles.
    pub(crate) fn row<S: ToString>(&mut self, cells: &[S]) {
        assert_eq!(cells.len(), self.right.len(), "a row has as many cells as the table has titles");
        self.rows.push(cells.iter().map(S::to_string).collect());
    }
    /// Rows below the titles.
    pub(crate) fn len(&self) -> usize {
        self.rows.len() - 1
    }
    /// The text, each line ended, indented by two spaces.
    pub(crate) fn render(&self) -> String {
        let width: Vec<usize> =
            (0..self.right.len()).map(|c| self.rows.iter().map(|r| r[c].chars().count()).max().unwrap_or(0)).collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::from(" ");
            for (c, cell) in row.iter().enumerate() {
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

/// A count with thousands separated: `12 345`.
pub(crate) fn count(n: u64) -> String {
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
pub(crate) fn short(n: u64) -> String {
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
pub(crate) fn bytes(n: u64) -> String {
    let mut value = n as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 || unit == "TiB" {
            return if value.fract() == 0.0 { format!("{value} {unit}") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    unreachable!("the last unit always returns")
}

/// Numbers as ranges: `0-3,7`.
pub(crate) fn ranges(sorted: &[u32]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut t = Table::new(&["link", ">flits"]);
        t.row(&["0,0 +X", "7"]);
        t.row(&["1,0 -X", "1 000"]);
        assert_eq!(t.render(), "  link   flits\n  0,0 +X     7\n  1,0 -X 1 000\n");
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(count(1234567), "1 234 567");
        assert_eq!(count(7), "7");
        assert_eq!(
            (short(999), short(1000), short(12_345), short(999_600)),
            ("999".into(), "1.0k".into(), "12.3k".into(), "1.0M".into())
        );
        assert_eq!((bytes(64 << 20), bytes(1536)), ("64 MiB".into(), "1.5 KiB".into()));
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(ranges(&[]), "");
    }
}
