//! `angara plan tree`: collective trees.

use super::node;
use crate::shared::output::print;
use angara_net::torus::Shape;
use angara_sim::Error;
use angara_sim::plan::tree;
use angara_sim::toml_file::TomlFile;
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(super) struct TreeArgs {
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

pub(super) fn main(args: TreeArgs) -> Result<(), Error> {
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
