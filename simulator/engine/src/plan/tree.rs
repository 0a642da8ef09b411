//! Collective trees: built over working links, checked against the criteria, drawn as text.

use super::routes::{Ways, network};
use crate::Error;
use crate::toml_file::TomlFile;
use angara_fabric::collective::{build, validate};
use angara_fabric::{Port, TreeError, TreeRow, TreeRows};
use angara_net::torus::{Direction, NodeId, Shape};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Networks up to this size try every participant as the root when none is given.
const ROOTS_TRIED: usize = 512;
/// Most nodes that are drawn.
const DRAWN_MAX: usize = 1024;
/// One hop, and entering or leaving the network, ns (paper 000, section 2).
const HOP_NS: f64 = 129.0;
const EDGE_NS: f64 = 600.0;

/// A tree and what is said about it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The shape.
    pub shape: String,
    /// Faults.
    pub faults: Vec<String>,
    /// The root.
    pub root: String,
    /// Nodes with participants.
    pub participants: usize,
    /// Nodes that only pass packets on.
    pub transit: usize,
    /// Longest way from the root, hops.
    pub depth: u32,
    /// Broadcast from the root over idle links, one packet, ns.
    pub broadcast_ns: f64,
    /// Reduction to everybody over idle links, one packet, ns.
    pub all_reduce_ns: f64,
    /// Rows of the table, by node.
    pub rows: Vec<Row>,
    #[serde(skip)]
    tree: TreeRows,
    #[serde(skip)]
    at: Shape,
}

/// A node's row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its coordinates.
    pub node: String,
    /// Direction of the parent; `None` at the root.
    pub to_root: Option<String>,
    /// Directions of the children.
    pub down: Vec<String>,
    /// Local participants.
    pub contributors: u16,
}

/// Builds a tree for `members` (all working nodes if empty) with `root`, or with the participant
/// from which the tree is lowest.
///
/// # Errors
/// Nodes or faults that do not fit, or participants that cannot be reached in dimension order.
pub fn report(shape: &Shape, faults: &[String], root: Option<NodeId>, members: &[NodeId]) -> Result<Report, Error> {
    let fabric = network(shape, Ways::Parity, faults)?;
    let routes = fabric.routes();
    let everyone = || (0..shape.nodes() as u32).filter(|&n| routes.node_up(n)).collect();
    let mut members: Vec<NodeId> = if members.is_empty() { everyone() } else { members.to_vec() };
    members.sort_unstable();
    members.dedup();
    let ports: Vec<Port> = members.iter().map(|&node| Port { node, endpoint: 0 }).collect();
    let refused = |e: TreeError| Error::Network(explain(&e, shape));
    let tree = match root {
        Some(root) => build(routes, root, &ports).map_err(refused)?,
        None => {
            let tries = if shape.nodes() <= ROOTS_TRIED { members.len() } else { 1 };
            let mut best: Option<(u32, TreeRows)> = None;
            let mut failed = None;
            for &root in &members[..tries.min(members.len())] {
                match build(routes, root, &ports) {
                    Ok(tree) => {
                        let depth = depth(shape, &tree);
                        if best.as_ref().is_none_or(|(lowest, _)| depth < *lowest) {
                            best = Some((depth, tree));
                        }
                    }
                    Err(e) => failed = Some(e),
                }
            }
            match (best, failed) {
                (Some((_, tree)), _) => tree,
                (None, Some(e)) => return Err(refused(e)),
                (None, None) => return Err(refused(TreeError::Members)),
            }
        }
    };
    validate(shape, &tree).map_err(refused)?;
    Ok(describe(shape, faults.to_vec(), tree))
}

