//! Faults on request: what a command ([`angara_net::fault`]) asks of links and nodes ([`commands`]) or of trunks
//! ([`trunk_commands`]), done here or on every host of the cluster.

mod commands;
pub(crate) mod ledger;
pub(crate) mod trunk;
mod trunk_commands;

pub(crate) use commands::out_of_order;
