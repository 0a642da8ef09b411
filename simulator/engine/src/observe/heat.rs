//! The load of every link as a picture, SVG or PDF.
//!
//! Panels of cells, as the topology arranges them ([`Cell`]); most have a panel per direction. A cell's colour is
//! the load of its link. Links between routers share one scale; those to endpoints, which a hot spot loads far
//! more, have their own. Links that a fault took out of service are no colour of the scale. Numbers beside a panel are
//! coordinates on a torus or mesh, elsewhere the places of routers and ports.

mod paper;

use super::links::{Links, Output};
use crate::plot::{Page, Rgb};
use crate::table::number;
use angara_model::AnyTopology;
use angara_model::topology::Cell;
use paper::{Anchor, Paper, PdfPaper, Style, SvgPaper};
use std::collections::BTreeMap;

/// Cells of all panels with a text each; larger pictures have none, to stay readable for a browser.
const LABELLED_MAX: usize = 20_000;
/// Colours of the scale.
const LEVELS: usize = 64;
/// Width the panels may take together, in SVG units.
const WIDTH: usize = 1200;
/// Room for the numbers beside and above the cells of a panel.
const BESIDE: usize = 22;
const ABOVE: usize = 34;
/// Least distance of numbers along an edge.
const APART: usize = 16;
/// Cells in rows and columns.
struct Panel {
    title: String,
    columns: usize,
    rows: usize,
    /// Column, row, output.
    cells: Vec<(usize, usize, Output)>,
}

/// The picture as an SVG document.
pub fn svg(links: &Links) -> String {
    let layout = Layout::of(links);
    let mut paper = SvgPaper::new(layout.size);
    draw_all(&mut paper, links, &layout);
    paper.finish()
}

/// The picture as a PDF document of one page. It has no names of links: those of an SVG document are shown where the mouse
/// points.
pub fn pdf(links: &Links) -> Vec<u8> {
    let layout = Layout::of(links);
    let mut paper = PdfPaper(Page::new((layout.size.0 as u32, layout.size.1 as u32)));
    draw_all(&mut paper, links, &layout);
    paper.0.finish(&format!("{}: load of every link", links.shape))
}

/// Panels and their places.
struct Layout {
    panels: Vec<(Panel, (usize, usize))>,
    /// Side of a cell.
    side: usize,
    /// Width and height of the picture.
    size: (usize, usize),
}

impl Layout {
    fn of(links: &Links) -> Layout {
        let panels = panels(links);
        let widest = panels.iter().map(|p| p.columns).max().unwrap_or(1);
        let side = (WIDTH / 2 / widest.max(1)).clamp(2, 24);
        let (mut x, mut y, mut below, mut right) = (10, 60, 60, 420);
        let place = |panel: Panel| {
            let (w, h) = ((panel.columns * side).max(90) + BESIDE, panel.rows * side + ABOVE + 8);
            if x > 10 && x + w > WIDTH {
                (x, y) = (10, below);
            }
            let at = (x, y);
            right = right.max(x + w);
            x += w + 20;
            below = below.max(y + h + 12);
            (panel, at)
        };
        let panels = panels.into_iter().map(place).collect();
        Layout { panels, side, size: (right + 20, below + 10) }
    }
}

fn draw_all(paper: &mut impl Paper, links: &Links, layout: &Layout) {
    let top = |endpoints: bool| {
        links.outputs.iter().filter(|o| o.to_endpoint == endpoints).map(|o| links.rate(o)).fold(0.0, f64::max)
    };
    let tops = [top(false), top(true)];
    let title = format!("{}: flits per cycle of every link, {} cycles", links.shape, links.cycles);
    paper.text(&title, (10, 20), Style { size: 16, ..Style::default() });
    for level in 0..LEVELS {
        paper.cells(colour(level), &[[40 + 4 * level, 30, 4, 12]]);
    }
    let end = 46 + 4 * LEVELS;
    paper.text("0", (24, 41), Style::default());
    paper.text(&number(tops[0], 3), (end, 41), Style::default());
    if links.outputs.iter().any(|o| o.cut) {
        paper.cross([end + 60, 30, 12, 12]);
        paper.text("out of service", (end + 78, 41), Style::default());
    }
    if let AnyTopology::Grid(grid) = &links.shape {
        let which = ["X across", "X across, Y down", "X (Z) across, Y down", "X (Z) across, Y (the others) down"];
        paper.text(which[grid.ndims().clamp(1, 4) - 1], (10, 56), Style { size: 10, ..Style::default() });
    }
    let named = links.outputs.len() <= LABELLED_MAX;
    for (panel, (x, y)) in &layout.panels {
        draw(paper, panel, links, (*x, *y, layout.side), tops, named);
    }
}

