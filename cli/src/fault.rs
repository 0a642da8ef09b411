//! `angara fault`: break links and nodes of a running daemon, and mend them.

use crate::args::WhereArgs;
use crate::daemon::{Control, block_on, runtime_dir, unexpected};
use crate::error::Failed;
use abi::msg::{Reply, Request};
use clap::{Args, Subcommand};

/// Arguments of `angara fault`.
#[derive(Args)]
pub(crate) struct FaultArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Set a fault: `link 0,0,0 +X down`, `link 0,0,0 +X corrupt=1%`, `node 1,0,0 down`, each with optional `@2ms`
    Set(Spec),
    /// Clear a fault: `link 0,0,0 +X`, `node 1,0,0` or `all`
    Clear(Spec),
    /// List the faults in force
    List(WhereArgs),
}

#[derive(Args)]
struct Spec {
    /// The fault; the words need no quotes
    #[arg(required = true, allow_hyphen_values = true, value_name = "SPEC")]
    spec: Vec<String>,
    #[command(flatten)]
    at: WhereArgs,
}

impl Spec {
    /// Words such as `-X` must not be taken for options, so an option that follows them is among them.
    fn split(mut self, request: impl Fn(String) -> Request) -> (WhereArgs, Request) {
        if let Some(at) = self.spec.iter().position(|w| w == "--runtime-dir")
            && at + 1 < self.spec.len()
        {
            self.at.runtime_dir = Some(self.spec.remove(at + 1).into());
            self.spec.remove(at);
        }
        (self.at, request(self.spec.join(" ")))
    }
}

/// Does it.
pub(crate) fn main(args: FaultArgs) -> Result<u8, Failed> {
    let (at, request) = match args.action {
        Action::Set(spec) => spec.split(|spec| Request::FaultSet { spec }),
        Action::Clear(spec) => spec.split(|spec| Request::FaultClear { spec }),
        Action::List(at) => (at, Request::Status),
    };
    block_on(async {
        let mut control = Control::connect(&runtime_dir(&at.runtime_dir)).await?;
        control.status().await?;
        match control.request(&request).await? {
            Reply::Ok => {}
            Reply::Status(status) if status.faults.is_empty() => println!("no faults"),
            Reply::Status(status) => status.faults.iter().for_each(|f| println!("{f}")),
            other => return Err(unexpected(&other)),
        }
        Ok(0)
    })
}
