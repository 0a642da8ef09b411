//! Machines as a command line names and changes them.

use angara_control::error::Failed;
use angara_machine::Machine;

/// A machine, or the chip as published, with the changes of `--set`.
pub fn changed(machine: Option<Machine>, set: &[String]) -> Result<Machine, Failed> {
    let changed = machine.unwrap_or_else(Machine::plain).with(set);
    changed.map_err(|e| Failed::usage(format!("--set: {e}"), "`angara machine` prints every key and its value"))
}
