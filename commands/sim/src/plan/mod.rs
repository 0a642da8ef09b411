//! `angara plan`: the papers' cost models, route tables and collective trees.

mod barrier;
mod matmul;
mod routes;
mod tree;

use crate::shared::output::{Axes, print, write_chart};
use angara_cli::shared::out_file;
use angara_net::torus::{NodeId, Shape};
use angara_sim::Error;
use angara_sim::plot::Chart;
use clap::{Args, Subcommand};
use serde::Serialize;
use std::path::PathBuf;

/// `angara plan …`
#[derive(Args, Debug)]
pub struct PlanArgs {
    #[command(subcommand)]
    what: PlanCommand,
}

#[derive(Subcommand, Debug)]
enum PlanCommand {
    /// Compare barriers: which is fastest on which torus (cost formulas of paper 001)
    Barrier(barrier::BarrierArgs),
    /// Compute what a matrix multiplication demands from a hierarchical network (paper 003)
    Matmul(matmul::MatmulArgs),
    /// Show route tables: hops, link loads, deadlock check, with failed links and nodes
    Routes(Box<routes::RoutesArgs>),
    /// Build, check and draw a collective tree
    Tree(tree::TreeArgs),
}

#[derive(Args, Debug)]
struct Output {
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Draw a chart into FILE; as PDF or a script of gnuplot if its name ends in .pdf or .gp
    #[arg(long, value_name = "FILE", value_parser = out_file())]
    svg: Option<PathBuf>,
    #[command(flatten)]
    axes: Axes,
}

impl Output {
    fn print(&self, report: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Error> {
        print(self.json, report, text)
    }
    fn draw(&self, chart: impl FnOnce() -> Chart) -> Result<(), Error> {
        self.svg.as_deref().map_or(Ok(()), |path| write_chart(path, &self.axes.of(chart())))
    }
}

/// Runs an `angara plan` subcommand, printing to standard output.
///
/// # Errors
/// A parameter outside the model, or a file that cannot be written.
pub(crate) fn main(args: PlanArgs) -> Result<(), Error> {
    match args.what {
        PlanCommand::Barrier(args) => barrier::main(args),
        PlanCommand::Matmul(args) => matmul::main(args),
        PlanCommand::Routes(args) => routes::main(*args),
        PlanCommand::Tree(args) => tree::main(args),
    }
}

/// The node named by coordinates.
fn node(shape: &Shape, text: &str) -> Result<NodeId, Error> {
    let at = shape.parse_coords(text).map_err(|e| Error::Network(e.to_string()))?;
    Ok(shape.id(at).expect("parsed coordinates are inside"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Top {
        #[command(flatten)]
        plan: PlanArgs,
    }

    #[test]
    fn the_commands_are_well_formed() {
        use clap::CommandFactory;
        Top::command().debug_assert();
    }

    #[test]
    fn charts_land_in_the_named_files() {
        let dir = std::env::temp_dir().join(format!("angara-plan-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for (line, file) in
            [("barrier --dims 3 --svg", "b.svg"), ("matmul --svg", "m.svg"), ("matmul --k-section-svg", "k.svg")]
        {
            let path = dir.join(file);
            let words = ["plan"].into_iter().chain(line.split(' ')).map(String::from);
            let top = Top::try_parse_from(words.chain([path.display().to_string()])).unwrap();
            main(top.plan).unwrap();
            assert!(std::fs::read_to_string(&path).unwrap().starts_with("<svg"));
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let top = Top::try_parse_from(["plan", "barrier", "--svg", "/nonexistent/b.svg"]).unwrap();
        let e = main(top.plan).unwrap_err().to_string();
        assert!(e.starts_with("/nonexistent/b.svg: "), "{e}");
    }
}
