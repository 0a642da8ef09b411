//! Faults on request: what a text ([`angara_abi::fault`]) asks of links and nodes ([`fault`]) or of trunks ([`trunk`]), done here
//! or on every host.

mod commands;
pub mod fault;
pub(crate) mod trunk;
mod trunk_commands;
