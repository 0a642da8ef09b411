//! Shapes of networks: which port of which router is wired to what, and the way a packet takes.
//!
//! A topology answers three questions: what hangs on an output port, what a packet must remember
//! when it sets out ([`Topology::start`]), and which output it wants at the router it has reached
//! ([`Topology::next`]). Everything a packet remembers is one small [`RouteState`]; routers hold no tables.
//! It also says how it is written, named and drawn, so that a new one is a file and a line here.

mod any;
mod cayley;
mod clos;
mod contract;
pub mod dependencies;
mod dragonfly;
mod express;
mod fat_tree;
mod fly;
mod graph;
mod grid;
mod hyperx;
mod layout;

pub use any::Outside;
pub use cayley::Cayley;
pub use clos::Clos;
pub(crate) use contract::FULL_RATE;
pub use contract::{
    Cell, Class, Classes, Comparison, DELAY_MAX, DIMS_MAX, End, Hop, LinkRate, NODES_MAX, Options, Outputs, PORTS_MAX,
    Route, RouteState, Routing, Topology, TopologyError, VCS_MAX, Written,
};
pub use dragonfly::Dragonfly;
pub use express::Express;
pub use fat_tree::FatTree;
pub use fly::Fly;
pub use graph::Graph;
pub use grid::Grid;
pub use hyperx::HyperX;
pub use layout::{Layout, LayoutKind};

impl Route for FatTree {}
impl Route for Clos {}
impl Route for Fly {}
impl Route for Cayley {}
impl Route for Graph {}

any::topologies! { Grid, FatTree, Fly, Clos, Cayley, Graph, Dragonfly, HyperX, Express }
