//! What a picture of links is drawn on.

use crate::plot::{Page, Place, Rgb};
use std::fmt::Write;

/// Colour of a link that was cut, and of the cross on it.
const CUT: [Rgb; 2] = [(0xff, 0xff, 0xff), (0xd6, 0x27, 0x28)];

/// Which end of a text stands at its place.
#[derive(Clone, Copy, Default)]
pub(super) enum Anchor {
    #[default]
    Start,
    Middle,
    End,
}

/// How text is written.
#[derive(Clone, Copy)]
pub(super) struct Style {
    pub(super) size: u8,
    pub(super) anchor: Anchor,
    pub(super) colour: Rgb,
}

impl Default for Style {
    fn default() -> Style {
        Style { size: 13, anchor: Anchor::Start, colour: (0, 0, 0) }
    }
}

/// Left and upper end, width and height.
type Cell = [usize; 4];

pub(super) trait Paper {
    /// Writes `text` with its base line at a point.
    fn text(&mut self, text: &str, at: (usize, usize), style: Style);
    /// Fills cells.
    fn cells(&mut self, colour: Rgb, cells: &[Cell]);
    /// Fills a cell that has a name.
    fn named(&mut self, colour: Rgb, cell: Cell, name: &str);
    /// Names what was drawn in a cell.
    fn name(&mut self, cell: Cell, name: &str);
    /// Draws a link that was cut.
    fn cross(&mut self, cell: Cell);
}

/// An SVG document.
pub(super) struct SvgPaper(String);

impl SvgPaper {
    pub(super) fn new((width, height): (usize, usize)) -> SvgPaper {
        SvgPaper(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" \
             font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        ))
    }

    pub(super) fn finish(self) -> String {
        self.0 + "</svg>\n"
    }
}

fn hex((r, g, b): Rgb) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

fn rectangle([x, y, width, height]: Cell) -> String {
    format!("<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"")
}

impl Paper for SvgPaper {
    fn text(&mut self, text: &str, (x, y): (usize, usize), style: Style) {
        let _ = write!(self.0, "<text x=\"{x}\" y=\"{y}\"");
        match style.anchor {
            Anchor::Start => {}
            Anchor::Middle => self.0.push_str(" text-anchor=\"middle\""),
            Anchor::End => self.0.push_str(" text-anchor=\"end\""),
        }
        let usual = Style::default();
        if style.size != usual.size {
            let _ = write!(self.0, " font-size=\"{}\"", style.size);
        }
        if style.colour != usual.colour {
            let _ = write!(self.0, " fill=\"{}\"", hex(style.colour));
        }
        let _ = writeln!(self.0, ">{text}</text>");
    }

    fn cells(&mut self, colour: Rgb, cells: &[Cell]) {
        if let [cell] = cells {
            let _ = writeln!(self.0, "{} fill=\"{}\"/>", rectangle(*cell), hex(colour));
            return;
        }
        let _ = write!(self.0, "<path fill=\"{}\" d=\"", hex(colour));
        for [x, y, width, height] in cells {
            let _ = write!(self.0, "M{x} {y}h{width}v{height}h-{width}z");
        }
        self.0.push_str("\"/>\n");
    }

    fn named(&mut self, colour: Rgb, cell: Cell, name: &str) {
        let _ = writeln!(self.0, "{} fill=\"{}\"><title>{name}</title></rect>", rectangle(cell), hex(colour));
    }

    fn name(&mut self, cell: Cell, name: &str) {
        let _ = writeln!(self.0, "{} fill-opacity=\"0\"><title>{name}</title></rect>", rectangle(cell));
    }

    fn cross(&mut self, cell: Cell) {
        let [paper, ink] = CUT.map(hex);
        let [x, y, size, _] = cell;
        let _ = writeln!(
            self.0,
            "{} fill=\"{paper}\" stroke=\"{ink}\"/>\n\
             <path d=\"M{x} {y}l{size} {size}m-{size} 0l{size} -{size}\" stroke=\"{ink}\"/>",
            rectangle(cell)
        );
    }
}

/// A page of PDF, which shows no names.
pub(super) struct PdfPaper(pub(super) Page);

impl Paper for PdfPaper {
    fn text(&mut self, text: &str, (x, y): (usize, usize), style: Style) {
        let before = match style.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => 0.5,
            Anchor::End => 1.0,
        };
        let place = Place { at: (x as f32, y as f32), before, below: 0.0, turns: 0 };
        self.0.text(text, f32::from(style.size), place, style.colour, 1.0);
    }

    fn cells(&mut self, colour: Rgb, cells: &[Cell]) {
        self.0.rectangles(cells.iter().map(|cell| cell.map(|v| v as f32)), colour, 1.0);
    }

    fn named(&mut self, colour: Rgb, cell: Cell, _: &str) {
        self.cells(colour, &[cell]);
    }

    fn name(&mut self, _: Cell, _: &str) {}

    fn cross(&mut self, cell: Cell) {
        let [paper, ink] = CUT;
        let [x, y, width, height] = cell.map(|v| v as f32);
        self.cells(paper, &[cell]);
        self.0.frame([x, y, width, height], ink, 1.0);
        for diagonal in [[(x, y), (x + width, y + height)], [(x + width, y), (x, y + height)]] {
            self.0.line(diagonal, 1.0, ink, 1.0);
        }
    }
}
