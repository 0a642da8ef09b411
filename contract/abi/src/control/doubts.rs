//! Why times of a program in virtual time may rest on a guess.

/// A set of reasons.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Doubts(u32);

impl Doubts {
    /// Several threads of a process ran at once, and in which order is decided on the wall: they wait in calls without the level
    /// of the library that allows it, or run for very long.
    pub const THREADS: Doubts = Doubts(1);
    /// A call of a message-passing library went on by itself after more looks in vain than it can be relied on to need at most.
    pub const LOOKS: Doubts = Doubts(2);
    /// A message-passing library looked for messages in a call that is not known to be one of it.
    pub const UNKNOWN_CALLS: Doubts = Doubts(4);
    /// Windows of a message-passing library may be in memory that ranks share, where accesses pass the network by.
    pub const SHARED_WINDOWS: Doubts = Doubts(8);

    /// All of them.
    pub const ALL: [Doubts; 4] = [Doubts::THREADS, Doubts::LOOKS, Doubts::UNKNOWN_CALLS, Doubts::SHARED_WINDOWS];

    /// The set as bits. Those that mean nothing are left out.
    pub fn from_bits(bits: u32) -> Doubts {
        Doubts(bits & 0xf)
    }
    /// See [`Doubts::from_bits`].
    pub fn bits(self) -> u32 {
        self.0
    }
    /// True if there is one of these.
    pub fn has(self, one: Doubts) -> bool {
        self.0 & one.0 != 0
    }
    /// True if there is none.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }
    /// Those of both.
    #[must_use]
    pub fn and(self, others: Doubts) -> Doubts {
        Doubts(self.0 | others.0)
    }
}
