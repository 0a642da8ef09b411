//! Adapters that talk to each other.

mod oracle;
mod services;
mod world;
