//! Axes of charts.

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use std::ops::Range;

/// An axis with its ends.
#[derive(Clone)]
pub(super) enum Axis {
    /// Even.
    Linear(RangedCoordf64),
    /// Logarithmic, from one positive number to another.
    Log(f64, f64),
    /// N places with names.
    Places(usize),
    /// Another one, with these numbers.
    At(Box<Axis>, Vec<f64>),
}

impl Axis {
    pub(super) fn new((low, high): (f64, f64), log: bool) -> Axis {
        if log { Axis::Log(low, high) } else { Axis::Linear((low..high).into()) }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (low, high): (i32, i32)) -> i32 {
        let share = match self {
            Axis::Linear(axis) => return axis.map(value, (low, high)),
            Axis::Log(from, to) => (value / from).ln() / (to / from).ln(),
            Axis::Places(all) => (value + 0.5) / *all as f64,
            Axis::At(axis, _) => return axis.map(value, (low, high)),
        };
        low + (share * f64::from(high - low)).round() as i32
    }

    fn key_points<H: KeyPointHint>(&self, hint: H) -> Vec<f64> {
        match self {
            Axis::Linear(axis) => axis.key_points(hint),
            Axis::Log(from, to) => {
                let fine = hint.weight().allow_light_points();
                let points = decades(*from, *to, hint.max_num_points(), fine);
                // A short piece is nearly even.
                if points.len() > 2 { points } else { RangedCoordf64::from(*from..*to).key_points(hint) }
            }
            Axis::Places(all) => (0..*all).map(|place| place as f64).collect(),
            Axis::At(_, numbers) => numbers.clone(),
        }
    }

    fn range(&self) -> Range<f64> {
        match self {
            Axis::Linear(axis) => axis.range(),
            Axis::Log(from, to) => *from..*to,
            Axis::Places(all) => -0.5..*all as f64 - 0.5,
            Axis::At(axis, _) => axis.range(),
        }
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(value: &f64) -> String {
        value.to_string()
    }
}

impl From<Axis> for Range<f64> {
    fn from(axis: Axis) -> Range<f64> {
        axis.range()
    }
}

/// Round numbers of a logarithmic axis, at most `most`: as many in each decade as fit, and more if they are for `fine`
/// lines.
pub(super) fn decades(from: f64, to: f64, most: usize, fine: bool) -> Vec<f64> {
    let (first, last) = (from.log10().floor() as i32, to.log10().ceil() as i32);
    let points = |digits: &[u8], step: usize| -> Vec<f64> {
        let all = (first..=last).step_by(step);
        let all = all.flat_map(|e| digits.iter().map(move |d| f64::from(*d) * 10f64.powi(e)));
        all.filter(|p| (from..=to).contains(p)).collect()
    };
    let coarse: &[&[u8]] = &[&[1, 2, 5], &[1, 3], &[1]];
    let all: &[&[u8]] = &[&[1, 2, 3, 4, 5, 6, 7, 8, 9], &[1, 2, 5], &[1]];
    let tried = if fine { all } else { coarse };
    let fitting = tried.iter().map(|digits| points(digits, 1)).find(|points| points.len() <= most);
    fitting.unwrap_or_else(|| points(&[1], ((last - first) as usize).div_ceil(most.max(1)).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_has_round_numbers() {
        assert_eq!(decades(1.0, 100.0, 10, false), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        assert_eq!(decades(0.9, 120.0, 5, false), [1.0, 3.0, 10.0, 30.0, 100.0]);
        assert_eq!(decades(0.9, 120.0, 3, false), [1.0, 10.0, 100.0]);
        assert_eq!(decades(1.0, 1e9, 5, false).len(), 5);
        assert_eq!(decades(1.0, 10.0, 100, true).len(), 10);
        assert!(decades(11.0, 13.0, 10, false).is_empty());
    }

    #[test]
    fn values_stand_where_their_share_of_the_axis_ends() {
        let at = |axis: Axis, value: f64| axis.map(&value, (0, 100));
        assert_eq!(at(Axis::new((0.0, 10.0), false), 5.0), 50);
        assert_eq!(at(Axis::new((1.0, 100.0), true), 10.0), 50);
        assert_eq!(at(Axis::Places(2), 1.0), 75);
        assert_eq!(Range::from(Axis::Places(2)), -0.5..1.5);
        let given = Axis::At(Box::new(Axis::new((1.0, 100.0), true)), vec![8.0, 16.0]);
        assert_eq!((given.key_points(5), at(given, 10.0)), (vec![8.0, 16.0], 50));
    }
}
