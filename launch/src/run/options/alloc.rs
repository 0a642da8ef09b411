//! `--alloc`: how the nodes are found that the job has for itself.

use angara_protocol::msg::Alloc;
use clap::ValueEnum;

/// A search for node sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum AllocArg {
    /// The same as utilisation
    Auto,
    /// Hold no node that no process runs on, if routes can do without
    Utilisation,
    /// Leave the largest free box as large as possible
    Fragmentation,
    /// Hold the fewest nodes to which all packets belong
    Closed,
    /// The first free box
    FirstFitBox,
    /// The free box that touches most of what is not free
    BestFitBox,
}

impl AllocArg {
    /// The same for the daemon.
    pub fn wish(self) -> Alloc {
        match self {
            AllocArg::Auto => Alloc::Auto,
            AllocArg::Utilisation => Alloc::Utilisation,
            AllocArg::Fragmentation => Alloc::Fragmentation,
            AllocArg::Closed => Alloc::Closed,
            AllocArg::FirstFitBox => Alloc::FirstFitBox,
            AllocArg::BestFitBox => Alloc::BestFitBox,
        }
    }
}
