//! Plain-text tables for people.

/// A table with left- or right-aligned columns.
pub struct Table {
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Column titles; a leading `>` makes a column right-aligned.
    pub fn new(titles: &[&str]) -> Table {
        let right = titles.iter().map(|t| t.starts_with('>')).collect();
        Table { right, rows: vec![titles.iter().map(|t| t.trim_start_matches('>').to_string()).collect()] }
    }

    /// Adds a row of as many cells as there are titles.
    pub fn row<S: ToString>(&mut self, cells: &[S]) {
        assert_eq!(cells.len(), self.right.len(), "a row has as many cells as the table has titles");
        self.rows.push(cells.iter().map(S::to_string).collect());
    }

    /// The text, each line ended and indented by two spaces.
    pub fn render(&self) -> String {
        let width: Vec<usize> =
            (0..self.right.len()).map(|c| self.rows.iter().map(|r| r[c].chars().count()).max().unwrap_or(0)).collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::from(" ");
            for (c, cell) in row.iter().enumerate() {
                let pad = " ".repeat(width[c] - cell.chars().count());
                line.push_str(&if self.right[c] { format!("  {pad}{cell}") } else { format!("  {cell}{pad}") });
            }
            out.push_str(line[1..].trim_end());
            out.push('\n');
        }
        out
    }
}

/// A number in at most about `digits` significant digits, without an exponent where readable.
pub fn number(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return "0".into();
    }
    if !value.is_finite() {
        return value.to_string();
    }
    let magnitude = value.abs().log10().floor() as i32;
    if !(-4..=9).contains(&magnitude) {
        return format!("{value:.*e}", digits.saturating_sub(1));
    }
    let places = (digits as i32 - 1 - magnitude).max(0) as usize;
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// `5` or, where it is not whole, `2.5`; with a binary prefix from 1024 on: `128Ki`.
pub fn binary(value: f64) -> String {
    let mut scaled = value;
    for unit in ["", "Ki", "Mi", "Gi", "Ti"] {
        if scaled < 1024.0 || unit == "Ti" {
            return format!("{}{unit}", number(scaled, 4));
        }
        scaled /= 1024.0;
    }
    unreachable!("the last unit always returns")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut t = Table::new(&["level", ">K"]);
        t.row(&["board", "512"]);
        t.row(&["rack", "16"]);
        assert_eq!(t.render(), "  level    K\n  board  512\n  rack    16\n");
    }

    #[test]
    fn numbers_keep_their_significant_digits() {
        assert_eq!(number(1.0153, 4), "1.015");
        assert_eq!(number(0.03125, 4), "0.03125");
        assert_eq!(number(69.232, 4), "69.23");
        assert_eq!(number(1234567.0, 3), "1234567");
        assert_eq!(number(4.0, 4), "4");
        assert_eq!(number(1e12, 3), "1.00e12");
        assert_eq!((binary(524288.0), binary(16.0)), ("512Ki".into(), "16".into()));
    }
}
