//! Reads traces of Netrace, version 1.0.
//!
//! Numbers are little-endian and lie side by side. A header of 72 bytes: magic number, version (a 4-byte float), name of
//! the program (30 bytes), nodes (1 byte and one of padding), cycles and packets (8 bytes each), length of the notes,
//! number of regions (4 bytes each), 8 bytes of padding. Then the notes and 24 bytes for each region. Then the packets in
//! order of their cycles, 21 bytes each: cycle (8), number and address (4 each), type, source, destination, types of both
//! nodes, count of dependants (1 each), and the numbers of the dependants (4 each): later packets that wait for this one.

use crate::Error;
use angara_net::packed::Unpacked;
use bzip2::read::MultiBzDecoder;
use std::io::Read;

const MAGIC: u32 = 0x484A_5455;
const HEADER: usize = 72;
/// Bytes of a region's entry; regions only say where parts of the program begin.
const REGION: usize = 24;
/// Last cycle; times in picoseconds stay far below 2^64.
const CYCLE_MAX: u64 = 1 << 40;

/// A message of a cache or memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Packet {
    /// The earliest cycle to send it in.
    pub(super) cycle: u64,
    pub(super) id: u32,
    pub(super) from: u8,
    pub(super) to: u8,
    pub(super) bytes: u8,
    /// Packets that wait for it.
    dependants: u8,
    first_dependant: u32,
}

#[derive(Debug, PartialEq)]
pub(super) struct Trace {
    pub(super) name: String,
    /// In order of their cycles and of their numbers.
    pub(super) packets: Vec<Packet>,
    /// Places in `packets`.
    dependants: Vec<u32>,
}

impl Trace {
    /// Places of the packets that wait for packet `i`.
    pub(super) fn dependants(&self, i: usize) -> &[u32] {
        let packet = &self.packets[i];
        &self.dependants[packet.first_dependant as usize..][..usize::from(packet.dependants)]
    }

    /// Reads the file `path`, unpacking it if it is compressed.
    ///
    /// # Errors
    /// It cannot be read, or is no trace: the byte and the packet.
    pub(super) fn read(path: &str) -> Result<(Trace, Vec<u8>), Error> {
        let refuse = |why: String| Err(Error::invalid("workload", path, why));
        let mut bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(e) => return refuse(format!("{path} cannot be read ({e}); give a file that can")),
        };
        if bytes.starts_with(b"BZh") {
            let mut plain = Vec::new();
            let mut from = Unpacked::new(MultiBzDecoder::new(bytes.as_slice()), bytes.len() as u64);
            if let Err(e) = from.read_to_end(&mut plain) {
                return refuse(format!("{path} cannot be unpacked ({e}); get it again, or try bunzip2"));
            }
            bytes = plain;
        }
        match parse(&bytes) {
            Ok(trace) => Ok((trace, bytes)),
            Err(why) => refuse(format!("{path}, {why}")),
        }
    }
}

/// Bytes of the packets of a type; `None` for a number that is no type.
fn size(kind: u8) -> Option<u8> {
    match kind {
        // Requests, answers without data.
        1 | 5 | 13 | 14 | 15 | 25 | 27 | 28 | 29 => Some(8),
        // A cache line.
        2 | 3 | 4 | 6 | 16 | 30 => Some(72),
        _ => None,
    }
}

