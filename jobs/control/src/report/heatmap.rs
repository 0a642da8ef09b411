//! Heat maps in the terminal: links by node and direction, and traffic between PEs.
//!
//! Each value is drawn as a block whose darkness says how it compares with the largest one, and,
//! on a terminal, as a colour from blue to red. The numbers stand beside the blocks, so nothing is
//! lost without colour.

use super::table::{short, terminal_width};
use angara_net::torus::{Direction, Shape};
use angara_protocol::msg::{LinkReport, PairReport};
use std::collections::HashMap;

/// Blocks from nothing to the largest value.
const BLOCKS: [char; 6] = ['·', '░', '░', '▒', '▓', '█'];
/// The same as colours of the 256-colour palette.
const COLOURS: [u8; 6] = [236, 24, 31, 142, 208, 196];
/// Most rows and columns of a PE×PE map; more PEs share cells.
const CELLS_MAX: usize = 32;
/// Characters that a direction of a link map takes.
const CELL: usize = 9;
/// Most nodes of a link map.
const NODES_MAX: usize = 64;

/// Tells whether to colour: standard output is a terminal and `NO_COLOR` is not set.
pub fn colour() -> bool {
    use std::io::IsTerminal;
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// Which block stands for `value`: 0 only for nothing, 5 only near the largest.
fn level(value: u64, max: u64) -> usize {
    if value == 0 || max == 0 { 0 } else { 1 + ((value as f64 / max as f64) * 4.0).round() as usize }
}

fn paint(text: &str, level: usize, colour: bool) -> String {
    if colour { format!("\x1b[38;5;{}m{text}\x1b[0m", COLOURS[level]) } else { text.into() }
}

/// Flits of a link, all classes.
pub fn flits(link: &LinkReport) -> u64 {
    link.load.values().map(|l| l.flits).sum()
}

/// Nodes as rows, directions as columns, flits sent in each.
pub fn links(shape: Shape, links: &[LinkReport], colour: bool) -> String {
    links_within(shape, links, colour, terminal_width())
}

/// As [`links`], for lines of limited length: with fewer directions beside each other.
fn links_within(shape: Shape, links: &[LinkReport], colour: bool, limit: Option<usize>) -> String {
    let max = links.iter().map(flits).max().unwrap_or(0);
    let by_end: HashMap<(u32, Direction), &LinkReport> = links.iter().map(|l| ((l.node, l.dir), l)).collect();
    let dirs: Vec<Direction> = (0..shape.dims().len())
        .filter(|&d| shape.size(d) > 1)
        .flat_map(|d| [Direction::new(d, true), Direction::new(d, false)])
        .collect();
    let mut nodes: Vec<u32> = (0..shape.nodes() as u32).collect();
    if nodes.len() > NODES_MAX {
        let mut hottest: HashMap<u32, u64> = HashMap::new();
        for link in links {
            let most = hottest.entry(link.node).or_default();
            *most = flits(link).max(*most);
        }
        nodes.sort_by_key(|n| (std::cmp::Reverse(hottest.get(n).copied().unwrap_or(0)), *n));
        nodes.truncate(NODES_MAX);
        nodes.sort_unstable();
    }
    let width = nodes.iter().map(|&n| shape.show(shape.coords(n)).len()).max().unwrap_or(4).max(4);
    let beside = limit.map_or(dirs.len(), |limit| limit.saturating_sub(width + 2) / CELL).max(1);
    let row = |out: &mut String, node: u32, dirs: &[Direction]| {
        for &dir in dirs {
            let cell = match (shape.neighbour(node, dir), by_end.get(&(node, dir))) {
                (None, _) => " ".repeat(CELL - 2),
                (_, Some(link)) if !link.up => paint("✗  down", 5, colour),
                (_, link) => {
                    let n = link.map_or(0, |l| flits(l));
                    let l = level(n, max);
                    paint(&format!("{0}{0} {1:>4}", BLOCKS[l], fit(n)), l, colour)
                }
            };
            out.push_str("  ");
            out.push_str(&cell);
        }
    };
    let mut out = String::new();
    for dirs in dirs.chunks(beside) {
        out.push_str(&format!("  {:width$}", "node"));
        dirs.iter().for_each(|dir| out.push_str(&format!("  {:>7}", dir.to_string())));
        out.push('\n');
        for &node in &nodes {
            out.push_str(&format!("  {:width$}", shape.show(shape.coords(node))));
            row(&mut out, node, dirs);
            out.push('\n');
        }
    }
    if shape.nodes() > NODES_MAX {
        out.push_str(&format!("  (the {NODES_MAX} hottest of {} nodes)\n", shape.nodes()));
    }
    out
}

/// At most four characters.
fn fit(n: u64) -> String {
    let text = short(n);
    match text.len() {
        0..=4 => text,
        _ => format!("{}{}", text[..text.len() - 1].split('.').next().unwrap_or_default(), &text[text.len() - 1..]),
    }
}

/// Source PEs as rows, target PEs as columns, payload bytes of puts, gets and atomics both ways.
pub fn pairs(pes: usize, pairs: &[PairReport], colour: bool) -> String {
    pairs_within(pes, pairs, colour, terminal_width())
}

/// As [`pairs`], for lines of limited length: with fewer cells.
fn pairs_within(pes: usize, pairs: &[PairReport], colour: bool, limit: Option<usize>) -> String {
    // Beside the row's name a cell takes two characters.
    let most = limit.map_or(CELLS_MAX, |limit| (limit.saturating_sub(11) / 2).clamp(1, CELLS_MAX));
    let per_cell = pes.div_ceil(most).max(1);
    let cells = pes.div_ceil(per_cell);
    let mut heat = vec![0u64; cells * cells];
    for p in pairs.iter().filter(|p| p.from < pes as u32 && p.to < pes as u32) {
        heat[p.from as usize / per_cell * cells + p.to as usize / per_cell] +=
            p.traffic.out.bytes + p.traffic.back.bytes;
    }
    let max = heat.iter().copied().max().unwrap_or(0);
    let mut out = String::from("  from \\ to");
    for c in 0..cells {
        // Every fourth column is numbered, so that the numbers have room.
        out.push_str(&if c % 4 == 0 { format!(" {:<7}", c * per_cell) } else { String::new() });
    }
    out = out.trim_end().to_string();
    out.push('\n');
    for r in 0..cells {
        out.push_str(&format!("  {:>9}", r * per_cell));
        for c in 0..cells {
            let l = level(heat[r * cells + c], max);
            out.push(' ');
            out.push_str(&paint(&BLOCKS[l].to_string(), l, colour));
        }
        out.push('\n');
    }
    out.push_str(&format!("  largest cell: {}", super::table::bytes(max)));
    out.push_str(&if per_cell > 1 { format!("; {per_cell} PEs per row and column\n") } else { "\n".into() });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_abi::account::{Class, Load, Traffic};

    fn link(shape: Shape, node: u32, dir: &str, flits: u64, up: bool) -> LinkReport {
        let to = shape.neighbour(node, dir.parse().unwrap()).unwrap();
        let load = [(Class::Put, Load { packets: 1, flits, bytes: 0 })].into();
        LinkReport {
            node,
            dir: dir.parse().expect("a direction"),
            to,
            load,
            crc_errors: 0,
            replays: 0,
            duplicates: 0,
            reordered: 0,
            up,
        }
    }

    #[test]
    fn links_are_drawn_by_node_and_direction() {
        let shape: Shape = "mesh:3".parse().unwrap();
        let list = [link(shape, 0, "+X", 100, true), link(shape, 1, "-X", 1, true), link(shape, 1, "+X", 0, false)];
        let map = links_within(shape, &list, false, None);
        let lines: Vec<&str> = map.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            ["  node       +X       -X", "  0     ██  100", "  1     ✗  down  ░░    1", "  2              ··    0"]
        );
    }

    #[test]
    fn maps_fit_the_line() {
        let shape: Shape = "2x2x2x2".parse().unwrap();
        let wide = links_within(shape, &[link(shape, 0, "+X", 100, true)], false, Some(80));
        assert!(wide.lines().all(|l| l.chars().count() <= 80), "{wide}");
        // Twice the nodes, each time with a line of directions.
        assert_eq!(wide.lines().count(), 2 * 17);
        let one = |from, to| PairReport { from, to, class: Class::Put, traffic: Traffic::put(1024) };
        let narrow = pairs_within(64, &[one(0, 1), one(63, 0)], false, Some(40));
        assert!(
            narrow.lines().rev().skip(1).all(|l| l.chars().count() <= 40) && narrow.contains("5 PEs per row"),
            "{narrow}"
        );
    }

    #[test]
    fn shades_are_relative_to_the_largest() {
        assert_eq!((level(0, 9), level(1, 1_000_000), level(500, 1000), level(1000, 1000)), (0, 1, 3, 5));
        assert_eq!(level(0, 0), 0);
        assert_eq!(fit(12_345), "12k");
        assert!(paint("x", 5, true).contains("196"));
    }

    #[test]
    fn many_pes_share_cells() {
        let one = |from, to| PairReport { from, to, class: Class::Put, traffic: Traffic::put(1024) };
        let map = pairs_within(64, &[one(0, 1), one(63, 0), one(63, 1)], false, None);
        assert_eq!(map.lines().count(), 34);
        assert!(map.contains("2 PEs per row"));
        let map = pairs_within(2, &[one(0, 1)], false, None);
        assert_eq!(map, "  from \\ to 0\n          0 · █\n          1 · ·\n  largest cell: 1 KiB\n");
    }
}
