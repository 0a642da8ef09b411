//! Shapes of networks: which port of which router is wired to what, and the way a packet takes.
//!
//! A topology answers three questions: what hangs on an output port, what a packet must remember
//! when it sets out ([`Topology::start`]), and which output it wants at the router it has reached
//! ([`Topology::next`]). Everything a packet remembers is one small [`RouteState`]; routers hold no tables.

mod cayley;
mod clos;
mod contract;
mod fat_tree;
mod grid;
mod spec;

pub use cayley::{Cayley, Group, Presentation};
pub use clos::Clos;
pub use contract::{Class, DIMS_MAX, End, Hop, NODES_MAX, PORTS_MAX, RouteState, Topology, TopologyError};
pub use fat_tree::FatTree;
pub use grid::Grid;
pub use spec::TopologySpec;
