//! The ways of doing a barrier that a job can choose from, and what each one needs.

use std::fmt;
use std::str::FromStr;

/// How a job's barriers are done (paper 001, "variants").
///
/// Every family gives the same guarantees. A half-barrier: all nodes have entered, and every packet
/// sent to me before has arrived. A full barrier: also everything I sent has been delivered and
/// answered. They differ in what they rest on, and so in packets and time.
///
/// | family | rests on | messages of a half-barrier | full |
/// |---|---|---|---|
/// | multiphase | specials that overtake nothing on any link | 1 per phase, node and link, K phases | 2K phases |
/// | all-to-all | order between two nodes on one channel; the job's packets are never adaptive | N(N−1) per channel in use | again behind the answers |
/// | master | acknowledgement of every packet before entering | 2(N−1), all at one node | waits for answers, too, before entering |
/// | tree | acknowledgements | 2(N−1), between neighbours | as master |
/// | hypercube | acknowledgements | N log2 N | as master |
/// | counting | counters of packets sent per target and received | N(N−1) announcements | a second round |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum BarrierFamily {
    /// K or 2K phases of one special per neighbour; works for adaptive packets and transit nodes.
    #[default]
    Multiphase,
    /// Everybody sends one packet per data channel in use to everybody.
    AllToAll,
    /// Gather to the node nearest the middle along a tree in the torus, release back down it.
    Tree,
    /// Pairwise exchange over the largest power of two of the nodes; the others attach to a partner.
    Hypercube,
    /// Gather to one node, release from there.
    Master,
    /// Everybody tells everybody how many packets to wait for.
    Counting,
}

impl BarrierFamily {
    /// Every family.
    pub const ALL: [BarrierFamily; 6] = [
        BarrierFamily::Multiphase,
        BarrierFamily::AllToAll,
        BarrierFamily::Tree,
        BarrierFamily::Hypercube,
        BarrierFamily::Master,
        BarrierFamily::Counting,
    ];
    /// As written in commands and reports.
    pub fn name(self) -> &'static str {
        ["multiphase", "all-to-all", "tree", "hypercube", "master", "counting"][self as usize]
    }
    /// A node enters only once all it has sent has been acknowledged.
    pub fn acknowledges(self) -> bool {
        matches!(self, BarrierFamily::Tree | BarrierFamily::Hypercube | BarrierFamily::Master)
    }
    /// A full barrier is two half-barriers with the answers to requests between them.
    pub(super) fn two_halves(self) -> bool {
        matches!(self, BarrierFamily::Multiphase | BarrierFamily::AllToAll)
    }
}

impl fmt::Display for BarrierFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for BarrierFamily {
    type Err = String;
    fn from_str(text: &str) -> Result<BarrierFamily, String> {
        let found = BarrierFamily::ALL.into_iter().find(|f| f.name() == text);
        found.ok_or_else(|| {
            format!("`{text}` is no kind of barrier; there are {}", BarrierFamily::ALL.map(|f| f.name()).join(", "))
        })
    }
}
