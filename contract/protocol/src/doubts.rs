//! Times in virtual time that rest on a guess: which, and why.

use crate::print::show_pes;
use angara_abi::doubts::Doubts;
use serde::{Deserialize, Serialize};

/// A PE whose times are doubtful.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Doubted {
    /// PE.
    pub pe: u32,
    /// Bits of [`Doubts`].
    pub reasons: u32,
    /// Most looks in vain after which a call of it went on by itself.
    pub looks: u32,
}

/// Says why times are doubtful, and of which PEs: one line for each reason.
pub fn lines(doubted: &[Doubted]) -> Vec<String> {
    let line = |reason: Doubts| {
        let those: Vec<&Doubted> = doubted.iter().filter(|d| Doubts::from_bits(d.reasons).has(reason)).collect();
        let looks = those.iter().map(|d| d.looks).max()?;
        let pes = show_pes(&those.iter().map(|d| d.pe).collect::<Vec<_>>());
        Some(format!("times of {pes} rest on a guess: {}", why(reason, looks)))
    };
    Doubts::ALL.into_iter().filter_map(line).collect()
}

fn why(reason: Doubts, looks: u32) -> String {
    match reason {
        Doubts::THREADS => "several threads run at once, in an order that another run may not have".into(),
        Doubts::LOOKS => format!(
            "the MPI library went on by itself after {looks} looks in vain, which is more than it is known to need"
        ),
        Doubts::UNKNOWN_CALLS => "the MPI library waits in a call that is not known as one of MPI".into(),
        _ => "windows of MPI may be in memory that ranks share, where accesses take no time".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_a_line_with_its_pes() {
        let of = |pe, reasons: Doubts, looks| Doubted { pe, reasons: reasons.bits(), looks };
        let both = Doubts::THREADS.and(Doubts::LOOKS);
        let lines =
            lines(&[of(0, Doubts::LOOKS, 9), of(1, both, 700), of(2, Doubts::LOOKS, 3), of(3, Doubts::default(), 0)]);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("times of PE 1 rest on a guess: several threads"), "{lines:?}");
        assert!(lines[1].starts_with("times of PEs 0-2 rest") && lines[1].contains("after 700 looks"), "{lines:?}");
        // Bits of a page that a hostile program wrote.
        assert_eq!(super::lines(&[Doubted { pe: 0, reasons: u32::MAX << 8, looks: 1 }]), Vec::<String>::new());
    }
}
