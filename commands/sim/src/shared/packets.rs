//! Packets of a simulation, written as those of a daemon are.

use angara_abi::FLIT_BYTES;
use angara_abi::capture::{PSEUDO_BYTES, Part, read_part};
use angara_recordings::capture::{PacketFile, Title, Trouble};
use angara_sim::observe::Captured;
use std::io;
use std::path::Path;

/// Writes captured packets to `path`.
///
/// # Errors
/// The file cannot be made, or takes no more; it then ends with a whole packet.
pub(crate) fn save(path: &Path, captured: &Captured) -> io::Result<()> {
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
