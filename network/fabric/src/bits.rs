//! Sets of small numbers in one word.

/// The numbers of the set bits, lowest first.
#[inline(always)]
pub fn bits(mask: impl Into<u64>) -> impl Iterator<Item = u32> {
    let mut rest = mask.into();
    std::iter::from_fn(move || {
        let lowest = (rest != 0).then(|| rest.trailing_zeros());
        rest &= rest.wrapping_sub(1);
        lowest
    })
}

/// The first set bit at or after `turn`, else the first of all. `mask` is not 0.
#[inline(always)]
pub fn round_robin(mask: impl Into<u64>, turn: u32) -> u32 {
    let mask = mask.into();
    let above = if turn >= 64 { 0 } else { mask & (u64::MAX << turn) };
    if above != 0 { above.trailing_zeros() } else { mask.trailing_zeros() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_bit_comes_once_lowest_first() {
        assert_eq!(bits(0u64).next(), None);
        assert_eq!(bits(0x8001u16).collect::<Vec<_>>(), [0, 15]);
        assert!(bits(u64::MAX).eq(0..64));
    }

    #[test]
    fn turns_go_round() {
        let turns = [0, 1, 2, 63, 64].map(|turn| round_robin(1u64 << 63 | 2, turn));
        assert_eq!(turns, [1, 1, 63, 63, 1]);
    }
}
