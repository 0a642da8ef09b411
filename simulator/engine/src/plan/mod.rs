//! Closed cost models of the papers, and the tables a network would be loaded with.

pub mod barrier;
pub mod barrier_report;
pub mod matmul;
pub mod routes;
pub mod tree;
pub mod ways;
