//! Coordinates, directions and shapes of a 1D-4D torus or mesh.
//!
//! Node ids count with X fastest: `id = x + X*(y + Y*(z + Z*w))`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Most dimensions of the chip's torus (paper 002, section 2).
pub const DIMS_MAX: usize = 4;
/// Most nodes of one network (32K, published for the chip).
pub const NODES_MAX: usize = 32_768;

/// Index of a node in its network.
pub type NodeId = u32;

/// Position of a node; unused dimensions are 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Coords(pub [u8; DIMS_MAX]);

/// One of the eight link directions, numbered in routing order +X +Y +Z +W −X −Y −Z −W
/// (paper 002, section 2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Direction(u8);

impl Direction {
    /// Every direction in routing order.
    pub const ALL: [Direction; 8] = [
        Direction(0),
        Direction(1),
        Direction(2),
        Direction(3),
        Direction(4),
        Direction(5),
        Direction(6),
        Direction(7),
    ];

    /// The direction with routing index `index` (0..8).
    pub fn from_index(index: usize) -> Option<Direction> {
        (index < 8).then_some(Direction(index as u8))
    }
    /// The direction along dimension `dim` (0..4), towards larger coordinates if `plus`.
    pub fn new(dim: usize, plus: bool) -> Direction {
        debug_assert!(dim < DIMS_MAX);
        Direction((dim & 3) as u8 | if plus { 0 } else { 4 })
    }
    /// Position in routing order, 0..8.
    pub fn index(self) -> usize {
        self.0 as usize
    }
    /// Dimension, 0..4.
    pub fn dim(self) -> usize {
        (self.0 & 3) as usize
    }
    /// Towards larger coordinates.
    pub fn is_plus(self) -> bool {
        self.0 < 4
    }
    /// The same dimension, the other way.
    pub fn opposite(self) -> Direction {
        Direction(self.0 ^ 4)
    }
    /// This direction's bit in a direction-bits field.
    pub fn bit(self) -> u8 {
        1 << self.0
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.is_plus() { '+' } else { '-' }, ['X', 'Y', 'Z', 'W'][self.dim()])
    }
}

impl FromStr for Direction {
    type Err = ShapeError;
    fn from_str(s: &str) -> Result<Self, ShapeError> {
        Direction::ALL
            .into_iter()
            .find(|d| d.to_string().eq_ignore_ascii_case(s))
            .ok_or_else(|| ShapeError::Direction(s.to_string()))
    }
}

/// Sizes of a torus or mesh.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shape {
    /// Nodes along each dimension, X first; 1 for those not in use.
    dims: [u8; DIMS_MAX],
    /// Dimensions in use, 1 to 4.
    ndims: u8,
    /// Torus: links close each dimension to rings.
    wrap: bool,
}

/// Why a shape, coordinate or direction text was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ShapeError {
    /// Not 1 to 4 sizes.
    #[error("shape `{0}`: give 1 to 4 sizes joined by `x`, such as 4x2x2 (prefix `mesh:` for a mesh)")]
    Form(String),
    /// A size outside 1..=255.
    #[error("shape `{0}`: every size must be from 1 to 255")]
    Size(String),
    /// Too many nodes.
    #[error("shape `{0}` has {1} nodes; at most {NODES_MAX} are supported")]
    Nodes(String, usize),
    /// Unknown direction.
    #[error("direction `{0}`: use one of +X +Y +Z +W -X -Y -Z -W")]
    Direction(String),
    /// More or fewer coordinates than the shape has dimensions.
    #[error("coordinates `{0}`: {1} has {2} dimensions, so write {2} numbers joined by commas")]
    Count(String, String, usize),
    /// Coordinates that are not inside the shape.
    #[error("coordinates `{0}` are not in {1}")]
    Coords(String, String),
}

