//! Network bandwidth that multiplying dense matrices demands of a hierarchical machine (paper 003).
//!
//! The N0·N1·N2 scalar multiplications form a box (N0 is the summed index k, N1 is i, N2 is j).
//! Cutting the box into K equal blocks, one per module, fixes how many words each module must
//! exchange; dividing by the bandwidth of a module's outside link gives a time that no program
//! can beat. Doing this at every level of a machine (arithmetic unit, cluster, node, board, rack)
//! shows which level limits it, from which N on it reaches its peak, and what its bisection
//! bandwidth does not tell. The numbering `zip3` meets the bound at all levels at once.
//!
//! Formula numbers are the paper's; several are garbled there and rebuilt from its tables.
//! A *word* is 8 bytes.

pub mod analysis;
pub mod formulas;
pub mod htmt;
pub mod ksection;
pub mod machine;
pub mod report;
pub mod zip3;
