//! Values as bytes, for another process that simulates part of the same network.

/// A value that can be written as bytes, least significant first, and read again.
pub trait Packed: Sized {
    /// Appends the value to `out`.
    fn pack(&self, out: &mut Vec<u8>);
    /// Takes a value from the beginning of `from`; `None` if the bytes are none.
    fn unpack(from: &mut &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl Packed for $number {
            #[inline]
            fn pack(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            #[inline]
            fn unpack(from: &mut &[u8]) -> Option<Self> {
                let (bytes, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(Self::from_le_bytes(*bytes))
            }
        })*
    };
}

numbers!(u8, u16, u32, u64);

impl Packed for bool {
    fn pack(&self, out: &mut Vec<u8>) {
        u8::from(*self).pack(out);
    }
    fn unpack(from: &mut &[u8]) -> Option<bool> {
        match u8::unpack(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl<T: Packed + Copy + Default, const N: usize> Packed for [T; N] {
    fn pack(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|value| value.pack(out));
    }
    fn unpack(from: &mut &[u8]) -> Option<[T; N]> {
        let mut all = [T::default(); N];
        for value in &mut all {
            *value = T::unpack(from)?;
        }
        Some(all)
    }
}

/// Implements [`Packed`] for a structure, field by field.
macro_rules! packed {
    ($name:ident { $($field:ident),* }) => {
        impl $crate::raw::Packed for $name {
            fn pack(&self, out: &mut Vec<u8>) {
                let $name { $($field),* } = self;
                $($field.pack(out);)*
            }
            fn unpack(from: &mut &[u8]) -> Option<$name> {
                Some($name { $($field: $crate::raw::Packed::unpack(from)?),* })
            }
        }
    };
}

pub(crate) use packed;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_read_again_and_what_is_cut_off_is_not() {
        let mut bytes = Vec::new();
        7u8.pack(&mut bytes);
        0x1234u16.pack(&mut bytes);
        [1u32, u32::MAX].pack(&mut bytes);
        true.pack(&mut bytes);
        let from = &mut bytes.as_slice();
        assert_eq!((u8::unpack(from), u16::unpack(from)), (Some(7), Some(0x1234)));
        assert_eq!((<[u32; 2]>::unpack(from), bool::unpack(from)), (Some([1, u32::MAX]), Some(true)));
        assert_eq!((u8::unpack(from), <[u32; 2]>::unpack(&mut &bytes[..7])), (None, None));
        assert_eq!(bool::unpack(&mut &[2u8][..]), None);
    }
}
