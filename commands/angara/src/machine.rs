//! `angara machine`: a machine file with everything in it, to read or to change.

use angara_control::error::Failed;
use angara_launch::machine::changed;
use angara_machine::Machine;
use clap::Args;
use std::io::Write;

/// What the user asked for.
#[derive(Args)]
pub(crate) struct MachineArgs {
    /// desmos, angara-k1, bluegene-p, gemini, tpu-v4, tpu-v5p or a file whose name ends in .toml [default: the chip as published, on no particular network]
    #[arg(value_name = "NAME|FILE.toml", value_parser = Machine::named)]
    machine: Option<Machine>,
    /// Change values, such as link=15GB/s,hop=60ns; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// Prints it.
pub(crate) fn main(args: MachineArgs) -> Result<u8, Failed> {
    let machine = changed(args.machine, &args.set)?;
    std::io::stdout().write_all(machine.to_toml().as_bytes()).map_err(|e| Failed::output(&e))?;
    Ok(0)
}
