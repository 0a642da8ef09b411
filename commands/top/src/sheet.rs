//! Bordered tables with columns that fit, and bars.

use super::sample::LinkRow;
use angara_control::report::table::short;
use ratatui::Frame as Screen;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::{Block, Cell, Row, Table as Grid};

/// Colours from nothing to the busiest link: steps of light, so that they are told apart without colour vision, too.
pub(super) const HEAT: [u8; 6] = [238, 24, 31, 142, 214, 231];
/// Blocks of the same steps.
const BLOCKS: [&str; 6] = ["", "▏", "▎", "▌", "▊", "█"];
/// Longest bar, in characters.
pub(super) const BAR: usize = 16;
/// Most characters of a name.
const NAME_MAX: u16 = 24;

/// Title of a column, its width at least, and its rank: of those that do not fit, the higher ones are left out.
#[derive(Clone, Copy)]
pub(super) struct Column(pub(super) &'static str, pub(super) u16, pub(super) u8);

/// A bordered table with those columns that fit; those of rank 0 are as wide as what is in them.
pub(super) struct Sheet {
    columns: Vec<Column>,
    rows: Vec<(Vec<Cell<'static>>, Style)>,
}

impl Sheet {
    pub(super) fn new(columns: &[Column]) -> Sheet {
        Sheet { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row: what is in columns of rank 0 comes first, as text.
    pub(super) fn row(&mut self, names: [String; 2], more: Vec<Cell<'static>>, style: Style) {
        for (column, name) in self.columns.iter_mut().zip(&names) {
            column.1 = column.1.max(name.chars().count().min(usize::from(NAME_MAX)) as u16);
        }
        self.rows.push((names.map(Cell::from).into_iter().chain(more).collect(), style));
    }

    /// Which columns a table of this width has.
    fn fitting(&self, width: u16) -> Vec<usize> {
        let mut by_rank: Vec<usize> = (0..self.columns.len()).collect();
        by_rank.sort_by_key(|i| self.columns[*i].2);
        // The border, without the gap behind the last column.
        let mut used = 1;
        by_rank.retain(|i| {
            let Column(_, wide, rank) = self.columns[*i];
            let fits = rank == 0 || used + wide < width;
            used += if fits { wide + 1 } else { 0 };
            fits
        });
        by_rank.sort_unstable();
        by_rank
    }

    pub(super) fn draw(self, screen: &mut Screen, area: Rect, title: String, below: Option<String>) {
        let kept = self.fitting(area.width);
        let widths: Vec<Constraint> = kept.iter().map(|i| Constraint::Length(self.columns[*i].1)).collect();
        let block = below.into_iter().fold(Block::bordered().title(title), |block, line| block.title_bottom(line));
        let heads = Row::new(kept.iter().map(|i| self.columns[*i].0)).style(Modifier::DIM);
        let rows = self
            .rows
            .into_iter()
            .map(|(cells, style)| Row::new(kept.iter().filter_map(|i| cells.get(*i).cloned())).style(style));
        screen.render_widget(Grid::new(rows, widths).header(heads).block(block), area);
    }
}

/// How busy a link is beside the busiest, 0 to 1.
pub(super) fn share(link: &LinkRow, busiest: f64) -> f64 {
    if busiest > 0.0 { link.bytes / busiest } else { 0.0 }
}

pub(super) fn level(share: f64) -> usize {
    if share <= 0.0 { 0 } else { 1 + (share * 4.0).round() as usize }
}

pub(super) fn rate(per_second: f64) -> String {
    short(per_second.round() as u64)
}

/// A bar that is as long as the share of N characters.
pub(super) fn bar(share: f64, width: usize) -> String {
    let fifths = (share * width as f64 * 5.0).round() as usize;
    format!("{}{}", BLOCKS[5].repeat(fifths / 5), BLOCKS[fifths % 5])
}

/// The colour of what works or is down: red.
pub(super) fn colour(up: bool) -> Style {
    if up { Style::new() } else { Style::new().fg(Color::Red) }
}
