//! Bad trunks on purpose: what befalls the datagrams between two hosts.

use super::Impairment;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A change of a trunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TrunkChange {
    /// It is cut, or no longer.
    pub cut: Option<bool>,
    /// Impairment of its datagrams from now on.
    pub what: Option<Impairment>,
}

/// State of a trunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TrunkState {
    /// It is cut.
    pub cut: bool,
    /// Impairment of its datagrams.
    pub what: Impairment,
}

impl TrunkState {
    /// After a change.
    pub fn change(&mut self, change: TrunkChange) {
        self.cut = change.cut.unwrap_or(self.cut);
        self.what = change.what.unwrap_or(self.what);
    }
    /// Nothing is wrong.
    pub fn is_none(&self) -> bool {
        !self.cut && self.what.is_none()
    }
}

impl fmt::Display for TrunkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = self.cut.then(|| "down".to_string());
        // Every impaired trunk has a seed, asked for or not.
        let settings = Impairment { seed: None, ..self.what };
        let words: Vec<String> = cut.into_iter().chain(settings.settings().map(|how| how.to_string())).collect();
        f.write_str(&words.join(" "))
    }
}
