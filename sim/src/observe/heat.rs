//! The load of every link as a picture.
//!
//! Panels of cells, as the topology arranges them ([`Cell`]); most have a panel per direction. A cell's colour is
//! the load of its link. Links between routers share one scale; those to endpoints, which a hot spot loads far
//! more, have their own.

use super::links::{Links, Output};
use crate::table::number;
use angara_model::topology::Cell;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Cells of all panels with a text each; larger pictures have none, to stay readable for a browser.
const LABELLED_MAX: usize = 20_000;
/// Colours of the scale.
const LEVELS: usize = 64;
/// Width the panels may take together, in SVG units.
const WIDTH: usize = 1200;

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
        let (w, h) = ((panel.columns * side).max(90), panel.rows * side + 30);
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
    let _ = writeln!(
        out,
        "<text x=\"24\" y=\"41\">0</text>\n<text x=\"{}\" y=\"41\">{}</text>",
        46 + 4 * LEVELS,
        number(tops[0], 3)
    );
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
    let level = |o: &Output| {
        let share = if top > 0.0 { links.rate(o) / top } else { 0.0 };
        ((share * (LEVELS - 1) as f64).round() as usize).min(LEVELS - 1)
    };
    let mut paths: BTreeMap<usize, String> = BTreeMap::new();
    for (column, row, output) in &panel.cells {
        let (cx, cy, size) = (x + column * side, y + 22 + row * side, side - usize::from(side > 3));
        if labelled {
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
    use angara_model::{AnyTopology, Generic, Injection, Network, Profile, Setup};

    fn picture(shape: &str) -> (Links, String) {
        let shape: AnyTopology = shape.parse().unwrap();
        let config =
            Setup { shape: shape.clone(), profile: Profile::Generic(Generic::default()), seed: 1, faults: Vec::new() };
        let mut net = Network::new(&config).unwrap();
        net.count_links();
        net.inject(Injection { src: 0, dst: 1, flits: 1, ..Injection::default() });
        net.run_until_idle();
        let links = Links::collect(&net, &shape, 1);
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
    fn the_scale_goes_from_dark_to_bright() {
        assert_eq!((colour(0).as_str(), colour(LEVELS - 1).as_str()), ("#440154", "#fde725"));
    }
}
