//! Adapters that talk to each other.

mod services;
mod world;
