//! Parts of a network that work worse than they should, or not at all.

use super::impaired::ImpairedLinks;
use crate::routes::PartId;
use angara_net::torus::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// Impaired links, and what waits while routes lead around what is dead.
#[derive(Debug)]
pub(crate) struct Degraded {
    /// Links that are or were impaired.
    pub(crate) links: ImpairedLinks,
    /// No link is impaired now.
    pub(crate) unimpaired: bool,
    /// A link at a node modelled here takes its packets longer than the chip's links.
    pub(crate) slow: bool,
    /// By node: it is modelled here, and credits for its links take no longer than usual.
    pub(super) prompt: Vec<bool>,
    /// Routes are those of tables, and adaptive packets keep to them: something is out of service, or
    /// node sets divide the network.
    pub(crate) by_table: bool,
    /// Pairs whose new packets wait, with the number of packets they wait for.
    pub(crate) held: BTreeMap<(NodeId, NodeId), u32>,
    /// Parts of the machine all of whose new packets wait, for all packets that any pair of them waits for.
    pub(crate) draining: BTreeSet<PartId>,
}

impl Degraded {
    /// Nothing, in a network of which these nodes are modelled here.
    pub(super) fn new(owned: &[bool]) -> Degraded {
        Degraded {
            links: BTreeMap::new(),
            unimpaired: true,
            slow: false,
            prompt: owned.to_vec(),
            by_table: false,
            held: BTreeMap::new(),
            draining: BTreeSet::new(),
        }
    }
}
