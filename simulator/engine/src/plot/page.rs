//! A page of PDF, drawn on in the coordinates of SVG: units of 1/96 inch, from the upper left corner.
//!
//! Text is Helvetica, one of the fonts that every viewer has. No font is read or embedded, so a page looks the same
//! whatever fonts the machine has that writes it. Characters beyond Western European ones are question marks.

use pdf_writer::{Content, Finish, Name, Pdf, Rect, Ref, Str, TextStr};
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind, FontTransform,
};
use std::collections::BTreeSet;
use std::convert::Infallible;

/// PDF's units in one of SVG's.
const SCALE: f32 = 0.75;
/// Longest side of a page, PDF's units; viewers need not show more.
const SIDE_MAX: f32 = 14_400.0;
const FONT: Name<'static> = Name(b"F");

/// Widths of the characters from blank to `~` in Helvetica, thousandths of its size.
const WIDTHS: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556,
    556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833,
    722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556,
    556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334,
    260, 334, 584,
];

/// Red, green and blue.
pub type Rgb = (u8, u8, u8);

/// Where a text stands.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// A point of its base line.
    pub at: (f32, f32),
    /// Share of the text that is left of this point.
    pub before: f32,
    /// How far below the point the base line is.
    pub below: f32,
    /// Quarter turns, clockwise.
    pub turns: u8,
}

/// A page being drawn.
pub struct Page {
    content: Content,
    size: (u32, u32),
    /// Opacities used, percent.
    opacities: BTreeSet<u8>,
}

impl Page {
    /// An empty page of that width and height.
    pub fn new(size: (u32, u32)) -> Page {
        let mut content = Content::new();
        let scale = scale(size);
        content.transform([scale, 0.0, 0.0, -scale, 0.0, size.1 as f32 * scale]);
        Page { content, size, opacities: BTreeSet::new() }
    }

    /// Fills what is drawn next, if it is to be filled, or draws its outline.
    fn ink(&mut self, (r, g, b): Rgb, opacity: f64) {
        let [r, g, b] = [r, g, b].map(|c| f32::from(c) / 255.0);
        self.content.set_fill_rgb(r, g, b).set_stroke_rgb(r, g, b);
        let percent = (opacity * 100.0).round().clamp(0.0, 100.0) as u8;
        self.opacities.insert(percent);
        self.content.set_parameters(Name(opacity_name(percent).as_bytes()));
    }

    fn trace(&mut self, points: impl IntoIterator<Item = (f32, f32)>) {
        for (i, (x, y)) in points.into_iter().enumerate() {
            let _ = if i == 0 { self.content.move_to(x, y) } else { self.content.line_to(x, y) };
        }
    }

    /// Fills a polygon.
    pub fn polygon(&mut self, points: impl IntoIterator<Item = (f32, f32)>, colour: Rgb, opacity: f64) {
        self.ink(colour, opacity);
        self.trace(points);
        self.content.close_path().fill_nonzero();
    }

    /// Draws a line through points.
    pub fn line(&mut self, points: impl IntoIterator<Item = (f32, f32)>, width: f32, colour: Rgb, opacity: f64) {
        self.ink(colour, opacity);
        self.content.set_line_width(width);
        self.trace(points);
        self.content.stroke();
    }

    /// Fills rectangles of one colour: left, upper end, width, height.
    pub fn rectangles(&mut self, all: impl IntoIterator<Item = [f32; 4]>, colour: Rgb, opacity: f64) {
        self.ink(colour, opacity);
        for [x, y, width, height] in all {
            self.content.rect(x, y, width, height);
        }
        self.content.fill_nonzero();
    }

    /// Draws the outline of a rectangle: left, upper end, width, height.
    pub fn frame(&mut self, [x, y, width, height]: [f32; 4], colour: Rgb, opacity: f64) {
        self.ink(colour, opacity);
        self.content.set_line_width(1.0).rect(x, y, width, height).stroke();
    }

