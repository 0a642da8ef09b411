//! `angara plan barrier`: cost formulas of paper 001.

use super::Output;
use angara_cli::shared::word;
use angara_net::torus::Shape;
use angara_sim::Error;
use angara_sim::plan::barrier::{Costs, Mode};
use angara_sim::plan::barrier_report as report;
use clap::Args;

#[derive(Args, Debug)]
pub(super) struct BarrierArgs {
    /// Reading of the formulas; all when not given
    #[arg(long, value_parser = word::<Mode>(), value_delimiter = ',')]
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

pub(super) fn main(args: BarrierArgs) -> Result<(), Error> {
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
    let request = report::Request { costs, modes, dims: args.dims, sizes: args.sizes, shapes: args.torus };
    let report = report::report(&request)?;
    args.output.draw(|| report.chart())?;
    args.output.print(&report, || report.text())
}
