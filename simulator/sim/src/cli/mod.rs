//! The subcommands `angara plan` and `angara sim`, as a library: the command line tool forwards
//! to [`plan()`] and [`sim()`].

mod interrupt;
mod output;
mod plan;
mod plot;
mod progress;
mod reproduce;
mod run;
mod sim;
mod sweep;

#[cfg(test)]
mod bad_input_tests;

pub use interrupt::status as interrupted_status;
pub use plan::{PlanArgs, plan};
pub use run::{RunArgs, SavePackets, run_among};
pub use sim::{SimArgs, sim};
