//! How a program has addresses: as bytes of ours, or as text (`FI_ADDR_STR`).
//!
//! Several texts lie one behind the other, each with its zero, as libfabric's own providers have them.

use crate::ADDRESS_BYTES;
use crate::abi::constants::{ADDR_STR, errno};
use crate::address::Address;
use crate::provider::Outcome;
use libc::{c_char, c_void};
use std::ffi::{CStr, CString};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    Bytes,
    Text,
}

impl Form {
    pub(super) fn of(addr_format: u32) -> Form {
        if addr_format == ADDR_STR { Form::Text } else { Form::Bytes }
    }

    /// The address at `p`, if it is one, and how many bytes it takes.
    ///
    /// # Safety
    /// There is one of this form.
    pub(super) unsafe fn read(self, p: *const c_void) -> (Option<Address>, usize) {
        // SAFETY: the caller promises what the callee asks for.
        unsafe {
            match self {
                Form::Bytes => {
                    let bytes = p.cast::<[u8; ADDRESS_BYTES]>().read_unaligned();
                    (Address::decode(&bytes), ADDRESS_BYTES)
                }
                Form::Text => {
                    let text = CStr::from_ptr(p.cast());
                    (text.to_str().ok().and_then(Address::parse), text.count_bytes() + 1)
                }
            }
        }
    }

    /// The address at `p`, if it is one. Nothing if there are no bytes.
    ///
    /// # Safety
    /// Null, or to `len` bytes.
    pub(super) unsafe fn read_within(self, p: *const c_void, len: usize) -> Option<Outcome<Address>> {
        if p.is_null() || len == 0 {
            return None;
        }
        let whole = match self {
            Form::Bytes => len >= ADDRESS_BYTES,
            // SAFETY: the caller promises what the callee asks for.
            Form::Text => unsafe { libc::strnlen(p.cast::<c_char>(), len) < len },
        };
        // SAFETY: all of it is there.
        let address = if whole { unsafe { self.read(p).0 } } else { None };
        Some(address.ok_or(errno::EINVAL))
    }

    pub(super) fn write(self, address: Address) -> Vec<u8> {
        match self {
            Form::Bytes => address.encode().to_vec(),
            // No address has a zero in its text.
            Form::Text => CString::new(address.to_string()).unwrap_or_default().into_bytes_with_nul(),
        }
    }

    /// Gives an address to a caller, as much as fits, and says how many bytes it has.
    ///
    /// # Safety
    /// `len` says how many bytes `out` has, which may be null.
    pub(super) unsafe fn give(self, address: Address, out: *mut c_void, len: *mut usize) -> Outcome {
        let bytes = self.write(address);
        // SAFETY: the caller promises what the callee asks for.
        unsafe {
            let room = std::mem::replace(&mut *len, bytes.len());
            if !out.is_null() {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast(), room.min(bytes.len()));
            }
            if room < bytes.len() { Err(errno::ETOOSMALL) } else { Ok(()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Name;

    #[test]
    fn addresses_of_both_forms_are_read_where_they_are_whole() {
        let address = Address::Name(Name { host: None, service: 9228 });
        for form in [Form::Bytes, Form::Text] {
            let mut bytes = form.write(address);
            let (p, len): (*const c_void, usize) = (bytes.as_ptr().cast(), bytes.len());
            // SAFETY: the vector has as many bytes.
            unsafe {
                assert_eq!(form.read(p), (Some(address), len));
                assert_eq!(form.read_within(p, len), Some(Ok(address)));
                assert_eq!(form.read_within(p, len - 1), Some(Err(errno::EINVAL)));
                assert_eq!((form.read_within(p, 0), form.read_within(std::ptr::null(), 9)), (None, None));
            }
            bytes[2] = b'?';
            // SAFETY: the vector has as many bytes.
            assert_eq!(unsafe { form.read_within(bytes.as_ptr().cast(), len) }, Some(Err(errno::EINVAL)));
            let (mut out, mut room) = ([0u8; 64], 5);
            // SAFETY: there is as much room as is said.
            let given = unsafe { form.give(address, out.as_mut_ptr().cast(), &mut room) };
            assert_eq!((given, room), (Err(errno::ETOOSMALL), len));
            assert_eq!((&out[..5], out[5]), (&form.write(address)[..5], 0));
            // SAFETY: there is as much room as is said.
            assert_eq!(unsafe { form.give(address, out.as_mut_ptr().cast(), &mut room) }, Ok(()));
            assert_eq!(out[..len], form.write(address));
        }
    }
}
