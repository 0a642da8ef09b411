//! The four kinds of blocks that a capture consists of, as pcapng lays them out: a section, interfaces, packets, and
//! statistics of interfaces (draft-ietf-opsawg-pcapng, sections 4.1, 4.2, 4.3 and 4.6).
//!
//! Every block is its type, its length, a body and its length again. Numbers are in the byte order of this machine, of
//! which the section tells readers. Bodies and options are filled up to multiples of four bytes.

/// Types of blocks.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
/// Shows readers the order of bytes.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Version of the format: 1.0.
const VERSION: [u16; 2] = [1, 0];
/// Stands for the length of a section that is not known yet.
const UNKNOWN_LENGTH: u64 = u64::MAX;
/// Options; each kind of block has its own numbers.
const END_OF_OPTIONS: u16 = 0;
const SECTION_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_COMMENT: u16 = 3;
const INTERFACE_RESOLUTION: u16 = 9;
const STATISTICS_PASSED: u16 = 4;
const STATISTICS_DROPPED: u16 = 5;
const STATISTICS_KEPT: u16 = 8;
/// Time stamps are nanoseconds: 10 to the power of minus this.
const NANOSECONDS: u8 = 9;

/// A section that begins: it was written by `application`.
pub(super) fn section(out: &mut Vec<u8>, application: &str) {
    block(out, SECTION_HEADER, |body| {
        body.extend(BYTE_ORDER.to_ne_bytes());
        body.extend(VERSION.map(u16::to_ne_bytes).as_flattened());
        body.extend(UNKNOWN_LENGTH.to_ne_bytes());
        options(body, &[(SECTION_APPLICATION, application.as_bytes())]);
    });
}

/// An interface; the first one of a section has the number 0.
pub(super) fn interface(out: &mut Vec<u8>, link_type: u16, snaplen: u32, name: &str, comment: &str) {
    block(out, INTERFACE_DESCRIPTION, |body| {
        body.extend([link_type, 0].map(u16::to_ne_bytes).as_flattened());
        body.extend(snaplen.to_ne_bytes());
        let resolution = [NANOSECONDS];
        let named = [(INTERFACE_NAME, name.as_bytes()), (INTERFACE_COMMENT, comment.as_bytes())];
        options(body, &[&named[..], &[(INTERFACE_RESOLUTION, &resolution)]].concat());
    });
}

/// A packet of `length` bytes, of which `kept` are in the file, `stamp` nanoseconds after the epoch.
pub(super) fn packet(out: &mut Vec<u8>, interface: u32, stamp: u64, length: u32, kept: &[u8]) {
    block(out, ENHANCED_PACKET, |body| {
        let [high, low] = halves(stamp);
        body.extend([interface, high, low, kept.len() as u32, length].map(u32::to_ne_bytes).as_flattened());
        filled_up(body, kept);
    });
}

/// How many packets have passed an interface until `stamp`, and what became of them.
pub(super) fn statistics(out: &mut Vec<u8>, interface: u32, stamp: u64, passed: u64, dropped: u64, kept: u64) {
    block(out, INTERFACE_STATISTICS, |body| {
        let [high, low] = halves(stamp);
        body.extend([interface, high, low].map(u32::to_ne_bytes).as_flattened());
        let [passed, dropped, kept] = [passed, dropped, kept].map(u64::to_ne_bytes);
        options(body, &[(STATISTICS_PASSED, &passed), (STATISTICS_DROPPED, &dropped), (STATISTICS_KEPT, &kept)]);
    });
}

/// Appends a block with what `fill` writes as its body.
fn block(out: &mut Vec<u8>, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([kind, 0].map(u32::to_ne_bytes).as_flattened());
    fill(out);
    let length = (out.len() + size_of::<u32>() - start) as u32;
    out[start + 4..start + 8].copy_from_slice(&length.to_ne_bytes());
    out.extend(length.to_ne_bytes());
}

/// Appends options and their end. A value longer than 65,535 bytes is cut.
fn options(body: &mut Vec<u8>, all: &[(u16, &[u8])]) {
    for (code, value) in all {
        let value = &value[..value.len().min(u16::MAX.into())];
        body.extend([*code, value.len() as u16].map(u16::to_ne_bytes).as_flattened());
        filled_up(body, value);
    }
    body.extend([END_OF_OPTIONS, 0].map(u16::to_ne_bytes).as_flattened());
}

/// Appends `bytes`, and zeros up to a multiple of four.
fn filled_up(body: &mut Vec<u8>, bytes: &[u8]) {
    body.extend(bytes);
    body.resize(body.len() + bytes.len().wrapping_neg() % 4, 0);
}

/// Time stamps stand in two words, the upper half first.
fn halves(stamp: u64) -> [u32; 2] {
    [(stamp >> 32) as u32, stamp as u32]
}
