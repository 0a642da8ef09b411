//! Adapters that talk to each other.

mod hostile;
mod oracle;
mod services;
mod world;
