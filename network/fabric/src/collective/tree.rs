//! Trees: their tables, how one is built over links that work, and what makes one valid.

use crate::routes::Routes;
use crate::routes::{DIRS, NONE};
use crate::types::{JobSlot, Link, Port};
use angara_net::torus::{Direction, NodeId, Shape};
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
    /// Criterion (a): no root.
    #[error("criterion (a): no node is the root, there must be exactly one")]
    NoRoot,
    /// Criterion (a): more than one root.
    #[error("criterion (a): node {node} is a root like node {first}, there must be exactly one")]
    TwoRoots {
        /// The root with the lowest number.
        first: NodeId,
        /// Another one.
        node: NodeId,
    },
    /// Criterion (b): a direction down does not lead to a child.
    #[error("criterion (b): node {node}: its neighbour down {dir} is not in the tree or has another parent")]
    Child {
        /// Where.
        node: NodeId,
        /// Which direction.
        dir: Direction,
    },
    /// Criterion (c): a direction down that may close a cycle of waiting packets.
    #[error(
        "criterion (c): node {node}: direction {dir} down is neither opposite to the root nor in a later dimension"
    )]
    Order {
        /// Where.
        node: NodeId,
        /// Which direction.
        dir: Direction,
    },
    /// Criterion (d): the parent does not know this child.
    #[error("criterion (d): node {node}: its parent towards {dir} is not in the tree or does not lead down to it")]
    Parent {
        /// Where.
        node: NodeId,
        /// Direction of the parent.
        dir: Direction,
    },
    /// Criterion (e): following the parents does not lead to the root.
    #[error("criterion (e): node {0}: following the directions to the root does not reach it")]
    Detached(NodeId),
    /// Criterion (f): the count of directions down is wrong.
    #[error("criterion (f): node {0}: the number of directions down is wrong")]
    Count(NodeId),
    /// Criterion (g): the root has a parent.
    #[error("criterion (g): node {0} is the root and has a direction to the root")]
    RootParent(NodeId),
    /// Criterion (h): a leaf without contributors would never finish a reduction.
    #[error("criterion (h): node {0}: a leaf needs a local participant")]
    EmptyLeaf(NodeId),
    /// The rows do not match the participants.
    #[error("node {0}: the row does not count the participants named")]
    Contributors(NodeId),
    /// TreeId outside 0..16.
    #[error("there is no tree {0}; TreeIds are 0 to 15")]
    NoTree(u8),
    /// The TreeId is in use.
    #[error("tree {0} is loaded already for job {1}")]
    Loaded(u8, JobSlot),
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
    let mut parent = vec![UNSEEN; net.nodes];
    parent[root as usize] = ROOT;
    let mut reached = vec![root];
    for dim in 0..DIRS / 2 {
        let mut front = reached.clone();
        while !front.is_empty() {
            let mut next = Vec::new();
            for node in front {
                for dir in [dim, dim + DIRS / 2] {
                    let far = net.neighbour(node, dir);
                    if far != NONE && !routes.blocked(node, dir) && parent[far as usize] == UNSEEN {
                        parent[far as usize] = opposite(dir) as u8;
                        next.push(far);
                    }
                }
            }
            next.sort_unstable();
            reached.extend_from_slice(&next);
            front = next;
        }
        reached.sort_unstable();
    }
    let mut rows: BTreeMap<NodeId, TreeRow> = BTreeMap::new();
    rows.entry(root).or_default().is_root = true;
    for port in &ports {
        let mut at = port.node;
        if parent[at as usize] == UNSEEN || !routes.node_up(at) {
            return Err(TreeError::Unreachable { root, member: at });
        }
        rows.entry(at).or_default().contributors += 1;
        // Joins the tree where one of its ancestors has already.
        while parent[at as usize] != ROOT && rows.entry(at).or_default().to_root.is_none() {
            let up = parent[at as usize] as usize;
            rows.entry(at).or_default().to_root = Some(Direction::ALL[up]);
            at = net.neighbour(at, up);
            let row = rows.entry(at).or_default();
            row.down |= 1 << opposite(up);
            row.down_sum += 1;
        }
    }
    let mut tree = TreeRows { rows: rows.into_iter().collect(), ports };
    drop_idle_root(&net.shape, &mut tree);
    Ok(tree)
}

/// In a list of parents: not reached, the root.
const UNSEEN: u8 = u8::MAX;
const ROOT: u8 = u8::MAX - 1;

/// Number of the direction opposite to `dir`.
fn opposite(dir: usize) -> usize {
    Direction::ALL[dir].opposite().index()
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
    let mut roots = rows.iter().filter(|(_, r)| r.is_root).map(|(n, _)| *n);
    match (roots.next(), roots.next()) {
        (None, _) => return Err(TreeError::NoRoot),
        (Some(first), Some(node)) => return Err(TreeError::TwoRoots { first, node }),
        (Some(root), None) if rows[&root].to_root.is_some() => return Err(TreeError::RootParent(root)),
        _ => {}
    }
    let mut contributors: BTreeMap<NodeId, usize> = BTreeMap::new();
    tree.ports.iter().for_each(|p| *contributors.entry(p.node).or_default() += 1);
    let mut attached: BTreeSet<NodeId> = BTreeSet::new();
    for (&node, row) in &rows {
        check_row(shape, &rows, node, row)?;
        if row.contributors as usize != contributors.remove(&node).unwrap_or(0) {
            return Err(TreeError::Contributors(node));
        }
        // (e): up to the root or to a node known to lead there; more steps than nodes are a cycle.
        let (mut at, mut path) = (node, Vec::new());
        while !attached.contains(&at) {
            path.push(at);
            match rows.get(&at) {
                Some(r) if r.is_root => break,
                Some(TreeRow { to_root: Some(up), .. }) if path.len() <= rows.len() => {
                    at = shape.neighbour(at, *up).ok_or(TreeError::Detached(node))?;
                }
                _ => return Err(TreeError::Detached(node)),
            }
        }
        attached.extend(path);
    }
    match contributors.keys().next() {
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
            return Err(TreeError::Child { node, dir }); // (b)
        }
        let allowed = row.to_root.is_none_or(|up| dir.dim() > up.dim() || dir == up.opposite());
        if !allowed {
            return Err(TreeError::Order { node, dir }); // (c)
        }
    }
    if let Some(dir) = row.to_root {
        let parent = shape.neighbour(node, dir).and_then(|n| rows.get(&n));
        if parent.is_none_or(|p| p.down & dir.opposite().bit() == 0) {
            return Err(TreeError::Parent { node, dir }); // (d)
        }
    }
    Ok(())
}
