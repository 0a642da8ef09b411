//! The subcommands `angara plan` and `angara sim`, as a library: the command line tool forwards
//! to [`plan()`] and [`sim()`].

mod output;
mod plan;
mod sim;

pub use plan::{PlanArgs, plan};
pub use sim::{SimArgs, sim};
