//! Tests of the public API, one module each, over a stand-in for the daemon ([`fake`]).

mod c_header;
mod engines;
mod fake;
mod mailbox;
mod ring;
mod solo;