fn describe(shape: &Shape, faults: Vec<String>, tree: TreeRows) -> Report {
    let show = |node| shape.show(shape.coords(node));
    let depth = depth(shape, &tree);
    let row = |(node, row): &(NodeId, TreeRow)| Row {
        node: show(*node),
        to_root: row.to_root.map(|d| d.to_string()),
        down: children(row).map(|d| d.to_string()).collect(),
        contributors: row.contributors,
    };
    let participants = tree.rows.iter().filter(|(_, r)| r.contributors > 0).count();
    Report {
        shape: shape.to_string(),
        faults,
        root: tree.root().map(show).unwrap_or_default(),
        participants,
        transit: tree.rows.len() - participants,
        depth,
        broadcast_ns: EDGE_NS + HOP_NS * f64::from(depth),
        all_reduce_ns: EDGE_NS + 2.0 * HOP_NS * f64::from(depth),
        rows: tree.rows.iter().map(row).collect(),
        at: *shape,
        tree,
    }
}

fn children(row: &TreeRow) -> impl Iterator<Item = Direction> {
    let down = row.down;
    Direction::ALL.into_iter().filter(move |d| down & d.bit() != 0)
}

/// Longest way from the root of a valid tree.
fn depth(shape: &Shape, tree: &TreeRows) -> u32 {
    let Some(root) = tree.root() else { return 0 };
    let mut deepest = 0;
    let mut open = vec![(root, 0)];
    while let Some((node, level)) = open.pop() {
        deepest = deepest.max(level);
        let Ok(index) = tree.rows.binary_search_by_key(&node, |(n, _)| *n) else { continue };
        open.extend(children(&tree.rows[index].1).filter_map(|d| shape.neighbour(node, d)).map(|n| (n, level + 1)));
    }
    deepest
}

/// A refusal with the criterion's letter and the node's coordinates.
fn explain(e: &TreeError, shape: &Shape) -> String {
    let at = |node: NodeId| match node as usize {
        n if n < shape.nodes() => shape.show(shape.coords(node)),
        _ => node.to_string(),
    };
    match e {
        TreeError::TwoRoots { first, node } => {
            format!("criterion (a): node {} is a root like node {}; there must be one", at(*node), at(*first))
        }
        TreeError::RootParent(node) => {
            format!("criterion (g): node {} is the root and names a direction to the root", at(*node))
        }
        TreeError::Child { node, dir } => {
            format!(
                "criterion (b): node {}: its neighbour down {dir} must be in the tree with {} to the root",
                at(*node),
                dir.opposite()
            )
        }
        TreeError::Parent { node, dir } => {
            format!(
                "criterion (d): node {}: its parent towards {dir} must be in the tree with {} among its directions down",
                at(*node),
                dir.opposite()
            )
        }
        TreeError::Order { node, dir } => {
            format!(
                "criterion (c): node {}: direction {dir} down is neither opposite to the root nor in a later dimension",
                at(*node)
            )
        }
        TreeError::Detached(node) => {
            format!("criterion (e): from node {} the parents do not lead to the root", at(*node))
        }
        TreeError::Count(node) => format!("criterion (f): node {}: the number of directions down is wrong", at(*node)),
        TreeError::EmptyLeaf(node) => format!("criterion (h): node {} is a leaf without a participant", at(*node)),
        TreeError::Unreachable { root, member } => {
            format!(
                "node {} cannot be reached from root {} over working links in dimension order; try another root",
                at(*member),
                at(*root)
            )
        }
        other => other.to_string(),
    }
}

/// A tree in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TreeFile {
    torus: Shape,
    #[serde(default)]
    row: Vec<FileRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRow {
    node: toml::Spanned<String>,
    #[serde(default)]
    root: bool,
    to_root: Option<String>,
    #[serde(default)]
    down: Vec<String>,
    #[serde(default = "one")]
    contributors: u16,
}

fn one() -> u16 {
    1
}

