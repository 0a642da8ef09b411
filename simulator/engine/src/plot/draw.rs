//! How a chart is drawn: its parts by `plotters`, on a sheet of SVG or of PDF.

use super::axis::Axis;
use super::look::{colour, mark, strokes};
use super::{Chart, Page, gnuplot, page};
use crate::Error;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

/// Width and height of a chart in SVG units, unless names or rows of saturated points need more.
pub(super) const SIZE: (u32, u32) = (860, 540);
/// Width of the vertical axis with its numbers and name, and the margin.
const LEFT: u32 = 84;
/// Width of a letter, about, and height of a line of a legend.
const LETTER: (u32, u32) = (7, 18);
/// Height of a row of saturated points.
pub(super) const ROW: u32 = 12;
const GREY: RGBColor = RGBColor(180, 180, 180);

/// A curve as it can be drawn.
pub(super) struct Curve<'a> {
    pub(super) name: &'a str,
    pub(super) points: Vec<(f64, f64)>,
    /// Where it is saturated, and in which row that is said.
    pub(super) beyond: Vec<f64>,
    pub(super) row: u32,
}

/// A chart as it can be drawn, and the ends of its axes.
pub(super) struct Sheet<'a> {
    pub(super) curves: Vec<Curve<'a>>,
    pub(super) xs: (f64, f64),
    pub(super) ys: (f64, f64),
    /// Rows of saturated points.
    pub(super) rows: u32,
}

/// Places drawn on in a chart, in SVG units: the area of the plot, and points on all that stands there.
type Drawn = ((Range<i32>, Range<i32>), Vec<(i32, i32)>);

type Area<DB> = DrawingArea<DB, Shift>;

impl Chart {
    /// The chart as an SVG document.
    ///
    /// # Errors
    /// When there is not a single point to draw.
    pub fn svg(&self) -> Result<String, Error> {
        let sheet = self.sheet()?;
        let (svg, drawn) = self.drawn(&sheet, false)?;
        if sheet.hides(&drawn) { Ok(self.drawn(&sheet, true)?.0) } else { Ok(svg) }
    }

    /// The chart as a PDF document of one page.
    ///
    /// # Errors
    /// When there is not a single point to draw.
    pub fn pdf(&self) -> Result<Vec<u8>, Error> {
        let sheet = self.sheet()?;
        let beside = sheet.hides(&self.drawn(&sheet, false)?.1);
        let mut page = Page::new(self.size(&sheet, beside));
        self.render(&page::Backend(&mut page).into_drawing_area(), &sheet, beside)?;
        Ok(page.finish(&self.title))
    }

    /// A script of gnuplot that draws the chart from the file `data`, into a file of its own called `name`.gnuplot.svg; and the
    /// text of that file.
    ///
    /// # Errors
    /// When there is not a single point to draw.
    pub fn gnuplot(&self, name: &str, data: &str) -> Result<(String, String), Error> {
        Ok(gnuplot::script(self, &self.sheet()?, name, data))
    }

    /// The document as SVG and places drawn on, with the legend beside the plot or in it.
    fn drawn(&self, sheet: &Sheet<'_>, beside: bool) -> Result<(String, Drawn), Error> {
        let mut svg = String::new();
        let root = SVGBackend::with_string(&mut svg, self.size(sheet, beside)).into_drawing_area();
        let drawn = self.render(&root, sheet, beside)?;
        drop(root);
        Ok((svg, drawn))
    }

