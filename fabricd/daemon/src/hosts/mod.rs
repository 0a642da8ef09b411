//! The other hosts of a cluster: who is there, what is said, what all agree on.
//!
//! From the ground up: [`linkstate`] (who reaches whom), [`relay`] (messages once and in order over whichever trunks lead
//! there), [`messages`] (questions, answers and statements in the words of [`protocol`]), [`streams`] (bytes between a
//! launcher and its other half, which `agent` starts, or of a `capture`). Above them `peers` does what other hosts ask, `commit`
//! changes what is out of service on all of them at once ([`ballot`]), `lost` sees to the jobs of hosts that are gone, `status` tells
//! people, and `key_reload` changes the keys. [`cluster`] holds what a daemon knows of all this, [`wires`] is what trunks run over.

mod agent;
pub(crate) mod ballot;
mod capture;
pub(crate) mod cluster;
mod commit;
mod key_reload;
pub(crate) mod linkstate;
mod lost;
pub(crate) mod messages;
mod peers;
pub(crate) mod protocol;
pub(crate) mod relay;
mod status;
pub(crate) mod streams;
pub(crate) mod wires;
