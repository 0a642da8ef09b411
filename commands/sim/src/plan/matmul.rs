//! `angara plan matmul`: the model of paper 003.

use super::Output;
use crate::shared::output::write_chart;
use angara_cli::shared::out_file;
use angara_cli::shared::word;
use angara_net::torus::Shape;
use angara_sim::Error;
use angara_sim::plan::matmul::analysis::Units;
use angara_sim::plan::matmul::machine::TorusNode;
use angara_sim::plan::matmul::report;
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(super) struct MatmulArgs {
    /// Order of the matrices of the level table
    #[arg(long, default_value_t = 1024, value_name = "N")]
    n: u64,
    /// Orders of the size table
    #[arg(long, value_delimiter = ',', default_value = "256,512,1024,2048,4096,8192", value_name = "N")]
    sizes: Vec<u64>,
    /// Units of times: the paper's round binary ones, or SI
    #[arg(long, value_parser = word::<Units>(), default_value_t = Units::Binary)]
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
    #[arg(long, value_name = "FILE", value_parser = out_file())]
    k_section_svg: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

pub(super) fn main(args: MatmulArgs) -> Result<(), Error> {
    let request = report::Request {
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
    let report = report::report(&request)?;
    if let Some(path) = &args.k_section_svg {
        write_chart(path, &args.output.axes.of(report.k_section_chart()))?;
    }
    args.output.draw(|| report.performance_chart())?;
    args.output.print(&report, || report.text())
}
