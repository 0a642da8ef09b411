//! The chip without its adapter: routers and links, what is on them, and time.
//!
//! [`layout`] numbers queues and outputs, [`crossbar`] remembers what is in them, [`router`] moves packets, [`arbiter`]
//! decides who gets an output, [`ports`] through which of them a node's packets go, [`slots`] knows the room behind it, [`impaired`] what befalls packets on a link, [`reroute`]
//! what becomes of them when routes change ([`degraded`] is the state of both), [`observe`] what is counted, traced and
//! captured. [`time`] has the events to come, and how long flits take. What the adapter must hear of is left in a list of [`Notice`]s.

mod alone;
mod arbiter;
mod crossbar;
mod crossing;
mod degraded;
mod edge;
mod impaired;
pub(crate) mod layout;
mod observe;
mod ports;
mod raw;
mod reroute;
mod router;
mod slots;
mod state;
mod time;

pub(crate) use edge::{Ends, Streams};
pub use observe::capture::{Filter, Heard, LISTENERS_MAX};
pub use observe::counters::NodeCounters;
pub(crate) use observe::listen::At;
pub use observe::occupancy::ChannelUse;
pub use observe::records::{Delivery, Inconsistent, Injection, LinkLoad, Lost, Totals, TrafficClass};
pub use observe::trace::{Stage, TraceEvent, Tracer};
pub use raw::Crossing;
pub(crate) use slots::NEVER;
pub use slots::SLOTS_MAX;
pub(crate) use state::{Chip, ChipConfig, Injected, Notice};
pub(crate) use time::events::{Event, EventKind};
pub(crate) use time::tick::Network;
