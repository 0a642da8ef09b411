//! Names of the hidden subcommands of `angara`, by which programs of this project start it to do a part of their work.

/// Becomes a PE's program, after what must happen between fork and exec.
pub const EXEC: &str = "__exec";
/// Becomes a rank's program, started by Open MPI's `mpirun`.
pub const RANK: &str = "__rank";
/// Tries to read its parent's memory.
pub const PEEK: &str = "__peek";
/// Stands in for the launcher of a program that another launcher started.
pub const HOST: &str = "__host";
/// Becomes another user, then another of these subcommands.
pub const USER: &str = "__as";
/// The launcher's other half on another host.
pub const AGENT: &str = "__agent";
