//! Shares of a source's messages by destination, in numbers instead of draws.

use super::{Destinations, Prepared, placed};

impl Destinations {
    /// Every destination of `from` with its share of the messages; they add up to less than 1 where some have nobody to
    /// go to. A destination may come several times.
    pub fn shares(&self, from: u32) -> Vec<(u32, f64)> {
        let n = self.endpoints;
        let uniform = |share: f64| (0..n).map(move |to| (to, share / f64::from(n)));
        let evenly = |share: f64, among: Vec<u32>| {
            let each = share / among.len() as f64;
            among.into_iter().map(move |to| (to, each))
        };
        match &self.kind {
            Prepared::Uniform => uniform(1.0).collect(),
            Prepared::Others => evenly(1.0, others(from, 0..n, 1)).collect(),
            Prepared::Fixed(to) => vec![(to[from as usize], 1.0)],
            Prepared::Hotspot(spots) => {
                let rest = 1.0 - spots.iter().map(|(_, share)| share).sum::<f64>();
                spots.iter().copied().chain(uniform(rest.max(0.0))).collect()
            }
            Prepared::Sphere { offsets, .. } if offsets.is_empty() => uniform(1.0).collect(),
            Prepared::Sphere { share, layout, offsets } => {
                let digits = layout.digits(from);
                let near = offsets.iter().filter_map(|offset| placed(layout, &digits, offset)).collect();
                evenly(*share, near).chain(uniform(1.0 - share)).collect()
            }
            Prepared::Subtree { share, leaves } => {
                let first = from / leaves * leaves;
                evenly(*share, others(from, first..first + leaves, 1)).chain(uniform(1.0 - share)).collect()
            }
            Prepared::NextGroup(size) => {
                let next = (from / size + 1) * size % n;
                evenly(1.0, (next..next + size).collect()).collect()
            }
            Prepared::Row(p) => evenly(1.0, others(from, from / p * p..from / p * p + p, 1)).collect(),
            Prepared::Column(p) => evenly(1.0, others(from, from % p..n, *p)).collect(),
            Prepared::Matrix(rows) => rows[from as usize].shares(),
        }
    }
}

/// Every `step`-th endpoint of a range but `from`.
fn others(from: u32, range: std::ops::Range<u32>, step: u32) -> Vec<u32> {
    range.step_by(step as usize).filter(|&to| to != from).collect()
}

#[cfg(test)]
mod tests {
    use crate::rng::{Purpose, Stream};
    use crate::traffic::Pattern;
    use angara_model::topology::Layout;

    #[test]
    fn shares_are_those_of_many_draws() {
        let tree = Layout::levels(vec![2, 2, 4]);
        let flat =
            ["uniform", "others", "tornado", "hotspot:3,0.2,5,0.1", "local:2,0.7", "fftrow:4", "fftcol:4", "halo"];
        let on_mesh = flat.map(|text| (text, Layout::mesh(&[4, 4])));
        let on_torus = flat.map(|text| (text, Layout::torus(&[4, 4])));
        let on_tree = ["bad-dragon", "local:1,0.5", "local:2,0.5"].map(|text| (text, tree.clone()));
        for (text, layout) in on_mesh.into_iter().chain(on_torus).chain(on_tree) {
            let to = text.parse::<Pattern>().unwrap().prepare(&layout, 1).unwrap();
            for from in [0, 5] {
                let mut left = [0.0; 16];
                to.shares(from).iter().for_each(|&(to, share)| left[to as usize] += share);
                assert!((left.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{text}");
                let mut stream = Stream::new(1, from, Purpose::Destination);
                (0..20_000).for_each(|_| left[to.pick(from, &mut stream).unwrap() as usize] -= 1.0 / 20_000.0);
                assert!(left.iter().all(|share| share.abs() < 0.015), "{text} from {from}: {left:?}");
            }
        }
    }
}