    fn sheet(&self) -> Result<Sheet<'_>, Error> {
        let fits = |x: f64| x.is_finite() && (!self.x_log || x > 0.0);
        let keep = |&(x, y): &(f64, f64)| fits(x) && y.is_finite() && (!self.y_log || y > 0.0);
        let mut rows = 0;
        let curves = self.curves.iter().map(|(name, points)| {
            let beyond = self.beyond.iter().filter(|b| b.0 == *name && fits(b.1));
            let beyond: Vec<f64> = beyond.map(|b| b.1).collect();
            let row = rows;
            rows += u32::from(!beyond.is_empty());
            Curve { name, points: points.iter().copied().filter(keep).collect(), beyond, row }
        });
        let curves: Vec<Curve> = curves.collect();
        let points = || curves.iter().flat_map(|c| &c.points);
        let xs = points().map(|p| p.0).chain(curves.iter().flat_map(|c| c.beyond.iter().copied()));
        let ys = points().map(|p| p.1).chain(self.bars().flat_map(|(_, _, low, high)| [low, high]));
        let ends = (range(xs, self.x_log, self.x_zero), range(ys, self.y_log, self.y_zero));
        match ends {
            (Some(xs), Some(ys)) if points().next().is_some() => Ok(Sheet { curves, xs, ys, rows }),
            _ if self.has_points() && (self.x_log || self.y_log) => {
                let remedy = "no point is above 0 there; choose a linear axis";
                Err(Error::invalid("logarithmic axis", format!("that of `{}`", self.title), remedy))
            }
            _ => Err(Error::Plot(format!("`{}` has no points", self.title))),
        }
    }

    /// Width of everything but a legend beside it.
    fn width(&self) -> u32 {
        let longest = self.places.iter().map(|name| name.chars().count() as u32 + 2).max().unwrap_or(0);
        SIZE.0.max(LEFT + longest * LETTER.0 * self.places.len() as u32)
    }

    fn size(&self, sheet: &Sheet<'_>, beside: bool) -> (u32, u32) {
        let (width, height) = (self.width(), SIZE.1 + sheet.strip());
        if !beside {
            return (width, height);
        }
        let legend = sheet.legend_size();
        (width + legend.0 as u32 + 12, height.max(legend.1 as u32 + 60))
    }

    /// Draws everything, with the legend where it hides least or beside the plot.
    fn render<DB: DrawingBackend>(&self, root: &Area<DB>, sheet: &Sheet<'_>, beside: bool) -> Result<Drawn, Error> {
        root.fill(&WHITE).map_err(failed)?;
        let (left, _) = root.split_horizontally(self.width() as i32);
        let below = left.margin(12, 12, 12, 12).titled(&self.title, ("sans-serif", 18)).map_err(failed)?;
        let mut builder = ChartBuilder::on(&below);
        builder.margin_top(sheet.strip()).x_label_area_size(46).y_label_area_size(72);
        let x = match self.places.len() {
            0 if !self.x_at.is_empty() => Axis::At(Box::new(Axis::new(sheet.xs, self.x_log)), self.x_at.clone()),
            0 => Axis::new(sheet.xs, self.x_log),
            places => Axis::Places(places),
        };
        let chart = builder.build_cartesian_2d(x, Axis::new(sheet.ys, self.y_log)).map_err(failed)?;
        let drawn = self.draw(root, chart, sheet)?;
        if sheet.curves.len() > 1 {
            let at = match beside {
                true => (self.width() as i32, 36),
                false => emptiest(&drawn, sheet.legend_size()).1,
            };
            self.draw_legend(root, sheet, at)?;
        }
        root.present().map_err(failed)?;
        Ok(drawn)
    }

    fn draw_legend<DB: DrawingBackend>(
        &self,
        root: &Area<DB>,
        sheet: &Sheet<'_>,
        (x, y): (i32, i32),
    ) -> Result<(), Error> {
        let (width, height) = sheet.legend_size();
        let frame = [(x, y), (x + width, y + height)];
        root.draw(&Rectangle::new(frame, WHITE.mix(0.85).filled())).map_err(failed)?;
        root.draw(&Rectangle::new(frame, GREY)).map_err(failed)?;
        for (i, curve) in sheet.curves.iter().enumerate() {
            let (x, y) = (x + 10, y + 8 + (LETTER.1 as usize * i) as i32 + 9);
            if !self.scatter {
                for stroke in strokes(i, &[(x, y), (x + 30, y)]) {
                    root.draw(&PathElement::new(stroke, colour(i).stroke_width(2))).map_err(failed)?;
                }
            }
            root.draw(&Polygon::new(mark(i, (x + 15, y)), colour(i).filled())).map_err(failed)?;
            let text = Text::new(curve.name.to_string(), (x + 38, y - 6), ("sans-serif", 13));
            root.draw(&text).map_err(failed)?;
        }
        Ok(())
    }

    /// Curve, place and ends of every error bar that can be drawn.
    fn bars(&self) -> impl Iterator<Item = (&str, f64, f64, f64)> {
        self.sure.iter().filter_map(|(name, (x, y), half)| {
            let (low, high) = (y - half, y + half);
            let fits = (!self.y_log || low > 0.0) && (!self.x_log || *x > 0.0);
            (high > low && fits).then_some((name.as_str(), *x, low, high))
        })
    }

    /// Draws axes and curves, on an area in whose coordinates the chart stands.
    fn draw<DB: DrawingBackend>(
        &self,
        root: &Area<DB>,
        mut chart: ChartContext<'_, DB, Cartesian2d<Axis, Axis>>,
        sheet: &Sheet<'_>,
    ) -> Result<Drawn, Error> {
        let label = |v: &f64| crate::table::number(*v, 3);
        let place = |v: &f64| self.places.get(v.round() as usize).cloned().unwrap_or_else(|| label(v));
        chart
            .configure_mesh()
            .light_line_style(RGBColor(240, 240, 240))
            .bold_line_style(RGBColor(215, 215, 215))
            .x_desc(&self.x)
            .y_desc(&self.y)
            .x_label_formatter(&place)
            .y_label_formatter(&label)
            .label_style(("sans-serif", 13))
            .draw()
            .map_err(failed)?;
        let area = chart.plotting_area().get_pixel_range();
        let mut drawn = Vec::new();
        for (i, curve) in sheet.curves.iter().enumerate() {
            let at: Vec<(i32, i32)> = curve.points.iter().map(|p| chart.backend_coord(p)).collect();
            let line =
                |points, width| root.draw(&PathElement::new(points, colour(i).stroke_width(width))).map_err(failed);
            if !self.scatter {
                strokes(i, &at).into_iter().try_for_each(|stroke| line(stroke, 2))?;
            }
            for (_, x, low, high) in self.bars().filter(|b| b.0 == curve.name) {
                let ends = [(x, low), (x, high)].map(|p| chart.backend_coord(&p));
                drawn.extend(along(&ends));
                line(ends.to_vec(), 1)?;
                ends.iter().try_for_each(|&(x, y)| line(vec![(x - 4, y), (x + 4, y)], 1))?;
            }
            for place in &at {
                root.draw(&Polygon::new(mark(i, *place), colour(i).filled())).map_err(failed)?;
            }
            drawn.extend(if self.scatter { at } else { along(&at) });
            let row = area.1.start - sheet.strip() as i32 + (ROW * curve.row + ROW / 2) as i32 + 3;
            for x in &curve.beyond {
                line(mark(i, (chart.backend_coord(&(*x, sheet.ys.1)).0, row)), 1)?;
            }
        }
        if sheet.rows > 0 {
            let (upper, lower) = (area.1.start - sheet.strip() as i32, area.1.start);
            let frame = [(area.0.start, upper), (area.0.end, lower)];
            root.draw(&Rectangle::new(frame, GREY)).map_err(failed)?;
            let style = ("sans-serif", 13).into_text_style(root).pos(Pos::new(HPos::Right, VPos::Center));
            let at = (area.0.start - 6, (upper + lower) / 2);
            root.draw(&Text::new("saturated", at, style)).map_err(failed)?;
        }
        Ok((area, drawn))
    }
}

