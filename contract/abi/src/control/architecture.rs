//! Processors of PEs.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a program was compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Architecture {
    /// Intel's and AMD's of 64 bits.
    #[default]
    #[serde(rename = "x86-64")]
    X86_64,
    /// Arm's of 64 bits.
    Aarch64,
}

impl Architecture {
    /// The one that this code was compiled for.
    pub const HERE: Architecture =
        if cfg!(target_arch = "aarch64") { Architecture::Aarch64 } else { Architecture::X86_64 };
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Architecture::X86_64 => "x86-64",
            Architecture::Aarch64 => "aarch64",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_called_as_rust_calls_it() {
        assert_eq!(Architecture::HERE.to_string(), std::env::consts::ARCH.replace('_', "-"));
    }
}
