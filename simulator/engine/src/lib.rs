//! Questions about an Angara network answered without running a program on it.
//!
//! [`plan`] holds the closed cost models of two papers: barriers on a torus (paper 001) and the
//! communication of a matrix multiplication on a hierarchical machine (paper 003). Each model is a
//! set of pure functions with the papers' names and equation numbers, an analysis that fills
//! serialisable tables, and a report that prints them as text, as JSON or as a chart.
//! Networks themselves are simulated by `model`: [`traffic`] says who sends what, [`workload`]
//! what nodes do beyond that, [`run`] does one simulation, [`sweep`] many. [`settings`] are what a user
//! asks for, and choose the workload.
//!
//! Nothing here reads a command line or knows a terminal. The feature `plot` draws charts, `shared-sweeps` lets several
//! processes share the points of a sweep; both are on unless a program takes this crate without its default features.
#![warn(missing_docs)] // others read them
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]

pub mod booksim;
pub mod error;
pub mod observe;
#[cfg(feature = "shared-sweeps")]
pub mod parts;
pub mod plan;
pub mod plot;
pub mod rng;
pub mod run;
pub mod settings;
pub mod sweep;
pub mod table;
pub mod threads;
pub mod toml_file;
pub mod traffic;
pub mod workload;

pub use error::Error;

/// What crates.io shows is compiled and run with the examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
