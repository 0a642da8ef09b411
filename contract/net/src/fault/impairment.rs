//! What befalls the packets of a link, or the datagrams of a trunk.

use crate::units::show_time;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Parts per million that are everything.
pub(crate) const ALL: u32 = 1_000_000;
const SECOND: u64 = 1_000_000_000_000;
/// Longest delay of a link.
const DELAY_MAX: u64 = SECOND;
/// Least rate of a link, bytes per second.
const RATE_MIN: u64 = 1_000;

/// One setting of an [`Impairment`]. Shares are parts per million.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Impair {
    /// Share of transmissions that are corrupted.
    Corrupt(u32),
    /// Share of packets that are lost.
    Drop(u32),
    /// Share of packets that are sent twice.
    Duplicate(u32),
    /// Share of packets that are held back until another has overtaken them.
    Reorder(u32),
    /// Added latency in picoseconds; on a link also of credits and word of errors the other way.
    Delay(u64),
    /// Most bytes per second; 0: no limit.
    Rate(u64),
    /// Seed of the random choices; `None`: the network's own.
    Seed(Option<u64>),
}

impl Impair {
    /// The setting of the same kind that does nothing.
    pub fn none(self) -> Impair {
        match self {
            Impair::Corrupt(_) => Impair::Corrupt(0),
            Impair::Drop(_) => Impair::Drop(0),
            Impair::Duplicate(_) => Impair::Duplicate(0),
            Impair::Reorder(_) => Impair::Reorder(0),
            Impair::Delay(_) => Impair::Delay(0),
            Impair::Rate(_) => Impair::Rate(0),
            Impair::Seed(_) => Impair::Seed(None),
        }
    }
}

impl fmt::Display for Impair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: u32| format!("{}%", f64::from(share) / 1e4);
        match *self {
            Impair::Corrupt(n) => write!(f, "corrupt={}", percent(n)),
            Impair::Drop(n) => write!(f, "drop={}", percent(n)),
            Impair::Duplicate(n) => write!(f, "dup={}", percent(n)),
            Impair::Reorder(n) => write!(f, "reorder={}", percent(n)),
            Impair::Delay(time) => write!(f, "delay={}", show_time(time)),
            Impair::Rate(bytes) => {
                let units = [("G", 30), ("M", 20), ("K", 10)];
                let unit = units.into_iter().find(|u| bytes > 0 && bytes.is_multiple_of(1 << u.1)).unwrap_or(("", 0));
                write!(f, "rate={}{}", bytes >> unit.1, unit.0)
            }
            Impair::Seed(None) => f.write_str("seed=none"),
            Impair::Seed(Some(seed)) => write!(f, "seed={seed}"),
        }
    }
}

/// All that befalls the packets of a link, or the datagrams of a trunk. The default is nothing. Shares are parts per million.
///
/// Whoever carries it out names every field, so that a new one is overlooked nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Impairment {
    /// Share of transmissions that are corrupted.
    pub corrupt: u32,
    /// Share that is lost. The receiver of a link answers that as it answers corruption.
    pub drop: u32,
    /// Share that is sent twice.
    pub duplicate: u32,
    /// Share that is overtaken by the next.
    pub reorder: u32,
    /// Added latency, picoseconds.
    pub delay_ps: u64,
    /// Most bytes per second; 0: no limit.
    pub rate: u64,
    /// Seed of the random choices, counted from when the impairment changed last; `None`: the network's own.
    pub seed: Option<u64>,
}

/// Why nothing can be impaired so.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ImpairmentError {
    /// A share above 1.
    #[error("{0} packets per million: give at most 1000000")]
    Share(u32),
    /// A delay that would let model time overflow.
    #[error("a delay of {0} ps: give at most 1s")]
    Delay(u64),
    /// A rate that would let model time overflow.
    #[error("a rate of {0} bytes per second: give at least 1000, or 0 for no limit")]
    Rate(u64),
}

impl Impairment {
    /// The same but for one setting.
    pub fn with(self, how: Impair) -> Impairment {
        match how {
            Impair::Corrupt(corrupt) => Impairment { corrupt, ..self },
            Impair::Drop(drop) => Impairment { drop, ..self },
            Impair::Duplicate(duplicate) => Impairment { duplicate, ..self },
            Impair::Reorder(reorder) => Impairment { reorder, ..self },
            Impair::Delay(delay_ps) => Impairment { delay_ps, ..self },
            Impair::Rate(rate) => Impairment { rate, ..self },
            Impair::Seed(seed) => Impairment { seed, ..self },
        }
    }
    /// Why a link cannot be so.
    pub fn check(&self) -> Result<(), ImpairmentError> {
        let Impairment { corrupt, drop, duplicate, reorder, delay_ps, rate, seed: _ } = *self;
        match [corrupt, drop, duplicate, reorder].into_iter().find(|share| *share > ALL) {
            Some(share) => Err(ImpairmentError::Share(share)),
            None if delay_ps > DELAY_MAX => Err(ImpairmentError::Delay(delay_ps)),
            None if (1..RATE_MIN).contains(&rate) => Err(ImpairmentError::Rate(rate)),
            None => Ok(()),
        }
    }
    /// Nothing is impaired.
    pub fn is_none(&self) -> bool {
        Impairment { seed: None, ..*self } == Impairment::default()
    }
    /// Share of transmissions that do not arrive as they were sent: corrupted or lost.
    pub fn spoilt(&self) -> u32 {
        let Impairment { corrupt, drop, duplicate: _, reorder: _, delay_ps: _, rate: _, seed: _ } = *self;
        corrupt.saturating_add(drop).min(ALL)
    }
    /// Packets take longer than usual.
    pub fn is_slow(&self) -> bool {
        self.delay_ps > 0 || self.rate > 0
    }
    /// Its settings that do something, in the order of [`super::KINDS`].
    pub fn settings(&self) -> impl Iterator<Item = Impair> {
        let Impairment { corrupt, drop, duplicate, reorder, delay_ps, rate, seed } = *self;
        let all = [
            Impair::Corrupt(corrupt),
            Impair::Drop(drop),
            Impair::Duplicate(duplicate),
            Impair::Reorder(reorder),
            Impair::Delay(delay_ps),
            Impair::Rate(rate),
            Impair::Seed(seed),
        ];
        all.into_iter().filter(|how| *how != how.none())
    }
}
