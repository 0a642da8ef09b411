//! What several subcommands share: settings as options, results and progress.

pub(crate) mod keys;
pub(crate) mod output;
pub(crate) mod packets;
pub(crate) mod progress;
