//! How operations fail, and how peers tell each other.

use crate::abi::constants::errno;
use crate::wire::Reader;
use angara::mailbox::Message;

/// Result of an operation: an error is a number of libfabric.
pub(crate) type Outcome<T = ()> = std::result::Result<T, i32>;

/// Why an operation failed. Nothing did if `error` is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    /// Error number of libfabric.
    pub(crate) error: i32,
    /// Error of the system or the adapter, here or at the peer.
    pub(crate) cause: i32,
}

impl Fault {
    pub(crate) const NONE: Fault = Fault { error: 0, cause: 0 };

    pub(crate) fn io(cause: i32) -> Fault {
        Fault { error: errno::EIO, cause }
    }

    /// As peers tell each other: what went well is four bytes.
    pub(crate) fn encode(&self) -> ([u8; 8], usize) {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.error.to_le_bytes());
        bytes[4..].copy_from_slice(&self.cause.to_le_bytes());
        (bytes, if self.error == 0 { 4 } else { 8 })
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Fault> {
        let error = (reader.u32()? as i32).max(0);
        Some(Fault { error, cause: reader.u32().map_or(error, |cause| cause as i32) })
    }
}

impl From<i32> for Fault {
    fn from(error: i32) -> Fault {
        Fault { error, cause: error }
    }
}

/// Converts the adapter's error to the closest error of the system.
impl From<&angara::Error> for Fault {
    fn from(error: &angara::Error) -> Fault {
        match error {
            angara::Error::Unreachable { .. } => Fault::io(libc::EHOSTUNREACH),
            _ => Fault::from(errno::EIO),
        }
    }
}

/// How something has ended, as a message says behind its head.
pub(super) fn fault_of(message: &Message<'_>, at: usize) -> Option<Fault> {
    let mut bytes = [0; 8];
    let bytes = &mut bytes[..message.len().saturating_sub(at).min(8)];
    message.copy(at, bytes);
    Fault::decode(&mut Reader(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_told_what_failed_and_why() {
        for fault in [Fault::NONE, errno::ENOMEM.into(), Fault::io(libc::EFAULT)] {
            let (bytes, len) = fault.encode();
            assert_eq!(Fault::decode(&mut Reader(&bytes[..len])), Some(fault));
        }
        assert_eq!(Fault::decode(&mut Reader(&[1, 0, 0])), None);
        assert_eq!(Fault::decode(&mut Reader(&(-5i32).to_le_bytes())), Some(Fault::NONE));
    }
}
