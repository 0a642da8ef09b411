//! `angara verbs`: unmodified RDMA programs on emulated adapters.
//!
//! A library of ours is put before libibverbs in each process that the command starts, by the loader, which reads it from the
//! variables of [`environment`]. [`program`] looks at whether a program's loader will do that. [`session`] has the daemon that
//! the adapters belong to, and waits for the command. [`args`] has the options.
#![forbid(unsafe_code)]

mod args;
mod environment;
mod program;
mod session;

pub use args::VerbsArgs;

use angara_cli::shared::beside::VERBS;
use angara_control::daemon::{Control, block_on, runtime_dir};
use angara_control::error::{Failed, print};
use angara_control::install;
use angara_protocol::msg::Path as EnginePath;
use clap::Parser;
use std::path::Path;

/// The subcommand as `angara` has it.
#[derive(Parser)]
#[command(name = "angara", version, propagate_version = true, arg_required_else_help = true)]
pub enum Commands {
    /// `angara verbs`.
    #[command(about = VERBS.about)]
    Verbs(VerbsArgs),
}

/// Entry of the program. Never returns.
pub fn main() -> ! {
    angara_cli::shared::enter(VERBS, |Commands::Verbs(args)| start(args))
}

/// What the command does.
fn start(mut args: VerbsArgs) -> Result<u8, Failed> {
    args.check()?;
    let network = args.network()?;
    let library = install::verbs_library()?;
    if args.env {
        return print_environment(&args, network.path, &library);
    }
    let program = program::find(&args.command)?;
    session::run(&args, &network, &library, &program)
}

/// Prints what a shell has to read.
fn print_environment(args: &VerbsArgs, path: EnginePath, library: &Path) -> Result<u8, Failed> {
    let dir = session::absolute(&runtime_dir(&args.runtime_dir))?;
    let environment = args.environment(path, library, &dir);
    block_on(async {
        let status = Control::connect(&dir)?.status().await?;
        environment.fits(status.shape)
    })?;
    print(environment.for_a_shell(|name| std::env::var_os(name))?)?;
    Ok(0)
}
