//! What a user asks for, and the simulation that this is.
//!
//! [`keys`] are the user's settings, the same names in a TOML file and on the command line; [`presets`] are sets of them.
//! [`Keys::resolve`] fills in defaults, checks everything, and chooses the workload: it alone knows both the engine and
//! the programs that run on it.

pub mod keys;
mod like;
pub mod presets;
mod resolve;
mod simulation;

pub use keys::Keys;
pub use resolve::routed;
pub use simulation::Simulation;
