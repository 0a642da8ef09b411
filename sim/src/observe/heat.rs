//! The load of every link as a picture.
//!
//! Panels of cells, as the topology arranges them ([`Cell`]); most have a panel per direction. A cell's colour is
//! the load of its link. Links between routers share one scale; those to endpoints, which a hot spot loads far
//! more, have their own. Links that a fault took out of service are no colour of the scale. Numbers beside a panel are
//! coordinates on a torus or mesh, elsewhere the places of routers and ports.

use super::links::{Links, Output};
use crate::table::number;
use angara_model::AnyTopology;
use angara_model::topology::Cell;
use std::collections::BTreeMap;
use std::fmt::Write;

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
/// Colour of a link that was cut, and of the cross on it.
const CUT: [&str; 2] = ["#ffffff", "#d62728"];

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
    let panels = panels(links);
    let top = |endpoints: bool| {
        links.outputs.iter().filter(|o| o.to_endpoint == endpoints).map(|o| links.rate(o)).fold(0.0, f64::max)
    };
    let tops = [top(false), top(true)];
    let widest = panels.iter().map(|p| p.columns).max().unwrap_or(1);
    let side = (WIDTH / 2 / widest.max(1)).clamp(2, 24);
    let labelled = links.outputs.len() <= LABELLED_MAX;
    let mut body = String::new();
    let (mut x, mut y, mut below, mut right) = (10, 60, 60, 420);
    for panel in &panels {
        let (w, h) = ((panel.columns * side).max(90) + BESIDE, panel.rows * side + ABOVE + 8);
        if x > 10 && x + w > WIDTH {
            (x, y) = (10, below);
        }
        draw(&mut body, panel, links, (x, y, side), tops, labelled);
        right = right.max(x + w);
        x += w + 20;
        below = below.max(y + h + 12);
    }
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"10\" y=\"20\" font-size=\"16\">{}: flits per \
         cycle of every link, {} cycles</text>\n",
        right + 20,
        below + 10,
        links.shape,
        links.cycles
    );
    for level in 0..LEVELS {
        let _ = writeln!(
            out,
            "<rect x=\"{}\" y=\"30\" width=\"4\" height=\"12\" fill=\"{}\"/>",
            40 + 4 * level,
            colour(level)
        );
    }
    let end = 46 + 4 * LEVELS;
    let _ = writeln!(out, "<text x=\"24\" y=\"41\">0</text>\n<text x=\"{end}\" y=\"41\">{}</text>", number(tops[0], 3));
    if links.outputs.iter().any(|o| o.cut) {
        cross(&mut out, (end + 60, 30, 12));
        let _ = writeln!(out, "<text x=\"{}\" y=\"41\">out of service</text>", end + 78);
    }
    if let AnyTopology::Grid(grid) = &links.shape {
        let which = ["X across", "X across, Y down", "X (Z) across, Y down", "X (Z) across, Y (the others) down"];
        let _ =
            writeln!(out, "<text x=\"10\" y=\"56\" font-size=\"10\">{}</text>", which[grid.ndims().clamp(1, 4) - 1]);
    }
    out + &body + "</svg>\n"
}