fn draw(
    paper: &mut impl Paper,
    panel: &Panel,
    links: &Links,
    (x, y, side): (usize, usize, usize),
    tops: [f64; 2],
    named: bool,
) {
    let endpoints = panel.cells.iter().any(|c| c.2.to_endpoint);
    let top = tops[usize::from(endpoints)];
    let scale = if endpoints { format!(", 0 to {}", number(top, 3)) } else { String::new() };
    paper.text(&format!("{}{scale}", panel.title), (x, y + 14), Style::default());
    numbers(paper, panel, links, (x, y, side));
    let (x, y) = (x + BESIDE, y + ABOVE);
    let level = |o: &Output| {
        let share = if top > 0.0 { links.rate(o) / top } else { 0.0 };
        ((share * (LEVELS - 1) as f64).round() as usize).min(LEVELS - 1)
    };
    let mut unnamed: BTreeMap<usize, Vec<[usize; 4]>> = BTreeMap::new();
    for (column, row, output) in &panel.cells {
        let size = side - usize::from(side > 3);
        let cell = [x + column * side, y + row * side, size, size];
        let name = |state| {
            let name = links.name(output);
            format!("{name}: {} flits/cycle{state}", number(links.rate(output), 4))
        };
        if output.cut {
            paper.cross(cell);
            if named {
                paper.name(cell, &name(", out of service"));
            }
        } else if named {
            paper.named(colour(level(output)), cell, &name(""));
        } else {
            unnamed.entry(level(output)).or_default().push(cell);
        }
    }
    unnamed.iter().for_each(|(level, cells)| paper.cells(colour(*level), cells));
}

/// Numbers of columns above a panel and of rows beside it: the first two coordinates of a torus or mesh, and the others
/// where a block of cells begins.
fn numbers(paper: &mut impl Paper, panel: &Panel, links: &Links, (x, y, side): (usize, usize, usize)) {
    let grid = matches!(links.shape, AnyTopology::Grid(_));
    let name = |at: &[u32], which: &[usize]| {
        let digits: Vec<String> = which.iter().filter_map(|d| at.get(*d)).map(u32::to_string).collect();
        digits.join(",")
    };
    let (mut columns, mut rows) = (BTreeMap::new(), BTreeMap::new());
    for (column, row, output) in &panel.cells {
        let names = match grid {
            true => {
                let router = links.shape.router_name(output.router);
                let at: Vec<u32> = router.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
                let block = |first: &str, rest: String| match rest.is_empty() || first != "0" {
                    true => first.to_string(),
                    false => format!("0 ({rest})"),
                };
                let (first, second) = (name(&at, &[0]), name(&at, &[1]));
                let others: Vec<usize> = (3..at.len()).collect();
                (block(&first, name(&at, &[2])), block(&second, name(&at, &others)))
            }
            false => (column.to_string(), row.to_string()),
        };
        columns.entry(*column).or_insert(names.0);
        rows.entry(*row).or_insert(names.1);
    }
    let step = APART.div_ceil(side);
    let style = |anchor| Style { size: 9, anchor, colour: (0x55, 0x55, 0x55) };
    for (column, name) in columns.iter().filter(|(column, name)| *column % step == 0 || name.contains('(')) {
        let x = x + BESIDE + column * side + side / 2;
        paper.text(name, (x, y + ABOVE - 4), style(Anchor::Middle));
    }
    for (row, name) in rows.iter().filter(|(row, name)| *row % step == 0 || name.contains('(')) {
        let y = y + ABOVE + row * side + side / 2 + 3;
        paper.text(name, (x + BESIDE - 3, y), style(Anchor::End));
    }
}

/// From dark blue over green to yellow, of even lightness steps.
fn colour(level: usize) -> Rgb {
    const STOPS: [[f64; 3]; 5] =
        [[68.0, 1.0, 84.0], [59.0, 82.0, 139.0], [33.0, 145.0, 140.0], [94.0, 201.0, 98.0], [253.0, 231.0, 37.0]];
    let at = level as f64 / (LEVELS - 1) as f64 * (STOPS.len() - 1) as f64;
    let (low, part) = ((at as usize).min(STOPS.len() - 2), at - (at as usize).min(STOPS.len() - 2) as f64);
    let channel = |c: usize| (STOPS[low][c] + (STOPS[low + 1][c] - STOPS[low][c]) * part).round() as u8;
    (channel(0), channel(1), channel(2))
}

