//! Addresses: of endpoints, and of whoever goes by a name. Both have [`ADDRESS_BYTES`], in this machine's byte order.

use crate::ADDRESS_BYTES;
use crate::wire::Reader;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Address, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Address {
    Endpoint {
        /// Names the job.
        job: u64,
        seat: u32,
        generation: u32,
        ep: u32,
    },
    /// Whoever has that name.
    Name(Name),
}

/// Name by which a program calls an endpoint before it knows its address: a host and a service, as with sockets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Name {
    /// Address of the host; `None`: any host, this one first.
    pub(crate) host: Option<IpAddr>,
    /// Number of the service, 0 for none.
    pub(crate) service: u16,
}

const ENDPOINT: [u8; 8] = *b"ANGARA\0\x01";
const NAME: [u8; 8] = *b"ANGARA\0\x02";
const SCHEME: &str = "angara://";

/// A host as 16 bytes, the form of IPv6 that IPv4 addresses have, too.
pub(crate) fn host_bytes(host: IpAddr) -> [u8; 16] {
    match host {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// [`host_bytes`] back. Nothing if all are zero.
pub(crate) fn host_of(bytes: [u8; 16]) -> Option<IpAddr> {
    (bytes != [0; 16]).then(|| Ipv6Addr::from(bytes).to_canonical())
}

impl Name {
    /// Nobody in particular.
    pub(crate) const ANY: Name = Name { host: None, service: 0 };
}

impl Address {
    pub(crate) fn encode(&self) -> [u8; ADDRESS_BYTES] {
        let mut out = [0; ADDRESS_BYTES];
        match *self {
            Address::Endpoint { job, seat, generation, ep } => {
                out[..8].copy_from_slice(&ENDPOINT);
                out[8..16].copy_from_slice(&job.to_le_bytes());
                for (at, word) in [seat, generation, ep].into_iter().enumerate() {
                    out[16 + 4 * at..20 + 4 * at].copy_from_slice(&word.to_le_bytes());
                }
            }
            Address::Name(Name { host, service }) => {
                out[..8].copy_from_slice(&NAME);
                out[8..24].copy_from_slice(&host.map_or([0; 16], host_bytes));
                out[24..26].copy_from_slice(&service.to_le_bytes());
            }
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8; ADDRESS_BYTES]) -> Option<Address> {
        let mut reader = Reader(bytes);
        let magic = reader.take(8)?;
        let address = if magic == ENDPOINT {
            let job = reader.u64()?;
            Address::Endpoint { job, seat: reader.u32()?, generation: reader.u32()?, ep: reader.u32()? }
        } else if magic == NAME {
            let host = host_of(reader.take(16)?.try_into().ok()?);
            Address::Name(Name { host, service: reader.u16()? })
        } else {
            return None;
        };
        reader.0.iter().all(|byte| *byte == 0).then_some(address)
    }

    /// Reads what [`Display`](fmt::Display) writes.
    pub(crate) fn parse(text: &str) -> Option<Address> {
        let rest = text.strip_prefix(SCHEME)?;
        let Some((job, place)) = rest.split_once('/') else {
            let (host, service) = rest.rsplit_once(':')?;
            let host = match host.trim_start_matches('[').trim_end_matches(']') {
                "*" => None,
                host => Some(host.parse().ok()?),
            };
            return Some(Address::Name(Name { host, service: service.parse().ok()? }));
        };
        let (seat, ep) = place.split_once('/')?;
        let (seat, generation) = seat.split_once('.')?;
        Some(Address::Endpoint {
            job: u64::from_str_radix(job, 16).ok()?,
            seat: seat.parse().ok()?,
            generation: generation.parse().ok()?,
            ep: u32::from_str_radix(ep, 16).ok()?,
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Address::Endpoint { job, seat, generation, ep } => {
                write!(f, "{SCHEME}{job:016x}/{seat}.{generation}/{ep:x}")
            }
            Address::Name(name) => write!(f, "{name}"),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            None => write!(f, "{SCHEME}*:{}", self.service),
            Some(IpAddr::V4(v4)) => write!(f, "{SCHEME}{v4}:{}", self.service),
            Some(IpAddr::V6(v6)) => write!(f, "{SCHEME}[{v6}]:{}", self.service),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Address> {
        let name = |host: Option<&str>, service| {
            Address::Name(Name { host: host.map(|host| host.parse().expect("an address")), service })
        };
        vec![
            Address::Endpoint { job: 0x1234_5678_9abc_def0, seat: 7, generation: 3, ep: 0xa9 },
            Address::Name(Name::ANY),
            name(None, 9228),
            name(Some("10.1.2.3"), 65535),
            name(Some("fe80::17"), 1),
        ]
    }

    #[test]
    fn addresses_come_back_and_others_are_refused() {
        for address in all() {
            let mut bytes = address.encode();
            assert_eq!(Address::decode(&bytes), Some(address));
            bytes[31] = 1;
            assert_eq!(Address::decode(&bytes), None);
            bytes = address.encode();
            bytes[0] = b'B';
            assert_eq!(Address::decode(&bytes), None);
        }
        assert_eq!(Address::decode(&[0; ADDRESS_BYTES]), None);
    }

    #[test]
    fn texts_of_addresses_are_read_back() {
        for address in all() {
            assert_eq!(Address::parse(&address.to_string()), Some(address), "{address}");
        }
        for nonsense in ["", "angara://", "angara://*", "angara://host:9", "angara://*:65536", "angara://1/2/3", "*:9"]
        {
            assert_eq!(Address::parse(nonsense), None, "{nonsense}");
        }
    }
}