impl Sheet<'_> {
    /// Height of the rows of saturated points.
    pub(super) fn strip(&self) -> u32 {
        if self.rows == 0 { 0 } else { self.rows * ROW + 6 }
    }

    fn legend_size(&self) -> (i32, i32) {
        let longest = self.curves.iter().map(|c| c.name.chars().count() as u32).max().unwrap_or(0);
        ((62 + LETTER.0 * longest) as i32, (16 + LETTER.1 * self.curves.len() as u32) as i32)
    }

    /// True if the legend would hide something wherever it stood. With one curve there is none: the title says it all.
    fn hides(&self, drawn: &Drawn) -> bool {
        self.curves.len() > 1 && emptiest(drawn, self.legend_size()).0 > 0
    }
}

/// Places on the line through `points`, close enough together that none is far from the next.
fn along(points: &[(i32, i32)]) -> Vec<(i32, i32)> {
    const PIECES: i32 = 16;
    let between = |w: &[(i32, i32)]| {
        let ((x, y), (to_x, to_y)) = (w[0], w[1]);
        (0..PIECES).map(move |k| (x + (to_x - x) * k / PIECES, y + (to_y - y) * k / PIECES))
    };
    points.windows(2).flat_map(between).chain(points.last().copied()).collect()
}

/// Where in the plot a legend of that width and height covers least of what is drawn: how many places, and its corner.
fn emptiest(((xs, ys), drawn): &Drawn, (width, height): (i32, i32)) -> (usize, (i32, i32)) {
    let room = 6;
    let (left, right) = (xs.start + room, xs.end - width - room);
    let (upper, lower) = (ys.start + room, ys.end - height - room);
    let (centre, middle) = ((left + right) / 2, (upper + lower) / 2);
    let corners = [
        (left, upper),
        (right, upper),
        (right, lower),
        (left, lower),
        (centre, upper),
        (centre, lower),
        (right, middle),
        (left, middle),
    ];
    // Marks are wider than their places.
    let covers = |x: i32, y: i32, (px, py): &(i32, i32)| {
        (x - room..x + width + room).contains(px) && (y - room..y + height + room).contains(py)
    };
    let covered = |(x, y): (i32, i32)| (drawn.iter().filter(|at| covers(x, y, at)).count(), (x, y));
    corners.into_iter().map(covered).min_by_key(|(count, _)| *count).expect("there are corners")
}