    /// Writes text of that font size.
    pub fn text(&mut self, text: &str, size: f32, place: Place, colour: Rgb, opacity: f64) {
        let bytes = encoded(text);
        self.ink(colour, opacity);
        let (sin, cos) = [(0.0, 1.0), (1.0, 0.0), (0.0, -1.0), (-1.0, 0.0)][usize::from(place.turns % 4)];
        let (dx, dy) = (-place.before * width(&bytes) * size, place.below);
        let (x, y) = (place.at.0 + cos * dx - sin * dy, place.at.1 + sin * dx + cos * dy);
        let [x, y] = [x, y].map(|v| (v * 100.0).round() / 100.0);
        self.content.begin_text().set_font(FONT, size).set_text_matrix([cos, sin, sin, -cos, x, y]);
        self.content.show(Str(&bytes)).end_text();
    }

    /// The document. It has no time and no name of a machine: the same drawing gives the same bytes.
    pub fn finish(self, title: &str) -> Vec<u8> {
        let [catalog, pages, page, font, content, info] = [1, 2, 3, 4, 5, 6].map(Ref::new);
        let mut pdf = Pdf::new();
        pdf.catalog(catalog).pages(pages);
        pdf.pages(pages).kids([page]).count(1);
        let scale = scale(self.size);
        let mut sheet = pdf.page(page);
        let side = |side: u32| (side as f32 * scale).min(SIDE_MAX);
        sheet.media_box(Rect::new(0.0, 0.0, side(self.size.0), side(self.size.1)));
        sheet.parent(pages).contents(content);
        let mut resources = sheet.resources();
        resources.fonts().pair(FONT, font);
        let mut states = resources.ext_g_states();
        for percent in self.opacities {
            let mut state =
                states.insert(Name(opacity_name(percent).as_bytes())).start::<pdf_writer::writers::ExtGraphicsState>();
            state.stroking_alpha(f32::from(percent) / 100.0).non_stroking_alpha(f32::from(percent) / 100.0);
        }
        states.finish();
        resources.finish();
        sheet.finish();
        pdf.type1_font(font).base_font(Name(b"Helvetica")).encoding_predefined(Name(b"WinAnsiEncoding"));
        pdf.stream(content, &self.content.finish());
        pdf.document_info(info).title(TextStr(title));
        pdf.finish()
    }
}

/// PDF's units in one of SVG's on a page of that size.
fn scale(size: (u32, u32)) -> f32 {
    SCALE.min(SIDE_MAX / size.0.max(size.1).max(1) as f32)
}

fn opacity_name(percent: u8) -> String {
    format!("O{percent}")
}

/// Text in the encoding of the page's font, Windows' Western European one.
fn encoded(text: &str) -> Vec<u8> {
    let byte = |c: char| match c {
        ' '..='~' | '\u{a0}'..='\u{ff}' => c as u32 as u8,
        '€' => 0x80,
        '…' => 0x85,
        '‘' => 0x91,
        '’' => 0x92,
        '“' => 0x93,
        '”' => 0x94,
        '•' => 0x95,
        '–' | '−' => 0x96,
        '—' => 0x97,
        // The Greek letter, which looks like the sign of a millionth.
        'μ' => 0xb5,
        _ => b'?',
    };
    text.chars().map(byte).collect()
}

/// Width of text in parts of the font's size.
fn width(bytes: &[u8]) -> f32 {
    let each = |b: &u8| WIDTHS.get(usize::from(b.wrapping_sub(b' '))).copied().unwrap_or(556);
    bytes.iter().map(|b| u32::from(each(b))).sum::<u32>() as f32 / 1000.0
}

/// A page that charts are drawn on.
pub(super) struct Backend<'a>(pub(super) &'a mut Page);

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

fn point((x, y): BackendCoord) -> (f32, f32) {
    (x as f32, y as f32)
}

