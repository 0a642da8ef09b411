//! What a placement costs.

use super::{MappingError, Sites, Traffic};
use angara_net::Link;
use angara_net::torus::NodeId;

/// Cost of a placement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// Sum of bytes times links crossed.
    pub hop_bytes: u64,
    /// Bytes on the link that carries most.
    pub link_bytes: u64,
    /// That link; `None` if no link carries any.
    pub link: Option<Link>,
}

impl Cost {
    /// Tells whether this is less than `other`: hop-bytes decide, then the greatest link load.
    pub fn is_below(&self, other: &Cost) -> bool {
        (self.hop_bytes, self.link_bytes) < (other.hop_bytes, other.link_bytes)
    }
}

/// The cost of a placement, which has the node of each process, along the default routes.
///
/// # Errors
/// Processes that talk and have no route.
pub fn cost(traffic: &Traffic, sites: &Sites, nodes: &[NodeId]) -> Result<Cost, MappingError> {
    let mut hop_bytes = 0;
    let mut load = vec![0; sites.shape().nodes() * Link::PER_NODE];
    for &(from, to, bytes) in traffic.pairs() {
        let (from, to) = (nodes[from as usize], nodes[to as usize]);
        if from == to {
            continue;
        }
        let path = sites.routes().path(from, to).ok_or(MappingError::Unreachable(from, to))?;
        hop_bytes += bytes * path.len() as u64;
        path.iter().for_each(|link| load[link.index()] += bytes);
    }
    let most = load.iter().copied().max().unwrap_or(0);
    let busiest = load.iter().position(|bytes| *bytes == most).filter(|_| most > 0);
    Ok(Cost { hop_bytes, link_bytes: most, link: busiest.map(Link::from_index) })
}
