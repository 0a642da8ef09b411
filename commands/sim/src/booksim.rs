//! `angara sim booksim`: a configuration of BookSim 2 as a file to start from.

use crate::shared::output::say;
use angara_sim::Error;
use angara_sim::booksim::Booksim;
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct BooksimArgs {
    /// The configuration
    file: PathBuf,
}

pub(crate) fn main(args: BooksimArgs) -> Result<(), Error> {
    say(&Booksim::read(&args.file)?.toml())
}