/// Lowest and highest value with some room, so that no curve lies on the frame.
fn range(values: impl Iterator<Item = f64>, log: bool, zero: bool) -> Option<(f64, f64)> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
    if low > high {
        return None;
    }
    if log {
        return Some((low / 1.15, high * 1.15));
    }
    let (low, high) = if zero { (low.min(0.0), high.max(0.0)) } else { (low, high) };
    let room = if high > low { (high - low) * 0.04 } else { low.abs().max(1.0) * 0.5 };
    let bottom = if low >= 0.0 && (zero || low < high * 0.5) { 0.0 } else { low - room };
    let top = if zero && high == 0.0 && low < 0.0 { 0.0 } else { high + room };
    Some((bottom, top))
}

fn failed(e: impl std::fmt::Display) -> Error {
    Error::Plot(e.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::Scale;
    use super::*;

    fn chart() -> Chart {
        Chart {
            title: "time".into(),
            x: "nodes".into(),
            y: "us".into(),
            curves: vec![("a".into(), vec![(0.0, 1.0), (8.0, 2.0)]), ("b".into(), vec![(1.0, 3.0), (8.0, 2.5)])],
            ..Chart::default()
        }
    }

    #[test]
    fn every_scale_draws_its_curves() {
        for (x_log, y_log) in [(false, false), (true, false), (false, true), (true, true)] {
            let svg = Chart { x_log, y_log, ..chart() }.svg().unwrap();
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
            assert!(svg.matches("<polyline").count() >= 2, "two curves");
        }
    }

    #[test]
    fn marks_bars_and_what_is_beyond_are_drawn() {
        let counts = |c: Chart| {
            let svg = c.svg().unwrap();
            (svg.matches("<polyline").count(), svg.matches("<polygon").count())
        };
        let (lines, marks) = counts(chart());
        // Four points and two entries of the legend.
        assert_eq!(marks, 6);
        assert_eq!(counts(Chart { scatter: true, ..chart() }).0, lines - 4, "no line joins them, nor in the legend");
        let sure = vec![("a".to_string(), (8.0, 2.0), 0.5)];
        assert_eq!(counts(Chart { sure, ..chart() }).0, lines + 3, "a bar and two caps");
        let beyond = |xs: &[f64]| Chart { beyond: xs.iter().map(|x| ("b".to_string(), *x)).collect(), ..chart() };
        let (one, two) = (counts(beyond(&[4.0])), counts(beyond(&[4.0, 5.0])));
        assert_eq!((two.0 - one.0, one.1), (1, marks), "hollow, in the room made for them on top");
    }

    #[test]
    fn the_legend_hides_no_point_where_there_is_room() {
        let place = |drawn: &[(i32, i32)]| emptiest(&((0..100, 0..100), drawn.to_vec()), (30, 20));
        assert_eq!(place(&[]), (0, (6, 6)));
        assert_eq!(place(&[(10, 10)]), (0, (64, 6)));
        assert_eq!(place(&along(&[(0, 0), (100, 100)])), (0, (64, 6)));
        assert_eq!(place(&along(&[(0, 10), (100, 10)])), (0, (64, 74)));
        assert_eq!(along(&[(0, 0), (32, 16)])[..3], [(0, 0), (2, 1), (4, 2)]);
    }

    /// Width of a document.
    fn width(svg: &str) -> u32 {
        svg.split("width=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().parse().unwrap()
    }

    #[test]
    fn a_legend_without_room_stands_beside_the_plot() {
        let full = |n: u32| {
            let curve = |k: u32| {
                let point = |x: u32| (f64::from(x), f64::from((x * 7 + k * 5) % 19));
                (format!("curve {k}"), (0..20).map(point).collect())
            };
            Chart { curves: (0..n).map(curve).collect(), ..chart() }.svg().unwrap()
        };
        assert_eq!(width(&chart().svg().unwrap()), SIZE.0);
        assert!(width(&full(20)) > SIZE.0 + 100);
    }

    /// The text elements of a document.
    fn texts(svg: &str) -> Vec<&str> {
        svg.split("<text").skip(1).filter_map(|rest| Some(rest.split_once('>')?.1.split_once('<')?.0.trim())).collect()
    }

    #[test]
    fn every_saturated_curve_has_a_row_above_the_plot() {
        let height = |chart: &Chart| chart.size(&chart.sheet().unwrap(), false).1;
        assert!(!texts(&chart().svg().unwrap()).contains(&"saturated"));
        let both = ["b", "a", "b"].map(|name| (name.to_string(), 4.0)).to_vec();
        let both = Chart { beyond: both, ..chart() };
        let sheet = both.sheet().unwrap();
        assert_eq!((sheet.rows, sheet.curves[0].row, sheet.curves[1].row), (2, 0, 1));
        assert_eq!(height(&both) - height(&chart()), 2 * ROW + 6, "and the plot is as high as without");
        assert!(texts(&both.svg().unwrap()).contains(&"saturated"));
        let log = Chart { x_log: true, beyond: vec![("a".into(), 0.0)], ..chart() };
        assert_eq!(log.sheet().unwrap().rows, 0, "0 is on no logarithmic axis");
    }

    #[test]
    fn axes_are_chosen() {
        let far = Chart { curves: vec![("a".into(), vec![(7.0, 9.0), (8.0, 10.0)])], ..chart() };
        let ends = |x, y| far.clone().scaled(x, y).sheet().map(|s| (s.xs, s.ys)).unwrap();
        assert_eq!(ends(None, None), ((6.96, 8.04), (8.96, 10.04)));
        assert_eq!(ends(Some(Scale::Zero), Some(Scale::Zero)), ((0.0, 8.32), (0.0, 10.4)));
        assert_eq!(ends(None, Some(Scale::Log)).1, (9.0 / 1.15, 10.0 * 1.15));
        let log = Chart { x_log: true, y_log: true, ..far.clone() };
        assert_eq!(log.scaled(Some(Scale::Linear), Some(Scale::Linear)).sheet().unwrap().ys, (8.96, 10.04));
        assert_eq!(range([-4.0, -2.0].into_iter(), false, true), Some((-4.16, 0.0)));
        let below = Chart { curves: vec![("a".into(), vec![(1.0, 0.0)])], ..chart() };
        let e = below.scaled(None, Some(Scale::Log)).svg().unwrap_err().to_string();
        assert_eq!(e, "logarithmic axis is that of `time`: no point is above 0 there; choose a linear axis");
    }

    #[test]
    fn a_pdf_has_the_texts_and_the_size_of_the_svg() {
        let beyond = vec![("b".to_string(), 4.0)];
        for chart in [chart(), Chart { beyond, ..chart() }, Chart { x_log: true, y_log: true, ..chart() }] {
            let (svg, pdf) = (chart.svg().unwrap(), chart.pdf().unwrap());
            let pdf: String = pdf.iter().map(|b| char::from(*b)).collect();
            assert_eq!(texts(&svg).len(), pdf.matches(") Tj").count());
            assert!(texts(&svg).iter().all(|text| pdf.contains(&format!("({text}) Tj"))), "{pdf}");
            let (width, height) = chart.size(&chart.sheet().unwrap(), false);
            let sides = [width, height].map(|side| f64::from(side) * 0.75);
            assert!(pdf.contains(&format!("/MediaBox [0 0 {} {}]", sides[0], sides[1])), "{pdf}");
        }
    }

    #[test]
    fn places_are_named() {
        let places: Vec<String> = ["linear", "random:1", "link=15GB/s"].map(String::from).into();
        let points = vec![(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)];
        let svg = Chart { places: places.clone(), curves: vec![("a".into(), points)], ..chart() }.svg().unwrap();
        assert!(places.iter().all(|name| svg.matches(name.as_str()).count() == 1), "{svg}");
        let many: Vec<String> = (0..40).map(|i| format!("link={i}GB/s,hop=60ns")).collect();
        let points = (0..40).map(|i| (f64::from(i), 1.0)).collect();
        let svg = Chart { places: many, curves: vec![("a".into(), points)], ..chart() }.svg().unwrap();
        assert!(width(&svg) > 40 * 20 * LETTER.0, "every name has its room");
    }

    #[test]
    fn a_chart_without_points_is_an_error() {
        let empty = Chart { curves: vec![("a".into(), vec![])], ..chart() };
        assert!(empty.svg().unwrap_err().to_string().contains("no points"));
    }
}
