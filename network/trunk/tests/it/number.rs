//! Numbers from outside.

/// A number from the environment.
pub(crate) fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable)
        .map_or(otherwise, |v| v.parse().unwrap_or_else(|_| panic!("{variable}={v} is not a number")))
}