/// Checks a tree read from a file: `torus = "4x4"` and `[[row]]` tables with `node`, `root`,
/// `to_root`, `down` (a list of directions) and `contributors` (1 if left out).
///
/// # Errors
/// The criterion that is violated, with the line of the node's row.
pub fn check_file(file: &TomlFile) -> Result<Report, Error> {
    let parsed: TreeFile = file.parse()?;
    let shape = parsed.torus;
    let mut tree = TreeRows::default();
    let mut lines: Vec<(NodeId, usize)> = Vec::new();
    for row in &parsed.row {
        let start = row.node.span().start;
        let wrong = |e: angara_net::torus::ShapeError| file.error_at(start, &e.to_string());
        let node =
            shape.id(shape.parse_coords(row.node.get_ref()).map_err(wrong)?).expect("parsed coordinates are inside");
        if lines.iter().any(|(n, _)| *n == node) {
            return Err(file.error_at(start, &format!("node {} has two rows", row.node.get_ref())));
        }
        let mut down = 0;
        for d in &row.down {
            down |= d.parse::<Direction>().map_err(wrong)?.bit();
        }
        let to_root = row.to_root.as_deref().map(str::parse).transpose().map_err(wrong)?;
        let down_sum = row.down.len() as u8;
        tree.rows.push((node, TreeRow { is_root: row.root, to_root, contributors: row.contributors, down, down_sum }));
        tree.ports.extend((0..row.contributors).map(|endpoint| Port { node, endpoint }));
        lines.push((node, start));
    }
    tree.rows.sort_by_key(|(n, _)| *n);
    tree.ports.sort_unstable();
    validate(&shape, &tree).map_err(|e| {
        let node = match &e {
            TreeError::Child { node, .. } | TreeError::Parent { node, .. } => Some(*node),
            TreeError::Order { node, .. } | TreeError::TwoRoots { node, .. } => Some(*node),
            TreeError::Detached(n) | TreeError::Count(n) | TreeError::EmptyLeaf(n) | TreeError::RootParent(n) => {
                Some(*n)
            }
            _ => None,
        };
        let start = lines.iter().find(|(n, _)| Some(*n) == node).map_or(0, |(_, s)| *s);
        file.error_at(start, &explain(&e, &shape))
    })?;
    Ok(describe(&shape, Vec::new(), tree))
}

impl Report {
    /// The report for people, with the tree drawn.
    pub fn text(&self) -> String {
        let mut out = format!(
            "Tree on {}: root {}, {} participants, {} transit nodes, depth {}\n",
            self.shape, self.root, self.participants, self.transit, self.depth
        );
        if !self.faults.is_empty() {
            let _ = writeln!(out, "  after {}", self.faults.join("; "));
        }
        let _ = writeln!(
            out,
            "  valid by criteria (a) to (h); on idle links a broadcast takes {} ns, an all-reduce {} ns\n",
            self.broadcast_ns, self.all_reduce_ns
        );
        if self.tree.rows.len() > DRAWN_MAX {
            let _ = writeln!(out, "  {} nodes are too many to draw; --json has the table", self.tree.rows.len());
        } else if let Some(root) = self.tree.root() {
            self.draw(root, None, &mut Vec::new(), &mut out);
        }
        out
    }

