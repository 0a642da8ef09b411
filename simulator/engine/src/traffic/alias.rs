//! Draws from a list by weight in constant time (the alias method of Walker, in Vose's form).

use crate::rng::Stream;

/// Things to draw from, each with its weight.
#[derive(Clone, Debug)]
pub struct Alias(Vec<Slot>);

/// Every slot is equally likely, and is shared by two things at most.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Share of `own` in this slot.
    keep: f64,
    own: u32,
    other: u32,
}

impl Alias {
    /// Prepares draws from `weighted`; weights are finite and not negative. Without a positive weight
    /// there is nothing to draw.
    pub fn new(weighted: &[(u32, f64)]) -> Alias {
        let positive: Vec<(u32, f64)> = weighted.iter().copied().filter(|(_, weight)| *weight > 0.0).collect();
        // Divided first, the sum of large weights stays finite.
        let largest = positive.iter().fold(0.0, |most: f64, (_, weight)| most.max(*weight));
        let sum: f64 = positive.iter().map(|(_, weight)| weight / largest).sum();
        let scale = positive.len() as f64 / sum;
        let slot = |&(own, weight): &(u32, f64)| Slot { keep: weight / largest * scale, own, other: own };
        let mut slots: Vec<Slot> = positive.iter().map(slot).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..slots.len()).partition(|&i| slots[i].keep < 1.0);
        while let (Some(&rich), Some(poor)) = (large.last(), small.pop()) {
            slots[poor].other = slots[rich].own;
            slots[rich].keep -= 1.0 - slots[poor].keep;
            if slots[rich].keep < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        // What is left is full, but for rounding.
        small.into_iter().chain(large).for_each(|i| slots[i].keep = 1.0);
        Alias(slots)
    }

    /// Everything with its share; one may come several times.
    pub fn shares(&self) -> Vec<(u32, f64)> {
        let slot = 1.0 / self.0.len().max(1) as f64;
        let both = |s: &Slot| [(s.own, s.keep.min(1.0) * slot), (s.other, (1.0 - s.keep).max(0.0) * slot)];
        self.0.iter().flat_map(both).filter(|(_, share)| *share > 0.0).collect()
    }

    /// Draws one; `None` if there is nothing to draw.
    #[inline]
    pub fn pick(&self, stream: &mut Stream) -> Option<u32> {
        if self.0.is_empty() {
            return None;
        }
        let slot = self.0[stream.below(self.0.len() as u64) as usize];
        Some(if slot.keep >= 1.0 || stream.chance(slot.keep) { slot.own } else { slot.other })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    fn shares(weighted: &[(u32, f64)]) -> Vec<f64> {
        let (alias, mut stream) = (Alias::new(weighted), Stream::new(3, 0, Purpose::Destination));
        let mut counts = vec![0.0; 8];
        (0..100_000).for_each(|_| counts[alias.pick(&mut stream).unwrap() as usize] += 1e-5);
        let mut exact = vec![0.0; 8];
        alias.shares().iter().for_each(|&(i, share)| exact[i as usize] += share);
        for (drawn, exact) in counts.iter().zip(&exact) {
            assert!((drawn - exact).abs() < 0.01, "{counts:?} {exact:?}");
        }
        counts
    }

    #[test]
    fn shares_are_those_of_the_weights() {
        for weights in [&[1.0][..], &[1.0, 1.0, 1.0], &[0.1, 7.0, 0.0, 2.9], &[1e300, 1e300, 1e-300], &[3.0, 1.0, 4.0]]
        {
            let weighted: Vec<(u32, f64)> = (0..).zip(weights.iter().copied()).collect();
            let largest = weights.iter().fold(0.0, |a: f64, b| a.max(*b));
            let sum: f64 = weights.iter().map(|w| w / largest).sum();
            for (share, weight) in shares(&weighted).iter().zip(weights) {
                assert!((share - weight / largest / sum).abs() < 0.01, "{weights:?}: {share}");
            }
        }
    }

    #[test]
    fn without_weights_there_is_nothing_to_draw() {
        let mut stream = Stream::new(3, 0, Purpose::Destination);
        assert_eq!(Alias::new(&[]).pick(&mut stream), None);
        assert_eq!(Alias::new(&[(4, 0.0)]).pick(&mut stream), None);
        assert_eq!(Alias::new(&[(4, 0.5), (5, 0.0)]).pick(&mut stream), Some(4));
    }
}
