//! `angara plan routes`: route tables, of the chip or of a topology of simulations.

use super::node;
use crate::shared::output::print;
use angara_cli::shared::word;
use angara_model::AnyTopology;
use angara_net::torus::Shape;
use angara_sim::Error;
use angara_sim::plan::{routes, ways};
use angara_sim::run::router::Routing;
use angara_sim::settings::routed;
use angara_sim::toml_file::TomlFile;
use angara_sim::traffic::Pattern;
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(super) struct RoutesArgs {
    /// Torus or mesh
    #[arg(long, default_value = "4x2x2x2", value_name = "SHAPE")]
    torus: Shape,
    /// A dead link or node, such as 'link 0,0,0 +X down' or 'node 1,0,0 down'; may be repeated
    #[arg(long, value_name = "FAULT")]
    fault: Vec<String>,
    /// Show the routes from this node
    #[arg(long, value_name = "NODE")]
    from: Option<String>,
    /// Show the routes to this node
    #[arg(long, value_name = "NODE")]
    to: Option<String>,
    /// Which of a pair's equally short ways, as `routes` of a machine says
    #[arg(long, value_parser = word::<routes::Ways>(), default_value = "parity")]
    routes: routes::Ways,
    /// Check a table read from FILE instead (torus = "4x4", then [[route]] tables with from, to and path)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["torus", "fault", "from", "to", "routes"])]
    check: Option<PathBuf>,
    /// Check the ways of a topology of simulations instead, such as slimfly:5 or graph:FILE
    #[arg(long, value_name = "SHAPE", conflicts_with_all = ["torus", "fault", "from", "to", "routes", "check"])]
    topology: Option<AnyTopology>,
    /// With --topology: how packets of generic routers find their way, as `angara sim run` says [default: what the topology takes]
    #[arg(long, value_name = "ROUTING", requires = "topology")]
    routing: Option<Routing>,
    /// With --topology: traffic whose loads are shown beside those of uniform traffic, as `angara sim run` says
    #[arg(long, value_name = "PATTERN", requires = "topology")]
    pattern: Option<Pattern>,
    /// With --topology: decides random ways, and the random permutation
    #[arg(long, requires = "topology", default_value_t = 1)]
    seed: u64,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: RoutesArgs) -> Result<(), Error> {
    if let Some(topology) = &args.topology {
        let (topology, routing) = routed(topology.clone(), args.routing)?;
        let pattern = args.pattern.unwrap_or(Pattern::Uniform);
        let report = ways::report(&topology, routing, &pattern, args.seed)?;
        return print(args.json, &report, || report.text());
    }
    let report = match &args.check {
        Some(path) => routes::check_file(&TomlFile::read(path)?)?,
        None => {
            let named = |text: &Option<String>| text.as_deref().map(|t| node(&args.torus, t)).transpose();
            routes::report(&args.torus, args.routes, &args.fault, named(&args.from)?, named(&args.to)?)?
        }
    };
    print(args.json, &report, || report.text())
}
