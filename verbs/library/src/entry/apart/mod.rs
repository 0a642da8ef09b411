//! Functions that need no adapter.

pub mod copy;
pub mod files;
pub mod refused;
pub mod strings;
