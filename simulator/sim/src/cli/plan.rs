//! `angara plan`: the papers' cost models, route tables and collective trees.

use super::output::{Axes, print, write_chart};
use crate::Error;
use crate::plan::barrier::{Costs, Mode};
use crate::plan::barrier_report;
use crate::plan::matmul::analysis::Units;
use crate::plan::matmul::machine::TorusNode;
use crate::plan::matmul::report as matmul_report;
use crate::plan::{routes, tree, ways};
use crate::plot::Chart;
use crate::run::experiment::routed;
use crate::run::keys::Routing;
use crate::toml_file::TomlFile;
use crate::traffic::Pattern;
use angara_model::AnyTopology;
use angara_net::torus::{NodeId, Shape};
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
    /// Which barrier is fastest on which torus (cost formulas of paper 001)
    Barrier(BarrierArgs),
    /// What a matrix multiplication demands from a hierarchical network (paper 003)
    Matmul(MatmulArgs),
    /// Route tables: hops, link loads, deadlock check, with failed links and nodes
    Routes(Box<RoutesArgs>),
    /// Build, check and draw a collective tree
    Tree(TreeArgs),
}

#[derive(Args, Debug)]
struct Output {
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Draw a chart into FILE; as PDF or a script of gnuplot if its name ends in .pdf or .gp
    #[arg(long, value_name = "FILE")]
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

#[derive(Args, Debug)]
struct BarrierArgs {
    /// Reading of the formulas; all when not given
    #[arg(long, value_enum, value_delimiter = ',')]
    mode: Vec<Mode>,
    /// Numbers of torus dimensions
    #[arg(long, value_delimiter = ',', default_value = "2,3,4", value_name = "DIMS")]
    dims: Vec<u32>,
    /// Nodes per dimension
    #[arg(long, value_delimiter = ',', default_value = "2,4,6,8,12,16", value_name = "N")]
    sizes: Vec<u32>,
    /// Also evaluate this shape with true link loads; may be repeated
    #[arg(long, value_name = "SHAPE")]
    torus: Vec<Shape>,
    /// Router and link of one hop, ns
    #[arg(long, default_value_t = 129.0, value_name = "NS")]
    lat_hop: f64,
    /// Advancing to the next phase, ns
    #[arg(long, default_value_t = 10.0, value_name = "NS")]
    lat_inc: f64,
    /// Time per packet on a link, ns
    #[arg(long, default_value_t = 4.0, value_name = "NS")]
    rate_link: f64,
    /// Time per packet of an injector, ns
    #[arg(long, default_value_t = 4.0, value_name = "NS")]
    rate_inj: f64,
    /// Time per packet of an ejector, ns [default: the same as --rate-inj]
    #[arg(long, value_name = "NS")]
    rate_ej: Option<f64>,
    /// From the host into the network, ns
    #[arg(long, default_value_t = 300.0, value_name = "NS")]
    lat_inj: f64,
    /// From the network to the host, ns
    #[arg(long, default_value_t = 300.0, value_name = "NS")]
    lat_ej: f64,
    #[command(flatten)]
    output: Output,
}

#[derive(Args, Debug)]
struct MatmulArgs {
    /// Order of the matrices of the level table
    #[arg(long, default_value_t = 1024, value_name = "N")]
    n: u64,
    /// Orders of the size table
    #[arg(long, value_delimiter = ',', default_value = "256,512,1024,2048,4096,8192", value_name = "N")]
    sizes: Vec<u64>,
    /// Units of times: the paper's round binary ones, or SI
    #[arg(long, value_enum, default_value_t = Units::Binary)]
    units: Units,
    /// Torus analysed beside Merrimac
    #[arg(long, default_value = "8x8x8", value_name = "SHAPE")]
    torus: Shape,
    /// Cores of one torus node
    #[arg(long, default_value_t = TorusNode::default().cores)]
    cores: u64,
    /// Peak of one core, GF/s
    #[arg(long, default_value_t = TorusNode::default().gflops, value_name = "GFLOPS")]
    core_gflops: f64,
    /// Memory bandwidth of a node, GB/s
    #[arg(long, default_value_t = TorusNode::default().memory, value_name = "GBS")]
    memory_gbs: f64,
    /// Host interface of a node, GB/s
    #[arg(long, default_value_t = TorusNode::default().injection, value_name = "GBS")]
    injection_gbs: f64,
    /// One direction of a link, GB/s
    #[arg(long, default_value_t = TorusNode::default().link, value_name = "GBS")]
    link_gbs: f64,
    /// Order of the matrices whose zip3 placement is counted (a power of two up to 256)
    #[arg(long, default_value_t = 16, value_name = "N")]
    zip3_n: u32,
    /// Seed of the random placement
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Draw the k-section bandwidth into FILE, as --svg does
    #[arg(long, value_name = "FILE")]
    k_section_svg: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

#[derive(Args, Debug)]
struct RoutesArgs {
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
    #[arg(long, value_enum, default_value = "parity")]
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

#[derive(Args, Debug)]
struct TreeArgs {
    /// Torus or mesh
    #[arg(long, default_value = "4x2x2x2", value_name = "SHAPE")]
    torus: Shape,
    /// Root node [default: the participant from which the tree is lowest]
    #[arg(long, value_name = "NODE")]
    root: Option<String>,
    /// A participating node; may be repeated [default: all]
    #[arg(long, value_name = "NODE")]
    member: Vec<String>,
    /// A dead link or node; may be repeated
    #[arg(long, value_name = "FAULT")]
    fault: Vec<String>,
    /// Check a tree read from FILE instead (torus = "4x4", then [[row]] tables with node, root, to_root and down)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["torus", "root", "member", "fault"])]
    check: Option<PathBuf>,
    /// Print JSON instead of a drawing
    #[arg(long)]
    json: bool,
}

/// Runs an `angara plan` subcommand, printing to standard output.
///
/// # Errors
/// A parameter outside the model, or a file that cannot be written.
pub fn plan(args: PlanArgs) -> Result<(), Error> {
    match args.what {
        PlanCommand::Barrier(args) => barrier(args),
        PlanCommand::Matmul(args) => matmul(args),
        PlanCommand::Routes(args) => routes_report(*args),
        PlanCommand::Tree(args) => tree_report(args),
    }
}

/// The node named by coordinates.
fn node(shape: &Shape, text: &str) -> Result<NodeId, Error> {
    let at = shape.parse_coords(text).map_err(|e| Error::Network(e.to_string()))?;
    Ok(shape.id(at).expect("parsed coordinates are inside"))
}

fn routes_report(args: RoutesArgs) -> Result<(), Error> {
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

fn tree_report(args: TreeArgs) -> Result<(), Error> {
    let report = match &args.check {
        Some(path) => tree::check_file(&TomlFile::read(path)?)?,
        None => {
            let root = args.root.as_deref().map(|t| node(&args.torus, t)).transpose()?;
            let members = args.member.iter().map(|t| node(&args.torus, t)).collect::<Result<Vec<_>, _>>()?;
            tree::report(&args.torus, &args.fault, root, &members)?
        }
    };
    print(args.json, &report, || report.text())
}

fn barrier(args: BarrierArgs) -> Result<(), Error> {
    let modes = if args.mode.is_empty() { vec![Mode::Paper, Mode::Corrected, Mode::Exact] } else { args.mode };
    let costs = Costs {
        lat_hop: args.lat_hop,
        lat_inc: args.lat_inc,
        rate_link: args.rate_link,
        rate_inj: args.rate_inj,
        rate_ej: args.rate_ej.unwrap_or(args.rate_inj),
        lat_inj: args.lat_inj,
        lat_ej: args.lat_ej,
    };
    let request = barrier_report::Request { costs, modes, dims: args.dims, sizes: args.sizes, shapes: args.torus };
    let report = barrier_report::report(&request)?;
    args.output.draw(|| report.chart())?;
    args.output.print(&report, || report.text())
}

fn matmul(args: MatmulArgs) -> Result<(), Error> {
    let request = matmul_report::Request {
        n: args.n,
        sizes: args.sizes,
        units: args.units,
        torus: args.torus,
        node: TorusNode {
            cores: args.cores,
            gflops: args.core_gflops,
            memory: args.memory_gbs,
            injection: args.injection_gbs,
            link: args.link_gbs,
        },
        zip3_n: args.zip3_n,
        seed: args.seed,
    };
    let report = matmul_report::report(&request)?;
    if let Some(path) = &args.k_section_svg {
        write_chart(path, &args.output.axes.of(report.k_section_chart()))?;
    }
    args.output.draw(|| report.performance_chart())?;
    args.output.print(&report, || report.text())
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
            plan(top.plan).unwrap();
            assert!(std::fs::read_to_string(&path).unwrap().starts_with("<svg"));
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let top = Top::try_parse_from(["plan", "barrier", "--svg", "/nonexistent/b.svg"]).unwrap();
        let e = plan(top.plan).unwrap_err().to_string();
        assert!(e.starts_with("/nonexistent/b.svg: "), "{e}");
    }
}
