//! Structs of C as bytes: fields at their places, and socket addresses.

use angara_hca::{Errno, Result};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const INET: u16 = libc::AF_INET as u16;
const INET6: u16 = libc::AF_INET6 as u16;

/// Bytes of `struct sockaddr_in6`, which has room for addresses of both families.
pub(crate) const ADDRESS: usize = 28;

/// A struct to read. What lies behind its end is zero: older programs know fewer fields.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(self, at: usize) -> [u8; N] {
        let mut all = [0; N];
        let there = self.0.get(at..).unwrap_or_default();
        let len = there.len().min(N);
        all[..len].copy_from_slice(&there[..len]);
        all
    }
    pub(crate) fn u8(self, at: usize) -> u8 {
        u8::from_ne_bytes(self.array(at))
    }
    pub(crate) fn u16(self, at: usize) -> u16 {
        u16::from_ne_bytes(self.array(at))
    }
    pub(crate) fn u32(self, at: usize) -> u32 {
        u32::from_ne_bytes(self.array(at))
    }
    pub(crate) fn u64(self, at: usize) -> u64 {
        u64::from_ne_bytes(self.array(at))
    }
    /// `len` bytes, or `EINVAL`.
    pub(crate) fn bytes(self, at: usize, len: usize) -> Result<Vec<u8>> {
        self.0.get(at..at + len).map(<[u8]>::to_vec).ok_or(Errno::INVAL)
    }

    /// A socket address; nothing if its family is 0.
    pub(crate) fn address(self, at: usize) -> Result<Option<SocketAddr>> {
        let port = u16::from_be_bytes(self.array(at + 2));
        let ip = match self.u16(at) {
            0 => return Ok(None),
            INET => IpAddr::from(Ipv4Addr::from(self.array::<4>(at + 4))),
            INET6 => IpAddr::from(Ipv6Addr::from(self.array::<16>(at + 8))),
            _ => return Err(Errno::AFNOSUPPORT),
        };
        Ok(Some(SocketAddr::new(ip, port)))
    }
}

/// A struct to write, zero at first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Record(pub(crate) Vec<u8>);

impl Record {
    pub(crate) fn new(len: usize) -> Record {
        Record(vec![0; len])
    }
    pub(crate) fn bytes(&mut self, at: usize, from: &[u8]) {
        self.0[at..at + from.len()].copy_from_slice(from);
    }
    pub(crate) fn u8(&mut self, at: usize, value: u8) {
        self.0[at] = value;
    }
    pub(crate) fn u16(&mut self, at: usize, value: u16) {
        self.bytes(at, &value.to_ne_bytes());
    }
    pub(crate) fn u32(&mut self, at: usize, value: u32) {
        self.bytes(at, &value.to_ne_bytes());
    }
    pub(crate) fn u64(&mut self, at: usize, value: u64) {
        self.bytes(at, &value.to_ne_bytes());
    }
    pub(crate) fn address(&mut self, at: usize, address: Option<SocketAddr>) {
        let Some(address) = address else { return };
        self.bytes(at + 2, &address.port().to_be_bytes());
        match address.ip() {
            IpAddr::V4(ip) => {
                self.u16(at, INET);
                self.bytes(at + 4, &ip.octets());
            }
            IpAddr::V6(ip) => {
                self.u16(at, INET6);
                self.bytes(at + 8, &ip.octets());
            }
        }
    }
}

/// Bytes that a socket address takes.
pub(crate) fn address_len(address: Option<SocketAddr>) -> u16 {
    match address {
        None => 0,
        Some(SocketAddr::V4(_)) => 16,
        Some(SocketAddr::V6(_)) => ADDRESS as u16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_were_written() {
        for text in ["10.162.0.3:7174", "[::1]:80"] {
            let address: SocketAddr = text.parse().expect("an address");
            let mut record = Record::new(4 + ADDRESS);
            record.address(4, Some(address));
            assert_eq!(Fields(&record.0).address(4), Ok(Some(address)));
        }
        assert_eq!(Fields(&[0; 28]).address(0), Ok(None));
        assert_eq!(Fields(&[9; 28]).address(0), Err(Errno::AFNOSUPPORT));
        assert_eq!((Fields(&[1]).u64(0), Fields(&[1]).bytes(0, 2)), (1u64.to_le(), Err(Errno::INVAL)));
    }
}
