//! Which way packets go: the graph under the network, ways through it, and the tables of routes.

mod balance;
mod candidates;
mod links;
mod net;
mod part;
mod route;
mod spread;
mod table;
mod turns;
mod way;

pub use links::Links;
pub(crate) use links::PartId;
pub(crate) use net::{DIMS, DIRS, NONE, Net, link_index};
pub use part::{BALANCED_NODES, TABLE_NODES, Ways};
pub use route::Route;
pub use table::Routes;
pub(crate) use way::Way;
