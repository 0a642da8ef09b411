//! `angara sim` and `angara plan`: networks without programs. Packets of a simulation are written as those of a daemon are.

use angara_abi::FLIT_BYTES;
use angara_abi::capture::{PSEUDO_BYTES, Part, read_part};
use angara_control::beside::{PLAN, SIM};
use angara_control::error::Failed;
use angara_recordings::capture::{PacketFile, Title, Trouble};
use angara_sim::cli::{PlanArgs, SimArgs, interrupted_status, plan, sim};
use angara_sim::observe::Captured;
use clap::Parser;
use std::io;
use std::path::Path;

#[derive(Parser)]
#[command(name = "angara", version, propagate_version = true, arg_required_else_help = true)]
#[allow(clippy::large_enum_variant)] // one value per process
pub(crate) enum Commands {
    #[command(about = PLAN.about)]
    Plan(PlanArgs),
    #[command(about = SIM.about)]
    Sim(SimArgs),
}

/// Entry of the program. Never returns.
pub fn main() -> ! {
    crate::enter(SIM, |commands| match commands {
        Commands::Plan(args) => plan(args).map(|()| 0).map_err(failed),
        Commands::Sim(args) => sim(args, save).map(|()| 0).map_err(failed),
    })
}

/// A failure of a simulation, with the exit code that it has.
fn failed(e: angara_sim::Error) -> Failed {
    let (message, remedy, usage) = e.parts();
    if matches!(e, angara_sim::Error::Interrupted(_)) {
        return Failed::runtime(message, remedy).with_code(interrupted_status());
    }
    if usage { Failed::usage(message, remedy) } else { Failed::runtime(message, remedy) }
}

/// Writes captured packets to `path`.
///
/// # Errors
/// The file cannot be made, or takes no more; it then ends with a whole packet.
fn save(path: &Path, captured: &Captured) -> io::Result<()> {
    let full = |trouble| match trouble {
        Trouble::Full(e) => e,
        Trouble::Closed => io::ErrorKind::BrokenPipe.into(),
    };
    let mut file = PacketFile::create(path).map_err(|e| io::Error::other(e.message))?;
    let Captured { shape, stream, packets, most } = captured;
    let end = if packets < most { "all packets".into() } else { format!("the first {most} packets") };
    file.begin(&Title {
        name: format!("angara {shape}"),
        comment: format!("simulation of {} nodes, {end}; time stamps: time in the network", shape.nodes()),
        snaplen: (PSEUDO_BYTES + FLIT_BYTES) as u32,
    });
    let mut from = &stream[..];
    while let Some(Part::Packet { stamp, length, bytes }) = read_part(&mut from)? {
        file.packet(0, stamp, length, &bytes).map_err(full)?;
    }
    file.tally(0, *packets, 0).map_err(full)
}
