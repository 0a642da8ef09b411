//! Trees: their tables, how one is built over links that work, and what makes one valid.

use super::ports_at;
use crate::routes::Routes;
use crate::topology::{DIRS, NONE};
use crate::types::{JobId, Link, Port};
use abi::torus::{Direction, NodeId, Shape};
use std::collections::{BTreeMap, BTreeSet};

/// A node's row in the table of one tree (paper 000, section 2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TreeRow {
    /// This node is the root.
    pub is_root: bool,
    /// Direction of the parent.
    pub to_root: Option<Direction>,
    /// Local ports that take part; 0 for a transit node. (The paper's Pe, generalised to a count.)
    pub contributors: u16,
    /// Directions of the children, one bit each in routing order.
    pub down: u8,
    /// Number of children, to check that every copy has been issued.
    pub down_sum: u8,
}

impl TreeRow {
    /// Packets that complete a reduction here: children and local contributors.
    pub fn expected(&self) -> u32 {
        self.down_sum as u32 + self.contributors as u32
    }
}

/// A whole tree.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TreeRows {
    /// Rows of the nodes that belong to the tree, by node.
    pub rows: Vec<(NodeId, TreeRow)>,
    /// The participants.
    pub ports: Vec<Port>,
}

impl TreeRows {
    /// The root, if there is one.
    pub fn root(&self) -> Option<NodeId> {
        self.rows.iter().find(|(_, r)| r.is_root).map(|(n, _)| *n)
    }
    /// The row of a node.
    pub fn row(&self, node: NodeId) -> Option<&TreeRow> {
        self.rows.iter().find(|(n, _)| *n == node).map(|(_, r)| r)
    }
}

/// Why a tree cannot be built, is not valid or cannot be loaded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TreeError {
    /// A participant the builder cannot reach in dimension order.
    #[error("node {member} cannot be reached from root {root} over working links in dimension order")]
    Unreachable {
        /// The root.
        root: NodeId,
        /// The participant's node.
        member: NodeId,
    },
    /// No participants, or one named twice or outside the network.
    #[error("a tree needs participants inside the network, each named once")]
    Members,
    /// Not exactly one root, or a root with a parent: criteria (a), (g).
    #[error("{0} roots, or a root with a parent: there must be one root and it has none")]
    Root(usize),
    /// Criterion (b) or (d): parent and child disagree.
    #[error("node {node}: the neighbour towards {dir} does not say the same about their edge")]
    Edge {
        /// Where.
        node: NodeId,
        /// Which edge.
        dir: Direction,
    },
    /// Criterion (c): a direction down that may close a cycle of waiting packets.
    #[error("node {node}: direction {dir} down is neither opposite to the root nor in a later dimension")]
    Order {
        /// Where.
        node: NodeId,
        /// Which direction.
        dir: Direction,
    },
    /// Criterion (e): following the parents does not lead to the root.
    #[error("node {0}: following the directions to the root does not reach it")]
    Detached(NodeId),
    /// Criterion (f): the count of directions down is wrong.
    #[error("node {0}: the number of directions down is wrong")]
    Count(NodeId),
    /// Criterion (h): a leaf without contributors would never finish a reduction.
    #[error("node {0}: a leaf needs a local participant")]
    EmptyLeaf(NodeId),
    /// The rows do not match the participants.
    #[error("node {0}: the row does not count the participants named")]
    Contributors(NodeId),
    /// TreeId outside 0..16.
    #[error("there is no tree {0}; TreeIds are 0 to 15")]
    NoTree(u8),
    /// The TreeId is in use.
    #[error("tree {0} is loaded already for job {1}")]
    Loaded(u8, JobId),
    /// A participant is not a port of the job.
    #[error("endpoint {} of node {} is not a port of the job", .0.endpoint, .0.node)]
    NotInJob(Port),
    /// A link or node of the tree is out of service.
    #[error("link {} of node {} of the tree is out of service", .0.dir, .0.node)]
    DeadLink(Link),
}

