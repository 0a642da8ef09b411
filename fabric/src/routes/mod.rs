//! Which way packets go: the graph under the network, ways through it, and the tables of routes.

mod balance;
mod net;
mod route;
mod table;
mod way;

pub use balance::BALANCED_NODES;
pub(crate) use net::{DIRS, NONE, Net, link_index};
pub use route::Route;
pub use table::{Routes, TABLE_NODES};
pub(crate) use way::Way;
