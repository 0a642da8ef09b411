//! Data that a capture puts before each packet: the pseudo-header, whose layout is in
//! `docs/reference/formats.md`; and the stream in which a daemon hands captured packets to the command.

use std::io::{self, ErrorKind, Read};

/// Bytes of the pseudo-header.
pub const PSEUDO_BYTES: usize = 64;
/// Version of its layout.
pub const PSEUDO_VERSION: u8 = 1;
/// Codes of the two directions between an adapter and its router.
pub const HOST: u8 = 255;
/// The packet stands for several behind one header; what is kept of it is its header and the beginning of its data.
pub const FLAG_TRAIN: u8 = 1;
/// It came from another host.
pub const FLAG_FOREIGN: u8 = 2;
/// The upper four bits are the dimensions of the network: so many of four coordinates mean something.
pub const FLAGS_DIMS: u32 = 4;

/// Events in the life of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Happening {
    /// Its adapter gives it to the router of its node.
    Injected = 0,
    /// It begins to cross a link.
    Sent = 1,
    /// It is sent again, since an earlier transmission was in vain.
    Replayed = 2,
    /// It arrives with a wrong checksum; the receiver drops it.
    Corrupted = 3,
    /// It is dropped; see [`Reason`].
    Dropped = 4,
    /// It has reached the host of its target, or the adapter there if it is for that.
    Ejected = 5,
}

/// Why a packet is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Reason {
    /// It is not.
    None = 0,
    /// No way is left.
    NoRoute = 1,
    /// The receiver of a link has had it.
    Duplicate = 2,
    /// The receiver of a link waits for an earlier one.
    OutOfOrder = 3,
    /// The target has no such endpoint, or it belongs to another job.
    NoEndpoint = 4,
    /// Its job has ended.
    JobEnded = 5,
}

/// The pseudo-header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pseudo {
    /// The event.
    pub what: Happening,
    /// Why it is dropped.
    pub reason: Reason,
    /// Bytes of the whole packet, header and tail included.
    pub length: u32,
    /// Picoseconds of the network's clock.
    pub time: u64,
    /// The sending end of the link, or where the packet enters or leaves the network: node and its coordinates.
    pub node: (u32, [u8; 4]),
    /// Direction of the link in routing order, or [`HOST`].
    pub direction: u8,
    /// Virtual channel.
    pub vc: u8,
    /// Accounting class.
    pub class: u8,
    /// [`FLAG_TRAIN`], [`FLAG_FOREIGN`], and dimensions from bit [`FLAGS_DIMS`] on.
    pub flags: u8,
    /// Job; `u32::MAX`: none that runs.
    pub job: u32,
    /// Source: node and its coordinates.
    pub from: (u32, [u8; 4]),
    /// Source endpoint.
    pub from_endpoint: u16,
    /// Target endpoint.
    pub to_endpoint: u16,
    /// Payload bytes, as counted.
    pub bytes: u16,
    /// Number of the packet on the link.
    pub sequence: u16,
    /// The requester's operation; a response has that of its request.
    pub op: u64,
    /// Number of the packet on the host that captured it.
    pub serial: u64,
}

impl Pseudo {
    /// As it stands in a file.
    pub fn encode(&self) -> [u8; PSEUDO_BYTES] {
        let mut out = [0; PSEUDO_BYTES];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&[PSEUDO_VERSION, PSEUDO_BYTES as u8, self.what as u8, self.reason as u8]);
        put(&self.length.to_le_bytes());
        put(&self.time.to_le_bytes());
        put(&self.node.0.to_le_bytes());
        put(&self.node.1);
        put(&[self.direction, self.vc, self.class, self.flags]);
        put(&self.job.to_le_bytes());
        put(&self.from.0.to_le_bytes());
        put(&self.from.1);
        [self.from_endpoint, self.to_endpoint, self.bytes, self.sequence].iter().for_each(|n| put(&n.to_le_bytes()));
        put(&self.op.to_le_bytes());
        put(&self.serial.to_le_bytes());
        out
    }
}

/// Longest part of a stream of captured packets: more than a pseudo-header and a packet.
const PART_MAX: usize = 4096;
const PACKET: u8 = 1;
const TALLY: u8 = 2;

/// A part of the stream that a control connection becomes after [`crate::msg::Request::Capture`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// A packet.
    Packet {
        /// Nanoseconds since 1970, or where time is virtual since the programs began.
        stamp: u64,
        /// Bytes of pseudo-header and whole packet.
        length: u32,
        /// As many of them as were asked for.
        bytes: Vec<u8>,
    },
    /// The last part: how many packets the filter let through, and how many of them nobody took in time.
    Tally {
        /// Packets.
        passed: u64,
        /// Packets that are not in the stream.
        dropped: u64,
    },
}