/// Builds a tree with `root` that reaches every member over working links: along X first, then Y,
/// Z and W, which keeps its Up and Down channels free of deadlock. Nodes without a member that
/// lie on the way become transit nodes; branches without members are cut off.
pub fn build(routes: &Routes, root: NodeId, members: &[Port]) -> Result<TreeRows, TreeError> {
    let net = routes.net();
    let mut ports = members.to_vec();
    ports.sort_unstable();
    if ports.is_empty() || ports.windows(2).any(|w| w[0] == w[1]) {
        return Err(TreeError::Members);
    }
    if root as usize >= net.nodes || ports.iter().any(|p| p.node as usize >= net.nodes) {
        return Err(TreeError::Members);
    }
    // Sweep dimension by dimension; in each ring the tree grows both ways from the one node reached.
    let mut parent: BTreeMap<NodeId, Option<usize>> = BTreeMap::from([(root, None)]);
    for dim in 0..4 {
        let mut front: Vec<NodeId> = parent.keys().copied().collect();
        while !front.is_empty() {
            let mut next = Vec::new();
            for node in front {
                for dir in [dim, dim + 4] {
                    let far = net.neighbour(node, dir);
                    if far != NONE && !routes.blocked(node, dir) && !parent.contains_key(&far) {
                        parent.insert(far, Some(dir ^ 4));
                        next.push(far);
                    }
                }
            }
            front = next;
        }
    }
    let mut rows: BTreeMap<NodeId, TreeRow> = BTreeMap::new();
    rows.entry(root).or_default().is_root = true;
    for port in &ports {
        rows.entry(port.node).or_default().contributors += 1;
        let mut at = port.node;
        if !parent.contains_key(&at) || !routes.node_up(at) {
            return Err(TreeError::Unreachable { root, member: at });
        }
        while let Some(Some(up)) = parent.get(&at) {
            let far = net.neighbour(at, *up);
            rows.entry(at).or_default().to_root = Some(Direction::ALL[*up]);
            let row = rows.entry(far).or_default();
            row.down |= 1 << (up ^ 4);
            row.down_sum = row.down.count_ones() as u8;
            at = far;
        }
    }
    let mut tree = TreeRows { rows: rows.into_iter().collect(), ports };
    drop_idle_root(&net.shape, &mut tree);
    Ok(tree)
}

/// A root without participants that has a single child passes its office down to it.
fn drop_idle_root(shape: &Shape, tree: &mut TreeRows) {
    while let Some(i) = tree.rows.iter().position(|(_, r)| r.is_root) {
        let (node, row) = tree.rows[i];
        if row.contributors > 0 || row.down_sum != 1 {
            return;
        }
        let dir = Direction::ALL[row.down.trailing_zeros() as usize];
        let Some(child) = shape.neighbour(node, dir) else { return };
        tree.rows.remove(i);
        if let Some((_, row)) = tree.rows.iter_mut().find(|(n, _)| *n == child) {
            row.is_root = true;
            row.to_root = None;
        }
    }
}

/// Checks the criteria of paper 000 ((a) to (c)) and those that make them sufficient ((d) to (h)).
pub fn validate(shape: &Shape, tree: &TreeRows) -> Result<(), TreeError> {
    let rows: BTreeMap<NodeId, TreeRow> = tree.rows.iter().copied().collect();
    if rows.len() != tree.rows.len() || rows.keys().any(|n| *n as usize >= shape.nodes()) {
        return Err(TreeError::Members);
    }
    let roots = rows.values().filter(|r| r.is_root).count();
    if roots != 1 || rows.values().any(|r| r.is_root && r.to_root.is_some()) {
        return Err(TreeError::Root(roots)); // (a), (g)
    }
    for (&node, row) in &rows {
        check_row(shape, &rows, node, row)?;
        if row.contributors as usize != ports_at(&tree.ports, node).len() {
            return Err(TreeError::Contributors(node));
        }
        // (e): more steps than nodes means a cycle.
        let (mut at, mut steps) = (node, 0);
        while let Some(up) = rows.get(&at).and_then(|r| r.to_root) {
            steps += 1;
            let far = shape.neighbour(at, up).filter(|_| steps <= rows.len());
            at = far.ok_or(TreeError::Detached(node))?;
        }
        if !rows.get(&at).is_some_and(|r| r.is_root) {
            return Err(TreeError::Detached(node));
        }
    }
    let named: BTreeSet<NodeId> = tree.ports.iter().map(|p| p.node).collect();
    match named.iter().find(|n| !rows.contains_key(n)) {
        Some(node) => Err(TreeError::Contributors(*node)),
        None => Ok(()),
    }
}

fn check_row(shape: &Shape, rows: &BTreeMap<NodeId, TreeRow>, node: NodeId, row: &TreeRow) -> Result<(), TreeError> {
    if row.down_sum as u32 != row.down.count_ones() {
        return Err(TreeError::Count(node)); // (f)
    }
    if row.down == 0 && row.contributors == 0 {
        return Err(TreeError::EmptyLeaf(node)); // (h)
    }
    for dir in Direction::ALL.into_iter().take(DIRS).filter(|d| row.down & d.bit() != 0) {
        let child = shape.neighbour(node, dir).and_then(|n| rows.get(&n));
        if child.is_none_or(|c| c.to_root != Some(dir.opposite())) {
            return Err(TreeError::Edge { node, dir }); // (b)
        }
        let allowed = row.to_root.is_none_or(|up| dir.dim() > up.dim() || dir == up.opposite());
        if !allowed {
            return Err(TreeError::Order { node, dir }); // (c)
        }
    }
    if let Some(dir) = row.to_root {
        let parent = shape.neighbour(node, dir).and_then(|n| rows.get(&n));
        if parent.is_none_or(|p| p.down & dir.opposite().bit() == 0) {
            return Err(TreeError::Edge { node, dir }); // (d)
        }
    }
    Ok(())
}