/// Takes bytes from the front.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize, what: &str) -> Result<&'a [u8], String> {
        let left = self.bytes.len() - self.at;
        let Some(taken) = self.bytes[self.at..].get(..count) else {
            return Err(format!(
                "byte {}: {what} of {count} bytes, of which {left} are there; get the file again",
                self.at
            ));
        };
        self.at += count;
        Ok(taken)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn parse(bytes: &[u8]) -> Result<Trace, String> {
    let mut cursor = Cursor { bytes, at: 0 };
    let header = cursor.take(HEADER, "a header")?;
    let (magic, version) = (u32_at(header, 0), f32::from_bits(u32_at(header, 4)));
    if magic != MAGIC {
        return Err(format!("byte 0: {magic:#010x}, not the {MAGIC:#x} of a trace; give a trace of Netrace"));
    }
    if version != 1.0 {
        return Err(format!("byte 4: version {version}; only 1.0 can be read"));
    }
    let name = header[8..38].split(|&b| b == 0).next().unwrap_or_default();
    let name = String::from_utf8_lossy(name).into_owned();
    let (promised, notes, regions) = (u64_at(header, 48), u32_at(header, 56), u32_at(header, 60));
    cursor.take(notes as usize, "notes")?;
    cursor.take(regions as usize * REGION, "a list of regions")?;
    let mut trace = Trace { name, packets: Vec::new(), dependants: Vec::new() };
    // Where each packet begins is only of interest for one that is refused.
    let begin = cursor.at;
    while cursor.at < bytes.len() {
        packet(&mut cursor, &mut trace)?;
    }
    let count = trace.packets.len() as u64;
    if count < promised || count == 0 {
        return Err(format!("byte {}: the end after {count} packets of {promised}; get the file again", cursor.at));
    }
    place_dependants(&mut trace, begin)?;
    Ok(trace)
}

/// Reads the next packet. Its dependants are numbers still.
fn packet(cursor: &mut Cursor<'_>, trace: &mut Trace) -> Result<(), String> {
    let (at, number) = (cursor.at, trace.packets.len());
    let fixed = cursor.take(21, &format!("packet {number}"))?;
    let bad = |why: String| Err(format!("byte {at}, packet {number}: {why}"));
    let (cycle, id) = (u64_at(fixed, 0), u32_at(fixed, 8));
    let [kind, from, to, _, dependants] = [fixed[16], fixed[17], fixed[18], fixed[19], fixed[20]];
    let Some(bytes) = size(kind) else { return bad(format!("type {kind} is none of Netrace's; get the file again")) };
    if cycle > CYCLE_MAX {
        return bad(format!("cycle {cycle} is above {CYCLE_MAX}; cut the trace into parts"));
    }
    if let Some(before) = trace.packets.last() {
        if before.cycle > cycle {
            return bad(format!("cycle {cycle} after cycle {}; sort the packets by cycle", before.cycle));
        }
        if before.id >= id {
            return bad(format!("number {id} after number {}; number the packets in their order", before.id));
        }
    }
    let list = cursor.take(4 * usize::from(dependants), &format!("the dependants of packet {number}"))?;
    let Ok(first_dependant) = u32::try_from(trace.dependants.len()) else {
        return bad("too many dependants; cut the trace into parts".into());
    };
    trace.dependants.extend((0..list.len()).step_by(4).map(|i| u32_at(list, i)));
    trace.packets.push(Packet { cycle, id, from, to, bytes, dependants, first_dependant });
    Ok(())
}

/// Replaces the numbers of dependants by their places; packets begin at byte `at`.
fn place_dependants(trace: &mut Trace, mut at: usize) -> Result<(), String> {
    let Trace { packets, dependants, .. } = trace;
    for (i, packet) in packets.iter().enumerate() {
        let list = &mut dependants[packet.first_dependant as usize..][..usize::from(packet.dependants)];
        for dependant in list.iter_mut() {
            match packets.binary_search_by_key(dependant, |packet| packet.id) {
                Ok(place) if place > i => *dependant = place as u32,
                Ok(_) => {
                    let why = format!("packet {dependant} is to wait for it, but is not later");
                    return Err(format!("byte {at}, packet {i}: {why}; get the file again"));
                }
                Err(_) => {
                    let why = format!("packet {dependant} is to wait for it, but is not in the trace");
                    return Err(format!("byte {at}, packet {i}: {why}; get the file again"));
                }
            }
        }
        at += 21 + 4 * usize::from(packet.dependants);
    }
    Ok(())
}

#[cfg(test)]
pub(super) fn parsed(bytes: &[u8]) -> Result<Trace, String> {
    parse(bytes)
}