impl Shape {
    /// A shape of 1 to 4 dimensions, wrapped around (torus) or not (mesh).
    pub fn new(dims: &[u8], wrap: bool) -> Result<Shape, ShapeError> {
        let text = || dims.iter().map(u8::to_string).collect::<Vec<_>>().join("x");
        if dims.is_empty() || dims.len() > DIMS_MAX {
            return Err(ShapeError::Form(text()));
        }
        if dims.contains(&0) {
            return Err(ShapeError::Size(text()));
        }
        let nodes: usize = dims.iter().map(|&d| d as usize).product();
        if nodes > NODES_MAX {
            return Err(ShapeError::Nodes(text(), nodes));
        }
        let mut all = [1; DIMS_MAX];
        all[..dims.len()].copy_from_slice(dims);
        Ok(Shape { dims: all, ndims: dims.len() as u8, wrap })
    }
    /// The most cubic torus of at most three dimensions with at least `nodes` nodes: the smallest
    /// sum of sizes, then the fewest nodes. 7 and 8 give 2x2x2, 16 gives 4x2x2, 2 gives 2.
    pub fn most_cubic(nodes: usize) -> Shape {
        let nodes = nodes.clamp(1, NODES_MAX);
        let mut best = (usize::MAX, usize::MAX, [1u8; 3]);
        for x in 1..=255usize {
            for y in 1..=x {
                let z = nodes.div_ceil(x * y);
                if z <= y {
                    best = best.min((x + y + z, x * y * z, [x as u8, y as u8, z as u8]));
                }
            }
        }
        let used = best.2.iter().filter(|&&d| d > 1).count().max(1);
        Shape::new(&best.2[..used], true).expect("sizes found above are within limits")
    }
    /// Sizes of the used dimensions.
    pub fn dims(&self) -> &[u8] {
        &self.dims[..self.ndims as usize]
    }
    /// Size along dimension `dim`; 1 for an unused one.
    pub fn size(&self, dim: usize) -> usize {
        self.dims[dim] as usize
    }
    /// Links wrap around.
    pub fn is_torus(&self) -> bool {
        self.wrap
    }
    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.dims.iter().map(|&d| d as usize).product()
    }
    /// Position of node `id`, which must be below [`Shape::nodes`].
    pub fn coords(&self, id: NodeId) -> Coords {
        let mut rest = id as usize;
        let mut c = [0; DIMS_MAX];
        for (c, &size) in c.iter_mut().zip(&self.dims) {
            *c = (rest % size as usize) as u8;
            rest /= size as usize;
        }
        Coords(c)
    }
    /// Id of the node at `at`, or `None` outside the shape.
    pub fn id(&self, at: Coords) -> Option<NodeId> {
        let mut id = 0usize;
        for dim in (0..DIMS_MAX).rev() {
            if at.0[dim] >= self.dims[dim] {
                return None;
            }
            id = id * self.dims[dim] as usize + at.0[dim] as usize;
        }
        Some(id as NodeId)
    }
    /// The neighbour of `id` in direction `dir`; `None` at a mesh edge or in a dimension of size 1.
    pub fn neighbour(&self, id: NodeId, dir: Direction) -> Option<NodeId> {
        let dim = dir.dim();
        let size = self.dims[dim];
        if size < 2 {
            return None;
        }
        let mut at = self.coords(id);
        let c = at.0[dim];
        at.0[dim] = match (dir.is_plus(), self.wrap) {
            (true, _) if c + 1 < size => c + 1,
            (true, true) => 0,
            (false, _) if c > 0 => c - 1,
            (false, true) => size - 1,
            _ => return None,
        };
        self.id(at)
    }
    /// Hops of a minimal route from `a` to `b`.
    pub fn distance(&self, a: NodeId, b: NodeId) -> u32 {
        let (a, b) = (self.coords(a), self.coords(b));
        (0..DIMS_MAX)
            .map(|d| {
                let straight = a.0[d].abs_diff(b.0[d]) as u32;
                if self.wrap { straight.min(self.dims[d] as u32 - straight) } else { straight }
            })
            .sum()
    }
    /// Reads coordinates such as `1,0,2`, as many as there are dimensions.
    pub fn parse_coords(&self, text: &str) -> Result<Coords, ShapeError> {
        let bad = || ShapeError::Coords(text.to_string(), self.to_string());
        let mut c = [0; DIMS_MAX];
        let parts = text.split(',');
        if parts.clone().count() != self.ndims as usize && parts.clone().all(|part| part.trim().parse::<u8>().is_ok()) {
            return Err(ShapeError::Count(text.to_string(), self.to_string(), self.ndims.into()));
        }
        for (i, part) in parts.enumerate() {
            *c.get_mut(i).ok_or_else(bad)? = part.trim().parse().map_err(|_| bad())?;
        }
        self.id(Coords(c)).map(|_| Coords(c)).ok_or_else(bad)
    }
    /// Writes coordinates with as many numbers as the shape has dimensions: `1,0,2`.
    pub fn show(&self, at: Coords) -> String {
        at.0[..self.ndims as usize].iter().map(u8::to_string).collect::<Vec<_>>().join(",")
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims = self.dims().iter().map(u8::to_string).collect::<Vec<_>>().join("x");
        write!(f, "{}{dims}", if self.wrap { "" } else { "mesh:" })
    }
}

impl FromStr for Shape {
    type Err = ShapeError;
    fn from_str(s: &str) -> Result<Shape, ShapeError> {
        let (wrap, sizes) = match s.strip_prefix("mesh:") {
            Some(rest) => (false, rest),
            None => (true, s.strip_prefix("torus:").unwrap_or(s)),
        };
        let mut dims = Vec::new();
        for part in sizes.split('x') {
            let n: u32 = part.parse().map_err(|_| ShapeError::Form(s.to_string()))?;
            dims.push(u8::try_from(n).map_err(|_| ShapeError::Size(s.to_string()))?);
        }
        Shape::new(&dims, wrap).map_err(|e| match e {
            ShapeError::Form(_) => ShapeError::Form(s.to_string()),
            ShapeError::Size(_) => ShapeError::Size(s.to_string()),
            e => e,
        })
    }
}

impl TryFrom<String> for Direction {
    type Error = ShapeError;
    fn try_from(s: String) -> Result<Direction, ShapeError> {
        s.parse()
    }
}

impl From<Direction> for String {
    fn from(dir: Direction) -> String {
        dir.to_string()
    }
}

impl TryFrom<String> for Shape {
    type Error = ShapeError;
    fn try_from(s: String) -> Result<Shape, ShapeError> {
        s.parse()
    }
}

impl From<Shape> for String {
    fn from(s: Shape) -> String {
        s.to_string()
    }
}
