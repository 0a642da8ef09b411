//! Packets as a driver writes them into the injection ring.

use crate::error::{Error, Result};
use angara_abi::desc::Place;
use angara_abi::job::PeEntry;
use angara_abi::packet::{Address, Flit, Header, PacketType, Tail, Vc, data_flits, pack};
use angara_abi::{FLIT_BYTES, PACKET_FLITS_MAX, PAYLOAD_MAX};

/// Flits of one packet, at most 18.
#[derive(Clone, Copy, Debug)]
pub struct Flits {
    /// Header, data, tail; the first `len` are meaningful.
    flits: [Flit; PACKET_FLITS_MAX],
    /// Flits of the packet, 2 to 18.
    len: usize,
}

impl std::ops::Deref for Flits {
    type Target = [Flit];
    fn deref(&self) -> &[Flit] {
        &self.flits[..self.len]
    }
}

/// A WRITE of `data` (1 to 256 bytes) to `place` of the PE described by `to`, on vc1 along the
/// deterministic route.
pub fn write(to: PeEntry, place: Place, data: &[u8]) -> Result<Flits> {
    write_on(to, place, data, Vc::Request)
}

/// The same on virtual channel `vc`: vc1 ([`Vc::Request`]) or vc0 ([`Vc::Response`]), which may
/// overtake vc1 and is not covered by a flush.
pub fn write_on(to: PeEntry, place: Place, data: &[u8], vc: Vc) -> Result<Flits> {
    if data.is_empty() || data.len() > PAYLOAD_MAX {
        return Err(Error::invalid(format!("a packet carries 1 to {PAYLOAD_MAX} bytes, not {}", data.len())));
    }
    let n = data_flits(data.len());
    let header = Header {
        kind: PacketType::Write,
        data_flits: n as u8,
        vc,
        adaptive: false,
        notify: false,
        dirbits: 0,
        first_step: None,
        last_step: None,
        dst: to.coords,
        address: Address::Memory { endpoint: to.endpoint, region: place.region as u8, offset: place.offset },
    };
    let mut flits = [0; PACKET_FLITS_MAX];
    flits[0] = header.encode();
    pack(data, &mut flits[1..]);
    flits[n + 1] = Tail { last_byte: ((data.len() - 1) % FLIT_BYTES) as u8, ..Tail::default() }.encode();
    Ok(Flits { flits, len: n + 2 })
}

/// Payload bytes a packet claims to carry; 0 if it cannot be decoded.
pub(crate) fn payload_bytes(packet: &[Flit]) -> usize {
    let (Some(Ok(header)), Some(tail)) = (packet.first().map(|h| Header::decode(*h)), packet.last()) else { return 0 };
    Tail::decode(*tail).payload_bytes(header.data_flits).unwrap_or(0)
}
