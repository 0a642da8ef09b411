//! Schedules written, text or binary, and one after the other.

use super::binary::Writer;
use super::schedule::{ANY, Dependency, Kind, Operation, Rank};
use crate::Error;
use std::fs::File;
use std::io::{self, Write};

/// Most dependencies by which a rank of one schedule waits for the schedule before.
const JOINS_MAX: usize = 1 << 26;

fn unwritten(e: io::Error) -> Error {
    Error::Network(format!("the schedule cannot be written: {e}; give room for it"))
}

/// Writes N ranks in the binary form; the file, whole.
pub(super) fn binary(ranks: u32, rank: &mut dyn FnMut(u32) -> Result<Rank, Error>, file: File) -> Result<File, Error> {
    let mut writer = Writer::new(file, ranks).map_err(unwritten)?;
    for number in 0..ranks {
        writer.rank(number, &rank(number)?).map_err(unwritten)?;
    }
    writer.finish().map_err(unwritten)
}

/// Writes N ranks as text.
pub(super) fn text(
    ranks: u32,
    rank: &mut dyn FnMut(u32) -> Result<Rank, Error>,
    to: &mut dyn Write,
) -> Result<(), Error> {
    writeln!(to, "num_ranks {ranks}").map_err(unwritten)?;
    for number in 0..ranks {
        text_of(number, &rank(number)?, to).map_err(unwritten)?;
    }
    to.flush().map_err(unwritten)
}

/// Writes each dependency as soon as both of its operations stand above, and all in their order: the binary form keeps it.
fn text_of(number: u32, rank: &Rank, to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "\nrank {number} {{")?;
    let mut dependencies = rank.dependencies.iter().peekable();
    for (i, Operation { kind, size, peer, tag, cpu, nic }) in (0..).zip(&rank.operations) {
        let any = |number: u32| if number == ANY { "-1".into() } else { number.to_string() };
        let (peer, tag) = (any(*peer), any(*tag));
        match kind {
            Kind::Calc => write!(to, "l{i}: calc {size}")?,
            Kind::Send => write!(to, "l{i}: send {size}b to {peer} tag {tag}")?,
            Kind::Recv => write!(to, "l{i}: recv {size}b from {peer} tag {tag}")?,
        }
        write!(to, " cpu {cpu}")?;
        if *nic > 0 {
            write!(to, " nic {nic}")?;
        }
        writeln!(to)?;
        while let Some(Dependency { of, on, start }) = dependencies.next_if(|d| d.of.max(d.on) <= i) {
            writeln!(to, "l{of} {} l{on}", if *start { "irequires" } else { "requires" })?;
        }
    }
    writeln!(to, "}}")
}

/// Adds what a rank does in the next schedule: what waits for nothing there waits for the end of all that nothing waits
/// for the end of here.
pub(super) fn append(to: &mut Rank, next: Rank) -> Result<(), String> {
    let first = to.operations.len();
    if first + next.operations.len() > u32::MAX as usize {
        return Err(format!("more than {} operations; append fewer schedules", u32::MAX));
    }
    let mut last = vec![true; first];
    to.dependencies.iter().filter(|d| !d.start).for_each(|d| last[d.on as usize] = false);
    let last: Vec<u32> = (0..).zip(last).filter(|(_, last)| *last).map(|(i, _)| i).collect();
    let free: Vec<u32> = (0..).zip(next.waits()).filter(|(_, waits)| *waits == 0).map(|(i, _)| i).collect();
    if last.len().saturating_mul(free.len()) > JOINS_MAX {
        let why = format!("{} operations would wait for {} of the schedule before", free.len(), last.len());
        return Err(format!("{why}; end that one with a calc 0 that requires all others"));
    }
    let moved = |i: u32| i + first as u32;
    to.dependencies.extend(next.dependencies.iter().map(|d| Dependency {
        of: moved(d.of),
        on: moved(d.on),
        start: d.start,
    }));
    for of in free {
        to.dependencies.extend(last.iter().map(|&on| Dependency { of: moved(of), on, start: false }));
    }
    to.operations.extend(next.operations);
    Ok(())
}
