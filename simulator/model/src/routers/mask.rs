//! Sets of small numbers: of a router's channels, and of routers or sources.

use angara_fabric::bits::round_robin;

/// The lowest `n` channels of a port, 1 to 32, as a mask.
#[inline(always)]
const fn low(n: u32) -> u32 {
    u32::MAX >> (32 - n)
}

/// A set of the channels of one port, as small as the widest port needs: it is part of the state of every channel.
pub(crate) trait Field: Copy + Send + Into<u32> + 'static {
    const NONE: Self;
    /// The set of a mask that has no channel beyond the widest port's.
    fn of(mask: u32) -> Self;
}

impl Field for u8 {
    const NONE: u8 = 0;
    #[inline(always)]
    fn of(mask: u32) -> u8 {
        mask as u8
    }
}

impl Field for u32 {
    const NONE: u32 = 0;
    #[inline(always)]
    fn of(mask: u32) -> u32 {
        mask
    }
}

/// A set of a router's channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mask<const W: usize>([u64; W]);

impl<const W: usize> Mask<W> {
    pub(crate) const NONE: Self = Mask([0; W]);

    #[inline(always)]
    pub(crate) fn set(&mut self, i: u32) {
        self.0[i as usize / 64 % W] |= 1 << (i % 64);
    }
    #[inline(always)]
    pub(crate) fn clear(&mut self, i: u32) {
        self.0[i as usize / 64 % W] &= !(1 << (i % 64));
    }
    #[inline(always)]
    pub(crate) fn has(&self, i: u32) -> bool {
        self.0[i as usize / 64 % W] >> (i % 64) & 1 != 0
    }
    /// Those of both sets.
    pub(crate) fn common(mut self, other: Self) -> Self {
        (0..W).for_each(|w| self.0[w] &= other.0[w]);
        self
    }
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.0.iter().any(|&w| w != 0)
    }
    #[inline(always)]
    pub(crate) fn add(&mut self, other: Self) {
        (0..W).for_each(|w| self.0[w] |= other.0[w]);
    }
    /// `width` channels from `first` on, which do not straddle words.
    #[inline(always)]
    pub(crate) fn field(&self, first: u32, width: u32) -> u32 {
        (self.0[first as usize / 64 % W] >> (first % 64)) as u32 & low(width)
    }
    /// Takes the lowest channel out.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<u32> {
        for w in 0..W {
            let word = self.0[w];
            if word != 0 {
                self.0[w] = word & (word - 1);
                return Some((w * 64) as u32 + word.trailing_zeros());
            }
        }
        None
    }
    /// Takes out all channels of the lowest field of `width` that has one: the field's first and its channels.
    #[inline(always)]
    pub(crate) fn pop_field(&mut self, width: u32) -> Option<(u32, u32)> {
        for w in 0..W {
            let word = self.0[w];
            if word != 0 {
                let first = word.trailing_zeros() & !(width - 1);
                let field = (word >> first) as u32 & low(width);
                self.0[w] = word & !((field as u64) << first);
                return Some(((w * 64) as u32 + first, field));
            }
        }
        None
    }
    /// The first channel at or after `turn`, else the first of all; the set is not empty.
    #[inline(always)]
    pub(crate) fn round_robin(&self, turn: u32) -> u32 {
        if W == 1 {
            return round_robin(self.0[0], turn);
        }
        let above = |w: usize| match (turn as usize).checked_sub(w * 64) {
            Some(t) if t >= 64 => 0,
            Some(t) => self.0[w] & (u64::MAX << t),
            None => self.0[w],
        };
        let first = (0..W).map(|w| (w, above(w))).find(|x| x.1 != 0);
        let (w, word) = first.or_else(|| (0..W).map(|w| (w, self.0[w])).find(|x| x.1 != 0)).unwrap_or_default();
        (w * 64) as u32 + word.trailing_zeros()
    }
}

/// A set of small numbers.
#[derive(Default)]
pub(crate) struct Bits(pub(crate) Vec<u64>);

impl Bits {
    pub(crate) fn new(n: usize) -> Bits {
        Bits(vec![0; n.div_ceil(64)])
    }
    #[inline(always)]
    pub(crate) fn set(&mut self, i: u32) {
        self.0[i as usize >> 6] |= 1 << (i & 63);
    }
    pub(crate) fn any(&self) -> bool {
        self.0.iter().any(|&w| w != 0)
    }
}
