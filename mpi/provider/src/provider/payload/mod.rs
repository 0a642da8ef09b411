//! Rendezvous: how large payloads cross. The sender announces a payload with a request to send (RTS). The receiver fetches
//! it and ends the exchange with a FIN.
//!
//! On one host, off the network, the receiver reads the sender's memory, if the kernel lets it. Otherwise it answers with a
//! clear to send (CTS). The sender then puts the payload into its window, a part of its symmetric heap, in fragments, and
//! the receiver gets each fragment by the adapter: nothing bypasses the network where there is one.
//!
//! An RTS is *revoked* if its endpoint or region is closed before the FIN, since its memory must not be used any more. A
//! receiver that reads the sender's memory also reads a word there that counts revocations. If the count has changed, the
//! bytes may be anything, and the receiver asks through the window instead. A receiver that uses the window is told. It may
//! be getting a fragment at that moment, so no chunk is reused before its answer.

mod fetch;
mod offer;
mod proof;

pub(super) use fetch::{Fetches, Fetching, InboundEnd, Written};
pub(super) use offer::{Offering, Offers, Outbound, Purpose};
