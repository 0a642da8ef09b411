//! Slow, obvious simulators written from `docs/explain/model.md`. They share no code with the model.
//!
//! Items are named as in that document, section by section.
#![forbid(unsafe_code)]
#![expect(missing_docs, reason = "the document has every rule and its names")]

pub mod angara;
pub mod generic;
pub mod random;
pub mod wormhole;

use proptest::prelude::*;

/// Texts of small tori and meshes.
pub fn grid_shape() -> impl Strategy<Value = String> {
    (prop::collection::vec(1u32..6, 1..4), any::<bool>())
        .prop_filter("small", |(d, _)| d.iter().product::<u32>() <= 36)
        .prop_map(|(sizes, wrap)| Grid { sizes, wrap }.to_string())
}

/// A packet to send, and when it was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sent {
    pub src: u32,
    pub dst: u32,
    pub flits: u64,
    pub at: u64,
    pub request: bool,
    pub adaptive: bool,
}

/// (packet index, time of its last flit, routers passed)
pub type Received = (usize, u64, u64);

/// Torus or mesh by coordinates.
#[derive(Clone, Debug)]
pub struct Grid {
    pub sizes: Vec<u32>,
    pub wrap: bool,
}

impl std::fmt::Display for Grid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sizes: Vec<String> = self.sizes.iter().map(u32::to_string).collect();
        write!(f, "{}:{}", if self.wrap { "torus" } else { "mesh" }, sizes.join("x"))
    }
}

impl Grid {
    pub fn nodes(&self) -> u32 {
        self.sizes.iter().product()
    }
    pub fn coords(&self, mut id: u32) -> Vec<u32> {
        self.sizes
            .iter()
            .map(|s| {
                let c = id % s;
                id /= s;
                c
            })
            .collect()
    }
    pub fn id(&self, c: &[u32]) -> u32 {
        c.iter().zip(&self.sizes).rev().fold(0, |id, (c, s)| id * s + c)
    }
    /// Does the way from `from` to `to` in dimension `d` lead towards plus?
    pub fn towards_plus(&self, from: u32, to: u32, d: usize, tie: bool) -> bool {
        if !self.wrap {
            return to > from;
        }
        let k = self.sizes[d];
        let plus = (to + k - from) % k;
        let minus = (from + k - to) % k;
        plus < minus || (plus == minus && (k == 2 || tie))
    }
    pub fn step(&self, node: u32, port: usize) -> u32 {
        let mut c = self.coords(node);
        let (d, k) = (port / 2, self.sizes[port / 2]);
        if !self.wrap {
            assert!(if port.is_multiple_of(2) { c[d] + 1 < k } else { c[d] > 0 }, "left the mesh");
        }
        c[d] = if port.is_multiple_of(2) { (c[d] + 1) % k } else { (c[d] + k - 1) % k };
        self.id(&c)
    }
}