    /// Draws `node` and what hangs below it; `open` says for each level above whether its line goes on.
    fn draw(&self, node: NodeId, by: Option<Direction>, open: &mut Vec<bool>, out: &mut String) {
        let Some(row) = self.tree.row(node) else { return };
        if let Some((last, above)) = open.split_last() {
            above.iter().for_each(|&goes_on| out.push_str(if goes_on { "│  " } else { "   " }));
            out.push_str(if *last { "├─ " } else { "└─ " });
        }
        let by = by.map_or(String::new(), |d| format!("{d} "));
        let transit = if row.contributors == 0 { " (transit)" } else { "" };
        let _ = writeln!(out, "{by}{}{transit}", self.at.show(self.at.coords(node)));
        let mut below = children(row).peekable();
        while let Some(dir) = below.next() {
            open.push(below.peek().is_some());
            if let Some(child) = self.at.neighbour(node, dir) {
                self.draw(child, Some(dir), open, out);
            }
            open.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> Shape {
        text.parse().unwrap()
    }

    fn check(name: &str, text: &str) -> Result<Report, Error> {
        let path = std::env::temp_dir().join(format!("angara-tree-{}-{name}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let file = TomlFile::read(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        check_file(&file)
    }

    #[test]
    fn a_tree_over_all_nodes_is_as_deep_as_the_torus() {
        let r = report(&shape("4x4"), &[], None, &[]).unwrap();
        assert_eq!((r.participants, r.transit, r.depth), (16, 0, 4));
        assert_eq!(r.text().lines().filter(|l| l.contains("─ ")).count(), 15, "{}", r.text());
    }

    #[test]
    fn a_small_tree_is_drawn_with_its_transit_nodes() {
        let s = shape("mesh:3x2");
        let r = report(&s, &[], Some(0), &[0, 2, 5]).unwrap();
        let drawing: Vec<String> = r.text().lines().skip(3).map(String::from).collect();
        assert_eq!(drawing, ["0,0", "└─ +X 1,0 (transit)", "   └─ +X 2,0", "      └─ +Y 2,1"]);
        assert_eq!((r.broadcast_ns, r.all_reduce_ns), (600.0 + 3.0 * 129.0, 600.0 + 6.0 * 129.0));
    }

    #[test]
    fn a_dead_link_is_avoided_by_another_root_or_refused() {
        let s = shape("mesh:3x2");
        let fault = ["link 0,0 +X down".to_string()];
        let e = report(&s, &fault, Some(0), &[0, 1]).unwrap_err().to_string();
        assert!(e.contains("node 1,0 cannot be reached from root 0,0"), "{e}");
        assert!(report(&shape("4x4"), &fault, None, &[]).is_ok(), "the other way round");
    }

    #[test]
    fn a_tree_in_a_file_is_checked_row_by_row() {
        let good = "torus = \"3x3\"\n[[row]]\nnode = \"0,0\"\nroot = true\ndown = [\"+X\"]\n\
                    [[row]]\nnode = \"1,0\"\nto_root = \"-X\"\ndown = [\"+Y\"]\n[[row]]\nnode = \"1,1\"\nto_root = \"-Y\"\n";
        assert_eq!(check("good", good).unwrap().depth, 2);
        let refused = |name: &str, from: &str, to: &str| {
            assert!(good.contains(from), "{from}");
            check(name, &good.replacen(from, to, 1)).unwrap_err().to_string()
        };
        let e = refused("b", "to_root = \"-Y\"", "to_root = \"+X\"");
        assert!(e.contains(".toml:7: criterion (b): node 1,0"), "{e}");
        assert!(refused("a", "root = true\n", "\n").contains("criterion (a): no node is the root"));
        let e = refused("aa", "node = \"1,0\"\n", "node = \"1,0\"\nroot = true\n");
        assert!(e.contains(".toml:7: criterion (a): node 1,0 is a root like node 0,0"), "{e}");
        let e = refused("g", "root = true\n", "root = true\nto_root = \"+Y\"\n");
        assert!(e.contains(".toml:3: criterion (g): node 0,0"), "{e}");
        let e = refused("d", "down = [\"+Y\"]", "down = []");
        assert!(e.contains("criterion (d): node 1,1"), "{e}");
        let e = refused("h", "to_root = \"-Y\"", "to_root = \"-Y\"\ncontributors = 0");
        assert!(e.contains(".toml:11: criterion (h): node 1,1"), "{e}");
        assert!(refused("two", "node = \"1,1\"", "node = \"1,0\"").contains(".toml:11: node 1,0 has two rows"));
        assert!(refused("key", "root = true", "rooot = true").contains("unknown field `rooot`"));
    }

    #[test]
    fn criterion_c_names_the_direction() {
        let text = "torus = \"3x3\"\n[[row]]\nnode = \"0,0\"\nroot = true\ndown = [\"+Y\"]\n[[row]]\nnode = \"0,1\"\n\
                    to_root = \"-Y\"\ndown = [\"+X\"]\n[[row]]\nnode = \"1,1\"\nto_root = \"-X\"\n";
        let e = check("c", text).unwrap_err().to_string();
        assert!(e.contains("criterion (c): node 0,1: direction +X down"), "{e}");
    }
}