/// Appends a packet to a stream.
pub fn push_packet(out: &mut Vec<u8>, stamp: u64, length: u32, bytes: [&[u8]; 2]) {
    out.extend_from_slice(&(13 + bytes[0].len() as u32 + bytes[1].len() as u32).to_le_bytes());
    out.push(PACKET);
    out.extend_from_slice(&stamp.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    bytes.iter().for_each(|bytes| out.extend_from_slice(bytes));
}

/// Appends the last part to a stream.
pub fn push_tally(out: &mut Vec<u8>, passed: u64, dropped: u64) {
    out.extend_from_slice(&17u32.to_le_bytes());
    out.push(TALLY);
    out.extend_from_slice(&passed.to_le_bytes());
    out.extend_from_slice(&dropped.to_le_bytes());
}

/// Reads the next part of a stream; nothing where it ends, be it in the middle of one.
///
/// # Errors
/// Those of `from`; bytes that are no part count as [`ErrorKind::InvalidData`].
pub fn read_part(from: &mut impl Read) -> io::Result<Option<Part>> {
    let strange = |what: String| io::Error::new(ErrorKind::InvalidData, what);
    let mut length = [0; 4];
    if !fill(from, &mut length)? {
        return Ok(None);
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > PART_MAX {
        return Err(strange(format!("a part of {length} bytes")));
    }
    let mut part = vec![0; length];
    if !fill(from, &mut part)? {
        return Ok(None);
    }
    let number = |at: usize| part.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
    let short = || strange(format!("a part of {length} bytes that ends too early"));
    match part.first() {
        Some(&PACKET) => {
            let whole = part.get(9..13).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
            let (stamp, whole) = number(1).zip(whole).ok_or_else(short)?;
            Ok(Some(Part::Packet { stamp, length: whole, bytes: part.split_off(13) }))
        }
        Some(&TALLY) => {
            let (passed, dropped) = number(1).zip(number(9)).ok_or_else(short)?;
            Ok(Some(Part::Tally { passed, dropped }))
        }
        other => Err(strange(format!("a part of an unknown kind: {other:?}"))),
    }
}

/// Reads all of `bytes`; false if there are fewer.
fn fill(from: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pushed_is_read_and_what_is_cut_or_strange_is_not() {
        let mut stream = Vec::new();
        push_packet(&mut stream, 7, 100, [&[1, 2], &[3]]);
        push_tally(&mut stream, 5, 4);
        let mut from = &stream[..];
        let packet = Part::Packet { stamp: 7, length: 100, bytes: vec![1, 2, 3] };
        assert_eq!(read_part(&mut from).expect("whole"), Some(packet));
        assert_eq!(read_part(&mut from).expect("whole"), Some(Part::Tally { passed: 5, dropped: 4 }));
        assert_eq!(read_part(&mut from).expect("the end"), None);
        for end in 0..20 {
            assert_eq!(read_part(&mut &stream[..end]).expect("cut"), None, "{end} bytes");
        }
        for strange in [&[255, 255, 255, 255][..], &[1, 0, 0, 0, 9], &[2, 0, 0, 0, 1, 0], &[0, 0, 0, 0]] {
            let e = read_part(&mut &strange[..]).expect_err("no part");
            assert_eq!(e.kind(), ErrorKind::InvalidData, "{strange:?}");
        }
    }

    #[test]
    fn a_pseudo_header_has_its_fields_where_the_document_says() {
        let pseudo = Pseudo {
            what: Happening::Dropped,
            reason: Reason::Duplicate,
            length: 48,
            time: 0x0102_0304_0506_0708,
            node: (9, [1, 2, 3, 4]),
            direction: 5,
            vc: 1,
            class: 2,
            flags: FLAG_FOREIGN,
            job: 77,
            from: (6, [4, 3, 2, 1]),
            from_endpoint: 10,
            to_endpoint: 11,
            bytes: 8,
            sequence: 513,
            op: 0xaa,
            serial: 0xbb,
        };
        let bytes = pseudo.encode();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        assert_eq!(bytes[..4], [PSEUDO_VERSION, 64, 4, 2]);
        assert_eq!((word(4), word(8), word(12), word(16)), (48, 0x0506_0708, 0x0102_0304, 9));
        assert_eq!(bytes[20..28], [1, 2, 3, 4, 5, 1, 2, FLAG_FOREIGN]);
        assert_eq!((word(28), word(32), &bytes[36..40]), (77, 6, &[4, 3, 2, 1][..]));
        assert_eq!(bytes[40..48], [10, 0, 11, 0, 8, 0, 1, 2]);
        assert_eq!((word(48), word(56)), (0xaa, 0xbb));
    }
}
