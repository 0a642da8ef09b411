//! Closed cost models of the papers.

pub mod barrier;
pub mod barrier_report;
pub mod matmul;