fn draw(
    out: &mut String,
    panel: &Panel,
    links: &Links,
    (x, y, side): (usize, usize, usize),
    tops: [f64; 2],
    labelled: bool,
) {
    let endpoints = panel.cells.iter().any(|c| c.2.to_endpoint);
    let top = tops[usize::from(endpoints)];
    let scale = if endpoints { format!(", 0 to {}", number(top, 3)) } else { String::new() };
    let _ = writeln!(out, "<text x=\"{x}\" y=\"{}\">{}{scale}</text>", y + 14, panel.title);
    numbers(out, panel, links, (x, y, side));
    let (x, y) = (x + BESIDE, y + ABOVE);
    let level = |o: &Output| {
        let share = if top > 0.0 { links.rate(o) / top } else { 0.0 };
        ((share * (LEVELS - 1) as f64).round() as usize).min(LEVELS - 1)
    };
    let mut paths: BTreeMap<usize, String> = BTreeMap::new();
    for (column, row, output) in &panel.cells {
        let (cx, cy, size) = (x + column * side, y + row * side, side - usize::from(side > 3));
        if output.cut {
            cross(out, (cx, cy, size));
            if labelled {
                let name = links.name(output);
                let _ = writeln!(
                    out,
                    "<rect x=\"{cx}\" y=\"{cy}\" width=\"{size}\" height=\"{size}\" fill-opacity=\"0\"><title>{name}: \
                     {} flits/cycle, out of service</title></rect>",
                    number(links.rate(output), 4)
                );
            }
        } else if labelled {
            let _ = writeln!(
                out,
                "<rect x=\"{cx}\" y=\"{cy}\" width=\"{size}\" height=\"{size}\" fill=\"{}\"><title>{}: {} flits/cycle</title></rect>",
                colour(level(output)),
                links.name(output),
                number(links.rate(output), 4)
            );
        } else {
            let _ = write!(paths.entry(level(output)).or_default(), "M{cx} {cy}h{size}v{size}h-{size}z");
        }
    }
    for (level, path) in paths {
        let _ = writeln!(out, "<path fill=\"{}\" d=\"{path}\"/>", colour(level));
    }
}

/// A link that was cut.
fn cross(out: &mut String, (x, y, size): (usize, usize, usize)) {
    let [paper, ink] = CUT;
    let _ = writeln!(
        out,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{size}\" height=\"{size}\" fill=\"{paper}\" stroke=\"{ink}\"/>\n\
         <path d=\"M{x} {y}l{size} {size}m-{size} 0l{size} -{size}\" stroke=\"{ink}\"/>"
    );
}

/// Numbers of columns above a panel and of rows beside it: the first two coordinates of a torus or mesh, and the others
/// where a block of cells begins.
fn numbers(out: &mut String, panel: &Panel, links: &Links, (x, y, side): (usize, usize, usize)) {
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
    let style = "font-size=\"9\" fill=\"#555\"";
    for (column, name) in columns.iter().filter(|(column, name)| *column % step == 0 || name.contains('(')) {
        let x = x + BESIDE + column * side + side / 2;
        let _ = writeln!(out, "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\" {style}>{name}</text>", y + ABOVE - 4);
    }
    for (row, name) in rows.iter().filter(|(row, name)| *row % step == 0 || name.contains('(')) {
        let y = y + ABOVE + row * side + side / 2 + 3;
        let _ = writeln!(out, "<text x=\"{}\" y=\"{y}\" text-anchor=\"end\" {style}>{name}</text>", x + BESIDE - 3);
    }
}

/// From dark blue over green to yellow, of even lightness steps.
fn colour(level: usize) -> String {
    const STOPS: [[f64; 3]; 5] =
        [[68.0, 1.0, 84.0], [59.0, 82.0, 139.0], [33.0, 145.0, 140.0], [94.0, 201.0, 98.0], [253.0, 231.0, 37.0]];
    let at = level as f64 / (LEVELS - 1) as f64 * (STOPS.len() - 1) as f64;
    let (low, part) = ((at as usize).min(STOPS.len() - 2), at - (at as usize).min(STOPS.len() - 2) as f64);
    let channel = |c: usize| (STOPS[low][c] + (STOPS[low + 1][c] - STOPS[low][c]) * part).round() as u8;
    format!("#{:02x}{:02x}{:02x}", channel(0), channel(1), channel(2))
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
        let config =
            Setup { shape: shape.clone(), profile: Profile::Generic(Generic::default()), seed: 1, faults: Vec::new() };
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
        assert_eq!((colour(0).as_str(), colour(LEVELS - 1).as_str()), ("#440154", "#fde725"));
    }
}
