//! What launchers offer to the processes that they start.

use crate::error::{Error, Result};

/// Returns the error of a launcher.
pub(crate) fn failed(what: impl Into<String>) -> Error {
    Error::Launcher(what.into())
}

/// Services of a launcher: texts that each process publishes and the others read after a fence.
pub(crate) trait KeySpace {
    /// Which process this is, and how many there are.
    fn place(&self) -> (u32, u32);
    /// Publishes a text without blanks under a key that no other process uses.
    fn publish(&mut self, key: &str, text: &str) -> Result<()>;
    /// Returns when every process has called it.
    fn fence(&mut self) -> Result<()>;
    /// Returns what process `pe` published under `key` before the last fence.
    fn read(&mut self, pe: u32, key: &str) -> Result<String>;
    /// Nothing more is exchanged; a launcher takes a process that ends without this for crashed.
    fn leave(&mut self) -> Result<()>;
}
