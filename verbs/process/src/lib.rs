//! The adapters of an RDMA program. Each is a seat in a domain of the daemon ([`angara::open`]), an [`angara_hca::Hca`] at the
//! network of that domain, and a thread that serves peers while the program does something else: the *agent*.
//!
//! ```text
//! mailbox        messages between adapters
//! identity       who this process is, for those who would copy from and to its memory
//! listeners      ports of connection managers here
//! queue pairs    what they let peers do
//! regions        registered memory
//! ```
//!
//! That is a seat's memory ([`tables`]). Where the kernel lets two processes copy between each other, and nothing has to go
//! through the emulated network, the initiator copies by itself what it may: it reads the tables of its target. Everywhere
//! else messages carry all, and the agent stores what they bring.

mod adapter;
mod agent;
mod copies;
mod memory;
mod port;
mod settings;
mod tables;
mod taken;

pub use adapter::{Adapter, Deliver, Tick, deliver_with, tick_with};
pub use memory::Own;
pub use port::{Listener, Port, PortCounters, Traffic};
pub use settings::{MemoryTier, Settings};
pub use taken::{adapters, known};
