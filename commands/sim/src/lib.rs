//! `angara sim` and `angara plan`: networks without programs. A file here has a subcommand of `angara sim`, one in `plan` a
//! subcommand of `angara plan`: its options, its help, and its call of the simulator's library, which knows no command line.
#![forbid(unsafe_code)]

mod booksim;
mod goal;
mod merge;
mod plan;
mod plot;
mod presets;
mod reproduce;
mod run;
mod shared;
mod sim;
mod sweep;
mod workloads;

#[cfg(test)]
mod bad_input_tests;

pub use run::{RunArgs, run_among};

use angara_cli::shared::beside::{PLAN, SIM};
use angara_cli::shared::interrupt;
use angara_control::error::Failed;
use angara_sim::Error;
use clap::Parser;

/// Options of the two subcommands.
#[derive(Parser)]
#[command(name = "angara", version, propagate_version = true, arg_required_else_help = true)]
#[allow(clippy::large_enum_variant)] // one value per process
pub enum Commands {
    /// `angara plan`.
    #[command(about = PLAN.about)]
    Plan(plan::PlanArgs),
    /// `angara sim`.
    #[command(about = SIM.about)]
    Sim(sim::SimArgs),
}

/// Entry of the program `angara-sim`. Never returns.
pub fn main() -> ! {
    angara_cli::shared::enter(SIM, |commands| match commands {
        Commands::Plan(args) => plan::main(args).map(|()| 0).map_err(failed),
        Commands::Sim(args) => sim::main(args).map(|()| 0).map_err(failed),
    })
}

/// A failure of a simulation, with the exit code that it has.
fn failed(e: Error) -> Failed {
    let (message, remedy, usage) = e.parts();
    if matches!(e, Error::Interrupted(_)) {
        return Failed::runtime(message, remedy).with_code(interrupt::status());
    }
    if usage { Failed::usage(message, remedy) } else { Failed::runtime(message, remedy) }
}