impl DrawingBackend for Backend<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.0.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, at: BackendCoord, colour: BackendColor) -> Drawn {
        let (x, y) = point(at);
        self.0.rectangles([[x, y, 1.0, 1.0]], colour.rgb, colour.alpha);
        Ok(())
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Drawn {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S, fill: bool) -> Drawn {
        let ((x, y), colour) = (point(from), style.color());
        let sides = [x, y, (to.0 - from.0) as f32, (to.1 - from.1) as f32];
        match fill {
            true => self.0.rectangles([sides], colour.rgb, colour.alpha),
            false => self.0.frame(sides, colour.rgb, colour.alpha),
        }
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Drawn {
        let colour = style.color();
        if colour.alpha > 0.0 {
            self.0.line(path.into_iter().map(point), style.stroke_width() as f32, colour.rgb, colour.alpha);
        }
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Drawn {
        let colour = style.color();
        self.0.polygon(path.into_iter().map(point), colour.rgb, colour.alpha);
        Ok(())
    }

    fn draw_text<T: BackendTextStyle>(&mut self, text: &str, style: &T, at: BackendCoord) -> Drawn {
        // As the charts' SVG has it.
        let (size, colour) = ((style.size() / 1.24) as f32, style.color());
        let before = match style.anchor().h_pos {
            HPos::Left => 0.0,
            HPos::Center => 0.5,
            HPos::Right => 1.0,
        };
        let below = size
            * match style.anchor().v_pos {
                VPos::Top => 0.76,
                VPos::Center => 0.26,
                VPos::Bottom => -0.26,
            };
        let turns = match style.transform() {
            FontTransform::None => 0,
            FontTransform::Rotate90 => 1,
            FontTransform::Rotate180 => 2,
            FontTransform::Rotate270 => 3,
        };
        self.0.text(text, size, Place { at: point(at), before, below, turns }, colour.rgb, colour.alpha);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(page: Page) -> String {
        page.finish("a title").iter().map(|b| char::from(*b)).collect()
    }

    const PLACE: Place = Place { at: (10.0, 20.0), before: 0.0, below: 0.0, turns: 0 };

    #[test]
    fn a_page_is_a_whole_document_without_fonts() {
        let mut page = Page::new((400, 200));
        page.text("latency, (us)", 10.0, PLACE, (0, 0, 0), 1.0);
        page.polygon([(0.0, 0.0), (8.0, 0.0), (0.0, 8.0)], (255, 0, 0), 0.5);
        let text = shown(page);
        assert!(text.starts_with("%PDF-1.") && text.trim_end().ends_with("%%EOF"), "{text}");
        assert!(text.contains("/MediaBox [0 0 300 150]") && text.contains("/Helvetica") && !text.contains("/FontFile"));
        assert!(text.contains("(latency, (us)) Tj") && text.contains("/Title (a title)"), "{text}");
        assert!(text.contains("/O50 gs") && text.contains("/ca 0.5"), "{text}");
    }

    #[test]
    fn texts_end_or_turn_where_they_are_told() {
        let matrix = |place: Place| {
            let mut page = Page::new((400, 200));
            page.text("ii", 10.0, place, (0, 0, 0), 1.0);
            let text = shown(page);
            text.lines().find(|l| l.ends_with(" Tm")).unwrap().to_string()
        };
        assert_eq!(matrix(PLACE), "1 0 0 -1 10 20 Tm");
        assert_eq!(matrix(Place { before: 0.5, ..PLACE }), "1 0 0 -1 7.78 20 Tm", "222 thousandths each");
        let turned = matrix(Place { before: 1.0, below: 3.0, turns: 3, ..PLACE });
        assert_eq!(turned, "0 -1 -1 0 13 24.44 Tm", "upwards, and the base line to the right");
    }

    #[test]
    fn characters_that_the_font_lacks_are_question_marks() {
        assert_eq!(encoded("a–µμ±"), [b'a', 0x96, 0xb5, 0xb5, 0xb1]);
        assert_eq!(encoded("≥Ж\n"), b"???");
    }

    #[test]
    fn a_page_has_the_longest_side_that_viewers_show() {
        let text = shown(Page::new((96_000, 10)));
        assert!(text.contains("/MediaBox [0 0 14400 1.5]"), "{text}");
    }
}
