//! Command lines, good and bad.
