//! Operations of descriptors: one table with all that the contract says of each.
//!
//! Whoever treats operations differently asks a fact here, or matches every operation by name, so that a new one is
//! forgotten nowhere.

use super::account::Class;
use crate::PAYLOAD_MAX;

/// Most bytes of one PUT or GET descriptor.
pub const DMA_MAX: usize = 1 << 30;

/// What the contract says of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// What messages call it.
    pub name: &'static str,
    /// What it does, in the document of the registers.
    pub does: &'static str,
    /// How much it moves.
    pub moves: Moves,
    /// What its own place is for.
    pub own: Own,
    /// It names memory of a target.
    pub remote: bool,
    /// It may take vc0, too, and then overtake others.
    pub may_overtake: bool,
    /// As what a driver counts it for its target. What the adapter counts for collectives it counts itself.
    pub counted: Option<Counted>,
    /// Whether a driver can wait for it alone.
    pub answered: Answered,
}

/// How much an operation moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moves {
    /// No data.
    Nothing,
    /// From 1 byte to this many.
    Bytes(usize),
    /// Whole elements of a reduction, up to this many bytes.
    Elements(usize),
    /// One aligned word, as wide as the descriptor says.
    Word,
}

/// What the place in memory of the poster is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Own {
    /// None is looked at.
    Unused,
    /// The data lies there.
    Source,
    /// The data goes there.
    Destination,
    /// What was in the target's word goes there, if there is a place.
    OldValue,
}

/// As what a driver counts an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// Data on the way out.
    Put,
    /// Requests on the way out, data on the way back.
    Get,
    /// A word, and back again if its old value is wanted.
    Amo,
}

impl Counted {
    /// The class under which it is counted, unless it is the library's own.
    pub const fn class(self) -> Class {
        match self {
            Counted::Put => Class::Put,
            Counted::Get => Class::Get,
            Counted::Amo => Class::Amo,
        }
    }
}

/// Whether something comes back that tells of the end of this operation and of no other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answered {
    /// Its end shows in the status page, or by what travels behind it.
    Never,
    /// Always.
    Always,
    /// If it has a place for the answer.
    IntoOwn,
}

/// Makes the operations and their facts of one table, which has a row for each.
macro_rules! operations {
    ($($(#[$doc:meta])* $op:ident = $code:literal => $facts:expr;)*) => {
        /// Operations of descriptors.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum Op {
            $($(#[$doc])* $op = $code,)*
        }

        impl Op {
            /// All, by their codes.
            pub const ALL: &[Op] = &[$(Op::$op,)*];

            /// Returns what the contract says of it.
            #[inline]
            pub const fn facts(self) -> &'static Facts {
                match self {
                    $(Op::$op => const { &$facts },)*
                }
            }
        }
    };
}

/// What holds unless a row says something else; name and deed each row has to say.
const PLAIN: Facts = Facts {
    name: "",
    does: "",
    moves: Moves::Nothing,
    own: Own::Unused,
    remote: false,
    may_overtake: false,
    counted: None,
    answered: Answered::Never,
};

operations! {
    /// Nothing; only takes its place in the sequence.
    Nop = 0 => Facts { name: "nop", does: "only takes its place in the sequence", ..PLAIN };
    /// Write `len` bytes from `local` to `remote`.
    Put = 1 => Facts {
        name: "put",
        does: "write own memory to the target",
        moves: Moves::Bytes(DMA_MAX),
        own: Own::Source,
        remote: true,
        may_overtake: true,
        counted: Some(Counted::Put),
        ..PLAIN
    };
    /// Write the low `len` (1..=8) bytes of the operand to `remote`.
    PutInline = 2 => Facts {
        name: "put",
        does: "write 1 to 8 bytes of the operand to the target",
        moves: Moves::Bytes(8),
        remote: true,
        may_overtake: true,
        counted: Some(Counted::Put),
        ..PLAIN
    };
    /// Read `len` bytes from `remote` into `local`.
    Get = 3 => Facts {
        name: "get",
        does: "read target memory into own",
        moves: Moves::Bytes(DMA_MAX),
        own: Own::Destination,
        remote: true,
        counted: Some(Counted::Get),
        answered: Answered::Always,
        ..PLAIN
    };
    /// Atomic on one word at `remote`; the old value goes to `local` if that is present.
    Amo = 4 => Facts {
        name: "atomic",
        does: "atomic on one target word, old value to own memory if present",
        moves: Moves::Word,
        own: Own::OldValue,
        remote: true,
        counted: Some(Counted::Amo),
        answered: Answered::IntoOwn,
        ..PLAIN
    };
    /// Later posts of either kind wait until every earlier one is delivered in order.
    Fence = 5 => Facts {
        name: "fence",
        does: "later posts wait until every earlier one is delivered in order",
        ..PLAIN
    };
    /// Enter the job's hardware barrier; completes when this PE may leave.
    Barrier = 6 => Facts {
        name: "barrier",
        does: "enter the job's barrier",
        answered: Answered::Always,
        ..PLAIN
    };
    /// Contribute `len` bytes at `local` to a reduction on a tree.
    Reduce = 7 => Facts {
        name: "reduce",
        does: "contribute to a reduction on a tree",
        moves: Moves::Elements(PAYLOAD_MAX),
        own: Own::Source,
        remote: true,
        ..PLAIN
    };
    /// Broadcast `len` bytes at `local` on a tree.
    Bcast = 8 => Facts {
        name: "broadcast",
        does: "broadcast on a tree",
        moves: Moves::Bytes(PAYLOAD_MAX),
        own: Own::Source,
        remote: true,
        ..PLAIN
    };
}

impl Op {
    /// Decodes an operation code.
    pub fn from_bits(bits: u8) -> Option<Op> {
        Op::ALL.get(bits as usize).copied()
    }
}

const _: () = {
    let mut code = 0;
    while code < Op::ALL.len() {
        let facts = Op::ALL[code].facts();
        assert!(Op::ALL[code] as usize == code, "rows are in the order of their codes, without a gap");
        assert!(!facts.name.is_empty() && !facts.does.is_empty(), "an operation has a name and does something");
        code += 1;
    }
};
