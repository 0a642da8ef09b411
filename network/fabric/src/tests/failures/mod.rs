//! What goes wrong on the way: links and nodes that die, links that lose, corrupt, double or delay packets.

mod faults;
pub(super) mod impaired;
mod lossy;