fn panels(links: &Links) -> Vec<Panel> {
    let mut panels: BTreeMap<(u32, u32), Panel> = BTreeMap::new();
    for output in &links.outputs {
        let Cell { panel, title, columns, rows, column, row } = links.shape.cell(output.router, output.port);
        let panel = panels.entry(panel).or_insert_with(|| Panel { title, columns, rows, cells: Vec::new() });
        panel.cells.push((column, row, *output));
    }
    panels.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_model::{Angara, Generic, Injection, Network, Profile, Setup};

    fn picture(shape: &str) -> (Links, String) {
        let shape: AnyTopology = shape.parse().unwrap();
        let config = Setup {
            shape: shape.clone(),
            profile: Profile::Generic(Generic::default()),
            seed: 1,
            faults: Vec::new(),
            sets: Vec::new(),
        };
        let mut net = Network::new(&config).unwrap();
        net.count_links();
        net.inject(Injection { src: 0, dst: 1, flits: 1, ..Injection::default() });
        net.run_until_idle();
        let links = Links::collect(&net, &config, 1);
        let svg = svg(&links);
        (links, svg)
    }

    #[test]
    fn every_link_is_a_cell_of_its_direction() {
        let (links, svg) = picture("torus:4x3x2x2");
        let panels = panels(&links);
        assert_eq!(panels.len(), 9, "eight directions and the endpoints");
        for p in &panels {
            assert_eq!((p.columns, p.rows, p.cells.len()), (9, 7, 48));
            let mut places: Vec<_> = p.cells.iter().map(|c| (c.0, c.1)).collect();
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), 48);
            assert!(p.cells.iter().all(|c| c.0 < p.columns && c.1 < p.rows));
        }
        assert_eq!(svg.matches("flits/cycle</title>").count(), links.outputs.len());
        assert!(svg.contains(">+X links<") && svg.contains("(0,0,0,0) +X: 1 flits/cycle") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn parallel_links_and_several_endpoints_have_panels_of_their_own() {
        let (links, svg) = picture("mesh:4x3,c=2,x=3");
        let panels = panels(&links);
        assert_eq!((panels.len(), links.outputs.len()), (12 + 2, 3 * 2 * (3 * 3 + 4 * 2) + 24));
        assert!(panels.iter().all(|p| (p.columns, p.rows) == (4, 3)));
        assert!(svg.contains(">-Y 2 links<") && svg.contains("(0,0) node 1: 1 flits/cycle"));
    }

    #[test]
    fn a_tree_is_drawn_by_rank() {
        let (links, svg) = picture("fat-tree:2,3");
        let titles: Vec<String> = panels(&links).into_iter().map(|p| p.title).collect();
        assert_eq!(titles, ["rank 0, down", "rank 1, down", "rank 1, up", "rank 2, down", "rank 2, up"]);
        assert!(svg.contains("rank 2 router 0 down 1: 1 flits/cycle"));
    }

    #[test]
    fn cut_links_are_unlike_idle_ones_and_cells_have_coordinates() {
        let faults = |faults: &[&str]| Setup {
            shape: "torus:4x4".parse().unwrap(),
            profile: Profile::Angara(Angara::default()),
            seed: 1,
            faults: faults.iter().map(|f| f.to_string()).collect(),
            sets: Vec::new(),
        };
        let drawn = |setup: Setup| svg(&Links::collect(&Network::new(&setup).unwrap(), &setup, 1));
        let cut = |svg: &str| {
            let names =
                svg.lines().filter_map(|l| l.split_once("<title>")?.1.split_once(": 0 flits/cycle, out of service"));
            names.map(|(name, _)| name.to_string()).collect::<Vec<_>>()
        };
        let whole = drawn(faults(&["corrupt=1%"]));
        assert!(cut(&whole).is_empty() && !whole.contains("out of service"));
        let link = drawn(faults(&["link 0,0 +X down"]));
        assert_eq!(cut(&link), ["(0,0) +X", "(1,0) -X"], "both ways");
        assert_eq!(cut(&drawn(faults(&["node 1,1 down"]))).len(), 9, "its links, those to it, and that to its host");
        for number in 0..4 {
            assert!(link.matches(&format!(">{number}</text>")).count() >= 2 * 5, "above and beside every panel");
        }
        let (_, blocks) = picture("torus:4x3x2x2");
        assert!(blocks.contains(">0 (1)</text>"), "where the second block begins");
    }

    #[test]
    fn the_scale_goes_from_dark_to_bright() {
        assert_eq!((colour(0), colour(LEVELS - 1)), ((0x44, 1, 0x54), (0xfd, 0xe7, 0x25)));
    }

    #[test]
    fn a_pdf_has_the_same_cells_and_texts() {
        for shape in ["torus:4x3x2x2", "fat-tree:2,3"] {
            let (links, svg) = picture(shape);
            let pdf: String = pdf(&links).iter().map(|b| char::from(*b)).collect();
            assert_eq!(pdf.lines().filter(|l| l.ends_with(" re")).count(), links.outputs.len() + LEVELS);
            assert_eq!(pdf.matches(") Tj").count(), svg.matches("<text").count());
            assert!(pdf.contains(&format!("({shape}: flits per cycle of every link, 1 cycles) Tj")), "{pdf}");
        }
    }
}
